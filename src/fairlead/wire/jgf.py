"""JSON Graph Format, as Flux uses it for resource graphs: read into a tree's pools, and written.

Called by `cli.query_run` and the session. Only the containment subsystem is read. All errors are TreeErrors
that name the vertex or edge. Must not know bookings beyond the counts it is given.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from fairlead.core.tree.columns import Pool, Tree, TreeError

CONTAINMENT = "containment"
VERSION = 1
"""A graph that states another version is refused: it may mean other things by the same words."""
Fields = dict[str, Any]
MOST_ID = 1 << 48
"""Beyond every id, rank and size."""
_DIGITS = re.compile(r"[0-9]{1,18}")


def read(text: str, onto: Tree | None = None) -> list[Pool]:
    """The pools of a graph. With `onto`, only those that are not in that tree yet, bound to it by path."""
    nodes, edges = _lists(text)
    pools: dict[str, Pool] = {}
    alias: dict[str, str] = {}
    for number, node in enumerate(nodes):
        pool = _pool(node, number)
        if not pool.path:
            continue  # a vertex of another subsystem
        known = None if onto is None else onto.by_path.get(pool.path)
        if onto is not None and known is not None:
            key = onto.key(known)
        else:
            key = pool.key if onto is None else f"{pool.key}@{pool.path}"
            if key in pools:
                raise TreeError(f"JGF: node {pool.key!r:.60} stands twice; give each node its own id")
            pools[key] = pool
        alias[pool.key] = pool.key = key
    order = _children(pools, alias, edges)
    return [pools[key] for key in order]


def paths(text: str) -> list[tuple[str, Fields]]:
    """The containment path and the metadata of every node of a graph."""
    nodes, _ = _lists(text)
    named = [(_pool(node, number).path, _metadata(node, number)) for number, node in enumerate(nodes)]
    return [(path, metadata) for path, metadata in named if path]


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


# -- reading -----------------------------------------------------------------------------------------


def _lists(text: str) -> tuple[list[Fields], list[Fields]]:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TreeError(f"JGF: not JSON: {error}") from None
    top = cast("Fields", value) if isinstance(value, dict) else {}
    graph: Any = top.get("graph")
    if "graphs" in top:
        raise TreeError("JGF: it holds several graphs; give a file with one, under the key 'graph'")
    if not isinstance(graph, dict):
        raise TreeError("JGF: the key 'graph' is missing")
    for fields in (top, cast("Fields", graph)):
        if fields.get("version", VERSION) != VERSION:
            raise TreeError(f"JGF: version is {fields['version']!r:.60}, but only {VERSION} is known")
    found: list[list[Fields]] = []
    for key in ("nodes", "edges"):
        items: Any = cast("Fields", graph).get(key, [] if key == "edges" else None)
        if not isinstance(items, list) or not all(
            isinstance(item, dict) for item in cast("list[Any]", items)
        ):
            raise TreeError(f"JGF: graph.{key} must be a list of objects")
        found.append(cast("list[Fields]", items))
    return found[0], found[1]


def _metadata(node: Fields, number: int) -> Fields:
    metadata: Any = node.get("metadata")
    if not isinstance(metadata, dict):
        raise TreeError(f"JGF: graph.nodes[{number}]: the key 'metadata' is missing")
    return cast("Fields", metadata)


def _pool(node: Fields, number: int) -> Pool:
    where = f"JGF: graph.nodes[{number}]"
    metadata = _metadata(node, number)
    key, type_ = _key(node.get("id"), where), _word(metadata, "type", "", where)
    if not type_:
        raise TreeError(f"{where}.metadata: the key 'type' is missing")
    path = _path(metadata, where)
    basename = _word(metadata, "basename", type_, where)
    own = int(key) if _DIGITS.fullmatch(key) else -1
    id_ = _number(metadata, "id", own if own < MOST_ID else -1, where)
    default = f"{basename}{id_}" if id_ >= 0 else basename
    return Pool(
        key=key,
        parent=None,
        type=type_,
        basename=basename,
        name=_word(metadata, "name", default, where) or default,
        id=id_,
        uniq_id=_uniq_id(metadata, own if own >= 0 else number, where),
        rank=_number(metadata, "rank", -1, where),
        size=_number(metadata, "size", 1, where, 1),
        unit=_word(metadata, "unit", "", where),
        up=_up(metadata, where),
        path=path,
        properties=_properties(metadata, where),
    )


def _key(value: object, where: str) -> str:
    if value is None or value == "":
        raise TreeError(f"{where}: the key 'id' is missing")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TreeError(f"{where}.id: is {value!r:.60}, but must be a word or a number")
    return str(value)


def _path(metadata: Fields, where: str) -> str:
    """The path in the containment subsystem; empty for a vertex that is in others only."""
    found: Any = metadata.get("paths")
    if not isinstance(found, dict) or not found:
        raise TreeError(f"{where}.metadata: the key 'paths' is missing")
    path = _word(cast("Fields", found), CONTAINMENT, "", f"{where}.metadata.paths", "")
    if path and not path.startswith("/"):
        place = f"{where}.metadata.paths.{CONTAINMENT}"
        raise TreeError(f"{place}: is {path!r:.60}, but must be a path such as /a/b")
    return path


def _word(fields: Fields, key: str, default: str, where: str, inside: str = ".metadata") -> str:
    value = fields.get(key, default)
    if not isinstance(value, str) or not value.isprintable():
        raise TreeError(f"{where}{inside}.{key}: is {value!r:.60}, but must be a word")
    return value


def _number(metadata: Fields, key: str, default: int, where: str, least: int = -MOST_ID) -> int:
    value = metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < MOST_ID:
        above = f", at least {least}" if least >= 0 else ""
        raise TreeError(f"{where}.metadata.{key}: is {value!r:.60}, but must be a whole number{above}")
    return value


def _uniq_id(metadata: Fields, default: int, where: str) -> int:
    """A number, or its digits; other words count as none."""
    value = metadata.get("uniq_id", default)
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _DIGITS.fullmatch(text):
        raise TreeError(f"{where}.metadata.uniq_id: is {value!r:.60}, but must be a whole number, at least 0")
    return int(text)


def _up(metadata: Fields, where: str) -> bool:
    value = metadata.get("status", 0)
    known = {0: True, 1: False, "up": True, "down": False}
    word = value.lower() if isinstance(value, str) else value
    if isinstance(word, bool) or not isinstance(word, int | str) or word not in known:
        raise TreeError(f"{where}.metadata.status: is {value!r:.60}, but must be 0 (up) or 1 (down)")
    return known[word]


def _properties(metadata: Fields, where: str) -> dict[str, str]:
    value: Any = metadata.get("properties", {})
    if isinstance(value, list):
        return {str(word): "" for word in cast("list[Any]", value)}
    if not isinstance(value, dict):
        raise TreeError(f"{where}.metadata.properties: must be keys with values")
    return {str(key): str(each) for key, each in cast("dict[object, object]", value).items()}


def _children(pools: dict[str, Pool], alias: dict[str, str], edges: Sequence[Fields]) -> list[str]:
    """Set every parent; the keys in the order of the edges, which is the order of children."""
    order: dict[str, None] = {}
    for number, edge in enumerate(edges):
        metadata: Any = edge.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise TreeError(f"JGF: graph.edges[{number}].metadata: must be keys with values")
        source, target = str(edge.get("source", "")), str(edge.get("target", ""))
        if not _contains(cast("Fields", metadata)):
            continue
        for end in (source, target):
            if end not in alias:
                raise TreeError(f"JGF: graph.edges[{number}]: there is no node {end!r:.60}")
        child = alias[target]
        if child in pools:
            if pools[child].parent not in (None, alias[source]):
                raise TreeError(f"JGF: graph.edges[{number}]: node {target!r:.60} is contained twice")
            pools[child].parent = alias[source]
            order[child] = None
    return [*(key for key in pools if key not in order), *order]


def _contains(metadata: Fields) -> bool:
    """Whether an edge is one of containment, downwards. Older files have names instead of a subsystem."""
    names: Any = metadata.get("name")
    if isinstance(names, dict):
        return cast("Fields", names).get(CONTAINMENT) not in (None, "in")
    return metadata.get("subsystem", CONTAINMENT) == CONTAINMENT


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
