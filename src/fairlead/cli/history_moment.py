"""`fairlead history occupancy --at TIME`: what each node held at one moment, of what it had.

Called by `cli.history`, which imports this late.
"""

from typing import NamedTuple

from msgspec.structs import replace

from fairlead.cli import tables, words
from fairlead.cli.history_options import Question
from fairlead.cli.history_past import amount, read
from fairlead.cli.history_read import tell
from fairlead.cli.history_sheet import Field, Target, write
from fairlead.cli.tables import Column, Row
from fairlead.recorder import occupancy as occ
from fairlead.recorder.occupancy import Spans

_AMOUNTS = ("pods", "cpu_milli", "memory_bytes", "gpu")


class Held(NamedTuple):
    """A node at that moment; `usable` is None where nobody knows the node itself."""

    node: str
    held: tuple[int, ...]
    has: tuple[int, ...]
    usable: bool | None


_FIELDS = (
    Field("node"), Field("at", "time"), *(Field(name, "int") for name in _AMOUNTS),
    *(Field(f"has_{name}", "int") for name in _AMOUNTS), Field("usable", "bool"),
)  # fmt: skip
_COLUMNS = (
    Column("NODE", cut="middle"),
    *(Column(title, right=True) for title in ("PODS", "CPU", "MEMORY", "GPU")),
    Column("STATE"),
)


def at_moment(question: Question, moment: int) -> None:
    """Nodes that were there then, and nodes that are known by their pods only."""
    asked = replace(question.asked, since=moment, until=moment + 1)
    past = read(question._replace(asked=asked))
    rows = _rows(occ.at(past.pods, moment), occ.at(past.nodes, moment), _usable(past.nodes, moment))
    if question.output != "table":
        cells = ((row.node, moment, *row.held, *row.has, row.usable) for row in rows)
        with Target(question.out, question.output) as out:
            write(question.output, _FIELDS, cells, out)
    elif rows:
        out = tables.console()
        tables.show(out, tables.lines(_COLUMNS, [_line(row) for row in rows], False, out.width))
    pods = sum(row.held[0] for row in rows)
    tell(f"at {words.instant(moment)}: {pods:,} pods on {len(rows):,} nodes", *past.notes.said)


def _rows(
    held: dict[str, dict[str, int]], has: dict[str, dict[str, int]], usable: dict[str, bool]
) -> list[Held]:
    nothing = dict.fromkeys(occ.WHATS, 0)
    names = {name for name, amounts in held.items() if amounts["count"]} | usable.keys()
    return [
        Held(
            name,
            tuple(held.get(name, nothing).values()),
            tuple(has.get(name, nothing).values()),
            usable.get(name),
        )
        for name in sorted(names)
    ]


def _usable(nodes: Spans, moment: int) -> dict[str, bool]:
    there = (nodes.since <= moment) & (nodes.until > moment)
    return {nodes.nodes[n]: bool(u) for n, u in zip(nodes.node[there], nodes.usable[there], strict=True)}


def _line(row: Held) -> Row:
    cells = [
        f"{amount(what, held)}/{amount(what, has) if has else '-'}"
        for what, held, has in zip(occ.WHATS, row.held, row.has, strict=True)
    ]
    state = {None: ("unknown", "dim"), True: ("ready", "green"), False: ("not usable", "red")}[row.usable]
    return (row.node, *cells, state)
