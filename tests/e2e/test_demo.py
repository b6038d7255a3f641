"""`fairlead demo`: all examples come out as they say, and nothing is left, however it ends."""

import re
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_live import left_behind, surroundings

from live import FAIRLEAD, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def place() -> Iterator[Path]:
    """A machine of the test's own as far as the demo can tell: clusters and temporary files go here."""
    with tempfile.TemporaryDirectory(prefix="fl-demo-") as folder:
        path = Path(folder)
        path.chmod(0o711)  # as root the demo's database runs as nobody
        yield path
        run = subprocess.run([FAIRLEAD, "demo", "--down"], env=surroundings(path), timeout=120, check=False)
        assert run.returncode == 0


@pytest.fixture
def start(place: Path) -> Iterator[Start]:
    """Starts `fairlead demo` in a session of its own, as a terminal does."""
    running: list[subprocess.Popen[str]] = []

    def go(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [FAIRLEAD, "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=surroundings(place),
            start_new_session=True,
        )
        running.append(process)
        return process

    yield go
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def says(line: str, *words: str) -> bool:
    """Whether these words follow each other there, however wide the columns are."""
    return re.search(r"\b" + r"\s+".join(words) + r"\b", line) is not None


def read_until(process: subprocess.Popen[str], *words: str) -> str:
    """Its output up to the line with these words."""
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if says(line, *words):
            return "".join(seen)
    pytest.fail(f"no {words} in:\n{''.join(seen)}")


def test_demo_runs_all_examples_and_cleans_up(start: Start, place: Path) -> None:
    process = start("--nodes", "8")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    lines = output.splitlines()
    summary = lines[next(i for i, line in enumerate(lines) if line.startswith("EXAMPLE")) :]
    outcomes = Counter(
        word for line in summary for word in line.split() if word in ("completed", "rejected", "stopped")
    )
    assert outcomes == {"completed": 15, "rejected": 1, "stopped": 3}
    (row,) = [
        i for i, line in enumerate(summary) if "too-big" in line
    ]  # its reason goes on in the next lines
    assert "rejected" in summary[row] and "cpu=20" in " ".join(summary[row : row + 4])
    # Where there is no terminal every change that was seen is a line: surely that to what lasts.
    for name, state in (("web", "running"), ("web", "stopped"), ("second", "completed"), (r"\S+", "waiting")):
        assert any(says(line, r"\d+\.\ds", name, state) for line in lines), (name, state)
    assert all(len(line) <= 100 for line in summary)
    assert "Traceback" not in output
    assert left_behind(place) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, start: Start, place: Path) -> None:
    process = start()
    # In the middle of the last example, or of the start.
    shown = r"(assembling|waiting|starting|running|completed)"
    read_until(process, *(("right", shown) if number == signal.SIGINT else ("start", "etcd")))
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert f"interrupted by {number.name}" in output
    assert "Traceback" not in output
    assert left_behind(place) == []


def test_a_kept_demo_can_be_used_and_ended(start: Start, place: Path) -> None:
    process = start("--keep")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    server = next(line for line in output.splitlines() if "FAIRLEAD_SERVER=" in line).partition("=")[2]

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FAIRLEAD, *arguments], capture_output=True, text=True, timeout=60, check=False,
            env=surroundings(place),
        )  # fmt: skip

    queue = ask("queue", "--all", "--limit", "0", "--server", server)
    assert queue.returncode == 0 and "second" in queue.stdout
    assert left_behind(place) != []
    assert ask("demo", "--down").returncode == 0
    until(lambda: left_behind(place) == [])
    assert ask("queue", "--server", server).returncode == 1


@pytest.mark.parametrize(
    ("options", "told"), [(["--nodes", "4"], "at least 8"), (["--node-cpu", "64"], "8 to 19")]
)
def test_a_demo_that_cannot_work_says_so(options: list[str], told: str, place: Path) -> None:
    run: Any = subprocess.run(
        [FAIRLEAD, "demo", *options], capture_output=True, text=True, timeout=60, check=False,
        env=surroundings(place),
    )  # fmt: skip
    assert run.returncode == 1
    assert told in run.stderr and "Traceback" not in run.stderr
    assert left_behind(place) == []
