"""The demo's table while it runs, its lines where there is no terminal, and its summary.

Called by `cli.demo_run`. Pure: standings in, text out.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import words
from fairlead.cli.demo_items import Standing
from fairlead.model.view import NodePage, State

STYLES = {
    "": "dim",
    State.ASSEMBLING: "cyan",
    State.HELD: "cyan",
    State.WAITING: "yellow",
    State.STARTING: "bright_green",
    State.RUNNING: "green",
    State.REJECTED: "magenta",
    State.COMPLETED: "dim",
    "stopped": "dim",
}
_FAILED = "red"
_BAR = 30


def tenths(milliseconds: int) -> str:
    """Seconds with one digit: the demo's steps are short."""
    return f"{milliseconds / 1000:.1f}s" if milliseconds < 60_000 else words.span(milliseconds)


def where_or_why(each: Standing) -> str:
    """The nodes of what has some, else why it has none."""
    if each.nodes and each.state not in (State.WAITING, State.ASSEMBLING, State.HELD):
        return words.ranges(each.nodes)
    return each.text


def frame(
    standings: Sequence[Standing],
    seconds: float,
    nodes: NodePage | None,
    title: str,
    width: int,
    height: int,
) -> RenderableType:
    """One picture for the terminal. What has ended gives way first where there is no room."""
    head = Text(f"{title}, {seconds:.0f} s", "bold")
    shown, left = _fitting(standings, max(height - 5, 5))
    rows: list[list[Text]] = []
    example = ""
    for each in shown:
        lively = each.state in (State.RUNNING, State.WAITING)
        rows.append(
            [
                Text("" if each.item.example == example else each.item.example),
                Text(each.item.name),
                _pods(each),
                Text(each.state or "-", STYLES.get(each.state, _FAILED)),
                Text(_waited(each)),
                Text(tenths(each.ran) if each.ran else ""),
                Text(where_or_why(each), "" if lively else "dim"),
            ]
        )
        example = each.item.example
    headers = ("EXAMPLE", "GROUP", "PODS", "STATE", "WAITED", "RAN", "REASON OR NODES")
    room = width - sum(
        2 + max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(headers[:-1])
    )
    for row in rows:
        row[-1].truncate(max(room, len(headers[-1])), overflow="ellipsis")
    table = _table(headers, rows)
    tail = [Text(f"{left} that have ended or not come yet are not shown", "dim")] if left else []
    return Group(head, _usage(nodes), Text(""), table, *tail)


def _fitting(standings: Sequence[Standing], room: int) -> tuple[list[Standing], int]:
    if len(standings) <= room:
        return list(standings), 0
    lively = [each for each in standings if each.state and not each.settled]
    rest = [each for each in standings if not (each.state and not each.settled)]
    chosen = [*lively, *rest][: room - 1]
    return [each for each in standings if each in chosen], len(standings) - len(chosen)


def _usage(page: NodePage | None) -> Text:
    """How much of the cluster's cpu is in use, as a bar."""
    uses = [use for node in page.nodes for use in node.resources if use.name == "cpu"] if page else []
    capacity, used = sum(use.capacity for use in uses), sum(use.used for use in uses)
    full = round(_BAR * used / capacity) if capacity else 0
    return Text.assemble(
        "cpu in use ",
        ("#" * full, "green"),
        ("." * (_BAR - full), "dim"),
        f" {used / 1000:.4g} of {capacity / 1000:.4g} on {words.counted(len(uses), 'node')}",
    )


def line(each: Standing, seconds: float) -> str:
    """One change, for pipes and logs."""
    text = where_or_why(each)
    return f"{seconds:6.1f}s  {each.item.name:<16} {each.state:<10} {text}".rstrip()


def summary(standings: Sequence[Standing]) -> Table:
    """Everything that was submitted: how long it waited and ran, where, and how it ended."""
    rows: list[list[Text]] = []
    example = ""
    for each in standings:
        fine = each.settled or each.state == "stopped"
        rows.append(
            [
                Text("" if each.item.example == example else each.item.example),
                Text(each.item.name),
                _pods(each),
                Text(_waited(each) or "-"),
                Text(tenths(each.ran) if each.ran else "-"),
                Text(each.state or "not seen", STYLES.get(each.state, _FAILED) if fine else _FAILED),
                Text(where_or_why(each)),
            ]
        )
        example = each.item.example
    return _table(("EXAMPLE", "GROUP", "PODS", "WAITED", "RAN", "OUTCOME", "NODES, OR WHY"), rows, wrap=True)


def _pods(each: Standing) -> Text:
    return Text(f"{each.item.pods} x 1" if each.item.service else str(each.item.pods))


def _waited(each: Standing) -> str:
    """Nothing for those that were never let in line: rejected ones, and another scheduler's."""
    if not each.item.ours or not each.state or each.state == State.REJECTED:
        return ""
    return tenths(each.waited)


def _table(headers: Sequence[str], rows: Sequence[Sequence[Text]], wrap: bool = False) -> Table:
    """Columns as wide as their texts; where the screen is too narrow, the last one is cut or wrapped."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    last = len(headers) - 1
    for i, header in enumerate(headers):
        width = max(len(header), *(len(row[i]) for row in rows))
        table.add_column(
            header,
            justify="right" if header in ("PODS", "WAITED", "RAN") else "left",
            no_wrap=i < last or not wrap,
            overflow="fold" if wrap else "ellipsis",
            min_width=width if i < last else None,
        )
    for row in rows:
        table.add_row(*row)
    return table
