"""The port that answers Propose: runs the cycle in slices of a few milliseconds between I/O. What is
submitted as a plan enters at once.

Driven by `runtime.loop` like any port. Where a policy function is configured, `runtime.policies` is asked in
the place of the cycle (live) or after it (shadow).
"""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.core.cycle import plan
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Command, Propose, Submit
from fairlead.model.event import PlanProposed
from fairlead.runtime.policies import Asked, Policies
from fairlead.runtime.port import Inbox
from fairlead.runtime.slices import timed


class Planner:
    """One cycle at a time; `observe` is told the working time of each, in seconds."""

    handles = (Propose, Submit)

    def __init__(
        self, observe: Callable[[float, int], None] | None = None, policies: Policies | None = None
    ) -> None:
        self._observe, self._policies = observe, policies
        self._snapshots: asyncio.Queue[tuple[Snapshot, Asked | None]] = asyncio.Queue()
        self._inbox: Inbox | None = None

    async def run(self, inbox: Inbox) -> None:
        self._inbox = inbox
        if self._policies is not None:
            self._policies.begin()
        while True:
            await self._plan(*await self._snapshots.get(), inbox)

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Propose):
                asked = self._policies.look(command.snapshot) if self._policies is not None else None
                self._snapshots.put_nowait((command.snapshot, asked))
            elif isinstance(command, Submit) and self._inbox is not None:
                self._inbox.put([PlanProposed(command.plan)])

    async def close(self) -> None:
        """No process is left behind."""
        if self._policies is not None:
            await self._policies.close()

    async def _plan(self, snapshot: Snapshot, asked: Asked | None, inbox: Inbox) -> None:
        policies = self._policies if asked is not None else None
        answer, worked = None, 0.0
        if policies is not None and asked is not None and asked.live:
            answer, worked = await policies.plan(asked)
        if answer is None:
            answer, cycle = await timed(plan(snapshot))
            worked += cycle
        if self._observe is not None:
            self._observe(worked, len(snapshot.waiting))
        inbox.put([PlanProposed(answer)])
        if policies is not None and asked is not None and not asked.live:
            policies.compare(asked, answer)
