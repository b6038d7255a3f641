"""Queues of a configuration file on a real API server: named, unknown, read again, kept over a restart."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import FAIRLEAD, Kubectl, Scheduler, job, until

pytestmark = pytest.mark.e2e


def queues(scheduler: Scheduler) -> dict[str, dict[str, Any]]:
    status, page = scheduler.get("/api/v1/queues")
    return {queue["name"]: queue for queue in page["queues"]} if status == 200 else {}


def timed(name: str, walltime: str, queue: str = "", **more: Any) -> dict[str, Any]:
    """A Job with a walltime, in a queue."""
    notes = {"fairlead.dev/duration": walltime}
    return job(name, annotations={**notes, "fairlead.dev/queue": queue} if queue else notes, **more)


def crowd(kubectl: Kubectl, scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """Half of every node is taken; `whole` waits for all, `little` behind it: (position, first seen)."""
    kubectl.create(timed("runs", "10m", pods=4, cpu="4", run="10m"))
    scheduler.wait_state(kubectl.namespace, "runs", "running")
    kubectl.create(timed("whole", "10m", pods=4, cpu="8"))
    scheduler.wait_state(kubectl.namespace, "whole", "waiting")
    kubectl.create(timed("little", "1m", cpu="2", run="100ms"))
    scheduler.wait_state(kubectl.namespace, "little", "waiting")
    return seen(kubectl, scheduler, "whole", "little")


def seen(kubectl: Kubectl, scheduler: Scheduler, *names: str) -> dict[str, tuple[int, int]]:
    rows = scheduler.groups(kubectl.namespace)
    return {name: (rows[name]["position"], rows[name]["first_seen"]) for name in names}


def asked(scheduler: Scheduler, *words: str) -> subprocess.CompletedProcess[str]:
    run = [FAIRLEAD, *words, "--data-dir", str(scheduler.data)]
    return subprocess.run(run, capture_output=True, text=True, timeout=100, check=True)


def test_D8_groups_are_in_the_queue_that_they_name(
    small_cluster: Cluster, kubectl: Kubectl, data: Path, tmp_path: Path
) -> None:
    config = tmp_path / "fairlead.yaml"
    config.write_text("queues:\n- {name: default}\n- {name: wide, policy: hybrid, reservation-depth: 2}\n")
    with Scheduler(small_cluster.kubeconfig, data, "--config", str(config)) as scheduler:
        kubectl.create(timed("known", "1m", "wide", run="10m"), timed("lost", "1m", "nowhere", run="10m"))
        row = scheduler.wait_state(kubectl.namespace, "known", "running")
        assert row["queue"] == "wide"
        found = queues(scheduler)
        assert (found["wide"]["policy"], found["wide"]["depth"]) == ("hybrid", 2)
        assert (found["wide"]["counts"], found["default"]["counts"]) == ({"running": 1}, {})
        row = scheduler.wait_state(kubectl.namespace, "lost", "held")
        assert "'nowhere'" in row["text"] and "wide" in row["text"]
        said = asked(scheduler, "queues")
        assert "hybrid(2)" in said.stdout and "'nowhere'" in said.stderr
        assert len(json.loads(asked(scheduler, "queues", "-o", "json").stdout)["queues"]) == 2
        config.write_text("queues:\n- {name: default}\n- {name: wide}\n- {name: nowhere}\n")
        os.kill(scheduler.pid, signal.SIGHUP)
        scheduler.wait_state(kubectl.namespace, "lost", "running")


def test_F9_the_file_is_read_again_and_the_queue_stays(
    small_cluster: Cluster, kubectl: Kubectl, data: Path, tmp_path: Path
) -> None:
    config, recording = tmp_path / "fairlead.yaml", tmp_path / "run.jsonl"
    config.write_text("queues: [{name: default, policy: fcfs}]\n")
    options = ("--config", str(config), "--record", str(recording))
    with Scheduler(small_cluster.kubeconfig, data, *options) as scheduler:
        before = crowd(kubectl, scheduler)
        pid = scheduler.pid
        config.write_text("queues: [{name: default, policy: fastest}]\n")
        os.kill(pid, signal.SIGHUP)
        until(lambda: "configuration refused" in scheduler.log, "a wrong file to be refused")
        assert "'fastest' is unknown" in scheduler.log
        assert queues(scheduler)["default"]["policy"] == "fcfs"
        assert seen(kubectl, scheduler, "whole", "little") == before
        config.write_text("queues: [{name: default, policy: easy}]\n")
        os.kill(pid, signal.SIGHUP)
        scheduler.wait_state(kubectl.namespace, "little", "completed")
        assert seen(kubectl, scheduler, "whole") == {"whole": before["whole"]}
        found = queues(scheduler)["default"]
        assert (found["policy"], found["promised"]) == ("easy", 1)
        assert scheduler.pid == pid and scheduler.ready()
    assert '"type":"configured"' in recording.read_text()
    run = subprocess.run([FAIRLEAD, "replay", str(recording)], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and "0 differences" in run.stdout, run.stdout + run.stderr[-3000:]


def test_F9_the_queue_outlives_a_restart_under_another_policy(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    with Scheduler(small_cluster.kubeconfig, data, "--policy", "fcfs") as scheduler:
        before = crowd(kubectl, scheduler)
        assert list(before) == ["whole", "little"] and [place for place, _ in before.values()] == [1, 2]
        assert queues(scheduler)["default"]["policy"] == "fcfs"
    again = Scheduler(small_cluster.kubeconfig, data, "--policy", "hybrid", "--reservation-depth", "1")
    with again as scheduler:
        found = queues(scheduler)["default"]
        assert (found["policy"], found["depth"]) == ("hybrid", 1)
        scheduler.wait_state(kubectl.namespace, "little", "completed")
        after = scheduler.groups(kubectl.namespace)
        assert seen(kubectl, scheduler, "whole") == {"whole": before["whole"]}
        assert after["little"]["first_seen"] == before["little"][1]
        assert after["whole"]["estimate"] > after["whole"]["first_seen"]
