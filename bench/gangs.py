"""The published comparison of gang schedulers, repeated: gangs of 2 to 6 whole nodes on a cluster of eight.

Run: python -m bench.gangs [--iterations 20] [--hold 2]. Nodes of three cores and pods of three, as there;
every iteration submits one Job of each size, and all are submitted at once. A gang is what MPI makes of it:
it runs only while all of its pods do. So a small controller of the benchmark lets the pods of a gang end when
all have been Running together for `--hold` seconds, and none before: a scheduler that starts half gangs fills
the nodes with pods that wait for others, and nothing ever ends. The same Jobs and the same controller for the
stock kube-scheduler, which knows of no gangs, and for Fairlead as it comes out of the box.

The published run (GKE, LAMMPS): 100 of 100 jobs completed under fluence, 22 under kube-scheduler, 7 under
coscheduling.
"""

import argparse
import asyncio
import statistics
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from bench.live import load, processes
from bench.report import report
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.kube.errors import KubeError
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from fairlead.model.event import Event, PodSeen
from fairlead.model.pod import PodPhase
from fairlead.runtime import eventloop

NODES, CORES = 8, 3
SIZES = (2, 3, 4, 5, 6)
CLOGGED = 20.0
"""Seconds in which no gang completes and nothing is going on: then none ever will."""
JOBS = f"/apis/batch/v1/namespaces/{load.NAMESPACE}/jobs"
GANG = "bench.example.com/gang"
FOR_EVER = {"fairlead.dev/run-time": "24h"}
"""Told to the fake kubelet, which else ends the pods of a Job after a second."""
_SUCCEEDED = msgspec.json.encode({"status": {"phase": "Succeeded"}})


class Gang(NamedTuple):
    name: str
    size: int


class Result(NamedTuple):
    """Seconds from the submission of all gangs to the end of each gang that completed."""

    gangs: list[Gang]
    ended: dict[str, float]
    pending: int

    @property
    def makespan(self) -> float:
        return max(self.ended.values(), default=0.0)

    def mean(self, size: int) -> float | None:
        """Of the gangs of this size that completed."""
        times = [self.ended[g.name] for g in self.gangs if g.size == size and g.name in self.ended]
        return statistics.mean(times) if times else None


def workload(run: str, iterations: int) -> list[Gang]:
    """One gang of each size in every iteration."""
    return [Gang(f"{run}-{i:02d}-{size}", size) for i in range(iterations) for size in SIZES]


