"""Application pods of external schedulers come to their slots by the real kube-scheduler and the extender.

It runs with deploy/kube-scheduler-esi-config.yaml, of which only the address is replaced; and once as ESI ran
it, with whole nodes and without a bind verb; and once by TLS. The same placements come from Fairlead.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conftest import free_port, unique_name
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up, components, pki
from live import Kubectl, Scheduler, data_folder, placed, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
HOST = "127.0.0.1"
PREFIX = "batchjob.tuberlin.de/"
SCHEDULER, PROFILER = "tuberlin.de/scheduler-slots", "tuberlin.de/profiler-slots"
NODES = ("node-1", "node-2", "node-3", "node-4")


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "2", "memory": "20Gi", "pods": "110"}
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def pod(name: str, cpu: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """One of external-scheduler's that runs for ever."""
    requests = {"cpu": cpu, "memory": "256Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"schedulerName": "external-scheduler", "containers": [container], **spec},
    }


def executor(name: str, testbed: str, slots: str, cpu: str) -> dict[str, Any]:
    """An application pod that may use the slots of these numbers."""
    labels = {"slots-resource-name": testbed, "slots-is-ghost-pod": "false", "slots-ids": slots}
    marked = {f"{PREFIX}{key}": value for key, value in labels.items()}
    return pod(name, cpu, marked, priorityClassName="high-priority")


def bed(name: str, label: str, slots: int, cpu: str) -> dict[str, Any]:
    """Its free slots are held by ghost pods."""
    spec = {
        "nodeLabel": label,
        "slotsPerNode": slots,
        "resourcesPerSlot": {"cpu": cpu, "memory": "256Mi"},
        "fairlead": {"holdCapacity": "pods"},
    }
    return {
        "apiVersion": "esi.tu-berlin.de/v1alpha1",
        "kind": "Testbed",
        "metadata": {"name": name},
        "spec": spec,
    }


# -- the cluster and who schedules -----------------------------------------------------------------------


class Stage:
    """A control plane, and whoever places application pods at present."""

    def __init__(self, plane: Cluster, data: Path, folder: Path, port: int) -> None:
        self.plane, self.port = plane, port
        self._data, self._folder = data, folder
        self.binder = ""
        self.fairlead: Scheduler | None = None

    def configuration(self, **changes: Any) -> str:
        """deploy/kube-scheduler-esi-config.yaml with our address and these changes of the extender."""
        told = yaml.safe_load((DEPLOY / "kube-scheduler-esi-config.yaml").read_text(encoding="utf-8"))
        (extender,) = told["extenders"]
        extender |= {"urlPrefix": extender["urlPrefix"].replace("8080", str(self.port)), **changes}
        told["extenders"] = [{key: value for key, value in extender.items() if value is not None}]
        file = self._folder / "config.yaml"
        file.write_text(yaml.safe_dump(told), encoding="utf-8")
        return str(file)

    def tls(self) -> tuple[str, dict[str, Any]]:
        """The folder for Fairlead, and what of the extender's entry is different by TLS."""
        made, ours = self._folder / "pki", self._folder / "tls"
        if not made.exists():
            for folder in (made, ours):
                folder.mkdir()
            pki.create(made)
            for name, source in (("tls.crt", "server.crt"), ("tls.key", "server.key"), ("ca.crt", "ca.crt")):
                shutil.copyfile(made / source, ours / name)
        files = {"caFile": "ca.crt", "certFile": "scheduler.crt", "keyFile": "scheduler.key"}
        entry = {
            "urlPrefix": f"https://{HOST}:{self.port}/extender",
            "enableHTTPS": True,
            "tlsConfig": {key: str(made / name) for key, name in files.items()},
        }
        return str(ours), entry

    def placing(self, binder: str, **changes: Any) -> None:
        """Let pods be placed by kube-scheduler with this extender ("tls": by TLS), or by Fairlead itself."""
        self.plane.stop("kube-scheduler")
        where = ("--esi-binder", binder, "--port", str(self.port))
        if binder == "tls":
            folder, entry = self.tls()
            changes = entry | changes
            at = f"{HOST}:{self.port}"
            where = ("--esi-binder", "extender", "--extender", at, "--extender-tls", folder)
        if binder != self.binder:
            self.stop()
            self.fairlead = Scheduler(self.plane.kubeconfig, self._data, "--esi", "--insecure-esi", *where)
            self.fairlead.__enter__()
            self.binder = binder
        if binder != "fairlead":
            options = msgspec.structs.replace(
                self.plane.state.options, kube_scheduler=True, scheduler_config=self.configuration(**changes)
            )
            self.plane.state.options = options
            components.write_files(self.plane.files, self.plane.state)
            self.plane.start("kube-scheduler")

    def stop(self) -> None:
        if self.fairlead is not None:
            self.fairlead.__exit__()
            self.fairlead = None


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    nodes = folder / "nodes.json"
    items = [node(name) for name in NODES]
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    name = unique_name()
    try:
        plane = bring_up(UpOptions(name=name, node_file=str(nodes), kube_scheduler=True))
        kubectl = Kubectl(plane, "default")
        kubectl("apply", "-f", str(DEPLOY / "crds"))
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=100s")
        level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        for each, value in (("high-priority", 1000), ("testbed-preemptee", 100)):
            kubectl.create({**level, "metadata": {"name": each}, "value": value})
        with data_folder() as data:
            found = Stage(plane, data, folder, free_port())
            try:
                yield found
            finally:
                found.stop()
    finally:
        bring_down(name)


