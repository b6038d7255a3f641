"""The sniffer's doors of a recorder on a real API server: its lines, each once, and its notifier."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.recorded import Hands, Recording, names_of

from fairlead.localcluster import Cluster
from fairlead.recorder.importing import Reading, parts
from live import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
KEYS = ("object", "name", "endpoint", "reason", "message", "node", "event", "extra", "timestamp")


@pytest.fixture
def hands(small_cluster: Cluster) -> Iterator[Hands]:
    with Hands(small_cluster, "sniffed") as found:
        yield found


def notified(recorder: Recording, pod: str, stage: str) -> None:
    found = re.search(r"grpc=(\S+:\d+)", recorder.log)
    assert found is not None
    env = {**os.environ, "SNIFFER_POD_NAME": pod, "SNIFFER_NODE_NAME": "n"}
    options = ["--address", found[1], "--stage", stage, "--event", stage, "--timeout", "60"]
    done = subprocess.run([FAIRLEAD, "notify", *options], env=env, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


def test_RB1_a_running_recorder_writes_the_sniffers_lines(
    small_cluster: Cluster, hands: Hands, data: Path, tmp_path: Path
) -> None:
    path, pods, nodes = tmp_path / "sniffer.log", [f"job-{n}" for n in range(6)], names_of(small_cluster)

    def lines() -> list[dict[str, Any]]:
        whole, _, _ = path.read_bytes().rpartition(b"\n")  # the last one may be on its way
        return [json.loads(each) for each in whole.splitlines()]

    def events(pod: str) -> Counter[tuple[str, str]]:
        return Counter((each["endpoint"], each["event"]) for each in lines() if each["name"] == pod)

    with Recording(small_cluster.kubeconfig, data, "--jsonl", str(path)) as recorder:
        hands.at_once(hands.create, pods)
        hands.at_once(hands.bind, pods, (nodes[number % len(nodes)] for number in range(len(pods))))
        notified(recorder, pods[0], "postStart")
        until(lambda: all(("podUpdate", "Succeeded") in events(pod) for pod in pods), "the pods to end")
        recorder.stop()
        recorder.start()
        recorder.wait_ready()
        hands.at_once(hands.delete, pods)
        until(lambda: all(("podDelete", "Succeeded") in events(pod) for pod in pods), "the pods to be gone")
    for pod in pods:
        found = events(pod)
        assert set(found.values()) == {1}, found
        told = {event for _, event in found}
        assert {"PodScheduled", "Running", "Succeeded"} <= told
    assert events(pods[0])["postStart", "postStart"] == 1
    for line in lines():
        assert list(line) == [key for key in KEYS if key in line]
    capacities = [line for line in lines() if line["object"] == "Node" and "extra" in line]
    assert sorted(line["name"] for line in capacities) == sorted(nodes)
    assert {line["extra"]["capacity-cpu"] for line in capacities} == {"8"}
    reading = Reading(1)
    list(parts(path.read_bytes().splitlines(keepends=True), reading, {}))
    summary = reading.summary()
    assert (summary.bad, summary.duplicates, summary.unreadable_times) == (0, 0, 0)
    assert (summary.pods, summary.pods_open, summary.nodes) == (len(pods), 0, len(nodes))
