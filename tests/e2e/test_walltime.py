"""Walltimes on a real API server: what becomes of Jobs, bare pods and services, and begin times."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import Kubectl, Scheduler, Witness, job, pod, until

pytestmark = pytest.mark.e2e
LIMIT = {"fairlead.dev/duration": "5s"}


def served(kind: str, name: str, replicas: int, **more: Any) -> dict[str, Any]:
    """A Deployment or StatefulSet of pods that run for ever."""
    labels = {"app": name, **more.get("labels", {})}
    template = job(name, run="1h", labels=labels, annotations=more.get("annotations", {}))["spec"]["template"]
    template["spec"]["restartPolicy"] = "Always"
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    extra = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {**spec, **extra}}


def conditions(kubectl: Kubectl, name: str) -> dict[str, str]:
    """The Job's conditions that are true, with their reasons."""
    (found,) = kubectl.get("job", name)
    true = [each for each in found["status"].get("conditions", []) if each["status"] == "True"]
    return {each["type"]: each["reason"] for each in true}


def uids(kubectl: Kubectl, selector: str = "") -> set[str]:
    found = json.loads(kubectl("get", "pods", "-o", "json", *(["-l", selector] if selector else [])))
    return {each["metadata"]["uid"] for each in found["items"]}


def used(scheduler: Scheduler) -> int:
    """Milli-cores in use on all nodes; -1 if nobody answers."""
    status, page = scheduler.get("/api/v1/nodes")
    if status != 200:
        return -1
    return sum(r["used"] for node in page["nodes"] for r in node["resources"] if r["name"] == "cpu")


def lasted(row: dict[str, Any]) -> float:
    return (row["ended_at"] - row["started_at"]) / 1000


