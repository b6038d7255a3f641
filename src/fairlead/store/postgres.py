"""The database port on a real PostgreSQL: embedded in the data folder, or the user's by URL.

Composed by `fairlead.app`, driven by `runtime.loop`. `perform` only queues; one writer task sends
transactions: a plan at once, everything else behind. The store being away never ends anything: it is told
(StoreLost), what is to be written is kept, and a transaction of unknown fate is repeated, which its plan's
id makes harmless.
Must not decide anything about groups.
"""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path

import structlog

from fairlead.model.command import Command, RecordAllocations
from fairlead.model.event import (
    AllocationsRecorded,
    AllocationsRefused,
    Event,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.model.plan import Reserve
from fairlead.runtime.port import Inbox
from fairlead.store import batch as batches
from fairlead.store import session as sessions
from fairlead.store.embedded import EmbeddedServer
from fairlead.store.errors import FencedError
from fairlead.store.schema import Connection
from fairlead.store.session import FAULTS, PAUSES, Session, connect, open_session, patient, sentence

_log = structlog.get_logger("store")
_HOUSEKEEPING = 600.0


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class PostgresStore:
    """Give `data` for the embedded server or `url` for your own; `url` wins.

    Times are in milliseconds, but for `patience`: the seconds after which a silent server counts as lost.
    `elected` returns while this process is the elected one: nothing is connected before, and whoever still
    writes then has lost its lease and is ended. Without it the first one leads, and others wait for its end.
    """

    handles = batches.HANDLES

    def __init__(
        self,
        *,
        data: Path | None = None,
        url: str = "",
        request_timeout: int = 10_000,
        retention: int = 7 * 24 * 3600 * 1000,
        flush_every: int = 100,
        patience: float = 30.0,
        now: Callable[[], int] = _wall_clock,
        elected: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if not url and data is None:
            raise ValueError("a data folder or a database URL is needed")
        self.server = None if url or data is None else EmbeddedServer(data)
        self.epoch = 0
        self.statements = 0
        """Sent for batches so far, BEGIN and COMMIT included."""
        self.transactions = 0
        self.error = "not connected yet"
        """Why the store is not ready right now, "" when it is."""
        self.fenced = asyncio.Event()
        """Set when a newer leader owns the database: nothing is written any more."""
        self._url = url
        self._request_timeout = request_timeout
        self._retention = retention
        self._pause = flush_every / 1000
        self._patience = patience
        self._now = now
        self._elected = elected
        self._me = f"fairlead {os.getpid()} {secrets.token_hex(4)}"
        self._buffer = batches.Buffer()
        self._wake = asyncio.Event()
        self._urgent = asyncio.Event()
        self._written: tuple[Reserve, ...] | None = None
        self._session: Session | None = None
        self._inbox: Inbox | None = None
        self._told = False
        self._synced = False
        self._stuck = False
        """True from a transaction that failed to one that succeeds: a server may answer and not write."""
        self._closing = False
        self._running: asyncio.Task[None] | None = None
        self._housekeeping_at = 0.0

    @property
    def url(self) -> str:
        """What libpq connects to."""
        return self.server.url if self.server is not None else self._url

    def check(self) -> None:
        """Raises StoreError for what never comes right by itself: an unusable data folder, a misspelt URL."""
        if self.server is not None:
            self.server.check()
        sessions.conninfo(self.url, self._me)

    def perform(self, commands: Sequence[Command]) -> None:
        """Queue; a plan goes out at once, all else within `flush_every`."""
        for command in commands:
            if self.fenced.is_set() and isinstance(command, RecordAllocations):
                self._emit(AllocationsRefused(command.plan, self.error))
                continue
            self._buffer.add(command)
            if isinstance(command, RecordAllocations):
                self._urgent.set()
        self._wake.set()

    async def run(self, inbox: Inbox) -> None:
        """Connect, write, and connect again, until cancelled or closed."""
        self._inbox = inbox
        self._running = asyncio.create_task(self._live(), name="store")
        try:
            await asyncio.wait({self._running})
        finally:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.wait({self._running}))
        if not self._closing and not self._running.cancelled():
            self._running.result()

    async def close(self) -> None:
        """Write what is buffered (for a few seconds at most), disconnect, end the server if it is ours."""
        self._closing = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=10)
        for plan in list(self._buffer.plans.values()):
            self._buffer.drop_plan(plan)  # nobody is left to act on it
        if self._session is not None:
            with contextlib.suppress(*FAULTS, FencedError, TimeoutError):
                async with asyncio.timeout(5):
                    await self._write_last(self._session)
            await self._session.close()
            self._session = None
        if self._buffer:
            _log.warning("not written before the end", groups=len(self._buffer.groups))
        if self.server is not None:
            await asyncio.to_thread(self.server.stop)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncGenerator[Connection]:
        """A connection for `store.reader`, apart from the writer's. Raises StoreError or psycopg.Error."""
        conn = await connect(self.url, "fairlead reader")
        try:
            yield conn
        finally:
            await conn.close()

    async def _live(self) -> None:
        """The life of the port: one session after the other."""
        attempt = 0
        while not self.fenced.is_set():
            if self._elected is not None:
                await self._elected()
            try:
                self._session = session = await self._connect()
                attempt = 0
                await self._serve(session)
            except FencedError as error:
                await self._give_up(error)
            except FAULTS as error:
                self._lost(sentence(error))
            finally:
                await self._disconnect_unless_closing()
            await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            attempt += 1
        await asyncio.Event().wait()  # a port ends when it is told to

    async def _disconnect_unless_closing(self) -> None:
        if self._session is not None and not self._cancelled():
            session, self._session = self._session, None
            await session.close()

    def _cancelled(self) -> bool:
        """Being cancelled: `close` will want the connections for its last writes."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _connect(self) -> Session:
        """A session that leads; everything the engine must know is emitted before it returns."""
        if self.server is not None:
            await asyncio.to_thread(self.server.ensure)
        async with self._patient():
            elected = self._elected is not None
            session = await open_session(self.url, self._me, self.epoch, elected)
        try:
            restored: list[Event] = []
            async with self._patient():
                await session.lead(self.epoch, self._now())
                self.epoch = session.epoch
                if not self._synced:
                    restored = await session.restore(self._now() + self._request_timeout)
            recorded = await self._transact(session) if self._stuck and self._buffer else []
        except BaseException:
            await session.close()
            raise
        self.error, self._told = "", False
        last = [Synced("store")] if not self._synced else []
        self._synced = True
        _log.info("store ready", epoch=self.epoch, restored=len(restored))
        self._emit(*restored, StoreReady(self.epoch), *last, *recorded)
        return session

    async def _serve(self, session: Session) -> None:
        """Write until the server goes away. A transaction on its way then gets a moment to learn its fate."""
        watch = asyncio.create_task(session.watch(), name="store watch")
        write = asyncio.create_task(self._write_all(session), name="store writer")
        try:
            await asyncio.wait({watch, write}, return_when=asyncio.FIRST_COMPLETED)
            if not write.done():
                await asyncio.wait({write}, timeout=0.5)
        finally:
            for task in (write, watch):
                task.cancel()
            await asyncio.wait({watch, write})
        for task in (write, watch):
            if not task.cancelled():
                task.result()

    async def _write_all(self, session: Session) -> None:
        while True:
            if not self._buffer:
                self._wake.clear()
                await self._wake.wait()
            if not self._buffer.plans and len(self._buffer.groups) < batches.CHUNK:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._urgent.wait()
            self._urgent.clear()
            await self._write(session)
            await self._keep_house(session)

    async def _write(self, session: Session) -> None:
        self._emit(*await self._transact(session))

    async def _transact(self, session: Session) -> list[Event]:
        """One transaction with all that must be written now. On any failure everything is buffered again."""
        for plan in list(self._buffer.plans.values()):
            if plan.epoch != session.epoch:
                self._buffer.drop_plan(plan)
                self._emit(AllocationsRefused(plan.plan, f"fenced: epoch {plan.epoch}, not {session.epoch}"))
        batch = self._buffer.take(self._written)
        todo = batches.statements(batch, session.epoch, self._now())
        try:
            async with self._patient():
                await batches.write(session.writer, todo)
        except BaseException:
            self._buffer.give_back(batch)
            self._written = None  # of unknown fate, like the rest
            self._stuck = True
            raise
        self._stuck = False
        self.statements += len(todo) + 2
        self.transactions += 1
        if batch.reservations is not None:
            self._written = batch.reservations
        return [AllocationsRecorded(plan.plan) for plan in batch.plans]

    async def _keep_house(self, session: Session) -> None:
        if time.monotonic() >= self._housekeeping_at and not self._buffer.plans:
            self._housekeeping_at = time.monotonic() + min(_HOUSEKEEPING, self._retention / 1000)
            async with self._patient():
                await session.forget(self._now() - self._retention)

    async def _write_last(self, session: Session) -> None:
        """On a connection of its own: the writer's may have been cut off in the middle of something."""
        await session.writer.close()
        session.writer = await connect(self.url, self._me)
        while self._buffer:
            await self._write(session)

    async def _give_up(self, error: FencedError) -> None:
        """A newer leader owns the store. A pending plan that did get through is the newer one's to adopt."""
        self.fenced.set()
        plans = list(self._buffer.plans)
        try:
            recorded = await sessions.recorded(self.url, self._me, plans) if plans else set[str]()
        except FAULTS:
            recorded = set(plans)  # not certainly absent, so not refused
        self._buffer = batches.Buffer()
        self._lost(str(error))
        self._emit(*(AllocationsRefused(plan, str(error)) for plan in plans if plan not in recorded))

    def _lost(self, error: str) -> None:
        """Told once per outage; later reasons are logged, and kept for `error`."""
        if error != self.error:
            _log.warning("store lost", error=error)
        self.error = error
        if not self._told or self.fenced.is_set():
            self._told = True
            self._emit(StoreLost(error))

    def _patient(self) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        return patient(self._patience)

    def _emit(self, *events: Event) -> None:
        if self._inbox is not None and events:
            self._inbox.put(events)
