"""Short ways to write BatchJobs and slots, for tests of the applications that they become."""

from typing import Any

from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.model import esi
from fairlead.model.batchjob import BatchJob, BatchJobOptions, BatchJobSpec

Object = dict[str, Any]

LABELS = {
    "batchjob.tuberlin.de/slots-resource-name": "tb",
    "batchjob.tuberlin.de/slots-is-ghost-pod": "false",
    "batchjob.tuberlin.de/slots-ids": "0_2",
}
ANNOTATIONS = {"fairlead.dev/slots": "n0/0,n0/1", "fairlead.dev/batch-job": "b"}
WHERE = {"key": "example.com/slots", "operator": "In", "values": ["4"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [WHERE]}]}}}


def slots_of(name: str = "tb", **resources: str | int) -> esi.Testbed:
    spec = esi.TestbedSpec("example.com/slots", 2, resources or {"cpu": "600m", "memory": "1.75Gi"})
    return esi.Testbed(uid="t", version=1, namespace="ns", name=name, spec=spec)


def slot(node: str, index: int, node_id: int, position: int) -> Slot:
    found = Slot(node, index, node_id)
    found.position = position
    return found


SLOTS = (slot("n0", 1, 4, 2), slot("n0", 0, 4, 0))


def job(name: str = "job", spark: Object | None = None, flink: Object | None = None, **more: Any) -> BatchJob:
    spec = BatchJobSpec(spark_spec=spark, flink_spec=flink, fairlead=BatchJobOptions(**more))
    return BatchJob(uid="b", version=1, namespace="ns", name=name, spec=spec)


def built(of: BatchJob, slots: tuple[Slot, ...] = SLOTS, **resources: str | int) -> Object:
    """The spec of its application."""
    return apps.build(of, slots_of(**resources), slots)["spec"]


def spark(**executor: Any) -> Object:
    return {
        "type": "Scala",
        "sparkVersion": "3.5.3",
        "mainClass": "org.apache.spark.examples.SparkPi",
        "mainApplicationFile": "local:///opt/spark/examples.jar",
        "driver": {"cores": 1, "memory": "512m", "serviceAccount": "esi-spark-operator"},
        "executor": executor,
    }


FLINK = {"jarFile": "./examples/streaming/WordCount.jar", "className": "WordCount", "args": ["--input", "x"]}
DEPLOYMENT: Object = {"image": "mine", "flinkVersion": "v1_20", "job": {"jarURI": "local:///a.jar"}}


def workload(**container: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": "main", "image": "x", **container}]}}}


def job_set(*jobs: Object) -> Object:
    each = [{"name": f"r{n}", "template": {"spec": spec}} for n, spec in enumerate(jobs)]
    return {"replicatedJobs": each}


def executor(
    found: Object | None = None, conf: dict[str, str] | None = None, **resources: str | int
) -> Object:
    spec = spark(**(found or {})) | {"sparkConf": conf or {}}
    return built(job(spark=spec), **resources)["executor"]
