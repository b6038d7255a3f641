"""Wire bytes -> events: one `Kind` per Kubernetes kind, with its path and how its objects are read.

Called by `kube.watch` (lists and watch lines). Pure but for a log line and a counter when an object
cannot be read. Must not raise for anything a server may send.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import msgspec
import structlog

from fairlead.model.event import (
    EsiSeen,
    Event,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    ThingSeen,
)
from fairlead.model.node import Node
from fairlead.wire import pod as wire_pod
from fairlead.wire import salvage
from fairlead.wire.life import Fact
from fairlead.wire.objects import node, owner
from fairlead.wire.pod import version_of
from fairlead.wire.structs import WireNode, WireOwner, WirePod

log = structlog.get_logger("fairlead.kube")

Body = bytes | msgspec.Raw
Seen = PodSeen | NodeSeen | OwnerSeen | ThingSeen
Item = Event | Fact
"""What a watch tells: events for the engine, or facts for the recorder."""
Counter = Callable[[str], None]
S = TypeVar("S")


class Line(NamedTuple):
    """One watch line, read: `what` is the event type, `item` the event to emit (None for a bookmark).

    `uid` is of an object that exists though it could not be made an event.
    """

    what: str
    version: int
    item: Item | None = None
    uid: str = ""
    end_of_list: bool = False
    code: int = 0
    text: str = ""


class KindOf(NamedTuple, Generic[S]):
    """How one kind is listed and read. `seen` may answer None for an object that cannot be read.

    An `optional` one may be unknown to the server: then there are none. Where the end of an object is told
    with how it was, `last` reads that; `gone` is for where nothing of it can be read. With a `selector`
    (labels, as the API has it) only those are looked at that carry them.
    """

    name: str
    path: str
    source: str
    seen: Callable[[Body, Counter], S | None]
    gone: Callable[[str, int], Item]
    optional: bool = False
    last: Callable[[Body, Counter], Item | None] | None = None
    selector: str = ""

    @property
    def params(self) -> dict[str, str]:
        """What every list and watch of it asks for."""
        return {"labelSelector": self.selector} if self.selector else {}


Kind = KindOf[Seen]
EsiKind = KindOf[EsiSeen]


def uid_of(event: Item) -> str:
    """The uid of the object that was seen."""
    match event:
        case Fact(uid):
            return uid
        case PodSeen(pod):
            return pod.uid
        case NodeSeen(node):
            return node.uid
        case OwnerSeen(owner):
            return owner.uid
        case ThingSeen(uid):
            return uid
        case EsiSeen(thing):
            return thing.uid
        case _:
            return ""


def place(event: Item) -> tuple[int, int, str]:
    """Where an object of a first list belongs: by creation and version, nodes by name.

    Owners and things carry no creation time. Nodes are in no queue; by name is how people count them. Facts
    come by version: what a recorder has of half a list is then all up to somewhere.
    """
    match event:
        case Fact(uid, version):
            return 0, version, uid
        case PodSeen(pod):
            return pod.created, pod.version, pod.uid
        case NodeSeen(node):
            return 0, 0, node.name
        case OwnerSeen(owner):
            return 0, owner.version, owner.uid
        case ThingSeen(uid, version):
            return 0, version, uid
        case EsiSeen(thing):
            return getattr(thing, "created", 0), thing.version, thing.uid
        case _:
            return 0, 0, ""


def version_in(event: Item) -> int:
    """The version that the object was seen at."""
    match event:
        case Fact(_, version):
            return version
        case PodSeen(pod):
            return pod.version
        case NodeSeen(node):
            return node.version
        case OwnerSeen(owner):
            return owner.version
        case ThingSeen(_, version):
            return version
        case EsiSeen(thing):
            return thing.version
        case _:
            return 0


_pod = msgspec.json.Decoder(WirePod).decode
_node = msgspec.json.Decoder(WireNode).decode
_owner = msgspec.json.Decoder(WireOwner).decode


def pod_seen(raw: Body, count: Counter) -> PodSeen | None:
    try:
        pod = wire_pod.pod(_pod(raw))
        if pod.shape.unsupported and pod.shape.unsupported[0].startswith(wire_pod.UNREADABLE):
            complain("pod", raw, ValueError(pod.shape.unsupported[0]), count)
        return PodSeen(pod)
    except (msgspec.MsgspecError, ValueError) as error:
        complain("pod", raw, error, count)
        try:
            return PodSeen(wire_pod.unreadable(raw, error))
        except (msgspec.MsgspecError, ValueError):
            return None


def node_seen(raw: Body, count: Counter) -> NodeSeen | None:
    try:
        return NodeSeen(node(_node(raw)))
    except (msgspec.MsgspecError, ValueError) as error:
        complain("node", raw, error, count)
    try:
        # A node that cannot be read offers nothing, but it exists and must not be taken for gone.
        meta = salvage.metadata(raw)
        version = version_of(meta.resource_version)
        return NodeSeen(Node(meta.uid, meta.name, version, (), labels=meta.labels, ready=False))
    except (msgspec.MsgspecError, ValueError):
        return None


def _owner_seen(kind: str) -> "Callable[[Body, Counter], OwnerSeen | None]":
    def seen(raw: Body, count: Counter) -> OwnerSeen | None:
        try:
            return OwnerSeen(owner(kind, _owner(raw)))
        except (msgspec.MsgspecError, ValueError) as error:
            complain(kind, raw, error, count)
            return None

    return seen


def complain(kind: str, raw: Body, error: Exception, count: Counter) -> None:
    """Say once in the log, and count, that an object cannot be read."""
    count("unreadable")
    try:
        meta = salvage.metadata(raw)
        who = f"{meta.namespace}/{meta.name}".lstrip("/")
    except (msgspec.MsgspecError, ValueError):
        who = bytes(raw)[:200].decode(errors="replace")
    _say(kind, who, str(error))


@lru_cache(maxsize=1024)
def _say(kind: str, who: str, error: str) -> None:
    """Once: such an object may change every second."""
    log.error("an object cannot be read", kind=kind, object=who, error=error)


def uid_in(raw: Body) -> str:
    """The uid of an object of which nothing else may be readable; "" if not even that is."""
    try:
        return salvage.metadata(raw).uid
    except (msgspec.MsgspecError, ValueError):
        return ""


PODS = Kind("Pod", "/api/v1/pods", "pods", pod_seen, PodGone)
NODES = Kind("Node", "/api/v1/nodes", "nodes", node_seen, NodeGone)
JOBS = Kind("Job", "/apis/batch/v1/jobs", "owners", _owner_seen("Job"), OwnerGone)
REPLICA_SETS = Kind("ReplicaSet", "/apis/apps/v1/replicasets", "owners", _owner_seen("ReplicaSet"), OwnerGone)
STATEFUL_SETS = Kind(
    "StatefulSet", "/apis/apps/v1/statefulsets", "owners", _owner_seen("StatefulSet"), OwnerGone
)
KINDS = (PODS, NODES, JOBS, REPLICA_SETS, STATEFUL_SETS)
