"""A plan against the present state: accepted as a prefix, so that nobody overtakes by staleness.

Called by `core.engine` for every PlanProposed, whoever made it. The first Start that no longer holds
(its members changed, its nodes filled or closed, somebody now stands ahead) drops the rest, which is
planned anew. Accepted Starts become intents, which hold capacity from this moment on.
"""

from typing import NamedTuple

import numpy as np

from fairlead.core.assume import assume
from fairlead.core.estimates import expect
from fairlead.core.groups import move, reword
from fairlead.core.guard import guard
from fairlead.core.inventory import Inventory, Vector
from fairlead.core.labels import constraints
from fairlead.core.line import withdraw
from fairlead.core.live import Group, Intent
from fairlead.core.snapshot import Order, Request
from fairlead.core.state import State
from fairlead.model.group import Outcome, Phase, Reason, Why
from fairlead.model.plan import Grant, Placement, Plan, Reject, Reserve, Start, Wait


class Verdict(NamedTuple):
    """What was granted, and why the rest of the plan was dropped ("" if none was)."""

    grants: tuple[Grant, ...]
    stale: str


def verify(state: State, plan: Plan, own: bool = True) -> Verdict:
    """Accept the longest prefix of the plan's starts that holds now, and note its verdicts.

    Only an `own` plan has looked at the whole queue, and says who holds up others.
    """
    ahead = min(state.arrivals, default=None)
    trusted = _all_fit(state, plan)
    mindful = guard(state, plan, own)
    grants: list[Grant] = []
    promises: dict[str, Reserve] = {}
    stale = f"{state.void[1]} waits no more" if state.void[0] > plan.version else ""
    for decision in plan.decisions:
        group = state.groups.get(decision.group)
        if isinstance(decision, Reserve):
            stale = stale or _void(state, group, decision, plan)
            if not stale:
                promises.setdefault(decision.group, decision)  # of several that join it, the first one's
        if not isinstance(decision, Start):
            if group is not None and isinstance(decision, Reject):
                _reject(state, group, decision, plan)
            elif group is not None and not stale:
                _note(state, group, decision)
                if isinstance(decision, Wait):
                    _withdraw_promise(state, group.id)
            continue
        if stale:
            continue
        stale = objection(state, group, decision, ahead, plan, trusted)
        if not stale and mindful is not None and group is not None:
            stale = mindful.objection(group, decision)
        if not stale and group is not None:
            stale = claim(state, group, decision)
        if not stale and group is not None:
            grants.append(grant(state, group, decision, plan, len(grants)))
            if not decision.growth:
                group.planned_at = plan.at if own else state.now
    if stale:
        state.reopen()
    else:
        if own:
            _set_heads(state, plan)
        for gid in plan.withdrawn:
            _withdraw_promise(state, gid)
    for gid, promise in promises.items():
        _promise(state, gid, promise)
    return Verdict(tuple(grants), stale)


def _all_fit(state: State, plan: Plan) -> bool:
    """Whether all starts together fit by capacity now, in one pass over the columns.

    The usual case; only where it does not hold is each start checked by itself.
    """
    inventory = state.inventory
    asked: list[tuple[Vector, int]] = []
    for decision in plan.decisions:
        if isinstance(decision, Start):
            for place in decision.placements:
                pod, row = state.pods.get(place.pod), inventory.rows.get(place.node)
                if pod is None or row is None:
                    return False
                asked.append((inventory.vector(state.asked(pod)), row))
    if len(asked) <= _FEW:
        return _few_fit(inventory, asked)
    need = np.zeros_like(inventory.free)  # only now: a request's first vector may add columns
    for vector, row in asked:
        need[vector.rows, row] += vector.amounts
    return bool((need <= np.maximum(inventory.free, 0)).all())


_FEW = 8
"""Placements up to which plain numbers are quicker than columns."""


def _few_fit(inventory: Inventory, asked: list[tuple[Vector, int]]) -> bool:
    need: dict[tuple[int, int], int] = {}
    for vector, row in asked:
        for resource, amount in vector.pairs:
            need[resource, row] = need.get((resource, row), 0) + amount
    free = inventory.free
    return all(free.item(cell) >= amount for cell, amount in need.items())


def objection(
    state: State, group: Group | None, start: Start, ahead: Order | None, plan: Plan, trusted: bool
) -> str:
    """Why the start must not be done now; "" if it may."""
    if group is None:
        return f"{start.group} is gone"
    request = asked(group, start)
    if request is None or any(place.pod in state.intents for place in start.placements):
        return f"{start.group} does not ask for this (any more)"
    if ahead is not None and ahead < request.order:
        return f"{ahead[-1]} arrived ahead of {start.group}"
    if not trusted and not _fits(state, start.placements):
        return f"{start.group} no longer fits"
    if state.nodes_at > plan.version and not allowed(state, request, start.placements):
        return f"{start.group}: a node was closed"
    return ""


def _void(state: State, group: Group | None, reserve: Reserve, plan: Plan) -> str:
    """Why a promise of the plan is void, and with it all that was to overtake by its leave; "" if it holds.

    The starts that follow it were placed around it: that they leave it alone need not be checked again.
    """
    if group is None or not group.requests:
        return f"{reserve.group} waits no more"
    if state.nodes_at <= plan.version:
        return ""
    classes = state.inventory.classes()
    shapes = [task.shape for request in group.requests for task in request.tasks]
    for name in reserve.nodes:
        row = state.inventory.rows.get(name)
        if row is None or not any(classes.now(constraints(shape))[row] for shape in shapes):
            return f"{reserve.group}: a node it was promised was closed"
    return ""