@pytest.fixture
def kubectl(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """A namespace of the test's own; afterwards no Testbed has nodes or pods."""
    name = request.node.name.lower().replace("_", "-").replace("[", "-").rstrip("]")[:60].rstrip("-")
    Kubectl(stage.plane, "default")("create", "namespace", name)
    found = Kubectl(stage.plane, name)
    yield found
    found("delete", "testbeds", "--all", "--timeout=100s")
    found("delete", "pods", "--all", "--grace-period=0", "--force", "--timeout=100s")
    for label in (SCHEDULER, PROFILER):
        found("label", "nodes", "--all", f"{label}-")


def enrol(kubectl: Kubectl, label: str, *nodes: str) -> None:
    for number, name in enumerate(nodes):
        kubectl("label", "node", name, f"{label}={number}")


def ghosts(kubectl: Kubectl, testbed: str) -> int:
    """How many hold a slot of it."""
    found = kubectl("get", "pods", "-o", "json", "-l",
                    f"{PREFIX}slots-resource-name={testbed},{PREFIX}slots-is-ghost-pod=true")  # fmt: skip
    live = [
        each
        for each in json.loads(found)["items"]
        if "deletionTimestamp" not in each["metadata"] and each["spec"].get("nodeName")
    ]
    assert all(each["spec"].get("priorityClassName") == "testbed-preemptee" for each in live)
    return len(live)


def wait_ghosts(kubectl: Kubectl, **numbers: int) -> None:
    for name, number in numbers.items():
        until(lambda n=name, k=number: ghosts(kubectl, n) == k, f"{number} ghosts of {name}")  # type: ignore[misc]


def slots(kubectl: Kubectl, testbed: str) -> list[dict[str, Any]]:
    return kubectl.get("testbed", testbed)[0].get("status", {}).get("slots", [])


def state(kubectl: Kubectl, testbed: str) -> str:
    return kubectl.get("testbed", testbed)[0].get("status", {}).get("state", "")


def occupied(kubectl: Kubectl, testbed: str) -> dict[int, str]:
    return {
        each["position"]: each["podName"] for each in slots(kubectl, testbed) if each["state"] == "OCCUPIED"
    }


# -- A8's scenarios --------------------------------------------------------------------------------------


def test_RA9_an_executor_lands_in_its_slot_beside_an_unrelated_pod(stage: Stage, kubectl: Kubectl) -> None:
    """Extender.testFilter, with kube-scheduler as ESI had it: whole nodes, no bind verb. The node has room
    to spare, so kube-scheduler need not evict the ghost: it goes because an executor is in its slot."""
    stage.placing("extender", nodeCacheCapable=False, bindVerb=None, prioritizeVerb=None)
    enrol(kubectl, SCHEDULER, *NODES)
    kubectl.create(bed("batchjob-slots", SCHEDULER, 3, "500m"))
    wait_ghosts(kubectl, **{"batchjob-slots": 12})
    until(lambda: state(kubectl, "batchjob-slots") == "SUCCESS", "the Testbed to say so")
    kubectl.create(pod("unrelated", "400m", nodeSelector={"kubernetes.io/hostname": "node-2"}))
    assert placed(kubectl, "unrelated") == "node-2"
    kubectl.create(executor("executor", "batchjob-slots", "0_1", "500m"))
    assert placed(kubectl, "executor") == "node-1"
    wait_ghosts(kubectl, **{"batchjob-slots": 11})
    until(lambda: state(kubectl, "batchjob-slots") == "RUNNING", "the Testbed to be RUNNING")
    until(lambda: occupied(kubectl, "batchjob-slots") == {0: "executor"}, "the executor in slot 0")
    kubectl.create(executor("late", "batchjob-slots", "0", "500m"))
    refused = kubectl.wait_event("Pod", "late", "FailedScheduling")
    assert "no slot it may use is free: node-1/0" in refused["note"]
    kubectl("delete", "pod", "executor", "--grace-period=0", "--force")
    assert placed(kubectl, "late") == "node-1"


@pytest.mark.parametrize("binder", ["extender", "tls", "fairlead"])
def test_RA11_two_testbeds_on_full_nodes(stage: Stage, kubectl: Kubectl, binder: str) -> None:
    """Extender's two testbeds: each executor needs its ghost's room, and only that ghost goes."""
    stage.placing(binder)
    enrol(kubectl, SCHEDULER, *NODES[:3])
    enrol(kubectl, PROFILER, NODES[3])
    kubectl.create(
        bed("scheduler", SCHEDULER, 3, "600m"),
        bed("profiler", PROFILER, 2, "950m"),
        pod("foreign", "150m", nodeName="node-1"),
    )
    wait_ghosts(kubectl, scheduler=9, profiler=2)
    kubectl.create(
        executor("executor", "scheduler", "3", "600m"),
        executor("profiler-a", "profiler", "0_1", "950m"),
        executor("profiler-b", "profiler", "0_1", "950m"),
    )
    assert placed(kubectl, "executor") == "node-1"
    assert placed(kubectl, "profiler-a") == placed(kubectl, "profiler-b") == "node-4"
    wait_ghosts(kubectl, scheduler=8, profiler=0)
    until(lambda: occupied(kubectl, "scheduler") == {3: "executor"}, "the executor in slot 3")
    until(lambda: sorted(occupied(kubectl, "profiler")) == [0, 1], "both profilers in their slots")
    (foreign,) = kubectl.get("pod", "foreign")
    assert foreign["status"]["phase"] == "Running" and "deletionTimestamp" not in foreign["metadata"]
    (placed_one,) = kubectl.get("pod", "executor")
    assert placed_one["metadata"]["annotations"]["fairlead.dev/slot"] == "node-1/1"
    marks = {
        key: placed_one["metadata"]["labels"][f"{PREFIX}{key}"] for key in ("slots-id", "slots-target-node")
    }
    assert marks == {"slots-id": "1", "slots-target-node": "node-1"}
    wanted = 0 if binder == "fairlead" else 3
    until(lambda: len(preempted(kubectl)) >= wanted, "the Events of preemption")
    assert len(preempted(kubectl)) == wanted
    assert all(name.startswith("ghostpod-") for name in preempted(kubectl))


def preempted(kubectl: Kubectl) -> list[str]:
    """Whom kube-scheduler says that it has evicted."""
    told = kubectl.get("events.events.k8s.io")
    return [each["regarding"]["name"] for each in told if each["reason"] == "Preempted"]
