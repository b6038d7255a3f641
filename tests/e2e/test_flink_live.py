"""BatchJobs that become FlinkDeployments and Jobs, from a Scheduling to the end, on a real API server.

Flink's operator is a Java program and does not run: a CRD in the shape of its own stands in, and `Operator`
plays what it does, TaskManagers of native Flink and the status. The Job controller is the real one.
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from esi_live import (
    Object,
    batch_job,
    members,
    namespace_of,
    plane_with,
    pods_of,
    scheduling,
    slots_of,
    wait_state,
)

from fairlead.localcluster import Cluster
from live import Kubectl, Scheduler, data_folder, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "flinkdeployments.flink.apache.org"},
    "spec": {
        "group": "flink.apache.org",
        "scope": "Namespaced",
        "names": {"kind": "FlinkDeployment", "plural": "flinkdeployments", "singular": "flinkdeployment"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": OPEN, "status": OPEN}}
                },
            }
        ],
    },
}
SLOTS = "taskmanager.numberOfTaskSlots"


class Operator:
    """The Apache operator and a JobManager, for all FlinkDeployments of a namespace."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl
        self.seen: set[str] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flink-operator", daemon=True)

    def __enter__(self) -> "Operator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            for found in self.kubectl.get("flinkdeployments"):
                if found["metadata"]["uid"] not in self.seen:
                    self.seen.add(found["metadata"]["uid"])
                    with self._lock:
                        self.kubectl.create(*self._task_managers(found))
                        self._tell(found["metadata"]["name"], "CREATED")

    @staticmethod
    def _task_managers(found: Object) -> list[Object]:
        """As native Flink: as many as the parallelism needs, from the template and the resource."""
        meta, spec = found["metadata"], found["spec"]
        manager = spec["taskManager"]
        number = -(-spec["job"]["parallelism"] // int(spec["flinkConfiguration"][SLOTS]))
        cpu, memory = manager["resource"]["cpu"], manager["resource"]["memory"]
        amounts = {"cpu": str(cpu), "memory": f"{memory.removesuffix('m')}Mi"}
        resources = {"requests": amounts, "limits": amounts}
        container = {"name": "flink-main-container", "image": spec["image"], "resources": resources}
        owner = {"name": meta["name"], "uid": meta["uid"], "controller": True}
        owner |= {key: found[key] for key in ("apiVersion", "kind")}
        template = manager["podTemplate"]
        labels = {"app": meta["name"], "component": "taskmanager"}
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{meta['name']}-taskmanager-1-{n}",
                    "labels": template["metadata"]["labels"] | labels,
                    "annotations": template["metadata"]["annotations"],
                    "ownerReferences": [owner],
                },
                "spec": {**template["spec"], "restartPolicy": "Never", "containers": [container]},
            }
            for n in range(1, number + 1)
        ]

    def tell(self, name: str, job: str, error: str = "", **more: Any) -> None:
        """A state of the job, after whatever is being told of its beginning."""
        with self._lock:
            self._tell(name, job, error, **more)

    def _tell(self, name: str, job: str, error: str = "", **more: Any) -> None:
        status = {"jobStatus": {"state": job}, "jobManagerDeploymentStatus": "READY", **more}
        patch = json.dumps({"status": {**status, **({"error": error} if error else {})}})
        self.kubectl("patch", "flinkdeployment", name, "--subresource=status", "--type=merge", f"-p={patch}")

    def end(self, name: str, job: str, **more: Any) -> None:
        """The job's last state; its TaskManagers go."""
        self.kubectl("delete", "pods", f"-lapp={name}", "--grace-period=0", "--force")
        self.tell(name, job, **more)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("flink")
    crd = folder / "crd.yaml"
    crd.write_text(yaml.safe_dump(CRD), encoding="utf-8")
    with plane_with(folder, crd) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def scheduler(plane: Cluster) -> Iterator[Scheduler]:
    with data_folder() as data, Scheduler(plane.kubeconfig, data, "--esi", "--insecure-esi") as found:
        yield found


