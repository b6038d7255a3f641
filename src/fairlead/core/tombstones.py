"""What is gone stays gone: the uids of deleted objects, kept for a while against late news of them.

Called by `core.reduce` and `core.things`. News of a uid can come after its end only from a list that was
asked for before it. A watch tells of each object in order and never goes back, also when it goes on from an
earlier version, and one that lists anew does nothing else meanwhile; if the versions themselves go back,
nothing is remembered (`core.rewind`). Beside the watches two lists are made, and LIFE is for these: that of
an audit, which is not believed when it is too old (`runtime.audit`), and that of a takeover (`kube.port`),
which takes seconds; should it take longer than LIFE, what went meanwhile would count until the next audit.
An owner is known to be gone as long as a group names it.
"""

from fairlead.core.state import State

LIFE = 180_000
"""Milliseconds."""
_KEPT = 4096
"""So many are kept however old they are."""


def bury(state: State, uid: str) -> None:
    """Remember that the object is gone; the oldest are forgotten."""
    state.tombstones.pop(uid, None)  # to the end: the oldest come first
    state.tombstones[uid] = state.now
    while len(state.tombstones) > _KEPT:
        oldest = next(iter(state.tombstones))
        if state.tombstones[oldest] >= state.now - LIFE:
            break
        del state.tombstones[oldest]
        if oldest in state.groups_of_owner:
            state.tombstones[oldest] = state.now
