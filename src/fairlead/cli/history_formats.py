"""`fairlead history export`: rows of the ledger, and scheduler-sniffer's plot data.

Called by `cli.history` by way of its FORMATS. Rows are written as they come, however many there are.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from fairlead.cli import history_rows
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import Notes, ask, notes, tell
from fairlead.cli.history_sheet import Cells, Field, Target, writer
from fairlead.model.history import Asked, PodHistory
from fairlead.recorder import plotformat
from fairlead.recorder.plotformat import Held
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


INTERVALS = 35
"""Of the sniffer's plot, where nobody says how long one is."""
_PLOT, _TIMES = "pods", "pod-times"


def sniffer(question: Question, of: str, every: int) -> None:
    """The sniffer's nodes.json; with `--of pod-times` its pod-times.json. `every` in milliseconds, or 0."""
    if of not in (_PLOT, _TIMES):
        raise CliError(f"--of {of}: with --format sniffer, give {_PLOT} or {_TIMES}")

    async def read(conn: Connection) -> Notes:
        pods = [row async for row in history.pods(conn, question.asked) if row.node]
        names = [row.name async for row in history.nodes(conn, question.asked)]
        held = _held(pods)
        begin, end = plotformat.bounds(held)
        intervals = max(-(-(end - begin) // every), 1) if every else INTERVALS
        text = (
            plotformat.pod_times_json(held)
            if of == _TIMES
            else plotformat.nodes_json("history", held, intervals, names)
        )
        with Target(question.out, question.output) as out:
            out.write(text)
        return await notes(conn, question)

    tell(*ask(question, read).said)


def _held(pods: Sequence[PodHistory]) -> list[Held]:
    """The sniffer knows names only; where two pods have one, the namespace or the uid goes with it."""
    by_name = Counter(pod.name for pod in pods)
    by_both = Counter((pod.namespace, pod.name) for pod in pods)
    held: list[Held] = []
    for pod in pods:
        name = pod.name
        if by_name[name] > 1:
            name = f"{pod.namespace}/{name}" if by_both[pod.namespace, name] == 1 else pod.uid
        held.append(Held(name, pod.node, pod.since, pod.until, pod.started, pod.scheduled))
    return held
