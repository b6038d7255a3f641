"""The example scheduler of examples/esi over a simulated cluster: real HTTP, simulated time."""

import asyncio
import contextlib
import json
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairlead.cli.esi_simulate import Simulation
from fairlead.sim import esi_layout
from fairlead.sim.esi_layout import EVALUATION, Layout

EXAMPLE = Path(__file__).parents[2] / "examples" / "esi"
sys.path.insert(0, str(EXAMPLE))
import esi_client  # noqa: E402
import profiler  # noqa: E402
import scheduler  # noqa: E402

PATIENCE = 60.0
NAMES = ("flink-wc", "spark-crawler", "spark-pi")


@contextlib.asynccontextmanager
async def simulated(layout: Layout = EVALUATION, speed: float = 2_000) -> AsyncIterator[Simulation]:
    simulation = Simulation(layout, speed)
    await simulation.start()
    try:
        yield simulation
    finally:
        await simulation.stop()


async def run(url: str, *arguments: str) -> asyncio.subprocess.Process:
    command = [str(EXAMPLE / "scheduler.py"), url, *arguments]
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    return await asyncio.create_subprocess_exec(sys.executable, *command, **pipes)


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode or 0, out.decode(), err.decode()


def notes(simulation: Simulation, job: str) -> dict[str, str]:
    found = simulation.world.thing("BatchJob", job).spec.external_scheduler or {}
    return (found.get("profiler") or [{}])[0]


def schedulings(simulation: Simulation) -> list[dict[str, Any]]:
    return list(simulation.world.objects.all("Scheduling"))


async def test_the_matrix_is_full_and_one_scheduling_completes() -> None:
    async with simulated() as simulation:
        arguments = ["-p", "profiler-slots", "-s", "scheduler-slots", "--rounds", "1", "--seed", "1"]
        code, out, err = await ended(await run(simulation.url, *arguments))
        assert (code, err) == (0, ""), out
        assert "scheduler: completed: " in out and out.count("profiler: ") == 3
        assert not schedulings(simulation)
        for job in NAMES:
            assert set(notes(simulation, job)) == {*NAMES} - {job}
        code, out, _ = await ended(await run(simulation.url, "--just-print"))
        assert code == 0 and out.count("(1)") == 6 and out.count("?") == 0


