"""An audit for people: the verdict in a line, each difference in one, and both sides of each node.

Called by `cli.audit`. Names are other people's, so cells and lines are cleaned.
"""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from fairlead.cli import tables, words
from fairlead.cli.tables import Column, Row
from fairlead.model.audit import Difference, NodeAudit, Report, Side

_BASIC = ("cpu", "memory", "pods")
_SHORT = 12
"""Digits of a digest that people compare."""


def verdict(report: Report) -> Text:
    """Equal or not, in one line."""
    size = f"{words.counted(report.nodes, 'node')}, {words.counted(report.pods, 'pod')}"
    mine, its = report.digest_incremental[:_SHORT], report.digest_rebuilt[:_SHORT]
    moved = f", {words.counted(report.moved, 'object')} on the move" if report.moved else ""
    if not report.differences:
        return Text(f"equal: {size}, digest {its}{moved} ({report.duration} ms)", "green")
    found = words.counted(len(report.differences), "difference")
    digests = f"digest {mine}, the cluster's {its}" if mine != its else f"digest {mine} on both sides"
    colour = "yellow" if report.repaired == len(report.differences) else "red"
    return Text(f"{found}, {report.repaired} repaired: {size}, {digests}{moved}", colour)


def line(difference: Difference) -> Text:
    """What differs, and whether it still does."""
    text = words.clean(difference.text)
    if difference.repaired:
        return Text.assemble(("✓ repaired  ", "green"), text)
    return Text.assemble(("≠ ", "red"), text)


def table(report: Report, wide: bool = False, width: int = 100) -> Table:
    """Each node in a line, or in two where the sides differ."""
    names = _resources(report.rows, wide)
    titles = [name.rpartition("/")[2].upper() for name in names]
    columns = [Column(""), Column("NODE", cut="middle"), Column("SAYS")]
    for title in titles:
        columns += [Column(title, right=True), Column("FREE", right=True)]
    columns += [Column("PODS", right=True), Column("OURS", right=True), Column("OTHERS", right=True)]
    rows = [cells for row in report.rows for cells in _rows(row, names)]
    return tables.lines(columns, rows, wide, width)


def _rows(row: NodeAudit, names: Sequence[str]) -> list[Row]:
    if row.equal:
        return [[("✓", "green"), row.name, ("both", "dim"), *_cells(row.here, row.there, names)]]
    return [
        [("≠", "red"), row.name, "Fairlead", *_cells(row.here, row.there, names)],
        ["", "", "cluster", *_cells(row.there, row.here, names)],
    ]


def _cells(side: Side, other: Side, names: Sequence[str]) -> list[str | tuple[str, str]]:
    """One side's numbers; red where the other has others."""
    mine, its = _numbers(side, names), _numbers(other, names)
    return [(a, "red") if a != b else a for a, b in zip(mine, its, strict=True)]


def _numbers(side: Side, names: Sequence[str]) -> list[str]:
    if not side.present:
        return ["-"] * (2 * len(names) + 3)
    uses = {use.name: use for use in side.resources}
    found: list[str] = []
    for name in names:
        use = uses.get(name)
        if use is None:
            found += ["-", "-"]
        else:
            found.append(f"{words.amount(name, use.used)}/{words.amount(name, use.capacity)}")
            found.append(words.amount(name, use.free))
    pods = uses.get("pods")
    return [*found, f"{pods.used}/{pods.capacity}" if pods else "-", str(side.ours), str(side.others)]


def _resources(rows: Sequence[NodeAudit], wide: bool) -> list[str]:
    """cpu and memory first, then what else nodes offer: one at most unless wide."""
    sides = [side for row in rows for side in (row.here, row.there)]
    found = {use.name: None for side in sides for use in side.resources}
    others = sorted(name for name in found if name not in _BASIC)
    if not wide:
        others = [n for n in others if n != "ephemeral-storage" and not n.startswith("hugepages-")][:1]
    return [name for name in _BASIC[:2] if name in found] + others
