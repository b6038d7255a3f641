"""`fairlead history usage`: how well the cluster was used, and how much of what was free was of no use.

Called by `cli.history`, which imports this late. `recorder.usage` says what each measure is.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairlead.cli import tables
from fairlead.cli.history_options import Question
from fairlead.cli.history_past import amount, clock, read, span, stretches
from fairlead.cli.history_read import tell
from fairlead.cli.history_sheet import Cells, Field, Target, write
from fairlead.cli.tables import Column, Row
from fairlead.recorder import usage as used
from fairlead.recorder.occupancy import Ints

_FIELDS = (
    Field("since", "time"), Field("until", "time"), Field("resource"), Field("capacity", "float"),
    Field("used", "float"), Field("utilisation", "float"), Field("peak", "float"), Field("down", "float"),
    Field("fragmentation", "float"),
)  # fmt: skip


def usage(question: Question, every: int, plot: Path | None) -> None:
    """Utilisation and fragmentation, over all the time or stretch by stretch."""
    past = read(question, everybody=True)
    since, until = span(question, past)
    request, many = used.most_common(past.shapes)
    edges = stretches(since, until, every) if every else np.array([since, until])
    found = used.usage(past.pods, past.everybody, past.nodes, request, edges)
    rows = list(_rows(found, edges))
    if question.output != "table":
        with Target(question.out, question.output) as out:
            write(question.output, _FIELDS, rows, out)
    elif len(past.nodes.nodes):
        out = tables.console()
        lines = [_line(row, edges, every) for row in rows]
        tables.show(out, tables.lines(_columns(every), lines, False, out.width))
        tell(_request(request, many, past.shapes.total()))
    tell(*([] if past.nodes.nodes else ["no node was recorded that fits"]), *past.notes.said)
    if plot:
        from fairlead.cli import history_plot

        fine = stretches(since, until, every, history_plot.ACROSS)
        found = used.usage(past.pods, past.everybody, past.nodes, request, fine)
        history_plot.usage(question, found, fine, past, plot)


def _rows(found: dict[str, used.Usage], edges: Ints) -> Iterator[Cells]:
    """A resource that no node has is left out."""
    for j in range(len(edges) - 1):
        for resource, each in found.items():
            if each.capacity.any():
                shares = (each.share[j], each.peak[j], each.down[j], each.fragmented[j])
                told = (None if math.isnan(share) else float(share) for share in shares)
                yield (
                    int(edges[j]),
                    int(edges[j + 1]),
                    resource,
                    float(each.capacity[j]),
                    float(each.used[j]),
                    *told,
                )


def _columns(every: int) -> list[Column]:
    titles = ("CAPACITY", "USED", "IN USE", "PEAK", "DOWN", "FRAGMENTED")
    first = [Column("FROM")] if every else []
    return [*first, Column("RESOURCE"), *(Column(title, right=True) for title in titles)]


def _line(row: Cells, edges: Ints, every: int) -> Row:
    since, _, resource, capacity, used_, *shares = row
    percents = ["-" if share is None else f"{100 * share:.1f} %" for share in shares]
    cells = (resource, amount(resource, capacity), amount(resource, used_), *percents)
    return (clock(since, edges), *cells) if every else cells


def _request(request: used.Request, many: int, all_: int) -> str:
    amounts = zip(used.RESOURCES, request, strict=True)
    told = " ".join(f"{name}={amount(name, value)}" for name, value in amounts if value) or "nothing"
    return f"the most common request: {told} ({many:,} of {all_:,} pods)"
