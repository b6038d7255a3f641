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
from spark_submit import Drivers
from testbed import control_plane

from conftest import plugin_build
from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.localcluster import Cluster
from fairlead.localcluster.progress import Progress
from fairlead.model import esi
from fairlead.model.application import AppState, SparkApplication
from fairlead.model.batchjob import BatchJob, BatchJobSpec
from fairlead.wire import applications
from live import Kubectl, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

Object = dict[str, Any]
LABEL = "tuberlin.de/scheduler-slots"
SLOT = {"cpu": "600m", "memory": "1.75Gi"}
MEMBERS = ("m0", "m1")


def node(name: str, labels: dict[str, str]) -> Object:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "30"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def kinds(cluster: Cluster) -> list[str]:
    """Those of the operator's that the API server has begun to serve."""
    found = Kubectl(cluster, "default")("api-resources", "--api-group=sparkoperator.k8s.io", "--no-headers")
    return found.splitlines()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two members of a Testbed, and one node for drivers; the operator's CRDs."""
    file = tmp_path_factory.mktemp("nodes") / "nodes.json"
    nodes = [*(node(name, {LABEL: str(n)}) for n, name in enumerate(MEMBERS)), node("other", {})]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}), encoding="utf-8")
    with control_plane(node_file=str(file), kube_scheduler=True) as cluster:
        crds = plugin_build().spark_crds()
        Kubectl(cluster, "default")("create", *[f"--filename={path}" for path in crds])
        until(lambda: len(kinds(cluster)) == len(crds), "the operator's kinds to be served")
        level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        Kubectl(cluster, "default").create({**level, "metadata": {"name": "high-priority"}})
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
    name = request.node.name.lower().replace("_", "-")[:60].rstrip("-")
    Kubectl(plane, "default")("create", "namespace", name)
    found = Kubectl(plane, name)
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
    slots = [Slot(member, 0, number) for number, member in enumerate(MEMBERS)]
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


def executors(kubectl: Kubectl, name: str, number: int = 2) -> list[Object]:
    def there() -> list[Object] | None:
        found = kubectl.get("pods", f"-lsparkoperator.k8s.io/app-name={name},spark-role=executor")
        return found if len(found) == number else None

    return until(there, f"{number} executors of {name}", pause=0.2)


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
    assert look(kubectl, "pi").state is AppState.PENDING
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
    for pod, member in zip(pods, MEMBERS, strict=True):
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
