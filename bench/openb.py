"""A production cluster's pods as a load for the live scheduler: nodes and pods of Alibaba's openb trace.

Run: python -m bench.openb --data FOLDER [--pods 2000] [--minutes 2]. FOLDER holds
openb_node_list_all_node.csv and openb_pod_list_default.csv, as they are or .xz; nothing of them is shipped.
The last `--pods` arrivals are played with time compressed so that they arrive within `--minutes`; run times
shrink alike. A shared GPU counts as a whole one. It prints what became of them and how long they waited, and
asserts that no node was ever given more than it has.
"""

import argparse
import asyncio
import contextlib
import csv
import lzma
import pathlib
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from bench.live import load, processes
from bench.report import report
from fairlead.core.inventory import Inventory
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.kube.translate import NODES, PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import UpOptions, bring_down, bring_up
from fairlead.model.event import Event, NodeSeen, PodGone, PodSeen
from fairlead.runtime import eventloop

MODEL = "fairlead.dev/gpu-model"
_NODES, _PODS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"


class Arrival(NamedTuple):
    """Seconds of compressed time from the start, and the manifest."""

    at: float
    pod: dict[str, Any]


def find(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / name, folder / f"{name}.xz"):
        if path.exists():
            return path
    raise SystemExit(f"{folder}: no {name} (or .xz) there; name the folder with --data")


def arrivals(folder: pathlib.Path, run: str, count: int, seconds: float) -> list[Arrival]:
    path = find(folder, _PODS)
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda r: (int(r["creation_time"]), r["name"]))[-count:]
    first, last = (int(rows[i]["creation_time"]) for i in (0, -1))
    shrink = seconds / max(last - first, 1)
    return [Arrival((int(r["creation_time"]) - first) * shrink, manifest(r, run, shrink)) for r in rows]


def manifest(row: dict[str, str], run: str, shrink: float) -> dict[str, Any]:
    begin = int(float(row["scheduled_time"] or row["creation_time"]))
    length = max((int(row["deletion_time"]) - begin) * shrink, 1.0)
    pod = load.pod(f"{run}-{row['name']}", "fairlead", run, {})
    pod["metadata"]["annotations"] = {"fairlead.dev/run-time": f"{length:.1f}s"}
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    resources: dict[str, Any] = {"requests": requests}
    if int(row["num_gpu"]):
        requests["nvidia.com/gpu"] = row["num_gpu"]
        resources["limits"] = {"nvidia.com/gpu": row["num_gpu"]}
    pod["spec"]["containers"][0]["resources"] = resources
    if row["gpu_spec"]:
        wanted = {"key": MODEL, "operator": "In", "values": row["gpu_spec"].split("|")}
        term = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    return pod


class Truth:
    """The cluster as an outsider sees it: every node's sum is checked whenever a pod lands on it."""

    def __init__(self, run: str) -> None:
        self.phases: dict[str, str] = {}
        self.waits: list[float] = []
        self.created: dict[str, float] = {}
        self.most = 0
        self._run = run
        self._inventory = Inventory()
        self._names: dict[str, str] = {}

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case NodeSeen(node):
                    self._inventory.put(node)
                case PodSeen(pod) if pod.labels.get("bench") == self._run:
                    self._seen(pod.uid, pod.name, pod.node, pod.shape.requests, pod.ended, pod.phase)
                case PodGone(uid):
                    self._inventory.release(uid)
                case _:
                    pass

    def _seen(self, uid: str, name: str, node: str, requests: Any, ended: bool, phase: str) -> None:
        if not node:
            self.phases[name] = "Waiting"
            return
        if self.phases.get(name) in (None, "Waiting"):
            self.waits.append(time.perf_counter() - self.created.get(name, time.perf_counter()))
        self.phases[name] = phase
        if ended:
            self._inventory.release(uid)
            return
        self._inventory.hold(uid, node, requests)
        row = self._inventory.rows[node]
        assert (self._inventory.free[:, row] >= 0).all(), f"{node} was given more than it has"
        self.most = max(self.most, len(self._inventory.held))


async def play(client: ApiClient, truth: Truth, plan: list[Arrival]) -> None:
    begun = time.perf_counter()
    slots = asyncio.Semaphore(load.IN_FLIGHT)

    async def create(pod: dict[str, Any]) -> None:
        async with slots:
            body = msgspec.json.encode(pod)
            await client.post(f"/api/v1/namespaces/{load.NAMESPACE}/pods", body, timeout=60)
            truth.created[pod["metadata"]["name"]] = time.perf_counter()

    async with asyncio.TaskGroup() as group:
        for arrival in plan:
            await asyncio.sleep(max(arrival.at - (time.perf_counter() - begun), 0))
            group.create_task(create(arrival.pod))


async def run_all(kubeconfig: pathlib.Path, run: str, plan: list[Arrival], patience: float) -> Truth:
    client = ApiClient(load_kubeconfig(kubeconfig), connections=96, request_timeout=60)
    truth = Truth(run)
    kinds = (NODES, PODS)
    gate = SyncGate(kinds)
    watching = [asyncio.create_task(Reflector(client, kind, truth, gate, {}).run()) for kind in kinds]
    await asyncio.sleep(1)
    playing = asyncio.create_task(play(client, truth, plan))
    deadline = time.monotonic() + plan[-1].at + patience
    while time.monotonic() < deadline:
        await asyncio.sleep(5)
        count = Counter(truth.phases.values())
        print(", ".join(f"{n} {phase}" for phase, n in sorted(count.items())), flush=True)
        if playing.done() and not count["Waiting"]:
            break
    await playing
    for task in watching:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*watching)
    await client.close()
    return truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--patience", type=float, default=60.0, help="seconds after the last arrival")
    options = parser.parse_args()
    run = f"o{uuid.uuid4().hex[:7]}"
    plan = arrivals(options.data, run, options.pods, options.minutes * 60)
    name = f"openb-{uuid.uuid4().hex[:6]}"
    start = partial(processes.fairlead, options=("--pod-events", "off", "--match", "pack"))
    try:
        cluster = bring_up(UpOptions(name=name, node_file=str(find(options.data, _NODES))))
        with start(cluster) as running:
            truth = eventloop.run(run_all(cluster.kubeconfig, run, plan, options.patience))
            usage = running.usage()
    finally:
        bring_down(name)
    waits = sorted(truth.waits)
    rows = [
        {
            "pods": str(len(plan)),
            "minutes": f"{options.minutes:g}",
            "outcome": ", ".join(f"{n} {p}" for p, n in sorted(Counter(truth.phases.values()).items())),
            "most at once": str(truth.most),
            "wait p50 ms": f"{waits[len(waits) // 2] * 1e3:.0f}",
            "wait p99 ms": f"{waits[len(waits) * 99 // 100] * 1e3:.0f}",
            "cpu s": f"{usage.cpu:.1f}",
            "MiB": f"{usage.rss >> 20}+{usage.store_rss >> 20}",
        }
    ]
    command = f"python -m bench.openb --data FOLDER --pods {options.pods} --minutes {options.minutes:g}"
    report("openb", command, rows)


if __name__ == "__main__":
    main()
