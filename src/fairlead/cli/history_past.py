"""What occupancy and usage are made of: pods on nodes, nodes, and the stretches of time to look at.

Used by `cli.history_occupancy`, `cli.history_moment` and `cli.history_usage`. How
amounts and times are told is here too.
"""

import math
import time
from collections import Counter
from typing import NamedTuple

from fairlead.cli import words
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import Notes, ask, notes
from fairlead.model.history import Asked
from fairlead.recorder import occupancy as occ
from fairlead.recorder import usage as used
from fairlead.recorder.occupancy import Gathered, Ints, Spans
from fairlead.store import history
from fairlead.store.schema import Connection

ACROSS = 60
"""Stretches in a table."""
_MOST = 20_000
"""More are a mistake of who asks: they are made longer."""
_SECONDS = (1, 2, 5, 10, 15, 30)
_STEPS = (*_SECONDS, *(60 * n for n in _SECONDS), *(3600 * n for n in (1, 2, 3, 6, 12, 24, 168)))


class Past(NamedTuple):
    """Pods that fit, all pods, nodes, how many request the same (those that wait, too), and what to say."""

    pods: Spans
    everybody: Spans
    nodes: Spans
    shapes: Counter[used.Request]
    notes: Notes


def read(question: Question, everybody: bool = False) -> Past:
    """Pods on nodes and nodes; `everybody`: also pods that are not asked about."""

    async def work(conn: Connection) -> Past:
        shapes: Counter[used.Request] = Counter()
        pods, all_, nodes = Gathered(), Gathered(), Gathered()
        whole = everybody and question.filtered
        async for pod in history.pods(conn, question.asked):
            pods.pod(pod)
            if not whole:
                shapes[used.shape(pod)] += 1
        if whole:
            only = Asked(node=question.asked.node, since=question.asked.since, until=question.asked.until)
            async for pod in history.pods(conn, only):
                all_.pod(pod)
                shapes[used.shape(pod)] += 1
        async for state in history.nodes(conn, question.asked):
            nodes.state(state)
        mine = pods.spans()
        everyone = all_.spans() if whole else mine
        return Past(mine, everyone, nodes.spans(), shapes, await notes(conn, question))

    return ask(question, work)


def span(question: Question, past: Past) -> tuple[int, int]:
    """From when to when: what was asked, else from the first that is known to the last."""
    until = past.notes.until
    known = [int(spans.since.min()) for spans in (past.pods, past.nodes) if len(spans.since)]
    since = question.asked.since or min(known, default=until - 1)
    return min(since, until - 1), until


def stretches(since: int, until: int, every: int, wanted: int = ACROSS) -> Ints:
    """Their ends; `every` 0 chooses a round length that gives at most about so many as wanted."""
    if not every:
        length = (until - since) / wanted / 1000
        every = 1000 * next((step for step in _STEPS if step >= length), _STEPS[-1])
    every = max(every, math.ceil((until - since) / _MOST))
    return occ.edges(since, until, every)


def amount(what: str, value: float) -> str:
    """For people; a mean of pods or GPUs may be a fraction."""
    if what in ("count", "gpu"):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
    return words.amount(what, round(value))


def clock(at: int, edges: Ints) -> str:
    """Local; with the day where the time goes over more than one."""
    days = {time.localtime(int(edge) / 1000)[:3] for edge in (edges[0], edges[-1])}
    return time.strftime("%H:%M:%S" if len(days) == 1 else "%b %d %H:%M", time.localtime(int(at) / 1000))
