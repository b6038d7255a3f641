"""Partitions made ahead, and what is past its time dropped: by the hour, a bounded piece of work each time.

Run by `store.ledger` on a connection of its own, in every process that writes to the ledger; doing it
twice, or at the same time as another process, is harmless. Must not touch what is open.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psycopg
import structlog

from fairlead.store.schema import Connection
from fairlead.store.session import FAULTS, connect, sentence
from fairlead.store.sql import SQL

_log = structlog.get_logger("store.ledger")
DAY = 24 * 3600 * 1000
PARTITIONED = ("change", "ledger_chunk")
_HOUR, _MINUTE = 3600.0, 60.0
_MOST_DAYS = 10
_MOST_ROWS = 2000
_MOST_ROUNDS = 100
_BUSY = ("55P03", "40P01")
_ROWS = (
    "forget_changes",
    "forget_chunks",
    "forget_pods",
    "forget_nodes",
    "forget_imports",
    "forget_segments",
    "forget_specs",
    "forget_writers",
)


class House:
    """For one writer of the given name. `retention` in milliseconds."""

    def __init__(self, name: str, retention: int, now: Callable[[], int]) -> None:
        self._name, self._retention, self._now = name, retention, now
        self._due = 0.0

    async def keep(self, url: str) -> None:
        """For ever. What goes wrong is said, and tried again; also what could not be had at once."""
        while True:
            await asyncio.sleep(self._due - time.monotonic())
            self._due = time.monotonic() + min(_HOUR, max(self._retention / 1000, 1))
            try:
                await self._once(url)
            except FAULTS as error:
                self._soon()
                _log.warning("partitions and retention are seen to later", error=sentence(error))

    async def _once(self, url: str) -> None:
        conn = await connect(url, self._name)
        try:
            if not await prepare(conn, self._now()):
                self._soon()
            count = await forget(conn, self._name, self._now() - self._retention)
        finally:
            await conn.close()
        if count:
            _log.info("forgot what is past retention", rows_and_days=count)

    def _soon(self) -> None:
        self._due = min(self._due, time.monotonic() + _MINUTE)


async def prepare(conn: Connection, now: int) -> bool:
    """Today's partitions and tomorrow's; False if one cannot be had now, and the default takes its rows."""
    done = True
    for parent in PARTITIONED:
        for at in (now, now + DAY):
            answer = await _unless_busy(conn, "make_partition", {"parent": parent, "at": at})
            done &= answer is not None
    return done


async def forget(conn: Connection, me: str, before: int) -> int:
    """Drop what ended before that time (milliseconds), in small transactions; how many rows and days."""
    count = 0
    for parent in PARTITIONED:
        for _ in range(_MOST_DAYS):
            row = await _unless_busy(conn, "drop_partition", {"parent": parent, "before": before})
            if row is None or row[0] is None:
                break
            count += 1
    for name in _ROWS:
        for _ in range(_MOST_ROUNDS):
            answer = await conn.execute(SQL[name], {"before": before, "most": _MOST_ROWS, "me": me})
            count += answer.rowcount
            if answer.rowcount < _MOST_ROWS:
                break
    return count


async def _unless_busy(conn: Connection, name: str, values: dict[str, Any]) -> tuple[Any, ...] | None:
    """The answer; None when somebody reads for so long that it was not waited for any longer."""
    try:
        return await (await conn.execute(SQL[name], values)).fetchone()
    except psycopg.Error as error:
        if error.sqlstate not in _BUSY:
            raise
        _log.info("a partition is seen to later", error=sentence(error), **values)
        return None
