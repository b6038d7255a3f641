"""What must be so in a random world that has come to rest: nothing half done, lost or leaked.

Called by property tests and by `sim.fuzz` after the faults have ended and time has passed. Reads the world
and the engine's state; must not change either.
"""

from fairlead.core.engine import Engine
from fairlead.core.grouping import EXCLUSIVE, REQUIRED_TOPOLOGY
from fairlead.core.invariants import agree, check
from fairlead.core.match import Matcher
from fairlead.core.picture import take
from fairlead.core.policy import lookahead
from fairlead.core.snapshot import Draft
from fairlead.core.state import IDLE, State
from fairlead.model.group import Phase, Why
from fairlead.sim.chaos import Chaos


def resting(world: Chaos) -> list[str]:
    """Everything that must be so in a world that has come to rest, and is not."""
    state = world.engine.state
    wrong = check(state) + agree(state, world.grants.values(), world.groups)
    if state.intents or state.grants or state.recording or state.to_bind:
        left = f"{list(state.intents)} {list(state.grants)} {list(state.recording)} {list(state.to_bind)}"
        wrong.append(f"unresolved: {left}")
    if world.grants:
        wrong.append(f"grants never settled in the store: {list(world.grants)}")
    if state.planning != IDLE or (state.dirty and state.waiting):
        wrong.append("a plan is due or under way")
    return (
        wrong + _truth(world, state) + _groups(world, state) + _layouts(world, state) + _stuck(world.engine)
    )


def _truth(world: Chaos, state: State) -> list[str]:
    """The engine's picture is the cluster's."""
    wrong: list[str] = []
    if {u: p.version for u, p in state.pods.items()} != {u: p.version for u, p in world.pods.items()}:
        wrong.append("pods differ from the cluster's")
    if sorted(state.node_uids.values()) != sorted(world.nodes):
        wrong.append("nodes differ from the cluster's")
    if sorted(state.owners) != sorted(world.owners):
        wrong.append("owners differ from the cluster's")
    for name, node in world.nodes.items():
        row = state.inventory.rows[name]
        for resource, capacity in node.allocatable:
            used = sum(
                dict(p.shape.requests).get(resource, 0)
                for p in world.pods.values()
                if p.node == name and not p.ended
            )
            free = int(state.inventory.free[state.inventory.resources[resource], row])
            if free != capacity - used:
                wrong.append(f"{name} {resource}: free {free}, in truth {capacity - used}")
    return wrong


def _groups(world: Chaos, state: State) -> list[str]:
    """None lost, none half started but for broken ones, none ended while it lives."""
    wrong: list[str] = []
    for uid, pod in world.pods.items():
        if pod.scheduler != world.settings.scheduler or pod.ended:
            continue
        group = state.groups.get(state.group_of.get(uid, ""))
        if group is None or uid not in group.pods:
            wrong.append(f"pod {uid} belongs to no group")
        elif group.backoff_until > state.now + 30_000:
            wrong.append(f"{group.id} pauses until {group.backoff_until}")
    for group in state.groups.values():
        if group.phase is Phase.STARTING:
            wrong.append(f"{group.id} is still starting")
        members = [world.pods[uid] for uid in group.pods if uid in world.pods and not world.pods[uid].ended]
        if group.broken or any(pod.uid in world.meddled for pod in members):
            continue
        bound = sum(bool(pod.node) for pod in members)
        if bound not in (0, len(members)) and group.phase is not Phase.RUNNING:
            wrong.append(f"{group.id} is half bound: {bound} of {len(members)}")
        astray = group.id in state.astray  # no node has a rack: there is no node
        usual = (Why.WAITING_FOR_GROUP, Why.BACKOFF, Why.SUSPENDED, *([Why.INVALID] if astray else []))
        if group.phase is Phase.HELD and group.reason.why not in usual:
            wrong.append(f"{group.id} is held: {group.reason}")
    return wrong


def _layouts(world: Chaos, state: State) -> list[str]:
    """Who wants nodes for himself shares them with nobody whom we placed; who shares a rack is in one."""
    wrong: list[str] = []
    tenants: dict[str, list[tuple[str, bool]]] = {}
    for group in state.groups.values():
        pods = [state.pods[uid] for uid in group.pods if uid not in world.stolen]
        live = [pod for pod in pods if pod.node and not pod.ended]
        notes = live[0].annotations if live else {}
        racks = {int(pod.node[1:]) % 2 for pod in live}
        if REQUIRED_TOPOLOGY in notes and len(racks) > 1:
            wrong.append(f"{group.id} is in two racks: {[pod.node for pod in live]}")
        for pod in live:
            tenants.setdefault(pod.node, []).append((pod.uid, EXCLUSIVE in notes))
    for name, pods in tenants.items():
        if len(pods) > 1 and any(alone for _, alone in pods):
            wrong.append(f"{name} is shared: {pods}")
    return wrong


def _stuck(engine: Engine) -> list[str]:
    """The first in order that waits for room has none, where no promise may keep it from going first."""
    state = engine.state
    if any(lookahead(queue).keep for queue in state.settings.queues):
        return []
    snapshot = take(state, True)
    for _, _, request in state.line:
        if Matcher(Draft(snapshot), "first").place(request) is not None:
            return [f"{request.group} could start and does not: {state.groups[request.group].reason}"]
        if state.groups[request.group].reason.why not in (Why.NODES_DOWN, Why.BLOCKED):
            break
    return []
