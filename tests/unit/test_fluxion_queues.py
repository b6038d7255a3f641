"""Which jobs run under each queue policy, against tables read from Fluxion's own tests of its policies.

One node of 16 cores; jobs are submitted one after another and none ends by itself; then one is cancelled.
The tables are not the project's to give away, so they are read from oracle data.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.model.node import Node
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim.world import World

BETWEEN = 100
"""Milliseconds from one submission to the next; the table's slack is a minute."""


def submit(world: World, job: dict[str, int]) -> None:
    name = f"job-{job['id']}"
    world.pod(
        Pod(
            uid=name,
            namespace="default",
            name=name,
            version=0,
            shape=Shape((("cpu", job["cores"] * 1_000), ("pods", 1))),
            scheduler="fairlead",
            annotations={"fairlead.dev/duration": f"{job['minutes']}m"},
        )
    )
    world.run(BETWEEN)


def running(world: World) -> list[int]:
    return sorted(int(pod.name.removeprefix("job-")) for pod in world.pods.values() if pod.node)


@pytest.mark.parametrize("policy", ["easy", "hybrid", "conservative"])
def test_F9_the_same_jobs_run_as_under_fluxion(policy: str, oracle_data: Callable[[str], Path]):
    table = json.loads(oracle_data("fluxion/queue_policies.json").read_text(encoding="utf-8"))
    (case,) = (case for case in table["cases"] if case["policy"] == policy)
    jobs = {job["id"]: job for job in table["jobs"]}
    depth = case.get("reservation_depth")
    queues = single(policy) if depth is None else single(policy, depth)
    world = World(Settings(queues=queues, pace=0))
    capacity = (("cpu", table["capacity_cores"] * 1_000), ("pods", 110))
    world.node(Node("node-uid", "node", 0, capacity))
    for number in table["order_for"][policy]:
        submit(world, jobs[number])
    assert running(world) == case["running_after_submit"]
    world.pod_gone(f"job-{case['cancel']}")
    world.run(BETWEEN)
    assert running(world) == case["running_after_cancel"]
