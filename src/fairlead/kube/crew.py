"""The asyncio tasks that one writer has under way: begun, counted, and ended with patience.

Used by every writer of `kube.actuate`. Knows nothing of what they do; a task's own errors are its own affair.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Crew:
    """Tasks at work, at most as many as the writer begins."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, patience: float) -> None:
        """What is under way gets `patience` seconds; what is left then is cancelled."""
        if self._tasks and patience:
            await asyncio.wait(self._tasks, timeout=patience)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
