"""The picture equals the cluster, on a real API server: however pods end, whoever placed them, in any burst.

And where it does not, because the watch lost something, an audit names it and puts it right.
"""

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from inside import FAKE, STRATEGIC, Inside, inside

from fairlead.localcluster import Cluster
from fairlead.model import event as ev
from fairlead.model.audit import Report
from fairlead.runtime.audit import GRACE
from live import FAIRLEAD, Kubectl, Scheduler, job, pod, until

pytestmark = pytest.mark.e2e
NODE = "node-0001"
OTHER = "node-0002"


PATIENT = 30.0
"""Seconds in which even a busy machine's watch tells what a list shows; who is not behind does not wait."""


@pytest.fixture
async def live(small_cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Inside]:
    """Its audits give the watch a lot of time, or as much as the test says."""
    async with inside(small_cluster, grace=getattr(request, "param", PATIENT)) as found:
        yield found


# -- however a pod ends, whoever placed it -----------------------------------------------------------


async def succeeds(live: Inside, name: str) -> None:
    await live.status(name, phase="Succeeded")


async def fails(live: Inside, name: str) -> None:
    await live.status(name, phase="Failed", reason="Error")


async def is_rejected(live: Inside, name: str) -> None:
    await live.status(
        name, phase="Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu"
    )


async def is_deleted(live: Inside, name: str) -> None:
    await live.done("DELETE", f"{live.pods_path}/{name}")


