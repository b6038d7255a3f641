"""Whether starts still respect other pods, volumes and the places their members are to lie in.

Called by `core.verify` for a plan that comes back. What the plan was made from is usually still so, and then
there is nothing to look at; where pods, nodes or storage have changed since, each start is looked at with
those of the plan before it, as the plan itself would.
"""

from fairlead.core import topology
from fairlead.core.census import crowd_of, refresh
from fairlead.core.crowd import Company
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.plan import Plan, Start


def guard(state: State, plan: Plan, own: bool) -> "Guard | None":
    """Somebody to ask about each start in order; None if nothing that matters has changed."""
    asked = [state.groups.get(decision.group) for decision in plan.decisions]
    near = any(group is not None and group.layout.near for group in asked)
    if not (state.likes or near):
        return None
    changed = refresh(state) if state.index is not None else bool(state.likes)
    changed |= (
        state.index_at > plan.version
        or not own
        or state.nodes_at > plan.version
        or state.around_at != state.surroundings.version
    )
    changed |= any(group is not None and group.asked_at > plan.version for group in asked)
    return Guard(state) if changed else None


class Guard:
    """The present picture, and what of the plan was accepted so far."""

    def __init__(self, state: State) -> None:
        self._state = state
        crowd = crowd_of(state)
        self._company = None if crowd is None else Company(crowd)

    def objection(self, group: Group, start: Start) -> str:
        """Why the start must not be done; "" if it may, and then it counts for those after it."""
        company, rows = self._company, self._state.inventory.rows
        if not self._lies_well(group, start):
            return f"{group.id}: its members would not lie together any more"
        if company is None:
            return ""
        likes = {uid: task.like for request in group.requests for task in request.tasks for uid in task.uids}
        mark = company.mark()
        for place in start.placements:
            like, row = likes.get(place.pod), rows.get(place.node)
            if like is None or row is None:
                continue
            if company.crowd.concerns(like) and not company.allowed(like)[row]:
                why = company.lack(like, company.crowd.cluster.rows([row]))
                company.rewind(mark)
                return f"{group.id} may not be on {place.node} any more: {why}"
            company.take(like, row)
        return ""

    def _lies_well(self, group: Group, start: Start) -> bool:
        required = group.layout.required
        if not required:
            return True
        inventory = self._state.inventory
        levels = topology.of(inventory.classes(), self._state.settings.topology)
        rows = [inventory.rows[place.node] for place in start.placements if place.node in inventory.rows]
        return levels.together(required, rows)
