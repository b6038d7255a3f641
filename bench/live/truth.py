"""How soon capacity is back after the watch has told that a pod is over, on a real control plane.

Run: python -m bench.live.truth [--nodes 100]. On each node run five pods of 1, 2, 4, 8 and 16 cpu, so what
the scheduler says is used of a node tells which of them it takes to be there. They end (succeeded, failed,
deleted; ours and another scheduler's) over some ten seconds. Two clocks of one process: an independent watch
of the API server notes when it hears of each, and /api/v1/nodes of the scheduler, asked again and again,
tells when its amounts have changed. What lies between is an upper bound: it has the way of the answer and the
pause between two of them in it (`poll ms`). Bound of the issue: p99 within a second.
"""

import argparse
import asyncio
import random
import statistics
import time
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiohttp
import msgspec

from bench.live import load, processes
from bench.report import report
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import NodeShape, UpOptions, bring_down, bring_up
from fairlead.model.event import Event, PodGone, PodSeen
from fairlead.model.view import NodePage
from fairlead.runtime import eventloop

SIZES = (1, 2, 4, 8, 16)
BOUND = 1.0
PAUSE = 0.005
PATIENCE = 120.0
Times = dict[str, float]
"""Pod -> when."""


class Case(NamedTuple):
    """How the pods come and end. `by_hand`: deleted one after the other, as they never end by themselves."""

    title: str
    ours: bool
    outcome: str = ""
    by_hand: bool = False


CASES = (
    Case("succeeded", True),
    Case("failed", True, "Failed"),
    Case("deleted", True, by_hand=True),
    Case("others' ended", False),
    Case("others' deleted", False, by_hand=True),
)


def manifest(case: Case, run: str, node: str, size: int, seconds: float) -> dict[str, Any]:
    pod = load.pod(f"{run}-{node}-{size}", "fairlead" if case.ours else "somebody", run, {})
    spec, notes = pod["spec"], {"fairlead.dev/run-time": f"{3600 if case.by_hand else seconds:.1f}s"}
    pod["metadata"]["annotations"] = notes | (
        {"fairlead.dev/run-outcome": case.outcome} if case.outcome else {}
    )
    spec["restartPolicy"] = "Never"
    spec["containers"][0]["resources"]["requests"]["cpu"] = str(size)
    spec |= {"nodeSelector": {"kubernetes.io/hostname": node}} if case.ours else {"nodeName": node}
    return pod


class Watch:
    """When each pod of the run was first seen on its node, and first seen to be over: a reflector's Inbox."""

    def __init__(self, run: str) -> None:
        self.come: Times = {}
        self.over: Times = {}
        self._run = run
        self._names: dict[str, str] = {}

    def put(self, events: Sequence[Event]) -> None:
        now = time.perf_counter()
        for event in events:
            if isinstance(event, PodSeen) and event.pod.labels.get("bench") == self._run:
                self._names[event.pod.uid] = event.pod.name
                if event.pod.ended:
                    self.over.setdefault(event.pod.name, now)
                elif event.pod.node:
                    self.come.setdefault(event.pod.name, now)
            elif isinstance(event, PodGone) and event.uid in self._names:
                self.over.setdefault(self._names[event.uid], now)


class Look:
    """When the scheduler was first seen to count each pod, and no more."""

    def __init__(self, run: str, url: str) -> None:
        self.come: Times = {}
        self.over: Times = {}
        self.intervals: list[float] = []
        self._run, self._url = run, url

    async def again_and_again(self) -> None:
        last = time.perf_counter()
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self._url}/api/v1/nodes") as answer:
                    page = msgspec.json.decode(await answer.read(), type=NodePage)
                now = time.perf_counter()
                self.intervals.append(now - last)
                last = now
                self._learn(page, now)
                await asyncio.sleep(PAUSE)

    def _learn(self, page: NodePage, now: float) -> None:
        for node in page.nodes:
            used = next((use.used for use in node.resources if use.name == "cpu"), 0) // 1000
            for size in SIZES:
                name = f"{self._run}-{node.name}-{size}"
                if used & size:
                    self.come.setdefault(name, now)
                elif name in self.come:
                    self.over.setdefault(name, now)


