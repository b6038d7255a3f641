"""SparkApplications that BatchJobs become, with the real Spark operator, its own CRDs and a real API server.

No container runs here, so spark-submit and the driver's program are played by spark_submit.py. The operator's
webhook does not run: it would listen on every address of the machine.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from esi_live import (
    LABEL,
    NODES,
    SLOT,
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
from spark_submit import Drivers

from conftest import plugin_build
from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.localcluster import Cluster
from fairlead.localcluster.progress import Progress
from fairlead.model import esi
from fairlead.model.application import AppState, SparkApplication
from fairlead.model.batchjob import BatchJob, BatchJobSpec
from fairlead.wire import applications
from live import Kubectl, Scheduler, data_folder, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    crds = plugin_build().spark_crds()
    with plane_with(tmp_path_factory.mktemp("nodes"), *crds, kube_scheduler=True) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def operator(plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("spark")
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir()
    stand_in = Path(__file__).with_name("spark_submit.py")
    submit.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in}" "$@"\n', encoding="utf-8")
    submit.chmod(0o755)
    environment = {
        **os.environ,
        "KUBECONFIG": str(plane.kubeconfig),
        "KUBECTL": plane.kubectl,
        "SPARK_HOME": str(home),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(plane.state.ports.apiserver),
    }
    command = [plugin_build().spark_operator(Progress()), "controller", "start", "--enable-ui-service=false"]
    options = ["--health-probe-bind-address=0", "--metrics-bind-address=0"]
    log = home / "operator.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
        )
    try:
        yield
        assert process.poll() is None, "the operator ended before the tests did"
    finally:
        process.terminate()
        process.wait(60)
        with contextlib.suppress(OSError):
            print(log.read_text(encoding="utf-8", errors="replace")[-5000:])


@pytest.fixture
def kubectl(plane: Cluster, request: pytest.FixtureRequest) -> Kubectl:
    """A namespace of the test's own, with the driver's service account."""
    found = namespace_of(plane, request.node.name)
    found("create", "serviceaccount", "spark")
    return found


@pytest.fixture(autouse=True)
def drivers(kubectl: Kubectl) -> Iterator[Drivers]:
    with Drivers(kubectl) as found:
        yield found


def spark(**executor: Any) -> Object:
    return {
        "type": "Scala",
        "sparkVersion": "3.5.3",
        "image": "spark:3.5.3",
        "mainClass": "org.apache.spark.examples.SparkPi",
        "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
        "arguments": ["4000"],
        "restartPolicy": {"type": "Never"},
        "driver": {"cores": 1, "coreRequest": "100m", "memory": "512m", "serviceAccount": "spark"},
        "executor": executor,
    }


def manifest(kubectl: Kubectl, name: str, spec: Object) -> Object:
    """The application of a BatchJob in the first slots of both members."""
    testbed = esi.Testbed(
        uid="t", version=1, namespace=kubectl.namespace, name="tb", spec=esi.TestbedSpec(LABEL, 2, dict(SLOT))
    )
    slots = [Slot(member, 0, number) for number, member in enumerate(NODES)]
    for number, slot in enumerate(slots):
        slot.position = number
    job = BatchJob(
        uid="b", version=1, namespace=kubectl.namespace, name=name, spec=BatchJobSpec(spark_spec=spec)
    )
    assert apps.why_not(job, testbed) == ""
    found = apps.build(job, testbed, slots)
    del found["metadata"]["ownerReferences"]  # nobody made the BatchJob: it would be collected as an orphan
    return found


def create(kubectl: Kubectl, found: Object) -> None:
    """Any field that the operator's own schema does not know is an error."""
    kubectl("create", "--validate=strict", "-f", "-", text=json.dumps(found))


def look(kubectl: Kubectl, name: str) -> SparkApplication:
    (found,) = kubectl.get("sparkapplication", name)
    return applications.spark(json.dumps(found).encode())


def reached(kubectl: Kubectl, name: str, state: AppState) -> SparkApplication:
    def there() -> SparkApplication | None:
        found = look(kubectl, name)
        return found if found.state is state else None

    return until(there, f"{name} to be {state}", pause=0.2)


def executors(kubectl: Kubectl, name: str) -> list[Object]:
    return pods_of(kubectl, f"sparkoperator.k8s.io/app-name={name},spark-role=executor")


