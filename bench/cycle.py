"""How long one planning cycle takes: 5,000 nodes, 10,000 waiting single pods, of 50 and of 10,000 shapes.

Run: python -m bench.cycle [--nodes N] [--pods P]. Bounds of the issue: 50 shapes < 100 ms, 10,000
shapes < 1 s. The reference beside it is the plain way: for each pod scan node objects in Python until
one fits. What was placed is checked: every pod once, and nothing beyond what is free.
"""

import argparse
import statistics
import time

from bench.report import report
from fairlead.core.cycle import plan_now
from fairlead.core.groups import refresh, sequence
from fairlead.core.picture import columns
from fairlead.core.reduce import reduce
from fairlead.core.snapshot import Snapshot
from fairlead.core.state import State
from fairlead.model import event as ev
from fairlead.model.node import Node
from fairlead.model.plan import Plan, Start
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings


def world(nodes: int, pods: int, shapes: int, match: str) -> State:
    """A synced state in which every pod waits and the cluster holds them all."""
    state = State(Settings(match=match))
    for i in range(nodes):
        capacity = (("cpu", 64_000), ("memory", 256 << 30), ("pods", 110))
        reduce(state, ev.NodeSeen(Node(uid=f"n{i}", name=f"node-{i:05d}", version=1, allocatable=capacity)))
    kinds = [  # identical specs share one Shape, as kube.translate makes them
        Shape((("cpu", 100 + kind), ("memory", (64 << 20) + kind), ("pods", 1))) for kind in range(shapes)
    ]
    for i in range(pods):
        name, shape = f"p{i}", kinds[i % shapes]
        pod = Pod(uid=name, namespace="bench", name=name, version=i + 2, shape=shape, scheduler="fairlead")
        reduce(state, ev.PodSeen(pod))
    for source in state.settings.sources:
        reduce(state, ev.Synced(source))
    sequence(state)
    for group in list(state.groups.values()):
        refresh(state, group)
    return state


def snapshot(state: State) -> Snapshot:
    waiting = tuple(sorted((r for rs in state.waiting.values() for r in rs), key=lambda r: r.order))
    return columns(state.inventory, waiting, state.settings, 1_000)


def check(state: State, view: Snapshot, starts: list[Start]) -> None:
    """Every pod once, and no node given more than it has."""
    free = view.free.copy()
    row = {name: i for i, name in enumerate(view.names)}
    for start in starts:
        for place in start.placements:
            vector = view.vectors[state.pods[place.pod].shape.requests]
            free[vector.rows, row[place.node]] -= vector.amounts
    assert (free >= 0).all(), "a node was given more than it has"


def reference(state: State, view: Snapshot) -> list[str]:
    """First fit over node objects, one pod after the other."""
    names = list(state.inventory.resources)
    free = {n: dict(zip(names, view.free[:, i].tolist(), strict=True)) for i, n in enumerate(view.names)}
    chosen: list[str] = []
    for request in view.waiting:
        wanted = request.tasks[0].shape.requests
        for name, left in free.items():
            if all(left[r] >= n for r, n in wanted):
                for r, n in wanted:
                    left[r] -= n
                chosen.append(name)
                break
    return chosen


def measure(nodes: int, pods: int, shapes: int, match: str, rounds: int) -> tuple[float, float, Plan, State]:
    """Median seconds of (snapshot, cycle), the last plan and its state."""
    state = world(nodes, pods, shapes, match)
    snapshots: list[float] = []
    cycles: list[float] = []
    result: Plan | None = None
    for _ in range(rounds):
        begun = time.perf_counter()
        view = snapshot(state)
        taken = time.perf_counter()
        result = plan_now(view)
        snapshots.append(taken - begun)
        cycles.append(time.perf_counter() - taken)
    assert result is not None
    return statistics.median(snapshots), statistics.median(cycles), result, state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    for shapes, bound in ((50, 0.1), (options.pods, 1.0)):
        for match in ("first", "pack", "spread"):
            taken, cycle, plan, state = measure(options.nodes, options.pods, shapes, match, options.rounds)
            starts = [d for d in plan.decisions if isinstance(d, Start)]
            assert len(starts) == options.pods, f"only {len(starts)} of {options.pods} placed"
            view = snapshot(state)
            check(state, view, starts)
            begun = time.perf_counter()
            assert len(reference(state, view)) == options.pods
            plain = time.perf_counter() - begun
            rows.append(
                {
                    "shapes": str(shapes),
                    "match": match,
                    "snapshot ms": f"{taken * 1e3:.1f}",
                    "cycle ms": f"{cycle * 1e3:.1f}",
                    "bound ms": f"{bound * 1e3:.0f}",
                    "held": "yes" if cycle < bound else "NO",
                    "plain Python ms": f"{plain * 1e3:.0f}",
                    "ratio": f"{plain / cycle:.1f}",
                }
            )
    report("cycle", f"python -m bench.cycle --nodes {options.nodes} --pods {options.pods}", rows)


if __name__ == "__main__":
    main()
