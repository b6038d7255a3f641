"""JSON Graph Format, as Flux uses it for resource graphs: read into a tree's columns, and written.

Called by `cli.query_run` and the session. Only the containment subsystem is read. All errors are TreeErrors
that name the vertex or edge. Nodes and edges are decoded one by one: of many nothing but columns is ever
there. Must not know bookings beyond the counts it is given.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, field

from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.making import GivenPaths, Making
from fairlead.core.tree.parts import Ints, Parts

CONTAINMENT = "containment"
VERSION = 1
"""A graph that states another version is refused: it may mean other things by the same words."""
Fields = dict[str, Any]
MOST_ID = 1 << 48
"""Beyond every id, rank and size."""
_DIGITS = re.compile(r"[0-9]{1,18}")
_STATUS = {0: True, 1: False, "up": True, "down": False}


def read(text: str, onto: Tree | None = None) -> Parts:
    """The vertices of a graph. With `onto`, only those that are not in that tree yet, bound to it by path."""
    nodes, edges = _lists(text)
    made = Making(0 if onto is None else len(onto))
    places: dict[str, int] = {}
    given = GivenPaths(made, () if onto is None else onto.paths)
    for number, node in enumerate(_decoded(_NODE, nodes, text)):
        vertex = _vertex(node, number)
        if not vertex.path:
            continue  # a vertex of another subsystem
        known = None if onto is None else onto.by_path.get(vertex.path)
        if known is None:
            if places.get(vertex.key, -1) >= made.first:
                raise TreeError(f"JGF: node {vertex.key!r:.60} stands twice; give each node its own id")
            known = made.add(vertex.kind, vertex.id, vertex.uniq_id, vertex.rank, up=vertex.up)
            if vertex.named:
                made.names[known] = vertex.name
            if vertex.properties:
                made.properties[known] = vertex.properties
            given.note(known, vertex.path, vertex.name)
        places[vertex.key] = known
    order = _children(made, places, _decoded(_EDGE, edges, text))
    given.settle()
    parts = made.parts()
    return parts if order is None else parts.taken(order, made.first)


def paths(text: str) -> list[tuple[str, Fields]]:
    """The containment path and the metadata of every node of a graph."""
    nodes, _ = _lists(text)
    found = [_vertex(node, number) for number, node in enumerate(_decoded(_NODE, nodes, text))]
    return [
        (vertex.path, msgspec.json.decode(node)["metadata"])
        for vertex, node in zip(found, nodes, strict=True)
        if vertex.path
    ]


def written(
    tree: Tree, rows: Iterable[tuple[int, int, bool]], extra: Mapping[int, Mapping[str, str]] | None = None
) -> Fields:
    """The graph of some vertices (vertex, count, exclusive) and the edges between them."""
    nodes: list[Fields] = []
    there: list[int] = []
    for v, count, exclusive in rows:
        there.append(v)
        nodes.append(_node(tree, v, count, exclusive, (extra or {}).get(v)))
    inside = set(there)
    edges = [
        {"source": str(tree.uniq_id[above]), "target": str(tree.uniq_id[v])}
        for v in there
        if (above := int(tree.parent[v])) in inside
    ]
    return {"graph": {"nodes": nodes, "edges": edges}}


def whole(tree: Tree) -> str:
    """A tree as a JGF text that reads as the same tree: parents first, children in order."""
    graph = written(tree, ((v, tree.sizes[v], False) for v in range(len(tree))))
    for pool, node in zip(tree.pools, graph["graph"]["nodes"], strict=True):
        if pool.unit:
            node["metadata"]["unit"] = pool.unit
        if not pool.up:
            node["metadata"]["status"] = 1
    return msgspec.json.format(msgspec.json.encode(graph), indent=1).decode() + "\n"


# -- what is in a file -------------------------------------------------------------------------------

_Other = list[Any] | str | int | float | bool | None
"""What may stand in a file where keys with values should."""


class _Metadata(Struct, gc=False):
    type: Any = ""
    basename: Any = UNSET
    name: Any = UNSET
    id: Any = UNSET
    uniq_id: Any = UNSET
    rank: Any = UNSET
    size: Any = UNSET
    unit: Any = UNSET
    status: Any = UNSET
    paths: dict[str, Any] | _Other = None
    properties: Any = UNSET


class _Node(Struct, gc=False):
    id: Any = None
    metadata: _Metadata | _Other = None


class _EdgeMetadata(Struct, gc=False):
    name: Any = None
    subsystem: Any = CONTAINMENT


class _Edge(Struct, gc=False):
    source: Any = ""
    target: Any = ""
    metadata: _EdgeMetadata | _Other = None


class _Graph(Struct):
    version: Any = VERSION
    nodes: list[Raw] | dict[str, Any] | str | int | float | bool | None = None
    edges: list[Raw] | dict[str, Any] | str | int | float | bool | None = field(default_factory=list[Raw])


class _File(Struct):
    version: Any = VERSION
    graph: _Graph | _Other = None
    graphs: Any = UNSET


_FILE: msgspec.json.Decoder[object] = msgspec.json.Decoder(_File | _Other)
_NODE: msgspec.json.Decoder[object] = msgspec.json.Decoder(_Node | _Other)
_EDGE: msgspec.json.Decoder[object] = msgspec.json.Decoder(_Edge | _Other)


# -- reading -----------------------------------------------------------------------------------------


class _Vertex(Struct, gc=False):
    """What a node of the file says."""

    key: str
    path: str
    kind: tuple[str, str, int, str]
    """Type, basename, size, unit."""
    name: str
    named: bool
    """Whether the name is not basename and id."""
    id: int
    uniq_id: int
    rank: int
    up: bool
    properties: dict[str, str]


def _lists(text: str) -> tuple[list[Raw], list[Raw]]:
    """The nodes and edges of a file, each to be decoded."""
    try:
        top = _FILE.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_json(text, error) from None
    graph = top.graph if isinstance(top, _File) else None
    if isinstance(top, _File) and top.graphs is not UNSET:
        raise TreeError("JGF: it holds several graphs; give a file with one, under the key 'graph'")
    if not isinstance(top, _File) or not isinstance(graph, _Graph):
        raise TreeError("JGF: the key 'graph' is missing")
    for version in (top.version, graph.version):
        if version != VERSION:
            raise TreeError(f"JGF: version is {version!r:.60}, but only {VERSION} is known")
    if not isinstance(graph.nodes, list):
        raise _no_objects("nodes")
    if not isinstance(graph.edges, list):
        raise _no_objects("edges")
    return graph.nodes, graph.edges


def _decoded(decoder: msgspec.json.Decoder[object], items: list[Raw], text: str) -> Iterator[object]:
    """The items of a text one after the other."""
    try:
        yield from map(decoder.decode, items)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _not_json(text, error) from None


def _not_json(text: str, error: Exception) -> TreeError:
    """With the place in the whole text."""
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as found:
        error = found
    return TreeError(f"JGF: not JSON: {error}")


def _no_objects(key: str) -> TreeError:
    return TreeError(f"JGF: graph.{key} must be a list of objects")


def _vertex(node: object, number: int) -> _Vertex:
    if not isinstance(node, _Node):
        raise _no_objects("nodes")
    data = node.metadata
    if not isinstance(data, _Metadata):
        raise TreeError(f"{_where(number)}: the key 'metadata' is missing")
    key, type_ = _key(node.id, number), _word(data.type, number, "type")
    if not type_:
        raise TreeError(f"{_where(number)}.metadata: the key 'type' is missing")
    path = _path(data.paths, number)
    basename = type_ if data.basename is UNSET else _word(data.basename, number, "basename")
    own = int(key) if _DIGITS.fullmatch(key) else -1
    id_ = (own if own < MOST_ID else -1) if data.id is UNSET else _number(data.id, number, "id")
    usual = f"{basename}{id_}"
    told = "" if data.name is UNSET else _word(data.name, number, "name")
    name = told or (usual if id_ >= 0 else basename)
    uniq_id = (own if own >= 0 else number) if data.uniq_id is UNSET else _uniq_id(data.uniq_id, number)
    rank = -1 if data.rank is UNSET else _number(data.rank, number, "rank")
    size = 1 if data.size is UNSET else _number(data.size, number, "size", 1)
    unit = "" if data.unit is UNSET else _word(data.unit, number, "unit")
    up = data.status is UNSET or _up(data.status, number)
    properties = {} if data.properties is UNSET else _properties(data.properties, number)
    kind = (type_, basename, size, unit)
    return _Vertex(key, path, kind, name, name != usual, id_, uniq_id, rank, up, properties)


def _where(number: int) -> str:
    return f"JGF: graph.nodes[{number}]"


def _key(value: object, number: int) -> str:
    if isinstance(value, str) and value:
        return value
    if value is None or value == "":
        raise TreeError(f"{_where(number)}: the key 'id' is missing")
    if isinstance(value, bool) or not isinstance(value, int):
        raise TreeError(f"{_where(number)}.id: is {value!r:.60}, but must be a word or a number")
    return str(value)


def _path(found: object, number: int) -> str:
    """The path in the containment subsystem; empty for a vertex that is in others only."""
    if not isinstance(found, dict) or not found:
        raise TreeError(f"{_where(number)}.metadata: the key 'paths' is missing")
    path = _word(cast("Fields", found).get(CONTAINMENT, ""), number, f"paths.{CONTAINMENT}")
    if path and not path.startswith("/"):
        place = f"{_where(number)}.metadata.paths.{CONTAINMENT}"
        raise TreeError(f"{place}: is {path!r:.60}, but must be a path such as /a/b")
    return path


def _word(value: object, number: int, key: str) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise TreeError(f"{_where(number)}.metadata.{key}: is {value!r:.60}, but must be a word")
    return value


def _number(value: object, number: int, key: str, least: int = -MOST_ID) -> int:
    if type(value) is not int or not least <= value < MOST_ID:
        above = f", at least {least}" if least >= 0 else ""
        told = f"is {value!r:.60}, but must be a whole number{above}"
        raise TreeError(f"{_where(number)}.metadata.{key}: {told}")
    return value


def _uniq_id(value: object, number: int) -> int:
    """A number, or its digits; other words count as none."""
    if type(value) is int and 0 <= value < MOST_ID:
        return value
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DIGITS.fullmatch(text):
        told = f"is {value!r:.60}, but must be a whole number, at least 0"
        raise TreeError(f"{_where(number)}.metadata.uniq_id: {told}")
    return int(text)


def _up(value: object, number: int) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if isinstance(word, bool) or not isinstance(word, int | str) or word not in _STATUS:
        told = f"is {value!r:.60}, but must be 0 (up) or 1 (down)"
        raise TreeError(f"{_where(number)}.metadata.status: {told}")
    return _STATUS[word]


def _properties(value: object, number: int) -> dict[str, str]:
    if isinstance(value, list):
        return {str(word): "" for word in cast("list[Any]", value)}
    if not isinstance(value, dict):
        raise TreeError(f"{_where(number)}.metadata.properties: must be keys with values")
    return {str(key): str(each) for key, each in cast("dict[object, object]", value).items()}


def _children(made: Making, places: dict[str, int], edges: Iterator[object]) -> Ints | None:
    """Set every parent; the vertices in the order of the edges, which is the order of children.

    None if that is the order in which they are there.
    """
    order, parents, first = array("i"), made.parent, made.first
    for number, edge in enumerate(edges):
        if not isinstance(edge, _Edge):
            raise _no_objects("edges")
        metadata = edge.metadata
        if isinstance(metadata, _EdgeMetadata):
            if not _contains(metadata):
                continue
        elif metadata:
            raise TreeError(f"JGF: graph.edges[{number}].metadata: must be keys with values")
        source, target = str(edge.source), str(edge.target)
        try:
            parent, child = places[source], places[target] - first
        except KeyError as missing:
            end = missing.args[0]
            raise TreeError(f"JGF: graph.edges[{number}]: there is no node {end!r:.60}") from None
        if child < 0:
            continue  # it is where it was
        if parents[child] == -1:
            parents[child] = parent
            order.append(child)
        elif parents[child] != parent:
            raise TreeError(f"JGF: graph.edges[{number}]: node {target!r:.60} is contained twice")
    tops = np.flatnonzero(np.array(parents, dtype=np.int32) == -1)
    whole = np.concatenate((tops, np.array(order, dtype=np.int64)))
    return None if (whole[:-1] < whole[1:]).all() else whole


def _contains(metadata: _EdgeMetadata) -> bool:
    """Whether an edge is one of containment, downwards. Older files have names instead of a subsystem."""
    if isinstance(metadata.name, dict):
        return cast("Fields", metadata.name).get(CONTAINMENT) not in (None, "in")
    return metadata.subsystem == CONTAINMENT


# -- writing -----------------------------------------------------------------------------------------


def _node(tree: Tree, v: int, count: int, exclusive: bool, filters: Mapping[str, str] | None) -> Fields:
    """One node; what follows from the rest is left out."""
    pool = tree.pools[v]
    metadata: Fields = {"type": pool.type}
    if pool.basename != pool.type:
        metadata["basename"] = pool.basename
    metadata["id"] = pool.id
    if pool.name != f"{pool.basename}{pool.id}":
        metadata["name"] = pool.name
    metadata["rank"] = pool.rank
    if exclusive:
        metadata["exclusive"] = True
    if count != 1:
        metadata["size"] = count
    metadata["paths"] = {CONTAINMENT: tree.paths[v]}
    if pool.properties:
        metadata["properties"] = dict(pool.properties)
    if filters:
        metadata["agfilter"] = dict(filters)
    return {"id": str(pool.uniq_id), "metadata": metadata}
