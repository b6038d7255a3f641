"""The port that answers Propose: runs the cycle in slices of a few milliseconds between I/O.

Driven by `runtime.loop` like any port.
"""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.core.cycle import plan
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Command, Propose
from fairlead.model.event import PlanProposed
from fairlead.runtime.port import Inbox
from fairlead.runtime.slices import timed


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
        answer, worked = await timed(plan(snapshot))
        if self._observe is not None:
            self._observe(worked, len(snapshot.waiting))
        inbox.put([PlanProposed(answer)])
