"""Groups on a real control plane: what makes one, what holds it, what happens to it while it lives.

One scheduler for the whole module, recording; the last test replays all of it.
"""

import json
import subprocess
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import (
    FAIRLEAD,
    Kubectl,
    Scheduler,
    Witness,
    assert_never_over,
    assert_one_node_each,
    data_folder,
    finish,
    job,
    pod,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CPU = 8000
_numbers = count(1)


@pytest.fixture(scope="module")
def scheduler(small_cluster: Cluster) -> Iterator[Scheduler]:
    with data_folder() as data:
        recording = data.with_name("recording.jsonl")
        with Scheduler(small_cluster.kubeconfig, data, "--record", str(recording)) as running:
            yield running


@pytest.fixture
def witness(small_cluster: Cluster, scheduler: Scheduler) -> Iterator[Witness]:
    assert scheduler.ready()
    with Witness(small_cluster) as watching:
        yield watching
    assert_one_node_each(watching.sights)
    assert_never_over(watching.sights, CPU)


@pytest.fixture
def kubectl(small_cluster: Cluster, witness: Witness) -> Iterator[Kubectl]:
    name = f"groups-{next(_numbers)}"
    Kubectl(small_cluster, "default")("create", "namespace", name)
    yield Kubectl(small_cluster, name)
    Kubectl(small_cluster, name)("delete", "jobs,replicasets,statefulsets,pods", "--all", "--wait=false")

    def empty() -> bool:
        latest = {sight.uid: sight for sight in list(witness.sights)}
        return not any(each.holds for each in latest.values())

    until(empty, "the cluster to be empty")


def member(name: str, group: str = "team", size: str = "2", **more: Any) -> dict[str, Any]:
    """A bare pod with the labels of a group; `size` "" leaves that label out."""
    labels = {"fairlead.dev/group": group, **({"fairlead.dev/group-size": size} if size else {})}
    return pod(name, labels=labels, **more)


def blocker(name: str = "blocker", run: str = "15s") -> dict[str, Any]:
    """Takes every node, so that whatever comes next has to wait: for longer than it takes to see that."""
    return job(name, pods=4, cpu="8", run=run)


# -- single pods and Jobs ----------------------------------------------------------------------------


def test_B13_bare_pod_without_labels(scheduler: Scheduler, kubectl: Kubectl) -> None:
    bare = pod("bare", run="100ms")
    assert "labels" not in bare["metadata"]
    kubectl.create(bare)
    row = scheduler.wait_state(kubectl.namespace, "bare", "completed")
    assert (row["source"], row["size"]) == ("pod", 1)


def test_B1_F15_waiting_is_not_deleted_and_starts_by_itself(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    kubectl.create(blocker())
    scheduler.wait_state(kubectl.namespace, "blocker", "running")
    kubectl.create(job("patient", pods=2, cpu="8"))
    row = scheduler.wait_state(kubectl.namespace, "patient", "waiting")
    assert (row["position"], row["nodes"]) == (1, [])
    (condition,) = kubectl.get("jobs", "patient")
    assert not condition["status"].get("conditions")
    scheduler.wait_state(kubectl.namespace, "patient", "completed")
    until(lambda: succeeded(kubectl, "blocker", "patient"))
    assert len(witness.pods(kubectl.namespace)["patient"]) == 2


def test_F3_the_node_told_is_the_node_bound(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.create(job("where", pods=3, cpu="5", run="10m"))
    row = scheduler.wait_state(kubectl.namespace, "where", "running")
    bound = {sight.node for sight in witness.wait_binds(kubectl.namespace, 3)}
    assert set(row["nodes"]) == bound and len(bound) == 3


def test_B7_I3_a_name_can_be_used_again(kubectl: Kubectl, witness: Witness) -> None:
    for _ in range(2):
        kubectl.create(job("again", pods=2, run="200ms"))
        until(lambda: succeeded(kubectl, "again"))
        kubectl("delete", "job", "again")
    assert len(witness.wait_binds(kubectl.namespace, 4)) == 4


def test_B8_I3_deleting_a_running_job_gives_its_nodes_back(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.create(blocker("endless", run="10m"))
    scheduler.wait_state(kubectl.namespace, "endless", "running")
    kubectl.create(job("next", pods=4, cpu="8"))
    scheduler.wait_state(kubectl.namespace, "next", "waiting")
    kubectl("delete", "job", "endless", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "next", "completed")
    scheduler.wait_state(kubectl.namespace, "endless", "cancelled")


def test_B4_others_go_on_after_a_cancelled_job(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.create(blocker())
    scheduler.wait_state(kubectl.namespace, "blocker", "running")
    kubectl.create(job("unwanted", pods=4, cpu="8"), job("wanted", pods=4, cpu="8"))
    scheduler.wait_state(kubectl.namespace, "unwanted", "waiting")
    kubectl("delete", "job", "unwanted", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "wanted", "completed")
    scheduler.wait_state(kubectl.namespace, "unwanted", "cancelled")


def test_B5_I6_a_hundred_groups_in_a_second_start_in_their_order(
    scheduler: Scheduler, kubectl: Kubectl, small_cluster: Cluster
) -> None:
    kubectl.create(blocker())
    scheduler.wait_state(kubectl.namespace, "blocker", "running")
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods"
    names = [f"p-{i:03}" for i in range(100)]
    for name in names:
        assert small_cluster.client.post(path, pod(name, cpu="4", run="100ms")).status == 201
    until(lambda: scheduler.groups(kubectl.namespace).get(names[-1], {}).get("state") == "completed")
    until(lambda: all(scheduler.groups(kubectl.namespace)[name]["ended_at"] for name in names))
    rows = scheduler.groups(kubectl.namespace)
    granted = [rows[name]["granted_at"] for name in names]
    assert granted == sorted(granted)
    assert len(set(granted)) > 5  # eight fit at a time: one plan would prove nothing


def test_B24_one_group_name_in_two_namespaces(scheduler: Scheduler, kubectl: Kubectl) -> None:
    other = Kubectl(kubectl.cluster, f"{kubectl.namespace}-b")
    kubectl("create", "namespace", other.namespace)
    kubectl.create(member("a"))
    other.create(member("a"))
    for each in (kubectl, other):
        assert scheduler.wait_state(each.namespace, "team", "assembling")["seen"] == 1
    kubectl.create(member("b"))
    scheduler.wait_state(kubectl.namespace, "team", "completed")
    assert scheduler.groups(other.namespace)["team"]["state"] == "assembling"
    other.create(member("b"))
    scheduler.wait_state(other.namespace, "team", "completed")


def test_F23_hostile_texts_harm_nobody(scheduler: Scheduler, kubectl: Kubectl) -> None:
    nasty = pod("quoted", run="100ms", annotations={"note": "'; DROP TABLE groups; -- \" \\ \u2603"})
    nasty["spec"]["containers"][0]["command"] = ["sh", "-c", "echo 'it''s' \"$(rm)\""]
    kubectl.create(nasty)
    scheduler.wait_state(kubectl.namespace, "quoted", "completed")
    assert scheduler.ready()


# -- groups by label ---------------------------------------------------------------------------------


def test_B9_the_same_pod_counts_once(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.create(member("a", size="3"), member("b", size="3"))
    for i in range(5):
        kubectl("annotate", "pod", "a", "b", f"touched={i}", "--overwrite")
    row = until(lambda: with_seen(scheduler, kubectl.namespace, 2), "both pods to be seen")
    assert (row["state"], row["size"]) == ("assembling", 3)
    event = kubectl.wait_event("Pod", "a", "WaitingForGroup")
    assert "2 of 3" in event["note"]
    assert witness.binds(kubectl.namespace) == []
    kubectl.create(member("c", size="3"))
    scheduler.wait_state(kubectl.namespace, "team", "completed")
    assert len(witness.wait_binds(kubectl.namespace, 3)) == 3


def with_seen(scheduler: Scheduler, namespace: str, number: int) -> dict[str, Any] | None:
    row = scheduler.groups(namespace).get("team", {"seen": 0})
    return row if row["seen"] == number else None


@pytest.mark.parametrize("size", ["0", "ten", "2.5"])
def test_a_size_that_cannot_be_read_holds_and_is_named(
    size: str, scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    kubectl.create(member("a", size=size), member("b", size=size))
    row = scheduler.wait_state(kubectl.namespace, "team", "held")
    assert "fairlead.dev/group-size" in row["text"]
    event = kubectl.wait_event("Pod", "a", "Invalid")
    assert event["type"] == "Warning" and "fairlead.dev/group-size" in event["note"]
    assert witness.binds(kubectl.namespace) == []
    # Nothing is lost: with the label put right the group runs.
    kubectl("label", "pods", "--all", "fairlead.dev/group-size=2", "--overwrite")
    scheduler.wait_state(kubectl.namespace, "team", "completed")
    assert len(witness.wait_binds(kubectl.namespace, 2)) == 2


def test_L8_members_that_contradict_each_other(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.create(member("a", size="2"), member("b", size="3"))
    row = scheduler.wait_state(kubectl.namespace, "team", "held")
    assert "contradict" in row["text"] and "fairlead.dev/group-size" in row["text"]
    assert "contradict" in kubectl.wait_event("Pod", "", "Invalid")["note"]
    kubectl("label", "pod", "b", "fairlead.dev/group-size=2", "--overwrite")
    scheduler.wait_state(kubectl.namespace, "team", "completed")


def test_F13_a_label_changed_before_the_start_moves_the_pod(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    kubectl.create(member("a", group="red"), member("b", group="blue"))
    scheduler.wait_state(kubectl.namespace, "red", "assembling")
    scheduler.wait_state(kubectl.namespace, "blue", "assembling")
    kubectl("label", "pod", "b", "fairlead.dev/group=red", "--overwrite")
    scheduler.wait_state(kubectl.namespace, "red", "completed")
    assert len(witness.wait_binds(kubectl.namespace, 2)) == 2


def test_what_is_not_supported_waits_and_says_so(scheduler: Scheduler, kubectl: Kubectl) -> None:
    claiming = job("claiming")
    claiming["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
    kubectl.create(claiming)
    row = scheduler.wait_state(kubectl.namespace, "claiming", "held", "waiting")
    assert "Unsupported" in row["text"] and "spec.resourceClaims" in row["text"]
    kubectl.wait_event("Job", "claiming", "Unsupported")
    kubectl.create(job("ordinary"))
    scheduler.wait_state(kubectl.namespace, "ordinary", "completed")


# -- members that come and go ------------------------------------------------------------------------


def test_B19_failed_pod_of_a_running_job_is_replaced(
    scheduler: Scheduler, kubectl: Kubectl, small_cluster: Cluster, witness: Witness
) -> None:
    kubectl.create(job("worn", pods=3, cpu="8", run="10m"))
    scheduler.wait_state(kubectl.namespace, "worn", "running")
    kubectl.create(job("behind", pods=4, cpu="8", run="100ms"))
    scheduler.wait_state(kubectl.namespace, "behind", "waiting")
    victim = witness.wait_binds(kubectl.namespace, 3)[0]
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{victim.name}/status"
    failed = {"status": {"phase": "Failed", "reason": "Killed"}}
    merge = "application/merge-patch+json"
    assert small_cluster.client.request("PATCH", path, failed, merge).ok
    # The Job replaces it after its back-off; the replacement joins the running group, ahead of the group that
    # waits, although that one was here before it.
    witness.wait_binds(kubectl.namespace, 4)
    assert witness.starts(kubectl.namespace) == ["worn"]
    scheduler.wait_state(kubectl.namespace, "worn", "running")
    assert scheduler.groups(kubectl.namespace)["behind"]["state"] == "waiting"
    kubectl("delete", "job", "worn", "--wait=false")
    scheduler.wait_state(kubectl.namespace, "behind", "completed")
    assert witness.started_after(kubectl.namespace, "behind", "worn")


def test_B20_surplus_pods_join_the_running_group(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    kubectl.create(*(member(name, run="10m") for name in "ab"))
    scheduler.wait_state(kubectl.namespace, "team", "running")
    kubectl.create(*(member(name, run="10m") for name in "cd"))
    assert len(witness.wait_binds(kubectl.namespace, 4)) == 4
    finish(kubectl, "-lfairlead.dev/group=team")
    scheduler.wait_state(kubectl.namespace, "team", "completed")
    _, page = scheduler.get(f"/api/v1/groups/{kubectl.namespace}/team")
    assert [each["group"]["seen"] for each in page["groups"]] == [4]


def test_group_smaller_than_its_job_starts_early(scheduler: Scheduler, kubectl: Kubectl) -> None:
    labels = {"fairlead.dev/group": "half", "fairlead.dev/group-size": "2"}
    kubectl.create(job("larger", pods=4, labels=labels))
    until(lambda: succeeded(kubectl, "larger"))
    assert scheduler.wait_state(kubectl.namespace, "half", "completed")["size"] == 2


def test_F26_a_member_deleted_while_waiting_takes_the_group_back(
    scheduler: Scheduler, kubectl: Kubectl, witness: Witness
) -> None:
    kubectl.create(blocker())
    scheduler.wait_state(kubectl.namespace, "blocker", "running")
    kubectl.create(member("a"), member("b"))
    scheduler.wait_state(kubectl.namespace, "team", "waiting")
    kubectl("delete", "pod", "b")
    assert scheduler.wait_state(kubectl.namespace, "team", "assembling")["seen"] == 1
    until(lambda: succeeded(kubectl, "blocker"))
    kubectl.create(job("other"))
    scheduler.wait_state(kubectl.namespace, "other", "completed")
    assert "team" not in witness.starts(kubectl.namespace)
    kubectl.create(member("c"))
    scheduler.wait_state(kubectl.namespace, "team", "completed")


def test_suspended_job_waits_for_its_owner(scheduler: Scheduler, kubectl: Kubectl, witness: Witness) -> None:
    kubectl.create(job("asleep", pods=2, job={"suspend": True}))
    kubectl.create(job("awake"))
    scheduler.wait_state(kubectl.namespace, "awake", "completed")
    witness.wait_binds(kubectl.namespace, 1)
    assert witness.starts(kubectl.namespace) == ["awake"]
    kubectl("patch", "job", "asleep", "-p", json.dumps({"spec": {"suspend": False}}))
    scheduler.wait_state(kubectl.namespace, "asleep", "completed")


# -- and all of it again -----------------------------------------------------------------------------


def test_replay_of_the_whole_module_decides_the_same(scheduler: Scheduler) -> None:
    """Last, because it ends the scheduler: only then is the recording whole."""
    scheduler.stop()
    assert "Traceback" not in scheduler.log
    for seed in ("0", "1"):
        recording = scheduler.data.with_name("recording.jsonl")
        run = subprocess.run(
            [FAIRLEAD, "replay", str(recording)],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
        )
        assert run.returncode == 0, run.stdout + run.stderr[-3000:]
        assert "0 differences" in run.stdout
