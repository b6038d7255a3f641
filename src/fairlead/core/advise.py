"""Names the nodes of promises where nodes do not matter for the start: advice for people, nothing more.

Called by `core.cycle` at the end of a plan on slots that are all alike (`core.pool`), where a promise is a
start and a number. The nearest promises are laid in order of their starts on the nodes that are free then.
Must not change anything that is decided.
"""

from collections.abc import Sequence

from fairlead.core.backfill import Ahead
from fairlead.core.profile import shares
from fairlead.core.snapshot import Draft, Promise, Snapshot

NAMED = 16
"""How many promises are told with their nodes: the nearest."""


def nodes_of(
    snapshot: Snapshot,
    draft: Draft,
    begun: Sequence[tuple[int, int, int]],
    promised: Sequence[Promise],
) -> dict[str, tuple[str, ...]]:
    """Group -> node names, for the nearest promises; `begun` is what this plan starts (`Cycle.begun`)."""
    ahead = Ahead(snapshot, draft.free)
    for mark, end, duration in begun:
        ahead.started(shares(draft.log[mark:end]), duration)
    nearest = sorted(promised, key=lambda promise: (promise.start, promise.request.order))[:NAMED]
    steps = ahead.lay(nearest)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return {gid: ahead.nodes(offer) for gid, offer in done.value.items()}
