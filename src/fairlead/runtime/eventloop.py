"""Which event loop a process runs on: uvloop where it exists, asyncio's own elsewhere.

Used by the composition root and by the benchmarks. TLS and sockets in C take about a third off the cost
of a bind (bench/live).
"""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
_log = structlog.get_logger("eventloop")


def run(main: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end, as asyncio.run does."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_exception_handler(unheard)
        return runner.run(main)


def unheard(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody caught is shown as ever, but for a write of uvloop's TLS layer to a connection that is
    closed already: whoever uses it is told so, and of an OSError in its place uvloop says nothing either."""
    error = context.get("exception")
    if isinstance(error, RuntimeError) and "handler is closed" in str(error) and "protocol" in context:
        _log.warning("a connection broke", error=str(error))
    else:
        loop.default_exception_handler(context)
