"""Which nodes a constraint admits, asked of one vertex or of a whole level, and remembered.

Owned by `core.tree.graph` until properties or the tree change; read by matching. Must not read jobspecs.
"""

import numpy as np

from fairlead.core.tree.columns import Mask, Tree
from fairlead.core.tree.constraint import admits
from fairlead.model.jobspec import Constraint

_MOST = 64


class Admission:
    """What one constraint admits; as a function, whether it admits a vertex."""

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
