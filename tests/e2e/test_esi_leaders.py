"""External schedulers over a change of leader, and where their custom resources come late or go.

Jobs run until the test ends them, so that each moment is there to be seen, however slow the machine is.
"""

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from esi_live import slots_of
from inside import inside
from test_esi_live import DEPLOY, Lab
from test_leaders import Replicas

from fairlead.localcluster import Cluster
from fairlead.model import event as ev
from fairlead.runtime import address
from fairlead.store.embedded import EmbeddedServer
from live import DIRECT, Kubectl, Scheduler, Witness, data_folder, finish, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

Object = dict[str, Any]
CRDS = str(DEPLOY / "crds")
ESI = ("--esi", "--insecure-esi")


@pytest.fixture(scope="module")
def plane(small_cluster: Cluster) -> Cluster:
    """With the priority that application pods name, and no custom resources yet."""
    level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    Kubectl(small_cluster, "default").create({**level, "metadata": {"name": "high-priority"}})
    return small_cluster


def install(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", CRDS)
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")

    def known() -> bool:
        with contextlib.suppress(AssertionError):
            return kubectl.get("tb,bj,sched") == []
        return False

    until(known, "the API server to serve them")


def ask(
    scheduler: Scheduler, method: str, path: str, body: Object | None = None
) -> tuple[int, Any, Mapping[str, str]]:
    """Code, JSON and headers of its answer."""
    found = address.read(scheduler.data)
    assert found is not None
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{found.url}{path}", data=data, method=method)
    try:
        with DIRECT.open(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read()), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read()), error.headers


def runs(lab: Lab, job: str, pods: int) -> None:
    """Once so many pods of it do."""

    def there() -> bool:
        return [pod["status"].get("phase") for pod in lab.pods(job)] == ["Running"] * pods

    until(there, f"{pods} pods of {job} to run", pause=0.2)


def agrees(scheduler: Scheduler) -> None:
    """Once an audit that changes nothing finds nothing: what the watch has lost it would find for ever."""
    last: Object = {}

    def clean() -> bool:
        _, report, _ = ask(scheduler, "POST", "/api/v1/audit?nodes=false&repair=false")
        last.update(report)
        return report["result"] == "clean"

    try:
        until(clean, "an audit to be clean")
    except AssertionError as error:
        raise AssertionError(f"{error}: {json.dumps(last)[:2000]}") from None


# -- custom resources that come and go ---------------------------------------------------------------


def test_custom_resources_may_come_later_and_go_and_come_again(plane: Cluster, data: Path) -> None:
    lab = Lab(plane, "later")
    lab.members(0)
    with Scheduler(plane.kubeconfig, data, *ESI) as scheduler:
        beds = f"/external/testbeds?namespace={lab.name}"
        assert ask(scheduler, "GET", beds)[:2] == (200, [])
        wish = {"name": "early", "testBed": "slots", "queue": ["j"]}
        status, said, _ = ask(scheduler, "POST", f"/external/schedulings?namespace={lab.name}", wish)
        assert status == 400 and "(kubectl apply -f deploy/crds)" in said["error"]
        for turn in ("one", "two"):
            install(lab.kubectl)
            lab.apply(lab.bed(), lab.job(turn), lab.queue(f"s-{turn}", turn))
            lab.wait("sched", f"s-{turn}", "CompletedState")
            _, shown, _ = ask(scheduler, "GET", beds)
            assert [(each["name"], each["numberOfNodes"]) for each in shown] == [("slots", 1)]
            agrees(scheduler)
            lab.kubectl("delete", "-f", CRDS, "--timeout=100s")
            until(lambda: ask(scheduler, "GET", beds)[1] == [], "the Testbed to be gone")
        assert scheduler.ready()
        agrees(scheduler)
    assert "Traceback" not in scheduler.log


# -- a change of leader ------------------------------------------------------------------------------


@pytest.fixture
def replicas(plane: Cluster) -> Iterator[Replicas]:
    with data_folder() as data:
        server = EmbeddedServer(data)
        server.ensure()
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute(b"CREATE DATABASE esi")
        url = psycopg.conninfo.make_conninfo(server.url, dbname="esi")
        with Replicas(plane, url, "kube-system") as made:
            yield made
        server.stop()


def claim(lab: Lab, job: str) -> Object:
    """Whose it is, and which slots it was given."""
    status = lab.status("bj", job)
    return {key: status.get(key) for key in ("activeScheduling", "slots", "slotIds", "replication")}


