"""What a policy function costs: 1,000 nodes full of gangs, 1,000 gangs that wait.

Run: python -m bench.policies [--nodes N] [--groups G] [--rounds R]. The reference is the built-in plan of the
same snapshot in the same planner, in turn. `shadow` is the time until that plan is out while a function is
asked beside it (and then, how long the loop works at what comes after), `live` until the function's own plan
is out. Nothing: a function that answers at once that nobody starts. Order: one that wants everybody started,
in the order of walltimes. What the loop itself works is told apart from what it waits for the process.
"""

import argparse
import asyncio
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence

from msgspec import structs
from prometheus_client import CollectorRegistry

from bench.report import report
from fairlead.control import ACTING
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.picture import take
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.node import Node
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import PolicyFunction, QueueSettings, Settings
from fairlead.runtime.planner import Planner
from fairlead.runtime.policies import Policies

NOW = 1_700_000_000_000
SIZE = 4
SOURCE = """
from fairlead.model.outside import Start


def nothing(view):
    return []


def order(view):
    return [Start(w.id, optional=True) for w in sorted(view.waiting, key=lambda w: w.walltime)]
"""


def gang(name: str, kind: int, minutes: int) -> Iterator[Pod]:
    """Four pods that take a node's half each, of one of fifty shapes."""
    shape = Shape((("cpu", 16_000 + kind), ("memory", 8 << 30), ("pods", 1)))
    labels = {"fairlead.dev/group": name, "fairlead.dev/group-size": str(SIZE), "app": f"app-{kind}"}
    for i in range(SIZE):
        yield Pod(
            uid=f"{name}-{i}",
            namespace="bench",
            name=f"{name}-{i}",
            version=1,
            shape=shape,
            scheduler="fairlead",
            labels=labels,
            annotations={"fairlead.dev/duration": f"{minutes}m"},
        )


def settled(engine: Engine, events: Sequence[ev.Event]) -> None:
    """Let everything happen that it asks for, at once."""
    pods = {event.pod.uid: event.pod for event in events if isinstance(event, ev.PodSeen)}
    while events:
        told: list[ev.Event] = []
        for command in engine.learn(events):
            match command:
                case cmd.Propose():
                    told.append(ev.PlanProposed(plan_now(command.snapshot)))
                case cmd.RecordAllocations() if command.grants:
                    told.append(ev.AllocationsRecorded(command.plan))
                case cmd.Bind():
                    pod = structs.replace(
                        pods[command.pod], version=2, node=command.node, phase=PodPhase.RUNNING, started=True
                    )
                    told.append(ev.PodSeen(pod))
                case _:
                    pass
        events = told


def world(nodes: int, groups: int) -> Engine:
    """All nodes full, and as many groups waiting."""
    settings = Settings(queues=(QueueSettings(policy="easy"),), pace=0)
    engine = Engine(settings, ACTING)
    capacity = (("cpu", 36_000), ("memory", 256 << 30), ("pods", 110))
    labels = {f"example.com/label-{i}": f"value-{i}" for i in range(10)}
    seen = [
        ev.NodeSeen(Node(uid=f"n{i}", name=f"node-{i:05d}", version=1, allocatable=capacity, labels=labels))
        for i in range(nodes)
    ]
    synced = [ev.Synced(source) for source in settings.sources]
    settled(engine, [ev.Tick(NOW), *seen, ev.StoreReady(1), *synced])
    running = [pod for i in range(nodes * 2 // SIZE) for pod in gang(f"run-{i}", i % 50, 30 + i % 90)]
    settled(engine, [ev.Tick(NOW + 1_000), *map(ev.PodSeen, running)])
    waiting = [pod for i in range(groups) for pod in gang(f"wait-{i}", i % 50, 10 + i % 170)]
    settled(engine, [ev.Tick(NOW + 2_000), *map(ev.PodSeen, waiting)])
    state = engine.state
    assert len(state.waiting) == groups, f"{len(state.waiting)} of {groups} wait"
    assert len(state.started) == nodes * 2 // SIZE, f"{len(state.started)} run"
    return engine


class Plans:
    """The planner's inbox: when the plan came."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[float] = asyncio.Queue()

    def put(self, events: Sequence[ev.Event]) -> None:
        for _ in events:
            self.came.put_nowait(time.perf_counter())


class Planning:
    """A planner at work, with the function or without one."""

    def __init__(self, engine: Engine, own: PolicyFunction | None) -> None:
        self._engine = engine
        self._settings = structs.replace(engine.state.settings, function=own)
        self._plans = Plans()
        self._policies = Policies(engine.state, CollectorRegistry())
        self._planner = Planner(None, self._policies)

    async def begin(self) -> None:
        self._engine.state.settings = self._settings
        self._running = asyncio.create_task(self._planner.run(self._plans))
        await asyncio.sleep(0)
        while self._settings.function is not None and not self._policies.ready:
            await asyncio.sleep(0.01)

    async def round(self) -> tuple[float, float, float]:
        """Seconds until the plan is out, of the loop's own work for it, and of its work after that."""
        self._engine.state.settings = self._settings
        snapshot = take(self._engine.state, True)
        begun, work = time.perf_counter(), time.thread_time()
        self._planner.perform([cmd.Propose(snapshot.version, snapshot)])
        out = await self._plans.came.get() - begun
        worked = time.thread_time() - work
        await self._policies.idle()
        return out, worked, time.thread_time() - work - worked

    async def end(self) -> None:
        self._running.cancel()
        await self._planner.close()


async def measure(engine: Engine, own: PolicyFunction, rounds: int) -> list[float]:
    """Medians: (plan out, work, work after) without the function and with it, in turn; and of the ratios."""
    plain, asked = Planning(engine, None), Planning(engine, own)
    await plain.begin()
    await asked.begin()
    pairs = [(await plain.round(), await asked.round()) for _ in range(rounds)][1:]  # the first view is new
    await plain.end()
    await asked.end()
    columns = [*zip(*[(*a, *b, b[0] / a[0]) for a, b in pairs], strict=True)]
    return [statistics.median(column) for column in columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=101)
    options = parser.parse_args()
    engine = world(options.nodes, options.groups)
    rows: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "own.py").write_text(SOURCE)
        for mode in ("shadow", "live"):
            for function in ("nothing", "order"):
                own = PolicyFunction(f"own.py:{function}", mode, 30_000, folder)
                found = asyncio.run(measure(engine, own, options.rounds))
                rows.append(
                    {
                        "mode": mode,
                        "function": function,
                        "built-in plan ms": f"{found[0] * 1e3:.1f}",
                        "plan out ms": f"{found[3] * 1e3:.1f}",
                        "loop works ms": f"{found[4] * 1e3:.1f}",
                        "and after it ms": f"{found[5] * 1e3:.1f}",
                        "ratio": f"{found[6]:.2f}",
                    }
                )
    command = f"python -m bench.policies --nodes {options.nodes} --groups {options.groups}"
    report("policies", command, rows)


if __name__ == "__main__":
    main()