@pytest.fixture
def kubectl(plane: Cluster, scheduler: Scheduler, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """A namespace and a Testbed of the test's own."""
    assert scheduler.running
    found = namespace_of(plane, request.node.name)
    found.create(members("tb"))
    found("create", "serviceaccount", "flink")
    wait_state(found, "testbed", "tb", "SUCCESS")
    yield found
    found("delete", "testbed", "tb")


@pytest.fixture
def operator(kubectl: Kubectl) -> Iterator[Operator]:
    with Operator(kubectl) as found:
        yield found


WORD_COUNT = {
    "jarFile": "./examples/streaming/WordCount.jar",
    "className": "WordCount",
    "args": ["--input", "x"],
}


def test_a_flink_job_runs_in_its_slots_until_it_is_finished(kubectl: Kubectl, operator: Operator) -> None:
    kubectl.create(batch_job("count", flinkSpec=WORD_COUNT))
    kubectl.create(scheduling(kubectl, "plan", "tb", "count", "count"))
    pods = pods_of(kubectl, "app=count,component=taskmanager")
    for pod in pods:
        assert pod["spec"]["schedulerName"] == "external-scheduler"
        assert pod["spec"]["priority"] == 1000
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "600m", "memory": "1792Mi"}
    wait_state(kubectl, "batchjob", "count", "ScheduledState")
    assert slots_of(pods_of(kubectl, "app=count")) == ["m0/0", "m1/0"]
    operator.tell("count", "RUNNING")
    wait_state(kubectl, "batchjob", "count", "RunningState")
    operator.end("count", "FINISHED")
    wait_state(kubectl, "batchjob", "count", "CompletedState")
    wait_state(kubectl, "scheduling", "plan", "CompletedState")
    kubectl("delete", "scheduling", "plan")
    wait_state(kubectl, "batchjob", "count", "ReadyState")
    assert kubectl.get("flinkdeployments") == []


def test_a_flink_job_that_fails_says_why(kubectl: Kubectl, operator: Operator) -> None:
    spec = {
        "image": "flink:1.20",
        "flinkVersion": "v1_20",
        "job": {"jarURI": "local:///a.jar", "parallelism": 3},
    }
    kubectl.create(batch_job("bad", fairlead={"flinkDeploymentSpec": spec}))
    kubectl.create(scheduling(kubectl, "plan", "tb", "bad", "bad"))
    # Three tasks on two slots: two to a TaskManager, and no third one that would wait for ever.
    pods_of(kubectl, "app=bad,component=taskmanager")
    error = json.dumps({"type": "JobException", "message": "the input is not there", "throwableList": []})
    operator.end("bad", "FAILED", error=error, lifecycleState="FAILED")
    wait_state(kubectl, "scheduling", "plan", "FailedState")

    def told() -> bool:
        return "the input is not there" in json.dumps(kubectl.get("batchjob", "bad")[0]["status"])

    until(told, "the operator's words")


def test_a_plain_job_has_a_pod_in_each_of_its_slots(kubectl: Kubectl) -> None:
    pod = {"containers": [{"name": "main", "image": "none"}]}
    template = {"metadata": {"annotations": {"fairlead.dev/run-time": "3s"}}, "spec": pod}
    kubectl.create(batch_job("plain", fairlead={"jobSpec": {"template": template}}))
    kubectl.create(scheduling(kubectl, "plan", "tb", "plain", "plain", "plain"))
    wait_state(kubectl, "scheduling", "plan", "CompletedState")
    pods = pods_of(kubectl, "job-name=plain", 3)
    assert slots_of(pods) == ["m0/0", "m0/1", "m1/0"]
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}
    (event,) = wait_state(kubectl, "batchjob", "plain", "CompletedState")["scheduledEvents"]
    assert event["successful"]
