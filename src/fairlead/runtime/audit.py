"""The audit: every ten minutes, and whenever somebody asks, the state is held against fresh lists.

A port that performs no commands: what it finds enters as `Repaired` events, so that a replay sees them too.
Works in slices of a few milliseconds on the loop's own thread. What the watch has yet to tell is no
difference: whoever is only behind is looked at again until a grace is over and all that had arrived has been
learned.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog
from msgspec import structs

from fairlead.core.audit import Look, Pictures, comparing, drawing, miscounted, repairs
from fairlead.core.differences import naming, of_columns, of_invariant
from fairlead.core.invariants import check
from fairlead.core.moment import Moment, take
from fairlead.core.sides import comparison
from fairlead.core.state import State
from fairlead.core.tombstones import LIFE
from fairlead.model.audit import Difference, Listing, Report
from fairlead.model.command import Command
from fairlead.model.event import Event, Repaired
from fairlead.runtime.clock import Clock
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.port import Inbox
from fairlead.runtime.slices import sliced

Relist = Callable[[], Awaitable[list[Listing]]]
INTERVAL = 600.0
FIRST = 60.0
"""Seconds from the end of the first lists to the first audit."""
GRACE = 2.0
"""Seconds that the watch has to tell what a list shows already."""
PATIENCE = 60.0
"""Seconds after which an audit is given up because the engine does not get round to what has arrived."""
PAUSE = 0.2
MOST = 2_000
"""Up to so many pods all invariants are checked, in one step; beyond, only columns, which go in slices."""
TOLD = 50
"""Differences that are logged one by one; the report has all."""
_log = structlog.get_logger("audit")


class AuditError(Exception):
    """The audit could not be made; the text says why."""


class Seen(NamedTuple):
    """One comparison, with the moment it is of."""

    moment: Moment
    look: Look
    pictures: Pictures
    differences: list[Difference]
    miscounted: bool


class Auditor:
    """One audit at a time. `relist` gives fresh lists; `interval` is in seconds, 0 for never by itself."""

    handles: tuple[type, ...] = ()

    def __init__(
        self,
        state: State,
        relist: Relist,
        metrics: Metrics | None = None,
        *,
        interval: float = INTERVAL,
        first: float = FIRST,
        grace: float = GRACE,
        clock: Clock | None = None,
    ) -> None:
        self._state, self._relist = state, relist
        self._metrics = metrics or Metrics()
        self._interval, self._first, self._grace = interval, first, grace
        self._clock = clock or Clock()
        self._one = asyncio.Lock()
        self._learning = _Learning()
        self.last: Report | None = None
        """The report of the last audit; None before the first."""

    # -- a port and an observer ----------------------------------------------------------------------

    async def run(self, inbox: Inbox) -> None:
        """Audit again and again."""
        self._learning.inbox = inbox
        if not self._interval:
            await asyncio.Event().wait()
        while not self._listed:
            await asyncio.sleep(1.0)
        await asyncio.sleep(min(self._first, self._interval))
        while True:
            await self.audit()
            await asyncio.sleep(self._interval)

    def perform(self, commands: Sequence[Command]) -> None:
        """There is nothing to perform."""

    async def close(self) -> None:
        """Nothing is held."""

    def batch(self, events: Sequence[Event], _: Sequence[Command], __: float) -> None:
        """Called by the loop after each batch."""
        self._learning.batch(events)

    @property
    def _listed(self) -> bool:
        """Whether the first lists are in. A standby has not heard from the store, but sees the cluster."""
        return all(source == "store" for source in self._state.missing)

    # -- one audit -----------------------------------------------------------------------------------

    async def audit(self, repair: bool = True) -> Report:
        """Make one now, after those that are under way. Never raises: a report may say that it failed."""
        async with self._one:
            at, begun = self._clock.now(), time.perf_counter()
            try:
                report = await self._audit(repair)
            except Exception as error:  # whatever it was, the scheduler goes on
                report = Report(at, "failed", str(error) or repr(error), 0, 0, 0, 0, "", "", (), 0, ())
            report = structs.replace(report, at=at, duration=int((time.perf_counter() - begun) * 1000))
            self.last = report
            self._tell(report)
            return report

    async def _audit(self, repair: bool) -> Report:
        if self._learning.inbox is None or not self._listed:
            raise AuditError("the first lists of the cluster are not in yet")
        since = self._state.now
        listings = await self._relist()
        seen = await self._settled(listings, since)
        differences, repaired = seen.differences, 0
        if differences and repair:
            differences = await self._repair(seen, listings, since)
            repaired = sum(each.repaired for each in differences)
        truth, pictures = seen.look.truth, seen.pictures
        scheduler = self._state.settings.scheduler
        rows = await sliced(comparison(pictures, seen.moment.pods, truth.pods, scheduler))
        return Report(
            at=0,
            result="differences" if differences else "clean",
            error="",
            duration=0,
            nodes=len(truth.nodes),
            pods=len(truth.pods),
            moved=seen.look.moved,
            digest_incremental=pictures.here.digest,
            digest_rebuilt=pictures.there.digest,
            differences=tuple(differences),
            repaired=repaired,
            rows=rows,
        )

    async def _settled(self, listings: Sequence[Listing], since: int) -> Seen:
        """The state once nobody is behind the lists any more, or has had the time to catch up."""
        begun = time.perf_counter()
        while True:
            last = time.perf_counter() - begun >= self._grace
            if last:
                await self._learning.put(Repaired(since, (), recount=False))
            moment = self._take(since)
            look = await sliced(comparing(moment, listings, since))
            if last or not look.found:
                return await self._seen(moment, look)
            await asyncio.sleep(PAUSE)

    def _take(self, since: int) -> Moment:
        self._check_age(since)
        return take(self._state)

    def _check_age(self, since: int) -> None:
        """What went after the list was asked for must still be known to be gone, else it would be missed."""
        age = self._state.now - since
        if age > LIFE - PATIENCE * 1000:
            raise AuditError(
                f"the cluster's list is {age // 1000} s old: the API server or Fairlead is too busy"
            )

    async def _seen(self, moment: Moment, look: Look) -> Seen:
        """Everything that differs, in words."""
        pictures = await sliced(drawing(moment, look))
        wrong = miscounted(pictures)
        differences = await sliced(naming(look.found))
        differences += [of_columns(pictures, name) for name in wrong]
        broken = [] if differences else self._invariants()
        return Seen(moment, look, pictures, differences + broken, bool(wrong or broken))

    def _invariants(self) -> list[Difference]:
        return [of_invariant(text) for text in check(self._state)] if len(self._state.pods) <= MOST else []

    async def _repair(self, seen: Seen, listings: Sequence[Listing], since: int) -> list[Difference]:
        """Put it right, look again, and say of each difference whether it is gone."""
        for event in repairs(seen.look.found, since, seen.miscounted):
            self._check_age(since)
            await self._learning.put(event)  # one at a time: each is as much as a batch should hold
        moment = self._take(since)
        again = await self._seen(moment, await sliced(comparing(moment, listings, since)))
        left = {_key(each) for each in again.differences}
        told = [structs.replace(each, repaired=_key(each) not in left) for each in seen.differences]
        known = {_key(each) for each in told}
        return [*told, *(each for each in again.differences if _key(each) not in known)]

    # -- telling -------------------------------------------------------------------------------------

    def _tell(self, report: Report) -> None:
        self._metrics.audited(report.result, report.duration / 1000, [d.kind for d in report.differences])
        if report.result == "failed":
            _log.warning("audit failed", error=report.error)
            return
        for each in report.differences[:TOLD]:
            _log.warning("difference", kind=each.kind, text=each.text, repaired=each.repaired)
        if len(report.differences) > TOLD:
            _log.warning("more differences", count=len(report.differences) - TOLD)
        _log.info(
            "audit",
            result=report.result,
            nodes=report.nodes,
            pods=report.pods,
            moved=report.moved,
            digest=report.digest_rebuilt,
            differences=len(report.differences),
            repaired=report.repaired,
            milliseconds=report.duration,
        )


def _key(difference: Difference) -> tuple[str, str, str]:
    """What a difference is about: a repair may change how it differs."""
    about = difference.object or difference.text
    return about, difference.uid, "columns" if difference.kind == "columns" else ""


class _Learning:
    """Puts an event into the inbox and knows when the engine has learned it, and so all that came before."""

    def __init__(self) -> None:
        self.inbox: Inbox | None = None
        self._waiting: Repaired | None = None
        self._learned = asyncio.Event()

    async def put(self, event: Repaired) -> None:
        """Returns once it is learned. Raises AuditError if that takes too long."""
        if self.inbox is None:
            return
        self._waiting = event
        self._learned.clear()
        self.inbox.put([event])
        try:
            async with asyncio.timeout(PATIENCE):
                await self._learned.wait()
        except TimeoutError as error:
            raise AuditError("the engine is busy: it has learned nothing for a minute") from error
        finally:
            self._waiting = None

    def batch(self, events: Sequence[Event]) -> None:
        if self._waiting is not None and any(event is self._waiting for event in events):
            self._learned.set()