async def test_what_is_measured_is_what_the_company_costs() -> None:
    """The table of the layout says 85 s for flink-wc beside spark-crawler all the time, 80 s alone."""
    async with simulated() as simulation:
        code, _, err = await ended(await run(simulation.url, "-p", "profiler-slots", "--rounds", "1"))
        assert (code, err) == (0, "")
        mean = profiler.read_mean(
            {"externalScheduler": {"profiler": [notes(simulation, "flink-wc")]}}, "spark-crawler"
        )
        assert mean.samples == 1 and mean.seconds == pytest.approx(85, abs=1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_what_was_posted_is_deleted_when_it_is_interrupted(number: signal.Signals) -> None:
    async with simulated(speed=10) as simulation:
        process = await run(simulation.url, "-p", "profiler-slots", "-s", "scheduler-slots")
        async with asyncio.timeout(PATIENCE):
            while len(schedulings(simulation)) < 2:
                await asyncio.sleep(0.01)
        process.send_signal(number)
        code, _, err = await ended(process)
        assert (code, err) == (130, "")
        assert not schedulings(simulation)


async def test_a_scheduling_that_fails_is_told_and_deleted_and_the_next_one_tried() -> None:
    async with simulated() as simulation:
        simulation.world.fail("flink-wc", 5_000)
        code, out, err = await ended(await run(simulation.url, "-p", "profiler-slots", "--rounds", "1"))
        assert code == 0 and "has failed" in err and "flink-wc" in err, err
        assert out.count("profiler: ") == 3 and not schedulings(simulation)


def test_who_fails_again_and_again_gives_up(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(scheduler, "ERRORS", 1)
    monkeypatch.setattr(sys, "argv", ["scheduler.py", "http://127.0.0.1:9", "-s", "scheduler-slots"])
    monkeypatch.setattr(scheduler.signal, "signal", lambda *_: None)
    assert scheduler.main() == 1
    assert "http://127.0.0.1:9 does not answer" in capsys.readouterr().err


class Old(BaseHTTPRequestHandler):
    """An interface without events, as ESI's own: the Scheduling completes the third time it is looked at."""

    looks = 0

    def do_GET(self) -> None:
        if self.path.startswith("/external/events"):
            return self.send_error(404)
        type(self).looks += 1
        state = "CompletedState" if self.looks >= 3 else "ConfirmationState"
        body = json.dumps({"name": "s", "state": state}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_: object) -> None:
        """Nothing: tests read stderr."""


def test_where_there_is_no_stream_of_events_it_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(esi_client.time, "sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Old)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        esi = esi_client.Esi(f"http://127.0.0.1:{server.server_port}")
        assert esi.wait("schedulings", "s", profiler.completed, PATIENCE)["state"] == "CompletedState"
        assert Old.looks == 3
    finally:
        server.shutdown()
        server.server_close()


class Broken(BaseHTTPRequestHandler):
    """A stream of events that breaks off after each one, and goes on where the client says it was."""

    heard: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        last = self.headers["Last-Event-ID"]
        self.heard.append(last)
        state = "CompletedState" if last == "8" else "ConfirmationState"
        event = {"action": "MODIFIED", "resource": {"name": "s", "state": state}}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"id: %d\ndata: %b\n\n" % (8 if last == "7" else 7, json.dumps(event).encode()))

    def log_message(self, *_: object) -> None:
        """Nothing: tests read stderr."""


def test_a_stream_that_breaks_off_is_resumed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(esi_client.time, "sleep", lambda _: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        esi = esi_client.Esi(f"http://127.0.0.1:{server.server_port}")
        assert esi.wait("schedulings", "s", profiler.completed, PATIENCE)["state"] == "CompletedState"
        assert Broken.heard == [None, "7", "8"]
    finally:
        server.shutdown()
        server.server_close()


# -- the algorithm -----------------------------------------------------------------------------------


def matrix(**seconds: dict[str, str]) -> profiler.Matrix:
    return profiler.Matrix({job: {"externalScheduler": {"profiler": [row]}} for job, row in seconds.items()})


BEST = matrix(
    a={"b": "10 (1)", "c": "20 (2)"}, b={"a": "30 (1)", "c": "5 (1)"}, c={"a": "7 (1)", "b": "9 (1)"}
)


def test_as_many_slots_as_there_are_and_each_beside_its_best_company() -> None:
    """ESI's own example had slotsPerNode squared: on three nodes the second pass was off by one."""
    bed = {"name": "tb", "numberOfNodes": 3, "numberOfSlotsPerNode": 2}
    found = scheduler.queue(BEST, bed, random.Random(3))
    assert len(found) == 6 and sorted(found[:3]) == ["a", "b", "c"]
    assert all(one != other for one, other in zip(found[:3], found[3:], strict=True))
    best = {"a": "b", "b": "c", "c": "a"}
    assert found[3:] == [best[job] for job in found[:3]]


def test_a_pair_without_a_measurement_is_tried_before_a_slow_one() -> None:
    bed = {"name": "tb", "numberOfNodes": 1, "numberOfSlotsPerNode": 2}
    known = matrix(a={"b": "10 (1)"}, b={"a": "10 (1)"}, c={})
    for seed in range(10):
        one, other = scheduler.queue(known, bed, random.Random(seed))
        assert "c" in (one, other)


def test_means_are_cumulative_and_written_as_esi_writes_them() -> None:
    mean = profiler.Mean()
    for seconds in (10, 20, 60):
        mean = mean.and_one(seconds)
    assert str(mean) == "30 (3)"
    assert profiler.read_mean({"externalScheduler": {"profiler": [{"b": "30 (3)"}]}}, "b") == mean
    assert profiler.read_mean({"externalScheduler": {"profiler": [{"b": "12.5"}]}}, "b") == (12.5, 1)
    assert profiler.read_mean({"externalScheduler": {"profiler": [{"b": "soon"}]}}, "b") == (0, 0)


def test_the_pair_with_fewest_samples_is_next() -> None:
    known = matrix(a={"b": "1 (2)", "c": "1 (1)"}, b={"a": "1 (2)", "c": "1 (2)"}, c={"a": "1 (1)"})
    assert known.rarest() == ("c", "b") and known.full == 0


# -- layouts -----------------------------------------------------------------------------------------


def test_more_nodes_are_more_slots_of_the_first_testbed() -> None:
    world = esi_layout.world(esi_layout.with_nodes(EVALUATION, 9))
    world.run(5_000)
    assert len(world.testbed("scheduler-slots").slots) == 16
    assert len(world.testbed("profiler-slots").slots) == 2
