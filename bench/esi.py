"""How fast external schedulers are served: 1,000 slots and 500 jobs in one Testbed.

Run: python -m bench.esi [--slots N] [--jobs N] [--requests N]. The engine, its machines and the objects are
those of a simulated cluster (`sim.esi_world`), but only the engine's time is counted.

- A Scheduling of all jobs on all slots is placed: from its EsiSeen to the last command that creates an
  application. Bound of the issue: 1 s. After it what follows until all executors are known to run.
- A batch when everything runs, of one thing that changes. Beside it the plain way, as ESI has it: each event
  counts all slots of the Testbed and looks at all jobs. Ours does that and all that follows from it.
- A list over REST, by the real server on a socket, asked for by another process, one after the other, while a
  job changes every 20 ms. Bound of the issue: 50 ms.
"""

import argparse
import asyncio
import gc
import http.client
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from msgspec import structs
from starlette.applications import Starlette

from bench.report import report
from fairlead.api.esi.access import Unguarded
from fairlead.api.esi.doors import Doors
from fairlead.api.server import FAILURES, Guard, HttpServer
from fairlead.core.state import State
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.batchjob import BatchJob, BatchJobSpec
from fairlead.model.esi import (
    GHOST_LABEL,
    SLOT,
    Ref,
    SlotState,
    SlotStatus,
    Testbed,
    TestbedSpec,
    TestbedStatus,
)
from fairlead.model.pod import Pod, Shape
from fairlead.model.scheduling import Scheduling, SchedulingSpec
from fairlead.sim.esi_cluster import SimulatedCluster
from fairlead.sim.esi_operators import RunTimes
from fairlead.sim.esi_world import EsiWorld

NOW = 1_790_000_000_000
PER_NODE = 4
LONG = 3_600_000
HOST = "127.0.0.1"
LISTS = ("testbeds", "jobs", "schedulings")
PLACED, ANSWERED = 1.0, 0.050
"""Bounds of the issue, in seconds."""
SPARK = {
    "type": "Scala",
    "mode": "cluster",
    "image": "spark:3.5",
    "sparkVersion": "3.5.0",
    "mainClass": "org.apache.spark.examples.SparkPi",
    "mainApplicationFile": "local:///opt/spark/examples.jar",
    "driver": {"cores": 1, "memory": "512m"},
    "executor": {"cores": 1, "memory": "512m"},
}


class Clocked(EsiWorld):
    """Knows how long the engine has thought, and what it thought last that created something."""

    def __init__(self) -> None:
        self.thought = self.wall = self.longest = 0.0
        """Seconds: processor time and by the clock; of the longest batch."""
        self.created = (0.0, 0.0)
        super().__init__(run_times=RunTimes(default=LONG))

    def start(self) -> None:
        super().start()
        learn = self.engine.learn

        def clocked(events: Sequence[ev.Event]) -> list[cmd.Command]:
            cpu, wall = time.process_time(), time.perf_counter()
            commands = learn(events)
            taken = time.process_time() - cpu
            self.thought += taken
            self.wall += time.perf_counter() - wall
            self.longest = max(self.longest, taken)
            if any(isinstance(each, cmd.CreateObject) for each in commands):
                self.created = self.thought, self.wall
            return commands

        self.engine.learn = clocked


