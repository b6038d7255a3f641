"""Start times on tiny workloads full of ties, against those on which two independent programs agree.

One node of P processors, a job a pod that asks for its processors; the loop below only keeps the clock and
ends jobs, each decision is `core.cycle`'s.
"""

import heapq
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairlead.core.cycle import plan_now
from fairlead.core.inventory import Vector
from fairlead.core.labels import NodeClasses
from fairlead.core.profile import Release, Share
from fairlead.core.snapshot import Request, Snapshot, Task
from fairlead.model.node import Node
from fairlead.model.plan import Start
from fairlead.model.pod import Amounts, Shape
from fairlead.model.settings import Settings, single

SECOND = 1000
Job = tuple[int, int, int, int, int]
"""Id, submit, run, processors, estimate."""


def amounts(procs: int) -> Amounts:
    return (("procs", procs),)


class Machine:
    """Processors on one node, the jobs on it, and the queue."""

    def __init__(self, policy: str, procs: int, jobs: list[Job]) -> None:
        self.settings = Settings(queues=single(policy))
        self.procs, self.free = procs, procs
        self.jobs = {str(job[0]): job for job in jobs}
        self.classes = NodeClasses([Node("u", "n", 1, amounts(procs))], [False])
        self.shapes = {n: Shape(amounts(n)) for n in {job[3] for job in jobs}}
        self.vectors = {
            shape.requests: Vector(np.zeros(1, dtype=np.int64), np.array([n]), ((0, n),))
            for n, shape in self.shapes.items()
        }
        self.waiting: dict[str, Request] = {}
        self.running: dict[str, Release] = {}
        self.starts: dict[str, int] = {}

    def submit(self, job: Job, seq: int) -> None:
        name, estimate = str(job[0]), job[4] * SECOND
        task = Task(self.shapes[job[3]], (name,))
        self.waiting[name] = Request(name, (0, seq, name), (task,), False, estimate)

    def end(self, name: str) -> None:
        self.free += self.jobs[name][3]
        del self.running[name]

    def decide(self, now: int) -> list[str]:
        """One pass; the jobs that start."""
        cells = np.array([[self.free]], dtype=np.int64)
        plan = plan_now(
            Snapshot(
                version=1,
                epoch=1,
                now=now * SECOND,
                settings=self.settings,
                names=("n",),
                capacity=np.array([[self.procs]], dtype=np.int64),
                free=cells,
                classes=self.classes,
                vectors=self.vectors,
                resources={"procs": 0},
                waiting=tuple(self.waiting.values()),
                running=tuple(self.running.values()),
            )
        )
        started = [d.group for d in plan.decisions if isinstance(d, Start)]
        for name in started:
            job = self.jobs[name]
            del self.waiting[name]
            self.free -= job[3]
            self.starts[name] = now
            share = Share(self.vectors[amounts(job[3])], np.zeros(1, dtype=np.int64), np.ones(1, np.int64))
            self.running[name] = Release((now + job[4]) * SECOND, share)
        return started


def simulate(policy: str, procs: int, jobs: list[Job]) -> list[int]:
    """At one instant all completions, then all arrivals in order, then one pass."""
    machine = Machine(policy, procs, jobs)
    events = [(job[1], 1, i) for i, job in enumerate(jobs)]
    heapq.heapify(events)
    index = {str(job[0]): i for i, job in enumerate(jobs)}
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, arrival, i = heapq.heappop(events)
            if arrival:
                machine.submit(jobs[i], i)
            else:
                machine.end(str(jobs[i][0]))
        for name in machine.decide(now):
            i = index[name]
            heapq.heappush(events, (now + jobs[i][2], 0, i))
    return [machine.starts[str(job[0])] for job in jobs]


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_every_start_equals_the_oracles(policy: str, oracle_data: Callable[[str], Path]):
    wrong: list[str] = []
    with lzma.open(oracle_data("swf/micro.jsonl.xz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            workload = json.loads(line)
            jobs: list[Job] = [tuple(job) for job in workload["jobs"]]
            if simulate(policy, workload["procs"], jobs) != workload["start"][policy]:
                wrong.append(workload["id"])
    assert not wrong, f"{len(wrong)} workloads differ, the first is {wrong[0]}"
