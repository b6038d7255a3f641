"""A thousand Jobs at once, of many sizes, on a cluster that holds a fraction of them, under easy."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import MakeCluster
from fairlead.localcluster import Cluster, NodeShape
from live import (
    Kubectl,
    Scheduler,
    Witness,
    assert_never_over,
    assert_one_node_each,
    job,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
NAMESPACE = "burst"
JOBS, NODES, CPU = 1000, 32, 8
PODS = (1,) * 15 + (2, 2, 2, 4, 8)
"""Pods of a Job, drawn from these: 1.65 on the average, as a Job takes a dozen requests and each pod five."""
PATIENCE = 800.0


def mixture() -> list[dict[str, Any]]:
    """Jobs of 1 to 8 pods of 1 to 4 cpu that run for 1 or 2 s.

    Their walltimes are far longer: where there is little of a processor, KWOK ends a pod long after its time.
    """
    draw = random.Random(8)
    found: list[dict[str, Any]] = []
    for number in range(JOBS):
        runs = draw.randint(1, 2)
        notes = {"fairlead.dev/duration": f"{10 * runs}m"}
        size, cpu = draw.choice(PODS), str(draw.randint(1, 4))
        found.append(job(f"j-{number:04}", pods=size, cpu=cpu, run=f"{runs}s", annotations=notes))
    return found


def create(cluster: Cluster, jobs: list[dict[str, Any]]) -> float:
    """All of them as quickly as the API server takes them; the seconds that took."""
    began = time.monotonic()
    cluster.client.create_all(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", jobs, lambda _: None)
    return time.monotonic() - began


@pytest.mark.timeout(900)
def test_F8_a_thousand_jobs_at_once_are_neither_lost_nor_doubled_nor_starved(
    make_cluster: MakeCluster, data: Path
) -> None:
    cluster = make_cluster(nodes=NODES, shape=NodeShape(cpu=str(CPU)))
    kubectl = Kubectl(cluster, "default")
    kubectl("create", "namespace", NAMESPACE)
    kubectl.namespace = NAMESPACE
    jobs = mixture()
    sizes = {each["metadata"]["name"]: each["spec"]["parallelism"] for each in jobs}
    with Scheduler(cluster.kubeconfig, data, "--policy", "easy") as scheduler, Witness(cluster) as witness:
        began = time.monotonic()
        print(f"{JOBS} Jobs created in {create(cluster, jobs):.1f} s")

        def over() -> bool:
            rows = scheduler.groups(NAMESPACE)
            return len(rows) == JOBS and all(row["ended_at"] for row in rows.values())

        until(over, "all Jobs to end", PATIENCE, 1.0)
        print(f"all ended {time.monotonic() - began:.1f} s after the first was created")
        rows = scheduler.groups(NAMESPACE)
        assert {row["state"] for row in rows.values()} == {"completed"}
        until(lambda: succeeded(kubectl, *sizes), "the Job controller to say so too", pause=1.0)
        witness.wait_binds(NAMESPACE, sum(sizes.values()))
    assert {name: len(uids) for name, uids in witness.pods(NAMESPACE).items()} == sizes
    assert_one_node_each(witness.sights)
    assert_never_over(witness.sights, CPU * 1000)
