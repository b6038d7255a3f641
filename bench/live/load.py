"""Creating pods as fast as the API server takes them, and watching until all are bound.

Used by `bench.live` in its own process; its cost is the same for every scheduler measured.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from fairlead.kube.client import ApiClient
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.event import Event, PodSeen

NAMESPACE = "default"
IN_FLIGHT = 64


class Sample(NamedTuple):
    """Seconds from the first create to the last bound pod, and of each pod from its create to its bind."""

    seconds: float
    latencies: list[float]


def pod(name: str, scheduler: str, run: str, labels: dict[str, str]) -> dict[str, Any]:
    """A single-cpu pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"bench": run, **labels}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
            ],
        },
    }


async def create(client: ApiClient, pods: list[dict[str, Any]], created: dict[str, float]) -> None:
    """In order of the list, IN_FLIGHT at a time."""
    waiting = iter(pods)

    async def worker() -> None:
        for each in waiting:
            body = msgspec.json.encode(each)
            created[each["metadata"]["name"]] = time.perf_counter()
            await client.post(f"/api/v1/namespaces/{NAMESPACE}/pods", body, timeout=60)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


class Watch:
    """Notes when each pod of the run is first seen on a node; an Inbox for Fairlead's own reflector.

    A reflector and not one bare watch, because an API server ends watches that fall behind, and on two
    cores they do.
    """

    def __init__(self, run: str, wanted: int) -> None:
        self.bound: dict[str, float] = {}
        self.done = asyncio.Event()
        self._run, self._wanted = run, wanted

    def put(self, events: Sequence[Event]) -> None:
        now = time.perf_counter()
        for event in events:
            if isinstance(event, PodSeen) and event.pod.node and event.pod.labels.get("bench") == self._run:
                self.bound.setdefault(event.pod.name, now)
        if len(self.bound) >= self._wanted:
            self.done.set()


async def run_load(client: ApiClient, run: str, pods: list[dict[str, Any]], timeout: float = 300) -> Sample:
    """Create the pods and wait until all are bound."""
    created: dict[str, float] = {}
    watch = Watch(run, len(pods))
    reflector = asyncio.create_task(Reflector(client, PODS, watch, SyncGate((PODS,)), {}).run())
    await asyncio.sleep(0.5)
    begun = time.perf_counter()
    try:
        await create(client, pods, created)
        await asyncio.wait_for(watch.done.wait(), timeout)
    except TimeoutError:
        raise SystemExit(f"{run}: only {len(watch.bound)} of {len(pods)} pods bound in {timeout} s") from None
    finally:
        reflector.cancel()
    latencies = sorted(watch.bound[name] - created[name] for name in created)
    return Sample(max(watch.bound.values()) - begun, latencies)


_WRITE = re.compile(rb'^apiserver_request_total\{[^}]*verb="(?:POST|PUT|PATCH|DELETE)"[^}]*\} (\S+)$', re.M)


async def writes(client: ApiClient) -> float:
    """Write requests that the API server has answered so far, whoever sent them."""
    return sum(float(count) for count in _WRITE.findall(await client.get("/metrics")))


async def clear(client: ApiClient, run: str) -> None:
    """Delete the run's pods at once and wait until they are gone."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    selector = {"labelSelector": f"bench={run}"}
    body = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    await client.request("DELETE", path, body, params=selector, timeout=120)
    while True:
        left = msgspec.json.decode(await client.get(path, params={**selector, "limit": "1"}))
        if not left["items"]:
            return
        await asyncio.sleep(0.5)
