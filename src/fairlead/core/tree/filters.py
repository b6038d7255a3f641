"""Pruning filters: how much of some types each subtree has, and how much of it jobs hold.

Owned by `core.tree.graph`; `find agfilter=true` shows them. A filter `rack:gpu` is kept at racks, `ALL:gpu`
at every vertex that has children; the types of leaves are kept at vertices of type cluster in any case.
Must not decide anything.
"""

import numpy as np

from fairlead.core.tree.bookings import Bookings, Held
from fairlead.core.tree.columns import Ints, Tree, TreeError

ANY = "ALL"
_TOP = "cluster"


class Filters:
    """Which types are counted where."""

    def __init__(self, tree: Tree, text: str) -> None:
        """`text` is such as "ALL:core,rack:gpu". Raises TreeError."""
        self.text, self.tree = text, tree
        self._anchors: dict[str, set[str]] = {}
        for pair in text.split(","):
            anchor, colon, type_ = (part.strip() for part in pair.partition(":"))
            if not (anchor and colon and type_):
                raise TreeError(f"pruning filter {pair!r}: write it as TYPE:TYPE, for example ALL:core")
            self._anchors.setdefault(anchor, set()).add(type_)
        self._counted = set[str]().union(*self._anchors.values())
        leaves = tree.end == np.arange(1, len(tree) + 1)
        for type_ in tree.types:
            if type_ not in self._counted and bool((leaves & (tree.kind == tree.kind_of(type_))).any()):
                self._anchors.setdefault(_TOP, set()).add(type_)
                self._counted.add(type_)
        self._at: dict[str, list[str]] = {}
        self._totals: dict[str, Ints] = {}
        self._taken: dict[tuple[int, str], int] = {}
        """(vertex, type) -> how much of it allocations hold."""

    def types_at(self, v: int) -> list[str]:
        """The types counted at a vertex."""
        if self.tree.leaf(v):
            return []
        type_ = self.tree.type[v]
        if type_ not in self._at:
            self._at[type_] = self._types(type_)
        return self._at[type_]

    def _types(self, type_: str) -> list[str]:
        own = self._anchors.get(type_, set[str]())
        return [*sorted(own), *sorted(self._anchors.get(ANY, set[str]()) - own - {type_})]

    def counts(self, type_: str) -> bool:
        """Whether a type is counted anywhere."""
        return type_ in self._counted

    def see(self, held: dict[int, Held]) -> bool:
        """Whether anything that is held below the root is counted there."""
        return any(v != 0 and self.tree.type[v] in self._counted for v in held)

    def sees_below(self, held: dict[int, Held], v: int) -> bool:
        """Whether anything that is held below this vertex is counted anywhere, and this vertex counts."""
        end, types = int(self.tree.end[v]), self.tree.type
        return bool(self.types_at(v)) and any(v < w < end and types[w] in self._counted for w in held)

    def total(self, v: int, type_: str) -> int:
        """How much of the type there is strictly below the vertex."""
        if type_ not in self._totals:
            own = np.where(self.tree.kind == self.tree.kind_of(type_), self.tree.size, 0)
            self._totals[type_] = self.tree.totals(own) - own
        return int(self._totals[type_][v])

    def used(self, bookings: Bookings, v: int, type_: str, now: int) -> int:
        """How much of it jobs hold at this instant."""
        jobs = (job for job in bookings.jobs.values() if job.start <= now < job.end)
        return sum(self._held(job.held, v, type_) for job in jobs)

    def used_by(self, held: dict[int, Held], v: int) -> dict[str, int]:
        """How much of each counted type one job holds below the vertex."""
        return {type_: self._held(held, v, type_) for type_ in self.types_at(v)}

    def whole(self, type_: str) -> int:
        """How much of the type there is in the whole tree."""
        return self.total(0, type_) + (self.tree.sizes[0] if self.tree.type[0] == type_ else 0)

    def take(self, held: dict[int, Held], by: int) -> None:
        """An allocation takes these vertices (1) or gives them back (-1)."""
        parent, types, taken = self.tree.parents, self.tree.type, self._taken
        for w, each in held.items():
            type_ = types[w]
            if each.exclusive and type_ in self._counted:
                amount, v = by * self.tree.sizes[w], parent[w]
                while v >= 0:
                    taken[v, type_] = taken.get((v, type_), 0) + amount
                    v = parent[v]

    def emptiness(self, held: dict[int, Held]) -> dict[int, int]:
        """What is free of the last counted type, for each inner vertex that a job passed through."""
        found: dict[int, int] = {}
        for v in held:
            types = self.types_at(v) if v != 0 else []
            if types:
                found[v] = self.total(v, types[-1]) - self._taken.get((v, types[-1]), 0)
        return found

    def _held(self, held: dict[int, Held], v: int, type_: str) -> int:
        end, types = int(self.tree.end[v]), self.tree.type
        return sum(
            self.tree.sizes[w]
            for w, each in held.items()
            if v < w < end and each.exclusive and types[w] == type_
        )
