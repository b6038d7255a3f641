"""GRUG: recipes in GraphML that say how to generate a resource graph, as Flux reads them.

Called by `cli.query_run`. A recipe's nodes are kinds of vertices, its edges say how many of the target each
source gets. Only the containment subsystem is generated. All errors are TreeErrors.
Must not know what types mean.
"""

import re
import xml.etree.ElementTree as ET

import numpy as np
from msgspec import Struct, field

from fairlead.core.tree.parts import Ints, Kind, Parts, Short, TreeError

_CONTAINMENT = "containment"
MOST = 1 << 24
"""How many vertices a recipe may generate: more is a slip of the pen, and would fill the memory."""
_LARGEST = 1 << 31
_DEEPEST = 64
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


class _Kind(Struct, frozen=True):
    """A node of the recipe."""

    name: str
    type: str
    basename: str
    size: int
    unit: str
    root: bool


class _Edge(Struct, frozen=True):
    """An edge of the recipe: `scale` targets a source, numbered within an ancestor `scope` levels up."""

    source: str
    target: str
    scale: int
    scope: int
    start: int
    stride: int


class _Made(Struct):
    """The vertices generated so far: columns in pieces, each of one kind."""

    kind: list[Short] = field(default_factory=list[Short])
    parent: list[Ints] = field(default_factory=list[Ints])
    id: list[Ints] = field(default_factory=list[Ints])
    count: int = 0

    def add(self, kind: int, parent: Ints, id_: Ints) -> Ints:
        """More vertices of one kind; their numbers."""
        made = np.arange(self.count, self.count + len(parent))
        self.kind.append(np.full(len(parent), kind, dtype=np.int32))
        self.parent.append(parent)
        self.id.append(id_)
        self.count += len(parent)
        return made


def read(text: str) -> Parts:
    """The vertices that a recipe generates. Raises TreeError."""
    kinds, edges = _recipe(text)
    roots = [kind for kind in kinds.values() if kind.root]
    if len(roots) != 1:
        raise TreeError(f"GRUG: one node must have root=1, here {len(roots)} have")
    place = {name: at for at, name in enumerate(kinds)}
    made = _Made()
    root = made.add(place[roots[0].name], np.array([-1]), np.array([0]))
    _generate(roots[0].name, [root], edges, place, made, frozenset())
    return Parts(
        [Kind(kind.type, kind.basename, kind.size, kind.unit) for kind in kinds.values()],
        np.concatenate(made.kind),
        np.concatenate(made.parent).astype(np.int32),
        np.concatenate(made.id),
        np.arange(made.count),
        np.full(made.count, -1),
        np.ones(made.count, dtype=np.bool_),
    )


def _generate(
    name: str,
    sources: list[Ints],
    edges: list[_Edge],
    place: dict[str, int],
    made: _Made,
    above: frozenset[str],
) -> None:
    """Depth first over the recipe, all instances of an edge at once: so Flux numbers its vertices.

    `sources` are the vertices of this name, then their parents, and so on up to the root.
    """
    if name in above:
        raise TreeError(f"GRUG: node {name!r:.60} contains itself")
    if len(above) > _DEEPEST:
        raise TreeError(f"GRUG: more than {_DEEPEST} levels")
    for edge in edges:
        if edge.source != name:
            continue
        if made.count + edge.scale * len(sources[0]) > MOST:
            raise TreeError(f"GRUG: edge from {name!r} to {edge.target!r}: more than {MOST} vertices in all")
        lineage = [np.repeat(each, edge.scale) for each in sources]
        at = _numbered(lineage[min(edge.scope, len(lineage) - 1)])
        targets = made.add(place[edge.target], lineage[0], edge.start + at * edge.stride)
        _generate(edge.target, [targets, *lineage], edges, place, made, above | {name})


def _numbered(scopes: Ints) -> Ints:
    """How many there were in the same scope before each."""
    order = np.argsort(scopes, kind="stable")
    first = np.flatnonzero(np.diff(scopes[order], prepend=-1))
    before = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = before
    return numbers


def _recipe(text: str) -> tuple[dict[str, _Kind], list[_Edge]]:
    """Nodes by name and edges in order, with the defaults of their keys."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise TreeError(f"GRUG: not XML: {error}") from None
    defaults: dict[tuple[str, str], str] = {}
    for key in _all(root, "key"):
        for default in _all(key, "default"):
            defaults[key.get("for", ""), key.get("id", "")] = (default.text or "").strip()
    kinds: dict[str, _Kind] = {}
    for element in _all(root, "node"):
        kind = _kind(element, _data(element, "node", defaults))
        if kind is not None:
            kinds[kind.name] = kind
    found = [_edge(element, _data(element, "edge", defaults), kinds) for element in _all(root, "edge")]
    return kinds, [edge for edge in found if edge is not None]


def _kind(element: ET.Element, data: dict[str, str]) -> _Kind | None:
    name = element.get("id", "")
    where = f"GRUG: node {name!r:.60}"
    if data.get("subsystem", _CONTAINMENT) != _CONTAINMENT:
        return None
    if not data.get("type"):
        raise TreeError(f"{where}: the key 'type' is missing")
    for key in ("type", "basename"):
        if not data.get(key, "").isprintable():
            raise TreeError(f"{where}: {key} is {data[key]!r:.60}, but must be a word")
    return _Kind(
        name,
        data["type"],
        data.get("basename") or data["type"],
        _number(data, "size", 1, where, 1),
        data.get("unit", ""),
        _number(data, "root", 0, where) == 1,
    )


def _edge(element: ET.Element, data: dict[str, str], kinds: dict[str, _Kind]) -> _Edge | None:
    source, target = element.get("source", ""), element.get("target", "")
    where = f"GRUG: edge {element.get('id', '')!r:.60}"
    if data.get("e_subsystem", _CONTAINMENT) != _CONTAINMENT or data.get("relation", "contains") == "in":
        return None
    for end in (source, target):
        if end not in kinds:
            raise TreeError(f"{where}: there is no node {end!r:.60} in the containment subsystem")
    if data.get("gen_method", "MULTIPLY") != "MULTIPLY":
        return None
    return _Edge(
        source,
        target,
        _number(data, "multi_scale", 1, where, 0),
        _number(data, "id_scope", 0, where, 0),
        _number(data, "id_start", 0, where),
        _number(data, "id_stride", 1, where),
    )


def _data(element: ET.Element, kind: str, defaults: dict[tuple[str, str], str]) -> dict[str, str]:
    own = {each.get("key", ""): (each.text or "").strip() for each in _all(element, "data")}
    return {**{key: value for (for_, key), value in defaults.items() if for_ == kind}, **own}


def _number(data: dict[str, str], key: str, default: int, where: str, least: int = -_LARGEST) -> int:
    text = data.get(key, "")
    number = default if not text else int(text) if _WHOLE.fullmatch(text) else least - 1
    if not least <= number <= _LARGEST:
        above = f", at least {least}" if least >= 0 else ""
        raise TreeError(f"{where}: {key} is {text!r:.60}, but must be a whole number{above}")
    return number


def _all(element: ET.Element, tag: str) -> list[ET.Element]:
    """Elements of this name, in GraphML's namespace or none."""
    return [each for each in element.iter() if each.tag.rpartition("}")[2] == tag]
