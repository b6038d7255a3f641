"""One connected life of the ledger's writer: its connections, whose turn it is, and one transaction.

Made by `store.ledger` at each (re)connect and thrown away at the first error. A transaction carries its
writer's next number, so one whose answer got lost is repeated and finds itself already in.
Must not decide when to write.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

import psycopg

from fairlead.model.record import Loaded, Part
from fairlead.store import ledger_rows, schema
from fairlead.store.errors import FencedError
from fairlead.store.ledger_buffer import Batch
from fairlead.store.schema import Connection
from fairlead.store.session import connect
from fairlead.store.sql import SQL

_CHUNK = 500
"""Changes put into text at a time: a millisecond or two, after which others get their turn."""
_MANY = 2000
"""Pods or nodes at a time, for the same reason."""
T = TypeVar("T")
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


async def write(
    conn: Connection, me: str, batch: Batch, turn: int, now: int, moved: Callable[[], None]
) -> bool:
    """The batch in one transaction; False when an earlier attempt has got through after all.

    `moved` is called whenever the server has taken a piece of it.
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
        await insert(conn, batch.parts, now, moved)
    return True


def _nothing() -> None:
    """For who does not want to know."""


async def insert(
    conn: Connection, parts: Sequence[Part], now: int, moved: Callable[[], None] = _nothing
) -> None:
    """All of the parts, within the caller's transaction. Raises psycopg.Error."""
    await _copy(conn, parts, moved)
    pods = {pod.uid: pod for part in parts for pod in part.pods}
    for some in _pieces(pods.values(), _MANY):
        await conn.execute(SQL["save_pods"], {"pods": ledger_rows.as_json(some)})
        moved()
    nodes = {(node.uid, node.since): node for part in parts for node in part.nodes}
    for some in _pieces(nodes.values(), _MANY):
        await conn.execute(SQL["save_nodes"], {"nodes": ledger_rows.as_json(some)})
        moved()
    if any(part.marks for part in parts):
        await conn.execute(SQL["save_marks"], {"marks": ledger_rows.marks_text(parts, now)})


async def _copy(conn: Connection, parts: Sequence[Part], moved: Callable[[], None]) -> None:
    if not any(part.changes for part in parts):
        return
    changes = (change for part in parts for change in part.changes)
    async with conn.cursor() as cursor, cursor.copy(SQL["copy_changes"]) as copy:
        for some in _pieces(changes, _CHUNK):
            await copy.write(ledger_rows.copy_text(some))
            moved()
            await asyncio.sleep(0)


def _pieces(rows: Iterable[T], size: int) -> Iterable[list[T]]:
    left = iter(rows)
    while some := list(islice(left, size)):
        yield some


def refused(error: BaseException) -> bool:
    """The database will not have these data, whenever they come, or they cannot even be put into text."""
    if isinstance(error, (ValueError, TypeError, ArithmeticError, RecursionError)):
        return True
    return isinstance(error, psycopg.Error) and (error.sqlstate or "")[:2] in _REFUSED


async def load(url: str, name: str) -> Loaded:
    """What a recorder goes on from: pods that were not seen deleted, the present state of nodes, marks."""
    conn = await connect(url, name)
    try:
        async with conn.transaction():
            pods = await _decoded(conn, "load_pods", ledger_rows.pod)
            nodes = await _decoded(conn, "load_nodes", ledger_rows.node)
            marks = await (await conn.execute(SQL["load_marks"])).fetchall()
    finally:
        await conn.close()
    return Loaded({pod.uid: pod for pod in pods}, {node.uid: node for node in nodes}, dict(marks))


async def _decoded(conn: Connection, name: str, decode: Callable[[str], T]) -> list[T]:
    found: list[T] = []
    answer = await conn.execute(SQL[name])
    while texts := await answer.fetchmany(_MANY):
        found += [decode(text) for (text,) in texts]
        await asyncio.sleep(0)
    return found


async def _number(conn: Connection, name: str, values: dict[str, Any] | None = None) -> int:
    """The first column of the first row; 0 when there is none."""
    row = await (await conn.execute(SQL[name], values)).fetchone()
    return int(row[0]) if row and row[0] else 0
