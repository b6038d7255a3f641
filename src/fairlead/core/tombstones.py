"""What is gone stays gone: the uids of deleted objects, kept for a while against late news of them.

Called by `core.reduce` and `core.things`.
"""

from fairlead.core.state import State

_LIFE = 600_000
_KEPT = 4096


def bury(state: State, uid: str) -> None:
    """Remember that the object is gone; the oldest are forgotten."""
    state.tombstones.pop(uid, None)  # to the end: the oldest come first
    state.tombstones[uid] = state.now
    while len(state.tombstones) > _KEPT:
        oldest = next(iter(state.tombstones))
        if state.tombstones[oldest] >= state.now - _LIFE:
            break
        del state.tombstones[oldest]
