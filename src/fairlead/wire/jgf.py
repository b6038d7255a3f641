"""JSON Graph Format, as Flux uses it for resource graphs: read into a tree's pools, and written.

Called by `cli.query_run` and the session. Only the containment subsystem is read. All errors are TreeErrors
that name the vertex or edge. Must not know bookings beyond the counts it is given.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from fairlead.core.tree.columns import Pool, Tree, TreeError

CONTAINMENT = "containment"
Fields = dict[str, Any]


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
                raise TreeError(f"JGF: node {pool.key!r} stands twice; give each node its own id")
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
    graph: Any = cast("Fields", value).get("graph") if isinstance(value, dict) else None
    if not isinstance(graph, dict):
        raise TreeError("JGF: the key 'graph' is missing")
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
    key, type_ = str(node.get("id", "")), metadata.get("type")
    if not key:
        raise TreeError(f"{where}: the key 'id' is missing")
    if not isinstance(type_, str) or not type_:
        raise TreeError(f"{where}.metadata: the key 'type' is missing")
    path = _path(metadata, where)
    basename = str(metadata.get("basename", type_))
    uniq = metadata.get("uniq_id", key if key.isdigit() else number)
    id_ = _number(metadata, "id", int(key) if key.isdigit() else -1, where)
    default = f"{basename}{id_}" if id_ >= 0 else basename
    return Pool(
        key=key,
        parent=None,
        type=type_,
        basename=basename,
        name=str(metadata.get("name", default)),
        id=id_,
        uniq_id=int(uniq) if str(uniq).isdigit() else number,
        rank=_number(metadata, "rank", -1, where),
        size=_number(metadata, "size", 1, where),
        unit=str(metadata.get("unit", "")),
        up=metadata.get("status", 0) in (0, "up", "UP"),
        path=path,
        properties=_properties(metadata, where),
    )


def _path(metadata: Fields, where: str) -> str:
    """The path in the containment subsystem; empty for a vertex that is in others only."""
    found: Any = metadata.get("paths")
    if not isinstance(found, dict) or not found:
        raise TreeError(f"{where}.metadata: the key 'paths' is missing")
    path: Any = cast("Fields", found).get(CONTAINMENT, "")
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise TreeError(f"{where}.metadata.paths.{CONTAINMENT}: is {path!r}, but must be a path such as /a/b")
    return path


def _number(metadata: Fields, key: str, default: int, where: str) -> int:
    value = metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TreeError(f"{where}.metadata.{key}: is {value!r}, but must be a whole number")
    return value


def _properties(metadata: Fields, where: str) -> dict[str, str]:
    value: Any = metadata.get("properties", {})
    if isinstance(value, list):
        return {str(word): "" for word in cast("list[Any]", value)}
    if not isinstance(value, dict):
        raise TreeError(f"{where}.metadata.properties: must be keys with values")
    return {str(key): str(each) for key, each in cast("Fields", value).items()}


def _children(pools: dict[str, Pool], alias: dict[str, str], edges: Sequence[Fields]) -> list[str]:
    """Set every parent; the keys in the order of the edges, which is the order of children."""
    order: dict[str, None] = {}
    for number, edge in enumerate(edges):
        metadata: Any = edge.get("metadata") or {}
        source, target = str(edge.get("source", "")), str(edge.get("target", ""))
        if not _contains(cast("Fields", metadata)):
            continue
        for end in (source, target):
            if end not in alias:
                raise TreeError(f"JGF: graph.edges[{number}]: there is no node {end!r}")
        child = alias[target]
        if child in pools:
            if pools[child].parent not in (None, alias[source]):
                raise TreeError(f"JGF: graph.edges[{number}]: node {target!r} is contained twice")
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
