"""Segments of the ledger as rows: written behind, bounded, in order, each chunk once.

Composed by `fairlead.app_ledger`, fed by `runtime.segmenting`, which never waits for it. The database being
away ends nothing: what was taken is kept and written later; what there is no room for is not taken, and the
next segment begins with a checkpoint. `store.ledger` makes the partitions and applies the retention. Must not
look into chunks.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable
from hashlib import blake2b

import msgspec
import psycopg
import structlog

from fairlead.runtime.segmenting import Closed, Opened
from fairlead.runtime.segments import Chunk
from fairlead.store import schema
from fairlead.store.schema import Connection
from fairlead.store.session import FAULTS, PAUSES, connect, patient, sentence
from fairlead.store.sql import SQL

_log = structlog.get_logger("store.segments")
LIMIT = 64 << 20
_LAST = 10.0
Item = Opened | Chunk | Closed


class SegmentStore:
    """`url` says where the database is at present. `limit` is in bytes not written yet; times in seconds."""

    def __init__(self, url: Callable[[], str], *, limit: int = LIMIT, patience: float = 30.0) -> None:
        self.error = "not connected yet"
        """Why nothing can be written right now, "" when it can."""
        self.written = 0
        """Chunks that are durable."""
        self.waiting = 0
        """Bytes that are taken and not yet durable."""
        self._url, self._limit, self._patience = url, limit, patience
        self._me = f"{socket.gethostname()} process {os.getpid()} {secrets.token_hex(4)}"
        self._queue: deque[Item] = deque()
        self._news = asyncio.Event()
        self._segment = 0
        """The row of the segment that is being written; 0: it is void."""
        self._conn: Connection | None = None
        self._running: asyncio.Task[None] | None = None

    # -- what a Sink does ----------------------------------------------------------------------------

    def put(self, item: Item) -> bool:
        size = _size(item)
        if isinstance(item, Opened) and not self.room():
            return False
        if isinstance(item, Chunk) and self.waiting + size > self._limit:
            return False
        self.waiting += size
        self._queue.append(item)
        self._news.set()
        return True

    def room(self) -> bool:
        made = (item.checkpoint for item in self._queue if isinstance(item, Opened))
        states = sum(len(each.result()) for each in made if each is not None and _good(each))
        return self.waiting + states <= self._limit // 2

    # -- writing -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, write, and connect again, until cancelled or closed."""
        self._running = asyncio.create_task(self._live(), name="segments")
        try:
            await asyncio.wait({self._running})
        finally:
            self._running.cancel()
        if not self._running.cancelled():
            self._running.result()

    async def drained(self) -> None:
        """Returns when all that was put before is durable or void."""
        while self._queue:
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Write what is left, for some seconds at most, and disconnect."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=10)
        with contextlib.suppress(*FAULTS, TimeoutError):
            async with asyncio.timeout(_LAST):
                if self._queue:
                    await self._disconnect()
                    await self._write_all(await self._connect(), once=True)
        await self._disconnect()
        if self._queue:
            _log.warning("not written before the end", bytes=self.waiting)

    async def _live(self) -> None:
        attempt = 0
        while True:
            try:
                conn = await self._connect()
                self.error, attempt = "", 0
                await self._write_all(conn)
            except FAULTS as error:
                if not self.error or not attempt:
                    _log.info("segments wait for the database", error=sentence(error))
                self.error = sentence(error)
            finally:
                await self._disconnect()
            await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1

    async def _connect(self) -> Connection:
        async with patient(self._patience):
            self._conn = await connect(self._url(), f"fairlead segments {os.getpid()}")
            await schema.migrate(self._conn)
        return self._conn

    async def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(*FAULTS):
                await conn.close()

    async def _write_all(self, conn: Connection, once: bool = False) -> None:
        """What waits, in order; an item leaves the queue when it is durable. With `once` until none waits."""
        while True:
            while self._queue:
                item = self._queue[0]
                try:
                    await self._write(conn, item)
                except (psycopg.DataError, psycopg.IntegrityError) as error:
                    self._segment = 0  # to try again would never help
                    _log.error("the database does not take a segment: a gap", error=sentence(error))
                self._queue.popleft()
                self.waiting -= _size(item)
                self.written += isinstance(item, Chunk)
            if once:
                return
            self._news.clear()
            await self._news.wait()

    async def _write(self, conn: Connection, item: Item) -> None:
        match item:
            case Opened():
                self._segment = await self._open(conn, item)
            case Chunk() if self._segment:
                await self._chunk(conn, item)
            case Closed() if self._segment:
                async with patient(self._patience):
                    await conn.execute(SQL["close_segment"], {"segment": self._segment, "at": item.at})
            case _:
                pass  # of a segment that is void

    async def _open(self, conn: Connection, item: Opened) -> int:
        """The segment's row; 0 if what it begins with could not be made."""
        body = None
        if item.checkpoint is not None:
            try:
                body = await asyncio.shield(item.checkpoint)
            except BaseException:
                if item.checkpoint.done() and not _good(item.checkpoint):
                    return 0  # to try again would never help, whatever it was
                raise
        settings = msgspec.json.encode(item.settings)
        values = {
            "at": item.at,
            "why": item.why,
            "engine": item.engine,
            "hash": blake2b(settings, digest_size=16).hexdigest(),
            "settings": settings.decode(),
            "epoch": item.epoch,
            "holder": self._me,
            "checkpoint": body,
        }
        async with patient(self._patience):
            row = await (await conn.execute(SQL["open_segment"], values)).fetchone()
        assert row is not None
        return int(row[0])

    async def _chunk(self, conn: Connection, chunk: Chunk) -> None:
        """The chunk with the specs that it brings, in one transaction; harmless to do again."""
        body = await asyncio.to_thread(chunk.packed)
        used = chunk.last_at  # for an hour later ones may rest on these specs, too: `forget_specs` knows
        specs = [{"hash": name, "body": text, "used": used} for name, text in sorted(chunk.specs.items())]
        values = {
            "segment": self._segment,
            "seq": chunk.seq,
            "first": chunk.first_at,
            "last": chunk.last_at,
            "batches": chunk.batches,
            "events": chunk.events,
            "body": body,
        }
        async with patient(self._patience), conn.transaction(), conn.cursor() as cursor:
            if specs:
                await cursor.executemany(SQL["put_spec"], specs)
            await cursor.execute(SQL["put_chunk"], values)
            await cursor.execute(SQL["segment_epoch"], {"segment": self._segment, "epoch": chunk.epoch})


def _good(made: asyncio.Future[bytes]) -> bool:
    return made.done() and not made.cancelled() and made.exception() is None


def _size(item: Item) -> int:
    if isinstance(item, Chunk):
        return len(item.body) + sum(map(len, item.specs.values()))
    return 0
