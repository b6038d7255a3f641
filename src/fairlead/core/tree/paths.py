"""Paths of vertices, and vertices by their paths: made when asked for, since few of many ever are.

Owned by `core.tree.columns`. A vertex's path is its parent's and its name, unless the graph said otherwise.
Must not change the tree.
"""

from collections.abc import Callable, Sequence
from typing import overload

from fairlead.core.tree.parts import Parts


class Paths(Sequence[str]):
    """[vertex] its path."""

    def __init__(self, parts: Parts) -> None:
        """Over vertices depth first. Paths that follow from the rest are dropped from `parts`."""
        self._parts = parts
        parts.paths = _odd(parts)

    def __len__(self) -> int:
        return len(self._parts.kind)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[v] for v in range(len(self))[index]]
        if not 0 <= index < len(self):
            raise IndexError(index)
        names: list[str] = []
        v, odd = index, self._parts.paths
        while v >= 0 and v not in odd:
            names.append(self._parts.name(v))
            v = int(self._parts.parent[v])
        return "/".join([odd.get(v, ""), *reversed(names)])


class ByPath:
    """Vertices by path; of two with one path the later one."""

    def __init__(self, parts: Parts, children: Callable[[int], Sequence[int]]) -> None:
        self._parts, self._odd, self._children = parts, parts.paths, children
        self._with: dict[str, list[int]] | None = None
        self._named: dict[int, dict[str, list[int]]] = {}

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.get(path) is not None

    def get(self, path: str) -> int | None:
        """The vertex, or None."""
        return max(self._all(path), default=None)

    def _all(self, path: str) -> list[int]:
        if self._with is None:
            self._with = {}
            for v, odd in self._odd.items():
                self._with.setdefault(odd, []).append(v)
        found = list(self._with.get(path, ()))
        above, slash, name = path.rpartition("/")
        if not slash:
            return found
        if not above:
            return [*found, *([0] if 0 not in self._odd and self._parts.name(0) == name else [])]
        return found + [v for parent in self._all(above) for v in self._below(parent).get(name, ())]

    def _below(self, parent: int) -> dict[str, list[int]]:
        """The children of a vertex by name."""
        found = self._named.get(parent)
        if found is None:
            found = self._named[parent] = {}
            for child in self._children(parent):
                if child not in self._odd:
                    found.setdefault(self._parts.name(child), []).append(child)
        return found


def _odd(parts: Parts) -> dict[int, str]:
    """The paths that do not follow from the parent's path and the name, or whose name has a slash."""
    full: dict[int, str] = {}

    def path(v: int) -> str:
        if v < 0:
            return ""
        if v not in full:
            full[v] = parts.paths.get(v) or f"{path(int(parts.parent[v]))}/{parts.name(v)}"
        return full[v]

    slashed = [v for v, name in parts.names.items() if "/" in name]
    slashed += _of_slashed_kinds(parts)
    given = {
        v: path_
        for v, path_ in parts.paths.items()
        if path_ != f"{path(int(parts.parent[v]))}/{parts.name(v)}"
    }
    return {v: path(v) for v in slashed} | given


def _of_slashed_kinds(parts: Parts) -> list[int]:
    return [
        v
        for at, kind in enumerate(parts.kinds)
        if "/" in kind.basename
        for v in (parts.kind == at).nonzero()[0].tolist()
    ]
