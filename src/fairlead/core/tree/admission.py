"""Which vertices a request may use, asked of one or of a whole level: what its constraint admits.

Owned by `core.tree.graph` until properties or the tree change; read by matching. Must not read jobspecs.
"""

from typing import Protocol

import numpy as np

from fairlead.core.tree.columns import Mask, Tree
from fairlead.core.tree.constraint import admits
from fairlead.core.tree.matchpolicy import NODE
from fairlead.model.jobspec import Constraint

NODES = (NODE, "storage_node")
"""Types that constraints are about."""
_MOST = 64


class Allowed(Protocol):
    """As a function, whether a vertex may be used."""

    @property
    def types(self) -> tuple[str, ...]:
        """Those it says something about."""
        ...

    def __call__(self, v: int) -> bool: ...

    def level(self, type_: str) -> Mask:
        """[position] which vertices of one of its types may be used. Not to be changed."""
        ...


class Admission:
    """What one constraint admits."""

    types: tuple[str, ...] = NODES

    def __init__(self, constraint: Constraint, tree: Tree) -> None:
        """Raises TreeError for a constraint that cannot be read."""
        self._tree, self._admits = tree, admits(constraint, tree)
        self._masks: dict[str, Mask] = {}

    def __call__(self, v: int) -> bool:
        return self._admits(v)

    def level(self, type_: str) -> Mask:
        """[position] which vertices of a type it admits. Not to be changed."""
        found = self._masks.get(type_)
        if found is None:
            vertices: list[int] = self._tree.of_type(type_).tolist()
            found = self._masks[type_] = np.fromiter(map(self._admits, vertices), np.bool_, len(vertices))
        return found


class Only:
    """What a constraint admits, and of the vertices of one type only some."""

    def __init__(self, base: Allowed | None, tree: Tree, type_: str, some: Mask) -> None:
        """`some` is [position] which of the type; it must not be changed while this is asked."""
        self.types = (type_,) if base is None else (*base.types, type_)
        self._base, self._type, self._some = base, type_, some
        self._tree = tree

    def __call__(self, v: int) -> bool:
        type_ = self._tree.type[v]
        if type_ == self._type and not self._some[np.searchsorted(self._tree.of_type(type_), v)]:
            return False
        return self._base is None or type_ not in self._base.types or self._base(v)

    def level(self, type_: str) -> Mask:
        """[position] which vertices of one of its types may be used."""
        if self._base is None or type_ not in self._base.types:
            return self._some
        there = self._base.level(type_)
        return there & self._some if type_ == self._type else there


class Admissions:
    """The answers for constraints that were asked for lately."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[Constraint, Admission] = {}

    def of(self, constraint: Constraint | None) -> Admission | None:
        """What a constraint admits; None for everything. Raises TreeError."""
        if constraint is None:
            return None
        found = self._known.get(constraint)
        if found is None:
            found = Admission(constraint, self._tree)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[constraint] = found
        return found
