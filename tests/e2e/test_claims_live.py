"""Pods with claims on a real control plane: volumes are chosen, bound by its controller, and then the pods.

A thread stands in for a CSI provisioner: it makes a volume for each claim that names a node, or gives the
claim back. One scheduler for the whole module, recording; a test replays what it recorded.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from live import FAIRLEAD, Kubectl, Scheduler, data_folder, job, pod, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SELECTED = "volume.kubernetes.io/selected-node"
MAKER = "example.com/maker"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def scheduler(small_cluster: Cluster) -> Iterator[Scheduler]:
    with data_folder() as data:
        recording = data.with_name("recording.jsonl")
        with Scheduler(small_cluster.kubeconfig, data, "--record", str(recording)) as running:
            yield running


@pytest.fixture
def room(scheduler: Scheduler, kubectl: Kubectl) -> Iterator[Kubectl]:
    """A namespace, and storage classes of that name; its volumes are deleted in the end."""
    assert scheduler.ready()
    name = kubectl.namespace
    kubectl.create(storage_class(f"{name}-local", "kubernetes.io/no-provisioner"))
    kubectl.create(storage_class(f"{name}-made", MAKER))
    kubectl.create(storage_class(f"{name}-now", "kubernetes.io/no-provisioner", "Immediate"))
    yield kubectl
    kubectl("delete", "pods,jobs", "--all", "--wait=true", "--timeout=100s")
    kubectl("delete", "persistentvolumeclaims", "--all", "--timeout=100s")
    kubectl("delete", "persistentvolumes,storageclasses", "-l", f"room={name}", "--timeout=100s")


def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"room": name.rpartition("-")[0]}},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def claim(room: Kubectl, name: str, kind: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": f"{room.namespace}-{kind}",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def disk(room: Kubectl, name: str, kind: str, key: str, value: str, **more: Any) -> Json:
    """A volume that only nodes with this label reach."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{room.namespace}-{name}", "labels": {"room": room.namespace}},
        "spec": {
            "storageClassName": f"{room.namespace}-{kind}",
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/nowhere"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "persistentVolumeReclaimPolicy": "Retain",
            **more,
        },
    }


def using(made: Json, *claims: str) -> Json:
    """The pod, or the Job's pods, with these claims mounted."""
    spec = made["spec"]["template"]["spec"] if made["kind"] == "Job" else made["spec"]
    spec["volumes"] = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return made


def node_of(room: Kubectl, name: str) -> str:
    (found,) = room.get("pods", name)
    return found["spec"].get("nodeName", "")


def bound_to(room: Kubectl, name: str) -> str:
    (found,) = room.get("persistentvolumeclaims", name)
    return found["spec"]["volumeName"] if found["status"]["phase"] == "Bound" else ""


def nodes(cluster: Cluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in Kubectl(cluster, "default").get("nodes"))


@contextlib.contextmanager
def provisioner(room: Kubectl, answer: Callable[[str, Json], Json | None]) -> Iterator[list[str]]:
    """`answer` makes the volume for a node and a claim; None gives it back. Yields the nodes asked for."""
    over, asked = threading.Event(), list[str]()

    def work() -> None:
        while not over.wait(0.1):
            with contextlib.suppress(AssertionError):  # the API server did not take it: once more, then
                for each in room.get("persistentvolumeclaims"):
                    provide(each)

    def provide(each: Json) -> None:
        node = each["metadata"].get("annotations", {}).get(SELECTED)
        if each["status"]["phase"] == "Bound" or not node or each["spec"].get("volumeName"):
            return
        asked.append(node)
        made = answer(node, each)
        if made is None:
            room("annotate", "pvc", each["metadata"]["name"], f"{SELECTED}-")
        else:
            room("apply", "-f", "-", text=json.dumps(made))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        thread.join(60)


def made_for(room: Kubectl, node: str, wanted: Json) -> Json:
    """What a provisioner makes: a volume that is meant for the claim and reached from the node."""
    meta = wanted["metadata"]
    reference = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": meta["name"], "uid": meta["uid"],
        "namespace": meta["namespace"],
    }  # fmt: skip
    return disk(room, f"for-{meta['name']}", "made", HOST, node, claimRef=reference)


def test_a_pod_goes_to_the_volume_and_is_bound_once_its_claim_is(
    small_cluster: Cluster, room: Kubectl
) -> None:
    last = nodes(small_cluster)[-1]
    room.create(disk(room, "disk", "local", HOST, last), claim(room, "data", "local"))
    room.create(using(pod("user", run="60s"), "data"))
    until(lambda: node_of(room, "user"), "the pod to be bound")
    assert node_of(room, "user") == last
    assert bound_to(room, "data") == f"{room.namespace}-disk", "the claim is bound before its pod is"
    (volume,) = room.get("persistentvolumes", f"{room.namespace}-disk")
    assert volume["spec"]["claimRef"]["name"] == "data"
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"


