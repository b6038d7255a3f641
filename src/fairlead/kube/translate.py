"""Wire bytes -> events: one `Kind` per Kubernetes kind, with its path and how its objects are read.

Called by `kube.watch` (lists and watch lines). Pure but for a log line and a counter when an object
cannot be read. Must not raise for anything a server may send.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from fairlead.kube import translate_pod
from fairlead.kube.resources import read
from fairlead.kube.structs import MetadataOnly, ObjectMeta, WireNode, WireOwner, WirePod
from fairlead.kube.translate_pod import millis, own_annotations, owner_of, version_of
from fairlead.model.event import Event, NodeGone, NodeSeen, OwnerGone, OwnerSeen, PodGone, PodSeen
from fairlead.model.node import Node, Taint
from fairlead.model.owner import Owner
from fairlead.model.quantity import ceiling

log = structlog.get_logger("fairlead.kube")

Body = bytes | msgspec.Raw
Seen = PodSeen | NodeSeen | OwnerSeen
Counter = Callable[[str], None]


class Line(NamedTuple):
    """One watch line, read: `what` is the event type, `item` the event to emit (None for a bookmark)."""

    what: str
    version: int
    item: Event | None = None
    end_of_list: bool = False
    code: int = 0
    text: str = ""


class Kind(NamedTuple):
    """How one kind is listed and read. `seen` may answer None for an object without readable metadata."""

    name: str
    path: str
    source: str
    seen: "Callable[[Body, Counter], Seen | None]"
    gone: Callable[[str, int], Event]


def uid_of(event: Event) -> str:
    """The uid of the object that was seen."""
    match event:
        case PodSeen(pod):
            return pod.uid
        case NodeSeen(node):
            return node.uid
        case OwnerSeen(owner):
            return owner.uid
        case _:
            return ""


def place(event: Event) -> tuple[int, int, str]:
    """Where an object of a first list belongs: by creation and version, nodes by name.

    Owners carry no creation time. Nodes are in no queue; by name is the order in which people count them.
    """
    match event:
        case PodSeen(pod):
            return pod.created, pod.version, pod.uid
        case NodeSeen(node):
            return 0, 0, node.name
        case OwnerSeen(owner):
            return 0, owner.version, owner.uid
        case _:
            return 0, 0, ""


_pod = msgspec.json.Decoder(WirePod).decode
_node = msgspec.json.Decoder(WireNode).decode
_owner = msgspec.json.Decoder(WireOwner).decode
_meta = msgspec.json.Decoder(MetadataOnly).decode


def metadata(raw: Body) -> ObjectMeta:
    return _meta(raw).metadata


def pod_seen(raw: Body, count: Counter) -> PodSeen | None:
    try:
        pod = translate_pod.pod(_pod(raw))
        if pod.shape.unsupported and pod.shape.unsupported[0].startswith(translate_pod.UNREADABLE):
            _complain("pod", raw, ValueError(pod.shape.unsupported[0]), count)
        return PodSeen(pod)
    except (msgspec.MsgspecError, ValueError) as error:
        _complain("pod", raw, error, count)
        try:
            return PodSeen(translate_pod.unreadable(raw, error))
        except (msgspec.MsgspecError, ValueError):
            return None


def node_seen(raw: Body, count: Counter) -> NodeSeen | None:
    try:
        return NodeSeen(node(_node(raw)))
    except (msgspec.MsgspecError, ValueError) as error:
        _complain("node", raw, error, count)
    try:
        # A node that cannot be read offers nothing, but it exists and must not be taken for gone.
        meta = metadata(raw)
        version = version_of(meta.resource_version)
        return NodeSeen(Node(meta.uid, meta.name, version, (), labels=meta.labels, ready=False))
    except (msgspec.MsgspecError, ValueError):
        return None


def node(wire: WireNode) -> Node:
    meta, status = wire.metadata, wire.status
    sums = {name: ceiling(name, value) for name, value in read(status.allocatable).items()}
    return Node(
        uid=meta.uid,
        name=meta.name,
        version=version_of(meta.resource_version),
        allocatable=tuple(sorted((name, value) for name, value in sums.items() if value)),
        labels=meta.labels,
        taints=tuple(
            sorted(
                Taint(each.key, each.value, each.effect)
                for each in wire.spec.taints
                if each.effect in ("NoSchedule", "NoExecute")
            )
        ),
        unschedulable=wire.spec.unschedulable,
        # A node that never reported is kept away by its taints, as for kube-scheduler.
        ready=all(each.status == "True" for each in status.conditions if each.type == "Ready"),
        deleting=meta.deletion_timestamp is not None,
        created=millis(meta.creation_timestamp),
    )


def owner(kind: str, wire: WireOwner) -> Owner:
    meta, spec = wire.metadata, wire.spec
    return Owner(
        uid=meta.uid,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        version=version_of(meta.resource_version),
        size=_job_size(wire) if kind == "Job" else _default(spec.replicas, 1),
        suspended=spec.suspend,
        ended=_ended(wire),
        ordered=kind == "StatefulSet" and spec.pod_management_policy in ("", "OrderedReady"),
        deleting=meta.deletion_timestamp is not None,
        annotations=own_annotations(meta),
        deadline=spec.active_deadline_seconds * 1000,
        owner=owner_of(meta),
    )


def _default(value: int | None, default: int) -> int:
    return default if value is None else value


def _job_size(wire: WireOwner) -> int:
    """How many pods run side by side from now on."""
    parallelism = _default(wire.spec.parallelism, 1)
    completions = wire.spec.completions
    if completions is None:
        return parallelism
    return max(0, min(parallelism, completions - wire.status.succeeded))


def _ended(wire: WireOwner) -> str:
    for condition in wire.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            return "completed" if condition.type == "Complete" else "failed"
    return ""


def _owner_seen(kind: str) -> "Callable[[Body, Counter], OwnerSeen | None]":
    def seen(raw: Body, count: Counter) -> OwnerSeen | None:
        try:
            return OwnerSeen(owner(kind, _owner(raw)))
        except (msgspec.MsgspecError, ValueError) as error:
            _complain(kind, raw, error, count)
            return None

    return seen


def _complain(kind: str, raw: Body, error: Exception, count: Counter) -> None:
    count("unreadable")
    try:
        meta = metadata(raw)
        who = f"{meta.namespace}/{meta.name}"
    except (msgspec.MsgspecError, ValueError):
        who = bytes(raw)[:200].decode(errors="replace")
    log.warning("an object cannot be read", kind=kind, object=who, error=str(error))


PODS = Kind("Pod", "/api/v1/pods", "pods", pod_seen, PodGone)
NODES = Kind("Node", "/api/v1/nodes", "nodes", node_seen, NodeGone)
JOBS = Kind("Job", "/apis/batch/v1/jobs", "owners", _owner_seen("Job"), OwnerGone)
REPLICA_SETS = Kind("ReplicaSet", "/apis/apps/v1/replicasets", "owners", _owner_seen("ReplicaSet"), OwnerGone)
STATEFUL_SETS = Kind(
    "StatefulSet", "/apis/apps/v1/statefulsets", "owners", _owner_seen("StatefulSet"), OwnerGone
)
KINDS = (PODS, NODES, JOBS, REPLICA_SETS, STATEFUL_SETS)
