"""The scheduler and its surroundings are killed, and what they were doing comes out right all the same.

No hook in the product says when: kills come at drawn moments, the same ones in each run.
"""

import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from fairlead.store.embedded import running_postmaster
from live import (
    FAIRLEAD,
    Kubectl,
    Scheduler,
    Witness,
    assert_never_over,
    assert_one_node_each,
    finish,
    job,
    pod,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CPU = 8000
GANGS = 50
KILLS = 6
HALF_STARTED = 30.0
"""Seconds within which a scheduler has to make a group whole that was half started (design.md, 5)."""
_numbers = count(1)


@pytest.fixture
def kubectl(small_cluster: Cluster) -> Iterator[Kubectl]:
    name = f"faults-{next(_numbers)}"
    Kubectl(small_cluster, "default")("create", "namespace", name)
    yield Kubectl(small_cluster, name)
    Kubectl(small_cluster, name)("delete", "jobs,pods", "--all", "--wait=false")


def gangs(seed: int) -> list[dict[str, Any]]:
    """Fifty gangs of 2 to 6 pods; the cluster holds a few of them at a time."""
    draw = random.Random(seed)
    return [
        job(
            f"gang-{i:02}",
            pods=draw.randint(2, 6),
            cpu=str(draw.randint(2, 4)),
            run=f"{draw.randint(2, 12) * 100}ms",
        )
        for i in range(GANGS)
    ]


def longest_half(witness: Witness, namespace: str, up: list[tuple[float, float]]) -> dict[str, float]:
    """How long each group had some members bound and not all that it ever bound, under one and the same
    process: `up` is from when to when each was ready."""
    times: dict[str, list[float]] = {}
    for sight in witness.binds(namespace):
        times.setdefault(sight.group, []).append(sight.at)
    return {
        group: max(min(max(each), end) - max(min(each), begin) for begin, end in up)
        for group, each in times.items()
    }


@pytest.mark.parametrize("seed", [11])
@pytest.mark.timeout(400)
def test_L1_F6_killed_at_any_moment_all_gangs_run_exactly_once(
    seed: int, small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    stream = gangs(seed)
    names = [each["metadata"]["name"] for each in stream]
    sizes = {name: each["spec"]["parallelism"] for name, each in zip(names, stream, strict=True)}
    path = f"/apis/batch/v1/namespaces/{kubectl.namespace}/jobs"
    draw = random.Random(seed)

    def submit() -> None:
        for each in stream:
            assert small_cluster.client.post(path, each).status == 201
            time.sleep(0.4)

    scheduler = Scheduler(small_cluster.kubeconfig, data)
    kept: dict[str, int] = {}
    up: list[tuple[float, float]] = []
    with Witness(small_cluster) as witness:
        scheduler.start()
        submitting = threading.Thread(target=submit)
        submitting.start()
        try:
            for i in range(KILLS):
                scheduler.wait_ready()
                ready = time.monotonic()
                time.sleep(draw.uniform(0.2, 3.0))
                kept |= scheduler.kept(kubectl.namespace)
                if i % 2:  # in the middle of a start, if one is seen before long
                    wait_for_half(witness, kubectl.namespace, sizes)
                scheduler.kill()
                up.append((ready, time.monotonic()))
                scheduler.start()
            scheduler.wait_ready()
            ready = time.monotonic()
            submitting.join()
            until(lambda: succeeded(kubectl, *names), "all gangs to complete", patience=200, pause=0.5)
            until(lambda: all_in_state(scheduler, kubectl.namespace, names, "completed"))
            rows = scheduler.groups(kubectl.namespace)
            witness.wait_binds(kubectl.namespace, sum(sizes.values()))
            up.append((ready, time.monotonic()))
        finally:
            submitting.join()
            scheduler.stop()
    sights = witness.of(kubectl.namespace)
    # Exactly once: as many pods as members, all of them bound, none failed, none on two nodes.
    assert {group: len(uids) for group, uids in witness.pods(kubectl.namespace).items()} == sizes
    assert len(witness.binds(kubectl.namespace)) == sum(sizes.values())
    assert not [sight for sight in sights if sight.phase == "Failed"]
    assert_one_node_each(sights)
    assert_never_over(witness.sights, CPU)
    late = {k: v for k, v in longest_half(witness, kubectl.namespace, up).items() if v > HALF_STARTED}
    told = [line for line in scheduler.log.splitlines() if any(name in line for name in late)]
    assert late == {}, "\n".join(told)
    # First sight outlives the process, and with it the order.
    assert kept
    assert {name: rows[name]["first_seen"] for name in kept} == kept
    assert "Traceback" not in scheduler.log
    assert running_postmaster(data) is None


def wait_for_half(witness: Witness, namespace: str, sizes: dict[str, int]) -> None:
    """Until a gang is seen with some members bound and others not, or three seconds are over."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        bound = Counter(sight.group for sight in witness.binds(namespace))
        if any(0 < n < sizes[group] for group, n in bound.items()):
            return
        time.sleep(0.001)


def all_in_state(scheduler: Scheduler, namespace: str, names: list[str], state: str) -> bool:
    rows = scheduler.groups(namespace)
    return all(rows.get(name, {}).get("state") == state for name in names)


def test_F6_order_and_waiting_time_survive_a_restart(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    names = [f"waiting-{i}" for i in range(5)]
    with Scheduler(small_cluster.kubeconfig, data) as scheduler, Witness(small_cluster) as witness:
        kubectl.create(job("blocker", pods=4, cpu="8", run="1h"))
        scheduler.wait_state(kubectl.namespace, "blocker", "running")
        for name in names:
            kubectl.create(job(name, pods=4, cpu="5", run="100ms"))
            scheduler.wait_state(kubectl.namespace, name, "waiting")
        until(lambda: scheduler.kept(kubectl.namespace).keys() >= {*names}, "the groups to be written")
        before = scheduler.groups(kubectl.namespace)
        scheduler.kill()
        scheduler.start()
        scheduler.wait_ready()
        after = scheduler.groups(kubectl.namespace)
        assert [after[name]["first_seen"] for name in names] == [before[name]["first_seen"] for name in names]
        assert [after[name]["position"] for name in names] == [1, 2, 3, 4, 5]
        kubectl("delete", "job", "blocker", "--wait=false")
        until(lambda: all_in_state(scheduler, kubectl.namespace, names, "completed"))
        assert witness.starts(kubectl.namespace) == ["blocker", *names]
        for later, earlier in itertools.pairwise(reversed(["blocker", *names])):
            assert witness.started_after(kubectl.namespace, later, earlier)


def test_pods_that_ended_or_went_while_nobody_watched(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """A restart sees the cluster as it is: what ended meanwhile holds nothing, what went is gone."""
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(job("goes", pods=2, cpu="8", run="10m"))
        scheduler.wait_state(kubectl.namespace, "goes", "running")
        kubectl.create(job("ends", pods=2, cpu="8", run="10m"))
        scheduler.wait_state(kubectl.namespace, "ends", "running")
        until(lambda: len(scheduler.kept(kubectl.namespace)) == 2, "both to be written")
        scheduler.kill()
        kubectl("delete", "job", "goes")
        finish(kubectl, "-ljob-name=ends")
        until(lambda: succeeded(kubectl, "ends"))
        kubectl.create(job("comes", pods=4, cpu="8"))
        scheduler.start()
        scheduler.wait_ready()
        scheduler.wait_state(kubectl.namespace, "comes", "completed")
        scheduler.wait_state(kubectl.namespace, "ends", "completed")
        scheduler.wait_state(kubectl.namespace, "goes", "cancelled")


def test_F5_postgresql_killed_in_the_middle(small_cluster: Cluster, kubectl: Kubectl, data: Path) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler, Witness(small_cluster) as witness:
        kubectl.create(job("blocker", pods=4, cpu="8", run="6s"))
        scheduler.wait_state(kubectl.namespace, "blocker", "running")
        pid, files = scheduler.pid, data / "pg" / "data"
        mode = files.stat().st_mode
        for number in range(2):
            postmaster = running_postmaster(data)
            assert postmaster is not None
            files.chmod(0)  # by itself it would be back in half a second, before anybody has seen it away
            os.kill(postmaster, signal.SIGKILL)
            kubectl.create(job(f"meanwhile-{number}", pods=4, cpu="8", run="100ms"))
            reasons = until(lambda: not_ready(scheduler), "/readyz to say no")
            assert any("store" in reason for reason in reasons)
            assert scheduler.get("/healthz")[0] == 200
            files.chmod(mode)
            scheduler.wait_ready()
        for name in ("blocker", "meanwhile-0", "meanwhile-1"):
            scheduler.wait_state(kubectl.namespace, name, "completed")
        assert scheduler.pid == pid and scheduler.running
        assert_never_over(witness.sights, CPU)
        assert "Traceback" not in scheduler.log


def not_ready(scheduler: Scheduler) -> list[str] | None:
    status, page = scheduler.get("/readyz")
    return page["reasons"] if status == 503 else None


def test_api_server_killed_and_started_again(small_cluster: Cluster, kubectl: Kubectl, data: Path) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(job("before", pods=4, cpu="8", run="10s"))
        scheduler.wait_state(kubectl.namespace, "before", "running")
        kubectl.create(job("waits", pods=4, cpu="8", run="200ms"))
        scheduler.wait_state(kubectl.namespace, "waits", "waiting")
        small_cluster.kill("kube-apiserver")
        time.sleep(2)
        assert scheduler.running
        assert scheduler.groups(kubectl.namespace)["waits"]["state"] == "waiting"
        small_cluster.start("kube-apiserver")
        small_cluster.wait_healthy("kube-apiserver", 60)
        # It says once that a pod has ended, and nobody may have listened. A new one looks at all pods.
        small_cluster.kill("kwok")
        small_cluster.launch("kwok")
        kubectl.create(job("after", pods=4, cpu="8", run="200ms"))
        for name in ("before", "waits", "after"):
            scheduler.wait_state(kubectl.namespace, name, "completed")
        until(lambda: succeeded(kubectl, "before", "waits", "after"))
        assert scheduler.running and "Traceback" not in scheduler.log


def test_a_run_with_a_kill_leaves_a_recording_that_replays(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """Cut off in mid-line, it counts as far as it goes."""
    recording = data.with_name("cut.jsonl")
    options = ("--record", str(recording), "--log-format", "json")
    with Scheduler(small_cluster.kubeconfig, data, *options) as scheduler:
        kubectl.create(*(job(f"g-{i}", pods=3, cpu="4", run="300ms") for i in range(12)))
        kubectl.create(pod("last", cpu="8", run="100ms"))
        scheduler.wait_state(kubectl.namespace, "last", "completed")
        scheduler.kill()
    whole = recording.read_bytes()
    recording.write_bytes(whole[: len(whole) * 9 // 10])
    run = subprocess.run(
        [FAIRLEAD, "replay", str(recording)], capture_output=True, text=True, timeout=100, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert "0 differences" in run.stdout


def test_stopped_in_good_order_nothing_is_left(small_cluster: Cluster, data: Path) -> None:
    scheduler = Scheduler(small_cluster.kubeconfig, data)
    with scheduler:
        postmaster = running_postmaster(data)
        assert postmaster is not None
    assert scheduler.process is not None and scheduler.process.returncode == 0
    assert running_postmaster(data) is None
    assert not (data / "server.json").exists()
