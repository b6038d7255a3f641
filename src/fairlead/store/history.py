"""Asking the ledger: pods with their times, nodes, changes, the views there are.

Used by the command line over a connection of `store.reader.open_reader`, inside `at_once`. One statement per
question; long answers come in portions, so that what is held in memory is what the caller keeps. Must not
write.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from itertools import groupby
from typing import Any

import msgspec
from psycopg.types.json import set_json_loads

from fairlead.model.history import Asked, ChangeRow, PodHistory, View
from fairlead.model.record import NodeLife
from fairlead.store.rows import clean
from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

_PORTION = 5_000
_TOUCH = 10_000


@contextlib.asynccontextmanager
async def at_once(conn: Connection) -> AsyncGenerator[None]:
    """All that is asked meanwhile is answered as of one moment."""
    async with conn.transaction():
        await conn.execute(SQL["at_once"])
        yield


async def pods(conn: Connection, asked: Asked) -> AsyncIterator[PodHistory]:
    """Pods that were there at some time between, also those that have no node (yet); by when they got it."""
    async for row in _rows(conn, "history_pods", _filter(asked) | {"placed": False}):
        yield PodHistory(*row)


async def intervals(conn: Connection, asked: Asked) -> AsyncIterator[PodHistory]:
    """Pods that have or had a node, in the order in which they got it. `until` 0: it still holds it."""
    async for row in _rows(conn, "history_pods", _filter(asked) | {"placed": True}):
        yield PodHistory(*row)


async def nodes(conn: Connection, asked: Asked) -> AsyncIterator[NodeLife]:
    """The states of all nodes (or of the one asked for) that held at some time between, by name and time."""
    async for row in _rows(conn, "history_nodes", _filter(asked)):
        uid, name, since, version, capacity, allocatable, labels, taints, *rest = row
        yield NodeLife(uid, name, since, version, capacity, allocatable, labels, tuple(taints), *rest)


async def changes(
    conn: Connection, asked: Asked, *, kind: str = "", after: int = 0
) -> AsyncIterator[ChangeRow]:
    """Rows behind `after` in the order of writing; `since` and `until` are when they were learned."""
    async for row in _rows(conn, "history_changes", _filter(asked) | {"object": clean(kind), "after": after}):
        yield ChangeRow(*row)


async def newest(conn: Connection, asked: Asked, *, kind: str = "", limit: int) -> list[ChangeRow]:
    """The last so many of `changes`, in their order."""
    values = _filter(asked) | {"object": clean(kind), "after": 0, "limit": limit}
    answer = await conn.execute(SQL["history_changes"] + b" DESC LIMIT %(limit)s", values)
    return [ChangeRow(*row) for row in reversed(await answer.fetchall())]


async def last(conn: Connection) -> int:
    """The number of the row that was written last, 0 if there is none."""
    row = await (await conn.execute(SQL["history_last"])).fetchone()
    return int(row[0]) if row else 0


async def transactions(conn: Connection) -> tuple[int, int]:
    """The oldest that is open and the first that had yet to begin, as of this moment (`at_once`)."""
    row = await (await conn.execute(SQL["open_transactions"])).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)


async def recorded(conn: Connection) -> int:
    """Up to when a recorder has watched, 0 if none ever did."""
    row = await (await conn.execute(SQL["history_recorded"])).fetchone()
    return int(row[0]) if row else 0


async def gaps(conn: Connection, since: int, until: int) -> list[tuple[int, int]]:
    """From when to when pods or nodes were not watched, where that touches the time asked about.

    Kinds that were listed anew one after the other are one gap.
    """
    answer = await conn.execute(SQL["history_gaps"], {"since": since, "until": until})
    found: list[tuple[int, int]] = []
    for begin, end in await answer.fetchall():
        if found and begin <= found[-1][1] + _TOUCH:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


async def views(conn: Connection) -> list[View]:
    """The views for people's own SQL, as their comments describe them."""
    found = await (await conn.execute(SQL["history_views"])).fetchall()
    return [
        View(name, comment, tuple((column, kind, told) for *_, column, kind, told in rows))
        for (name, comment), rows in groupby(found, key=lambda row: (row[0], row[1]))
    ]


async def _rows(conn: Connection, name: str, values: dict[str, Any]) -> AsyncIterator[tuple[Any, ...]]:
    """The rows of a statement, fetched in portions.

    The end of the transaction ends it, too: whoever goes away in the middle (a pipe that
    closed) need not say so.
    """
    set_json_loads(msgspec.json.decode, conn)
    cursor = conn.cursor(name=name)
    await cursor.execute(SQL[name], values)
    while found := await cursor.fetchmany(_PORTION):
        for row in found:
            yield row
    await cursor.close()


def _filter(asked: Asked) -> dict[str, Any]:
    kind, slash, owner = asked.owner.rpartition("/")
    return {
        "namespace": clean(asked.namespace),
        "name": clean(asked.name),
        "scheduler": clean(asked.scheduler),
        "node": clean(asked.node),
        "group": clean(asked.group),
        "owner_kind": clean(kind) if slash else "",
        "owner": clean(owner),
        "labels": msgspec.json.encode({clean(k): clean(v) for k, v in asked.labels.items()}).decode(),
        "since": asked.since,
        "until": asked.until,
        "open": asked.open,
    }
