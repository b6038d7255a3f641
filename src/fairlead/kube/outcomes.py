"""What the writers share: where outcomes go, what is counted, and when a low-priority write may go out.

Used by `kube.bind`, `kube.patches`, `kube.announce`, `kube.evict`. Must not know any command.
"""

import asyncio
import time
from collections.abc import Callable
from math import inf

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fairlead.model.event import Event
from fairlead.runtime.port import Inbox

Stats = dict[str, int]
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


Fence = Callable[[], float]
"""Asked before each write: the seconds that the request may take; 0 when it must not be sent."""


def always() -> float:
    """The fence of a process that is alone."""
    return inf


def count(stats: Stats, name: str, by: int = 1) -> None:
    stats[name] = stats.get(name, 0) + by


class Metrics:
    """The port's Prometheus metrics, in the registry of the process (or of a test)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.binds = Counter("fairlead_binds", "Bindings by outcome.", ["outcome"], registry=registry)
        self.bind_seconds = Histogram(
            "fairlead_bind_seconds",
            "From the first request to the outcome.",
            buckets=BUCKETS,
            registry=registry,
        )
        self.bind_queue_seconds = Histogram(
            "fairlead_bind_queue_seconds",
            "From the command to its first request.",
            buckets=BUCKETS,
            registry=registry,
        )
        self.waiting = Gauge("fairlead_binds_waiting", "Bindings not sent yet.", registry=registry)
        self.writes = Counter(
            "fairlead_writes", "Other API writes by kind and outcome.", ["kind", "outcome"], registry=registry
        )


class Outcomes:
    """Gathers the events of one turn of the loop into one put. Holds them until there is an inbox."""

    def __init__(self) -> None:
        self._inbox: Inbox | None = None
        self._pending: list[Event] = []
        self._scheduled = False

    def attach(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.flush()

    def add(self, event: Event) -> None:
        self._pending.append(event)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        self._scheduled = False
        if self._inbox is not None and self._pending:
            events, self._pending = self._pending, []
            self._inbox.put(events)


class TokenBucket:
    """At most `rate` takes a second, `burst` at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._at = clock()

    def take(self) -> float:
        """Take one; the seconds to wait before using it."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)


class Quiet:
    """Whether binds are waiting to be sent; low-priority writers wait here for it to pass."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._event.set()

    def busy(self) -> None:
        self._event.clear()

    def idle(self) -> None:
        self._event.set()

    @property
    def now(self) -> bool:
        return self._event.is_set()

    async def wait(self, at_most: float | None = None) -> None:
        if self._event.is_set():
            return
        try:
            await asyncio.wait_for(self._event.wait(), at_most)
        except TimeoutError:
            return