def test_RA3_a_leader_killed_in_mid_start_leaves_claims_and_slots_to_the_next(
    plane: Cluster, replicas: Replicas
) -> None:
    """[j1 x 3, j2 x 3] on four slots: the leader dies while j1 is being placed; the next one goes on."""
    lab = Lab(plane, "handed-over")
    install(lab.kubectl)
    lab.members(0, 1)
    lab.apply(lab.bed(), lab.job("j1", "1h"), lab.job("j2", "1h"))
    leader = replicas.add(*ESI)
    leader.wait_ready()
    standby = replicas.add(*ESI)
    until(lambda: replicas.leader_named_by(standby), "the other one to stand by")
    path = f"/external/schedulings/s?namespace={lab.name}"
    with Witness(plane) as witness:
        # What is written by way of the one that stands by is the leader's to carry out.
        queue = {"name": "s", "testBed": "slots", "queue": ["j1"] * 3 + ["j2"] * 3}
        status, _, headers = ask(standby, "POST", f"/external/schedulings?namespace={lab.name}", queue)
        assert (status, headers["Fairlead-Standby"].split()[0]) == (200, "standby:")
        status, shown, headers = ask(standby, "GET", path)
        assert (status, headers["Fairlead-Standby"].split()[0]) == (200, "standby:")
        assert shown["queue"] == queue["queue"]
        witness.wait_binds(lab.name, 1)
        leader.kill()
        before = claim(lab, "j1")
        standby.wait_ready()
        runs(lab, "j1", 3)
        lab.wait("bj", "j1", "RunningState")
        assert claim(lab, "j1") == before
        assert before["activeScheduling"] == lab.ref("s") and len(before["slotIds"]) == 3
        lab.wait("bj", "j2", "InQueueState")
        _, shown, headers = ask(standby, "GET", path)
        assert "Fairlead-Standby" not in headers
        assert {each["name"]: each["state"] for each in shown["jobStatus"]} == {
            "j1": "Scheduled",
            "j2": "InQueue",
        }
        agrees(standby)
        finish(lab.kubectl, "-ljob-name=j1")
        runs(lab, "j2", 3)
        finish(lab.kubectl, "-ljob-name=j2")
        lab.wait("sched", "s", "CompletedState")

        def six() -> bool:
            return {job: len(uids) for job, uids in witness.pods(lab.name).items()} == {"j1": 3, "j2": 3}

        until(six, "three pods of each to have been seen, and no more")
    assert len({each["metadata"]["uid"] for each in lab.kubectl.get("jobs")}) == 2
    for job in ("j1", "j2"):
        assert len(slots_of(lab.pods(job))) == len(set(slots_of(lab.pods(job)))) == 3
        (event,) = lab.status("bj", job)["scheduledEvents"]
        assert event["successful"] and event["scheduling"] == lab.ref("s")
    assert ask(standby, "DELETE", path)[0] == 200
    for job in ("j1", "j2"):
        lab.wait("bj", job, "ReadyState")
    for each in (leader, standby):
        assert "Traceback" not in each.log


# -- what the watch lost -----------------------------------------------------------------------------


async def test_D1_D5_what_the_watch_lost_of_external_schedulers_is_named_and_put_right(
    plane: Cluster,
) -> None:
    """The scheduler runs in this very loop, so what waits for it does so in another thread."""
    lab = Lab(plane, "lost")
    install(lab.kubectl)
    lab.members(2, 3)
    async with inside(plane, esi=True) as live:
        await asyncio.to_thread(lab.apply, lab.bed(), lab.job("gone"))
        await asyncio.to_thread(lab.settled, "SUCCESS", 4)
        live.kube.loses = lambda event: (
            isinstance(event, ev.EsiGone) or (isinstance(event, ev.EsiSeen) and _of(event, lab.name))
        )
        await asyncio.to_thread(lab.apply, lab.bed(per_node=3), lab.job("new"))
        await asyncio.to_thread(lab.kubectl, "delete", "bj", "gone")
        looked = await live.auditor.audit(repair=False)
        report = await live.auditor.audit()
        live.kube.loses = lambda _: False
        await live.auditor.audit()  # of what was lost meanwhile: statuses that were written at once
        expected = [
            ("esi-missing", f"{lab.name}/new"),
            ("esi-spec", f"{lab.name}/slots"),
            ("esi-surplus", f"{lab.name}/gone"),
        ]
        assert differing(looked, lab.name) == differing(report, lab.name) == expected
        assert all(each.repaired for each in report.differences if each.name.startswith(lab.name))
        await asyncio.to_thread(lab.settled, "SUCCESS", 6)
        await asyncio.to_thread(lab.wait, "bj", "new", "ReadyState")
        await live.at_rest()


def _of(event: ev.EsiSeen, namespace: str) -> bool:
    return event.thing.namespace == namespace


def differing(report: Any, namespace: str) -> list[tuple[str, str]]:
    return sorted((each.kind, each.name) for each in report.differences if each.name.startswith(namespace))
