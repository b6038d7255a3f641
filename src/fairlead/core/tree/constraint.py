"""RFC 31 constraints: which nodes a request may use.

Called by `core.tree.graph`; read from jobspecs by `wire.jobspec`. Knows properties, hostlist and ranks only.
"""

from collections.abc import Callable

from fairlead.core.tree.columns import Tree, TreeError
from fairlead.model.idset import hostlist, idset
from fairlead.model.jobspec import Constraint

Admits = Callable[[int], bool]


def admits(constraint: Constraint, tree: Tree) -> Admits:
    """A function that says of a vertex whether the constraint admits it. Raises TreeError."""
    kind = constraint.operator
    if kind in ("and", "or", "not"):
        return _combined(kind, [admits(part, tree) for part in constraint.parts])
    if kind == "properties":
        return _properties(constraint.words, tree)
    try:
        if kind == "hostlist":
            names = {name for word in constraint.words for name in hostlist(word)}
            return lambda v: tree.name(v) in names
        ranks = {rank for word in constraint.words for rank in idset(word)}
    except ValueError as error:
        raise TreeError(f"constraint {kind}: {error}") from None
    return lambda v: int(tree.rank[v]) in ranks


def _combined(kind: str, parts: list[Admits]) -> Admits:
    if kind == "and":
        return lambda v: all(part(v) for part in parts)
    if kind == "or":
        return lambda v: any(part(v) for part in parts)
    return lambda v: not all(part(v) for part in parts)


def _properties(words: tuple[str, ...], tree: Tree) -> Admits:
    wanted = [word for word in words if not word.startswith("^")]
    unwanted = [word[1:] for word in words if word.startswith("^")]

    def check(v: int) -> bool:
        there = tree.properties(v)
        return all(_has(there, word) for word in wanted) and not any(_has(there, word) for word in unwanted)

    return check


def _has(there: dict[str, str], word: str) -> bool:
    """Whether a property is there; `name=value` also names one by its value, as a node's labels are."""
    name, equals, value = word.partition("=")
    return word in there or (bool(equals) and there.get(name) == value)
