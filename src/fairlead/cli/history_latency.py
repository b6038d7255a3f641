"""`fairlead history latency`: how long pods took from stage to stage, and who is still on the way.

Called by `cli.history`, which imports this late.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from fairlead.cli import tables, words
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import Notes, ask, notes, tell
from fairlead.cli.history_sheet import Field, Target, write
from fairlead.cli.tables import Column, Row
from fairlead.recorder.latency import STAGES, Latency, Stages, grouping
from fairlead.store import history
from fairlead.store.schema import Connection

_FIELDS = (
    Field("of"), Field("stage"), Field("pods", "int"), Field("p50_ms", "int"), Field("p90_ms", "int"),
    Field("p99_ms", "int"), Field("max_ms", "int"), Field("open", "int"), Field("longest_open_ms", "int"),
    Field("never", "int"),
)  # fmt: skip


def run(question: Question, by: str, plot: Path | None) -> None:
    """The answer in the form that was asked for. Raises CliError for a `by` that is not known."""
    try:
        key = grouping(by)
    except ValueError as error:
        raise CliError(f"--by {error}") from None
    stages = Stages(key, question.asked.since, question.asked.until or question.now)

    # One that ended at the very begin held its node no more, but its last stage ended within the time.
    asked = replace(question.asked, since=max(question.asked.since - 1, 0))

    async def read(conn: Connection) -> Notes:
        async for pod in history.pods(conn, asked):
            stages.add(pod)
        return await notes(conn, question)

    found = ask(question, read)
    rows = stages.rows()
    if question.output != "table":
        with Target(question.out, question.output) as out:
            write(question.output, _FIELDS, map(_cells, rows), out)
    elif rows:
        out = tables.console()
        tables.show(out, tables.lines(_columns(by), [_line(row, by) for row in rows], False, out.width))
    tell(*([] if rows else ["no pod was recorded that fits"]), *found.said)
    if plot:
        from fairlead.cli import history_plot

        history_plot.latencies(question, by, stages, found, plot)


def _cells(row: Latency) -> Sequence[object]:
    """Percentiles of nothing are not known."""
    lengths = (row.p50, row.p90, row.p99, row.most) if row.n else (None,) * 4
    return row.key, row.stage, row.n, *lengths, row.open, row.longest if row.open else None, row.never


def _columns(by: str) -> list[Column]:
    titles = ("PODS", "P50", "P90", "P99", "MAX", "OPEN", "LONGEST", "NEVER")
    first = [Column(by.upper(), cut="middle")] if by else []
    return [*first, Column("STAGE"), *(Column(title, right=True) for title in titles)]


def _line(row: Latency, by: str) -> Row:
    first = row.stage == STAGES[0].name
    lengths = [words.step(n) if row.n else "-" for n in (row.p50, row.p90, row.p99, row.most)]
    open_ = (f"{row.open:,}", "yellow") if row.open and first else f"{row.open:,}" if row.open else "-"
    longest = words.step(row.longest) if row.open else "-"
    cells: list[str | tuple[str, str]] = [row.stage, f"{row.n:,}", *lengths, open_, longest]
    return [*([row.key or "-"] if by else []), *cells, f"{row.never:,}" if row.never else "-"]
