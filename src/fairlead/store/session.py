"""One connected life of the writer: two connections, the writer's lock, leadership, what is restored.

Made by `store.postgres` at each (re)connect and thrown away at the first error. The guard connection holds
the advisory lock and listens, so that a server that dies is noticed at once even when nothing is written.
Must not emit events; it returns them.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import AsyncGenerator, Callable
from typing import NoReturn

import psycopg
import structlog
from psycopg.conninfo import make_conninfo

from fairlead.model.event import Event, GrantRestored, GroupRestored, ReservationRestored
from fairlead.store import rows, schema
from fairlead.store.errors import FencedError, StoreError
from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

_log = structlog.get_logger("store.session")
PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each further attempt to connect; the last one for ever."""
FAULTS = (psycopg.Error, StoreError, OSError)
"""What a database that is away or unwell raises."""
_QUOTED = re.compile('".*"')
_NAMED = re.compile(r'(?:invalid URI query parameter:|invalid connection option) "[a-z_]+"$')
_TIMEOUTS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A server that vanished without a word is given up after about ten seconds."""


def sentence(error: BaseException) -> str:
    """In one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.asynccontextmanager
async def patient(seconds: float) -> AsyncGenerator[Callable[[], None]]:
    """A server that is frozen keeps its connections: without an end to waiting nobody would notice.

    Gives what begins the wait anew, for work in steps. Raises StoreError.
    """
    clock = asyncio.get_running_loop().time
    try:
        async with asyncio.timeout(seconds) as limit:
            yield lambda: limit.reschedule(clock() + seconds)
    except TimeoutError as error:
        raise StoreError(f"the database has not answered for {seconds:g} s") from error


def conninfo(url: str, name: str) -> str:
    """The user's connection string with what we need in it. Raises StoreError if it cannot be read."""
    try:
        return make_conninfo(url, application_name=name, **_TIMEOUTS)
    except psycopg.ProgrammingError as error:
        raise StoreError(f"the database URL cannot be read: {_without_quotes(sentence(error))}") from error


def _without_quotes(text: str) -> str:
    """libpq quotes the part of the URL that it cannot read: the password may be in it."""
    return text if _NAMED.search(text) else _QUOTED.sub('"…"', text)


async def connect(url: str, name: str) -> Connection:
    """A connection in autocommit whose names resolve in Fairlead's schema. Raises StoreError on a bad URL."""
    conn = await psycopg.AsyncConnection.connect(conninfo(url, name), autocommit=True)
    try:
        await conn.execute(SQL["set_up_session"])
    except BaseException:
        await conn.close()
        raise
    return conn


class Session:
    """`guard` holds the lock and watches, `writer` writes. `epoch` is what this process leads with."""

    def __init__(self, guard: Connection, writer: Connection) -> None:
        self.guard = guard
        self.writer = writer
        self.epoch = 0

    async def lead(self, epoch: int, now: int) -> None:
        """Become leader (`epoch` 0) or make sure that we still are. Raises FencedError."""
        if epoch == 0:
            holder = f"{socket.gethostname()} process {os.getpid()}"
            answer = await self.writer.execute(SQL["take_leadership"], {"holder": holder, "now": now})
        else:
            answer = await self.writer.execute(SQL["epoch"])
        row = await answer.fetchone()
        found = int(row[0]) if row else 0
        if epoch not in (0, found):
            raise FencedError(found)
        self.epoch = found

    async def restore(self, not_before: int) -> list[Event]:
        """Groups that have not ended and the newest ended one per label, open grants, promises; in order.

        A promise whose group waits no more is dropped: the news that it was kept or void got lost.
        """
        await self.writer.execute(SQL["drop_stale_reservations"])
        found = await (await self.writer.execute(SQL["restore_groups"])).fetchall()
        open_grants = await (await self.writer.execute(SQL["restore_grants"])).fetchall()
        promises = await (await self.writer.execute(SQL["restore_reservations"])).fetchall()
        events: list[Event] = [GroupRestored(record) for record in rows.groups(found)]
        events += [GrantRestored(rows.grant(row), not_before) for row in open_grants]
        events += [ReservationRestored(rows.reservation(row)) for row in promises]
        return events

    async def forget(self, before: int) -> None:
        """Delete what ended before that time, and the plans that nothing refers to any more."""
        async with self.writer.transaction():
            await self.writer.execute(SQL["forget_groups"], {"before": before})
            await self.writer.execute(SQL["forget_plans"], {"before": before})

    async def watch(self) -> None:
        """Returns only by an exception: the server went away."""
        async for _ in self.guard.notifies():
            pass  # nobody notifies yet; waiting is how a closed socket is seen
        raise psycopg.OperationalError("the connection that watches the server ended")

    async def close(self) -> None:
        for conn in (self.writer, self.guard):
            with contextlib.suppress(psycopg.Error, OSError):
                await conn.close()


async def recorded(url: str, me: str, plans: list[str]) -> set[str]:
    """Which of these plans are durable. Our own connections that may still be committing are ended first."""
    conn = await connect(url, me)
    try:
        await conn.execute(SQL["end_own_leftovers"], {"me": me})
        answer = await conn.execute(SQL["plans_recorded"], {"ids": [rows.clean(plan) for plan in plans]})
        return {row[0] for row in await answer.fetchall()}
    finally:
        await conn.close()


async def open_session(url: str, me: str, epoch: int, elected: bool = False) -> Session:
    """Connected, alone, and at the known schema. Raises StoreError, FencedError or psycopg.Error.

    `elected`: who else has the lock has lost its lease. If we have not led yet (`epoch` 0) it is ended.
    """
    guard = await connect(url, me)
    try:
        if not await _be_alone(guard, me, force=elected and not epoch):
            await _say_who_leads(guard, epoch)
        await schema.migrate(guard)
        return Session(guard, await connect(url, me))
    except BaseException:
        await guard.close()
        raise


async def _be_alone(guard: Connection, me: str, force: bool) -> bool:
    """Our own dead connections may still hold the lock, or even be about to commit: end them first.

    By `force` also those of another, and what it has under way: stopped or cut off, it would never let go.
    """
    await guard.execute(SQL["end_own_leftovers"], {"me": me})
    for pause in (0.05, 0.2, 0):
        if force and await (await guard.execute(SQL["end_writer"])).fetchall():
            _log.warning("ended the database sessions of the scheduler that led before")
        row = await (await guard.execute(SQL["try_lock_writer"])).fetchone()
        if row and row[0]:
            return True
        await asyncio.sleep(pause)
    return False


async def _say_who_leads(guard: Connection, epoch: int) -> NoReturn:
    """The lock is another's. If we ever led, that other one has taken over, and for good."""
    if epoch:
        row = await (await guard.execute(SQL["epoch"])).fetchone()
        if row and row[0] != epoch:
            raise FencedError(int(row[0]))
    row = await (await guard.execute(SQL["writer_of_lock"])).fetchone()
    holder = row[0] if row else ""
    raise StoreError(
        f"another scheduler writes to the database {guard.info.dbname} ({holder or 'unknown'}): stop it, or "
        "give this one another database; waiting"
    )
