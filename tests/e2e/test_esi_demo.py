"""`fairlead esi demo`: ESI's evaluation on a real API server, until every pair is measured."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_live import left_behind, surroundings

from fairlead.localcluster import list_clusters
from live import EXAMPLES, FAIRLEAD, Kubectl, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]
JOBS = ("crawler", "pi", "word-count")


@pytest.fixture
def place() -> Iterator[Path]:
    """Clusters and temporary files go here."""
    with tempfile.TemporaryDirectory(prefix="fl-demo-") as folder:
        path = Path(folder)
        path.chmod(0o711)  # as root the demo's database runs as nobody
        yield path
        assert fairlead(path, "demo", "--down").returncode == 0


def fairlead(place: Path, *arguments: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [FAIRLEAD, *arguments], capture_output=True, text=True, timeout=timeout, check=False,
        env=surroundings(place),
    )  # fmt: skip


def test_RA14_esis_evaluation_runs_and_every_example_is_valid(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fairlead(place, "esi", "demo", "--keep", timeout=600)
    output = run.stdout + run.stderr
    assert run.returncode == 0, output
    assert "every pair is measured, 1 plan of all jobs completed: 9 runs, none is left" in output
    assert output.count("  profiler: ") == 3 and output.count("  scheduler: completed: ") == 1
    assert "Testbed scheduler-slots: node-0000, node-0001, node-0002" in output
    assert "Testbed profiler-slots: node-0003" in output  # the others' free slots are held
    assert "Traceback" not in output
    server = next(line for line in output.splitlines() if "FAIRLEAD_SERVER=" in line).partition("=")[2]

    def ask(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return fairlead(place, "esi", *arguments, "--server", server)

    jobs: Any = json.loads(ask("jobs", "-o", "json").stdout)
    for name in JOBS:
        (row,) = jobs[name]["externalScheduler"]["profiler"]
        assert row.keys() == {*JOBS} - {name} and all(text.endswith(" (1)") for text in row.values())
        assert len(jobs[name]["scheduledEvents"]) == 3
        assert all(each["successful"] for each in jobs[name]["scheduledEvents"])
    free = [
        ["profiler-slots", "SUCCESS", "1", "2", "2", "0", "0", "0"],
        ["scheduler-slots", "SUCCESS", "3", "6", "6", "0", "0", "0"],
    ]
    head, *_ = ask("testbeds").stdout.splitlines()
    assert head.split()[:4] == ["TESTBED", "STATE", "NODES", "SLOTS"]
    until(lambda: [line.split() for line in ask("testbeds").stdout.splitlines()[1:]] == free, "free slots")
    assert "no job that has failed is called pi" in ask("reset", "pi").stderr
    monkeypatch.setenv("FAIRLEAD_CLUSTERS", surroundings(place)["FAIRLEAD_CLUSTERS"])
    (cluster,) = list_clusters()
    kubectl = Kubectl(cluster, "default")
    files = [path for path in (EXAMPLES / "esi").glob("*.yaml") if path.name != "simulation.yaml"]
    kubectl("apply", "--dry-run=server", *(f"--filename={path}" for path in files))
    assert fairlead(place, "demo", "--down").returncode == 0
    until(lambda: left_behind(place) == [])
