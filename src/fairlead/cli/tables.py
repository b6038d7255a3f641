"""Tables of the queue, of the queues and of the nodes, readable at 100 columns.

Called by `cli.commands`. Cells are plain text, never markup: they hold names that other people chose.
Names that do not fit lose their middle, sentences are folded and lose their end; `-o wide` cuts nothing.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import words
from fairlead.model.view import NodePage, NodeRow, QueuePage, QueueRow, QueuesPage, QueueStatus, State

COLOURS = {
    State.ASSEMBLING: "cyan",
    State.HELD: "cyan",
    State.WAITING: "yellow",
    State.STARTING: "bright_green",
    State.RUNNING: "green",
    State.COMPLETED: "dim",
    State.CANCELLED: "dim",
    State.FAILED: "red",
    State.TIMEOUT: "red",
    State.REJECTED: "red",
}
_WIDTH = 100
_UNLIMITED = 100_000
_GAP = 2
_LEAST = 12
_NAME = 30
_BASIC = ("cpu", "memory", "pods")


def console(wide: bool = False, file: TextIO | None = None) -> Console:
    """Colours only on a terminal and without NO_COLOR; 100 columns where nothing says otherwise."""
    out = file or sys.stdout
    if wide:
        width = _UNLIMITED
    elif out.isatty():
        width = shutil.get_terminal_size((_WIDTH, 24)).columns
    else:
        width = int(text) if (text := os.environ.get("COLUMNS", "")).isdigit() and int(text) else _WIDTH
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False)


def show(out: Console, what: RenderableType) -> None:
    """Print; without the blanks that fill up the last column where nobody looks at colours."""
    with out.capture() as captured:
        out.print(what)
    text = captured.get()
    if not out.is_terminal:
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    out.file.write(text)
    out.file.flush()


class Column(NamedTuple):
    """A column as it is to be shown. `cut` is what happens to text that does not fit: "middle" and
    "end" take characters out there, "fold" gives it up to three lines."""

    title: str
    right: bool = False
    cut: str = ""


Row = Sequence[str | tuple[str, str]]
"""Cells, each a text or a text with its colour."""


def _table(columns: Sequence[Column], rows: Sequence[Row], width: int) -> Table:
    """As wide as it has to be; what is too wide is cut where that was allowed, the last column first."""
    cells = [[_cell(*(cell if isinstance(cell, tuple) else (cell,))) for cell in row] for row in rows]
    widths = [
        max(len(column.title), *(row[i].cell_len for row in cells)) if cells else len(column.title)
        for i, column in enumerate(columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    for i in reversed(range(len(columns))):
        if columns[i].cut and excess > 0:
            least = min(widths[i], _LEAST)
            excess, widths[i] = excess - (widths[i] - least), max(least, widths[i] - excess)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, most in zip(columns, widths, strict=True):
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True, width=most)
    for row in cells:
        table.add_row(*(_cut(cell, columns[i].cut, widths[i]) for i, cell in enumerate(row)))
    return table


def _cell(text: str, style: str = "") -> Text:
    return Text(words.clean(text), style)


def _cut(cell: Text, where: str, width: int) -> Text:
    if where == "middle" and cell.cell_len > width:
        return Text(words.shorten(cell.plain, width), cell.style)
    if where == "fold" and cell.cell_len > width:
        lines = textwrap.wrap(cell.plain, width, max_lines=3, placeholder="…", break_on_hyphens=False)
        return Text("\n".join(lines), cell.style)
    cell.truncate(width, overflow="ellipsis")
    return cell


# -- the queue ---------------------------------------------------------------------------------------


def queue(page: QueuePage, wide: bool = False, one_namespace: bool = False, width: int = _WIDTH) -> Table:
    """Groups as lines, at most so wide."""
    return _queue_wide(page) if wide else _queue(page, one_namespace, width)


_QUEUE = (
    Column("POS", right=True),
    Column("GROUP", cut="middle"),
    Column("SIZE", right=True),
    Column("PRIO", right=True),
    Column("AGE", right=True),
    Column("WAITED", right=True),
    Column("STATE"),
    Column("STARTS"),
    Column("REASON OR NODES", cut="fold"),
)


def _queue(page: QueuePage, one_namespace: bool, width: int) -> Table:
    """Where nobody is promised a start (`fcfs` promises none), there is no column for it."""
    estimates = any(row.estimate for row in page.groups)
    rows = [
        [
            str(row.position or "-"),
            words.shorten(row.name if one_namespace else f"{row.namespace}/{row.name}", _NAME),
            f"{row.seen}/{row.size}",
            str(row.priority),
            words.span(page.as_of - row.first_seen),
            words.span(row.waited),
            (row.state, COLOURS[row.state]),
            *([words.coming(row.estimate, page.as_of) if row.estimate else "-"] if estimates else []),
            (where_or_why(row), "red" if row.broken else ""),
        ]
        for row in page.groups
    ]
    columns = [column for column in _QUEUE if estimates or column.title != "STARTS"]
    return _table(columns, rows, width)


def where_or_why(row: QueueRow) -> str:
    """The nodes of a group that has some, else the reason."""
    if row.broken:
        return f"BROKEN: {row.broken}"
    if row.state in (State.STARTING, State.RUNNING, State.COMPLETED) and row.nodes:
        return words.ranges(row.nodes)
    return row.text or (row.why if row.why.lower() != row.state else "")


_NUMBERS = ("POS", "SIZE", "PRIO", "WAITED", "DURATION")


def _queue_wide(page: QueuePage) -> Table:
    titles = ["POS", "GROUP", "SIZE", "PRIO", "QUEUE", "SOURCE", "STATE", "WAITED", "DURATION"]
    titles += ["FIRST-SEEN", "COMPLETE", "ESTIMATE", "PROMISED", "STARTED", "ENDED", "NODES", "WHY", "REASON"]
    rows = [
        (
            str(row.position or "-"),
            f"{row.namespace}/{row.name}",
            f"{row.seen}/{row.size}",
            str(row.priority),
            row.queue,
            row.source,
            (row.state, COLOURS[row.state]),
            words.span(row.waited),
            words.span(row.duration) if row.duration else "-",
            words.instant(row.first_seen),
            words.instant(row.complete_at),
            words.instant(row.estimate),
            words.instant(row.promised),
            words.instant(row.started_at),
            words.instant(row.ended_at),
            words.ranges(row.nodes) or "-",
            row.why or "-",
            f"BROKEN: {row.broken}" if row.broken else row.text,
        )
        for row in page.groups
    ]
    return _table([Column(title, title in _NUMBERS) for title in titles], rows, _UNLIMITED)


def summary(page: QueuePage) -> Text:
    """How many there are of each state, and whether some are not shown."""
    counts = [f"{n} {state.value}" for state in State if (n := page.counts.get(state.value))]
    text = f"{words.counted(page.total, 'group')}: {', '.join(counts)}" if counts else "no groups"
    left = page.total - len(page.groups)
    if left > 0:
        text += f"; {left} more not shown (--limit 0 shows all)"
    return Text(text, "dim")


# -- the queues --------------------------------------------------------------------------------------

_QUEUES = (
    Column("QUEUE", cut="middle"),
    Column("POLICY"),
    Column("WALLTIME", right=True),
    Column("MAX", right=True),
    Column("PARTITION", cut="middle"),
    Column("HELD", right=True),
    Column("WAITING", right=True),
    Column("PROMISED", right=True),
    Column("RUNNING", right=True),
)


def queues(page: QueuesPage, wide: bool = False, width: int = _WIDTH) -> Table:
    """Queues as lines: policy, limits, and how many groups; -o wide has every state in a column."""
    if not wide:
        return _table(_QUEUES, [_queue_line(queue) for queue in page.queues], width)
    states = [state for state in State if any(state.value in queue.counts for queue in page.queues)]
    titles = ["QUEUE-DEPTH", "PROMISED", *(state.value.upper() for state in states)]
    columns = [*_QUEUES[:5], Column("ORDER"), *(Column(title, right=True) for title in titles)]
    return _table(columns, [_queue_line_wide(queue, states) for queue in page.queues], _UNLIMITED)


def _queue_line(queue: QueueStatus) -> Row:
    held = _sum(queue, State.ASSEMBLING, State.HELD)
    waiting, running = _sum(queue, State.WAITING), _sum(queue, State.STARTING, State.RUNNING)
    return [*_configured(queue), str(held), str(waiting), str(queue.promised), str(running)]


def _queue_line_wide(queue: QueueStatus, states: Sequence[State]) -> Row:
    counts = [str(_sum(queue, state)) for state in states]
    return [*_configured(queue), queue.order, str(queue.looks or "all"), str(queue.promised), *counts]


def _configured(queue: QueueStatus) -> list[str]:
    limits = [words.span(length) if length else "-" for length in (queue.walltime, queue.longest)]
    return [queue.name, _policy(queue), *limits, queue.partition or "-"]


def _policy(queue: QueueStatus) -> str:
    """The policy's name; hybrid with its depth."""
    if queue.policy != "hybrid":
        return queue.policy
    depth = {-1: "none", 0: "all"}.get(queue.depth, str(queue.depth))
    return f"hybrid({depth})"


