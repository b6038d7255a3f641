"""A scheduler inside the test's own process on a real API server, whose watch can be made to lose events.

So a test can look at the live state and compare it with the cluster at any moment. The store is in memory.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.kube.config import load
from fairlead.kube.port import KubePort
from fairlead.kube.things import SOURCE
from fairlead.localcluster import Cluster
from fairlead.model import quantity
from fairlead.model.audit import Report
from fairlead.model.command import Command
from fairlead.model.esi import SCHEDULER
from fairlead.model.event import Event
from fairlead.model.settings import Settings
from fairlead.runtime.audit import GRACE, Auditor
from fairlead.runtime.clock import Clock
from fairlead.runtime.loop import Loop
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.planner import Planner
from fairlead.runtime.port import Inbox
from fairlead.store.memory import MemoryStore
from live import pod

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
FAKE = {"kwok.x-k8s.io/node": "fake"}
Object = dict[str, Any]


class Lossy:
    """The Kubernetes port; events for which `loses` is true never arrive, the others `delay` seconds late."""

    def __init__(self, port: KubePort) -> None:
        self.port, self.handles = port, port.handles
        self.loses: Callable[[Event], bool] = lambda _: False
        self.lost: list[Event] = []
        self.delay = 0.0
        self._inbox: Inbox | None = None

    async def run(self, inbox: Inbox) -> None:
        self._inbox = inbox
        await self.port.run(self)

    def put(self, events: Sequence[Event]) -> None:
        assert self._inbox is not None
        self.lost += (lost := [event for event in events if self.loses(event)])
        kept = [event for event in events if event not in lost]
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self._inbox.put, kept)
        else:
            self._inbox.put(kept)

    def perform(self, commands: Sequence[Command]) -> None:
        self.port.perform(commands)

    async def close(self) -> None:
        await self.port.close()


class Inside:
    """The scheduler, and short ways to do things to its cluster, in a namespace of its own. With `esi` it
    serves external schedulers."""

    def __init__(self, cluster: Cluster, namespace: str, grace: float = GRACE, esi: bool = False) -> None:
        self.cluster, self.namespace = cluster, namespace
        settings = Settings(aliases=(SCHEDULER,) if esi else ())
        self.engine = Engine(structs.replace(settings, sources=(*settings.sources, SOURCE)), RECONCILERS)
        self.metrics = Metrics()
        self.kube = Lossy(KubePort(load(cluster.kubeconfig), esi=esi, registry=self.metrics.registry))
        clock = Clock()
        self.auditor = Auditor(
            self.engine.state, self.kube.port.relist, self.metrics, interval=0, grace=grace, clock=clock
        )
        ports = (MemoryStore(now=clock.now), self.kube, Planner(), self.auditor)
        self.loop = Loop(self.engine, ports, clock, None, (self.auditor.batch,))

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def jobs_path(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    # -- the cluster ---------------------------------------------------------------------------------

    async def api(self, method: str, path: str, body: object = None, content: str = MERGE) -> Any:
        """The answer; a refusal is None, for random operations meet what is gone already."""
        content = content if method == "PATCH" else "application/json"
        answer = await asyncio.to_thread(self.cluster.client.request, method, path, body, content)
        assert answer.status, answer.reason()
        return answer.json() if answer.ok else None

    async def done(self, method: str, path: str, body: object = None, content: str = MERGE) -> Any:
        """The same where it must be carried out."""
        answer = await self.api(method, path, body, content)
        assert answer is not None, f"{method} {path} was refused"
        return answer

    async def ours(self, name: str, cpu: str = "2", **more: Any) -> None:
        """A pod of Fairlead's, once it runs."""
        await self.done("POST", self.pods_path, pod(name, cpu=cpu, run="1h", **more))
        await self.running(name)

    async def foreign(self, name: str, node: str, cpu: str = "2") -> None:
        """A pod of another scheduler's, once it runs: bound as kube-scheduler binds."""
        body = pod(name, cpu=cpu, run="1h")
        body["spec"]["schedulerName"] = "somebody-else"
        await self.done("POST", self.pods_path, body)
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        await self.done("POST", f"{self.pods_path}/{name}/binding", target)
        await self.running(name)

    async def running(self, name: str) -> Object:
        async def look() -> Object | None:
            found = await self.api("GET", f"{self.pods_path}/{name}")
            return found if found and found["status"]["phase"] == "Running" else None

        return await self.until(look, f"{name} to run")

    async def join(self, name: str, cpu: str = "8") -> None:
        """A new node, once Fairlead knows it to be ready."""
        amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name}
        node = {
            "metadata": {"name": name, "labels": labels, "annotations": FAKE},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await self.done("POST", "/api/v1/nodes", node)

        async def look() -> bool:
            found = self.engine.state.inventory.node(name)
            return found is not None and found.ready and not found.taints

        await self.until(look, f"{name} to join")

    async def status(self, name: str, **fields: Any) -> None:
        """What its kubelet says of the pod."""
        await self.done("PATCH", f"{self.pods_path}/{name}/status", {"status": fields})

    # -- what the scheduler sees ---------------------------------------------------------------------

    def used(self, node: str) -> int:
        """Millicores that Fairlead takes for used."""
        inventory = self.engine.state.inventory
        at = inventory.resources["cpu"], inventory.rows[node]
        return int(inventory.capacity[at] - inventory.free[at])

    def knows(self, name: str) -> str:
        """The uid of the pod as far as Fairlead knows it, else ""."""
        found = (
            p for p in self.engine.state.pods.values() if (p.namespace, p.name) == (self.namespace, name)
        )
        return next((pod.uid for pod in found), "")

    async def until(self, look: Callable[[], Any], what: str, patience: float = 120.0) -> Any:
        """The first true answer; fails after far more time than it can need."""
        try:
            async with asyncio.timeout(patience):
                while not (found := await look()):
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"waited {patience:.0f} s in vain for {what}") from None
        return found

    async def until_used(self, node: str, cpu: int) -> None:
        async def look() -> bool:
            return self.used(node) == cpu

        await self.until(look, f"{node} to have {cpu}m in use")

    async def at_rest(self) -> Report:
        """An audit during which nothing moved."""

        async def look() -> Report | None:
            report = await self.auditor.audit()
            assert report.result == "clean", [report.error, *report.differences]
            return report if not report.moved else None

        return await self.until(look, "the cluster to come to rest")

    async def counted(self) -> dict[str, int]:
        """Millicores in use by node, added up here from the API server's own words."""
        used: dict[str, int] = {}
        for each in (await self.done("GET", "/api/v1/pods"))["items"]:
            node, phase = each["spec"].get("nodeName"), each["status"]["phase"]
            if node and phase not in ("Succeeded", "Failed"):
                asks = [c.get("resources", {}).get("requests", {}) for c in each["spec"]["containers"]]
                used[node] = used.get(node, 0) + sum(quantity.milli(ask.get("cpu", "0")) for ask in asks)
        return used


@contextlib.asynccontextmanager
async def inside(cluster: Cluster, **options: Any) -> AsyncIterator[Inside]:
    """A scheduler that is ready; in the end its namespace has no pods."""
    namespace = f"inside-{secrets.token_hex(4)}"
    found = Inside(cluster, namespace, **options)
    await found.done("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    account = {"metadata": {"name": "default"}}
    await found.api("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    running = asyncio.create_task(found.loop.run())

    async def ready() -> bool:
        assert not running.done(), running.result()
        return found.engine.state.ready

    async def empty() -> bool:
        return not (await found.done("GET", found.pods_path))["items"]

    try:
        await found.until(ready, "the scheduler to be ready")
        yield found
    finally:
        background = {"propagationPolicy": "Background"}
        await found.api("DELETE", found.jobs_path, background)
        await found.api("DELETE", found.pods_path, {"gracePeriodSeconds": 0})
        await found.until(empty, "the namespace to be empty")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
