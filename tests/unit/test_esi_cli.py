"""`fairlead esi …` against ESI's interface over a simulated cluster: tables, JSON, errors in one line."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from test_esi_world import ref
from typer.testing import CliRunner, Result

from fairlead.cli import ask as ask_module
from fairlead.cli import esi, main
from fairlead.cli.errors import CliError, user_errors
from fairlead.cli.esi_simulate import Simulation
from fairlead.runtime import eventloop
from fairlead.sim.esi_layout import EVALUATION

PATIENCE = 60.0
NAMES = ("flink-wc", "spark-crawler", "spark-pi")


class Served:
    """A simulation in a thread of its own that stands still: what the commands see is what the test made."""

    def __init__(self) -> None:
        self.simulation = Simulation(EVALUATION, 0.0001)
        self._ready, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        eventloop.run(self._serve())

    async def _serve(self) -> None:
        world = self.simulation.world
        world.run(3_000)
        world.fail("spark-crawler", -1)
        world.put({"kind": "BatchJob", "metadata": {"name": "broken"}, "spec": {"sparkSpec": {}}})
        plan = {"testbed": ref("scheduler-slots"), "queueBased": [ref("spark-pi")] * 2 + [ref("flink-wc")]}
        world.put({"kind": "Scheduling", "metadata": {"name": "first"}, "spec": plan})
        second = {"testbed": ref("scheduler-slots"), "queueBased": [ref("flink-wc")]}
        world.put({"kind": "Scheduling", "metadata": {"name": "second"}, "spec": second})
        third = {"testbed": ref("profiler-slots"), "queueBased": [ref("spark-crawler")]}
        world.put({"kind": "Scheduling", "metadata": {"name": "third"}, "spec": third})
        world.run(85_000)
        await self.simulation.start()
        self._ready.set()
        while not self._end.is_set():
            await asyncio.sleep(0.01)
        await self.simulation.stop()

    def __enter__(self) -> "Served":
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Served() as served:
        yield served.simulation.url


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAIRLEAD_SERVER", "FAIRLEAD_TOKEN", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


def ask(server: str, *words: str) -> list[str]:
    found = run(server, *words)
    assert found.exit_code == 0, found.output
    lines = found.output.splitlines()
    assert all(len(line) <= 100 for line in lines) and "\x1b" not in found.output
    return lines


def run(server: str, *words: str) -> Result:
    return CliRunner().invoke(main.app, ["esi", *words, "--server", server])


def refusal(server: str, *words: str) -> str:
    found = run(server, *words)
    assert isinstance(found.exception, user_errors()), found.output
    text = str(found.exception)
    assert "\n" not in text
    return text


def test_testbeds_are_counted_and_one_is_shown_slot_by_slot(server: str) -> None:
    header, profiler, scheduler = ask(server, "testbeds")
    assert header.split()[:8] == [
        "TESTBED",
        "STATE",
        "NODES",
        "SLOTS",
        "FREE",
        "RESERVED",
        "OCCUPIED",
        "ERROR",
    ]
    assert profiler.split() == ["profiler-slots", "SUCCESS", "1", "2", "2", "0", "0", "0"]
    assert scheduler.split() == ["scheduler-slots", "RUNNING", "3", "6", "4", "0", "2", "0"]
    lines = ask(server, "testbeds", "scheduler-slots")
    assert [line.split()[:4] for line in lines[4:]] == [
        ["0", "node-0", "0", "OCCUPIED"],
        ["1", "node-1", "0", "OCCUPIED"],
        ["2", "node-2", "0", "FREE"],
        ["3", "node-0", "1", "FREE"],
        ["4", "node-1", "1", "FREE"],
        ["5", "node-2", "1", "FREE"],
    ]
    assert lines[4].split()[4].startswith("spark-pi-exec-")


def test_jobs_tell_their_runs_and_their_failures(server: str) -> None:
    lines = ask(server, "jobs")
    rows = {line.split()[0]: line.split() for line in lines[1:]}
    assert rows["broken"][1:] == ["FailedState", "0", "0", "-", "-", "sparkSpec.type", "is", "missing"]
    flink = ["flink-wc", "CompletedState", "1", "0", "1m20s", "first"]
    assert rows["flink-wc"] == flink
    assert rows["spark-crawler"][1:5] == ["ReadyState", "0", "0", "-"]
    assert "the application has failed: cannot submit: no such image" in " ".join(" ".join(lines).split())
    assert rows["spark-pi"] == ["spark-pi", "RunningState", "1", "0", "runs", "first"]
    assert ask(server, "jobs", "flink-wc")[1].split() == flink


def test_schedulings_tell_how_far_they_are_and_what_they_wait_for(server: str) -> None:
    text = " ".join(" ".join(ask(server, "schedulings")).split())
    assert "first scheduler-slots AwaitingCompletionState" in text and "1 Completed" in text
    assert "second scheduler-slots AcquireState 1" in text
    wide = run(server, "schedulings", "-o", "wide").output
    assert "flink-wc Completed" in wide and "spark-pi Scheduled" in wide


def test_json_is_what_the_interface_says(server: str) -> None:
    assert {each["name"] for each in json.loads(run(server, "testbeds", "-o", "json").output)} == {
        "profiler-slots", "scheduler-slots",
    }  # fmt: skip
    assert (
        json.loads(run(server, "schedulings", "first", "-o", "json").output)["testBed"] == "scheduler-slots"
    )
    assert set(json.loads(run(server, "jobs", "-o", "json").output)) == {"broken", *NAMES}


def test_enrolling_is_first_said_and_then_done(server: str) -> None:
    lines = ask(server, "enrol", "scheduler-slots", "--count", "2", "--dry-run")
    assert lines[-1] == "0 nodes would be changed; the label is tuberlin.de/scheduler-slots"
    assert [line.split()[0] for line in lines[1:-1]] == ["node-0", "node-1", "node-2"]
    assert "Not enough resources: 9 nodes are asked for" in refusal(
        server, "enrol", "scheduler-slots", "--count", "9"
    )
    assert "no Testbed default/nowhere" in refusal(server, "enrol", "nowhere", "--count", "1")
    lines = ask(server, "enrol", "scheduler-slots", "--count", "2", "--remove")
    assert lines[-1].startswith("1 node changed")
    assert ask(server, "testbeds")[2].split()[2:4] == ["2", "4"]
    assert ask(server, "enrol", "scheduler-slots", "--count", "3")[-1].startswith("1 node changed")


def test_failed_jobs_are_reset_by_name_or_all(server: str) -> None:
    assert "say which jobs" in refusal(server, "reset")
    assert "say which jobs" in refusal(server, "reset", "a", "--all")
    assert "no job that has failed is called spark-pi" in refusal(server, "reset", "spark-pi")
    assert ask(server, "reset", "--all", "--dry-run") == ["broken would be reset"]
    assert ask(server, "reset", "broken") == ["broken reset"]


def test_whoever_is_not_there_is_named_and_what_to_do(server: str) -> None:
    assert "no job default/nobody is known" in refusal(server, "jobs", "nobody")
    text = refusal("http://127.0.0.1:9", "jobs")
    assert "nobody answers" in text and "fairlead scheduler --esi" in text


def test_a_scheduler_without_esi_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise CliError("Not Found (says http://127.0.0.1:1)")

    monkeypatch.setattr(ask_module, "_fetch", nothing)
    assert refusal("http://127.0.0.1:1", "jobs") == (
        "http://127.0.0.1:1 does not serve external schedulers; start it with --esi"
    )


def test_definitions_can_be_piped_into_kubectl() -> None:
    found = CliRunner().invoke(main.app, ["esi", "crds"])
    assert found.exit_code == 0 and found.output.count("kind: CustomResourceDefinition") == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--speed", "0"], "--speed 0"),
        (["--nodes", "1"], "--nodes 1: give more than 1"),
        (["nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_simulation_that_cannot_be_says_why(words: list[str], told: str) -> None:
    found = CliRunner().invoke(main.app, ["esi", "simulate", *words])
    assert isinstance(found.exception, user_errors()) and told in str(found.exception)


def test_every_command_has_an_example() -> None:
    for command in esi.app.registered_commands:
        assert command.epilog and command.epilog.startswith("Example: fairlead esi ")
