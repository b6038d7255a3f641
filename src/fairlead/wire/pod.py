"""A pod on the wire -> the pod the engine sees. Pure, and the hottest code of the Kubernetes port.

Called by `kube.translate` for every pod event, by `kube.bind` after a conflict and by `sim.manifests`. The
costly part, the Shape, is a function of the relevant parts of the spec in encoded form, so a thousand pods
of one template cost one computation and share one Shape. Must not raise for anything an object may contain.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec import Struct

from fairlead.model.pod import Amounts, OwnerRef, Pod, PodPhase, Shape, Toleration
from fairlead.model.selector import Expression, Operator
from fairlead.wire import salvage
from fairlead.wire.resources import StatusRequests, amounts, apply_pod_level, container_sums, host_ports, read
from fairlead.wire.resources import add as add_sums
from fairlead.wire.rules import looked_at, match_labels, node_term, rules
from fairlead.wire.structs import (
    Affinity,
    Condition,
    Container,
    ContainerStatus,
    NodeSelector,
    ObjectMeta,
    PodSpec,
    PodStatus,
    Quantities,
    Resources,
    WirePod,
    WireSpread,
    WireToleration,
    WireVolume,
)
from fairlead.wire.wishes import wishes

PREFIX = "fairlead.dev/"
UNREADABLE = "unreadable: "
OVERDUE = "DeadlineExceeded"
"""How Kubernetes says of a pod, and of a Job, that its activeDeadlineSeconds were over."""


class ShapeParts(Struct, array_like=True):
    """All that a Shape depends on. Encoded, it is the key of the cache."""

    containers: list[Container]
    inits: list[Container]
    overhead: Quantities
    resources: Resources | None
    selector: dict[str, str]
    affinity: Affinity | None
    tolerations: list[WireToleration]
    spread: list[WireSpread]
    match_labels: dict[str, str]
    volumes: list[WireVolume]
    claims: bool
    group: str
    userns_on_host: bool
    statuses: dict[str, StatusRequests]
    pod_status: StatusRequests | None
    infeasible: bool


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ShapeParts).decode
_phases = {phase.value: phase for phase in PodPhase}


@lru_cache(maxsize=65536)
def millis(text: str | None) -> int:
    """An RFC 3339 time in milliseconds since the epoch; 0 for none."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def version_of(text: str) -> int:
    return int(text) if text.isdigit() else 0


def owner_of(meta: ObjectMeta) -> OwnerRef | None:
    for ref in meta.owner_references:
        if ref.controller:
            return OwnerRef(kind=ref.kind, name=ref.name, uid=ref.uid)
    return None


def own_annotations(meta: ObjectMeta) -> dict[str, str]:
    if not meta.annotations:
        return {}
    return {key: value for key, value in meta.annotations.items() if key.startswith(PREFIX)}


