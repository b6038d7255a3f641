"""Lets a request wait until the engine has learned something, without asking again and again.

`batch` is one of the loop's observers (`runtime.loop.Observer`); `until` is awaited by `api.extender.door`.
All in the loop's thread.
"""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.model.command import Command
from fairlead.model.event import Event


class News:
    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    def batch(self, _: Sequence[Event], __: Sequence[Command], ___: float) -> None:
        """The engine has learned a batch."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():  # one whose patience is over
                each.set_result(None)

    async def until(self, settled: Callable[[], bool], patience: float) -> None:
        """Returns when that is true, or after `patience` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while not settled() and (left := deadline - loop.time()) > 0:
            news: asyncio.Future[None] = loop.create_future()
            self._waiting.append(news)
            await asyncio.wait((news,), timeout=left)