def job_of(gang: Gang, scheduler: str, run: str) -> dict[str, Any]:
    """A Job with a pod per node. To Fairlead a Job is a gang as it stands: no label of its own is needed."""
    pod = load.pod(gang.name, scheduler, run, {GANG: gang.name})
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(CORES)
    template = {
        "metadata": {"labels": pod["metadata"]["labels"], "annotations": FOR_EVER},
        "spec": {**pod["spec"], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": gang.name, "labels": {"bench": run}},
        "spec": {"parallelism": gang.size, "completions": gang.size, "template": template},
    }


async def submit(client: ApiClient, jobs: list[dict[str, Any]]) -> None:
    """All at once."""
    await asyncio.gather(*(client.post(JOBS, msgspec.json.encode(each), timeout=60) for each in jobs))


async def remove(client: ApiClient, run: str) -> None:
    """The Jobs of a run, then its pods: else new ones would come."""
    body = msgspec.json.encode(
        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    )
    await client.request("DELETE", JOBS, body, params={"labelSelector": f"bench={run}"}, timeout=120)
    await load.clear(client, run)


class Controller:
    """Ends the pods of a gang once all have run together for `hold` seconds; an Inbox for a reflector."""

    def __init__(self, client: ApiClient, gangs: Sequence[Gang], hold: float) -> None:
        self.ended: dict[str, float] = {}
        self.changed = time.perf_counter()
        self._client, self._hold = client, hold
        self._sizes = {gang.name: gang.size for gang in gangs}
        self._running: dict[str, set[str]] = defaultdict(set)
        self._bound: set[str] = set()
        self._holding: dict[str, asyncio.Task[None]] = {}

    @property
    def pending(self) -> int:
        """Pods that have no node."""
        return sum(self._sizes.values()) - len(self._bound)

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            if not isinstance(event, PodSeen):
                continue
            pod, gang = event.pod, event.pod.labels.get(GANG, "")
            if gang not in self._sizes:
                continue
            if pod.node and pod.name not in self._bound:
                self._bound.add(pod.name)
                self.changed = time.perf_counter()
            if pod.phase is PodPhase.RUNNING:
                self._running[gang].add(pod.name)
            if len(self._running[gang]) == self._sizes[gang] and gang not in self._holding:
                self._holding[gang] = asyncio.get_running_loop().create_task(self._complete(gang))

    async def _complete(self, gang: str) -> None:
        await asyncio.sleep(self._hold)
        await asyncio.gather(*(self._end(name) for name in sorted(self._running[gang])))
        self.ended[gang] = self.changed = time.perf_counter()

    async def _end(self, name: str) -> None:
        path = f"/api/v1/namespaces/{load.NAMESPACE}/pods/{name}/status"
        while True:
            with suppress(KubeError):
                await self._client.patch(path, _SUCCEEDED, timeout=30)
                return
            await asyncio.sleep(0.1)

    async def settled(self, patience: float) -> None:
        """Until all gangs have completed, or nothing has happened for so long."""
        while len(self.ended) < len(self._sizes) and time.perf_counter() - self.changed < patience:
            await asyncio.sleep(0.05)


async def one(
    cluster: Cluster, scheduler: str, iterations: int, hold: float, patience: float = CLOGGED
) -> Result:
    """Submit everything at once and see what completes."""
    run = f"g{uuid.uuid4().hex[:6]}"
    gangs = workload(run, iterations)
    client = ApiClient(load_kubeconfig(cluster.kubeconfig), connections=96, request_timeout=60)
    try:
        controller = Controller(client, gangs, hold)
        watching = asyncio.create_task(Reflector(client, PODS, controller, SyncGate((PODS,)), {}).run())
        begun = time.perf_counter()
        await submit(client, [job_of(gang, scheduler, run) for gang in gangs])
        await controller.settled(patience + hold)
        watching.cancel()
        await remove(client, run)
    finally:
        await client.close()
    ended = {name: at - begun for name, at in controller.ended.items()}
    return Result(gangs, ended, controller.pending)


def compare(cluster: Cluster, iterations: int, hold: float, patience: float = CLOGGED) -> dict[str, Result]:
    """The same workload through the cluster's own kube-scheduler, and then through Fairlead.

    `patience`: seconds of silence after which kube-scheduler is clogged. Fairlead has no less than usual.
    """
    results: dict[str, Result] = {}
    for name, scheduler, start, silence in (
        ("kube-scheduler", "default-scheduler", processes.kube_scheduler, patience),
        ("fairlead", "fairlead", processes.fairlead, max(patience, CLOGGED)),
    ):
        cluster.stop("kube-scheduler")
        with start(cluster):
            results[name] = eventloop.run(one(cluster, scheduler, iterations, hold, silence))
        print(f"{name}: {len(results[name].ended)} of {len(results[name].gangs)} gangs completed", flush=True)
    return results


def _ratio(completed: int, stock: int) -> str:
    if stock:
        return f"{completed / stock:.1f}"
    return f"{completed} to none" if completed else "–"


def rows(results: dict[str, Result]) -> list[dict[str, str]]:
    """One line per scheduler; the ratio is of what completed to what the stock scheduler completed."""
    stock = len(results["kube-scheduler"].ended)
    found: list[dict[str, str]] = []
    for name, result in results.items():
        means = {f"mean s of {size}": result.mean(size) for size in SIZES}
        found.append(
            {
                "scheduler": name,
                "completed": f"{len(result.ended)} of {len(result.gangs)}",
                "pods without a node": str(result.pending),
                "makespan s": f"{result.makespan:.1f}" if result.ended else "–",
                **{key: "–" if mean is None else f"{mean:.1f}" for key, mean in means.items()},
                "ratio": _ratio(len(result.ended), stock),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--hold", type=float, default=2.0)
    options = parser.parse_args()
    name = f"bench-{uuid.uuid4().hex[:6]}"
    shape = NodeShape(cpu=str(CORES))
    try:
        cluster = bring_up(UpOptions(name=name, nodes=NODES, shape=shape, kube_scheduler=True))
        results = compare(cluster, options.iterations, options.hold)
    finally:
        bring_down(name)
    ours = results["fairlead"]
    least = sum(gang.size for gang in ours.gangs) * options.hold / NODES
    notes = (
        "Times are from the submission of all gangs to the end of each, of those that completed; nothing "
        f"could be done in less than {least:.0f} s. Who did nothing more for {CLOGGED:.0f} s is clogged. "
        f"Fairlead, all gangs: {'held' if len(ours.ended) == len(ours.gangs) else 'MISSED'}."
    )
    command = f"python -m bench.gangs --iterations {options.iterations} --hold {options.hold:g}"
    report("gangs", command, rows(results), notes)


if __name__ == "__main__":
    main()
