"""Gives free memory back to the system once there is nothing to do.

Composed by `fairlead.app`: an observer of `runtime.loop` and a task beside it. glibc keeps what was freed as
long as anything above it in its heap lives. A burst of work opens connections, each with buffers of a hundred
KiB, and where they lay stays resident, so that a process looks as large as its busiest moment was. Must not
give back while anything is being placed: it takes some milliseconds for every ten MiB.
"""

import asyncio
import ctypes
from collections.abc import Callable, Sequence

from fairlead.model.command import Command, WakeAt
from fairlead.model.event import Event

QUIET = 10.0
"""Seconds in which nothing was to be done."""


def give_back() -> None:
    """What is free goes back to the system; nothing happens where the C library is not glibc."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    trim(0)


class Thrift:
    """Gives back when QUIET seconds have passed without a command: once, until there is another."""

    def __init__(self, give: Callable[[], None] = give_back, quiet: float = QUIET) -> None:
        self._give, self._quiet = give, quiet
        self._busy = False
        self._due = True  # for what the start took

    def batch(self, _: Sequence[Event], commands: Sequence[Command], __: float) -> None:
        """Called by the loop after each batch."""
        self._busy = self._busy or any(not isinstance(command, WakeAt) for command in commands)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._quiet)
            self.look()

    def look(self) -> None:
        """Give back if there was something to do, but not since the last look."""
        if self._due and not self._busy:
            self._give()
        self._due, self._busy = self._busy, False
