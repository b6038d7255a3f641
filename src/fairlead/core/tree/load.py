"""How full subtrees are, as a part of their score: what bestfit, pack and spread rank by.

Called by `core.tree.walk`, one vertex at a time, and by `core.tree.vector`, a level at a time; both give the
same numbers. Leaves are counted, by type: a leaf is free if it is up and nobody holds it in the span of time.
`pack` puts the least free share first, `spread` the least held share, `bestfit` what has least left of that
which the request takes. Must not choose anything.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from fairlead.core.tree.columns import Ints, Tree
from fairlead.core.tree.levels import Levels, State
from fairlead.core.tree.matchpolicy import BESTFIT, NODE, SPREAD
from fairlead.core.tree.order import Order
from fairlead.core.tree.room import demands
from fairlead.model.jobspec import Resource

SHIFT = 36
"""Ids and what a node adds for its own stay below 2 to the power of this."""
_MOST = (1 << 24) - 1
_WHOLE = 1 << 20
_ONE = 1 << 10


def weights(kind: str, resources: Sequence[Resource], order: Order, tree: Tree) -> dict[str, int]:
    """Type of leaves -> what one of them weighs for bestfit; otherwise 0: there it depends on the vertex."""
    if kind != BESTFIT:
        return dict.fromkeys(order.leaf_types, 0)
    asked = {type_: n for type_, n in demands(resources).items() if type_ in order.leaf_types}
    found: dict[str, int] = {}
    for type_ in asked or order.leaf_types:
        size = max(tree.sizes[int(tree.of_type(type_)[0])], 1)
        found[type_] = max(_ONE // max(-(-asked.get(type_, 1) // size), 1), 1)
    return found


class VertexLoad:
    """For the walk: by looking at every leaf below."""

    def __init__(
        self, kind: str, resources: Sequence[Resource], order: Order, tree: Tree, free: Callable[[int], bool]
    ) -> None:
        self.kind, self.tree, self.free, self.leaves = kind, tree, free, order.leaf_types
        self._resources, self._order = resources, order
        self._known: dict[int, int] = {}

    @cached_property
    def _weights(self) -> dict[str, int]:
        """Made when the walk comes to a vertex: whole levels mostly choose without it."""
        return weights(self.kind, self._resources, self._order, self.tree)

    def of(self, v: int) -> int:
        """What the vertex adds to a score; 0 for a leaf."""
        if self.tree.type[v] in self.leaves:
            return 0
        if v not in self._known:
            self._known[v] = min(self._load(v), _MOST) << SHIFT
        return self._known[v]

    def _load(self, v: int) -> int:
        total: dict[str, int] = {}
        free: dict[str, int] = {}
        for w in range(v, int(self.tree.end[v])):
            type_ = self.tree.type[w]
            if type_ in self._weights:
                total[type_] = total.get(type_, 0) + 1
                free[type_] = free.get(type_, 0) + self.free(w)
        if self.kind == BESTFIT:
            return sum(free[type_] * self._weights[type_] for type_ in free)
        return sum(
            (total[type_] - free[type_] if self.kind == SPREAD else free[type_])
            * (_WHOLE // (total[type_] * len(total)))
            for type_ in total
        )


class LevelLoad:
    """For whole levels; what never changes is kept by level. Only where every level has one level above."""

    def __init__(self, kind: str, levels: Levels, order: Order) -> None:
        self.kind, self.levels, self.order = kind, levels, order
        self._paths: dict[str, list[str]] = {}
        self._shares: dict[str, dict[str, Ints]] = {}
        self._nodes: dict[str, Ints] = {}

    def scores(self, type_: str, state: State, weighed: Mapping[str, int]) -> Ints | None:
        """[position] what vertices of a level, and the nodes above them, add; None: the walk has to say."""
        if any(self._path(leaf) is None for leaf in weighed) or self._path(type_) is None:
            return None
        level = self.levels.of[type_]
        below = self._load(type_, state, weighed) if type_ not in self.order.leaf_types else None
        if NODE not in (self._path(type_) or ()):
            added = np.zeros(len(level.vertices), dtype=np.int64) if below is None else below
        else:
            added = self._load(NODE, state, weighed)[self._node(type_)]
            if below is not None:
                added += below
        return np.left_shift(added, SHIFT, out=added)

    def _load(self, type_: str, state: State, weighed: Mapping[str, int]) -> Ints:
        if self.kind == BESTFIT:
            factors: Mapping[str, Ints | int] = weighed
        else:
            factors = self._share(type_)
        load: Ints | None = None
        for leaf, factor in factors.items():
            free = self._count(state, leaf, type_)
            if free is None:
                continue
            if self.kind == SPREAD:
                whole = self._count(self.levels.ever, leaf, type_)
                free = whole - free if whole is not None else free
            part = free * factor
            load = part if load is None else np.add(load, part, out=load)
        if load is None:
            return np.zeros(len(self.levels.of[type_].vertices), dtype=np.int64)
        return np.minimum(load, _MOST, out=load)

    def _share(self, type_: str) -> dict[str, Ints]:
        """Leaf type -> [position] what one leaf is of the whole there."""
        if type_ not in self._shares:
            found = {leaf: self._count(self.levels.ever, leaf, type_) for leaf in self.order.leaf_types}
            there = {leaf: count for leaf, count in found.items() if count is not None}
            kinds = sum((count > 0).astype(np.int64) for count in there.values())
            self._shares[type_] = {
                leaf: _WHOLE // np.maximum(count * kinds, 1) for leaf, count in there.items()
            }
        return self._shares[type_]

    def _count(self, state: State, leaf: str, type_: str) -> Ints | None:
        """[position] how many leaves of a type each vertex of a level has; None: it has none below it."""
        path = self._path(leaf) or []
        if type_ not in path:
            return None
        count = state.leaves[leaf]
        for below, above in pairwise(path):
            if below == type_:
                break
            parent, length = self.levels.of[below].parent, len(self.levels.of[above].vertices)
            count = np.bincount(parent, weights=count, minlength=length).astype(np.int64)
        return count

    def _path(self, type_: str) -> list[str] | None:
        """The types above a level up to the root's; None if somewhere they differ."""
        if type_ not in self._paths:
            path: list[str] = []
            above = self.levels.of[type_].above
            while above and above not in path:
                path.append(above)
                above = self.levels.of[above].above
            self._paths[type_] = path
        path = self._paths[type_]
        top = path[-1] if path else type_
        return path if int(self.levels.of[top].vertices[0]) == 0 else None

    def _node(self, type_: str) -> Ints:
        """[position] the position of the node above."""
        if type_ not in self._nodes:
            at = self.levels.of[type_].parent
            for above in self._paths[type_]:
                if above == NODE:
                    break
                at = self.levels.of[above].parent[at]
            self._nodes[type_] = at
        return self._nodes[type_]
