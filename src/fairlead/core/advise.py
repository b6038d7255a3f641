"""Names the nodes of promises where nodes do not matter for the start: advice for people, nothing more.

Called by `core.cycle` at the end of a plan on slots that are all alike (`core.pool`), where a promise is a
start and a number. The nearest promises are laid in order of their starts on the nodes that are free then.
Must not change anything that is decided.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from fairlead.core.backfill import Ahead
from fairlead.core.profile import shares
from fairlead.core.relay import by_start
from fairlead.core.snapshot import Draft, Promise, Snapshot
from fairlead.core.steps import now
from fairlead.model.plan import Decision, Reserve

NAMED = 16
"""How many promises are told with their nodes: the nearest."""
Begun = Sequence[tuple[int, int, int]]
"""`Cycle.begun`: what a plan starts."""


def name_nodes(
    snapshot: Snapshot, draft: Draft, begun: Begun, promised: Sequence[Promise], decisions: list[Decision]
) -> None:
    """Let people know which nodes a promise may come to stand on, where none was chosen."""
    if any(isinstance(decision, Reserve) and decision.start for decision in decisions):
        named = nodes_of(snapshot, draft, begun, promised)
        for i, decision in enumerate(decisions):
            if isinstance(decision, Reserve) and decision.start:
                decisions[i] = replace(decision, nodes=named.get(decision.group, ()))


def nodes_of(
    snapshot: Snapshot, draft: Draft, begun: Begun, promised: Sequence[Promise]
) -> dict[str, tuple[str, ...]]:
    """Group -> node names, for the nearest promises."""
    ahead = Ahead(snapshot, draft.free)
    for mark, end, duration in begun:
        ahead.started(shares(draft.log[mark:end]), duration)
    nearest = sorted(promised, key=by_start)[:NAMED]
    return {gid: ahead.nodes(offer) for gid, offer in now(ahead.lay(nearest)).items()}