def _promise(state: State, gid: str, promise: Reserve) -> None:
    """Note the promise, and be woken when it falls due."""
    group = state.groups[gid]
    old = state.promises.get(gid)
    if old != promise:
        if old is not None and 0 < old.start < promise.start - _PUT_OFF:
            state.reopen()  # the room it leaves may be of use to those whom this plan has not looked at
        state.promises[gid] = promise
        state.unsaved = True
    if group.phase is not Phase.QUEUED:  # members that join it: only it itself has an estimated start
        state.wake(promise.start, gid)
    elif group.estimate != promise.start:
        expect(state, group, promise.start)
        if promise.start:
            state.wake(promise.start, gid)


_PUT_OFF = 1_000
"""By how many milliseconds a promise may get later without a look at the whole queue: clocks start late."""


def _withdraw_promise(state: State, gid: str) -> None:
    state.unpromise(gid)
    group = state.groups.get(gid)
    if group is not None:
        expect(state, group, 0)


def asked(group: Group, start: Start) -> Request | None:
    """The group's request that the start answers exactly: the same pods, each once."""
    wanted = {place.pod: None for place in start.placements}
    if len(wanted) != len(start.placements):
        return None
    for request in group.requests:
        if request.growth == start.growth:
            uids = [uid for task in request.tasks for uid in task.uids]
            if len(uids) == len(wanted) and all(uid in wanted for uid in uids):
                return request
    return None


def _fits(state: State, placements: tuple[Placement, ...]) -> bool:
    """Whether the placements fit together on what is free now."""
    taken: list[str] = []
    ok = True
    for place in placements:
        amounts = state.asked(state.pods[place.pod])
        if not state.inventory.fits(place.node, amounts):
            ok = False
            break
        state.inventory.hold(place.pod, place.node, amounts)
        taken.append(place.pod)
    for uid in taken:
        state.inventory.release(uid)
    return ok


def allowed(state: State, request: Request, placements: tuple[Placement, ...]) -> bool:
    """Whether labels, taints and readiness of the nodes still allow the pods."""
    classes = state.inventory.classes()
    shapes = {uid: task.shape for task in request.tasks for uid in task.uids}
    for place in placements:
        row = state.inventory.rows.get(place.node)
        if row is None or not classes.now(constraints(shapes[place.pod]))[row]:
            return False
    return True


def claim(state: State, group: Group, start: Start) -> str:
    """Let the claims of the members be decided, so that the next start finds their volumes taken.

    Returns why one of them may not be where it is to go; then nothing is decided.
    """
    decided: list[str] = []
    for place in start.placements:
        pod = state.pods[place.pod]
        if pod.shape.rules.volumes:
            decided.append(pod.uid)
            why = assume(state, pod, place.node)
            if why:
                for uid in decided:
                    state.surroundings.forget(uid)
                return f"{group.id} may not be on {place.node}: {why}"
    return ""


def grant(state: State, group: Group, start: Start, plan: Plan, index: int) -> Grant:
    """Hold the capacity and move the group; from here on the start is `assumed`."""
    grant = Grant(
        id=f"{plan.id}/{index}",
        plan=plan.id,
        group=group.id,
        epoch=state.epoch,
        at=state.now,
        placements=start.placements,
        growth=start.growth,
    )
    for place in start.placements:
        state.add_intent(Intent(place.pod, place.node, grant.id, group.id))
    if not start.growth:
        group.started_size = len(start.placements)
        group.granted_at = state.now
        group.nodes = tuple(dict.fromkeys(place.node for place in start.placements))
        withdraw(state, group)
        move(state, group, Phase.STARTING, Reason(Why.STARTED))
    state.touch(group.id)
    return grant


def _set_heads(state: State, plan: Plan) -> None:
    """A head changes: the old one is behind somebody now, if it still waits and the plan says no more."""
    heads = dict(plan.heads)
    if heads == state.heads:
        return
    for queue, gid in state.heads.items():
        old = state.groups.get(gid)
        if old is None or heads.get(queue) == gid or old.phase is not Phase.QUEUED or gid in state.promises:
            continue
        if not any(decision.group == gid for decision in plan.decisions):
            reword(state, old, Reason(Why.QUEUED))
    state.heads = heads


def judged(state: State, group: Group, plan: Plan) -> bool:
    """Whether the plan has seen what the group asks for now and the nodes there nominally are now."""
    return max(group.asked_at, state.nominal_at) <= plan.version


def _reject(state: State, group: Group, decision: Reject, plan: Plan) -> None:
    """No order and nothing that is free matters to a Reject, so it holds wherever it stands in the plan."""
    if group.phase is not Phase.QUEUED or not group.requests or not judged(state, group, plan):
        return
    group.rejected_for = (group.requests[0].tasks, state.inventory.nominal_version)
    state.rejected[group.id] = None
    withdraw(state, group)
    move(state, group, Phase.ENDED, decision.reason, Outcome.REJECTED)


def _note(state: State, group: Group, decision: object) -> None:
    """Keep a Wait's reason, if the group still waits."""
    if isinstance(decision, Wait | Reserve) and group.phase is Phase.QUEUED:
        reword(state, group, decision.reason)
