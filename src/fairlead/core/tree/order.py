"""In which order children are tried by policies that stop at the first match: the emptiest subtrees first.

Owned by `core.tree.graph`, read by `core.tree.walk`. Emptiness is how much of the last pruning type was free
when a match last passed through; a child that no match has passed is emptiest; among equals the last made.
"""

from bisect import insort
from functools import cached_property

import numpy as np

from fairlead.core.tree.columns import Tree

_UNTOUCHED = 1 << 62


class Order:
    """Children sorted, and the types each vertex has among them."""

    def __init__(self, tree: Tree, weights: dict[int, int] | None = None) -> None:
        self.tree = tree
        self.weights = {} if weights is None else weights
        self._sorted: dict[int, list[tuple[int, int, int]]] = {}
        self._types: dict[int, frozenset[str]] = {}

    @cached_property
    def leaf_types(self) -> frozenset[str]:
        """The types of which no vertex has children."""
        tree = self.tree
        inner = set(tree.kind[tree.end > np.arange(1, len(tree) + 1)].tolist())
        return frozenset(type_ for kind, type_ in enumerate(tree.types) if kind not in inner)

    def children(self, v: int) -> list[int]:
        """The children in the order of trial."""
        return [child for _, _, child in self._entries(v)]

    def child_types(self, v: int) -> frozenset[str]:
        """The types that occur among the children."""
        found = self._types.get(v)
        if found is None:
            found = self._types[v] = frozenset(self.tree.type[child] for child in self.tree.children[v])
        return found

    def reweigh(self, v: int, free: int) -> None:
        """So much is free below the vertex now."""
        entries = self._entries(int(self.tree.parent[v]))
        entries.remove(self._entry(v))
        self.weights[v] = free
        insort(entries, self._entry(v))

    def moved(self, tree: Tree, where: dict[int, int]) -> "Order":
        """The same over another tree."""
        return Order(tree, {where[v]: weight for v, weight in self.weights.items() if v in where})

    def _entries(self, v: int) -> list[tuple[int, int, int]]:
        found = self._sorted.get(v)
        if found is None:
            found = self._sorted[v] = sorted(self._entry(child) for child in self.tree.children[v])
        return found

    def _entry(self, v: int) -> tuple[int, int, int]:
        return -self.weights.get(v, _UNTOUCHED), -int(self.tree.uniq_id[v]), v
