"""The vertices of a graph as columns, in the order a reader gives them; what one kind shares is there once.

Made by `wire.grug` directly, and by `core.tree.making` for all that go vertex by vertex; `core.tree.columns`
makes a Tree of them. Names and paths are kept only where they do not follow from the rest. Must not know
files.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Short = NDArray[np.int32]
"""Numbers of vertices and kinds, of which there are fewer than 2**31."""
Mask = NDArray[np.bool_]
_T = TypeVar("_T")


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


class Kind(NamedTuple):
    """What vertices of one kind have in common."""

    type: str
    basename: str
    size: int
    unit: str


class Parts(Struct):
    """Columns over vertices, and by vertex what few of them have."""

    kinds: list[Kind]
    kind: Short
    """[vertex] its place in `kinds`."""
    parent: Short
    """[vertex] its parent's place here; -1 for a root."""
    id: Ints
    uniq_id: Ints
    rank: Ints
    up: Mask
    names: dict[int, str] = field(default_factory=dict[int, str])
    """Names that are not basename and id."""
    paths: dict[int, str] = field(default_factory=dict[int, str])
    """Paths that are not the parent's path and the name."""
    properties: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])

    def name(self, v: int) -> str:
        """A vertex's name."""
        return self.names.get(v) or f"{self.kinds[int(self.kind[v])].basename}{self.id[v]}"

    def taken(self, order: Ints, first: int = 0) -> "Parts":
        """These vertices in this order; the parents of all of them must be among them.

        Vertices that are numbered from `first` on may also have parents below that, which keep their numbers.
        """
        place = np.full(first + len(self.kind) + 1, -1, dtype=np.int32)  # the last is the parent of a root
        place[:first] = np.arange(first, dtype=np.int32)
        place[order + first] = np.arange(first, first + len(order), dtype=np.int32)

        columns = (self.id[order], self.uniq_id[order], self.rank[order], self.up[order])
        named = (_moved(self.names, place), _moved(self.paths, place), _moved(self.properties, place))
        return Parts(self.kinds, self.kind[order], place[self.parent[order]], *columns, *named)


def together(one: Parts, more: Parts) -> Parts:
    """Both as one; `more` is numbered as what follows `one`."""
    kinds = {kind: at for at, kind in enumerate(one.kinds)}
    where = np.array([kinds.setdefault(kind, len(kinds)) for kind in more.kinds], dtype=np.int32)
    return Parts(
        list(kinds),
        np.concatenate((one.kind, where[more.kind])),
        np.concatenate((one.parent, more.parent)),
        np.concatenate((one.id, more.id)),
        np.concatenate((one.uniq_id, more.uniq_id)),
        np.concatenate((one.rank, more.rank)),
        np.concatenate((one.up, more.up)),
        {**one.names, **more.names},
        {**one.paths, **more.paths},
        {**one.properties, **more.properties},
    )


def depth_first(parent: Short, name: Callable[[int], str]) -> tuple[Ints, Short]:
    """The vertices depth first, children in the order given, and where the interval of each ends.

    Raises TreeError unless they are one tree; `name` tells a vertex's.
    """
    by_parent = np.argsort(parent, kind="stable")
    starts = np.searchsorted(parent[by_parent], np.arange(-1, len(parent)))
    starts = np.append(starts, len(parent))  # the children of v are by_parent[starts[v + 1] : starts[v + 2]]
    roots = by_parent[: starts[1]]
    if len(roots) != 1:
        names = ", ".join(name(int(v)) for v in roots[:3]) or "none"
        raise TreeError(
            f"a graph needs one root in the containment subsystem, this one has {len(roots)}: {names}"
        )
    levels = [roots]
    while len(levels[-1]):
        levels.append(by_parent[_ranges(starts[levels[-1] + 1], starts[levels[-1] + 2])])
    reached = sum(map(len, levels))
    if reached != len(parent):
        raise TreeError(f"{len(parent) - reached} vertices contain each other in a circle")
    size = np.ones(len(parent), dtype=np.int64)
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    place = np.zeros(len(parent), dtype=np.int64)
    for level in levels[1:-1]:
        above = parent[level]
        before = np.cumsum(size[level]) - size[level]
        first = np.flatnonzero(np.diff(above, prepend=-1))  # siblings stand side by side
        before -= np.repeat(before[first], np.diff(first, append=len(level)))
        place[level] = place[above] + 1 + before
    order = np.empty(len(parent), dtype=np.int64)
    order[place] = np.arange(len(parent))
    return order, (place + size)[order].astype(np.int32)


def _ranges(first: Ints, last: Ints) -> Ints:
    """All numbers of [first, last), one such range after the other."""
    lengths = last - first
    gaps = first - (np.cumsum(lengths) - lengths)
    return np.repeat(gaps, lengths) + np.arange(int(lengths.sum()))


def _moved(known: dict[int, _T], place: Short) -> dict[int, _T]:
    """The same by new numbers, without those that have none."""
    return {int(place[v]): value for v, value in known.items() if place[v] >= 0}
