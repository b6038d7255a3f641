"""`fairlead history export`: rows of the ledger, and scheduler-sniffer's plot data.

Called by `cli.history` by way of its FORMATS. Rows are written as they come, however many there are.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from fairlead.cli import history_rows
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import Notes, ask, notes, tell
from fairlead.cli.history_sheet import Cells, Field, Target, writer
from fairlead.model.history import Asked
from fairlead.store import history
from fairlead.store.schema import Connection


class _Kind(NamedTuple):
    """A table for programs: where its rows come from and what they are."""

    fields: Sequence[Field]
    read: Callable[[Connection, Asked], AsyncIterator[Any]]
    cells: Callable[[Any], Cells]


_KINDS = {
    "pods": _Kind(history_rows.POD, history.pods, history_rows.pod),
    "nodes": _Kind(history_rows.NODE, history.nodes, history_rows.node),
    "changes": _Kind(history_rows.CHANGE, history.changes, history_rows.change),
}


def rows(question: Question, of: str, every: int) -> None:
    """One row per pod, state of a node, or change; changes by when they were learned."""
    if every:
        raise CliError("--every goes with --format sniffer")
    kind = _KINDS.get(of)
    if kind is None:
        raise CliError(f"--of {of}: give one of {', '.join(_KINDS)}")

    async def read(conn: Connection) -> Notes:
        with Target(question.out, question.output) as out:
            to = writer(question.output, kind.fields, out)
            async for row in kind.read(conn, question.asked):
                to.row(kind.cells(row))
            to.close()
        return await notes(conn, question)

    tell(*ask(question, read).said)
