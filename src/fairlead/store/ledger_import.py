"""The ledger's writer for rows of long ago: a part at a time, and each is durable when the call returns.

Called by `cli.recorder_import_run`. Recorders may write meanwhile: what is imported has uids and marks of its
own. A fault ends the import with an error; the marks in the parts say where it can go on. Must not look into
what it writes.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import psycopg

from fairlead.model.record import Part
from fairlead.store import ledger_house, ledger_rows, ledger_session, schema
from fairlead.store.embedded import EmbeddedServer
from fairlead.store.errors import StoreError
from fairlead.store.schema import Connection
from fairlead.store.session import FAULTS, connect, sentence
from fairlead.store.sql import SQL

_NAME = "fairlead import"


class Importer:
    """`marks` says by log how far it is in already."""

    def __init__(self, conn: Connection, marks: dict[str, int], now: int) -> None:
        self.marks = marks
        self._conn, self._now = conn, now

    async def write(self, part: Part) -> None:
        """All of it or, with StoreError, nothing."""
        try:
            async with self._conn.transaction():
                await ledger_session.insert(self._conn, [ledger_rows.tamed(part)], self._now)
        except psycopg.Error as error:
            raise StoreError(f"the database does not take it: {sentence(error)}") from error


@contextlib.asynccontextmanager
async def importing(*, data: Path | None, url: str, now: int) -> AsyncGenerator[Importer]:
    """A connection to that folder's or that URL's ledger, which is made if it is not there; `url` wins.

    `now` in milliseconds since the epoch. Raises StoreError.
    """
    server = EmbeddedServer(data, shared=True) if data is not None and not url else None
    try:
        if server is not None:
            await asyncio.to_thread(server.ensure)
            url = server.url
        conn = await _opened(url)
        try:
            yield Importer(conn, await _prepared(conn, now), now)
        finally:
            await conn.close()
    finally:
        if server is not None:
            await asyncio.to_thread(server.stop)


async def _opened(url: str) -> Connection:
    try:
        return await connect(url, _NAME)
    except FAULTS as error:
        raise StoreError(f"the database does not answer: {sentence(error)}") from error


async def _prepared(conn: Connection, now: int) -> dict[str, int]:
    """Tables and partitions are there, no other import is at it; the marks of earlier ones."""
    try:
        await schema.migrate(conn)
        row = await (await conn.execute(SQL["try_lock_import"])).fetchone()
        if row is None or not row[0]:
            raise StoreError("another import writes to this database: wait until it has ended")
        await ledger_house.prepare(conn, now)
        return dict(await (await conn.execute(SQL["import_marks"])).fetchall())
    except psycopg.Error as error:
        raise StoreError(f"the database does not take it: {sentence(error)}") from error