def test_members_of_a_gang_get_a_volume_each(small_cluster: Cluster, room: Kubectl) -> None:
    two = nodes(small_cluster)[:2]
    for number, node in enumerate(two):
        room.create(disk(room, f"disk-{number}", "local", HOST, node), claim(room, f"data-{number}", "local"))
    labels = {"fairlead.dev/group": "gang", "fairlead.dev/group-size": "2"}
    room.create(*(using(pod(f"p-{n}", run="60s", cpu="5", labels=labels), f"data-{n}") for n in range(2)))
    until(lambda: all(node_of(room, f"p-{n}") for n in range(2)), "both members to be bound")
    assert sorted(node_of(room, f"p-{n}") for n in range(2)) == two
    assert sorted(bound_to(room, f"data-{n}") for n in range(2)) == [
        f"{room.namespace}-disk-0",
        f"{room.namespace}-disk-1",
    ]


def test_a_provisioner_makes_a_volume_on_the_pods_node(room: Kubectl) -> None:
    with provisioner(room, lambda node, wanted: made_for(room, node, wanted)):
        room.create(claim(room, "data", "made"), using(pod("user", run="60s"), "data"))
        until(lambda: node_of(room, "user"), "the pod to be bound")
    (found,) = room.get("persistentvolumeclaims", "data")
    assert found["status"]["phase"] == "Bound"
    assert found["metadata"]["annotations"][SELECTED] == node_of(room, "user")


def test_a_volume_of_the_pods_own_is_made_with_it(room: Kubectl) -> None:
    with provisioner(room, lambda node, wanted: made_for(room, node, wanted)):
        owner = pod("user", run="60s")
        template = {"spec": claim(room, "", "made")["spec"]}
        owner["spec"]["volumes"] = [{"name": "own", "ephemeral": {"volumeClaimTemplate": template}}]
        room.create(owner)
        until(lambda: node_of(room, "user"), "the pod to be bound")
    assert bound_to(room, "user-own") == f"{room.namespace}-for-user-own"


def test_a_provisioner_that_cannot_is_asked_again(room: Kubectl) -> None:
    refused: list[str] = []

    def second_time(node: str, wanted: Json) -> Json | None:
        if refused:
            return made_for(room, node, wanted)
        refused.append(node)
        return None

    with provisioner(room, second_time) as asked:
        room.create(claim(room, "data", "made"), using(pod("user", run="60s"), "data"))
        until(lambda: node_of(room, "user"), "the pod to be bound")
    assert len(asked) >= 2 and bound_to(room, "data")
    said = room.wait_event("Pod", "user", "Backoff")
    assert "no volume could be made for claim data" in said["note"]


def test_a_pod_waits_for_a_claim_that_does_not_exist(room: Kubectl, scheduler: Scheduler) -> None:
    room.create(using(pod("user", run="60s"), "data"))
    missing = 'persistentvolumeclaim "data" not found'
    until(lambda: missing in why(scheduler, room, "user"), "the group to say what it waits for")
    assert not node_of(room, "user")
    with provisioner(room, lambda node, wanted: made_for(room, node, wanted)):
        room.create(claim(room, "data", "made"))
        until(lambda: node_of(room, "user"), "the pod to be bound")


def why(scheduler: Scheduler, room: Kubectl, name: str) -> str:
    return scheduler.groups(room.namespace).get(name, {"text": ""})["text"]


def test_a_bound_claim_draws_its_pod_into_the_zone(small_cluster: Cluster, room: Kubectl) -> None:
    *_, last = nodes(small_cluster)
    room("label", "node", last, f"{ZONE}=b", "--overwrite")
    try:
        room.create(disk(room, "disk", "now", ZONE, "b"), claim(room, "data", "now"))
        until(lambda: bound_to(room, "data"), "the claim to be bound")
        room.create(using(job("user", run="60s"), "data"))
        (found,) = until(lambda: [p for p in room.get("pods") if p["spec"].get("nodeName")], "the pod")
        assert found["spec"]["nodeName"] == last
    finally:
        room("label", "node", last, f"{ZONE}-")


def test_replay_decides_the_same(scheduler: Scheduler) -> None:
    """Of all that came before: the recording is whole only once the scheduler has ended."""
    scheduler.stop()
    assert "Traceback" not in scheduler.log
    recording = str(scheduler.data.with_name("recording.jsonl"))
    run = subprocess.run(
        [FAIRLEAD, "replay", recording], capture_output=True, text=True, timeout=200, check=False
    )
    assert run.returncode == 0 and "0 differences" in run.stdout, run.stdout + run.stderr[-3000:]
    scheduler.start()
    scheduler.wait_ready()


def test_a_process_killed_while_a_claim_is_made_leaves_nothing_undone(
    room: Kubectl, scheduler: Scheduler
) -> None:
    room.create(claim(room, "data", "made"), using(pod("user", run="60s"), "data"))
    until(lambda: SELECTED in room.get("pvc", "data")[0]["metadata"].get("annotations", {}), "the choice")
    scheduler.kill()
    with provisioner(room, lambda node, wanted: made_for(room, node, wanted)):
        scheduler.start()
        scheduler.wait_ready()
        until(lambda: node_of(room, "user"), "the pod to be bound")
    (found,) = room.get("pvc", "data")
    assert found["metadata"]["annotations"][SELECTED] == node_of(room, "user")