async def until(told: Times, names: Sequence[str], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not all(name in told for name in names):
        if time.monotonic() > deadline:
            missing = [name for name in names if name not in told]
            raise SystemExit(f"{len(missing)} of {len(names)} pods are not {what}, among them {missing[0]}")
        await asyncio.sleep(0.05)


async def delete(client: ApiClient, names: Sequence[str]) -> None:
    """One after the other, over some ten seconds."""
    body = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    for name in names:
        await client.request("DELETE", f"/api/v1/namespaces/{load.NAMESPACE}/pods/{name}", body, timeout=60)
        await asyncio.sleep(10 / len(names))


async def measure(client: ApiClient, url: str, nodes: Sequence[str], case: Case) -> list[dict[str, str]]:
    run, chance = f"t{uuid.uuid4().hex[:7]}", random.Random(1)
    pods = [manifest(case, run, node, size, chance.uniform(10, 20)) for node in nodes for size in SIZES]
    chance.shuffle(pods)
    names = [pod["metadata"]["name"] for pod in pods]
    watch, look = Watch(run), Look(run, url)
    tasks = [
        asyncio.create_task(Reflector(client, PODS, watch, SyncGate((PODS,)), {}).run()),
        asyncio.create_task(look.again_and_again()),
    ]
    try:
        await asyncio.sleep(1)
        await load.create(client, pods, {})
        await until(look.come, names, "counted")
        if case.by_hand:
            await delete(client, names)
        await until(look.over, names, "given back")
    finally:
        for task in tasks:
            task.cancel()
    poll = statistics.median(look.intervals)
    rows = [_row(case.title, names, watch.over, look.over, poll)]
    if case.title == "others' ended":
        rows.append(_row("others' came", names, watch.come, look.come, poll))
    await load.clear(client, run)
    return rows


def _row(title: str, names: Sequence[str], told: Times, known: Times, poll: float) -> dict[str, str]:
    delays = sorted(max(known[name] - told[name], 0.0) for name in names)
    p99 = delays[len(delays) * 99 // 100]
    row = {
        "pods": title,
        "count": str(len(names)),
        "p50 ms": f"{statistics.median(delays) * 1e3:.1f}",
        "p99 ms": f"{p99 * 1e3:.1f}",
        "max ms": f"{delays[-1] * 1e3:.1f}",
        "bound ms": f"{BOUND * 1e3:.0f}",
        "p99 / bound": f"{p99 / BOUND:.3f}",
        "held": "yes" if p99 <= BOUND else "NO",
        "poll ms": f"{poll * 1e3:.1f}",
    }
    print(row, flush=True)
    return row


async def main_loop(url: str, kubeconfig: str, nodes: Sequence[str]) -> list[dict[str, str]]:
    client = ApiClient(load_kubeconfig(kubeconfig), request_timeout=60)
    try:
        return [row for case in CASES for row in await measure(client, url, nodes, case)]
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    options = parser.parse_args()
    name = f"bench-{uuid.uuid4().hex[:6]}"
    try:
        cluster = bring_up(UpOptions(name=name, nodes=options.nodes, shape=NodeShape(cpu=str(2 * SIZES[-1]))))
        with processes.fairlead(cluster) as running:
            nodes = [f"node-{i:04d}" for i in range(options.nodes)]
            rows = eventloop.run(main_loop(running.url, str(cluster.kubeconfig), nodes))
    finally:
        bring_down(name)
    notes = (
        "From the event of an independent watch to the amounts that the scheduler's API shows; the way of "
        "the answer and the pause between two of them (poll ms) are part of it."
    )
    report("truth, live", f"python -m bench.live.truth --nodes {options.nodes}", rows, notes)


if __name__ == "__main__":
    main()