def test_F7_B18_a_job_past_its_walltime_fails_and_stays(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(job("long", pods=4, cpu="8", run="1h", annotations=LIMIT))
        kubectl.create(job("next", pods=4, cpu="8", run="1s"))
        row = scheduler.wait_state(kubectl.namespace, "long", "timeout")
        assert lasted(row) >= 5
        until(lambda: "Failed" in conditions(kubectl, "long"), "the Job to have failed")
        assert conditions(kubectl, "long")["Failed"] == "DeadlineExceeded"
        (kept,) = kubectl.get("job", "long")
        assert "its walltime of 5s is over" in kept["metadata"]["annotations"]["fairlead.dev/ended"]
        assert "deletionTimestamp" not in kept["metadata"]
        scheduler.wait_state(kubectl.namespace, "next", "completed")  # on the capacity that came free
        until(lambda: used(scheduler) == 0, "all capacity to be free")
        kubectl.wait_event("Job", "long", "Timeout")
        assert scheduler.groups(kubectl.namespace)["long"]["state"] == "timeout"


def test_F7_a_jobs_own_deadline_ends_it_as_timed_out(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """The Job controller's clock: Fairlead only says what it saw."""
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(job("own", cpu="1", run="1h", job={"activeDeadlineSeconds": 5}))
        scheduler.wait_state(kubectl.namespace, "own", "timeout")
        until(lambda: used(scheduler) == 0, "all capacity to be free")


def test_F7_bare_pods_are_deleted_also_by_a_process_that_is_new(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    gang = {"fairlead.dev/group": "gang", "fairlead.dev/group-size": "2"}
    scheduler = Scheduler(small_cluster.kubeconfig, data)
    with scheduler:
        notes = {"fairlead.dev/duration": "10s"}
        kubectl.create(*(pod(f"gang-{i}", run="1h", labels=gang, annotations=notes) for i in range(2)))
        kubectl.create(pod("stays", run="1h"))
        started = scheduler.wait_state(kubectl.namespace, "gang", "running")
        scheduler.wait_state(kubectl.namespace, "stays", "running")
        until(lambda: scheduler.groups(kubectl.namespace)["gang"]["started_at"], "its clock to run")
        scheduler.kill()
        scheduler.start()
        scheduler.wait_ready()
        row = scheduler.wait_state(kubectl.namespace, "gang", "timeout")
        assert row["granted_at"] == started["granted_at"]
        assert lasted(row) >= 10
        until(lambda: len(uids(kubectl)) == 1, "the gang's pods to be gone")
        assert [each["metadata"]["name"] for each in kubectl.get("pods")] == ["stays"]


def test_D10_F10_services_run_on_and_no_set_is_deleted(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """A queue's default is not for services. One that states a limit loses its pods, never its object."""
    config = data.with_name("config.yaml")
    config.write_text("queues: [{name: default, default-walltime: 5s, max-walltime: 1h}]", encoding="utf-8")
    with Scheduler(small_cluster.kubeconfig, data, "--config", str(config)) as scheduler:
        kubectl.create(served("Deployment", "web", 3))
        until(lambda: len(running(kubectl, "app=web")) == 3, "the service to run")
        before = uids(kubectl, "app=web")
        gang = {"fairlead.dev/group": "set", "fairlead.dev/group-size": "2"}
        notes = {**LIMIT, "fairlead.dev/on-timeout": "delete"}
        kubectl.create(served("StatefulSet", "set", 2, labels=gang, annotations=notes))
        kubectl.create(job("plain", run="1h"))
        first = until(lambda: running(kubectl, "app=set"), "the set to run")
        scheduler.wait_state(kubectl.namespace, "plain", "timeout")  # of the queue's default
        until(lambda: not first & uids(kubectl, "app=set"), "the set's first pods to be gone")
        (kept,) = kubectl.get("statefulset", "set")
        assert kept["spec"]["replicas"] == 2
        assert "deletionTimestamp" not in kept["metadata"]
        until(lambda: len(running(kubectl, "app=set")) == 2, "the set's next pods to run")
        assert running(kubectl, "app=web") == before


def running(kubectl: Kubectl, selector: str) -> set[str]:
    found = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json"))["items"]
    return {
        each["metadata"]["uid"]
        for each in found
        if each["status"]["phase"] == "Running" and "deletionTimestamp" not in each["metadata"]
    }


def test_F10_a_finalizer_is_waited_for_and_a_job_goes_only_if_it_asks(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        held = pod("held", run="1h", annotations=LIMIT)
        held["metadata"]["finalizers"] = ["fairlead.dev/test"]
        kubectl.create(held)
        notes = {**LIMIT, "fairlead.dev/on-timeout": "delete"}
        kubectl.create(job("goes", pods=2, run="1h", annotations=notes))
        until(lambda: deleting(kubectl, "held"), "the pod to be deleted")
        until(lambda: not kubectl.get("jobs"), "the Job to be gone with its pods")
        scheduler.wait_state(kubectl.namespace, "goes", "timeout")
        (pod_now,) = kubectl.get("pods")
        assert pod_now["metadata"]["finalizers"] == ["fairlead.dev/test"]
        patch = json.dumps({"metadata": {"finalizers": None}})
        kubectl("patch", "pod", "held", "--type=merge", "-p", patch)
        scheduler.wait_state(kubectl.namespace, "held", "timeout")


def deleting(kubectl: Kubectl, name: str) -> bool:
    return any(
        each["metadata"]["name"] == name and "deletionTimestamp" in each["metadata"]
        for each in kubectl.get("pods")
    )


def test_I17_an_edited_limit_holds_at_once(small_cluster: Cluster, kubectl: Kubectl, data: Path) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(pod("short", run="1h", annotations={"fairlead.dev/duration": "1h"}))
        scheduler.wait_state(kubectl.namespace, "short", "running")
        kubectl("annotate", "--overwrite", "pod", "short", "fairlead.dev/duration=1s")
        row = scheduler.wait_state(kubectl.namespace, "short", "timeout")
        assert row["duration"] == 1_000


def test_F12_nothing_starts_before_its_begin_time(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    """The whole second of the annotation; the scheduler is killed while it waits for it."""
    scheduler = Scheduler(small_cluster.kubeconfig, data)
    with Witness(small_cluster) as witness, scheduler:
        begin = (datetime.now(UTC) + timedelta(seconds=12)).replace(microsecond=0)
        notes = {"fairlead.dev/begin-time": begin.strftime("%Y-%m-%dT%H:%M:%SZ")}
        kubectl.create(job("later", run="1s", annotations=notes))
        row = scheduler.wait_state(kubectl.namespace, "later", "held")
        assert row["why"] == "BeginTime"
        scheduler.kill()
        scheduler.start()
        scheduler.wait_ready()
        row = scheduler.wait_state(kubectl.namespace, "later", "completed")
        assert row["granted_at"] >= begin.timestamp() * 1000
        assert len(witness.wait_binds(kubectl.namespace, 1)) == 1


def test_a_deadline_that_runs_while_a_job_waits_is_told(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(job("all", pods=4, cpu="8", run="1h"))
        scheduler.wait_state(kubectl.namespace, "all", "running")
        kubectl.create(job("waits", cpu="8", job={"activeDeadlineSeconds": 20}))
        scheduler.wait_state(kubectl.namespace, "waits", "waiting")
        kubectl.wait_event("Job", "waits", "DeadlineAhead")
        scheduler.wait_state(kubectl.namespace, "waits", "timeout")  # Kubernetes has done what was told
        kubectl("delete", "job", "all")
