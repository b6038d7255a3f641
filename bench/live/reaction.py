"""How fast single pods are answered: quiet, while ten thousand others pour in, and when they are impossible.

Run: python -m bench.live.reaction [--nodes 1000] [--burst 10000]. Bounds of the issue: a burst of 10,000
pods leaves the p99 of bind latency within 2 x of the quiet run; an impossible group is called so with
p99 < 200 ms. The burst's pods wait for members that never come, so that they load queue and watch but are
not ahead of anybody. The null scheduler under the same burst tells what part of it is the API server's;
`decided` is Fairlead's own part: from the first sight of the pod to its grant, by its own clock.
"""

import argparse
import asyncio
import contextlib
import json
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from bench.live import load, processes
from bench.report import report
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.model.event import Event, PodSeen
from fairlead.model.pod import Pod
from fairlead.runtime import eventloop

STREAM = 200
PERIOD = 0.05
Starter = Callable[[Cluster], contextlib.AbstractContextManager[processes.Running]]


class Answers:
    """When each pod of the stream was answered: an Inbox for the reflector."""

    def __init__(self, run: str, answered: Callable[[Pod], bool]) -> None:
        self.at: dict[str, float] = {}
        self._run, self._answered = run, answered

    def put(self, events: Sequence[Event]) -> None:
        now = time.perf_counter()
        for event in events:
            if not isinstance(event, PodSeen) or event.pod.labels.get("bench") != self._run:
                continue
            if self._answered(event.pod):
                self.at.setdefault(event.pod.name, now)


async def stream(
    client: ApiClient, run: str, scheduler: str, cpu: str, answered: Callable[[Pod], bool]
) -> list[float]:
    """One pod every PERIOD seconds; seconds from each create's answer to its decision, sorted."""
    answers = Answers(run, answered)
    reflector = asyncio.create_task(Reflector(client, PODS, answers, SyncGate((PODS,)), {}).run())
    await asyncio.sleep(1)
    created: dict[str, float] = {}
    for i in range(STREAM):
        pod = load.pod(f"{run}-{i}", scheduler, run, {})
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        await client.post(f"/api/v1/namespaces/{load.NAMESPACE}/pods", msgspec.json.encode(pod), timeout=60)
        created[f"{run}-{i}"] = time.perf_counter()
        await asyncio.sleep(PERIOD)
    deadline = time.monotonic() + 120
    while len(answers.at) < STREAM and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    reflector.cancel()
    if len(answers.at) < STREAM:
        raise SystemExit(f"{run}: only {len(answers.at)} of {STREAM} pods were answered")
    return sorted(max(answers.at[name] - at, 0.0) for name, at in created.items())


async def pour(client: ApiClient, run: str, scheduler: str, count: int) -> None:
    """The burst: pods of groups that stay incomplete (for the null scheduler: of somebody else's)."""
    name = scheduler if scheduler == "fairlead" else "nobody"
    pods: list[dict[str, Any]] = []
    for i in range(count):
        labels = {"fairlead.dev/group": f"{run}-{i}", "fairlead.dev/group-size": "2"}
        pods.append(load.pod(f"{run}-{i:05d}", name, run, labels))
    await load.create(client, pods, {})


def decided(url: str, run: str) -> str:
    """p99 of the milliseconds from first sight to grant (or rejection), from the scheduler itself."""
    with urllib.request.urlopen(f"{url}/api/v1/queue?all=true&limit=0", timeout=60) as answer:
        rows = json.load(answer)["groups"]
    mine = [row for row in rows if row["name"].startswith(run)]
    times = sorted((row.get("granted_at") or row["ended_at"]) - row["first_seen"] for row in mine)
    return str(times[len(times) * 99 // 100])


async def one(
    cluster: Cluster, start: Starter, scheduler: str, cpu: str, burst: int
) -> tuple[list[float], str]:
    run, noise = f"s{uuid.uuid4().hex[:7]}", f"n{uuid.uuid4().hex[:7]}"
    answered: Callable[[Pod], bool] = lambda pod: bool(pod.node)  # noqa: E731
    if cpu != "1":
        answered = lambda pod: pod.condition == "False/Unschedulable"  # noqa: E731
    client = ApiClient(load_kubeconfig(cluster.kubeconfig), connections=160, request_timeout=60)
    try:
        with start(cluster) as running:
            pouring = asyncio.create_task(pour(client, noise, scheduler, burst))
            await asyncio.sleep(1)
            result = await stream(client, run, scheduler, cpu, answered)
            own = await asyncio.to_thread(decided, running.url, run) if running.url else ""
            await pouring
        await load.clear(client, run)
        if burst:
            await load.clear(client, noise)
        return result, own
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--burst", type=int, default=10_000)
    options = parser.parse_args()
    fairlead = partial(processes.fairlead, options=("--pod-events", "off"))
    cases: list[tuple[str, Starter, str, str, int]] = [
        ("null, quiet", processes.null, "null", "1", 0),
        ("null, burst", processes.null, "null", "1", options.burst),
        ("fairlead, quiet", fairlead, "fairlead", "1", 0),
        ("fairlead, burst", fairlead, "fairlead", "1", options.burst),
        ("fairlead, impossible", fairlead, "fairlead", "1000", 0),
    ]
    name = f"bench-{uuid.uuid4().hex[:6]}"
    p99: dict[str, float] = {}
    rows: list[dict[str, str]] = []
    try:
        cluster = bring_up(UpOptions(name=name, nodes=options.nodes))
        for title, start, scheduler, cpu, burst in cases:
            times, own = eventloop.run(one(cluster, start, scheduler, cpu, burst))
            p99[title] = times[len(times) * 99 // 100]
            verdict = ""
            if title.endswith("burst"):
                ratio = p99[title] / p99[title.replace("burst", "quiet")]
                verdict = f"{ratio:.1f} × quiet (≤ 2: {'held' if ratio <= 2 else 'MISSED'})"
            elif title.endswith("impossible"):
                verdict = f"≤ 200 ms: {'held' if p99[title] <= 0.2 else 'MISSED'}"
            middle = times[len(times) // 2]
            rows.append(
                {
                    "case": title,
                    "p50 ms": f"{middle * 1e3:.0f}",
                    "p99 ms": f"{p99[title] * 1e3:.0f}",
                    "decided p99 ms": own,
                    "bound": verdict,
                }
            )
            print(rows[-1], flush=True)
    finally:
        bring_down(name)
    command = f"python -m bench.live.reaction --nodes {options.nodes} --burst {options.burst}"
    report("reaction", command, rows)


if __name__ == "__main__":
    main()
