"""`fairlead esi simulate`: ESI's REST interface over a simulated cluster whose clock runs ahead of ours.

Called by `cli.esi`, and by tests that try an algorithm. The engine, the machines of ESI's objects and the
doors are the product's own; nodes, pods and operators are `sim.esi_world`'s. So an algorithm that takes hours
on a cluster is tried in seconds, against the same interface. Must not listen anywhere but on loopback.
"""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

import typer

from fairlead.api.esi.access import Unguarded
from fairlead.api.esi.doors import Doors
from fairlead.api.server import Server
from fairlead.api.source import EngineSource
from fairlead.cli import words
from fairlead.cli.errors import CliError
from fairlead.runtime import eventloop
from fairlead.sim import esi_layout
from fairlead.sim.esi_cluster import SimulatedCluster
from fairlead.sim.esi_layout import Layout

STEP = 0.004
"""Seconds between two steps of the world."""
HOST = "127.0.0.1"
FIRST = 2_000
"""Simulated milliseconds before the doors open: Testbeds have their slots then."""


class Simulation:
    """A simulated cluster that is served. `speed`: how many of its seconds pass in one of ours."""

    def __init__(self, layout: Layout, speed: float, port: int = 0) -> None:
        self.world = esi_layout.world(layout, time.time_ns() // 1_000_000)
        self.world.check_always = False  # every batch would be looked at whole: that is for tests
        self._speed = speed
        self.doors = Doors(SimulatedCluster(self.world), Unguarded())
        self.doors.turn_to(self.world.engine.state)
        self.world.watchers.append(self.doors.feed.look)
        source = EngineSource(self.world.engine.state, clock=lambda: self.world.now)
        self._server = Server(source, HOST, port, more=self.doors.routes())
        self._pacing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        """Serving when it returns. Raises ServerError."""
        self.world.run(FIRST)
        await self._server.start()
        self._pacing = asyncio.create_task(self._pace(), name="simulated time")

    async def stop(self) -> None:
        if self._pacing is not None:
            self._pacing.cancel()
            await asyncio.wait((self._pacing,))
        self.doors.close()
        await self._server.stop()

    async def until_broken(self) -> None:
        """Returns only by raising what ended the world, if anything does."""
        if self._pacing is not None:
            await asyncio.shield(self._pacing)

    async def _pace(self) -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(STEP)
            now = time.monotonic()
            passed = round((now - last) * self._speed * 1000)
            if passed:
                last = now
                self.world.run(passed)
                self.world.forget()


def run(file: Path | None, nodes: int | None, speed: float, port: int) -> None:
    """Serve until interrupted. Raises ConfigError and ServerError for people."""
    if not 0 < speed <= 1_000_000:
        raise CliError(f"--speed {speed:g}: give more than 0, at most 1000000")
    layout = esi_layout.read(file) if file is not None else esi_layout.EVALUATION
    if nodes is not None:
        layout = esi_layout.with_nodes(layout, nodes)
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        eventloop.run(_serve(layout, speed, port))


async def _serve(layout: Layout, speed: float, port: int) -> None:
    simulation = Simulation(layout, speed, port)
    await simulation.start()
    serving = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: serving.cancel() if serving else None)
    try:
        _say(layout, simulation.url, speed)
        await simulation.until_broken()
    finally:
        await simulation.stop()


def _say(layout: Layout, url: str, speed: float) -> None:
    testbeds = ", ".join(
        f"{each.name} ({words.counted(each.nodes, 'node')}, {each.nodes * each.slots_per_node} slots)"
        for each in layout.testbeds
    )
    typer.echo(f"testbeds: {testbeds}")
    typer.echo(f"jobs: {', '.join(each.name for each in layout.jobs)}")
    typer.echo(f"one second here is {speed:g} s there; end it with Ctrl-C")
    typer.echo(f"ESI's interface: {url}")
