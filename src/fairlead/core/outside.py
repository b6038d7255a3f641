"""A plan from outside against the present state: each start by itself, each refusal with its reason.

Called by `core.engine` for a PlanProposed that answers no Propose and rests on no snapshot (version 0). What
holds is granted as a start of our own plans is; what does not is refused, and nobody else is concerned. A pod
that goes to a slot may have what its own slot holds, and nothing of another's; nobody stands ahead of it.
"""

from msgspec import structs

from fairlead.core.census import cluster_of_now
from fairlead.core.crowd import Company, Crowd
from fairlead.core.esi.asking import too_big, unusable, where, why
from fairlead.core.esi.places import hold_key, rest_of, touch
from fairlead.core.esi.table import Slot, SlotTable
from fairlead.core.guard import guard
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.core.verify import Verdict, allowed, asked, claim, grant, objection
from fairlead.model.group import Phase
from fairlead.model.plan import Grant, Plan, Start
from fairlead.model.pod import Pod

_TOLD = 3
"""So many refusals are told in one sentence about the plan."""


def outside(state: State, plan: Plan) -> Verdict:
    """Grant every start that holds now. Why a pod was refused is kept in `Esi.refused`."""
    grants: list[Grant] = []
    refused: list[str] = []
    spent = plan.id in state.recording or f"{plan.id}/0" in state.grants
    for decision in plan.decisions:
        group = state.groups.get(decision.group)
        if not isinstance(decision, Start):
            text = f"{decision.group}: only starts are taken from outside"
        elif spent:
            text = f"{decision.group}: there is a plan {plan.id} already"
        else:
            text = _objection(state, group, decision, plan)
        if text:
            refused.append(text)
        elif group is not None and isinstance(decision, Start):
            grants.append(_grant(state, group, decision, plan, len(grants)))
        if isinstance(decision, Start) and group is not None:
            _note(state, group, decision, text)
    more = f" and {len(refused) - _TOLD} more" if len(refused) > _TOLD else ""
    return Verdict(tuple(grants), "; ".join(refused[:_TOLD]) + more)


def _objection(state: State, group: Group | None, start: Start, plan: Plan) -> str:
    """Why the start must not be done; "" if it may."""
    if group is None:
        return f"there is no group {start.group}"
    for place in start.placements:
        pod = state.pods.get(place.pod)
        if pod is None or place.pod not in group.pods:
            return f"{group.id} has no pod {place.pod}"
        if place.pod in state.intents:
            return f"{group.id}: pod {pod.name} is being started already"
        if pod.node:
            return f"{group.id}: pod {pod.name} is on {pod.node} already"
        if state.inventory.node(place.node) is None:
            return f"{group.id}: there is no node {place.node}"
    text = _of_slot(state, group, start) if group.slotted else _of_any(state, group, start, plan)
    return text or claim(state, group, start)


def _of_any(state: State, group: Group, start: Start, plan: Plan) -> str:
    """What speaks against the start of a group that our own plans may start, too."""
    alone = structs.replace(plan, decisions=(start,))
    text = objection(state, group, start, min(state.arrivals, default=None), alone, trusted=False)
    mindful = None if text else guard(state, alone, own=False)
    return mindful.objection(group, start) if mindful is not None else text


def _of_slot(state: State, group: Group, start: Start) -> str:
    """What speaks against the start of a pod in its slot."""
    request = asked(group, start)
    if request is None:
        return f"{group.id} does not ask for this (it is {group.phase}: {group.reason.text})"
    pod, node = state.pods[start.placements[0].pod], start.placements[0].node
    found = where(state, pod.uid)
    if found is None:
        return f"pod {pod.name} has no slot: {why(state, pod)}"
    table, slot = found
    if slot.node != node:
        return f"the slot of pod {pod.name} is {slot.key}, not on {node}"
    if slot.ghost:
        return f"a ghost pod is still in slot {slot.key}"
    if not allowed(state, request, start.placements):
        return f"node {node} takes pod {pod.name} no more: labels, taints or readiness forbid it"
    if text := too_big(table, pod) or _crowded(state, pod, node) or _no_room(state, table, slot, pod):
        return f"pod {pod.name} may not be in slot {slot.key}: {text}"
    return ""


def _no_room(state: State, table: SlotTable, slot: Slot, pod: Pod) -> str:
    """Why the slot, and what the node has free beside it, is not enough for the pod; "" if it is."""
    if not slot.fits:
        return slot.problem or f"node {slot.node} has no room for its slots"
    text = unusable(state, table, slot, pod)
    if text:
        return text
    inventory, need = state.inventory, dict(state.asked(pod))
    _, own = inventory.held.get(hold_key(table, slot), ("", ()))
    for name, amount in own:
        need[name] = need.get(name, 0) - amount
    left = tuple([(name, amount) for name, amount in need.items() if amount > 0])
    return "" if inventory.fits(slot.node, left) else f"node {slot.node} is full"


def _crowded(state: State, pod: Pod, node: str) -> str:
    """What other pods on the node, or volumes, keep it off; "" if nothing does."""
    like = state.spoken.like(pod, pod.shape)
    row = state.inventory.rows.get(node)
    if like is None or row is None:
        return ""
    crowd = Crowd(cluster_of_now(state), [like])
    if not crowd.concerns(like):
        return ""
    company = Company(crowd)
    return "" if company.allowed(like)[row] else company.lack(like, crowd.cluster.rows([row]))


def _grant(state: State, group: Group, start: Start, plan: Plan, index: int) -> Grant:
    """Grant it; what its slot held passes to the pod, so that the next start finds the rest."""
    given = grant(state, group, start, plan, index)
    if not start.growth:
        group.planned_at = state.now
    found = where(state, start.placements[0].pod) if group.slotted else None
    if found is not None:
        rest_of(state, *found)
    return given


def _note(state: State, group: Group, start: Start, text: str) -> None:
    """Keep the refusal for people, and for the outside scheduler: `control.esi` tells it."""
    refused = state.esi.refused
    for place in start.placements:
        if not text:
            refused.pop(place.pod, None)
        elif _waits(group, place.pod) and refused.get(place.pod) != text:
            refused[place.pod] = text
            state.esi.dirty = True
            touch(state, place.pod)


def _waits(group: Group, pod: str) -> bool:
    return group.slotted and group.phase is Phase.QUEUED and pod in group.pods