def pod(wire: WirePod) -> Pod:
    """The whole pod. A quantity or operator that cannot be read makes it `unsupported`, never an error."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        version=version_of(meta.resource_version),
        shape=shape(spec, status, meta.labels),
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        phase=_phases.get(status.phase, PodPhase.UNKNOWN),
        created=millis(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        gated=bool(spec.scheduling_gates),
        priority=spec.priority,
        labels=meta.labels,
        annotations=own_annotations(meta),
        owner=owner_of(meta),
        condition=_scheduled(status),
        started=_started(status),
        walltime=spec.active_deadline_seconds * 1000,
        overdue=status.phase == "Failed" and status.reason == OVERDUE,
        wishes=wishes(spec, meta.labels),
    )


def unreadable(raw: bytes | msgspec.Raw, error: Exception) -> Pod:
    """What can be saved of a pod that does not decode; raises only when its uid cannot be read."""
    thing = salvage.tree(raw)
    meta, spec, status = (
        salvage.metadata_of(thing),
        salvage.part(thing, "spec"),
        salvage.part(thing, "status"),
    )
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        version=version_of(meta.resource_version),
        shape=_unreadable_shape(error, salvage.amounts(spec)),
        scheduler=salvage.text(spec, "schedulerName", "default-scheduler"),
        node=salvage.text(spec, "nodeName"),
        phase=_phases.get(salvage.text(status, "phase", "Pending"), PodPhase.UNKNOWN),
        created=_created(meta),
        deleting=meta.deletion_timestamp is not None,
        labels=meta.labels,
        annotations=own_annotations(meta),
        owner=owner_of(meta),
    )


def _created(meta: ObjectMeta) -> int:
    try:
        return millis(meta.creation_timestamp)
    except ValueError:
        return 0


def _unreadable_shape(error: Exception, requests: Amounts) -> Shape:
    return Shape(requests=requests, unsupported=(f"{UNREADABLE}{error}",))


def shape(spec: PodSpec, status: PodStatus, labels: Mapping[str, str]) -> Shape:
    try:
        return _shape(_encode(parts_of(spec, status, labels)))
    except (ValueError, OverflowError) as error:
        return _unreadable_shape(error, salvage.amounts(msgspec.to_builtins(spec)))


def parts_of(spec: PodSpec, status: PodStatus, labels: Mapping[str, str]) -> ShapeParts:
    statuses = status_requests(status.container_statuses, status.init_container_statuses)
    whole = status.resources and (status.resources.requests, status.allocated_resources)
    return ShapeParts(
        spec.containers or [],
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        match_labels(spec.topology_spread_constraints, labels) if spec.topology_spread_constraints else {},
        looked_at(spec.volumes) if spec.volumes else [],
        bool(spec.resource_claims),
        "schedulingGroup" if spec.scheduling_group else "workloadRef" if spec.workload_ref else "",
        spec.host_network and not spec.host_users,
        statuses,
        whole,
        bool(statuses or whole) and infeasible(status.conditions),
    )


def status_requests(*lists: Iterable[ContainerStatus]) -> dict[str, StatusRequests]:
    """Only where the kubelet reports `resources`; allocatedResources alone does not count."""
    return {
        each.name: (each.resources.requests, each.allocated_resources)
        for statuses in lists
        for each in statuses
        if each.resources is not None
    }


def infeasible(conditions: Iterable[Condition]) -> bool:
    """Whether the kubelet says that a resize is never going to happen."""
    for condition in conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


@lru_cache(maxsize=16384)
def _shape(key: bytes) -> Shape:
    parts = _decode(key)
    sums = container_sums(parts.containers, parts.inits, parts.statuses, parts.infeasible)
    apply_pod_level(sums, parts.resources, parts.pod_status, parts.infeasible)
    add_sums(sums, read(parts.overhead))
    return _intern(
        Shape(
            requests=amounts(sums, host_ports(parts.containers, parts.inits)),
            selector=_selector(parts.selector),
            affinity=_required(parts.affinity),
            tolerations=_tolerations(parts.tolerations),
            unsupported=tuple(dict.fromkeys(_unsupported(parts))),
            rules=rules(
                parts.containers,
                parts.inits,
                parts.affinity,
                parts.spread,
                parts.match_labels,
                parts.volumes,
                parts.userns_on_host,
            ),
        )
    )


@lru_cache(maxsize=16384)
def _intern(shape: Shape) -> Shape:
    """The first of all equal shapes: templates that differ only in names share one, too."""
    return shape


def _selector(labels: dict[str, str]) -> tuple[Expression, ...]:
    return tuple(sorted(Expression(key, Operator.IN, (value,)) for key, value in labels.items()))


def _tolerations(wire: list[WireToleration]) -> tuple[Toleration, ...]:
    return tuple(
        sorted({Toleration(each.key, each.operator or "Equal", each.value, each.effect) for each in wire})
    )


def _required(affinity: Affinity | None) -> tuple[tuple[Expression, ...], ...]:
    """A disjunction of terms. A term without requirements stays: it matches nothing."""
    required = affinity and affinity.node_affinity
    selector: NodeSelector | None = required and required.requiredDuringSchedulingIgnoredDuringExecution
    if selector is None:
        return ()
    return tuple(sorted({node_term(term) for term in selector.node_selector_terms})) or ((),)


def _unsupported(parts: ShapeParts) -> Iterator[str]:
    """Fields that kube-scheduler looks at and Fairlead does not."""
    if parts.claims:
        yield "spec.resourceClaims"
    if parts.group:
        yield f"spec.{parts.group}"


def _scheduled(status: PodStatus) -> str:
    for condition in status.conditions:
        if condition.type == "PodScheduled":
            return f"{condition.status}/{condition.reason}"
    return ""


def _started(status: PodStatus) -> bool:
    """A failed pod may have been refused by the kubelet: there the containers themselves decide."""
    if status.phase in ("Running", "Succeeded"):
        return True
    return any(
        each.restart_count > 0 or _ran(each)
        for each in (*status.container_statuses, *status.init_container_statuses)
    )


def _ran(status: ContainerStatus) -> bool:
    return any(
        state is not None and (state.running is not None or state.terminated is not None)
        for state in (status.state, status.last_state)
    )
