"""`fairlead history occupancy`: how full each node was over time.

Called by `cli.history`, which imports this late. In a table time goes to the right, a node per line, the
fuller the higher the bar; files get a row per node and stretch of time, in the units of the ledger.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairlead.cli import tables, words
from fairlead.cli.history_options import Question
from fairlead.cli.history_past import Past, amount, clock, read, span, stretches
from fairlead.cli.history_read import tell
from fairlead.cli.history_sheet import Cells, Field, Target, write
from fairlead.cli.tables import Column, Row
from fairlead.recorder import occupancy as occ
from fairlead.recorder.occupancy import Buckets, Ints

_BARS = "·▁▂▃▄▅▆▇█"
_FIELDS = (
    Field("node"), Field("what"), Field("since", "time"), Field("until", "time"), Field("mean", "float"),
    Field("peak", "int"), Field("capacity", "float"),
)  # fmt: skip


def over_time(question: Question, what: str, every: int, limit: int, plot: Path | None) -> None:
    """By node and stretch of time."""
    past = read(question)
    since, until = span(question, past)
    edges = stretches(since, until, every)
    names = sorted({*past.pods.nodes, *past.nodes.nodes})
    found = occ.buckets(past.pods, what, edges, names)
    room = occ.buckets(past.nodes, what, edges, names)
    if question.output != "table":
        with Target(question.out, question.output) as out:
            write(question.output, _FIELDS, _cells(what, found, room), out)
    elif names:
        _show(what, past, found, room, limit)
    tell(*([] if names else ["no node was recorded that fits"]), *past.notes.said)
    if plot:
        from fairlead.cli import history_plot

        fine = stretches(since, until, every, history_plot.ACROSS)
        found, room = (occ.buckets(spans, what, fine, names) for spans in (past.pods, past.nodes))
        history_plot.occupancy(question, what, past, found, room, plot)


def _cells(what: str, found: Buckets, room: Buckets) -> Iterator[Cells]:
    ends = [int(edge) for edge in found.edges]
    for i, name in enumerate(found.nodes):
        for j in range(len(ends) - 1):
            yield (
                name, what, ends[j], ends[j + 1], float(found.mean[i, j]), int(found.peak[i, j]),
                float(room.mean[i, j]),
            )  # fmt: skip


def _show(what: str, past: Past, found: Buckets, room: Buckets, limit: int) -> None:
    """The whole cluster first, then node by node. Bars of pods share one scale: no node is full of them."""
    edges, names = found.edges, found.nodes[: limit or None]
    counted = what == "count"
    all_, whole = past.pods.of(what), past.nodes.of(what)
    most = float(found.mean.max(initial=0))
    full = np.full(len(found.nodes), most) if counted else room.peak.max(axis=1)
    mean = all_.mean(edges)
    top = float(mean.max() if counted else whole.peak(edges).max())
    lines = [_line("all nodes", what, edges, mean, all_.peak(edges), top)]
    for i, name in enumerate(names):
        lines.append(_line(name, what, edges, found.mean[i], found.peak[i], float(full[i]) or most))
    title = f"{clock(edges[0], edges)} → {clock(edges[-1], edges)}"
    columns = (
        Column("NODE", cut="middle"),
        Column(title, cut="end"),
        Column("MEAN", right=True),
        Column("PEAK", right=True),
    )
    out = tables.console()
    tables.show(out, tables.lines(columns, lines, False, out.width))
    scale = f"█ is {amount(what, most)} pods on a node" if counted else "█ is all that there is"
    said = [f"{what} in use, the mean of every {words.step(int(np.diff(edges).max()))}; {scale}"]
    if len(names) < len(found.nodes):
        said.append(f"{len(found.nodes) - len(names):,} more nodes (--limit)")
    tell(*said)


def _line(name: str, what: str, edges: Ints, mean: occ.Floats, peak: Ints, full: float) -> Row:
    """A bar is a touch above nothing as soon as there is something."""
    level = np.ceil(np.clip(mean / (full or 1), 0, 1) * (len(_BARS) - 1) - 1e-9).astype(int)
    average = float(np.average(mean, weights=np.diff(edges)))
    return name, "".join(_BARS[n] for n in level), amount(what, average), amount(what, int(peak.max()))
