"""Tables of the queue and of the nodes, readable at 100 columns.

Called by `cli.commands`. Cells are plain text, never markup: they hold names that other people chose.
What does not fit is cut, names in the middle, sentences at the end; `-o wide` cuts nothing.
"""

import os
import shutil
import sys
from typing import TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import words
from fairlead.model.view import NodePage, NodeRow, QueuePage, QueueRow, State

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
_NAME = 32
_BASIC = ("cpu", "memory", "pods")


def console(wide: bool = False, file: TextIO | None = None) -> Console:
    """Colours only on a terminal and without NO_COLOR; 100 columns where nothing says otherwise."""
    out = file or sys.stdout
    if wide:
        width = 4000
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


def _table(*headers: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(
            header, justify="right" if header in right else "left", no_wrap=True, overflow="ellipsis"
        )
    return table


def _cell(text: str, style: str = "") -> Text:
    return Text(words.clean(text), style)


# -- the queue ---------------------------------------------------------------------------------------


def queue(page: QueuePage, wide: bool = False, one_namespace: bool = False) -> Table:
    """Groups as lines."""
    return _queue_wide(page) if wide else _queue(page, one_namespace)


def _queue(page: QueuePage, one_namespace: bool) -> Table:
    right = ("POS", "SIZE", "PRIO", "AGE", "WAITED")
    table = _table("POS", "GROUP", "SIZE", "PRIO", "AGE", "WAITED", "STATE", "REASON OR NODES", right=right)
    table.columns[-1].ratio = 1
    for row in page.groups:
        table.add_row(
            _cell(str(row.position or "-")),
            _cell(words.shorten(row.name if one_namespace else f"{row.namespace}/{row.name}", _NAME)),
            _cell(f"{row.seen}/{row.size}"),
            _cell(str(row.priority)),
            _cell(words.span(page.as_of - row.first_seen)),
            _cell(words.span(row.waited)),
            _cell(row.state, COLOURS[row.state]),
            _cell(where_or_why(row), "red" if row.broken else ""),
        )
    return table


def where_or_why(row: QueueRow) -> str:
    """The nodes of a group that has some, else the reason."""
    if row.broken:
        return f"BROKEN: {row.broken}"
    if row.state in (State.STARTING, State.RUNNING, State.COMPLETED) and row.nodes:
        return words.ranges(row.nodes)
    return row.text or (row.why if row.why.lower() != row.state else "")


def _queue_wide(page: QueuePage) -> Table:
    headers = ["POS", "GROUP", "SIZE", "PRIO", "QUEUE", "SOURCE", "STATE", "WAITED", "DURATION"]
    headers += ["FIRST-SEEN", "COMPLETE", "STARTED", "ENDED", "NODES", "WHY", "REASON"]
    table = _table(*headers, right=("POS", "SIZE", "PRIO", "WAITED", "DURATION"))
    for row in page.groups:
        table.add_row(
            _cell(str(row.position or "-")),
            _cell(f"{row.namespace}/{row.name}"),
            _cell(f"{row.seen}/{row.size}"),
            _cell(str(row.priority)),
            _cell(row.queue),
            _cell(row.source),
            _cell(row.state, COLOURS[row.state]),
            _cell(words.span(row.waited)),
            _cell(words.span(row.duration) if row.duration else "-"),
            _cell(words.instant(row.first_seen)),
            _cell(words.instant(row.complete_at)),
            _cell(words.instant(row.started_at)),
            _cell(words.instant(row.ended_at)),
            _cell(words.ranges(row.nodes) or "-"),
            _cell(row.why or "-"),
            _cell(f"BROKEN: {row.broken}" if row.broken else row.text),
        )
    return table


def summary(page: QueuePage, limited: bool = True) -> Text:
    """How many there are of each state, and whether some are not shown."""
    counts = [f"{n} {state.value}" for state in State if (n := page.counts.get(state.value))]
    text = f"{words.counted(page.total, 'group')}: {', '.join(counts)}" if counts else "no groups"
    left = page.total - len(page.groups)
    if left > 0 and limited:
        text += f"; {left} more not shown (--limit 0 shows all)"
    return Text(text, "dim")


# -- nodes -------------------------------------------------------------------------------------------


def nodes(page: NodePage, wide: bool = False) -> Table:
    """Nodes as lines: what is used of what there is."""
    resources = _resources(page, wide)
    titles = [name.rpartition("/")[2].upper() if not wide else name for name in resources]
    free = [f"FREE {title}" for title in titles] if wide else []
    table = _table("NODE", "STATUS", *titles, *free, "PODS", "GROUPS", right=(*titles, *free, "PODS"))
    table.columns[-1].ratio = 1
    for row in page.nodes:
        by_name = {use.name: use for use in row.resources}
        cells = [
            f"{words.amount(name, use.used)}/{words.amount(name, use.capacity)}"
            if (use := by_name.get(name))
            else "-"
            for name in resources
        ]
        if wide:
            cells += [
                words.amount(name, by_name[name].free) if name in by_name else "-" for name in resources
            ]
        table.add_row(
            _cell(row.name if wide else words.shorten(row.name, _NAME)),
            _cell(*_status(row)),
            *(_cell(cell) for cell in cells),
            _cell(f"{row.pods}/{by_name['pods'].capacity}" if "pods" in by_name else str(row.pods)),
            _cell(", ".join(row.groups) or "-"),
        )
    return table


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
    return ("cordoned", "yellow") if row.unschedulable else ("ready", "green")
