"""R, Flux's record of what a job was given (version 1): read as a tree, as ranks, and written.

Called by `cli.query_run` and the session. Only what R's execution section knows: nodes with ranks, and core,
gpu and such below them. All errors are TreeErrors. Must not know bookings beyond the vertices it is given.
"""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.making import Making
from fairlead.core.tree.parts import Parts
from fairlead.model.idset import hostlist, hostlist_text, idset, idset_text

Fields = dict[str, Any]
MOST = 1 << 22
"""How many vertices an R may have: more is a slip of the pen, and would fill the memory."""
_MOST_DIGITS = 14


def read(text: str) -> Parts:
    """The vertices of an R: cluster0, nodes with their ranks, and what each has."""
    entries, names, properties = _execution(text)
    ranks = sorted(rank for own, _ in entries for rank in own)
    if len(names) != len(ranks):
        raise TreeError(f"R: nodelist has {len(names)} hosts for {len(ranks)} ranks")
    if sum(len(own) * (1 + sum(map(len, below.values()))) for own, below in entries) > MOST:
        raise TreeError(f"R: more than {MOST} vertices in all")
    hosts = dict(zip(ranks, names, strict=True))
    made, seen = Making(), set[str]()
    made.add(("cluster", "cluster", 1, ""), 0, 0)
    for own, children in entries:
        for rank in own:
            name = hosts[rank]
            base, id_ = _split(name)
            node = made.add(("node", base, 1, ""), id_, len(made), rank, 0)
            if name != f"{base}{id_}":
                made.names[node] = name
            path = f"/cluster0/{name}"
            if path in seen:  # hosts of one name get one path each
                path = made.paths[node] = f"{path}.{rank}"
            seen.add(path)
            words = {word: "" for word, there in properties.items() if rank in there}
            if words:
                made.properties[node] = words
            for type_, ids in children.items():
                for number in ids:
                    made.add((type_, type_, 1, ""), number, len(made), rank, node)
    return made.parts()


def allocation(text: str, tree: Tree) -> list[int]:
    """The vertices of a tree that an R names: nodes and what it lists below them."""
    entries, _, _ = _execution(text)
    nodes = {int(tree.rank[v]): int(v) for v in tree.of_type("node")}
    found: list[int] = []
    for own, children in entries:
        for rank in own:
            if rank not in nodes:
                raise TreeError(f"R: the graph has no node of rank {rank}")
            found.append(nodes[rank])
            below = range(nodes[rank] + 1, int(tree.end[nodes[rank]]))
            places = {(tree.type[v], int(tree.id[v])): v for v in below}
            for type_, ids in children.items():
                for id_ in ids:
                    if (type_, id_) not in places:
                        raise TreeError(f"R: rank {rank} has no {type_}{id_}")
                    found.append(places[type_, id_])
    return found


def ranks(text: str) -> list[int]:
    """The ranks that an R names."""
    entries, _, _ = _execution(text)
    return sorted({rank for own, _ in entries for rank in own})


def lite(tree: Tree, vertices: Iterable[int]) -> tuple[list[Fields], list[str]]:
    """R_lite and the names of the nodes for these vertices, by rank."""
    nodes: dict[int, dict[str, set[int]]] = {}
    hosts: dict[int, str] = {}
    chosen = list(vertices)
    for v in chosen:
        if tree.type[v] == "node":
            rank = int(tree.rank[v])
            nodes.setdefault(rank, {})
            hosts[rank] = tree.name(v)
    for v in chosen:
        if tree.type[v] in ("core", "gpu"):
            nodes.setdefault(tree.owner_rank(v), {}).setdefault(tree.type[v], set()).add(int(tree.id[v]))
    alike: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for rank in sorted(nodes):
        children = tuple((type_, idset_text(ids)) for type_, ids in sorted(nodes[rank].items()))
        if children:
            alike.setdefault(children, []).append(rank)
    entries: list[Fields] = [
        {"rank": idset_text(ranks), "children": dict(children)} for children, ranks in alike.items()
    ]
    return entries, [hosts[rank] for rank in sorted(nodes) if rank in hosts]


def written(tree: Tree, vertices: Iterable[int], start: int, end: int) -> Fields:
    """An R without its scheduling section. Times are seconds."""
    chosen = list(vertices)
    entries, names = lite(tree, chosen)
    execution: Fields = {
        "R_lite": entries,
        "nodelist": [hostlist_text(names)],
        "starttime": start,
        "expiration": end,
    }
    words: dict[str, set[int]] = {}
    for v in chosen:
        if tree.type[v] == "node":
            for word in tree.properties(v):
                words.setdefault(word, set()).add(int(tree.rank[v]))
    if words:
        execution["properties"] = {word: idset_text(there) for word, there in sorted(words.items())}
    return {"version": 1, "execution": execution}


# -- inside ------------------------------------------------------------------------------------------

_Entries = list[tuple[list[int], dict[str, list[int]]]]


def _execution(text: str) -> tuple[_Entries, list[str], dict[str, set[int]]]:
    """Entries of R_lite, host names, and the ranks of each property."""
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TreeError(f"R: not JSON: {error}") from None
    version: Any = cast("Fields", value).get("version", "missing") if isinstance(value, dict) else "missing"
    if isinstance(version, bool) or version != 1:
        raise TreeError(f"R: the key 'version' must be 1; it is {version!r:.60}")
    execution = _object(cast("Fields", value).get("execution"), "execution")
    rows: Any = execution.get("R_lite")
    if not isinstance(rows, list):
        raise TreeError("R: execution.R_lite must be a list")
    try:
        entries: _Entries = []
        for number, row in enumerate(cast("list[Any]", rows)):
            fields = _object(row, f"execution.R_lite[{number}]")
            children = _object(fields.get("children", {}), f"execution.R_lite[{number}].children")
            below = {_type(type_): idset(str(ids)) for type_, ids in children.items()}
            entries.append((idset(str(fields.get("rank", ""))), below))
        hosts: Any = execution.get("nodelist", [])
        if not isinstance(hosts, list):
            raise TreeError("R: execution.nodelist must be a list")
        names = [name for word in cast("list[Any]", hosts) for name in hostlist(str(word))]
        words = _object(execution.get("properties", {}), "execution.properties")
        return entries, names, {word: set(idset(str(ids))) for word, ids in words.items()}
    except ValueError as error:
        raise TreeError(f"R: {error}") from None


def _object(value: object, where: str) -> Fields:
    if not isinstance(value, dict):
        raise TreeError(f"R: {where} must be keys with values")
    return cast("Fields", value)


def _type(word: str) -> str:
    if not word or not word.isprintable():
        raise ValueError(f"{word!r:.60} is not a type")
    return word


def _split(name: str) -> tuple[str, int]:
    """Basename and id of a host: the digits it ends with are its id, -1 without any."""
    base = name.rstrip("0123456789")
    digits = name[len(base) :]
    return base, int(digits) if 0 < len(digits) <= _MOST_DIGITS else -1
