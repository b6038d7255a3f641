"""What a job got, in the formats of Fluxion's resource-query.

Called by `cli.resource_query`. Rows come children first. Must not know jobs beyond their vertices and times.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairlead.core.tree.columns import Tree
from fairlead.wire import jgf, rv1

FORMATS = (
    "simple",
    "pretty_simple",
    "jgf",
    "jgf_shorthand",
    "rlite",
    "rv1",
    "rv1_nosched",
    "rv1_shorthand",
)


class Row(NamedTuple):
    """One vertex, how much of it, and whether exclusively."""

    vertex: int
    amount: int
    exclusive: bool


class Extra(NamedTuple):
    """What `find agfilter=true` adds, and the span of time; find has none."""

    start: int = 0
    end: int = 0
    filters: Mapping[int, Mapping[str, str]] | None = None
    queue: str = ""


def emitted(format_: str, tree: Tree, rows: list[Row], extra: Extra) -> str:
    """The text, with its line end; empty for no rows in the line formats."""
    if format_ == "simple":
        return "".join(f"{_simple(tree, row)}\n" for row in rows)
    if format_ == "pretty_simple":
        return "".join(f"{_pretty(tree, row)}\n" for row in reversed(rows))
    if len(rows) < 2:
        return ""  # a graph without edges is not written
    vertices = [row.vertex for row in rows]
    graph_rows = _shorter(tree, rows) if format_.endswith("_shorthand") else rows
    if format_.startswith("jgf"):
        value: object = jgf.written(tree, graph_rows, extra.filters)
    elif format_ == "rlite":
        value = {"R_lite": rv1.lite(tree, vertices)[0]}
    else:
        record = rv1.written(tree, vertices, extra.start, extra.end)
        if format_ != "rv1_nosched":
            record["scheduling"] = jgf.written(tree, graph_rows, extra.filters)
        if extra.queue:
            record["attributes"] = {"system": {"scheduler": {"queue": extra.queue}}}
        value = record
    return msgspec.json.encode(value).decode() + "\n"


def _shorter(tree: Tree, rows: list[Row]) -> list[Row]:
    """Without what lies in a vertex that is exclusive itself: whoever has that has all of it."""
    whole = {row.vertex for row in rows if row.exclusive}
    return [row for row in rows if not (row.exclusive and tree.parents[row.vertex] in whole)]


def _depth(tree: Tree, v: int) -> int:
    return 1 + len(tree.ancestors(v))


def _simple(tree: Tree, row: Row) -> str:
    mode = "x" if row.exclusive else "s"
    dashes = "---" * _depth(tree, row.vertex)
    return f"      {dashes}{tree.name(row.vertex)}[{row.amount}:{mode}]"


def _pretty(tree: Tree, row: Row) -> str:
    mode = "exclusive" if row.exclusive else "shared"
    dashes = "---" * _depth(tree, row.vertex)
    return f"      {dashes}{tree.name(row.vertex)}[{row.amount}:{mode}]"
