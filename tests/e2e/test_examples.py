"""Every example, applied as its README says, and the outcome that it promises."""

import json
import subprocess
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import yaml

from conftest import unique_name
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from live import (
    EXAMPLES,
    FAIRLEAD,
    Kubectl,
    Scheduler,
    Witness,
    assert_never_over,
    assert_one_node_each,
    data_folder,
    half_bound_at_rest,
    job,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CPU = 8000
_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Eight nodes of 8 cpu, as the examples want, and kube-scheduler for the one that needs it."""
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, nodes=8, shape=NodeShape(cpu="8"), kube_scheduler=True))
    finally:
        bring_down(name)


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster) -> Iterator[Scheduler]:
    with data_folder() as data, Scheduler(cluster.kubeconfig, data) as running:
        yield running


@pytest.fixture
def witness(cluster: Cluster, scheduler: Scheduler) -> Iterator[Witness]:
    """Watches from the first pod on; in the end no pod was moved and no node held too much."""
    assert scheduler.ready()
    with Witness(cluster) as watching:
        yield watching
    assert_one_node_each(watching.sights)
    assert_never_over(watching.sights, CPU)


@pytest.fixture
def kubectl(cluster: Cluster, witness: Witness) -> Iterator[Kubectl]:
    """A namespace of the test's own on an empty cluster."""
    name = f"example-{next(_numbers)}"
    Kubectl(cluster, "default")("create", "namespace", name)
    yield Kubectl(cluster, name)
    Kubectl(cluster, name)(
        "delete", "jobs,deployments,replicasets,statefulsets,pods", "--all", "--wait=false"
    )
    latest = lambda: {sight.uid: sight for sight in list(witness.sights)}  # noqa: E731
    until(lambda: not any(each.holds for each in latest().values()), "the cluster to be empty")


def scheduled_by(kubectl: Kubectl, pod: str) -> list[str]:
    """Who says of pods with this beginning that they are scheduled, once per pod."""
    return [e["reportingController"] for e in kubectl.events("Pod", pod) if e["reason"] == "Scheduled"]


def test_pod(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.apply("pod.yaml")
    row = scheduler.wait_state(kubectl.namespace, "hello", "completed")
    (pod,) = kubectl.get("pods", "hello")
    assert pod["status"]["phase"] == "Succeeded"
    assert [pod["spec"]["nodeName"]] == row["nodes"]
    assert (row["source"], row["size"]) == ("pod", 1)
    event = kubectl.wait_event("Pod", "hello", "Scheduled")
    assert event["reportingController"] == "fairlead"
    assert pod["spec"]["nodeName"] in event["note"]


def test_job(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.apply("job.yaml")
    row = scheduler.wait_state(kubectl.namespace, "hello-job", "completed")
    until(lambda: succeeded(kubectl, "hello-job"))
    assert (row["source"], row["duration"]) == ("job", 60_000)
    until(lambda: scheduled_by(kubectl, "hello-job-") == ["fairlead"])


def test_gang(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.apply("gang.yaml")
    row = scheduler.wait_state(kubectl.namespace, "gang", "completed")
    until(lambda: succeeded(kubectl, "gang"))
    assert row["size"] == 10
    assert len(witness.wait_binds(kubectl.namespace, 10)) == 10
    assert half_bound_at_rest(witness.of(kubectl.namespace), {"gang": 10}) == []
    assert set(row["nodes"]) == {sight.node for sight in witness.binds(kubectl.namespace)}
    until(lambda: scheduled_by(kubectl, "gang-") == ["fairlead"] * 10)


def test_gang_waits_for_another(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    # The nodes are full until both wait, however slowly they come.
    kubectl.create(job("holds", pods=8, cpu="8", run="1h"))
    scheduler.wait_state(kubectl.namespace, "holds", "running")
    kubectl.apply("gang-waits/1-first.yaml")
    scheduler.wait_state(kubectl.namespace, "first", "waiting")
    kubectl.apply("gang-waits")
    second = scheduler.wait_state(kubectl.namespace, "second", "waiting")
    assert (second["position"], second["seen"], second["nodes"]) == (2, 8, [])
    kubectl("delete", "job", "holds", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "first", "running")
    second = scheduler.wait_state(kubectl.namespace, "second", "waiting")
    assert (second["position"], second["seen"], second["nodes"]) == (1, 8, [])
    # While it waits, people and autoscalers are told: it is next, and more nodes would start it.
    event = kubectl.wait_event("Job", "second", "Unschedulable")
    assert event["reportingController"] == "fairlead"
    first = scheduler.wait_state(kubectl.namespace, "first", "completed")
    second = scheduler.wait_state(kubectl.namespace, "second", "completed")
    until(lambda: succeeded(kubectl, "first", "second"))
    assert first["first_seen"] <= second["first_seen"]
    witness.wait_binds(kubectl.namespace, 24)
    assert witness.starts(kubectl.namespace) == ["holds", "first", "second"]
    assert witness.started_after(kubectl.namespace, "second", "first")
    assert half_bound_at_rest(witness.of(kubectl.namespace), {"first": 8, "second": 8}) == []


def test_leader_and_workers_F22(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.apply("leader-workers.yaml")
    row = scheduler.wait_state(kubectl.namespace, "solver", "completed")
    until(lambda: succeeded(kubectl, "solver-leader", "solver-workers"))
    assert (row["source"], row["size"]) == ("label", 5)
    assert sorted(sight.cpu for sight in witness.wait_binds(kubectl.namespace, 5)) == [2000] * 4 + [4000]
    assert half_bound_at_rest(witness.of(kubectl.namespace), {"solver": 5}) == []


def test_unsatisfiable_F16_B1(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.apply("unsatisfiable.yaml")
    row = scheduler.wait_state(kubectl.namespace, "too-big", "rejected")
    assert "cpu=20" in row["text"] and "cpu=8" in row["text"]
    event = kubectl.wait_event("Job", "too-big", "Unschedulable")
    assert (event["type"], event["reportingController"]) == ("Warning", "fairlead")
    assert "cpu=20" in event["note"] and "cpu=8" in event["note"]
    # Nothing is deleted, and nobody has to wait behind it.
    kubectl.create(job("behind", pods=2))
    scheduler.wait_state(kubectl.namespace, "behind", "completed")
    assert [each["metadata"]["name"] for each in kubectl.get("jobs")] == ["behind", "too-big"]
    # Conditions are written one by one.
    until(lambda: told(kubectl, "too-big-") == [("False", "Unschedulable")] * 10, "all ten pods to say it")
    assert "too-big" not in witness.starts(kubectl.namespace)


def told(kubectl: Kubectl, pod: str) -> list[tuple[str, str]]:
    """Status and reason of the condition PodScheduled of pods with this beginning that have one."""
    pods = [each for each in kubectl.get("pods") if each["metadata"]["name"].startswith(pod)]
    conditions = [condition for each in pods for condition in each["status"].get("conditions", [])]
    return [(each["status"], each.get("reason", "")) for each in conditions if each["type"] == "PodScheduled"]


def test_batch_in_order_of_priority_and_arrival(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    # The nodes are full until all five wait, however slowly they come.
    kubectl.create(job("holds", pods=8, cpu="8", run="1h"))
    scheduler.wait_state(kubectl.namespace, "holds", "running")
    kubectl.apply("batch")
    jobs = ["batch-1-wide", "batch-2-gang", "batch-3-single", "batch-4-pair", "batch-5-urgent"]
    groups = ["batch-1-wide", "batch-2-gang", "batch-3-single", "pair", "batch-5-urgent"]
    for name in groups:
        scheduler.wait_state(kubectl.namespace, name, "waiting")
    kubectl("delete", "job", "holds", "--wait=false")
    rows = [scheduler.wait_state(kubectl.namespace, name, "completed") for name in groups]
    until(lambda: succeeded(kubectl, *jobs))
    assert [row["size"] for row in rows] == [8, 4, 1, 2, 8]
    # They start in order of priority and first sight.
    urgent = rows[-1]
    by_right = sorted(rows, key=lambda row: (-row["priority"], row["first_seen"]))
    assert by_right[0] is urgent
    # (Those of one plan are bound side by side, so only the plans have an order.)
    names = {row["name"] for row in rows}
    bound = [sight.group for sight in witness.binds(kubectl.namespace) if sight.group in names]
    assert bound[0] == urgent["name"]
    granted = [row["granted_at"] for row in by_right]
    assert granted == sorted(granted)
    sizes = {row["name"]: row["size"] for row in rows}
    assert half_bound_at_rest(witness.of(kubectl.namespace), sizes) == []


def test_services_start_pod_by_pod(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.apply("services")

    def running() -> list[str]:
        rows = scheduler.groups(kubectl.namespace)
        return sorted(name.split("-")[0] for name, row in rows.items() if row["state"] == "running")

    until(lambda: running() == ["cache"] * 3 + ["db"] * 3 + ["web"] * 3)
    rows = scheduler.groups(kubectl.namespace).values()
    assert {(row["source"], row["size"]) for row in rows} == {("pod", 1)}
    until(lambda: kubectl.get("deployments", "web")[0]["status"].get("readyReplicas") == 3)
    until(lambda: kubectl.get("statefulsets", "db")[0]["status"].get("readyReplicas") == 3)
    until(lambda: kubectl.get("replicasets", "cache")[0]["status"].get("readyReplicas") == 3)
    # A pod that is lost is replaced and placed like any other.
    before = scheduler.groups(kubectl.namespace)["db-1"]["id"]
    kubectl("delete", "pod", "db-1", "--wait=false")
    until(lambda: scheduler.groups(kubectl.namespace).get("db-1", {"id": before})["id"] != before)
    until(lambda: running() == ["cache"] * 3 + ["db"] * 3 + ["web"] * 3)


def test_default_scheduler_beside_ours(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    # Until theirs are bound each node has room for one of them and for none of ours: else the two would race.
    kubectl.create(job("holds", pods=8, cpu="5", run="1h"))
    scheduler.wait_state(kubectl.namespace, "holds", "running")
    kubectl.apply("default-scheduler.yaml")
    witness.wait_binds(kubectl.namespace, 12)
    kubectl("delete", "job", "holds", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "ours", "completed")
    until(lambda: succeeded(kubectl, "theirs", "ours"))
    until(lambda: scheduled_by(kubectl, "theirs-") == ["default-scheduler"] * 4)
    until(lambda: scheduled_by(kubectl, "ours-") == ["fairlead"] * 8)
    assert "theirs" not in scheduler.groups(kubectl.namespace)
    witness.wait_binds(kubectl.namespace, 20)
    assert witness.starts(kubectl.namespace) == ["holds", "theirs", "ours"]
    assert witness.started_after(kubectl.namespace, "ours", "theirs")


def test_pods_of_kube_scheduler_count_from_the_first_second_D3(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    theirs = job("theirs", pods=4, cpu="3", run="1h")
    theirs["spec"]["template"]["spec"].pop("schedulerName")
    kubectl.create(theirs)
    witness.wait_binds(kubectl.namespace, 4)
    kubectl.create(job("ours", pods=8, cpu="6"))
    scheduler.wait_state(kubectl.namespace, "ours", "waiting")
    status, page = scheduler.get("/api/v1/nodes")
    assert status == 200
    used = sum(use["used"] for node in page["nodes"] for use in node["resources"] if use["name"] == "cpu")
    assert used == 4 * 3000
    kubectl("delete", "job", "theirs", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "ours", "completed")
    assert witness.started_after(kubectl.namespace, "ours", "theirs")


def state_dump(scheduler: Scheduler) -> dict[str, Any]:
    """The whole picture, as a user gets it."""
    command = [FAIRLEAD, "state", "dump", "--data-dir", str(scheduler.data)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def free(picture: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {
        node["name"]: {use["name"]: use["free"] for use in node["resources"]} for node in picture["nodes"]
    }


def holders(picture: dict[str, Any], namespace: str) -> dict[str, tuple[str, str, int]]:
    """Pod -> the node where it holds room, why, and how much cpu."""
    return {
        pod["name"]: (node["name"], pod["why"], pod["amounts"]["cpu"])
        for node in picture["nodes"]
        for pod in node["held"]
        if pod["namespace"] == namespace
    }


def bound(kubectl: Kubectl, name: str) -> dict[str, tuple[str, str, int]]:
    """The same as the API server has it."""
    pods = [pod for pod in kubectl.get("pods") if pod["metadata"]["name"].startswith(f"{name}-")]
    return {pod["metadata"]["name"]: (pod["spec"]["nodeName"], "bound", 3000) for pod in pods}


@pytest.mark.parametrize(("file", "name", "ours"), [("1-own", "own", True), ("2-theirs", "theirs", False)])
def test_D2_D3_two_states(scheduler: Scheduler, kubectl: Kubectl, file: str, name: str, ours: bool) -> None:
    """The two states of the deck: pods of ours end; another scheduler's come, and end."""

    def empty() -> dict[str, Any] | None:
        found = state_dump(scheduler)
        return None if any(node["held"] for node in found["nodes"]) else found

    before = until(empty, "the scheduler to know that the cluster is empty")
    kubectl.apply(f"two-states/{file}.yaml")

    def all_hold() -> dict[str, Any] | None:
        found = state_dump(scheduler)
        held = holders(found, kubectl.namespace)
        return found if len(held) == 4 and all(why == "bound" for _, why, _ in held.values()) else None

    running = until(all_hold, f"four pods of {name} to hold room")
    assert holders(running, kubectl.namespace) == bound(kubectl, name)
    for node, amounts in free(running).items():
        held = [cpu for where, _, cpu in holders(running, kubectl.namespace).values() if where == node]
        assert amounts["cpu"] == CPU - sum(held)
    pods = [pod for pod in running["pods"] if pod["namespace"] == kubectl.namespace]
    assert {(pod["scheduler"] == "fairlead", bool(pod["group"])) for pod in pods} == {(ours, ours)}
    command = [FAIRLEAD, "audit", "--no-repair", "--data-dir", str(scheduler.data)]
    audit = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert audit.returncode == 0, audit.stdout + audit.stderr
    until(lambda: not holders(state_dump(scheduler), kubectl.namespace), f"{name} to have ended")
    after = state_dump(scheduler)
    assert free(after) == free(before)
    assert {p["phase"] for p in after["pods"] if p["namespace"] == kubectl.namespace} == {"Succeeded"}
    until(lambda: succeeded(kubectl, name))


def test_two_gangs_do_not_deadlock_D8(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.apply("deadlock")
    for name in ("left", "right"):
        scheduler.wait_state(kubectl.namespace, name, "completed")
    until(lambda: succeeded(kubectl, "left", "right"))
    witness.wait_binds(kubectl.namespace, 10)
    assert half_bound_at_rest(witness.of(kubectl.namespace), {"left": 5, "right": 5}) == []
    # When the first pod of the later gang was bound, there was room for all five of it.
    later, earlier = reversed(witness.starts(kubectl.namespace))
    begun = next(s.version for s in witness.binds(kubectl.namespace) if s.group == later)
    latest = {s.uid: s for s in witness.of(kubectl.namespace) if s.group == earlier and s.version < begun}
    assert sum(sight.holds for sight in latest.values()) + 5 <= 8


APART = ("README.md", "real", "esi", "policies")
"""Not to be applied here: external schedulers need their own kinds (test_esi_demo), policies are Python."""


@pytest.mark.parametrize("folder", ["", "real"])
def test_every_example_is_valid_and_the_readme_names_it(folder: str, kubectl: Kubectl) -> None:
    readme = (EXAMPLES / folder / "README.md").read_text()
    for path in sorted((EXAMPLES / folder).iterdir()):
        if path.name in APART:
            continue
        assert path.name in readme, f"{path} is not in its README"
        kubectl("apply", "--dry-run=server", "-f", str(path))


def test_real_examples_are_the_same_ones() -> None:
    def objects(folder: str) -> set[tuple[str, str, str]]:
        return {
            (str(path.relative_to(EXAMPLES / folder)), each["kind"], each["metadata"]["name"])
            for path in (EXAMPLES / folder).rglob("*.yaml")
            if folder or path.relative_to(EXAMPLES).parts[0] not in APART
            for each in yaml.safe_load_all(path.read_text())
        }

    assert objects("real") == objects("")


def test_queue_and_explain_tell_what_happened(scheduler: Scheduler) -> None:
    def ask(*arguments: str) -> str:
        command = [FAIRLEAD, *arguments, "--data-dir", str(scheduler.data)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert "too-big" in ask("queue", "--all", "--limit", "0", "-o", "wide")
    assert "node-0007" in ask("nodes")
