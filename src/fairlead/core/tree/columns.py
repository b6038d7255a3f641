"""The pools of a containment tree as contiguous depth-first columns.

Built from the parts that `wire.jgf`, `wire.grug` and `wire.rv1` read. The subtree of vertex v is the interval
[v, end[v]), so totals over all subtrees are one running sum. A vertex's number holds for one Tree only:
attaching and removing make a new Tree, and `joined` and `without` say where the vertices went. What vertices
of one kind share is kept once; a Pool, a path or a list of children is made when somebody asks for it.
"""

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np

from fairlead.core.tree.making import of_pools
from fairlead.core.tree.parts import Ints, Mask, Parts, Pool, Short, TreeError, depth_first, together
from fairlead.core.tree.paths import ByPath, Paths

__all__ = ["Ints", "Mask", "Pool", "Short", "Tree", "TreeError"]
_NONE: tuple[int, ...] = ()


class Tree:
    """Columns over vertices in depth-first order; vertex 0 is the root. Children keep the order given."""

    def __init__(self, pools: Sequence[Pool] | Parts) -> None:
        """Raises TreeError unless the parts are one tree."""
        given = pools if isinstance(pools, Parts) else of_pools(pools)
        order, self.end = depth_first(given.parent, given.name)
        self._put(given.taken(order))

    def _put(self, parts: Parts) -> None:
        """Take over the columns of vertices in depth-first order."""
        self._parts = parts
        self.parent, self.id, self.uniq_id, self.rank = parts.parent, parts.id, parts.uniq_id, parts.rank
        self.up = parts.up
        self.parents, self.is_up = self.parent.data, self.up.data
        """The columns `parent` and `up`, quicker for steps that touch one vertex."""
        first = np.unique(parts.kind, return_index=True)
        met: list[int] = first[0][np.argsort(first[1])].tolist()
        self.types: list[str] = list(dict.fromkeys(parts.kinds[at].type for at in met))
        """In the order in which they are first met, depth first."""
        self._kinds = {type_: number for number, type_ in enumerate(self.types)}
        numbers = [self._kinds.get(kind.type, -1) for kind in parts.kinds]
        self.kind = np.array(numbers, dtype=np.int32)[parts.kind]
        sizes = [kind.size for kind in parts.kinds]
        self.size = np.array(sizes, dtype=np.int64)[parts.kind]
        self.type: list[str] = np.array(self.types, dtype=object)[self.kind].tolist()
        self.sizes: list[int] = np.array(sizes, dtype=object)[parts.kind].tolist()
        self.pools = Pools(self)
        self.children = Children(self)
        self.paths = Paths(parts)
        self.by_path = ByPath(parts, self.children.__getitem__)
        self._of_type: dict[str, Ints] = {}
        self._nodes_up: int | None = None

    def __len__(self) -> int:
        return len(self.parent)

    def kind_of(self, type_: str) -> int:
        """The number of a type in the column `kind`; -1 if no vertex has it."""
        return self._kinds.get(type_, -1)

    def of_type(self, type_: str) -> Ints:
        """The vertices of a type, depth first. Not to be changed."""
        found = self._of_type.get(type_)
        if found is None:
            found = self._of_type[type_] = np.flatnonzero(self.kind == self.kind_of(type_))
        return found

    def unit(self, type_: str) -> str:
        """What the first vertex of a type is counted in; "" if that has no unit, or there is none."""
        there = self.of_type(type_)
        return self.pools[int(there[0])].unit if len(there) else ""

    def name(self, v: int) -> str:
        """A vertex's name."""
        return self._parts.name(v)

    def leaf(self, v: int) -> bool:
        """Whether nothing is contained in a vertex."""
        return int(self.end[v]) == v + 1

    def properties(self, v: int) -> dict[str, str]:
        """A vertex's properties. Not to be changed."""
        return self._parts.properties.get(v, _PLAIN)

    def set_property(self, v: int, name: str, value: str | None) -> None:
        """Give a vertex a property, or take it away with None."""
        there = self._parts.properties.setdefault(v, {})
        there.pop(name, None)
        if value is not None:
            there[name] = value
        if not there:
            del self._parts.properties[v]

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
            down = np.flatnonzero(~self.up)
            covered = np.zeros(len(self) + 1, dtype=np.int64)
            np.add.at(covered, down, 1)
            np.subtract.at(covered, self.end[down], 1)
            self._nodes_up = int((np.cumsum(covered)[self.of_type("node")] == 0).sum())
        return self._nodes_up

    def set_up(self, v: int, up: bool) -> None:
        """Mark one vertex up or down; what is below a vertex that is down cannot be reached."""
        self.up[v] = up
        self._nodes_up = None

    def pool(self, v: int) -> Pool:
        """All about one vertex. Raises IndexError."""
        if not 0 <= v < len(self):
            raise IndexError(v)
        parts = self._parts
        kind = parts.kinds[int(parts.kind[v])]
        return Pool(
            key=self.key(v),
            parent=self.key(self.parents[v]) if v else None,
            type=kind.type,
            basename=kind.basename,
            name=parts.name(v),
            id=int(self.id[v]),
            uniq_id=int(self.uniq_id[v]),
            rank=int(self.rank[v]),
            size=kind.size,
            unit=kind.unit,
            up=bool(self.up[v]),
            path=self._parts.paths.get(v, ""),
            properties=dict(self.properties(v)),
        )

    # -- another tree --------------------------------------------------------------------------------

    def without(self, gone: Iterable[int]) -> tuple["Tree", dict[int, int]]:
        """The tree without these subtrees, and old -> new numbers of what stays."""
        drop = np.zeros(len(self), dtype=np.bool_)
        for v in gone:
            drop[v : self.end[v]] = True
        if drop[0]:
            raise TreeError("the root of a graph cannot be removed")
        kept = np.flatnonzero(~drop)
        tree = Tree(self._whole().taken(kept))
        numbers: list[int] = kept.tolist()
        return tree, {old: new for new, old in enumerate(numbers)}

    def joined(self, more: Sequence[Pool] | Parts) -> tuple["Tree", dict[int, int]]:
        """The tree with more parts, and old -> new numbers.

        A Pool's parent may be the key of one of the tree's own; Parts are numbered as what follows the tree.
        """
        count = len(self)
        if not isinstance(more, Parts):
            known = {pool.parent: own for pool in more if (own := self._own(pool.parent)) is not None}
            more = of_pools(more, {key: v for key, v in known.items() if key}, count)
        parts = together(self._whole(), more)
        order, _ = depth_first(parts.parent, parts.name)
        place = np.argsort(order)
        numbers: list[int] = place[:count].tolist()
        return Tree(parts), dict(enumerate(numbers))

    def key(self, v: int) -> str:
        """The key of a vertex, by which parts that are to be joined name it as their parent."""
        return f"={v}"

    # -- inside --------------------------------------------------------------------------------------

    def _own(self, key: str | None) -> int | None:
        digits = key[1:] if key and key[0] == "=" else ""
        return int(digits) if digits.isdigit() and int(digits) < len(self) else None

    def _whole(self) -> Parts:
        """The columns, with copies of what a tree changes by vertex."""
        parts = self._parts
        properties = {v: dict(there) for v, there in parts.properties.items()}
        columns = (parts.kind, parts.parent, parts.id, parts.uniq_id, parts.rank, parts.up)
        return Parts(parts.kinds, *columns, dict(parts.names), dict(parts.paths), properties)


_PLAIN: dict[str, str] = {}


class Pools(Sequence[Pool]):
    """[vertex] all about it, made when asked for; changing one does not change the tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __len__(self) -> int:
        return len(self._tree)

    @overload
    def __getitem__(self, index: int) -> Pool: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pool]: ...
    def __getitem__(self, index: int | slice) -> Pool | Sequence[Pool]:
        if isinstance(index, slice):
            return [self[v] for v in range(len(self))[index]]
        return self._tree.pool(index)


class Children:
    """[vertex] its children in order, made when asked for; a range if none of them has any."""

    def __init__(self, tree: Tree) -> None:
        self._parent, self._end = tree.parent, tree.end
        self._known: dict[int, Sequence[int]] = {}

    def __getitem__(self, v: int) -> Sequence[int]:
        found = self._known.get(v)
        if found is None:
            end = int(self._end[v])
            if end == v + 1:
                return _NONE
            below = np.flatnonzero(self._parent[v + 1 : end] == v)
            leaves = len(below) == end - v - 1
            found = self._known[v] = range(v + 1, end) if leaves else (below + (v + 1)).tolist()
        return found
