"""How long one cycle takes with 100,000 waiting groups on a busy cluster.

Run: python -m bench.queue [--nodes 1000,5000] [--groups 100000] [--shapes 100,10000] [--policies …]
[--rounds N]. Every node is full with work of known ends. The queue begins with groups that want whole
nodes, many of them; behind come single pods with one of `--walltimes` different walltimes each. Everything
has been planned before (conservative has its promises); then one running pod ends, and the answer to that is
timed: hearing it and taking the snapshot, the plan, accepting the plan. Bounds of the issue for a cycle: 100
shapes < 200 ms, 10,000 shapes < 1 s, conservative (1,000 promises) < 1 s. Medians of processor time.

The reference beside it is the plain way by counts: one EASY pass of `bench.textbook` over the same queue,
cpu only, which knows neither nodes nor other resources.
"""

import argparse
import gc
import random
import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import structs

from bench.report import report
from bench.textbook import Easy, Job
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.snapshot import Snapshot
from fairlead.model import event as ev
from fairlead.model.command import Command, Propose, RecordAllocations
from fairlead.model.node import Node
from fairlead.model.plan import Plan
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import Settings, single

NOW = 1_700_000_000_000
MINUTE = 60_000
PER_NODE = 4
POLICIES = "fcfs,easy,hybrid:64,conservative:1000"
GIB = 1 << 30
LATER = 1 << 40
"""Above every version of a pod that waits."""


class Times(NamedTuple):
    """Seconds of processor time for one completion."""

    learn: float
    plan: float
    accept: float


class Load(NamedTuple):
    """What the cluster is given; the same for every policy."""

    nodes: list[Node]
    running: list[Pod]
    waiting: list[Pod]


def pod(name: str, group: str, size: int, shape: Shape, minutes: int, version: int) -> Pod:
    labels = {"fairlead.dev/group": group, "fairlead.dev/group-size": str(size)}
    return Pod(
        uid=name, namespace="bench", name=name, version=version, shape=shape, scheduler="fairlead",
        created=NOW, labels=labels, annotations={"fairlead.dev/duration": f"{minutes}m"},
    )  # fmt: skip


def busy(nodes: int) -> Iterator[Pod]:
    """Four pods of a quarter node on each node, each a group of its own with its own end."""
    chance = random.Random(1)
    quarter = Shape((("cpu", 16_000), ("memory", 64 * GIB), ("pods", 1)))
    for i in range(nodes * PER_NODE):
        alone = pod(f"r{i}", f"r{i}", 1, quarter, chance.randrange(60, 48 * 60), i + 1)
        node = f"node-{i // PER_NODE:05d}"
        yield structs.replace(alone, node=node, phase=PodPhase.RUNNING, started=True)


