"""State to the whole picture: nodes and who holds what of them, pods, groups, intents, grants, promises.

Called by `api.source` for `/api/v1/state` and by `sim.table` for golden states. Pure: the time is an
argument, nothing is changed. Equal states give equal pictures, in whatever order things were heard of. It
says what the state says, right or wrong: whoever looks for a fault needs that. The engine stands still
meanwhile, about 10 us for each pod and each group, so nothing is sorted or worked out that need not be.
"""

from collections.abc import Mapping

from fairlead.core import views
from fairlead.core.live import Group, Intent
from fairlead.core.state import State
from fairlead.core.tenancy import PLACES
from fairlead.core.views import natural
from fairlead.model.dump import (
    GrantState,
    GroupState,
    Holder,
    Holds,
    IntentState,
    NodeState,
    PodState,
    SetAside,
    SettingsState,
    StateDump,
    Stray,
    Wanted,
)
from fairlead.model.node import Node, Taint
from fairlead.model.pod import Amounts, Pod
from fairlead.model.settings import Settings
from fairlead.model.view import ResourceUse


def dump(state: State, now: int, program: str, warnings: tuple[str, ...] = ()) -> StateDump:
    """The picture at `now`, as the version `program` of Fairlead has it."""
    return StateDump(
        as_of=now,
        source="scheduler",
        warnings=warnings,
        program=program,
        version=state.version,
        epoch=state.epoch,
        ready=state.ready,
        missing=tuple(state.missing),
        store_error=state.store_error,
        settings=_settings(state.settings),
        queues=views.queues_page(state, now).queues,
        counts=_counts(state),
        nodes=node_states(state),
        strays=strays(state),
        pods=tuple(_pod(state, pod) for pod in sorted(state.pods.values(), key=_by_name)),
        groups=tuple(_group(group) for group in sorted(state.groups.values(), key=lambda g: (g.seq, g.id))),
        intents=tuple(_intent(state.intents[uid]) for uid in sorted(state.intents)),
        grants=_grants(state),
        promises=tuple(sorted(state.promises.values(), key=lambda r: (r.start, r.group))),
        set_aside=tuple(SetAside(key, *poison) for key, poison in sorted(state.poisoned.items())),
    )


# -- nodes -------------------------------------------------------------------------------------------


def node_states(state: State) -> tuple[NodeState, ...]:
    """Every node ever heard of that is still capacity, gone ones too; by name in natural order."""
    inventory = state.inventory
    n = len(inventory)
    names = list(inventory.resources)
    rows = [inventory.resources[name] for name in names]
    capacity, free = inventory.capacity[rows, :n].T.tolist(), inventory.free[rows, :n].T.tolist()
    found: list[NodeState] = []
    for i, node in enumerate(inventory.nodes):
        if node is not None:
            uses = tuple(sorted(_uses(names, capacity[i], free[i]), key=lambda use: use.name))
            found.append(_node(state, node, inventory.gone_at[i], uses))
    return tuple(sorted(found, key=lambda node: natural(node.name)))


def _uses(names: list[str], capacity: list[int], free: list[int]) -> list[ResourceUse]:
    """What the node has or holds; of ports and places, which every node has, only what is taken."""
    return [
        ResourceUse(name, whole, whole - left, left)
        for name, whole, left in zip(names, capacity, free, strict=True)
        if whole != left or (whole and name != PLACES and not name.startswith("port:"))
    ]


def _node(state: State, node: Node, gone_at: int, uses: tuple[ResourceUse, ...]) -> NodeState:
    return NodeState(
        name=node.name,
        uid=node.uid,
        version=node.version,
        ready=node.ready,
        unschedulable=node.unschedulable,
        deleting=node.deleting,
        gone_at=gone_at,
        taints=tuple(_taint(taint) for taint in sorted(node.taints)),
        resources=uses,
        held=_held(state, state.inventory.holders(node.name)),
    )


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _held(state: State, holders: Mapping[str, Amounts]) -> tuple[Holder, ...]:
    found = [_holder(state, uid, amounts) for uid, amounts in holders.items()]
    return tuple(sorted(found, key=lambda h: (h.namespace, h.name, h.uid)))


