"""The ledger's replay level as it is recorded: batches into segments, each with what a replay begins with.

A `Recording` of `runtime.loop`, which tells it every batch before the engine learns it, and an observer of
what the engine answered. A segment begins with an empty engine, or with a checkpoint that a copy of the
process makes (`runtime.forked`). What nobody has room for ends the segment: a gap, and another segment with
a checkpoint once there is room. Must never wait, nor stop the scheduler.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import structlog
from msgspec import Struct

from fairlead.core.engine import Engine
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Command, Propose
from fairlead.model.event import Event, PlanProposed, Tick
from fairlead.model.settings import Settings
from fairlead.runtime import checkpoint, forked
from fairlead.runtime.segments import Chunk, Encoder
from fairlead.runtime.version import engine_version

HOUR = 3600 * 1000
LARGE = 256 * 1024
"""Bytes after which a chunk is full."""
_LONG = 1_000
"""Milliseconds after which it is cut all the same; the same in seconds is how long the last one waits."""
_AGAIN = 60_000
"""After a checkpoint that failed, milliseconds until the next is tried."""
_PATIENCE = 120.0
_PLANS = 4
Why = Literal["start", "takeover", "gap", "hour"]
_log = structlog.get_logger("segments")


class Opened(Struct, frozen=True):
    """A segment begins. `checkpoint` is the whole state once it is made; None: an empty engine."""

    why: Why
    at: int
    engine: str
    settings: Settings
    epoch: int
    checkpoint: asyncio.Future[bytes] | None


class Closed(Struct, frozen=True):
    """The segment ends; what happens from here on is not in it."""

    at: int


class Sink(Protocol):
    """Where segments go: `store.segments.SegmentStore`."""

    def put(self, item: Opened | Chunk | Closed) -> bool:
        """Take it, in order; False when there is no room. Never waits. A Closed is always taken."""
        ...

    def room(self) -> bool:
        """Whether there is room for a segment to begin."""
        ...


def _always() -> bool:
    return True


class Segments:
    """One engine's segments. `every` so many milliseconds a new one begins; `leads` says whether to record.

    Without an event loop (in tests) chunks are cut by size and `close` only.
    """

    def __init__(
        self, engine: Engine, sink: Sink, *, every: int = HOUR, leads: Callable[[], bool] = _always
    ) -> None:
        self.gaps = 0
        """How often something was not recorded."""
        self._engine, self._sink, self._every, self._leads = engine, sink, every, leads
        self._encoder: Encoder | None = None
        self._planning: dict[int, Snapshot] = {}
        self._making: asyncio.Task[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ever = False
        self._version = engine_version()  # of what runs, whatever becomes of the files
        self._opened_at = self._now = self._again_at = 0

    # -- what the loop calls -------------------------------------------------------------------------

    def batch(self, events: Sequence[Event]) -> None:
        """Add one batch, which the engine is about to learn."""
        try:
            self._add(events)
        except Exception:
            _log.exception("a batch is not recorded")
            self._gap()

    def observe(self, events: Sequence[Event], commands: Sequence[Command], _: float) -> None:
        """Keep the snapshots of plans that are being made: a checkpoint has to have them."""
        for event in events:
            if isinstance(event, PlanProposed):
                self._planning.pop(event.plan.version, None)
        for command in commands:
            if isinstance(command, Propose):
                self._planning[command.snapshot.version] = command.snapshot
                if len(self._planning) > _PLANS:
                    del self._planning[next(iter(self._planning))]

    def flush(self) -> None:
        """Nothing more is known at the moment: what there is goes out within a second."""
        if self._encoder is not None and self._encoder.size and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LONG / 1000, self._cut)

    def close(self) -> None:
        """The end of the engine; the sink gets what there is, and waits for a checkpoint in the making."""
        self._end()

    # -- inside --------------------------------------------------------------------------------------

    def _add(self, events: Sequence[Event]) -> None:
        self._now = events[0].now if events and isinstance(events[0], Tick) else self._engine.state.now
        if not self._leads():
            self._end()
            return
        if self._encoder is not None and self._now - self._opened_at >= self._every and not self._making:
            self._end()
            self._open("hour")
        elif self._encoder is None and self._now >= self._again_at and self._sink.room():
            first: Why = "takeover" if self._engine.state.version else "start"
            self._open("gap" if self._ever else first)
        encoder = self._encoder
        if encoder is None:
            return
        encoder.add(events, self._engine.state.epoch)
        if encoder.size >= LARGE or self._now - encoder.first_at >= _LONG:
            self._cut()

    def _open(self, why: Why) -> None:
        state = self._engine.state
        try:
            made = self._checkpoint() if state.version else None
        except OSError as error:
            _log.error("a segment of the ledger cannot begin: no checkpoint", error=str(error))
            self._gap()
            return
        opened = Opened(why, self._now, self._version, state.settings, state.epoch, made)
        if not self._sink.put(opened):
            self._gap()
            return
        self._encoder, self._ever, self._opened_at = Encoder(), True, self._now

    def _checkpoint(self) -> asyncio.Future[bytes]:
        """Of the engine as it is now, between two batches. Raises OSError if the process cannot be copied."""
        if self._making is not None:
            raise OSError("the last checkpoint is still being made")
        engine, planning = self._engine, dict(self._planning)
        child = forked.start(lambda: checkpoint.dump(engine, planning))
        self._making = asyncio.get_running_loop().create_task(child.result(_PATIENCE), name="checkpoint")
        self._making.add_done_callback(self._made)
        return self._making

    def _made(self, making: asyncio.Task[bytes]) -> None:
        self._making = None
        error = None if making.cancelled() else making.exception()
        if error is not None:
            _log.error("a segment of the ledger is void: its checkpoint failed", error=str(error))
            self._gap()

    def _cut(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        chunk = self._encoder.cut() if self._encoder is not None else None
        if chunk is not None and not self._sink.put(chunk):
            _log.warning("a gap in the ledger begins: there is no room for a chunk", bytes=len(chunk.body))
            self._gap(room=True)

    def _end(self) -> None:
        """The segment ends as it should."""
        if self._encoder is not None:
            self._cut()
        if self._encoder is not None:
            self._sink.put(Closed(self._now))
            self._encoder = None

    def _gap(self, room: bool = False) -> None:
        """What happens from here on is in no segment until the next begins."""
        self.gaps += 1
        if not room:
            self._again_at = self._now + _AGAIN
        if self._encoder is not None:
            self._encoder = None
            self._sink.put(Closed(self._now))
