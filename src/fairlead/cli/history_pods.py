"""`fairlead history pods`: which pod was on which node, from when to when; open ends are shown as open.

Called by `cli.history`, which imports this late. A table shows the newest; files get every row as it comes.
"""

import itertools
import time
from collections import Counter, deque
from pathlib import Path

from fairlead.cli import history_rows, tables, words
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import Notes, ask, notes, tell
from fairlead.cli.history_sheet import Target, writer
from fairlead.cli.tables import Column, Row
from fairlead.model.history import PodHistory
from fairlead.store import history
from fairlead.store.schema import Connection

_DRAWN = 20_000
"""Pods in a figure; more would take a browser's memory."""
_COLOURS = {"runs": "green", "starts": "bright_green", "waits": "yellow", "failed": "red", "lost": "red"}
_COLUMNS = (
    Column("POD", cut="middle"),
    Column("NODE", cut="middle"),
    Column("SINCE"),
    Column("UNTIL"),
    Column("LENGTH", right=True),
    Column("STATE"),
)


def run(question: Question, limit: int, plot: Path | None) -> None:
    """The answer in the form that was asked for."""
    if question.output != "table":
        return _write(question, plot)
    newest: deque[PodHistory] = deque(maxlen=limit or None)
    drawn = _to_draw(plot)
    states: Counter[str] = Counter()

    async def read(conn: Connection) -> Notes:
        async for pod in history.pods(conn, question.asked):
            newest.append(pod)
            drawn.append(pod)
            states[state(pod)] += 1
        return await notes(conn, question)

    found = ask(question, read)
    if newest:
        out = tables.console()
        tables.show(out, tables.lines(_COLUMNS, _lines(newest, question.now), False, out.width))
    tell(_summary(states, len(newest)), *found.said)
    _draw(question, drawn, states.total(), found, plot)
    return None


def _write(question: Question, plot: Path | None) -> None:
    drawn, count = _to_draw(plot), itertools.count()

    async def read(conn: Connection) -> Notes:
        with Target(question.out, question.output) as out:
            to = writer(question.output, history_rows.POD, out)
            async for pod in history.pods(conn, question.asked):
                to.row(history_rows.pod(pod))
                drawn.append(pod)
                next(count)
            to.close()
        return await notes(conn, question)

    found = ask(question, read)
    tell(*found.said)
    _draw(question, drawn, next(count), found, plot)


def _to_draw(plot: Path | None) -> deque[PodHistory]:
    return deque(maxlen=_DRAWN if plot else 0)


def _draw(question: Question, pods: deque[PodHistory], count: int, found: Notes, plot: Path | None) -> None:
    if plot:
        from fairlead.cli import history_plot

        history_plot.gantt(question, pods, found, plot, count - len(pods))


def state(pod: PodHistory) -> str:
    """One word: how it ended, or what it does."""
    if pod.ended:
        return pod.ended
    if not pod.node:
        return "waits" if pod.queued else "held"
    return "runs" if pod.started else "starts"


def _lines(pods: deque[PodHistory], now: int) -> list[Row]:
    days = {time.localtime(at / 1000)[:3] for pod in pods for at in (pod.since, pod.until) if at}
    form = "%H:%M:%S" if days <= {time.localtime(now / 1000)[:3]} else "%b %d %H:%M:%S"
    return [_line(pod, form, now) for pod in pods]


def _line(pod: PodHistory, form: str, now: int) -> Row:
    """One that waits shows how long it has; the length of one that is on a node is how long it is there."""
    word = state(pod)
    since = pod.since or pod.queued or pod.created
    told = f"failed ({pod.exit_code})" if word == "failed" and pod.exit_code > 0 else word
    return (
        f"{pod.namespace}/{pod.name}",
        pod.node or "-",
        time.strftime(form, time.localtime(pod.since / 1000)) if pod.since else "-",
        time.strftime(form, time.localtime(pod.until / 1000)) if pod.until else "open",
        words.span((pod.until or now) - since) if since else "-",
        (told, _COLOURS.get(word, "dim")),
    )


def _summary(states: Counter[str], shown: int) -> str:
    all_ = states.total()
    if not all_:
        return "no pod was recorded that fits"
    counts = ", ".join(f"{n:,} {word}" for word, n in states.most_common())
    cut = f"; shown are the newest {shown:,} (--limit)" if shown < all_ else ""
    return f"{all_:,} pod{'' if all_ == 1 else 's'}: {counts}{cut}"