async def is_evicted(live: Inside, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await live.done("POST", f"{live.pods_path}/{name}/eviction", eviction)


ENDS = (succeeds, fails, is_rejected, is_deleted, is_evicted)
End = Callable[[Inside, str], Awaitable[None]]


@pytest.mark.parametrize("end", ENDS)
async def test_D2_capacity_is_back_however_our_pod_ends(live: Inside, end: End) -> None:
    await live.ours("mine")
    node = (await live.running("mine"))["spec"]["nodeName"]
    await live.until_used(node, 2000)
    await end(live, "mine")
    await live.until_used(node, 0)
    report = await live.at_rest()
    assert report.digest_incremental == report.digest_rebuilt


@pytest.mark.parametrize("end", ENDS)
async def test_D3_pods_that_others_placed_take_and_give_capacity(live: Inside, end: End) -> None:
    await live.foreign("web", NODE, cpu="3")
    await live.until_used(NODE, 3000)
    row = next(each for each in (await live.at_rest()).rows if each.name == NODE)
    assert (row.equal, row.here.ours, row.here.others) == (True, 0, 1)
    await end(live, "web")
    await live.until_used(NODE, 0)
    await live.at_rest()


@pytest.mark.parametrize("ours", [True, False])
async def test_D2_D3_a_resize_counts_once_the_kubelet_has_carried_it_out(live: Inside, ours: bool) -> None:
    await (live.ours("mine") if ours else live.foreign("mine", NODE))
    found = await live.running("mine")
    node = found["spec"]["nodeName"]
    states = found["status"]["containerStatuses"]

    async def actuated(cpu: str) -> None:
        now = {"resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        await live.status("mine", containerStatuses=[{**states[0], **now}])

    async def wanted(cpu: str) -> None:
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        await live.done("PATCH", f"{live.pods_path}/mine/resize", {"spec": spec}, STRATEGIC)

    await actuated("2")
    await wanted("1")
    await live.at_rest()
    assert live.used(node) == 2000  # nothing is given back before it is
    await actuated("1")
    await live.until_used(node, 1000)
    await wanted("4")
    await live.until_used(node, 4000)  # and what is wanted is not given to others
    await live.at_rest()


@pytest.mark.timeout(400)
async def test_D2_D3_B21_unknown_pods_hold_their_place_until_their_node_is_lost(live: Inside) -> None:
    await live.join("lost", cpu="6")
    others = [node.name for node in live.engine.state.inventory.nodes if node and node.name != "lost"]
    for name in others:
        await live.done("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    await live.done("POST", live.jobs_path, job("mine", cpu="2", run="1h"))
    await live.foreign("web", "lost", cpu="3")
    await live.until_used("lost", 5000)
    for name in others:
        await live.done("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    (mine,) = [p for p in (await live.done("GET", live.pods_path))["items"] if p["metadata"]["name"] != "web"]
    await live.running(mine["metadata"]["name"])
    for name in (mine["metadata"]["name"], "web"):
        await live.status(name, phase="Unknown", reason="NodeLost")
    await live.at_rest()
    assert live.used("lost") == 5000
    await live.done("DELETE", "/api/v1/nodes/lost")

    async def replaced() -> bool:
        held = {live.engine.state.pods[uid].name: node for uid, (node, _) in _held(live).items()}
        return (
            "web" not in held and mine["metadata"]["name"] not in held and set(held.values()) <= set(others)
        )

    async def runs_again() -> list[Any]:
        pods = (await live.done("GET", live.pods_path))["items"]
        return [
            p for p in pods if p["metadata"]["name"] != mine["metadata"]["name"] and p["spec"].get("nodeName")
        ]

    await live.until(replaced, "the lost pods to be gone", patience=240)
    await live.until(runs_again, "the Job's next pod to be placed")
    await live.at_rest()
    assert live.engine.state.inventory.node("lost") is None


def _held(live: Inside) -> dict[str, Any]:
    """What pods of the test hold."""
    state = live.engine.state
    return {u: at for u, at in state.inventory.held.items() if state.pods[u].namespace == live.namespace}


# -- bursts ------------------------------------------------------------------------------------------


async def test_I2_after_bursts_of_creating_and_deleting_the_picture_is_the_clusters(live: Inside) -> None:
    watching = asyncio.create_task(_audits(live))
    for burst in range(3):
        jobs = [job(f"b{burst}-{i}", pods=3, cpu="500m", run="1h") for i in range(8)]
        await asyncio.gather(*(live.done("POST", live.jobs_path, each) for each in jobs))
        for each in jobs[::2]:
            await asyncio.sleep(0)
            path = f"{live.jobs_path}/{each['metadata']['name']}"
            await live.done("DELETE", path, {"propagationPolicy": "Background"})
    await live.at_rest()
    watching.cancel()
    assert watching.cancelled() or not watching.done() or watching.result() is None
    await until_the_same(live)
    assert sum((await live.counted()).values()) > 0


async def until_the_same(live: Inside) -> None:
    """Until Fairlead counts what the API server has: what happens just now comes by a watch that lags."""

    async def look() -> bool:
        used = await live.counted()
        nodes = [node.name for node in live.engine.state.inventory.nodes if node]
        return all(live.used(name) == used.get(name, 0) for name in nodes)

    await live.until(look, "the picture to be the API server's")


async def _audits(live: Inside, reports: list[Report] | None = None) -> None:
    """Audit all the time; a burst is no difference."""
    while True:
        report = await live.auditor.audit(repair=False)
        assert report.result == "clean", [report.error, *report.differences]
        if reports is not None:
            reports.append(report)
        await asyncio.sleep(0.05)


class Meddler:
    """Random things that happen to a cluster; `draw` decides which."""

    def __init__(self, live: Inside, seed: int) -> None:
        self.live, self.draw, self.count = live, random.Random(seed), 0
        self.joined: list[str] = []

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    async def step(self) -> None:
        verbs = (self.gang, self.gang, self.gang, self.other, self.other, self.delete, self.evict, self.end)
        await self.draw.choice((*verbs, self.drop_job, self.cordon, self.join, self.leave, self.label))()

    async def gang(self) -> None:
        run = self.draw.choice(("300ms", "1s", "1h"))
        pods, cpu = self.draw.randint(1, 4), self.draw.choice(("500m", "1", "2"))
        await self.live.api("POST", self.live.jobs_path, job(self.name("gang"), pods=pods, cpu=cpu, run=run))

    async def other(self) -> None:
        body = pod(self.name("other"), cpu="500m", run=self.draw.choice(("500ms", "1h")))
        body["spec"] |= {"schedulerName": "somebody-else", "nodeName": await self._node()}
        await self.live.api("POST", self.live.pods_path, body)

    async def _node(self) -> str:
        nodes = (await self.live.done("GET", "/api/v1/nodes"))["items"]
        return self.draw.choice(sorted(each["metadata"]["name"] for each in nodes))

    async def _pod(self) -> str:
        names = [
            each["metadata"]["name"] for each in (await self.live.done("GET", self.live.pods_path))["items"]
        ]
        return self.draw.choice(sorted(names)) if names else "nobody"

    async def delete(self) -> None:
        await self.live.api("DELETE", f"{self.live.pods_path}/{await self._pod()}")

    async def evict(self) -> None:
        name = await self._pod()
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await self.live.api("POST", f"{self.live.pods_path}/{name}/eviction", eviction)

    async def end(self) -> None:
        status = {"phase": self.draw.choice(("Succeeded", "Failed"))}
        await self.live.api("PATCH", f"{self.live.pods_path}/{await self._pod()}/status", {"status": status})

    async def drop_job(self) -> None:
        jobs = [
            each["metadata"]["name"] for each in (await self.live.done("GET", self.live.jobs_path))["items"]
        ]
        if jobs:
            path = f"{self.live.jobs_path}/{self.draw.choice(sorted(jobs))}"
            await self.live.api("DELETE", path, {"propagationPolicy": "Background"})

    async def cordon(self) -> None:
        spec = {"unschedulable": self.draw.choice((True, None))}
        await self.live.api("PATCH", f"/api/v1/nodes/{await self._node()}", {"spec": spec})

    async def label(self) -> None:
        labels = {"example.com/drawn": str(self.draw.randint(0, 9))}
        await self.live.api("PATCH", f"/api/v1/nodes/{await self._node()}", {"metadata": {"labels": labels}})

    async def join(self) -> None:
        name, amounts = self.name("late"), {"cpu": "4", "memory": "8Gi", "pods": "20"}
        self.joined.append(name)
        node = {"metadata": {"name": name, "annotations": FAKE}, "status": {"allocatable": amounts}}
        node["status"]["capacity"] = amounts
        await self.live.done("POST", "/api/v1/nodes", node)

    async def leave(self) -> None:
        if self.joined:
            await self.live.done("DELETE", f"/api/v1/nodes/{self.joined.pop()}")

    async def tidy(self) -> None:
        while self.joined:
            await self.leave()
        for node in (await self.live.done("GET", "/api/v1/nodes"))["items"]:
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            await self.live.done("PATCH", path, {"spec": {"unschedulable": None}})


@pytest.mark.parametrize(("seed", "delay"), [(5, 0.0), (6, 0.7)])
async def test_D1_D5_the_picture_equals_the_cluster_whatever_happens(
    live: Inside, seed: int, delay: float
) -> None:
    """Also where the watch lags: for longer than a list takes, for less than the grace of an audit."""
    live.kube.delay = delay
    meddler, reports = Meddler(live, seed), list[Report]()
    watching = asyncio.create_task(_audits(live, reports))
    try:
        for round_ in range(4):
            for _ in range(25):
                assert not watching.done(), watching.result()
                await meddler.step()
            if round_ % 2:
                report = await live.at_rest()
                assert report.digest_incremental == report.digest_rebuilt
        await live.at_rest()
        await until_the_same(live)
    finally:
        watching.cancel()
        await meddler.tidy()
    assert len(reports) > 4
    assert any(report.moved for report in reports)  # they did run amid the burst


# -- what the watch lost -----------------------------------------------------------------------------


@pytest.mark.parametrize("live", [GRACE], indirect=True)
async def test_D1_D5_what_the_watch_lost_is_named_and_put_right(live: Inside) -> None:
    await live.foreign("web", NODE)
    await live.foreign("batch", NODE)
    await live.until_used(NODE, 4000)
    web, batch = live.knows("web"), live.knows("batch")
    node = live.engine.state.inventory.node(OTHER)
    assert node is not None

    def concerns(event: ev.Event) -> bool:
        match event:
            case ev.PodSeen(found):
                return found.uid in (web, batch) or found.name == "new"
            case ev.PodGone(uid):
                return uid == batch
            case ev.NodeSeen(found):
                return found.name == OTHER
            case _:
                return False

    live.kube.loses = concerns
    await live.status("web", phase="Succeeded")
    await live.done("DELETE", f"{live.pods_path}/batch", {"gracePeriodSeconds": 0})
    await live.foreign("new", OTHER, cpu="1")
    await live.done("PATCH", f"/api/v1/nodes/{OTHER}", {"metadata": {"labels": {"example.com/lost": "x"}}})
    looked = await live.auditor.audit(repair=False)
    assert live.used(NODE) == 4000
    report = await live.auditor.audit()
    # Not their texts: these may name versions, and the cluster goes on between the two.
    assert kinds(live, looked) == kinds(live, report) == [
        ("node-labels", OTHER), ("pod-ended", "web"), ("pod-missing", "new"), ("pod-surplus", "batch"),
    ]  # fmt: skip
    assert report.repaired == len(report.differences)
    assert report.digest_incremental != report.digest_rebuilt
    assert (live.used(NODE), live.used(OTHER)) == (0, 1000)
    sample = live.metrics.registry.get_sample_value
    assert sample("fairlead_audit_differences_total", {"kind": "pod-ended"}) == 2
    live.kube.loses = lambda _: False
    assert (await live.auditor.audit()).result == "clean"


def kinds(live: Inside, report: Report) -> list[tuple[str, str]]:
    return sorted((each.kind, each.name.removeprefix(f"{live.namespace}/")) for each in report.differences)


@pytest.mark.parametrize("live", [GRACE], indirect=True)
async def test_D5_a_state_corrupted_in_memory_is_named_and_put_right(live: Inside) -> None:
    await live.ours("mine")
    node = (await live.running("mine"))["spec"]["nodeName"]
    await live.until_used(node, 2000)
    await live.at_rest()
    state = live.engine.state
    uid = live.knows("mine")
    del state.pods[uid]
    state.inventory.free[state.inventory.resources["memory"], state.inventory.rows[OTHER]] += 1
    report = await live.auditor.audit()
    assert {(each.kind, each.repaired) for each in report.differences} == {
        ("pod-missing", True), ("columns", True),
    }  # fmt: skip
    after = await live.at_rest()
    assert after.digest_incremental == after.digest_rebuilt  # of a list that is as new
    assert (live.knows("mine"), live.used(node)) == (uid, 2000)


# -- as a user does it -------------------------------------------------------------------------------


def test_D5_a_user_audits_a_running_scheduler(small_cluster: Cluster, kubectl: Kubectl, data: Path) -> None:
    kubectl.create(job("mine", pods=3, run="1h"))

    def audit(*options: str) -> subprocess.CompletedProcess[str]:
        command = [
            str(Path(FAIRLEAD).with_name("kubectl-fairlead")),
            "audit",
            "--data-dir",
            str(data),
            *options,
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    with Scheduler(small_cluster.kubeconfig, data, "--audit-interval", "500ms") as scheduler:
        scheduler.wait_state(kubectl.namespace, "mine", "running")
        result = audit("--table")
        assert (result.returncode, result.stderr) == (0, "")
        verdict, _, *rows = result.stdout.splitlines()
        assert verdict.startswith(f"equal: {len(rows)} nodes, ")
        assert all(row.split()[0] == "✓" for row in rows)
        assert sum(int(row.split()[-2]) for row in rows) == 3

        def the_same() -> bool:
            """The digest is of everything, and the cluster may still be writing a status in between."""
            shown = audit().stdout.split("digest ")[1].split()[0]
            report = json.loads(audit("-o", "json").stdout)
            assert report["digest_incremental"] == report["digest_rebuilt"]
            return bool(report["digest_rebuilt"].startswith(shown))

        until(the_same, "two audits in a row with one digest")
        _, asked = scheduler.get("/api/v1/audit?nodes=false")

        def by_itself() -> bool:
            status, last = scheduler.get("/api/v1/audit?nodes=false")
            return status == 200 and last["at"] > asked["at"]

        until(by_itself, "an audit that nobody asked for")
    result = audit()
    assert result.returncode == 2
    assert result.stderr.startswith("fairlead: nobody answers: ")
    assert result.stderr.count("\n") == 1
