"""Pods and nodes on the wire -> facts: all that the recorder wants to know of them. Pure.

Called by `kube.observe` for each object that a list or a watch tells. A fact is what the object says of
itself at one version; what of it is news is for `recorder.book` to say. Must not raise for anything an object
may contain: what cannot be read is left out.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec
from msgspec import Struct

from fairlead.core.durations import duration
from fairlead.core.grouping import DURATION, labelled
from fairlead.model.quantity import ceiling
from fairlead.wire import salvage
from fairlead.wire.pod import infeasible, millis, owner_of, status_requests, version_of
from fairlead.wire.resources import StatusRequests, add, amounts, apply_pod_level, container_sums, read
from fairlead.wire.structs import Condition as BareCondition
from fairlead.wire.structs import (
    Container,
    ContainerState,
    NodeSpec,
    ObjectMeta,
    Present,
    Quantities,
    Resources,
    SchedulingGate,
)
from fairlead.wire.structs import ContainerStatus as BareStatus

Body = bytes | msgspec.Raw
LARGEST = 2**53 - 1
"""What users write may be absurd; their sums must not make a view fail for everybody."""


# -- what is told ------------------------------------------------------------------------------------


class Fact(Struct, frozen=True):
    """An object at one version. Times in milliseconds since the epoch, 0 = not said."""

    uid: str
    version: int


class Condition(Struct, frozen=True, gc=False):
    """One of the conditions that an object has; `at` is when its status last changed."""

    type: str
    status: str
    at: int = 0
    reason: str = ""
    message: str = ""


class Run(Struct, frozen=True, gc=False):
    """One life of a container, the `number`th (from 0). One that ended has also `begun`, if it ever ran."""

    container: str
    number: int
    init: bool = False
    begun: bool = False
    started: int = 0
    ended: bool = False
    finished: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class PodFact(Fact, frozen=True):
    """`deleting` is when its deletion was asked for, `runs` the lives of its containers that are known."""

    namespace: str
    name: str
    created: int = 0
    deleting: int = 0
    labels: dict[str, str] = {}
    scheduler: str = ""
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    gated: bool = False
    priority: int = 0
    requests: dict[str, int] = {}
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    group: str = ""
    walltime: int = 0
    restarts: int = 0
    conditions: tuple[Condition, ...] = ()
    runs: tuple[Run, ...] = ()


class NodeFact(Fact, frozen=True):
    """`taints` as `key=value:effect`."""

    name: str
    created: int = 0
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    unschedulable: bool = False
    conditions: tuple[Condition, ...] = ()


class GoneFact(Fact, frozen=True):
    """It does not exist any more; `last` is how it was, if that could be read."""

    kind: str
    last: PodFact | NodeFact | None = None


# -- as it is written --------------------------------------------------------------------------------


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    deletion_grace_period_seconds: int = 0


class _Condition(BareCondition, frozen=True, rename="camel"):
    last_transition_time: str | None = None
    message: str = ""


class _Running(Present, frozen=True, rename="camel"):
    started_at: str | None = None


class _Terminated(Present, frozen=True, rename="camel"):
    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""


class _State(ContainerState, frozen=True):
    running: _Running | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(BareStatus, frozen=True, rename="camel"):
    state: _State | None = None
    last_state: _State | None = None


class _PodSpec(Struct, frozen=True, rename="camel"):
    containers: list[Container] | None = None
    init_containers: list[Container] = []
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    active_deadline_seconds: int = 0
    scheduling_gates: list[SchedulingGate] = []
    overhead: Quantities = {}
    resources: Resources | None = None


class _PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []
    init_container_statuses: list[_ContainerStatus] = []
    resources: Resources | None = None
    allocated_resources: Quantities = {}


class _Pod(Struct, frozen=True):
    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _NodeStatus(Struct, frozen=True, rename="camel"):
    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: list[_Condition] = []


class _Node(Struct, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: _NodeStatus = _NodeStatus()


_pod = msgspec.json.Decoder(_Pod).decode
_node = msgspec.json.Decoder(_Node).decode


# -- pods --------------------------------------------------------------------------------------------


def pod(raw: Body) -> PodFact:
    """Raises msgspec.MsgspecError for what is no pod; `salvaged_pod` then finds what can be read."""
    wire = _pod(raw)
    meta, spec, status = wire.metadata, wire.spec, wire.status
    owner = owner_of(meta)
    job = owner.name if owner is not None and owner.kind == "Job" else ""
    return PodFact(
        uid=meta.uid,
        version=version_of(meta.resource_version),
        namespace=meta.namespace,
        name=meta.name,
        created=time_of(meta.creation_timestamp),
        deleting=max(time_of(meta.deletion_timestamp) - meta.deletion_grace_period_seconds * 1000, 0),
        labels=meta.labels,
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        gated=bool(spec.scheduling_gates),
        priority=spec.priority,
        requests=_requests(spec, status),
        owner_kind=owner.kind if owner is not None else "",
        owner_name=owner.name if owner is not None else "",
        owner_uid=owner.uid if owner is not None else "",
        group=labelled(meta.labels) or job,
        walltime=min(
            duration(meta.annotations.get(DURATION, "")) or spec.active_deadline_seconds * 1000, LARGEST
        ),
        restarts=sum(
            each.restart_count for each in (*status.container_statuses, *status.init_container_statuses)
        ),
        conditions=_conditions(status.conditions),
        runs=(
            *_runs(status.init_container_statuses, init=True),
            *_runs(status.container_statuses, init=False),
        ),
    )


def salvaged_pod(raw: Body) -> PodFact:
    """What can be saved of a pod that does not decode. Raises ValueError where its uid cannot be read."""
    thing = salvage.tree(raw)
    meta, spec, status = (
        salvage.metadata_of(thing),
        salvage.part(thing, "spec"),
        salvage.part(thing, "status"),
    )
    return PodFact(
        uid=meta.uid,
        version=version_of(meta.resource_version),
        namespace=meta.namespace,
        name=meta.name,
        created=time_of(meta.creation_timestamp),
        deleting=time_of(meta.deletion_timestamp),
        labels=meta.labels,
        scheduler=salvage.text(spec, "schedulerName", "default-scheduler"),
        node=salvage.text(spec, "nodeName"),
        phase=salvage.text(status, "phase", "Pending"),
        reason=salvage.text(status, "reason"),
        requests=_without_pods(dict(salvage.amounts(spec))),
        group=labelled(meta.labels),
    )


def time_of(text: str | None) -> int:
    """0 for a time that cannot be read: it is as if nobody had said it."""
    try:
        return millis(text)
    except ValueError:
        return 0


def _conditions(found: list[_Condition]) -> tuple[Condition, ...]:
    return tuple(
        [Condition(c.type, c.status, time_of(c.last_transition_time), c.reason, c.message) for c in found]
    )


def _runs(statuses: list[_ContainerStatus], init: bool) -> Iterator[Run]:
    """In the order in which they were: the life before this one, then this one."""
    for each in statuses:
        if each.last_state is not None and each.restart_count > 0:
            yield from _run(each.name, each.restart_count - 1, init, each.last_state)
        if each.state is not None:
            yield from _run(each.name, each.restart_count, init, each.state)


def _run(name: str, number: int, init: bool, state: _State) -> Iterator[Run]:
    """Nothing while it waits. One that ended and has no time of its start was never seen to run."""
    if (running := state.running) is not None:
        yield Run(name, number, init, begun=True, started=time_of(running.started_at))
    elif (end := state.terminated) is not None:
        started = time_of(end.started_at)
        yield Run(
            name, number, init, bool(started), started, True, time_of(end.finished_at), end.exit_code,
            end.reason, end.message,
        )  # fmt: skip


class _Wants(Struct, array_like=True):
    """All that the requests depend on. Encoded, it is the key of the cache."""

    containers: list[Container]
    inits: list[Container]
    overhead: Quantities
    resources: Resources | None
    statuses: dict[str, StatusRequests]
    whole: StatusRequests | None
    infeasible: bool


_encode = msgspec.msgpack.Encoder().encode
_wants = msgspec.msgpack.Decoder(_Wants).decode


def _requests(spec: _PodSpec, status: _PodStatus) -> dict[str, int]:
    statuses = status_requests(status.container_statuses, status.init_container_statuses)
    whole = status.resources and (status.resources.requests, status.allocated_resources)
    wants = _Wants(
        spec.containers or [], spec.init_containers, spec.overhead, spec.resources, statuses, whole,
        bool(statuses or whole) and infeasible(status.conditions),
    )  # fmt: skip
    return _summed(_encode(wants))


@lru_cache(maxsize=16384)
def _summed(key: bytes) -> dict[str, int]:
    """What the pod takes from its node, as the engine counts it. Shared: must not be changed."""
    wants = _wants(key)
    try:
        sums = container_sums(wants.containers, wants.inits, wants.statuses, wants.infeasible)
        apply_pod_level(sums, wants.resources, wants.whole, wants.infeasible)
        add(sums, read(wants.overhead))
        return _without_pods(dict(amounts(sums)))
    except (ValueError, OverflowError):
        return {}


def _without_pods(found: dict[str, int]) -> dict[str, int]:
    return {
        name: min(value, LARGEST)
        for name, value in found.items()
        if name != "pods" and not name.startswith("port:")
    }


# -- nodes -------------------------------------------------------------------------------------------


def node(raw: Body) -> NodeFact:
    """Raises msgspec.MsgspecError for what is no node; `salvaged_node` then finds what can be read."""
    wire = _node(raw)
    meta, spec, status = wire.metadata, wire.spec, wire.status
    return NodeFact(
        uid=meta.uid,
        version=version_of(meta.resource_version),
        name=meta.name,
        created=time_of(meta.creation_timestamp),
        capacity=_amounts(status.capacity),
        allocatable=_amounts(status.allocatable),
        labels=meta.labels,
        taints=tuple(sorted(f"{each.key}={each.value}:{each.effect}" for each in spec.taints)),
        unschedulable=spec.unschedulable,
        conditions=_conditions(status.conditions),
    )


def salvaged_node(raw: Body) -> NodeFact:
    """What can be saved of a node that does not decode. Raises ValueError where its uid cannot be read."""
    meta = salvage.metadata(raw)
    version = version_of(meta.resource_version)
    return NodeFact(meta.uid, version, meta.name, time_of(meta.creation_timestamp), labels=meta.labels)


def _amounts(quantities: Quantities) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in quantities.items():
        try:
            found[name] = min(ceiling(name, *read({name: text}).values()), LARGEST)
        except ValueError:
            continue
    return found
