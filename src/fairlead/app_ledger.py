"""What a scheduler with `--ledger` writes down: its decisions as rows, and all that a replay needs.

Composed by `fairlead.app` into each life of the engine, as a port without commands (so that it is closed
before the store is) and as an observer of the loop. Must never stop the scheduler: what cannot be written is
counted.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import structlog
from prometheus_client import CollectorRegistry, Gauge

from fairlead.core.engine import Engine
from fairlead.model.command import Command
from fairlead.model.event import Event
from fairlead.model.record import Change, Part
from fairlead.runtime.decisions import Decisions
from fairlead.runtime.port import Inbox
from fairlead.runtime.segmenting import HOUR, Segments
from fairlead.store.ledger import Ledger
from fairlead.store.segments import SegmentStore

_log = structlog.get_logger("ledger")


class LedgerPort:
    """The ledger of one life. `url` is the store's: its server is running while this one is."""

    handles: tuple[type, ...] = ()

    def __init__(
        self,
        url: str,
        engine: Engine,
        *,
        retention: int,
        now: Callable[[], int],
        registry: CollectorRegistry,
        leads: Callable[[], bool] = lambda: True,
        every: int = HOUR,
    ) -> None:
        self._ledger = Ledger(url=url, retention=retention, now=now, role="decisions")
        self._store = SegmentStore(lambda: url)
        self.segments = Segments(engine, self._store, every=every, leads=leads)
        """Told each batch before the engine learns it."""
        scheduler = engine.state.settings.scheduler
        self._decisions = Decisions(scheduler, self._ledger.put, lambda: engine.last_stale)
        rows = Gauge(
            "fairlead_ledger_rows",
            "Rows of the ledger by what became of them.",
            ("state",),
            registry=registry,
        )
        gaps = Gauge(
            "fairlead_ledger_gaps", "How often something is missing for a replay.", registry=registry
        )
        gaps.set_function(lambda: self.segments.gaps)
        rows.labels("written").set_function(lambda: self._ledger.written)
        rows.labels("waiting").set_function(lambda: self._ledger.waiting)
        rows.labels("dropped").set_function(lambda: self._decisions.dropped + self._ledger.dropped)

    def batch(self, events: Sequence[Event], commands: Sequence[Command], taken: float) -> None:
        """An observer of the loop: a mistake here is told, and costs no more than a row."""
        for tell in (self.segments.observe, self._decisions.batch):
            try:
                tell(events, commands, taken)
            except Exception:
                _log.exception("a batch is missing in the ledger")

    def tell(self, change: Change) -> None:
        """A row of somebody else's."""
        self._decisions.dropped += not self._ledger.put(Part((change,)))

    async def run(self, inbox: Inbox) -> None:  # noqa: ARG002  it tells nothing
        """Write behind, until cancelled."""
        await asyncio.gather(self._kept_up(self._ledger.run()), self._kept_up(self._store.run()))

    async def _kept_up(self, writing: Coroutine[None, None, None]) -> None:
        try:
            await writing
        except Exception:
            _log.exception("the ledger ends here; scheduling goes on")
        await asyncio.Event().wait()

    def perform(self, commands: Sequence[Command]) -> None:
        """There are none."""

    async def close(self) -> None:
        """Write what is left, for a few seconds at most."""
        self.segments.close()
        await self._store.close()
        await self._ledger.close()
