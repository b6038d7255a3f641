"""Which event loop a process runs on: uvloop where it exists, asyncio's own elsewhere.

Used by the composition root and by the benchmarks. TLS and sockets in C take about a third off the cost
of a bind (bench/live).
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end, as asyncio.run does."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
