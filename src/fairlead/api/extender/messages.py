"""What kube-scheduler asks an extender and is answered (`extender/v1`), read and written.

Used by `api.extender.door`. Both forms are understood: names of nodes and uids of victims
(`nodeCacheCapable: true`), or whole objects; the answer has the form of the question. Pure. Of a pod only its
identity and labels are read: what it is, the watch says.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

TOP_SCORE = 10
"""`MaxExtenderPriority`."""
NO_SCORES = b"[]\n"
"""Nobody is scored, which is not the same as 0 for all: among scored equals kube-scheduler draws lots."""


class NotUnderstood(ValueError):
    """The body is not what an extender is sent; the text says why."""


class Meta(Struct):
    """Who a pod is, and whether it says that it belongs to a Testbed."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None


class AskedPod(Struct):
    metadata: Meta


_NULL = msgspec.Raw(b"null")


class _Args(Struct, rename="pascal"):
    pod: AskedPod
    nodes: msgspec.Raw = _NULL
    node_names: msgspec.Raw = _NULL


class _Name(Struct):
    name: str


class _Node(Struct, gc=False):
    metadata: _Name


class _NodeList(Struct):
    items: list[_Node] | None = None


class _Bare(Struct):
    items: list[msgspec.Raw]


class _Victim(Struct):
    metadata: Meta


class _Victims(Struct):
    """Of one node, whole."""

    pods: list[_Victim] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _MetaPod(Struct):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(Struct):
    pods: list[_MetaPod] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _Preempting(Struct, rename="pascal"):
    pod: AskedPod
    node_name_to_victims: dict[str, _Victims | None] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims | None] | None = None


class Binding(Struct):
    """ExtenderBindingArgs."""

    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class _Filtered(Struct, rename="pascal"):
    """ExtenderFilterResult."""

    nodes: msgspec.Raw
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str


class _Scored(Struct, rename="pascal"):
    host: str
    score: int


class _Bound(Struct, rename="pascal"):
    error: str


class _Preempted(Struct, rename="pascal"):
    node_name_to_meta_victims: dict[str, _MetaVictims]


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a body that is no question; the last where it is nested too deeply."""
_args = msgspec.json.Decoder(_Args).decode
_names = msgspec.json.Decoder(list[str] | None).decode
_nodes = msgspec.json.Decoder(_NodeList | None).decode
_bare = msgspec.json.Decoder(_Bare).decode
_preempting = msgspec.json.Decoder(_Preempting).decode
_binding = msgspec.json.Decoder(Binding).decode
_encode = msgspec.json.Encoder().encode


class Question(NamedTuple):
    """Filter and prioritize: which of these nodes for this pod. `whole` are they as they came, b"" if only
    their names did."""

    pod: Meta
    names: list[str]
    whole: bytes


class Victims(NamedTuple):
    """Who would have to go from a node, by uid; and how many disruption budgets that violates."""

    pods: tuple[str, ...]
    violations: int


class Preempting(NamedTuple):
    """Preemption: nodes on which kube-scheduler found that it would help, and whom it would evict there."""

    pod: Meta
    victims: dict[str, Victims]


def question(body: bytes) -> Question:
    """The ExtenderArgs. Raises NotUnderstood."""
    try:
        args = _args(body)
        names = _names(args.node_names)
        if names is not None:
            return Question(_identified(args.pod), names, b"")
        whole = _nodes(args.nodes)
    except _UNREADABLE as error:
        raise NotUnderstood(f"not the ExtenderArgs of a kube-scheduler (extender/v1): {error}") from None
    if whole is None:
        raise NotUnderstood("ExtenderArgs has neither NodeNames nor Nodes: nothing to choose from")
    names = [each.metadata.name for each in whole.items or ()]
    return Question(_identified(args.pod), names, bytes(args.nodes))


def preempting(body: bytes) -> Preempting:
    """The ExtenderPreemptionArgs. Raises NotUnderstood."""
    try:
        args = _preempting(body)
    except _UNREADABLE as error:
        raise NotUnderstood(f"not the ExtenderPreemptionArgs of a kube-scheduler: {error}") from None
    found: dict[str, Victims] = {}
    for node, whole in (args.node_name_to_victims or {}).items():
        pods = (whole.pods if whole is not None else None) or ()
        found[node] = Victims(tuple(each.metadata.uid for each in pods), whole.violations if whole else 0)
    for node, meta in (args.node_name_to_meta_victims or {}).items():
        pods = (meta.pods if meta is not None else None) or ()
        found[node] = Victims(tuple(each.uid for each in pods), meta.violations if meta else 0)
    return Preempting(_identified(args.pod), found)


def binding(body: bytes) -> Binding:
    """The ExtenderBindingArgs. Raises NotUnderstood."""
    try:
        found = _binding(body)
    except _UNREADABLE as error:
        raise NotUnderstood(f"not the ExtenderBindingArgs of a kube-scheduler: {error}") from None
    if not (found.uid and found.name and found.namespace and found.node):
        raise NotUnderstood("ExtenderBindingArgs needs PodName, PodNamespace, PodUID and Node")
    return found


def _identified(pod: AskedPod) -> Meta:
    if not pod.metadata.uid:
        raise NotUnderstood("the Pod has no metadata.uid: which one is meant cannot be told")
    return pod.metadata


# -- answers -----------------------------------------------------------------------------------------


def untouched(asked: Question) -> bytes:
    """All nodes stay in."""
    if asked.whole:
        return _filtered(msgspec.Raw(asked.whole), None)
    return _filtered(_NULL, asked.names)


def kept(asked: Question, node: str, unresolvable: Mapping[str, str]) -> bytes:
    """Of the nodes that were asked about, only this one stays; "" for none. The others and their reasons."""
    there = node in asked.names
    if not asked.whole:
        return _filtered(_NULL, [node] if there else [], unresolvable)
    items = [_bare(asked.whole).items[asked.names.index(node)]] if there else []
    return _filtered(msgspec.Raw(_encode({"items": items})), None, unresolvable)


def failed(text: str) -> bytes:
    """The attempt fails with this text; kube-scheduler tries again after its backoff."""
    return _filtered(_NULL, None, error=text)


def _filtered(
    nodes: msgspec.Raw, names: list[str] | None, unresolvable: Mapping[str, str] = {}, error: str = ""
) -> bytes:
    """FailedNodes stays empty: evicting others never helps a pod whose slot is elsewhere."""
    return _encode(_Filtered(nodes, names, {}, dict(unresolvable), error)) + b"\n"


def scores(top: Sequence[str]) -> bytes:
    """The HostPriorityList in which these nodes have the top score, and no other is scored."""
    return _encode([_Scored(node, TOP_SCORE) for node in top]) + b"\n" if top else NO_SCORES


def victims(chosen: Mapping[str, Victims]) -> bytes:
    """The ExtenderPreemptionResult; its victims are uids whatever the question had."""
    told = {
        node: _MetaVictims([_MetaPod(uid) for uid in each.pods], each.violations)
        for node, each in chosen.items()
    }
    return _encode(_Preempted(told)) + b"\n"


def bound(error: str) -> bytes:
    """The ExtenderBindingResult; no error: it is bound."""
    return _encode(_Bound(error)) + b"\n"
