"""What it costs to keep the picture true: one event at a time against counting everything anew.

Run: python -m bench.truth [--nodes 1000,5000] [--pods 50000] [--events 6000]. An engine as it runs live knows
all nodes and pods, half of them ours (each a group of one), half another scheduler's. Then pods end, go, and
others come: each is one batch of its own through Engine.learn, which is as dear as it gets. Beside it the
full rebuild that the audit uses (it makes digests, too), and, as the reference, a plain loop over plain dicts
that knows nothing but sums: the ratios say how many events cost as much as one such loop. An audit's
comparison goes in steps: `longest` is for how long it holds up the loop at most. In the end the picture that
events have made must equal the rebuilt one. Processor time: means of the events, medians of recounts, one
audit; garbage is collected as in the scheduler.
"""

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from msgspec import structs

from bench.report import report
from fairlead.control import RECONCILERS
from fairlead.core.audit import comparing, drawing
from fairlead.core.engine import Engine
from fairlead.core.moment import Moment, picturing, take
from fairlead.core.rebuild import Picture, rebuild
from fairlead.core.steps import Steps, now
from fairlead.model import event as ev
from fairlead.model.audit import Listing
from fairlead.model.node import Node
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import Settings

NOW = 1_700_000_000_000
GIB = 1 << 30
SHAPE = Shape((("cpu", 1_000), ("memory", 4 * GIB), ("pods", 1)))
ROUNDS = 5
T = TypeVar("T")


class Costs(NamedTuple):
    """Seconds of processor time."""

    ours: list[float]
    others: list[float]
    rebuild: float
    plain: float
    audit: float
    longest: float