def _sum(queue: QueueStatus, *states: State) -> int:
    return sum(queue.counts.get(state.value, 0) for state in states)


# -- nodes -------------------------------------------------------------------------------------------


def nodes(page: NodePage, wide: bool = False, width: int = _WIDTH) -> Table:
    """Nodes as lines: what is used of what there is."""
    resources = _resources(page, wide)
    titles = [name.rpartition("/")[2].upper() for name in resources]
    columns = [Column("NODE", cut="middle"), Column("STATUS"), *(Column(t, right=True) for t in titles)]
    if wide:
        columns += [Column(f"FREE {t}", right=True) for t in titles]
    placed = wide and any(row.place for row in page.nodes)
    if placed:
        columns.append(Column("PLACE"))
    columns += [Column("PODS", right=True), Column("GROUPS", cut="end")]
    names = [row.name for row in page.nodes] if wide else _short_names(page)
    rows = [_node(row, name, resources, wide, placed) for row, name in zip(page.nodes, names, strict=True)]
    return _table(columns, rows, _UNLIMITED if wide else width)


def lines(columns: Sequence[Column], rows: Sequence[Row], wide: bool = False, width: int = _WIDTH) -> Table:
    """Any rows, at most so wide."""
    return _table(columns, rows, _UNLIMITED if wide else width)