def bind(plane: Cluster, pod: Object, member: str) -> None:
    meta = pod["metadata"]
    target = {"apiVersion": "v1", "kind": "Node", "name": member}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
    plane.client.post(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", body)


def test_an_application_runs_in_its_slots_until_it_is_completed(
    plane: Cluster, kubectl: Kubectl, drivers: Drivers
) -> None:
    mine = spark(labels={"team": "a"}, annotations={"note": "x"}, envVars={"MODE": "fast"}, coreLimit="1")
    create(kubectl, manifest(kubectl, "pi", mine))
    pods = executors(kubectl, "pi")
    reached(kubectl, "pi", AppState.PENDING)
    for pod in pods:
        meta, spec = pod["metadata"], pod["spec"]
        assert (
            meta["labels"].items()
            >= {
                "team": "a",
                "batchjob.tuberlin.de/slots-resource-name": "tb",
                "batchjob.tuberlin.de/slots-is-ghost-pod": "false",
                "batchjob.tuberlin.de/slots-ids": "0_1",
            }.items()
        )
        assert meta["annotations"].items() >= {"note": "x", "fairlead.dev/slots": "m0/0,m1/0"}.items()
        assert spec["schedulerName"] == "external-scheduler"
        resources = spec["containers"][0]["resources"]
        assert resources["requests"] == {"cpu": "600m", "memory": "1792Mi"}
        assert resources["limits"] == {"cpu": "1", "memory": "1792Mi"}
        assert {"name": "MODE", "value": "fast"} in spec["containers"][0]["env"]
    (driver,) = kubectl.get("pods", "-lspark-role=driver")
    assert driver["spec"]["schedulerName"] == "default-scheduler"
    assert not any(key.startswith("batchjob.tuberlin.de/") for key in driver["metadata"]["labels"])
    for pod, member in zip(pods, NODES, strict=True):
        bind(plane, pod, member)
    reached(kubectl, "pi", AppState.RUNNING)
    drivers.end("pi")
    reached(kubectl, "pi", AppState.COMPLETED)


def test_a_users_pod_template_brings_place_and_priority_without_a_webhook(kubectl: Kubectl) -> None:
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [ssd]}]}}}
    own = {"affinity": affinity, "terminationGracePeriodSeconds": 5, "containers": [{"name": "executor"}]}
    template = {"metadata": {"labels": {"team": "a"}}, "spec": own}
    create(kubectl, manifest(kubectl, "templated", spark(template=template)))
    for pod in executors(kubectl, "templated"):
        spec = pod["spec"]
        assert (spec["schedulerName"], spec["priorityClassName"]) == ("external-scheduler", "high-priority")
        assert (spec["priority"], spec["terminationGracePeriodSeconds"]) == (1000, 5)
        where = {"key": LABEL, "operator": "In", "values": ["0", "1"]}
        (term,) = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
        assert term == {"matchExpressions": [ssd, where]}
        assert pod["metadata"]["labels"]["team"] == "a"


def test_a_driver_that_fails_fails_the_application(kubectl: Kubectl, drivers: Drivers) -> None:
    create(kubectl, manifest(kubectl, "broken", spark()))
    executors(kubectl, "broken")
    drivers.end("broken", code=3)
    assert "ExitCode: 3" in reached(kubectl, "broken", AppState.FAILED).text


def test_a_missing_account_of_the_driver_is_the_operators_failure(kubectl: Kubectl) -> None:
    mine = spark()
    mine["driver"]["serviceAccount"] = "nobody"
    create(kubectl, manifest(kubectl, "unknown", mine))
    assert 'serviceaccount "nobody" not found' in reached(kubectl, "unknown", AppState.FAILED).text


def test_dynamic_allocation_is_within_the_real_schema(kubectl: Kubectl) -> None:
    mine = spark(gpu={"name": "nvidia.com/gpu", "quantity": 1}, memoryOverhead="256m", coreRequest="100m")
    more = {"dynamicAllocation": {"enabled": True, "maxExecutors": 9}, "batchScheduler": "volcano"}
    create(kubectl, manifest(kubectl, "dynamic", mine | more))
    (found,) = kubectl.get("sparkapplication", "dynamic")
    assert found["spec"]["dynamicAllocation"] == {"enabled": True, "maxExecutors": 2}
    assert found["spec"]["executor"]["memory"] == "1536m"


# -- the whole way: from a Scheduling to executors in their slots --------------------------------------


