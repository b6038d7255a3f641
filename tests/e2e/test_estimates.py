"""The estimated start on a real API server: annotation, Event, queue and explain, over a kill."""

import json
import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import FAIRLEAD, Kubectl, Scheduler, job, pod, until

pytestmark = pytest.mark.e2e
KEY = "fairlead.dev/estimated-start"
MINUTE = 60_000
HOURS = {"fairlead.dev/duration": "2h"}


def ask(data: Path, *words: str) -> Any:
    environment = {key: value for key, value in os.environ.items() if key != "FAIRLEAD_SERVER"}
    command = [FAIRLEAD, *words, "-o", "json", "--data-dir", str(data)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)


def annotation(kubectl: Kubectl, kind: str, name: str) -> str:
    (found,) = kubectl.get(kind, name)
    return found["metadata"].get("annotations", {}).get(KEY, "")


def milliseconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


@pytest.mark.timeout(400)
def test_F1_F17_a_waiting_group_is_told_when_it_starts(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """A job holds all four nodes for at most two hours; a Job of four waits for it."""
    with Scheduler(small_cluster.kubeconfig, data, "--policy", "easy") as scheduler:
        kubectl.create(job("holds", pods=4, cpu="8", run="1h", annotations=HOURS))
        holds = scheduler.wait_state(kubectl.namespace, "holds", "running")
        kubectl.create(job("waits", pods=4, cpu="8", annotations={"fairlead.dev/duration": "10m"}))
        event = kubectl.wait_event("Job", "waits", "EstimatedStart")
        text = until(lambda: annotation(kubectl, "job", "waits"), "the annotation")

        (row,) = [
            row for row in ask(data, "queue", "-n", kubectl.namespace)["groups"] if row["name"] == "waits"
        ]
        assert abs(row["estimate"] - holds["granted_at"] - 120 * MINUTE) < MINUTE
        assert milliseconds(text) == row["promised"] // 1000 * 1000
        assert text in event["note"] and event["type"] == "Normal"
        (story,) = ask(data, "explain", f"{kubectl.namespace}/waits")["groups"]
        assert story["promise"]["start"] == row["estimate"]
        assert [blocker["name"] for blocker in story["promise"]["after"]] == ["holds"]

        kept = lambda: scheduler.kept(kubectl.namespace, "promised").get("waits")  # noqa: E731
        until(lambda: kept() == row["promised"], "the promise to be in the store")
        scheduler.kill()
        scheduler.start()
        scheduler.wait_ready()
        again = scheduler.wait_state(kubectl.namespace, "waits", "waiting")
        assert again["promised"] == row["promised"]

        kubectl("delete", "job", "holds", "--wait=false")
        started = scheduler.wait_state(kubectl.namespace, "waits", "running", "completed")
        assert started["promised"] == row["promised"] and started["promised_last"]
        assert started["granted_at"] - started["promised"] < -60 * MINUTE
        assert annotation(kubectl, "job", "waits") == text, "written once, also by the second process"


@pytest.mark.timeout(400)
def test_F17_a_bare_pod_has_the_estimate_and_starts_all_the_same(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """The annotation is written to the very pod that is bound later, and stays on it."""
    with Scheduler(small_cluster.kubeconfig, data, "--policy", "easy") as scheduler:
        kubectl.create(job("holds", pods=4, cpu="8", run="1h", annotations=HOURS))
        scheduler.wait_state(kubectl.namespace, "holds", "running")
        kubectl.create(pod("alone", cpu="8", run="1h", annotations={"fairlead.dev/duration": "10m"}))
        text = until(lambda: annotation(kubectl, "pod", "alone"), "the annotation")
        kubectl.wait_event("Pod", "alone", "EstimatedStart")
        kubectl("delete", "job", "holds", "--wait=false")
        scheduler.wait_state(kubectl.namespace, "alone", "running")
        assert annotation(kubectl, "pod", "alone") == text