_GRAPH = (
    Column("PLACE"),
    Column("LEVEL"),
    *(Column(title, right=True) for title in ("NODES", "UP", "CORES", "GPUS", "MEMORY")),
)


def graph(lines: Sequence[Row], wide: bool = False, width: int = _WIDTH) -> Table:
    """The cluster's tree as lines: what is in each place."""
    return _table(_GRAPH, lines, _UNLIMITED if wide else width)


def _short_names(page: NodePage) -> list[str]:
    """Without their domain, if they still differ: it is the same for all, and long."""
    short = [row.name.partition(".")[0] for row in page.nodes]
    names = short if len(set(short)) == len(short) else [row.name for row in page.nodes]
    return [words.shorten(name, _NAME) for name in names]


def _node(row: NodeRow, name: str, resources: list[str], wide: bool, placed: bool) -> Row:
    uses = {use.name: use for use in row.resources}
    found = [(what, uses.get(what)) for what in resources]
    cells: list[str | tuple[str, str]] = [name, _status(row)]
    cells += [
        f"{words.amount(what, use.used)}/{words.amount(what, use.capacity)}" if use else "-"
        for what, use in found
    ]
    if wide:
        cells += [words.amount(what, use.free) if use else "-" for what, use in found]
    if placed:
        cells.append(words.clean(row.place) or "-")
    cells.append(f"{row.pods}/{uses['pods'].capacity}" if "pods" in uses else str(row.pods))
    cells.append(", ".join(row.groups) or "-")
    return cells


def _resources(page: NodePage, wide: bool) -> list[str]:
    """cpu and memory first, then what else nodes offer: two at most unless wide."""
    found: dict[str, None] = {}
    for node in page.nodes:
        found.update((use.name, None) for use in node.resources if use.capacity or use.used)
    others = sorted(name for name in found if name not in _BASIC)
    if not wide:
        others = [n for n in others if n != "ephemeral-storage" and not n.startswith("hugepages-")][:2]
    return [name for name in _BASIC[:2] if name in found] + others


def _status(row: NodeRow) -> tuple[str, str]:
    if not row.present:
        return "gone", "red"
    if not row.ready:
        return "not ready", "red"
    if row.unschedulable:
        return "cordoned", "yellow"
    return ("exclusive", "cyan") if row.exclusive else ("ready", "green")