@pytest.fixture(scope="module")
def scheduler(plane: Cluster) -> Iterator[Scheduler]:
    with data_folder() as data, Scheduler(plane.kubeconfig, data, "--esi", "--insecure-esi") as found:
        yield found


@pytest.fixture
def slots(kubectl: Kubectl, scheduler: Scheduler) -> Iterator[None]:
    """A Testbed for this test alone: another one would find no room beside it."""
    assert scheduler.running
    kubectl.create(members("tb"))
    wait_state(kubectl, "testbed", "tb", "SUCCESS")
    yield
    kubectl("delete", "testbed", "tb")


def bound_executors(kubectl: Kubectl, name: str) -> list[Object]:
    def there() -> list[Object] | None:
        found = executors(kubectl, name)
        return found if all(pod["spec"].get("nodeName") for pod in found) else None

    return until(there, f"the executors of {name} to be bound")


def slot_states(kubectl: Kubectl) -> set[str]:
    return {slot["state"] for slot in kubectl.get("testbed", "tb")[0]["status"]["slots"]}


@pytest.mark.usefixtures("slots")
def test_jobs_of_a_scheduling_run_in_their_slots_and_are_released(kubectl: Kubectl, drivers: Drivers) -> None:
    kubectl.create(*[batch_job(name, sparkSpec=spark()) for name in ("one", "two")])
    kubectl.create(scheduling(kubectl, "plan", "tb", "two", "one", "two", "one"))
    for name, slots in (("two", "0_2"), ("one", "1_3")):
        pods = executors(kubectl, name)
        assert {pod["metadata"]["labels"]["batchjob.tuberlin.de/slots-ids"] for pod in pods} == {slots}
    for name in ("one", "two"):
        wait_state(kubectl, "batchjob", name, "RunningState")
    # Round robin over the nodes: numbers 0 and 2 are both on the first one.
    assert slots_of(bound_executors(kubectl, "two")) == ["m0/0", "m0/1"]
    assert slots_of(bound_executors(kubectl, "one")) == ["m1/0", "m1/1"]
    wait_state(kubectl, "testbed", "tb", "RUNNING")
    until(lambda: slot_states(kubectl) == {"OCCUPIED"}, "all slots to be occupied")
    for name in ("one", "two"):
        drivers.end(name)
        status = wait_state(kubectl, "batchjob", name, "CompletedState")
        assert [event["successful"] for event in status["scheduledEvents"]] == [True]
    wait_state(kubectl, "scheduling", "plan", "CompletedState")
    kubectl("delete", "scheduling", "plan")
    for name in ("one", "two"):
        wait_state(kubectl, "batchjob", name, "ReadyState")
    assert kubectl.get("sparkapplications") == []
    wait_state(kubectl, "testbed", "tb", "SUCCESS")


@pytest.mark.usefixtures("slots")
def test_a_failed_driver_fails_its_scheduling_and_its_words_are_told(
    kubectl: Kubectl, drivers: Drivers
) -> None:
    kubectl.create(batch_job("bad", sparkSpec=spark()))
    kubectl.create(scheduling(kubectl, "plan", "tb", "bad", "bad"))
    wait_state(kubectl, "batchjob", "bad", "RunningState")
    drivers.end("bad", code=3)
    wait_state(kubectl, "scheduling", "plan", "FailedState")

    def told() -> bool:
        return "ExitCode: 3" in json.dumps(kubectl.get("batchjob", "bad")[0]["status"])

    until(told, "the operator's words")
    wait_state(kubectl, "testbed", "tb", "SUCCESS")


@pytest.mark.usefixtures("slots")
def test_a_missing_account_is_named_and_waited_for(kubectl: Kubectl, drivers: Drivers) -> None:
    kubectl("delete", "serviceaccount", "spark")
    kubectl.create(batch_job("early", sparkSpec=spark()))
    kubectl.create(scheduling(kubectl, "plan", "tb", "early"))

    def told() -> bool:
        status = json.dumps(kubectl.get("batchjob", "early")[0].get("status", {}))
        return f"service account spark does not exist in namespace {kubectl.namespace}" in status

    until(told, "the account to be named")
    assert kubectl.get("sparkapplications") == []
    kubectl("create", "serviceaccount", "spark")
    wait_state(kubectl, "batchjob", "early", "RunningState")
    drivers.end("early")
    wait_state(kubectl, "scheduling", "plan", "CompletedState")
