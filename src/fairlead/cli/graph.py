"""`fairlead graph`: the live cluster as a containment tree, as a table or as a file for `resource-query`.

Called by `cli.commands`. The scheduler tells what there is, one vertex for all that a node has of a resource;
it is cut here into what jobs can share, so that the scheduler need not.
"""

import msgspec
import numpy as np
from rich.table import Table

from fairlead.cli import tables, words
from fairlead.core.containment import split
from fairlead.core.tree.columns import Tree
from fairlead.model.view import GraphPage
from fairlead.wire import jgf


def text(page: GraphPage, whole: bool) -> str:
    """The tree as a JGF file; `whole` leaves each resource of a node one vertex."""
    tree = _tree(page)
    return jgf.whole(tree if whole else Tree(split(tree.pools)))


def table(page: GraphPage, wide: bool, width: int) -> Table:
    """The tree as lines; with the nodes if it may be wide."""
    return tables.graph(_lines(_tree(page), wide), wide, width)


def _tree(page: GraphPage) -> Tree:
    return Tree(jgf.read(msgspec.json.encode({"graph": page.graph}).decode()))


def _lines(tree: Tree, nodes: bool) -> list[tuple[str, ...]]:
    """A line for each vertex down to the nodes, or to what is above them: how much is in it."""
    node = tree.kind_of("node")
    is_node = tree.kind == node
    up = is_node & tree.up
    counts = [tree.totals(is_node.astype(np.int64)), tree.totals(up.astype(np.int64))]
    sums = [
        (type_, tree.totals(np.where(tree.kind == tree.kind_of(type_), tree.size, 0)))
        for type_ in ("core", "gpu", "memory")
    ]
    found: list[tuple[str, ...]] = []
    for v in range(len(tree)):
        inside = tree.ancestors(v)
        if any(is_node[above] for above in inside) or (is_node[v] and not nodes):
            continue
        amounts = [
            words.amount("memory", int(total[v]) << 20) if type_ == "memory" else str(total[v])
            for type_, total in sums
        ]
        name = "  " * len(inside) + tree.name(v)
        found.append((name, tree.type[v], str(counts[0][v]), str(counts[1][v]), *amounts))
    return found