def _holder(state: State, uid: str, amounts: Amounts) -> Holder:
    slot = state.esi.holds.get(uid)
    if slot is not None:
        ref = state.esi.tables[slot.testbed].ref
        return Holder(uid, ref.namespace, f"{ref.name}/{slot.slot}", "", Holds.SLOT, dict(amounts))
    pod, intent = state.pods.get(uid), state.intents.get(uid)
    group = state.group_of.get(uid, intent.group if intent is not None else "")
    why = Holds.BOUND if pod is not None and pod.node else Holds.INTENT
    namespace, name = (pod.namespace, pod.name) if pod is not None else ("", "")
    return Holder(uid, namespace, name, group, why, dict(amounts))


def strays(state: State) -> tuple[Stray, ...]:
    """What is held on nodes that are not known; by name."""
    known = state.inventory.rows
    names = dict.fromkeys(node for node, _ in state.inventory.held.values() if node not in known)
    return tuple(Stray(name, _held(state, state.inventory.holders(name))) for name in sorted(names))


# -- pods, groups, grants ----------------------------------------------------------------------------


def _by_name(pod: Pod) -> tuple[str, str, str]:
    return pod.namespace, pod.name, pod.uid


def _pod(state: State, pod: Pod) -> PodState:
    return PodState(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        version=pod.version,
        node=pod.node,
        phase=pod.phase,
        scheduler=pod.scheduler,
        group=state.group_of.get(pod.uid, ""),
        owner=f"{pod.owner.kind}/{pod.owner.name}" if pod.owner is not None else "",
        priority=pod.priority,
        deleting=pod.deleting,
        gated=pod.gated,
        requests=dict(pod.shape.requests),
    )


def _group(group: Group) -> GroupState:
    return GroupState(
        record=group.record(),
        members=tuple(group.pods),
        owners=tuple(group.owners),
        wants=tuple(
            Wanted(task.uids, request.growth, dict(task.shape.requests))
            for request in group.requests
            for task in request.tasks
        ),
        estimate=group.estimate,
        backoff_until=group.backoff_until,
        attempts=group.attempts,
    )


def _intent(intent: Intent) -> IntentState:
    return IntentState(
        pod=intent.pod,
        node=intent.node,
        grant=intent.grant,
        group=intent.group,
        durable=intent.durable,
        in_flight=intent.in_flight,
        acknowledged=intent.acknowledged,
        doubtful=intent.doubtful,
        not_before=intent.not_before,
        error=intent.error or "",
    )


def _grants(state: State) -> tuple[GrantState, ...]:
    asked = dict.fromkeys(grant for grants in state.recording.values() for grant in grants)
    return tuple(
        GrantState(grant, tuple(sorted(pods)), grant in asked) for grant, pods in sorted(state.grants.items())
    )


# -- the rest ----------------------------------------------------------------------------------------


def _settings(settings: Settings) -> SettingsState:
    return SettingsState(
        scheduler=settings.scheduler,
        match=settings.match,
        pace=settings.pace,
        recovery=settings.recovery,
        request_timeout=settings.request_timeout,
        partitions=tuple(partition.name for partition in settings.partitions),
        topology=settings.topology,
        sources=settings.sources,
    )


def _counts(state: State) -> dict[str, int]:
    """How many there are of what is not listed, and of what is, for a first look."""
    return {
        "nodes": sum(not at for at in state.inventory.gone_at),
        "nodes_gone": sum(at > 0 for at in state.inventory.gone_at),
        "pods": len(state.pods),
        "pods_holding": len(state.inventory.held) - len(state.esi.holds),
        "groups": len(state.groups),
        "intents": len(state.intents),
        "promises": len(state.promises),
        "set_aside": len(state.poisoned),
        "owners": len(state.owners),
        "tombstones": len(state.tombstones),
    }
