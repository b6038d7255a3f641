"""The ledger's writer: what is put is in the database soon, once, however often the database goes away.

Composed by `fairlead.app_recorder` (role "recorder") and `fairlead.app` (role "decisions"), fed by the
recorder's book and doors and by `runtime.decisions`, which never wait for it. The store being away ends
nothing: what is put is kept as long as there is room, and a transaction of unknown fate is repeated under
its number, which makes that harmless.
Must not look into what it writes.
"""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import structlog
from msgspec import structs

from fairlead.model.record import Loaded, Part
from fairlead.store import ledger_house, ledger_rows, ledger_session, schema, session
from fairlead.store.embedded import EmbeddedServer
from fairlead.store.errors import FencedError
from fairlead.store.ledger_buffer import Batch, Buffer, has_state
from fairlead.store.ledger_house import House
from fairlead.store.ledger_session import LedgerSession, open_ledger
from fairlead.store.schema import Connection
from fairlead.store.session import FAULTS, PAUSES, connect, patient, sentence

_log = structlog.get_logger("store.ledger")
_LARGE = 20_000
"""Rows of one transaction, about."""
_SOON = 2000
"""So many rows are not kept waiting for more."""
_STANDBY = 0.5


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class Ledger:
    """Give `data` for the embedded server or `url` for your own; `url` wins. Call it from one event loop.

    `limit` is in rows, `retention` and `flush_every` in milliseconds, `patience` the seconds after which a
    silent server counts as lost. The role "recorder" may put pods, nodes and marks: one process at a time,
    others stand by. Changes alone are written by any number of processes, also while standing by.
    Several processes with one database should have the same retention: the shortest counts.
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        url: str = "",
        limit: int = 200_000,
        retention: int = 30 * ledger_house.DAY,
        now: Callable[[], int] = _wall_clock,
        role: Literal["recorder", "decisions"] = "recorder",
        flush_every: int = 100,
        patience: float = 30.0,
    ) -> None:
        if not url and data is None:
            raise ValueError("a data folder or a database URL is needed")
        self.server = None if url or data is None else EmbeddedServer(data, shared=True)
        self.name = f"fairlead {role} {os.getpid()} {secrets.token_hex(4)}"
        """Of its connections and in the table of writers."""
        self.error = "not connected yet"
        """Why nothing can be written right now, "" when it can."""
        self.standby = False
        """Another recorder has the turn: changes are written, pods, nodes and marks wait."""
        self.written = 0
        """Rows that are durable, among them pods and nodes that were said again."""
        self.dropped = 0
        """Parts that the database would not take for what is in them, even tamed."""
        self._url = url
        self._role = role
        self._house = House(self.name, retention, now)
        self._now = now
        self._pause = flush_every / 1000
        self._patience = patience
        self._buffer = Buffer(limit)
        self._flight: Batch | None = None
        """Sent, and of unknown fate until its transaction is seen to be in."""
        self._number = 0
        self._singly = 0
        """So many parts are still to be written one by one, tamed: one of them was refused."""
        self._turn = 0
        """With which this process is the recorder; 0 = not yet."""
        self._outdated = False
        """Another has had the turn since, and this one has not been run again."""
        self._holding = asyncio.Event()
        self._wake = asyncio.Event()
        self._soon = asyncio.Event()
        self._moved = asyncio.Event()
        self._stuck = False
        self._attempt = 0
        self._closing = False
        self._session: LedgerSession | None = None
        self._running: asyncio.Task[None] | None = None
        self._put = self._done = 0

    @property
    def url(self) -> str:
        """What libpq connects to."""
        return self.server.url if self.server is not None else self._url

    @property
    def waiting(self) -> int:
        """Rows that are put and not yet durable."""
        return self._buffer.rows

    def check(self) -> None:
        """Raises StoreError for what never comes right by itself: an unusable data folder, a misspelt URL."""
        if self.server is not None:
            self.server.check()
        session.conninfo(self.url, self.name)

    def put(self, part: Part) -> bool:
        """Take the part; False when there is no room, and then nothing of it is taken. Never waits.

        Raises ValueError for pods, nodes or marks in the role "decisions".
        """
        if self._role != "recorder" and has_state(part):
            raise ValueError("only a recorder writes pods, nodes and marks")
        before = self._buffer.rows
        if not self._buffer.put(part):
            return False
        self._put += self._buffer.rows - before
        self._wake.set()
        if self._buffer.rows >= _SOON:
            self._soon.set()
        return True

    async def run(self) -> None:
        """Connect, write, and connect again, until cancelled or closed.

        Raises FencedError when another recorder has had its turn meanwhile: what this one knows is then
        outdated, and its unwritten pods, nodes and marks are dropped (the other's watch has them). Run again
        when nobody puts such any more, it stands by for the next turn, and `load` waits for that.
        """
        if self._outdated:
            self._outdated = False
            self._drop_state()  # put while those who watched did not know yet
        self._running = asyncio.create_task(self._live(), name="ledger")
        try:
            await asyncio.wait({self._running})
        finally:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.wait({self._running}))
        if not self._closing and not self._running.cancelled():
            self._running.result()

    async def load(self) -> Loaded:
        """What the recorder goes on from, as soon as it is this one's turn. Waits for the database."""
        if self._role != "recorder":
            raise ValueError("only a recorder goes on from what is in the ledger")
        while True:
            await self._holding.wait()
            try:
                async with self._patient():
                    return await ledger_session.load(self.url, self.name + " load")
            except FAULTS as error:
                _log.info("what is in the ledger cannot be read yet", error=sentence(error))
                await asyncio.sleep(PAUSES[-1])

    async def drained(self) -> None:
        """Returns when all that was put before is durable."""
        wanted = self._put
        self._soon.set()
        # Rows of doors may overtake those of the watches while it is not this one's turn.
        while self._done < wanted or self._has_state():
            self._moved.clear()
            await self._moved.wait()

    async def close(self) -> None:
        """Write what is left (for a few seconds at most), disconnect, end the server if it is ours."""
        self._closing = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=10)
        with contextlib.suppress(*FAULTS, FencedError, TimeoutError):
            async with asyncio.timeout(5):
                await self._write_last()
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._buffer.rows:
            _log.warning("not written before the end", rows=self._buffer.rows)
        if self.server is not None:
            await asyncio.to_thread(self.server.stop)

    async def _live(self) -> None:
        """The life of the writer: one session after the other."""
        while True:
            try:
                self._session = await self._connect()
                await self._serve(self._session)
            except FencedError:
                self._leave()
                raise
            except FAULTS as error:
                self._lost(sentence(error))
            finally:
                self._holding.clear()
                await self._disconnect_unless_closing()
            await asyncio.sleep(PAUSES[min(self._attempt, len(PAUSES) - 1)])
            self._attempt += 1

    async def _disconnect_unless_closing(self) -> None:
        task = asyncio.current_task()
        if self._session is not None and not (task is not None and task.cancelling()):
            gone, self._session = self._session, None
            await gone.close()

    async def _connect(self) -> LedgerSession:
        if self.server is not None:
            await asyncio.to_thread(self.server.ensure)
        async with self._patient():
            opened = await open_ledger(self.url, self.name)
        try:
            async with self._patient():
                await ledger_house.prepare(opened.writer, self._now())
        except BaseException:
            await opened.close()
            raise
        if not self._stuck:
            self._ready()
        return opened

    async def _serve(self, opened: LedgerSession) -> None:
        """Write until the server goes away. A transaction on its way then gets a moment to learn its fate."""
        watch = asyncio.create_task(self._watch(opened), name="ledger watch")
        write = asyncio.create_task(self._write_all(opened), name="ledger writer")
        house = asyncio.create_task(self._house.keep(self.url), name="ledger house")
        try:
            await asyncio.wait({watch, write}, return_when=asyncio.FIRST_COMPLETED)
            if not write.done():
                await asyncio.wait({write}, timeout=0.5)
        finally:
            for task in (write, watch, house):
                task.cancel()
            await asyncio.wait({watch, write, house})
        for task in (write, watch):
            if not task.cancelled():
                task.result()

    async def _watch(self, opened: LedgerSession) -> None:
        if self._role == "recorder":
            await self._become_recorder(opened)
        await opened.watch()

    async def _become_recorder(self, opened: LedgerSession) -> None:
        """Returns with the lock. Raises FencedError when another has had it since we did."""
        while True:
            async with self._patient():
                locked = await opened.try_lock()
                turn = await opened.turn() if self._turn else 0
                if turn != self._turn:
                    raise FencedError(turn)
                if locked:
                    self._turn = self._turn or await opened.take_turn(self.name, self._now())
                    break
            if not self.standby:
                _log.info("another recorder writes: standing by")
            self.standby = True
            await asyncio.sleep(_STANDBY)
        self.standby = False
        self._holding.set()
        self._wake.set()
        _log.info("recording", turn=self._turn)

    async def _write_all(self, opened: LedgerSession) -> None:
        while True:
            while not self._writable():
                self._wake.clear()
                await self._wake.wait()
            if self._flight is None and self._buffer.rows < _SOON:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause):
                        await self._soon.wait()
            self._soon.clear()
            await self._write(opened.writer, self._holding.is_set())

    def _writable(self) -> bool:
        state = self._holding.is_set()
        if self._flight is not None:
            return state or not self._flight.state
        return self._buffer.waiting(state)

    async def _write(self, conn: Connection, state: bool) -> None:
        """One transaction with what waits. After a failure it is tried again under the same number."""
        most = 1 if self._singly else 0
        batch = self._flight or self._buffer.take(self._number + 1, _LARGE, state, most)
        if batch is None:
            return
        self._flight = batch
        try:
            parts = list(map(ledger_rows.tamed, batch.parts)) if most else batch.parts
            async with self._patient() as moved:
                await ledger_session.write(
                    conn, self.name, structs.replace(batch, parts=parts), self._turn, self._now(), moved
                )
        except BaseException as error:
            if not ledger_session.refused(error):
                self._stuck = True
                raise
            self._refused(batch, sentence(error))
        else:
            self._number = batch.number
            self._stuck = False
            self._ready()
            self.written += batch.rows
            self._finished(batch)

    def _finished(self, batch: Batch) -> None:
        self._flight = None
        self._singly = max(0, self._singly - len(batch.parts))
        self._buffer.done(batch)
        self._done += batch.rows
        self._moved.set()

    def _refused(self, batch: Batch, error: str) -> None:
        """Nothing of it is in. None may keep the others out: each alone then, and what fails is dropped."""
        if not self._singly:
            self._flight = None
            self._singly = len(batch.parts)
            self._buffer.give_back(batch.parts)
            return
        self.dropped += 1
        _log.error("the database does not take this: dropped", rows=batch.rows, error=error)
        self._finished(batch)

    async def _write_last(self) -> None:
        """On a connection of its own: the writer's may have been cut off in the middle of something."""
        if not self._buffer.rows:
            return
        if self._session is not None:
            await self._session.writer.close()
        conn = await connect(self.url, self.name)
        try:
            await schema.current(conn)  # refuses a newer one
            while self._flight is not None or self._buffer.waiting(self._turn > 0):
                await self._write(conn, self._turn > 0)
        finally:
            await conn.close()

    def _leave(self) -> None:
        """Another's turn: what watches saw is the other's. Changes of the doors are still written."""
        self._turn = 0
        self._outdated = True
        if self._flight is not None:  # it may be in: the rest of it keeps its number
            kept = [part for part in self._flight.parts if not has_state(part)]
            self._flight = structs.replace(self._flight, parts=kept, state=False)
        self._drop_state()

    def _has_state(self) -> bool:
        return self._buffer.has_state or (self._flight is not None and self._flight.state)

    def _drop_state(self) -> None:
        gone = self._buffer.drop_state()
        self._done += gone
        self._moved.set()
        _log.warning("another recorder has taken over", dropped=gone)

    def _ready(self) -> None:
        if self.error:
            _log.info("ledger ready", role=self._role)
        self.error = ""
        self._attempt = 0

    def _lost(self, error: str) -> None:
        """Logged once for each reason in a row."""
        if error != self.error:
            _log.warning("ledger lost", error=error, waiting=self._buffer.rows)
        self.error = error
        self.standby = False

    def _patient(self) -> contextlib.AbstractAsyncContextManager[Callable[[], None]]:
        return patient(self._patience)
