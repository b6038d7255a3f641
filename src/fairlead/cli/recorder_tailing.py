"""The rows of `fairlead recorder tail`, in order, each once.

Called by `cli.recorder_tail`, which imports this late. Rows are numbered before they are committed, so one
may appear behind others that have higher numbers: as long as a transaction is open that was open when a
number was seen, those below are looked at again.
"""

import asyncio
import os
import select
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable

import msgspec

from fairlead.cli import history_rows, tables, words
from fairlead.cli.database import with_reader
from fairlead.cli.history_options import Question
from fairlead.cli.history_sheet import Writer, writer
from fairlead.model.history import ChangeRow
from fairlead.store import history
from fairlead.store.folder import recorded_data_dir
from fairlead.store.schema import Connection

_PAUSE = 0.5


def run(question: Question, kind: str, lines: int, follow: bool) -> None:
    """Until all is told, or with `follow` until Ctrl-C or until nobody reads."""

    async def work(conn: Connection) -> None:
        table = question.output == "table"
        to: Writer = Lines() if table else writer("jsonl", history_rows.CHANGE, sys.stdout.buffer)
        async for row in (_going_on if follow else _all)(conn, question, kind, lines):
            to.row(history_rows.change(row))
            sys.stdout.flush()

    try:
        with_reader(question.data or recorded_data_dir(), question.url, work)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter would complain


async def _all(conn: Connection, question: Question, kind: str, lines: int) -> AsyncIterator[ChangeRow]:
    """What is there: all since a time, else the last so many."""
    async with history.at_once(conn):
        if question.asked.since:
            async for row in history.changes(conn, question.asked, kind=kind):
                yield row
            return
        for row in await history.newest(conn, question.asked, kind=kind, limit=lines):
            yield row


async def _going_on(conn: Connection, question: Question, kind: str, lines: int) -> AsyncIterator[ChangeRow]:
    """What is there, then what comes."""
    seen = Seen(await history.last(conn))
    async for row in _all(conn, question, kind, lines):
        seen.new(row.seq)
        yield row
    while not _nobody_reads():
        async with history.at_once(conn):
            async for row in history.changes(conn, question.asked, kind=kind, after=seen.floor):
                if seen.new(row.seq):
                    yield row
            seen.forget(*await history.transactions(conn))
        await asyncio.sleep(_PAUSE)


def _nobody_reads() -> bool:
    """Stdout is a pipe whose reader is gone: noticed also when there is nothing to write."""
    watched = select.poll()
    try:
        watched.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


class Seen:
    """Which numbers were told, above a floor under which none can come any more."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._told: set[int] = set()
        self._marks: deque[tuple[int, int]] = deque()

    def new(self, seq: int) -> bool:
        """True the first time."""
        if seq in self._told:
            return False
        self._told.add(seq)
        return True

    def forget(self, oldest: int, coming: int) -> None:
        """The highest number of a look is the floor of a later one, when all have ended that were open then.

        `oldest` is the oldest open transaction at this look, `coming` the first that had yet to begin.
        """
        floor = self.floor
        while self._marks and self._marks[0][0] <= oldest:
            floor = max(floor, self._marks.popleft()[1])
        self._marks.append((coming, max(self._told, default=self.floor)))
        if floor > self.floor:
            self.floor = floor
            self._told = {seq for seq in self._told if seq > floor}


class Lines:
    """Rows for people, each cut to the width of the terminal."""

    _FORM = "{:15}  {:9}  {:18}  {}"

    def __init__(self) -> None:
        self._width = tables.console().width
        self._say("AT", "OBJECT", "EVENT", "WHAT")

    def row(self, cells: Iterable[object]) -> None:
        of = dict(zip((field.name for field in history_rows.CHANGE), cells, strict=True))
        when = time.strftime("%b %d %H:%M:%S", time.localtime(int(str(of["at"])) / 1000))
        name = "/".join(str(part) for part in (of["namespace"], of["name"]) if part)
        node = f"on {of['node']}" if of["node"] and of["node"] != of["name"] else ""
        reason = str(of["reason"] or "")
        extra = msgspec.json.encode(of["extra"]).decode() if of["extra"] else ""
        message = str(of["message"] or extra)
        what = "  ".join(part for part in (name, node, reason, message) if part)
        self._say(when, str(of["object"]), str(of["event"]), what)

    def close(self) -> None:
        """Nothing is held back."""

    def _say(self, *cells: str) -> None:
        text = self._FORM.format(*map(words.clean, cells))
        sys.stdout.write((text if len(text) <= self._width else text[: self._width - 1] + "…") + "\n")
