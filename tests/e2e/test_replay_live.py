"""A run on a real API server, recorded into a file and into the ledger, decides the same in a replay.

Jobs come and go, others' pods come between, the scheduler is killed and starts again, and it saves its whole
state every second.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import FAIRLEAD, Kubectl, Scheduler, job, pod

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def replay(*arguments: str, seed: str = "0") -> dict[str, Any]:
    """What the command says to programs, under a hash seed of its own."""
    run = subprocess.run(
        [FAIRLEAD, "replay", "-o", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-3000:]
    return json.loads(run.stdout)


def busy(kubectl: Kubectl, scheduler: Scheduler, wave: str) -> None:
    """More than fits at once: some wait, some are promised a start, others' pods take room."""
    foreign = pod(f"foreign-{wave}", cpu="4", run="2s")
    foreign["spec"]["nodeName"] = "node-0001"
    foreign["spec"]["schedulerName"] = "somebody-else"
    limits = {"fairlead.dev/duration": "1m"}
    kubectl.create(
        foreign,
        *(job(f"{wave}-{i}", pods=3, cpu="4", run="600ms", annotations=limits) for i in range(14)),
        *(pod(f"single-{wave}-{i}", cpu="1", run="300ms") for i in range(10)),
        job(f"never-{wave}", pods=1, cpu="4000"),
    )
    kubectl.create(job(f"last-{wave}", pods=4, cpu="3", run="100ms"))
    scheduler.wait_state(kubectl.namespace, f"last-{wave}", "completed")


def test_RB4_a_live_run_replays_from_file_and_ledger_also_through_a_kill(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    first, second = data.with_name("first.jsonl"), data.with_name("second.jsonl")
    options = ("--ledger", "--ledger-interval", "2s", "--policy", "conservative", "--grpc", "127.0.0.1:0")
    scheduler = Scheduler(small_cluster.kubeconfig, data, *options, "--record", str(first))
    with scheduler:
        busy(kubectl, scheduler, "one")
        scheduler.kill()
    again = Scheduler(small_cluster.kubeconfig, data, *options, "--record", str(second))
    with again:
        busy(kubectl, again, "two")
        again.stop()
        assert "Traceback" not in again.log, again.log[-3000:]
    for seed, path in (("0", first), ("1", second)):
        found = replay(str(path), seed=seed)
        assert (found["wrong"], found["other"]) == (0, 0)
        assert found["plans"] > 5
    for seed in ("0", "1"):
        found = replay("--data-dir", str(data), seed=seed)
        assert (found["wrong"], found["other"]) == (0, 0), found["differences"][:1]
        assert found["plans"] > 10
        assert found["segments"] > 3
        assert any("no scheduler was running" in gap for gap in found["gaps"])
        assert not any("no room" in gap for gap in found["gaps"])
    from_file = replay(str(second))
    told = [
        line for line in again.log.splitlines() if "ledger" in line or "segment" in line or "written" in line
    ]
    assert found["batches"] >= from_file["batches"], (found["gaps"], found["segments"], told)
