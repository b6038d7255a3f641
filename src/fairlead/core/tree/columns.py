"""The pools of a containment tree as contiguous depth-first columns.

Built from the parts that `wire.jgf`, `wire.grug` and `wire.rv1` read. The subtree of vertex v is the interval
[v, end[v]), so totals over all subtrees are one running sum. A vertex's number holds for one Tree only:
attaching and removing make a new Tree, and `joined` and `without` say where the vertices went.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class TreeError(Exception):
    """A graph or a request that cannot be used; one line that says what and where."""


class Pool(Struct):
    """One vertex as readers give it. `key` names it among the parts; `parent` is a key, or None."""

    key: str
    parent: str | None
    type: str
    basename: str
    name: str
    id: int
    uniq_id: int
    rank: int = -1
    size: int = 1
    unit: str = ""
    up: bool = True
    path: str = ""
    """Empty: the parent's path and the name."""
    properties: dict[str, str] = field(default_factory=dict[str, str])


class Tree:
    """Columns over vertices in depth-first order; vertex 0 is the root. Children keep the order given."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        """Raises TreeError unless the parts are one tree."""
        self.pools = _in_order(pools)
        count = len(self.pools)
        place = {pool.key: v for v, pool in enumerate(self.pools)}
        self.types: list[str] = []
        self._kinds: dict[str, int] = {}
        self.parent = np.fromiter(
            (-1 if p.parent is None else place[p.parent] for p in self.pools), np.int64, count
        )
        self.parents: list[int] = self.parent.tolist()
        """The column `parent` as plain values, for steps that touch one vertex."""
        self.kind = np.fromiter((self._kind(p.type) for p in self.pools), np.int64, count)
        self.size = np.fromiter((p.size for p in self.pools), np.int64, count)
        self.id = np.fromiter((p.id for p in self.pools), np.int64, count)
        self.uniq_id = np.fromiter((p.uniq_id for p in self.pools), np.int64, count)
        self.rank = np.fromiter((p.rank for p in self.pools), np.int64, count)
        self.up = np.fromiter((p.up for p in self.pools), np.bool_, count)
        self.is_up: list[bool] = [p.up for p in self.pools]
        """The column `up` as plain values, for steps that touch one vertex."""
        self._nodes_up: int | None = None
        self.end = _ends(self.parent)
        self.children: list[list[int]] = [[] for _ in range(count)]
        for v in range(1, count):
            self.children[int(self.parent[v])].append(v)
        self.type: list[str] = [p.type for p in self.pools]
        self.sizes: list[int] = [p.size for p in self.pools]
        self.paths = self._paths()
        self.by_path = {path: v for v, path in enumerate(self.paths)}

    def __len__(self) -> int:
        return len(self.pools)

    def kind_of(self, type_: str) -> int:
        """The number of a type in the column `kind`; -1 if no vertex has it."""
        return self._kinds.get(type_, -1)

    def of_type(self, type_: str) -> Ints:
        """The vertices of a type, depth first."""
        return np.flatnonzero(self.kind == self.kind_of(type_))

    def unit(self, type_: str) -> str:
        """What the first vertex of a type is counted in; "" if that has no unit, or there is none."""
        there = self.of_type(type_)
        return self.pools[int(there[0])].unit if len(there) else ""

    def totals(self, amounts: Ints) -> Ints:
        """[vertex] the sum of the amounts over each vertex's subtree, itself included."""
        sums = np.concatenate(([0], np.cumsum(amounts)))
        return sums[self.end] - sums[:-1]

    def ancestors(self, v: int) -> list[int]:
        """Parents up to the root, nearest first."""
        found: list[int] = []
        v = self.parents[v]
        while v >= 0:
            found.append(v)
            v = self.parents[v]
        return found

    def owner_rank(self, v: int) -> int:
        """The rank of the vertex, or of the nearest ancestor that has one; -1 if none."""
        while v >= 0:
            if self.rank[v] >= 0:
                return int(self.rank[v])
            v = int(self.parent[v])
        return -1

    def nodes_up(self) -> int:
        """How many vertices of type node are up, with all above them."""
        if self._nodes_up is None:
            nodes = self.of_type("node").tolist()
            self._nodes_up = sum(bool(self.up[[v, *self.ancestors(v)]].all()) for v in nodes)
        return self._nodes_up

    def set_up(self, v: int, up: bool) -> None:
        """Mark one vertex up or down; what is below a vertex that is down cannot be reached."""
        self.up[v] = self.is_up[v] = self.pools[v].up = up
        self._nodes_up = None

    # -- another tree --------------------------------------------------------------------------------

    def without(self, gone: Iterable[int]) -> tuple["Tree", dict[int, int]]:
        """The tree without these subtrees, and old -> new numbers of what stays."""
        drop = np.zeros(len(self), dtype=np.bool_)
        for v in gone:
            drop[v : self.end[v]] = True
        if drop[0]:
            raise TreeError("the root of a graph cannot be removed")
        kept = np.flatnonzero(~drop).tolist()
        tree = Tree([self.pools[v] for v in kept])
        return tree, {old: new for new, old in enumerate(kept)}

    def joined(self, pools: Sequence[Pool]) -> tuple["Tree", dict[int, int]]:
        """The tree with more parts (keys and parents may name its own), and old -> new numbers."""
        tree = Tree([*self.pools, *pools])
        place = {pool.key: v for v, pool in enumerate(tree.pools)}
        return tree, {old: place[pool.key] for old, pool in enumerate(self.pools)}

    # -- inside --------------------------------------------------------------------------------------

    def _kind(self, type_: str) -> int:
        if type_ not in self._kinds:
            self._kinds[type_] = len(self.types)
            self.types.append(type_)
        return self._kinds[type_]

    def _paths(self) -> list[str]:
        paths: list[str] = []
        for v, pool in enumerate(self.pools):
            above = "" if v == 0 else paths[int(self.parent[v])]
            paths.append(pool.path or f"{above}/{pool.name}")
        return paths


