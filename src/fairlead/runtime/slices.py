"""Runs long work in slices of a few milliseconds on the loop's own thread, between I/O.

Called by `runtime.planner` and `runtime.audit`. Not on another thread: that would hold the interpreter for
longer than a slice, and delay a bind in flight no less.
"""

import asyncio
import time
from typing import TypeVar

from fairlead.core.steps import Steps

T = TypeVar("T")
SLICE = 0.004
"""Seconds until others have their turn."""


async def sliced(steps: Steps[T]) -> T:
    """The result."""
    result, _ = await timed(steps)
    return result


async def timed(steps: Steps[T]) -> tuple[T, float]:
    """The result, and the seconds worked for it: not those of others between the slices."""
    worked, begun = 0.0, time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, worked + time.perf_counter() - begun
        spent = time.perf_counter() - begun
        if spent > SLICE:
            worked += spent
            await asyncio.sleep(0)
            begun = time.perf_counter()
