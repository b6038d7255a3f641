"""What the cluster comes to, counted from plain objects by a plain loop: the judge of the incremental state.

Called by `core.audit` and by benchmarks. It shares nothing with `core.inventory` but the nouns, so that an
error there is not made here too. Must not look at the state.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct

from fairlead.core.steps import Steps, now
from fairlead.core.tenancy import PLACES, WHOLE
from fairlead.model.node import Node
from fairlead.model.pod import Amounts, Pod
from fairlead.model.rules import EVERY_ADDRESS

Mark = tuple[str, str, int]
"""Kind, uid and version of an object."""
Holding = tuple[str, int, Amounts]
"""Uid and version of a pod, and what it takes from its node."""
STEP = 200
"""Objects between two yields: less than a millisecond."""


class Row(Struct, frozen=True, gc=False):
    """One node: the object, what it has, what is taken of it and left, and which pods take that.

    Amounts are sorted by name. Of what every node has without saying so (ports, places) only what is taken
    shows. `pods` are sorted by uid.
    """

    node: Node
    capacity: Amounts
    used: Amounts
    free: Amounts
    pods: tuple[Holding, ...]
    digest: str


class Picture(Struct, frozen=True, gc=False):
    """All nodes by name, and a digest of these and of every object that takes no room on any of them."""

    rows: dict[str, Row]
    rest: int
    digest: str


class Tally:
    """A digest of objects in any order: the sum of theirs."""

    def __init__(self) -> None:
        self.sum = 0

    def add(self, mark: Mark) -> None:
        found = blake2b(msgspec.json.encode(mark), digest_size=8).digest()
        self.sum = (self.sum + int.from_bytes(found)) % (1 << 64)


def row(node: Node, capacity: Amounts, used: Amounts, free: Amounts, pods: Iterable[Holding]) -> Row:
    """The row with its digest."""
    found = tuple(sorted(pods))
    text = msgspec.json.encode((node, capacity, used, free, found), order="deterministic")
    return Row(node, capacity, used, free, found, blake2b(text, digest_size=8).hexdigest())


def picture(rows: Iterable[Row], tally: Tally) -> Picture:
    """The picture with its digest."""
    found = {each.node.name: each for each in sorted(rows, key=lambda each: each.node.name)}
    whole = blake2b(tally.sum.to_bytes(8), digest_size=16)
    for each in found.values():
        whole.update(each.digest.encode())
    return Picture(found, tally.sum, whole.hexdigest())


def implied(resource: str) -> int:
    """How much of it every node has without saying so: its ports, each on every address, and its places."""
    if resource == PLACES:
        return WHOLE
    if not resource.startswith("port:"):
        return 0
    return 1 if "@" in resource else EVERY_ADDRESS


def rebuilding(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    intents: Mapping[str, str],
    asked: Callable[[Pod], Amounts] = lambda pod: pod.shape.requests,
    rest: Iterable[Mark] = (),
    holds: Mapping[str, tuple[str, Amounts]] | None = None,
) -> Steps[Picture]:
    """Count everything from nothing. `intents` says where pods are meant to be that are not bound yet,
    `holds` what is kept for free slots of Testbeds."""
    tally = Tally()
    found: dict[str, list[Pod]] = {node.name: [] for node in nodes}
    for count, pod in enumerate(pods):
        where = "" if pod.ended else pod.node or intents.get(pod.uid, "")
        if where in found:
            found[where].append(pod)
        else:
            tally.add(("Pod", pod.uid, pod.version))
        if not count % STEP:
            yield
    for count, mark in enumerate(rest):
        tally.add(mark)
        if not count % STEP:
            yield
    slots: dict[str, list[Holding]] = {}
    for key, (name, amounts) in (holds or {}).items():
        slots.setdefault(name, []).append((key, 0, amounts))
    rows: list[Row] = []
    for node in nodes:
        there = [(pod.uid, pod.version, asked(pod)) for pod in found[node.name]]
        rows.append(_counted(node, there + slots.get(node.name, [])))
        yield
    return picture(rows, tally)


def _counted(node: Node, pods: list[Holding]) -> Row:
    used: dict[str, int] = {}
    for _, _, amounts in pods:
        for name, amount in amounts:
            used[name] = used.get(name, 0) + amount
    has = dict(node.allocatable)
    names = sorted({*has, *used})
    capacity = [(name, has.get(name) or implied(name)) for name in names]
    return row(
        node,
        tuple([each for each in capacity if each[1]]),
        tuple([(name, used[name]) for name in names if name in used]),
        tuple([(name, whole - used.get(name, 0)) for name, whole in capacity]),
        pods,
    )


def rebuild(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    intents: Mapping[str, str],
    asked: Callable[[Pod], Amounts] = lambda pod: pod.shape.requests,
    rest: Iterable[Mark] = (),
    holds: Mapping[str, tuple[str, Amounts]] | None = None,
) -> Picture:
    """The same as `rebuilding`, at once."""
    return now(rebuilding(nodes, pods, intents, asked, rest, holds))