def check_unique_keys(pools: Iterable[Pool]) -> Mapping[str, Pool]:
    """Key -> part. Raises TreeError for a key that stands twice."""
    found: dict[str, Pool] = {}
    for pool in pools:
        if pool.key in found:
            raise TreeError(f"vertex {pool.key!r} stands twice; give each vertex its own id")
        found[pool.key] = pool
    return found


def _in_order(pools: Sequence[Pool]) -> list[Pool]:
    """The parts depth first."""
    known = check_unique_keys(pools)
    below: dict[str, list[Pool]] = {}
    roots: list[Pool] = []
    for pool in pools:
        if pool.parent is None:
            roots.append(pool)
        elif pool.parent in known:
            below.setdefault(pool.parent, []).append(pool)
        else:
            raise TreeError(f"vertex {pool.key!r} is contained in {pool.parent!r}, which does not exist")
    if len(roots) != 1:
        names = ", ".join(pool.name for pool in roots[:3]) or "none"
        raise TreeError(
            f"a graph needs one root in the containment subsystem, this one has {len(roots)}: {names}"
        )
    order: list[Pool] = []
    stack = [roots[0]]
    while stack:
        pool = stack.pop()
        order.append(pool)
        stack.extend(reversed(below.get(pool.key, ())))
    if len(order) != len(pools):
        raise TreeError(f"{len(pools) - len(order)} vertices contain each other in a circle")
    return order


def _ends(parent: Ints) -> Ints:
    """Where each depth-first interval ends: backwards, a vertex ends where its last child does."""
    end = list(range(1, len(parent) + 1))
    above: list[int] = parent.tolist()
    for v in range(len(end) - 1, 0, -1):
        if end[v] > end[above[v]]:
            end[above[v]] = end[v]
    return np.array(end, dtype=np.int64)
