"""The live driver: takes batches from the inbox, lets the engine learn, hands commands to ports.

Composed by `fairlead.app`; about sixty lines of substance, so that "where does it happen" is found at
once. Must not decide anything. A port that dies takes the process down: half a scheduler is worse
than none.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from fairlead.core.engine import Engine
from fairlead.model.command import Command, WakeAt
from fairlead.model.event import ClockJumped, Event, Tick
from fairlead.runtime.clock import Clock
from fairlead.runtime.inbox import Queue
from fairlead.runtime.port import Port
from fairlead.runtime.record import Recording

REST = 0.008
"""Seconds between two batches, so that what arrives together is learned together."""
LOOK = 0.5
"""Seconds between two looks at the clock while nothing happens."""
Observer = Callable[[Sequence[Event], Sequence[Command], float], None]
"""Told each batch, the commands it led to, and the seconds the engine took."""
_log = structlog.get_logger("loop")


class Loop:
    """One engine and its ports. `observers` see every batch and its commands (logs, metrics)."""

    def __init__(
        self,
        engine: Engine,
        ports: Sequence[Port],
        clock: Clock,
        recorder: Recording | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.engine, self.ports, self.clock, self.recorder = engine, ports, clock, recorder
        self.observers = observers
        self.inbox = Queue()
        self._routes: dict[type, Port] = {kind: port for port in ports for kind in port.handles}
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = 0

    async def run(self) -> None:
        """Run until cancelled or until a port fails; then close the ports in reverse order."""
        tasks = [asyncio.create_task(port.run(self.inbox), name=type(port).__name__) for port in self.ports]
        tasks.append(asyncio.create_task(self._learn_forever(), name="loop"))
        tasks.append(asyncio.create_task(self._mind_the_clock(), name="clock"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for port in reversed(self.ports):
                await port.close()
            if self.recorder is not None:
                self.recorder.close()

    async def _learn_forever(self) -> None:
        while True:
            self.step(await self.inbox.take())
            if self.recorder is not None and not len(self.inbox):
                self.recorder.flush()  # what is known so far outlives a kill
            await asyncio.sleep(0 if len(self.inbox) else REST)

    async def _mind_the_clock(self) -> None:
        """That the clock was set is news by itself, and asyncio's timers stop while a machine sleeps."""
        while True:
            await asyncio.sleep(LOOK)
            if self.clock.off or 0 < self._wake_at <= self.clock.now():
                self._wake_at = 0
                self.inbox.wake()

    def step(self, events: Sequence[Event]) -> None:
        """One batch through the engine, its commands to the ports."""
        now = self.clock.now()
        if self._wake_at <= now:
            self._wake_at = 0
        batch: list[Event] = [Tick(now)]
        jump = self.clock.jump()
        if jump:
            _log.warning("the wall clock jumped", milliseconds=jump)
            batch.append(ClockJumped(jump))
        batch += events
        if self.recorder is not None:
            self.recorder.batch(batch)
        begun = time.perf_counter()
        commands = self.engine.learn(batch)
        taken = time.perf_counter() - begun
        self._dispatch(commands)
        for observe in self.observers:
            observe(batch, commands, taken)

    def _dispatch(self, commands: Sequence[Command]) -> None:
        """Runs of commands for the same port are handed over together, in order."""
        share: list[Command] = []
        current: Port | None = None
        for command in commands:
            if isinstance(command, WakeAt):
                self._set_timer(command.at)
                continue
            port = self._routes[type(command)]
            if port is not current and current is not None:
                current.perform(share)
                share = []
            current = port
            share.append(command)
        if current is not None:
            current.perform(share)

    def _set_timer(self, at: int) -> None:
        """Only the earliest wake matters: the engine names the next one after each batch."""
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at = at
        delay = max(at - self.clock.now(), 0) / 1000 + 0.001
        self._timer = asyncio.get_running_loop().call_later(delay, self.inbox.wake)
