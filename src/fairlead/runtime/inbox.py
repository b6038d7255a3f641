"""Where events wait for the loop. Ports put, `runtime.loop` takes; one asyncio loop, no locks."""

import asyncio
from collections import deque
from collections.abc import Sequence

from fairlead.model.event import Event

MOST = 256
"""Events per batch at most, about ten milliseconds: a list of fifty thousand pods must not hold up binds."""


class Queue:
    """Never blocks a port and never drops; bounded only by what exists outside."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._some = asyncio.Event()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        self._some.set()

    def wake(self) -> None:
        """Let `take` return even without events."""
        self._some.set()

    async def take(self) -> list[Event]:
        """Wait for something, then take at most MOST events; empty after a bare wake."""
        await self._some.wait()
        events = [self._events.popleft() for _ in range(min(len(self._events), MOST))]
        if not self._events:
            self._some.clear()
        return events