def queue(nodes: int, groups: int, shapes: int, walltimes: int) -> Iterator[Pod]:
    """One gang that wants a tenth of all nodes whole, in front of each tenth thousand; single pods else."""
    chance = random.Random(2)
    kinds = [
        Shape((("cpu", 1_000 + 31_000 * k // shapes), ("memory", GIB + (k << 20)), ("pods", 1)))
        for k in range(shapes)
    ]
    whole = Shape((("cpu", 64_000), ("memory", 200 * GIB), ("pods", 1)))
    minutes = [30 * (k + 1) for k in range(walltimes)]
    version, wide = nodes * PER_NODE, nodes // 10
    for i in range(groups):
        gang = i % (groups // 10) == 0
        shape = whole if gang else kinds[i % shapes]
        walltime = chance.choice(minutes)
        for j in range(wide if gang else 1):
            version += 1
            yield pod(f"w{i}-{j}", f"w{i}", wide if gang else 1, shape, walltime, version)


def load(nodes: int, groups: int, shapes: int, walltimes: int) -> Load:
    capacity = (("cpu", 64_000), ("memory", 256 * GIB), ("pods", 110))
    return Load(
        [Node(uid=f"n{i}", name=f"node-{i:05d}", version=1, allocatable=capacity) for i in range(nodes)],
        list(busy(nodes)),
        list(queue(nodes, groups, shapes, walltimes)),
    )


def settings(policy: str) -> Settings:
    """`hybrid:N` promises N starts, `conservative:N` keeps as many."""
    name, _, number = policy.partition(":")
    more = {"promises" if name == "conservative" else "depth": int(number)} if number else {}
    return Settings(queues=single(name, **more), pace=0)


class Cluster:
    """An engine that has planned everything once, and pods that can end."""

    def __init__(self, policy: str, given: Load) -> None:
        self.settings = settings(policy)
        self.engine = Engine(self.settings)
        self.now = NOW
        self.running = {pod.uid: pod for pod in given.running}
        self.snapshot: Snapshot | None = None
        everything: list[ev.Event] = [ev.NodeSeen(node) for node in given.nodes]
        everything += [ev.PodSeen(pod) for pod in (*given.running, *given.waiting)]
        everything += [ev.Synced(source) for source in self.settings.sources]
        self.hear(ev.Tick(NOW), *everything, ev.StoreReady(1))
        self.settle()

    def hear(self, *events: ev.Event) -> list[Command]:
        commands = self.engine.learn(events)
        for command in commands:
            if isinstance(command, Propose):
                self.snapshot = command.snapshot
        return commands

    def settle(self) -> None:
        """Plan until no plan is due; everything is durable at once."""
        while self.snapshot is not None:
            snapshot, self.snapshot = self.snapshot, None
            self.accept(plan_now(snapshot))

    def accept(self, plan: Plan) -> None:
        for command in self.hear(ev.PlanProposed(plan)):
            if isinstance(command, RecordAllocations):
                self.hear(ev.AllocationsRecorded(command.plan))

    def end(self, uid: str) -> Times:
        """One running pod ends a minute later; how long each step of the answer takes."""
        self.now += MINUTE
        version = LATER + self.engine.state.version
        ended = structs.replace(self.running.pop(uid), phase=PodPhase.SUCCEEDED, version=version)
        begun = time.process_time()
        self.hear(ev.Tick(self.now), ev.PodSeen(ended))
        heard = time.process_time()
        snapshot, self.snapshot = self.snapshot, None
        assert snapshot is not None, "no cycle is due"
        plan = plan_now(snapshot)
        planned = time.process_time()
        self.hear(ev.PlanProposed(plan))
        accepted = time.process_time()
        self.settle()
        return Times(heard - begun, planned - heard, accepted - planned)


def plain(given: Load, rounds: int) -> float:
    """Median seconds of one EASY pass by counts over the same queue."""
    jobs: list[Job] = []
    for first in (*given.running, *given.waiting):
        labels = first.labels
        if first.name.endswith("-0") or first.node:
            cpu = dict(first.shape.requests)["cpu"] * int(labels["fairlead.dev/group-size"])
            span = int(first.annotations["fairlead.dev/duration"].removesuffix("m")) * MINUTE
            jobs.append(Job(labels["fairlead.dev/group"], NOW, span, cpu, span))
    count = len(given.running)
    found: list[float] = []
    for _ in range(rounds):
        machine = Easy(64_000 * len(given.nodes), jobs)
        machine.now = NOW
        for i in range(count):
            machine.start(i)
        machine.queue = list(range(count, len(jobs)))
        machine.free += jobs[0].procs
        begun = time.process_time()
        machine.decide([0])
        found.append(time.process_time() - begun)
    return statistics.median(found)


def measure(policy: str, given: Load, rounds: int) -> Times:
    cluster = Cluster(policy, given)
    gc.collect()
    chance = random.Random(3)
    found = [cluster.end(uid) for uid in chance.sample(sorted(cluster.running), rounds)]
    return Times(*(statistics.median(column) for column in zip(*found, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--shapes", default="100,10000")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--walltimes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    for nodes in map(int, options.nodes.split(",")):
        for shapes in map(int, options.shapes.split(",")):
            given = load(nodes, options.groups, shapes, options.walltimes)
            reference = plain(given, options.rounds)
            for policy in options.policies.split(","):
                times = measure(policy, given, options.rounds)
                slow = shapes > 100 or policy.startswith("conservative")
                bound = 1.0 if slow else 0.2
                rows.append(
                    {
                        "nodes": str(nodes),
                        "shapes": str(shapes),
                        "policy": policy,
                        "learn ms": f"{times.learn * 1e3:.1f}",
                        "cycle ms": f"{times.plan * 1e3:.1f}",
                        "accept ms": f"{times.accept * 1e3:.1f}",
                        "bound ms": f"{bound * 1e3:.0f}",
                        "held": "yes" if sum(times) < bound else "NO",
                        "plain Python ms": f"{reference * 1e3:.1f}",
                        "ratio": f"{sum(times) / reference:.1f}",
                    }
                )
    command = f"python -m bench.queue --nodes {options.nodes} --groups {options.groups}"
    notes = "Held: learn, cycle and accept together."
    report("queue", f"{command} --shapes {options.shapes}", rows, notes)


if __name__ == "__main__":
    main()
