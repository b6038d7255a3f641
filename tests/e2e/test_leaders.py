"""Several replicas of the scheduler on one PostgreSQL: one leads, the others stand by, and one takes over.

Leaders are killed, stopped in the middle of binding and woken again. Leases are short; what is asserted is
order, counts and amounts, as the API server tells them.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import count
from typing import Any

import psycopg
import pytest
from test_scheduler import all_in_state, wait_for_half
from test_scheduler_start import refused

from fairlead.localcluster import Cluster
from fairlead.runtime import address
from fairlead.store.embedded import EmbeddedServer
from live import (
    DIRECT,
    Kubectl,
    Scheduler,
    Sight,
    Witness,
    assert_never_over,
    assert_one_node_each,
    data_folder,
    job,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]
CPU = 8000
DURATION = 3.0
"""Seconds; must be what TIMES says."""
TIMES = ("--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms")
_numbers = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with data_folder() as data:
        server = EmbeddedServer(data)
        server.ensure()
        yield server
        server.stop()


@pytest.fixture
def kubectl(small_cluster: Cluster) -> Iterator[Kubectl]:
    """A namespace with the Lease and the work of one test."""
    name = f"leaders-{next(_numbers)}"
    Kubectl(small_cluster, "default")("create", "namespace", name)
    yield Kubectl(small_cluster, name)
    Kubectl(small_cluster, name)("delete", "jobs,pods", "--all", "--cascade=foreground", "--timeout=100s")


class Replicas:
    """Schedulers of one Lease and one database, each with a folder and a log of its own."""

    def __init__(self, cluster: Cluster, url: str, namespace: str) -> None:
        self._cluster, self.url, self._namespace = cluster, url, namespace
        self._stack = contextlib.ExitStack()
        self.all: list[Scheduler] = []

    def __enter__(self) -> "Replicas":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.all:
            if each.running:
                os.kill(each.pid, signal.SIGCONT)
                each.kill()
        self._stack.close()

    def add(self, *options: str) -> Scheduler:
        """One more, started."""
        lease = ("--leader-elect", "--lease-namespace", self._namespace, *TIMES)
        folder = self._stack.enter_context(data_folder())
        made = Scheduler(self._cluster.kubeconfig, folder, "--database-url", self.url, *lease, *options)
        made.start()
        self.all.append(made)
        return made

    def pair(self) -> tuple[Scheduler, Scheduler]:
        """One that leads and one that stands by, which has seen the whole cluster."""
        leader = self.add()
        leader.wait_ready()
        standby = self.add()
        until(lambda: self.leader_named_by(standby), "the other one to stand by")
        return leader, standby

    def kept(self) -> dict[str, int]:
        """First sight (ms) of each group that the database has by now: groups are written behind."""
        with psycopg.connect(self.url, options="-c search_path=fairlead") as conn:
            return dict(conn.execute("SELECT name, first_seen FROM group_record").fetchall())

    def lease(self) -> dict[str, Any]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/fairlead"
        return self._cluster.client.get(path).json()["spec"]

    def leader_named_by(self, standby: Scheduler) -> str:
        """Who leads, as /readyz of one that stands by has it; "" while it says anything else."""
        status, page = standby.get("/readyz")
        words = page["reasons"][0].split() if status == 503 else []
        return words[1] if len(words) == 3 and (words[0], words[2]) == ("standby:", "leads") else ""


@pytest.fixture
def replicas(small_cluster: Cluster, kubectl: Kubectl, server: EmbeddedServer) -> Iterator[Replicas]:
    name = kubectl.namespace.replace("-", "_")
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    url = psycopg.conninfo.make_conninfo(server.url, dbname=name)
    with Replicas(small_cluster, url, kubectl.namespace) as made:
        yield made


def gangs(number: int) -> list[dict[str, Any]]:
    """Gangs of 2 to 4 pods of which the cluster holds a few at a time."""
    return [
        job(f"gang-{i:02}", pods=2 + i % 3, cpu=str(2 + i % 2), run=f"{300 + 100 * (i % 5)}ms")
        for i in range(number)
    ]


def gauge(scheduler: Scheduler) -> float:
    """fairlead_leader as that replica tells it."""
    found = address.read(scheduler.data)
    assert found is not None
    with DIRECT.open(f"{found.url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith("fairlead_leader ")).split()[1])


def test_RA3_killed_in_the_middle_another_takes_over_and_every_gang_runs_once(
    small_cluster: Cluster, kubectl: Kubectl, replicas: Replicas
) -> None:
    stream = gangs(30)
    sizes = {each["metadata"]["name"]: each["spec"]["parallelism"] for each in stream}
    path = f"/apis/batch/v1/namespaces/{kubectl.namespace}/jobs"

    def submit() -> None:
        for each in stream:
            assert small_cluster.client.post(path, each).status == 201
            time.sleep(0.2)

    leader, standby = replicas.pair()
    assert (gauge(leader), gauge(standby)) == (1.0, 0.0)
    with Witness(small_cluster) as witness:
        submitting = threading.Thread(target=submit)
        submitting.start()
        known = until(lambda: len(found := replicas.kept()) >= 10 and found, "the first groups to be kept")
        wait_for_half(witness, kubectl.namespace, sizes)
        before = replicas.lease()
        leader.kill()
        killed = time.monotonic()
        until(lambda: replicas.lease()["holderIdentity"] != before["holderIdentity"], pause=0.02)
        taken = time.monotonic() - killed
        standby.wait_ready()
        ready = time.monotonic() - killed
        print(f"killed; the lease of {DURATION:g} s is taken after {taken:.1f} s, ready after {ready:.1f} s")
        assert ready < 10 * (DURATION + 5)
        submitting.join()
        until(lambda: succeeded(kubectl, *sizes), "all gangs to complete", patience=200, pause=0.5)
        until(lambda: all_in_state(standby, kubectl.namespace, list(sizes), "completed"))
        rows = standby.groups(kubectl.namespace)
        witness.wait_binds(kubectl.namespace, sum(sizes.values()))
    after = replicas.lease()
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1
    sights = witness.of(kubectl.namespace)
    assert {group: len(uids) for group, uids in witness.pods(kubectl.namespace).items()} == sizes
    assert len(witness.binds(kubectl.namespace)) == sum(sizes.values())
    assert not [sight for sight in sights if sight.phase == "Failed"]
    assert_one_node_each(sights)
    assert_never_over(witness.sights, CPU)
    # First sight outlives the process, and with it the order.
    assert {name: rows[name]["first_seen"] for name in known} == known
    for each in (leader, standby):
        assert "Traceback" not in each.log


def test_RA3_the_lease_runs_out_before_another_leads(replicas: Replicas) -> None:
    """Not earlier than the lease duration after the last renewal, both by the clock of this machine."""
    leader, standby = replicas.pair()
    seen = [replicas.lease()]
    os.kill(leader.pid, signal.SIGSTOP)  # from now on it renews nothing but what is on its way

    def taken() -> bool:
        seen.append(replicas.lease())
        return seen[-1]["holderIdentity"] != seen[0]["holderIdentity"]

    until(taken, pause=0.01)
    *_, last, new = seen
    assert (moment(new["acquireTime"]) - moment(last["renewTime"])).total_seconds() >= DURATION
    standby.wait_ready()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_RA3_F6_order_and_first_sight_are_kept_over_a_takeover(
    small_cluster: Cluster, kubectl: Kubectl, replicas: Replicas
) -> None:
    names = [f"waiting-{i}" for i in range(5)]
    leader, standby = replicas.pair()
    with Witness(small_cluster) as witness:
        kubectl.create(job("blocker", pods=4, cpu="8", run="1h"))
        leader.wait_state(kubectl.namespace, "blocker", "running")
        for name in names:
            kubectl.create(job(name, pods=4, cpu="5", run="100ms"))
            leader.wait_state(kubectl.namespace, name, "waiting")
        until(lambda: set(names) <= set(replicas.kept()), "the groups to be kept")
        before = leader.groups(kubectl.namespace)
        leader.kill()
        standby.wait_ready()
        after = standby.groups(kubectl.namespace)
        assert [after[name]["first_seen"] for name in names] == [before[name]["first_seen"] for name in names]
        assert [after[name]["position"] for name in names] == [1, 2, 3, 4, 5]
        kubectl("delete", "job", "blocker", "--wait=false")
        until(lambda: all_in_state(standby, kubectl.namespace, names, "completed"))
        witness.wait_binds(kubectl.namespace, 4 * len(["blocker", *names]))
        assert witness.starts(kubectl.namespace) == ["blocker", *names]


def test_RA3_stopped_in_mid_bind_and_woken_after_the_takeover_it_writes_nothing(
    small_cluster: Cluster, kubectl: Kubectl, replicas: Replicas
) -> None:
    leader, standby = replicas.pair()
    stream = gangs(40)
    sizes = {each["metadata"]["name"]: each["spec"]["parallelism"] for each in stream}
    with Witness(small_cluster) as witness:
        kubectl.create(*stream)
        wait_for_half(witness, kubectl.namespace, sizes)
        os.kill(leader.pid, signal.SIGSTOP)
        standby.wait_ready()  # it leads while the other one still has its requests before it
        until(lambda: len(witness.binds(kubectl.namespace)) > 20, "the new leader to bind")
        os.kill(leader.pid, signal.SIGCONT)
        until(lambda: "steps down" in leader.log, "the old one to notice")
        until(lambda: replicas.leader_named_by(leader) == replicas.lease()["holderIdentity"])
        until(lambda: succeeded(kubectl, *sizes), "all gangs to complete", patience=200, pause=0.5)
        until(lambda: all_in_state(standby, kubectl.namespace, list(sizes), "completed"))
        witness.wait_binds(kubectl.namespace, sum(sizes.values()))
    assert {group: len(uids) for group, uids in witness.pods(kubectl.namespace).items()} == sizes
    assert_one_node_each(witness.of(kubectl.namespace))
    assert_never_over(witness.sights, CPU)
    assert placed(replicas, witness.binds(kubectl.namespace)) == {}
    for each in (leader, standby):
        assert each.running and "Traceback" not in each.log
    # And it is a standby like any other: it takes over in its turn.
    standby.kill()
    leader.wait_ready()
    kubectl.create(job("last", pods=2, run="100ms"))
    leader.wait_state(kubectl.namespace, "last", "completed")


def placed(replicas: Replicas, binds: list[Sight]) -> dict[str, str]:
    """Pods that are elsewhere than the latest grant of the database says."""
    with psycopg.connect(replicas.url) as conn:
        rows = conn.execute(
            b"SELECT unnest(pods), unnest(nodes) FROM fairlead.grant_record ORDER BY at, id"
        ).fetchall()
    granted = dict(rows)
    return {sight.name: sight.node for sight in binds if granted.get(sight.uid) != sight.node}


def test_RA3_stopped_in_good_order_the_other_one_leads_at_once(kubectl: Kubectl, replicas: Replicas) -> None:
    leader, standby = replicas.pair()
    kubectl.create(job("runs", pods=2, run="10m"))
    leader.wait_state(kubectl.namespace, "runs", "running")
    transitions = replicas.lease().get("leaseTransitions", 0)
    leader.stop()
    assert leader.process is not None and leader.process.returncode == 0
    assert "the lease is released" in leader.log
    spec = replicas.lease()
    assert spec.get("holderIdentity", "") == "" or spec["leaseTransitions"] == transitions + 1
    standby.wait_ready()
    assert standby.wait_state(kubectl.namespace, "runs", "running")["seen"] == 2


def test_RA3_a_leader_that_cannot_renew_steps_down_and_one_leads_when_the_api_server_is_back(
    small_cluster: Cluster, kubectl: Kubectl, replicas: Replicas
) -> None:
    leader, standby = replicas.pair()
    kubectl.create(job("before", pods=4, cpu="8", run="10m"))
    leader.wait_state(kubectl.namespace, "before", "running")
    small_cluster.kill("kube-apiserver")
    until(lambda: "steps down" in leader.log, "the leader to give up")
    assert "not renewed" in leader.log
    until(lambda: gauge(leader) == 0.0, "its gauge to say so")
    small_cluster.start("kube-apiserver")
    small_cluster.wait_healthy("kube-apiserver", 60)
    small_cluster.kill("kwok")  # by itself it would ask that server again later and later
    small_cluster.start("kwok")
    both = (leader, standby)

    def leads() -> Scheduler | None:
        ready = [each for each in both if each.get("/readyz")[0] == 200]
        return ready[0] if len(ready) == 1 else None

    now = until(leads, "one of them to lead")
    kubectl("delete", "job", "before")
    kubectl.create(job("after", pods=4, cpu="8", run="100ms"))
    now.wait_state(kubectl.namespace, "after", "completed")
    assert all(each.running and "Traceback" not in each.log for each in both)


def test_RA3_a_standby_ends_in_good_order(replicas: Replicas) -> None:
    leader, standby = replicas.pair()
    standby.stop()
    assert standby.process is not None and standby.process.returncode == 0
    assert leader.ready() and gauge(leader) == 1.0


def test_RA3_replicas_need_a_database_of_their_own() -> None:
    said = refused("--leader-elect")
    assert "--leader-elect" in said and "--database-url" in said


@pytest.mark.parametrize(
    ("times", "named"),
    [
        (("--lease-duration", "10s"), "--renew-deadline"),
        (("--renew-deadline", "2s"), "--retry-period"),
        (("--lease-duration", "soon"), "soon"),
        (
            ("--lease-duration", "1500ms", "--renew-deadline", "1s", "--retry-period", "100ms"),
            "whole seconds",
        ),
    ],
)
def test_RA3_times_that_cannot_work_are_refused(times: tuple[str, ...], named: str, cluster: Cluster) -> None:
    options = ("--leader-elect", "--database-url", "postgresql:///none", "--kubeconfig")
    assert named in refused(*options, str(cluster.kubeconfig), *times)
