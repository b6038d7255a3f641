"""One connected life of the ledger's writer: its connections, whose turn it is, and one transaction.

Made by `store.ledger` at each (re)connect and thrown away at the first error. A transaction carries its
writer's next number, so one whose answer got lost is repeated and finds itself already in.
Must not decide when to write.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import islice
from typing import Any

import psycopg

from fairlead.model.record import Change, Loaded, Part
from fairlead.store import ledger_rows, schema
from fairlead.store.errors import FencedError
from fairlead.store.ledger_buffer import Batch
from fairlead.store.schema import Connection
from fairlead.store.session import connect
from fairlead.store.sql import SQL

_CHUNK = 500
"""Changes put into text at a time: a millisecond or two, after which others get their turn."""
_LOADED = 2000
_REFUSED = ("22", "23", "54")
"""Classes of errors that are about the data: repeating it as it is would never help."""


class LedgerSession:
    """`guard` holds the recorder's lock and watches, `writer` writes."""

    def __init__(self, guard: Connection, writer: Connection) -> None:
        self.guard = guard
        self.writer = writer

    async def turn(self) -> int:
        """The present recorder's; 0 before the first."""
        return await _number(self.guard, "recorder_turn")

    async def try_lock(self) -> bool:
        """This process is the recorder as long as the guard's connection lives."""
        return bool(await _number(self.guard, "try_lock_recorder"))

    async def take_turn(self, me: str, now: int) -> int:
        """Returns when nothing of an earlier recorder is on its way any more."""
        return await _number(self.guard, "take_recorder_turn", {"me": me, "now": now})

    async def watch(self) -> None:
        """Returns only by an exception: the server went away."""
        async for _ in self.guard.notifies():
            pass  # nobody notifies; waiting is how a closed socket is seen
        raise psycopg.OperationalError("the connection that watches the server ended")

    async def close(self) -> None:
        for conn in (self.writer, self.guard):
            with contextlib.suppress(psycopg.Error, OSError):
                await conn.close()


async def open_ledger(url: str, me: str) -> LedgerSession:
    """Connected, at the known schema, and alone under this name. Raises StoreError or psycopg.Error."""
    guard = await connect(url, me)
    try:
        await guard.execute(SQL["end_own_leftovers"], {"me": me})
        await schema.migrate(guard)
        return LedgerSession(guard, await connect(url, me))
    except BaseException:
        await guard.close()
        raise


async def write(conn: Connection, me: str, batch: Batch, turn: int, now: int) -> bool:
    """The batch in one transaction; False when an earlier attempt has got through after all.

    Raises FencedError when state is to be written and the turn is another's, psycopg.Error for the rest.
    """
    values = {"me": me, "number": batch.number, "now": now}
    async with conn.transaction():
        if not await _number(conn, "count_transaction", values):
            return False
        if batch.state:
            present = await _number(conn, "hold_recorder_turn")
            if present != turn:
                raise FencedError(present)
        await _copy(conn, batch.parts)
        if batch.state:
            await _save(conn, batch.parts, now)
    return True


async def _copy(conn: Connection, parts: Sequence[Part]) -> None:
    changes = (change for part in parts for change in part.changes)
    chunk = list(islice(changes, _CHUNK))
    if not chunk:
        return
    async with conn.cursor() as cursor, cursor.copy(SQL["copy_changes"]) as copy:
        while chunk:
            await copy.write(ledger_rows.copy_text(chunk))
            await asyncio.sleep(0)
            chunk: list[Change] = list(islice(changes, _CHUNK))


async def _save(conn: Connection, parts: Sequence[Part], now: int) -> None:
    pods = [pod for part in parts for pod in part.pods]
    nodes = [node for part in parts for node in part.nodes]
    if pods:
        await conn.execute(SQL["save_pods"], {"pods": ledger_rows.pods_text(pods)})
    if nodes:
        await conn.execute(SQL["save_nodes"], {"nodes": ledger_rows.nodes_text(nodes)})
    if any(part.marks for part in parts):
        await conn.execute(SQL["save_marks"], {"marks": ledger_rows.marks_text(parts, now)})


def refused(error: BaseException) -> bool:
    """The database will not have these data, whenever they come."""
    return isinstance(error, psycopg.Error) and (error.sqlstate or "")[:2] in _REFUSED


async def load(url: str, name: str) -> Loaded:
    """What a recorder goes on from: pods that were not seen deleted, the present state of nodes, marks."""
    conn = await connect(url, name)
    try:
        async with conn.transaction():
            pods = [ledger_rows.pod(text) for text in await _texts(conn, "load_pods")]
            nodes = [ledger_rows.node(text) for text in await _texts(conn, "load_nodes")]
            marks = await (await conn.execute(SQL["load_marks"])).fetchall()
    finally:
        await conn.close()
    return Loaded({pod.uid: pod for pod in pods}, {node.uid: node for node in nodes}, dict(marks))


async def _texts(conn: Connection, name: str) -> list[str]:
    answer = await conn.execute(SQL[name])
    return [row[0] for row in await answer.fetchall()]


async def _number(conn: Connection, name: str, values: dict[str, Any] | None = None) -> int:
    """The first column of the first row; 0 when there is none."""
    row = await (await conn.execute(SQL[name], values)).fetchone()
    return int(row[0]) if row and row[0] else 0
