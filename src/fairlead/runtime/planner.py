"""The port that answers Propose: runs the cycle in slices of a few milliseconds between I/O.

Driven by `runtime.loop` like any port. Sliced on the loop's own thread rather than on another one: a
thread would hold the interpreter for longer than a slice and delay a bind in flight no less.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from fairlead.core.cycle import plan
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Command, Propose
from fairlead.model.event import PlanProposed
from fairlead.model.plan import Plan
from fairlead.runtime.port import Inbox

SLICE = 0.004


class Planner:
    """One cycle at a time; `observe` is told the working time of each, in seconds."""

    handles = (Propose,)

    def __init__(self, observe: Callable[[float, int], None] | None = None) -> None:
        self._observe = observe
        self._snapshots: asyncio.Queue[Snapshot] = asyncio.Queue()

    async def run(self, inbox: Inbox) -> None:
        while True:
            await self._plan(await self._snapshots.get(), inbox)

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Propose):
                self._snapshots.put_nowait(command.snapshot)

    async def close(self) -> None:
        """Nothing is held."""

    async def _plan(self, snapshot: Snapshot, inbox: Inbox) -> None:
        steps = plan(snapshot)
        worked, begun = 0.0, time.perf_counter()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                answer: Plan = end.value
                break
            if time.perf_counter() - begun > SLICE:
                worked += time.perf_counter() - begun
                await asyncio.sleep(0)
                begun = time.perf_counter()
        worked += time.perf_counter() - begun
        if self._observe is not None:
            self._observe(worked, len(snapshot.waiting))
        inbox.put([PlanProposed(answer)])