class Cluster:
    """An engine that knows everything, and what has been told it."""

    def __init__(self, nodes: int, pods: int) -> None:
        capacity = (("cpu", 64_000), ("memory", 256 * GIB), ("pods", 110))
        self.nodes = [Node(f"n{i}", f"node-{i:05d}", i + 1, capacity) for i in range(nodes)]
        self.engine = Engine(Settings(pace=0), RECONCILERS)
        self.now, self.version = NOW, nodes
        self.pods: dict[str, Pod] = {}
        events: list[ev.Event] = [ev.Tick(NOW), *(ev.NodeSeen(node) for node in self.nodes)]
        events += [ev.PodSeen(self.another(i % 2 == 0, i)) for i in range(pods)]
        events += [ev.Synced(source) for source in self.engine.state.settings.sources]
        self.engine.learn([*events, ev.StoreReady(1)])

    def another(self, ours: bool, number: int) -> Pod:
        """A pod that runs, on the nodes in turn."""
        self.version += 1
        pod = Pod(
            uid=f"p{self.version}", namespace="bench", name=f"p{self.version}", version=self.version,
            shape=SHAPE, scheduler="fairlead" if ours else "default-scheduler", created=self.now,
            node=self.nodes[number % len(self.nodes)].name, phase=PodPhase.RUNNING, started=True,
        )  # fmt: skip
        self.pods[pod.uid] = pod
        return pod

    def hear(self, event: ev.Event) -> float:
        """One batch; what it took."""
        self.now += 1
        batch = (ev.Tick(self.now), event)
        begun = time.process_time()
        self.engine.learn(batch)
        return time.process_time() - begun

    def turnover(self, ours: bool, events: int) -> list[float]:
        """Pods end, go, and others come in their place; what each of these events took."""
        chance = random.Random(1)
        scheduler = "fairlead" if ours else "default-scheduler"
        leaving = [uid for uid, pod in self.pods.items() if pod.scheduler == scheduler]
        spent: list[float] = []
        for i, uid in enumerate(chance.sample(leaving, events // 3)):
            self.version += 1
            pod = self.pods.pop(uid)
            ended = structs.replace(pod, phase=PodPhase.SUCCEEDED, version=self.version)
            spent.append(self.hear(ev.PodSeen(ended)))
            spent.append(self.hear(ev.PodGone(uid, self.version)))
            spent.append(self.hear(ev.PodSeen(self.another(ours, i))))
        return sorted(spent)


# -- recounts ----------------------------------------------------------------------------------------


def plain(nodes: Sequence[Node], pods: Sequence[Pod]) -> dict[str, dict[str, int]]:
    """Free amounts as anybody would count them."""
    free = {node.name: dict(node.allocatable) for node in nodes}
    for pod in pods:
        if pod.node in free and not pod.ended:
            left = free[pod.node]
            for name, amount in pod.shape.requests:
                left[name] = left.get(name, 0) - amount
    return free


def timed(work: Callable[[], T], rounds: int = ROUNDS) -> tuple[float, T]:
    """Median seconds, and what came of it."""
    found: list[float] = []
    while True:
        gc.collect()
        begun = time.process_time()
        result = work()
        found.append(time.process_time() - begun)
        if len(found) == rounds:
            return statistics.median(found), result


def stepped(steps: Steps[T]) -> tuple[float, float, T]:
    """Seconds in all, those of the longest step, and what came of it."""
    whole = longest = 0.0
    while True:
        begun = time.process_time()
        try:
            next(steps)
        except StopIteration as end:
            spent = time.process_time() - begun
            return whole + spent, max(longest, spent), end.value
        spent = time.process_time() - begun
        whole, longest = whole + spent, max(longest, spent)


def audit(cluster: Cluster) -> tuple[float, float]:
    """Seconds of one comparison with fresh lists, and of its longest step."""
    listings = [
        Listing("Node", cluster.version, tuple(ev.NodeSeen(node) for node in cluster.nodes)),
        Listing("Pod", cluster.version, tuple(ev.PodSeen(pod) for pod in cluster.pods.values())),
    ]
    taken, moment = timed(lambda: take(cluster.engine.state), 1)
    compared, first, look = stepped(comparing(moment, listings, cluster.now))
    drawn, second, pictures = stepped(drawing(moment, look))
    if look.found or pictures.here.digest != pictures.there.digest:
        raise SystemExit(f"the picture and the lists differ: {look.found[:3]}")
    return taken + compared + drawn, max(taken, first, second)


def measure(nodes: int, pods: int, events: int) -> Costs:
    cluster = Cluster(nodes, pods)
    gc.collect()
    cluster.turnover(True, events // 10)  # once to warm up
    ours, others = cluster.turnover(True, events), cluster.turnover(False, events)
    known = list(cluster.pods.values())
    counted, rebuilt = timed(lambda: rebuild(cluster.nodes, known, {}))
    reference, free = timed(lambda: plain(cluster.nodes, known))
    moment = take(cluster.engine.state)
    _same(moment, now(picturing(moment)), rebuilt, free)
    return Costs(ours, others, counted, reference, *audit(cluster))


def _same(moment: Moment, here: Picture, rebuilt: Picture, free: dict[str, dict[str, int]]) -> None:
    """Events, rebuild and plain loop have come to the same."""
    if here.digest != rebuilt.digest or {name: dict(row.free) for name, row in here.rows.items()} != free:
        raise SystemExit(f"the picture made by events is not the rebuilt one ({len(moment.pods)} pods)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", default="1000,5000")
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--events", type=int, default=6_000)
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    gc.set_threshold(20_000, 20, 50)
    for nodes in map(int, options.nodes.split(",")):
        costs = measure(nodes, options.pods, options.events)
        ours, others = statistics.mean(costs.ours), statistics.mean(costs.others)
        rows.append(
            {
                "nodes": str(nodes),
                "pods": str(options.pods),
                "ours us": f"{ours * 1e6:.0f}",
                "p99 us": f"{costs.ours[len(costs.ours) * 99 // 100] * 1e6:.0f}",
                "others' us": f"{others * 1e6:.0f}",
                "p99 us ": f"{costs.others[len(costs.others) * 99 // 100] * 1e6:.0f}",
                "rebuild ms": f"{costs.rebuild * 1e3:.0f}",
                "plain loop ms": f"{costs.plain * 1e3:.0f}",
                "loop / ours": f"{costs.plain / ours:.0f}",
                "loop / others'": f"{costs.plain / others:.0f}",
                "audit ms": f"{costs.audit * 1e3:.0f}",
                "longest ms": f"{costs.longest * 1e3:.1f}",
            }
        )
    notes = (
        "An event is a pod that ends, goes or comes, in a batch of its own. Ratios: one plain loop over all "
        "pods costs as much as so many events. Means include the collection of garbage. The picture made by "
        "events equalled the rebuilt one."
    )
    report("truth", f"python -m bench.truth --nodes {options.nodes} --pods {options.pods}", rows, notes)


if __name__ == "__main__":
    main()
