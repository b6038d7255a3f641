"""What the writers that send a request or two per command share: room, a fence, a time-out, counting.

Base of `kube.evict`, `kube.end`, `kube.claims` and `kube.revoke`, made by `kube.actuate`. Binds, of
which there are many, have a frame of their own (`kube.bind`). Knows nothing of what is sent.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fairlead.kube.client import ApiClient
from fairlead.kube.crew import Crew
from fairlead.kube.outcomes import Fence, Metrics, Outcomes, Stats, always, count


class Writer:
    """`parallel` requests at a time. `fence` is to be asked before each, and bounds its time (seconds)."""

    parallel = 16

    def __init__(
        self,
        client: ApiClient,
        outcomes: Outcomes,
        metrics: Metrics,
        stats: Stats,
        *,
        fence: Fence = always,
        request_timeout: float = 10.0,
    ) -> None:
        self._client = client
        self._outcomes = outcomes
        self._metrics = metrics
        self._stats = stats
        self._fence = fence
        self._request_timeout = request_timeout
        self._room = asyncio.Semaphore(self.parallel)
        self._crew = Crew()

    async def close(self, patience: float = 2.0) -> None:
        await self._crew.close(patience)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it be done as soon as there is room."""
        self._crew.begin(self._in_room(work))

    async def _in_room(self, work: Coroutine[Any, Any, None]) -> None:
        async with self._room:
            await work

    def _count(self, kind: str, name: str, outcome: str) -> None:
        """Under `name` in the port's own counts, as `outcome` of the kind in the metrics."""
        count(self._stats, name)
        self._metrics.writes.labels(kind, outcome).inc()
