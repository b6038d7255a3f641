"""What kube-scheduler tells an extender (`extender/v1`), as rows; and the answers that change nothing.

Asked by `api.tap`, which knows HTTP. Pure. kube-scheduler calls extenders after its own filters, so the nodes
of a Filter are the candidates; a pod without any is not told here, but as an Event FailedScheduling. It must
not bind: a scheduler whose extender binds does not bind itself.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from fairlead.model.record import Change, Source

MOST_NAMES = 20
"""So many candidates are named; of more, the first so many in kube-scheduler's order, and all are counted."""
MOST_PODS = 50_000
"""Pods whose attempts are remembered; the one that was asked about longest ago is forgotten first."""
NO_SCORES = b"[]\n"
"""No score for any node, not 0 for each: among equal nodes that an extender has scored, kube-scheduler 1.36
draws lots, and among others it does not."""

Put = Callable[[Sequence[Change]], object]


class NotUnderstood(ValueError):
    """The body is not what an extender is sent; the text says why and what to do."""


class _Meta(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Spec(Struct, rename="camel"):
    scheduler_name: str = ""


class _Status(Struct, rename="camel"):
    nominated_node_name: str = ""


class _Pod(Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NULL = msgspec.Raw(b"null")


class _Args(Struct, rename="pascal"):
    """ExtenderArgs. Names come with `nodeCacheCapable: true`, else whole Nodes; both are sent back as they
    came."""

    pod: _Pod
    nodes: msgspec.Raw = _NULL
    node_names: msgspec.Raw = _NULL


class _Name(Struct):
    name: str


class _Node(Struct, gc=False):
    metadata: _Name


class _NodeList(Struct):
    items: list[_Node] | None = None


_args = msgspec.json.Decoder(_Args).decode
_names = msgspec.json.Decoder(list[str] | None).decode
_nodes = msgspec.json.Decoder(_NodeList | None).decode


class _Question(NamedTuple):
    """Whom is asked about, which nodes, and they again as they came: the field and its bytes."""

    pod: _Pod
    names: list[str]
    field: bytes
    raw: bytes


class _Attempt(NamedTuple):
    number: int
    candidates: int
    at: int


class Extender:
    """Rows go to `put`, which answers at once. `now` is milliseconds since the epoch."""

    def __init__(self, put: Put, now: Callable[[], int], most_pods: int = MOST_PODS) -> None:
        self._put, self._now, self._most = put, now, most_pods
        self._attempts: OrderedDict[str, _Attempt] = OrderedDict()

    def filter(self, body: bytes) -> bytes:
        """The ExtenderFilterResult that leaves every node in. Raises NotUnderstood."""
        asked, now = _read(body), self._now()
        uid, count = asked.pod.metadata.uid, len(asked.names)
        last = self._attempts.pop(uid, None)
        number = 1 if last is None else last.number + 1
        self._attempts[uid] = _Attempt(number, count, now)
        if len(self._attempts) > self._most:
            self._attempts.popitem(last=False)
        self._put([_row("Filter", asked, now, {**_candidates(asked.names), "attempt": number})])
        return b'{"%b":%b,"FailedNodes":{},"Error":""}\n' % (asked.field, asked.raw)

    def prioritize(self, body: bytes) -> bytes:
        """The HostPriorityList that scores nobody. Raises NotUnderstood.

        The row names the candidates only where another extender left out some of those that Filter had.
        """
        asked, now = _read(body), self._now()
        last = self._attempts.get(asked.pod.metadata.uid)
        extra: dict[str, Any] = {"count": len(asked.names)}
        if last is None or last.candidates != len(asked.names):
            extra = _candidates(asked.names)
        if last is not None:
            extra |= {"attempt": last.number, "after": max(now - last.at, 0)}
        self._put([_row("Prioritize", asked, now, extra)])
        return NO_SCORES


def _read(body: bytes) -> _Question:
    try:
        args = _args(body)
        names = _names(args.node_names)
        if names is not None:
            return _Question(args.pod, names, b"NodeNames", bytes(args.node_names))
        whole = _nodes(args.nodes)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotUnderstood(f"not the ExtenderArgs of a scheduler (extender/v1): {error}") from None
    if whole is None:
        raise NotUnderstood("ExtenderArgs has neither NodeNames nor Nodes: nothing to choose from")
    return _Question(
        args.pod, [each.metadata.name for each in whole.items or ()], b"Nodes", bytes(args.nodes)
    )


def _candidates(names: list[str]) -> dict[str, Any]:
    """How many, and which: all of them while that is short."""
    key = "candidates" if len(names) <= MOST_NAMES else "sample"
    return {"count": len(names), key: names[:MOST_NAMES]}


def _row(event: str, asked: _Question, now: int, extra: dict[str, Any]) -> Change:
    meta = asked.pod.metadata
    version = meta.resource_version
    if nominated := asked.pod.status.nominated_node_name:
        extra["nominated"] = nominated
    return Change(
        "Pod",
        event,
        now,
        now,
        Source.EXTENDER,
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        scheduler=asked.pod.spec.scheduler_name,
        version=int(version) if version.isdecimal() and len(version) < 19 else 0,
        extra=extra,
    )
