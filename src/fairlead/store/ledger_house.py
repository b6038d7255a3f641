"""Partitions made ahead, and what is past its time dropped: by the hour, a bounded piece of work each time.

Called by `store.ledger` on a connection of its own, in every process that writes to the ledger; doing it
twice, or at the same time as another process, is harmless. Must not touch what is open.
"""

import psycopg
import structlog

from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

_log = structlog.get_logger("store.ledger")
DAY = 24 * 3600 * 1000
PARTITIONED = ("change", "ledger_chunk")
_MOST_DAYS = 10
_MOST_ROWS = 2000
_MOST_ROUNDS = 100
_ROWS = (
    "forget_changes",
    "forget_chunks",
    "forget_pods",
    "forget_nodes",
    "forget_segments",
    "forget_specs",
    "forget_writers",
)


async def prepare(conn: Connection, now: int) -> None:
    """Today's partitions and tomorrow's. One that cannot be had now is tried again: the default catches."""
    for parent in PARTITIONED:
        for at in (now, now + DAY):
            try:
                await conn.execute(SQL["make_partition"], {"parent": parent, "at": at})
            except psycopg.Error as error:
                if conn.broken or not _busy(error):
                    raise
                _log.info("a partition is made later", table=parent, reason=str(error).splitlines()[0])


async def forget(conn: Connection, me: str, before: int) -> int:
    """Drop what ended before that time (milliseconds), in small transactions; how many rows and days."""
    count = 0
    for parent in PARTITIONED:
        for _ in range(_MOST_DAYS):
            try:
                answer = await conn.execute(SQL["drop_partition"], {"parent": parent, "before": before})
            except psycopg.Error as error:
                if conn.broken or not _busy(error):
                    raise
                _log.info("a partition is dropped later", table=parent, reason=str(error).splitlines()[0])
                break
            row = await answer.fetchone()
            if not row or not row[0]:
                break
            count += 1
    for name in _ROWS:
        for _ in range(_MOST_ROUNDS):
            answer = await conn.execute(SQL[name], {"before": before, "most": _MOST_ROWS, "me": me})
            count += answer.rowcount
            if answer.rowcount < _MOST_ROWS:
                break
    return count


def _busy(error: psycopg.Error) -> bool:
    """Somebody reads: it was not waited for any longer."""
    return error.sqlstate in ("55P03", "40P01")
