"""The live cluster as a containment tree: cluster, the configured levels, nodes, and what is in them.

Called by `api.source` for the graph that people export, and by `cli.graph` to cut it finer. The same nodes
make the same tree, in whatever order they were seen. Tells what there is, not what is free. Must not
change anything, for it runs beside the engine.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from fairlead.core.labels import NodeClasses
from fairlead.core.topology import Topology, short
from fairlead.core.tree.parts import Pool
from fairlead.core.views import natural
from fairlead.model.node import Node

UNIT = "MB"
"""What memory is counted in, as in Fluxion's graphs of Kubernetes clusters: 2^20 bytes."""
_MIB = 1 << 20
_PIECES = 64
"""Into how many pieces a node's memory is cut at most; whoever takes a part of one has all of it."""
_DEVICES = 256
"""Up to so many of an extended resource become vertices of their own."""
_TYPES = {"cpu": "core", "nvidia.com/gpu": "gpu"}
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_OWN_WORDS = ("cluster", "node", "slot", "core", "gpu", "memory")


def pools(nodes: Sequence[Node], keys: Sequence[str]) -> list[Pool]:
    """The vertices, each after its parent; `keys` are the label keys of the levels from the widest on.

    Of each resource a node has one vertex, as large as what can be allocated of it.
    """
    return list(_Drawing(sorted(nodes, key=lambda node: natural(node.name)), keys).vertices())


def split(whole: Sequence[Pool]) -> list[Pool]:
    """The same tree with a vertex for each core and each device, and memory in pieces.

    A slot of a jobspec takes whole vertices, so only this tree can be shared out between jobs.
    """
    found: list[Pool] = []
    keys: dict[str | None, str | None] = {None: None}
    for pool in whole:
        sizes = [pool.size] if pool.size <= 1 else _pieces(pool)
        for i, size in enumerate(sizes):
            key = keys[pool.key] = str(len(found))
            name = pool.name if len(sizes) == 1 else f"{pool.basename}{i}"
            number = pool.id if len(sizes) == 1 else i
            part = replace(pool, key=key, uniq_id=len(found), parent=keys[pool.parent], path="")
            found.append(replace(part, name=name, id=number, size=size))
    return found


def _pieces(pool: Pool) -> list[int]:
    if not pool.unit:
        return [1] * pool.size if pool.size <= _DEVICES or pool.type == "core" else [pool.size]
    piece = 1
    while piece * _PIECES < pool.size:
        piece *= 2
    rest = pool.size % piece
    return [piece] * (pool.size // piece) + ([rest] if rest else [])


class _Drawing:
    """One tree in the making."""

    def __init__(self, nodes: list[Node], keys: Sequence[str]) -> None:
        self._nodes = nodes
        self._names = dict.fromkeys(node.name for node in nodes)
        levels = Topology(NodeClasses(nodes, [False] * len(nodes)), keys)
        self._levels = [(key, type_of(key, levels.present())) for key in levels.present()]
        self._codes = [levels.codes(key)[0] for key, _ in self._levels]
        self._numbers: dict[str, int] = {}
        self._taken: dict[tuple[str, str], None] = {}
        """(Parent's key, name) of the domains."""
        self._next = 0

    def vertices(self) -> Iterator[Pool]:
        """All of them, depth first."""
        root = self._vertex(None, "cluster", self._number("cluster"))
        yield root
        above: list[tuple[int, Pool]] = []
        """Per level the domain that the last node was in, and its vertex; of those in none what is above."""
        order: list[int] = np.lexsort([np.arange(len(self._nodes)), *self._codes[::-1]]).tolist()
        for row in order:
            path = [int(codes[row]) for codes in self._codes]
            same = 0
            while same < len(above) and above[same][0] == path[same]:
                same += 1
            del above[same:]
            for level in range(same, len(path)):
                parent = above[-1][1] if above else root
                if path[level] >= 0:
                    parent = self._domain(parent, level, self._nodes[row])
                    yield parent
                above.append((path[level], parent))
            yield from self._node(above[-1][1] if above else root, self._nodes[row])

    def _domain(self, parent: Pool, level: int, node: Node) -> Pool:
        """A zone, a block or a rack, called by the label's value; by its type, too, if that is taken."""
        key, type_ = self._levels[level]
        name = node.labels[key] or type_
        while (parent.key, name) in self._taken or name in self._names:
            name = f"{type_}-{name}"
        self._taken[parent.key, name] = None
        return self._vertex(parent, type_, self._number(type_), name)

    def _node(self, parent: Pool, node: Node) -> Iterator[Pool]:
        number = self._number("node")
        made = self._vertex(parent, "node", number, node.name)
        made.up = node.ready and not node.unschedulable and not node.deleting
        made.rank, made.properties = number, dict(sorted(node.labels.items()))
        yield made
        for resource, amount in sorted(node.allocatable):
            bytes_ = resource.startswith(_BYTES)
            size = amount // _MIB if bytes_ else amount // 1000 if resource == "cpu" else amount
            if size and resource != "pods":
                inner = self._vertex(made, _TYPES.get(resource, resource), 0)
                inner.rank, inner.size, inner.unit = number, size, UNIT if bytes_ else ""
                yield inner

    def _vertex(self, parent: Pool | None, type_: str, number: int, name: str = "") -> Pool:
        key, basename = self._next, type_.replace("/", "-")
        self._next += 1
        above = parent.key if parent is not None else None
        return Pool(str(key), above, type_, basename, name or f"{basename}{number}", number, key)

    def _number(self, type_: str) -> int:
        number = self._numbers.get(type_, 0)
        self._numbers[type_] = number + 1
        return number


def type_of(key: str, keys: Sequence[str]) -> str:
    """What vertices of a level are, of which `keys` are all: the last part of its key, if no other has it."""
    word = short(key)
    alone = word not in _OWN_WORDS and sum(short(each) == word for each in keys) == 1
    return word if alone else key.replace("/", ".")
