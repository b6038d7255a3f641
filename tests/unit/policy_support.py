"""What tests of policy functions share: functions as files, and a player that asks a real process."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
from msgspec import structs
from prometheus_client import CollectorRegistry

from fairlead.cli.simulate import settings as simulated
from fairlead.core.engine import Engine
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Command, Propose
from fairlead.model.event import Event, PlanProposed
from fairlead.model.plan import Plan
from fairlead.model.settings import PolicyFunction, Settings
from fairlead.runtime.planner import Planner
from fairlead.runtime.policies import Policies
from fairlead.sim import inputs, play
from fairlead.sim.workload import Result, Workload

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import os, sys, time, signal, subprocess
import numpy as np
from fairlead.model.outside import Reserve, Start, Wait
def everybody(view):
    return [Start(w.id, optional=True) for w in view.waiting]
"""
PATIENCE = 60.0


def function(folder: Path, body: str, *, mode: str = "live", limit: int = 20_000) -> PolicyFunction:
    """`def plan(view)` with this body, in a file of its own."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    (folder / "own.py").write_text(f"{HEAD}\ndef plan(view):\n{lines}", encoding="utf-8")
    return PolicyFunction("own.py:plan", mode, limit, str(folder))


def busy(jobs: int = 40, **machine: int) -> Workload:
    return inputs.load(ROOT / "tests/data/sim/busy.csv", limit=jobs, **(machine or {"procs": 32}))


def under(own: PolicyFunction | None, policy: str = "easy") -> Settings:
    return structs.replace(simulated(policy, 1, match="first", looks=0, promises=0), function=own)


class Inbox:
    def __init__(self) -> None:
        self.plans: asyncio.Queue[Plan] = asyncio.Queue()

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            assert isinstance(event, PlanProposed)
            self.plans.put_nowait(event.plan)


class Told(Engine):
    """Remembers what it was told."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.batches: list[tuple[Event, ...]] = []

    def learn(self, events: Sequence[Event]) -> list[Command]:
        self.batches.append(tuple(events))
        return super().learn(events)


class Played(play.Player):
    """A player whose plans come from the scheduler's own planner, with the function in its process."""

    def __init__(self, workload: Workload, settings: Settings) -> None:
        super().__init__(workload, settings)
        self.loop = asyncio.new_event_loop()
        self.inbox = Inbox()
        self.registry = CollectorRegistry()
        self.policies: Policies | None = None
        self.each: Callable[[Played], None] = lambda _: None
        """Called before each cycle."""
        self.plans: list[Plan] = []
        self.patient = False
        """Whether each cycle waits for the shadow of the one before."""

    def played(self) -> Result:
        """All of it; afterwards nothing is left running."""
        try:
            with mock.patch.object(play, "Engine", Told):
                return self.run()
        finally:
            if self.policies is not None:
                self.loop.run_until_complete(self.planner.close())
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0.05))  # transports close behind their processes
            self.loop.close()

    def calls(self, result: str) -> int:
        """How many cycles came to this result."""
        name = "fairlead_policy_function_calls_total"
        found = [
            self.registry.get_sample_value(name, {"mode": mode, "result": result})
            for mode in ("live", "shadow")
        ]
        return int(sum(value or 0 for value in found))

    def _plan(self, snapshot: Snapshot) -> Plan:
        plan = self.loop.run_until_complete(self._ask(snapshot))
        self.plans.append(plan)
        return plan

    async def _ask(self, snapshot: Snapshot) -> Plan:
        if self.policies is None:
            self.policies = Policies(self.engine.state, self.registry)
            self.planner = Planner(None, self.policies)
            self.running = asyncio.get_running_loop().create_task(self.planner.run(self.inbox))
            await asyncio.sleep(0)
        await self.settled()
        while self.patient and self.policies._asking is not None:
            await asyncio.sleep(0)
        self.each(self)
        self.planner.perform([Propose(snapshot.version, snapshot)])
        return await self.inbox.plans.get()

    async def settled(self) -> None:
        """Until the function can be asked, or is switched off, or there is none."""
        assert self.policies is not None
        async with asyncio.timeout(PATIENCE):
            while self.settings.function and not (self.policies.ready or self.policies.remark()):
                await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether the process ends; it may still be about to."""
    try:
        process = psutil.Process(pid)
        until = time.monotonic() + PATIENCE
        while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
            time.sleep(0.01)
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
