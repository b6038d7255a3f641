"""How the commands of `fairlead history` get at the ledger, and what they say of it beside the answer.

Used by `cli.history_*`. stdout carries the answer, stderr what must be known to judge it: when nothing was
recorded, and how old the newest row is. Must not write.
"""

import textwrap
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import typer

from fairlead.cli import words
from fairlead.cli.database import with_reader
from fairlead.cli.history_options import Question
from fairlead.store import history
from fairlead.store.folder import recorded_data_dir
from fairlead.store.schema import Connection

T = TypeVar("T")
_LATE = 120_000
"""A recorder that runs marks its place more often than this."""
_GAPS = 3
_WIDTH = 100


def ask(question: Question, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` finds, all as of one moment. Raises StoreError."""

    async def run(conn: Connection) -> T:
        async with history.at_once(conn):
            return await work(conn)

    return with_reader(question.data or recorded_data_dir(), question.url, run)


class Notes(NamedTuple):
    """What must be known of the time asked about, in sentences, and the gaps in the record.

    `until` is how far anything is known of it: means go up to there and no further.
    """

    said: list[str]
    gaps: list[tuple[int, int]]
    until: int


async def notes(conn: Connection, question: Question) -> Notes:
    """Of the time that is asked about."""
    since, until = question.asked.since, question.asked.until or question.now
    gaps = await history.gaps(conn, since, until)
    said = [f"the record has a gap from {instant(begin)} to {instant(end)}" for begin, end in gaps[:_GAPS]]
    if len(gaps) > _GAPS:
        said.append(f"{len(gaps) - _GAPS} more such gaps: fairlead recorder tail --object Recorder")
    recorded = await history.recorded(conn)
    if recorded and min(until, question.now) - recorded > _LATE:
        said.append(f"recorded up to {instant(recorded)} only: what was open then is shown as open")
        if not question.asked.until and recorded > since:
            until = recorded
    return Notes(said, gaps, until)


def instant(at: int) -> str:
    """Local time to the second."""
    return words.instant(at)


def tell(*said: str) -> None:
    """On stderr."""
    for text in said:
        typer.echo("\n".join(textwrap.wrap(text, _WIDTH, break_on_hyphens=False)), err=True)