def crowded(slots: int, jobs: int) -> Clocked:
    """A Testbed and BatchJobs that nobody has claimed."""
    world = Clocked()
    world.check_always = False
    world.now = NOW
    world.run(1)
    for i in range(slots // PER_NODE):
        world.node(f"n{i}", {"slots": str(i)}, cpu="4", memory="16Gi")
    world.put(
        Testbed("", 0, "default", "bed", TestbedSpec("slots", PER_NODE, {"cpu": "900m", "memory": "1Gi"}))
    )
    for i in range(jobs):
        world.put(BatchJob("", 0, "default", f"job-{i}", BatchJobSpec(spark_spec=SPARK)))
    world.run(5_000)
    return world


def placing(world: Clocked, slots: int, jobs: int) -> list[dict[str, str]]:
    """All jobs on all slots."""
    queue = [Ref("default", f"job-{i % jobs}") for i in range(slots)]
    gc.collect()
    world.thought = world.wall = world.longest = 0.0
    world.put(Scheduling("", 0, "default", "s", SchedulingSpec(Ref("default", "bed"), queue)))
    world.run(60)
    made = sum(isinstance(each, cmd.CreateObject) for _, each in world.log)
    assert made == jobs, f"{made} of {jobs} applications were created"
    cpu, wall = world.created
    longest, whole = world.longest, world.thought
    world.thought = 0.0
    world.run(20_000)
    bound = world.thought
    occupied = sum(each.state is SlotState.OCCUPIED for each in world.testbed("bed").slots)
    assert occupied == slots, f"{occupied} of {slots} slots are occupied"
    return [
        row("a Scheduling placed", f"{cpu:.3f} s", f"{wall:.3f} s by the clock", held(cpu, PLACED)),
        row("its longest batch", f"{longest:.3f} s"),
        row("until it knows of all it did", f"{whole:.3f} s"),
        row(f"{slots} executors bound", f"{bound:.3f} s", f"{bound / slots * 1e6:.0f} µs each"),
    ]


def row(what: str, took: str, more: str = "", limit: str = "") -> dict[str, str]:
    return {"what": what, "took": took, "beside it": more, "bound": limit}


def held(found: float, bound: float) -> str:
    return f"≤ {bound:g} s: {'held' if found <= bound else 'MISSED'}"


# -- batches -----------------------------------------------------------------------------------------------


def median(world: Clocked, rounds: int, event: Callable[[int], ev.Event]) -> float:
    """Seconds of processor time for a batch of one such event."""
    times: list[float] = []
    for i in range(rounds):
        batch = (ev.Tick(world.now + i), event(i))
        begun = time.process_time()
        world.engine.learn(batch)
        times.append(time.process_time() - begun)
    return statistics.median(times)


def plain(state: State) -> TestbedStatus:
    """All slots counted from all pods, and all jobs looked at: what one event costs without a table."""
    (testbed,) = state.esi.testbeds.values()
    assert testbed.spec is not None
    nodes = sorted(
        (int(node.labels["slots"]), node.name)
        for node in state.inventory.nodes
        if node is not None and "slots" in node.labels
    )
    seats: dict[str, Pod] = {}
    foreign: dict[str, int] = {}
    for pod in state.pods.values():
        if pod.ended or not pod.node:
            continue
        if SLOT in pod.annotations:
            seats[pod.annotations[SLOT]] = pod
        else:
            foreign[pod.node] = foreign.get(pod.node, 0) + dict(pod.shape.requests).get("cpu", 0)
    slots: list[SlotStatus] = []
    for index in range(testbed.spec.slots_per_node):
        for number, name in nodes:
            found = seats.get(f"{name}/{index}")
            free = found is None or found.labels.get(GHOST_LABEL) == "true"
            fits = 4_000 - foreign.get(name, 0) >= testbed.spec.slots_per_node * 900
            was = SlotState.FREE if free and fits else SlotState.ERROR if free else SlotState.OCCUPIED
            who = (found.name, found.uid) if found is not None else ("", "")
            slots.append(SlotStatus(len(slots), number, name, index, was, *who))
    mine: dict[str, list[Pod]] = {}
    for pod in seats.values():
        mine.setdefault(pod.owner.name if pod.owner is not None else "", []).append(pod)
    for job in state.esi.jobs.values():
        assert all(pod.phase == "Running" for pod in mine[job.name])
    return TestbedStatus(slots=slots)


def batches(world: Clocked, rounds: int) -> list[dict[str, str]]:
    state = world.engine.state
    in_slot = [pod for pod in state.pods.values() if pod.node and SLOT in pod.annotations]
    jobs = list(state.esi.jobs.values())
    versions = iter(range(10**9, 2 * 10**9))

    def pod(i: int) -> ev.Event:
        found = in_slot[i % len(in_slot)]
        return ev.PodSeen(
            structs.replace(found, version=next(versions), labels={**found.labels, "n": str(i)})
        )

    def beat(i: int) -> ev.Event:
        found = state.pods[in_slot[i % len(in_slot)].uid]
        return ev.PodSeen(structs.replace(found, version=next(versions)))

    def job(i: int) -> ev.Event:
        found = state.esi.jobs[jobs[i % len(jobs)].uid]
        return ev.EsiSeen(structs.replace(found, version=next(versions), labels={"n": str(i)}))

    def stranger(i: int) -> ev.Event:
        return ev.PodSeen(
            Pod("s", "default", "s", next(versions), Shape((("cpu", 1),)), labels={"n": str(i)})
        )

    assert all(each.state is SlotState.OCCUPIED for each in plain(state).slots)
    times = 20
    begun = time.process_time()
    for _ in range(times):
        plain(state)
    reference = (time.process_time() - begun) / times
    rows: list[dict[str, str]] = []
    cases = (
        ("labels of a pod in a slot", pod),
        ("a BatchJob", job),
        ("status of a pod in a slot", beat),
        ("a pod of no Testbed", stranger),
    )
    for what, event in cases:
        found = median(world, rounds, event)
        beside = f"plain: {reference * 1e6:.0f} µs, {reference / found:.1f} times"
        rows.append(row(f"batch: {what}", f"{found * 1e6:.0f} µs", beside))
    return rows


# -- REST --------------------------------------------------------------------------------------------------


async def lists(world: Clocked, requests: int) -> list[dict[str, str]]:
    """While a job changes every 20 ms, so that hardly an answer is as the one before it."""
    doors = Doors(SimulatedCluster(world), Unguarded())
    doors.turn_to(world.engine.state)
    app = Guard(Starlette(routes=doors.routes(), exception_handlers=FAILURES), HOST)
    server = HttpServer(app, HOST, 0, "")
    await server.start()
    going = asyncio.create_task(changing(world, doors))
    try:
        asking = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.esi", "--ask", server.url, "--requests", str(requests),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        told, _ = await asking.communicate()
    finally:
        going.cancel()
        doors.close()
        await server.stop()
    assert asking.returncode == 0
    rows: list[dict[str, str]] = []
    for name, (size, p50, p99) in json.loads(told).items():
        more = f"p99 {p99 * 1e3:.1f} ms, {size >> 10} KiB"
        rows.append(row(f"GET /external/{name}", f"{p50 * 1e3:.1f} ms", more, held(p99, ANSWERED)))
    return rows


async def changing(world: Clocked, doors: Doors) -> None:
    uids = list(world.engine.state.esi.jobs)
    version = 3 * 10**9
    while True:
        for uid in uids:
            version += 1
            job = world.engine.state.esi.jobs[uid]
            blob = {"profiler": [{"other": f"{version} (1)"}]}
            assert job.spec is not None
            spec = structs.replace(job.spec, external_scheduler=blob)
            batch = (ev.Tick(world.now), ev.EsiSeen(structs.replace(job, version=version, spec=spec)))
            commands = world.engine.learn(batch)
            doors.batch(batch, commands, 0.0)
            await asyncio.sleep(0.02)


def ask(url: str, requests: int) -> None:
    """The other process: size, median and 99th percentile of seconds for each list."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    found: dict[str, tuple[int, float, float]] = {}
    for name in LISTS:
        times: list[float] = []
        size = 0
        for _ in range(requests):
            begun = time.perf_counter()
            connection.request("GET", f"/external/{name}")
            answer = connection.getresponse()
            size = len(answer.read())
            times.append(time.perf_counter() - begun)
            assert answer.status == 200, answer.status
        times.sort()
        found[name] = size, times[len(times) // 2], times[len(times) * 99 // 100]
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--ask", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        ask(options.ask, options.requests)
        return
    world = crowded(options.slots, options.jobs)
    rows = placing(world, options.slots, options.jobs)
    rows += batches(world, 200)
    rows += asyncio.run(lists(world, options.requests))
    command = f"python -m bench.esi --slots {options.slots} --jobs {options.jobs}"
    report("esi", command, rows, NOTES)


NOTES = """Processor time of the engine; medians for batches. "Placed" is from the EsiSeen of a Scheduling of
all jobs on all slots to the command that creates the last application; the API server is a simulated one that
takes no time. "Plain" counts all slots from all pods, looks at the pods of all jobs, and does nothing. Lists
are asked for by another process, one after the other, while a job changes every 20 ms."""


if __name__ == "__main__":
    main()
