"""The columns of Parts while somebody goes from vertex to vertex: only what a vertex has of its own is kept.

Used by `wire.jgf` and `wire.rv1`, and by `core.tree.columns` for Pools. Must not know files.
"""

from array import array
from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.core.tree.parts import Kind, Parts, Pool, TreeError

_LARGEST = 1 << 63
_Shared = tuple[str, str, int, str]
"""What a Kind holds: type, basename, size, unit."""


class Making:
    """The vertices met so far, numbered from `first` on."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.parent = array("i")
        """Parents may be told later; -1 until then."""
        self.names: dict[int, str] = {}
        self.paths: dict[int, str] = {}
        self.properties: dict[int, dict[str, str]] = {}
        self._types: list[_Shared] = []
        self._kinds: dict[_Shared, int] = {}
        self._kind, self._up = array("i"), bytearray()
        self._id, self._uniq_id, self._rank = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self.parent)

    def add(
        self, kind: _Shared, id_: int, uniq_id: int, rank: int = -1, parent: int = -1, up: bool = True
    ) -> int:
        """One more vertex; its number. Raises TreeError for a number beyond 64 bits."""
        number = self._kinds.get(kind)
        if number is None:
            number = self._kinds[kind] = len(self._types)
            self._types.append(kind)
            if not -_LARGEST <= kind[2] < _LARGEST:
                raise TreeError(f"vertex {kind[1]}{id_}: its size is {kind[2]}, but must fit into 64 bits")
        try:
            self._id.append(id_)
            self._uniq_id.append(uniq_id)
            self._rank.append(rank)
        except OverflowError:
            told = f"id {id_}, uniq_id {uniq_id}, rank {rank}"
            raise TreeError(f"vertex {kind[1]}{id_}: {told}: each must fit into 64 bits") from None
        self._kind.append(number)
        self._up.append(up)
        self.parent.append(parent)
        return self.first + len(self.parent) - 1

    def name(self, v: int) -> str:
        """A vertex's name."""
        at = v - self.first
        return self.names.get(v) or f"{self._types[self._kind[at]][1]}{self._id[at]}"

    def parts(self) -> Parts:
        """All of them as columns."""
        return Parts(
            [Kind(*kind) for kind in self._types],
            np.array(self._kind, dtype=np.int32),
            np.array(self.parent, dtype=np.int32),
            np.array(self._id, dtype=np.int64),
            np.array(self._uniq_id, dtype=np.int64),
            np.array(self._rank, dtype=np.int64),
            np.frombuffer(self._up, dtype=np.bool_).copy(),
            self.names,
            self.paths,
            self.properties,
        )


class GivenPaths:
    """Paths of vertices whose parents are not known yet: in the end only those are kept that do not follow.

    What stands before the last slash is the same for all children of a vertex, so it is there once.
    """

    def __init__(self, made: Making, known: Sequence[str]) -> None:
        """`known` are the paths of the vertices before the first of `made`."""
        self._made, self._known = made, known
        self._before: dict[str, int] = {}
        self._of = array("i")
        """[vertex] the number of what stands before its name; -1 for one that ends otherwise."""

    def note(self, v: int, path: str, name: str) -> None:
        """The path of the vertex that was added last."""
        before, slash, last = path.rpartition("/")
        if slash and last == name:
            self._of.append(self._before.setdefault(before, len(self._before)))
        else:
            self._of.append(-1)
            self._made.paths[v] = path

    def settle(self) -> None:
        """Every parent is known: keep the paths that are not the parent's path and the name."""
        befores, parents = list(self._before), dict[int, int]()
        for v, (parent, number) in enumerate(zip(self._made.parent, self._of, strict=True), self._made.first):
            if number >= 0:
                if parent not in parents:
                    parents[parent] = self._before.get(self._path(parent, befores), -1)
                if parents[parent] != number:
                    self._made.paths[v] = f"{befores[number]}/{self._made.name(v)}"

    def _path(self, v: int, befores: list[str]) -> str:
        if v < 0:
            return ""
        if v < self._made.first:
            return self._known[v]
        odd = self._made.paths.get(v)
        return odd or f"{befores[self._of[v - self._made.first]]}/{self._made.name(v)}"


def of_pools(pools: Sequence[Pool], known: Mapping[str, int] | None = None, first: int = 0) -> Parts:
    """Pools as columns, numbered from `first` on. Their parents are among them or, by key, among the known.

    Raises TreeError for a key that stands twice, for a parent that does not exist and for too large numbers.
    """
    above = dict(known or {})
    for v, pool in enumerate(pools, first):
        if pool.key in above:
            raise TreeError(f"vertex {pool.key!r} stands twice; give each vertex its own id")
        above[pool.key] = v
    made = Making(first)
    for pool in pools:
        parent = -1 if pool.parent is None else above.get(pool.parent)
        if parent is None:
            raise TreeError(f"vertex {pool.key!r} is contained in {pool.parent!r}, which does not exist")
        kind = (pool.type, pool.basename, pool.size, pool.unit)
        v = made.add(kind, pool.id, pool.uniq_id, pool.rank, parent, pool.up)
        if pool.name != f"{pool.basename}{pool.id}":
            made.names[v] = pool.name
        if pool.path:
            made.paths[v] = pool.path
        if pool.properties:
            made.properties[v] = dict(pool.properties)
    return made.parts()
