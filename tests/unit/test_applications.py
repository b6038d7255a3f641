"""The application that a BatchJob becomes: what the user wrote stays, what slots need is added."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.model import esi
from fairlead.model.batchjob import AppKind, BatchJob, BatchJobOptions, BatchJobSpec

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


# -- all kinds ---------------------------------------------------------------------------------------

JOBS = {
    AppKind.SPARK: job(spark=spark()),
    AppKind.FLINK: job(flink=FLINK),
    AppKind.FLINK_CLUSTER: job(flink=FLINK, flink_kind=AppKind.FLINK_CLUSTER),
    AppKind.JOB: job(job_spec=workload()),
    AppKind.JOB_SET: job(job_set_spec=job_set(workload())),
}


@pytest.mark.parametrize("kind", list(AppKind))
def test_an_application_belongs_to_its_batchjob(kind: AppKind) -> None:
    found = apps.build(JOBS[kind], slots_of(), SLOTS)
    assert (found["apiVersion"], found["kind"]) == (apps.API_VERSIONS[kind], str(kind))
    owner = {"apiVersion": "esi.tu-berlin.de/v1alpha1", "kind": "BatchJob", "name": "job", "uid": "b"}
    assert found["metadata"] == {
        "name": "job",
        "namespace": "ns",
        "labels": {"batchjob/managed-by": "BatchJob-Operator"},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    assert apps.why_not(JOBS[kind], slots_of()) == ""


@pytest.mark.parametrize("kind", list(AppKind))
def test_building_leaves_the_batchjob_as_it_is(kind: AppKind) -> None:
    before = deepcopy(JOBS[kind])
    apps.build(JOBS[kind], slots_of(), SLOTS)
    assert JOBS[kind] == before


def pod_fields(kind: AppKind, spec: Object) -> tuple[Object, Object, Object, Object]:
    """Labels, annotations, affinity of what runs in slots, and whatever says who schedules it."""
    if kind is AppKind.SPARK:
        found = spec["executor"]
        return found["labels"], found["annotations"], found["affinity"], found
    if kind is AppKind.FLINK_CLUSTER:
        found = spec["taskManager"]
        return found["podLabels"], found["podAnnotations"], found["affinity"], found
    if kind is AppKind.FLINK:
        found = spec["taskManager"]["podTemplate"]
    elif kind is AppKind.JOB:
        found = spec["template"]
    else:
        found = spec["replicatedJobs"][0]["template"]["spec"]["template"]
    meta = found["metadata"]
    return meta["labels"], meta["annotations"], found["spec"]["affinity"], found["spec"]


@pytest.mark.parametrize("kind", list(AppKind))
def test_pods_carry_their_slots(kind: AppKind) -> None:
    spec = built(JOBS[kind])
    labels, annotations, affinity, who = pod_fields(kind, spec)
    assert (labels, annotations, affinity) == (LABELS, ANNOTATIONS, AFFINITY)
    if kind is AppKind.FLINK_CLUSTER:  # its operator's plugin of this name writes them
        assert spec["batchScheduler"] == {"name": "external"}
    else:
        assert (who["schedulerName"], who["priorityClassName"]) == ("external-scheduler", "high-priority")


def test_slots_that_fit_no_label_are_in_the_annotation_only() -> None:
    many = tuple(slot(f"n{n}", 0, n, n) for n in range(30))
    found = built(job(spark=spark()), many)["executor"]
    assert "batchjob.tuberlin.de/slots-ids" not in found["labels"]
    assert found["annotations"]["fairlead.dev/slots"] == ",".join(f"n{n}/0" for n in range(30))
    assert (
        len(built(job(spark=spark()), many[:24])["executor"]["labels"]["batchjob.tuberlin.de/slots-ids"])
        <= 63
    )


def test_nodes_without_numbers_are_named() -> None:
    named = (slot("a", 0, -1, 0), slot("b", 0, -1, 1), slot("a", 1, -1, 2))
    found = built(job(spark=spark()), named)["executor"]["affinity"]["nodeAffinity"]
    (term,) = found[REQUIRED]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}]
    }


# -- what users wrote ----------------------------------------------------------------------------------


def test_affinity_is_narrowed_not_replaced() -> None:
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    wish = [{"weight": 1, "preference": {"matchExpressions": [ssd]}}]
    apart = {"podAntiAffinity": {REQUIRED: [{"topologyKey": "kubernetes.io/hostname"}]}}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    mine = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ssd]}, fields, {}]},
            "preferredDuringSchedulingIgnoredDuringExecution": wish,
        },
        **apart,
    }
    found = executor({"affinity": mine})["affinity"]
    assert found["podAntiAffinity"] == apart["podAntiAffinity"]
    nodes = found["nodeAffinity"]
    assert nodes["preferredDuringSchedulingIgnoredDuringExecution"] == wish
    # Terms are alternatives: each is narrowed. An empty one never matches, and must not begin to.
    assert nodes[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [ssd, WHERE]},
        {**fields, "matchExpressions": [WHERE]},
        {},
    ]


OWNED = {
    AppKind.SPARK: {
        ("executor", "schedulerName"), ("executor", "priorityClassName"), ("executor", "instances"),
        ("executor", "coreRequest"), ("executor", "memory"), ("executor", "memoryOverhead"),
        ("batchScheduler",), ("batchSchedulerOptions", "priorityClassName"),
        ("executor", "template", "spec", "schedulerName"),
        ("executor", "template", "spec", "priorityClassName"), ("executor", "template", "spec", "priority"),
        ("dynamicAllocation", "maxExecutors"), ("dynamicAllocation", "initialExecutors"),
        ("dynamicAllocation", "minExecutors"),
    },
    AppKind.FLINK: {
        ("taskManager", "resource", "cpu"), ("taskManager", "resource", "memory"),
        ("taskManager", "replicas"), ("flinkConfiguration", "taskmanager.numberOfTaskSlots"),
        ("taskManager", "podTemplate", "spec", "schedulerName"),
        ("taskManager", "podTemplate", "spec", "priorityClassName"),
        ("taskManager", "podTemplate", "spec", "priority"),
    },
    AppKind.JOB: {
        ("template", "spec", "schedulerName"), ("template", "spec", "priorityClassName"),
        ("template", "spec", "priority"),
    },
}  # fmt: skip
"""What slots decide; requests of containers are tested by themselves."""
texts = st.text("abcxyz", min_size=1, max_size=4)
scalars = st.booleans() | st.integers(0, 9) | texts | st.none()
trees = st.recursive(
    scalars, lambda x: st.lists(x, max_size=2) | st.dictionaries(texts, x, max_size=3), max_leaves=4
)
own = st.dictionaries(texts, trees, max_size=3)


def objects(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """Some of the known fields, and others that nobody knows."""
    return st.builds(lambda a, b: {**a, **b}, own, st.fixed_dictionaries({}, optional=known))


meta = objects(labels=st.dictionaries(texts, texts), annotations=st.dictionaries(texts, texts))
pods = objects(
    schedulerName=texts, priorityClassName=texts, priority=st.integers(), tolerations=trees, nodeSelector=own,
    affinity=objects(podAffinity=own, nodeAffinity=objects(preferred=trees)),
    containers=st.lists(own, max_size=2),
)  # fmt: skip
templates = objects(metadata=meta, spec=pods)
specs = {
    AppKind.SPARK: objects(
        executor=objects(
            labels=st.dictionaries(texts, texts), annotations=st.dictionaries(texts, texts), env=trees,
            tolerations=trees, cores=st.integers(1, 4), coreRequest=st.sampled_from(["100m", "9"]),
            memory=st.sampled_from(["512m", "9g"]), memoryOverhead=st.sampled_from(["64m"]),
            template=templates, instances=st.integers(1, 9), affinity=objects(podAffinity=own),
            schedulerName=texts,
        ),
        driver=own, sparkConf=st.dictionaries(texts, texts), batchScheduler=texts,
        batchSchedulerOptions=objects(queue=texts, priorityClassName=texts),
        dynamicAllocation=objects(enabled=st.booleans(), maxExecutors=st.integers(0, 9)),
    ),
    AppKind.FLINK: objects(
        job=objects(parallelism=st.integers(1, 9)), podTemplate=templates,
        flinkConfiguration=st.dictionaries(texts, texts), jobManager=objects(podTemplate=templates),
        taskManager=objects(
            podTemplate=templates, replicas=st.integers(1, 9),
            resource=objects(cpu=st.floats(0, 9), memory=st.sampled_from(["64m", "9g", "1Gi"])),
        ),
    ),
    AppKind.JOB: objects(
        template=templates, parallelism=st.integers(1, 9), completions=st.integers(1, 9),
        suspend=st.booleans(),
    ),
}  # fmt: skip


def leaves(of: Any, *path: str | int) -> list[tuple[tuple[str | int, ...], Any]]:
    """Every value with its path. An empty object says nothing."""
    if isinstance(of, dict):
        return [found for key, value in of.items() for found in leaves(value, *path, key)]
    if isinstance(of, list):
        return [found for n, value in enumerate(of) for found in leaves(value, *path, n)]
    return [(path, of)]


@given(data=st.data(), kind=st.sampled_from(list(specs)))
def test_every_field_of_the_users_that_slots_do_not_decide_is_unchanged(
    data: st.DataObject, kind: AppKind
) -> None:
    spec = data.draw(specs[kind])
    options = {AppKind.FLINK: "flink_deployment_spec", AppKind.JOB: "job_spec"}
    mine = job(spark=spec) if kind is AppKind.SPARK else job(**{options[kind]: spec})
    found = dict(leaves(built(mine)))
    for path, value in leaves(spec):
        requests = "resources" in path
        if path in OWNED[kind] or requests or value is None:
            continue
        assert found[path] == value, path


garbage = st.recursive(
    scalars | st.floats(allow_nan=False) | st.sampled_from(["1Gi", "1g", "10m", "x" * 30]),
    lambda x: st.lists(x, max_size=2) | st.dictionaries(texts, x, max_size=3),
    max_leaves=4,
)
KEYS = (
    "executor", "driver", "template", "spec", "metadata", "labels", "affinity", "nodeAffinity", REQUIRED,
    "nodeSelectorTerms", "matchExpressions", "containers", "resources", "requests", "limits", "cpu", "memory",
    "job", "parallelism", "completions", "taskManager", "resource", "replicas", "replicatedJobs",
    "podTemplate", "coreRequest", "memoryOverhead", "sparkConf", "dynamicAllocation", "enabled", "jarFile",
    "maxExecutors", "spark.dynamicAllocation.enabled", "spark.memory.offHeap.enabled", "initContainers",
    "memoryOverheadFactor", "volumeMounts", "podLabels", "serviceAccount", "flinkConfiguration",
    "batchSchedulerOptions",
)  # fmt: skip
wild = st.recursive(
    st.dictionaries(st.sampled_from(KEYS), garbage, max_size=3),
    lambda x: st.dictionaries(st.sampled_from(KEYS), x | garbage | st.lists(x, max_size=2), max_size=6),
    max_leaves=12,
)


@given(spec=wild, kind=st.sampled_from(list(AppKind)))
def test_no_spec_stops_a_builder(spec: Object, kind: AppKind) -> None:
    mine = {
        AppKind.SPARK: job(spark=spec),
        AppKind.FLINK: job(flink_deployment_spec=spec),
        AppKind.FLINK_CLUSTER: job(flink=spec, flink_kind=AppKind.FLINK_CLUSTER),
        AppKind.JOB: job(job_spec=spec),
        AppKind.JOB_SET: job(job_set_spec=spec),
    }[kind]
    built(mine)
    built(job(flink=spec))
    assert isinstance(apps.why_not(mine, slots_of()), str)
    assert isinstance(apps.account(mine), str)


# -- Spark -------------------------------------------------------------------------------------------


def test_an_executor_is_as_large_as_its_slot() -> None:
    spec = built(job(spark=spark()))
    found = spec["executor"]
    assert (found["instances"], found["cores"], found["coreRequest"]) == (2, 1, "600m")
    assert (found["memory"], found["memoryOverhead"]) == ("1792m", "0m")
    assert spec["mode"] == "cluster"
    assert spec["sparkConf"] == {"spark.kubernetes.executor.scheduler.name": "external-scheduler"}
    assert spec["driver"] == spark()["driver"], "the driver takes no slot"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"coreRequest": "100m"}, "100m"),
        ({"coreRequest": "0.1"}, "0.1"),
        ({"coreRequest": "2"}, "600m"),
        ({"coreLimit": "500m"}, "500m"),
        ({"coreLimit": "2"}, "600m"),
        ({"coreLimit": "500m", "coreRequest": "400m"}, "400m"),
        ({"coreRequest": "many"}, "600m"),
    ],
)
def test_an_executor_may_ask_for_less_cpu(said: Object, wanted: str) -> None:
    found = executor(said)
    assert found["coreRequest"] == wanted
    assert found.get("coreLimit") == said.get("coreLimit")


def test_what_sparkconf_says_of_executors_counts_too() -> None:
    conf = {"spark.kubernetes.executor.request.cores": "250m", "spark.executor.cores": "3"}
    found = executor({}, {**conf, "spark.executor.memory": "1g", "spark.executor.memoryOverhead": "512m"})
    assert (found["cores"], found["coreRequest"], found["memory"]) == (3, "250m", "1024m")
    # The operator passes the executor's own fields after sparkConf, so they win for it as for us.
    assert executor({"cores": 2, "coreRequest": "300m"}, conf)["coreRequest"] == "300m"


@pytest.mark.parametrize(
    ("said", "conf", "wanted"),
    [
        # All of the slot but what is reserved.
        ({"memoryOverhead": "256m"}, {}, ("1536m", "256m")),
        ({"memoryOverhead": "256"}, {}, ("1536m", "256")),
        ({"memory": "8g", "memoryOverhead": "256m"}, {}, ("1536m", "256m")),
        ({"memory": "1g", "memoryOverhead": "256m"}, {}, ("1g", "256m")),
        ({}, {"spark.executor.pyspark.memory": "512m"}, ("1280m", "0m")),
        ({}, {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "256m"}, ("1536m", "0m")),
        (
            {},
            {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1048576"},
            ("1791m", "0m"),
        ),
        ({}, {"spark.memory.offHeap.size": "256m"}, ("1792m", "0m")),
        # Spark's own overhead, 384 MiB or a tenth, is left to it while it fits, and cut where it does not.
        ({"memory": "512m"}, {}, ("512m", None)),
        ({"memory": "1500m"}, {}, ("1500m", "292m")),
        ({"memory": "1792m"}, {}, ("1792m", "0m")),
        ({"memory": "64g"}, {}, ("1792m", "0m")),
        ({"memoryLimit": "1g"}, {}, ("1024m", "0m")),
    ],
)
def test_heap_and_overhead_share_the_slots_memory(
    said: Object, conf: dict[str, str], wanted: tuple[str, str | None]
) -> None:
    found = executor(said, conf)
    assert (found["memory"], found.get("memoryOverhead")) == wanted


@pytest.mark.parametrize(("factor", "wanted"), [("0.5", "1194m"), ("0.1", "1408m"), ("0", "1408m")])
def test_an_overhead_factor_is_kept(factor: str, wanted: str) -> None:
    found = built(job(spark=spark() | {"memoryOverheadFactor": factor}))["executor"]
    assert found["memory"] == wanted
    memory = int(wanted[:-1])
    assert memory + max(int(memory * float(factor)), 384) <= 1792


@given(
    said=st.fixed_dictionaries(
        {},
        optional={
            "memory": st.integers(1, 5000).map(lambda n: f"{n}m"),
            "memoryOverhead": st.integers(0, 1700).map(lambda n: f"{n}m"),
        },
    ),
    factor=st.none() | st.sampled_from(["0.1", "0.4", "2"]),
)
def test_an_executor_never_asks_for_more_than_its_slot(said: Object, factor: str | None) -> None:
    """By Spark's own arithmetic."""
    spec = spark(**said) | ({} if factor is None else {"memoryOverheadFactor": factor})
    found = built(job(spark=spec))["executor"]
    memory = int(found["memory"][:-1])
    usual = max(int(memory * float(factor or 0.1)), 384)
    overhead = int(found["memoryOverhead"][:-1]) if "memoryOverhead" in found else usual
    assert memory >= 1
    assert memory + overhead <= 1792


def test_a_slot_of_no_whole_mebibytes_is_rounded_down() -> None:
    assert executor(cpu=2, memory="1G")["memory"] == "953m"
    assert executor(cpu=2, memory="1G")["coreRequest"] == "2"


def test_spark_gets_the_slots_devices_unless_it_says_which() -> None:
    slot_ = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 2}
    assert executor({}, **slot_)["gpu"] == {"name": "nvidia.com/gpu", "quantity": 2}
    mine = {"name": "nvidia.com/gpu", "quantity": 1}
    assert executor({"gpu": mine}, **slot_)["gpu"] == mine
    assert "gpu" not in executor()


def test_dynamic_allocation_ends_at_the_slots() -> None:
    dynamic = {"enabled": True, "initialExecutors": 1, "minExecutors": 5, "maxExecutors": 9}
    spec = built(job(spark=spark(instances=7) | {"dynamicAllocation": dynamic}))
    wanted = {"enabled": True, "initialExecutors": 1, "minExecutors": 2, "maxExecutors": 2}
    assert (spec["dynamicAllocation"], spec["executor"]["instances"]) == (wanted, 2)
    spec = built(job(spark=spark() | {"dynamicAllocation": {"enabled": True}}))
    assert spec["dynamicAllocation"] == {"enabled": True, "maxExecutors": 2}
    assert "instances" not in spec["executor"], "Spark begins with as many as it likes"
    conf = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "4"}
    found = built(job(spark=spark() | {"sparkConf": conf}))["sparkConf"]
    assert found["spark.dynamicAllocation.minExecutors"] == "2"
    assert found["spark.dynamicAllocation.maxExecutors"] == "2"


def test_old_and_new_operators_find_the_priority() -> None:
    spec = built(job(spark=spark() | {"batchScheduler": "volcano", "batchSchedulerOptions": {"queue": "q"}}))
    assert spec["batchSchedulerOptions"] == {"queue": "q", "priorityClassName": "high-priority"}
    assert spec["executor"]["priorityClassName"] == "high-priority"
    assert "batchScheduler" not in spec, "it would win over the executors' scheduler"


def test_a_pod_template_for_executors_gets_the_same() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"priority": 5, "schedulerName": "x", "dnsPolicy": "None"},
    }
    found = executor({"template": template})["template"]
    assert found["metadata"] == {"labels": {"a": "b", **LABELS}, "annotations": ANNOTATIONS}
    assert found["spec"] == {
        "dnsPolicy": "None",
        "schedulerName": "external-scheduler",
        "priorityClassName": "high-priority",
        "affinity": AFFINITY,
    }
    assert "template" not in executor(), "one that nobody wrote may keep a webhook away"


# -- Flink -------------------------------------------------------------------------------------------


def test_a_flink_spec_becomes_a_deployment() -> None:
    spec = built(job(flink=FLINK))
    assert spec["job"] == {
        "jarURI": "local:///opt/flink/examples/streaming/WordCount.jar",
        "entryClass": "WordCount",
        "args": ["--input", "x"],
        "parallelism": 2,
        "upgradeMode": "stateless",
    }
    assert (spec["image"], spec["flinkVersion"], spec["serviceAccount"]) == ("flink:1.20", "v1_20", "flink")
    assert spec["taskManager"]["resource"] == {"cpu": 0.6, "memory": "1792m"}
    assert spec["jobManager"] == {"resource": {"cpu": 0.2, "memory": "1024m"}}
    assert spec["flinkConfiguration"] == {"taskmanager.numberOfTaskSlots": "1"}


def test_what_a_flink_spec_runs_on_can_be_named() -> None:
    spec = built(job(flink=FLINK, flink_version="1.19", flink_service_account="me"))
    assert (spec["image"], spec["flinkVersion"], spec["serviceAccount"]) == ("flink:1.19", "v1_19", "me")
    spec = built(job(flink=FLINK, flink_version="v1_19", flink_image="mine"))
    assert (spec["image"], spec["flinkVersion"]) == ("mine", "v1_19")


@pytest.mark.parametrize(
    ("jar", "wanted"),
    [
        ("./a.jar", "local:///opt/flink/a.jar"), ("a.jar", "local:///opt/flink/a.jar"),
        ("/a.jar", "local:///a.jar"), ("https://example.com/a.jar", "https://example.com/a.jar"),
        ("local:///a.jar", "local:///a.jar"),
    ],
)  # fmt: skip
def test_a_jar_is_a_file_of_the_image_unless_it_is_an_address(jar: str, wanted: str) -> None:
    assert built(job(flink={"jarFile": jar}))["job"]["jarURI"] == wanted


def test_what_a_flink_spec_says_of_its_pod_is_the_job_managers() -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    more = {
        "podLabels": {"a": "b"},
        "nodeSelector": {"c": "d"},
        "volumes": [{"name": "v"}],
        "volumeMounts": mounts,
    }
    spec = built(job(flink={**FLINK, **more, "fromSavepoint": "s3://x", "savepointsDir": "s3://y"}))
    assert spec["jobManager"]["podTemplate"] == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "nodeSelector": {"c": "d"},
            "volumes": [{"name": "v"}],
            "containers": [{"name": "flink-main-container", "volumeMounts": mounts}],
        },
    }
    assert spec["job"]["initialSavepointPath"] == "s3://x"
    assert spec["flinkConfiguration"]["state.savepoints.dir"] == "s3://y"


@pytest.mark.parametrize(
    ("parallelism", "tasks", "kept"), [(None, "1", 2), (1, "1", 1), (2, "1", 2), (3, "2", 3), (9, "5", 9)]
)
def test_parallelism_never_needs_more_task_managers_than_slots(
    parallelism: int | None, tasks: str, kept: int
) -> None:
    """Native Flink starts ceil(parallelism / task slots) of them."""
    mine = {"jarURI": "local:///a.jar", **({} if parallelism is None else {"parallelism": parallelism})}
    spec = built(job(flink_deployment_spec={**DEPLOYMENT, "job": mine}))
    assert spec["job"]["parallelism"] == kept
    assert spec["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] == tasks
    assert -(-kept // int(tasks)) <= 2


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"cpu": 0.1, "memory": "1024m"}, {"cpu": 0.1, "memory": "1024m"}),
        ({"cpu": 2, "memory": "2g"}, {"cpu": 0.6, "memory": "1792m"}),
        ({"cpu": 0.6, "memory": "1Gi"}, {"cpu": 0.6, "memory": "1Gi"}),
        ({"memory": "1792mb", "ephemeralStorage": "1Gi"},
         {"cpu": 0.6, "memory": "1792mb", "ephemeralStorage": "1Gi"}),
    ],
)  # fmt: skip
def test_a_task_manager_may_ask_for_less(said: Object, wanted: Object) -> None:
    spec = {**DEPLOYMENT, "taskManager": {"resource": said, "replicas": 5}}
    found = built(job(flink_deployment_spec=spec))["taskManager"]
    assert (found["resource"], found["replicas"]) == (wanted, 2)


def test_the_shared_pod_templates_node_terms_hold_for_task_managers() -> None:
    """The operator lays one template over the other, list by list, position by position."""
    ssd = {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ssd]}]}}}
    spec = built(job(flink_deployment_spec={**DEPLOYMENT, "podTemplate": {"spec": {"affinity": affinity}}}))
    found = spec["taskManager"]["podTemplate"]["spec"]["affinity"]["nodeAffinity"]
    assert found[REQUIRED]["nodeSelectorTerms"] == [{"matchExpressions": [ssd, WHERE]}]
    assert spec["podTemplate"]["spec"]["affinity"] == affinity, "the JobManager's stays"


def test_a_flink_cluster_is_as_esi_makes_it() -> None:
    spec = built(job(flink=FLINK, flink_kind=AppKind.FLINK_CLUSTER))
    amounts = {"cpu": "600m", "memory": "1.75Gi"}
    assert spec == {
        "image": {"name": "flink:1.8.2"},
        "jobManager": {"ports": {"ui": 8081}, "resources": {"limits": {"cpu": "200m", "memory": "1024Mi"}}},
        "taskManager": {
            "replicas": 2,
            "resources": {"requests": amounts, "limits": amounts},
            "memoryOffHeapMin": "1.75Gi",
            "podLabels": LABELS,
            "podAnnotations": ANNOTATIONS,
            "affinity": AFFINITY,
        },
        "flinkProperties": {"taskmanager.numberOfTaskSlots": "1"},
        "batchScheduler": {"name": "external"},
        "job": {**FLINK, "parallelism": 2},
    }
    mine = job(
        flink={**FLINK, "parallelism": 5}, flink_kind=AppKind.FLINK_CLUSTER, flink_image="mine",
        flink_service_account="me",
    )  # fmt: skip
    assert built(mine)["image"] == {"name": "mine"}
    assert (built(mine)["job"]["parallelism"], built(mine)["serviceAccountName"]) == (5, "me")


# -- Job and JobSet ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, (2, 2)),
        ({"parallelism": 1}, (1, None)),
        ({"parallelism": 5, "completions": 7}, (5, 7)),
        ({"completions": 9}, (2, 9)),
        ({"completions": 1}, (1, 1)),
    ],
)
def test_a_job_has_as_many_pods_as_slots_unless_it_says(said: Object, wanted: tuple[int, int | None]) -> None:
    spec = built(job(job_spec=workload() | said))
    assert (spec["parallelism"], spec.get("completions")) == wanted
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def requests(spec: Object, container: int = 0) -> Object:
    return spec["template"]["spec"]["containers"][container]["resources"]["requests"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, {"cpu": "0.6", "memory": "1792Mi"}),
        ({"requests": {"cpu": "100m"}}, {"cpu": "100m", "memory": "1792Mi"}),
        ({"requests": {"cpu": "4", "memory": "1Gi"}}, {"cpu": "0.6", "memory": "1Gi"}),
        ({"limits": {"cpu": "200m"}}, {"cpu": "0.2", "memory": "1792Mi"}),
        ({"requests": {"example.com/x": "1"}}, {"cpu": "0.6", "memory": "1792Mi", "example.com/x": "1"}),
    ],
)
def test_a_container_asks_for_its_slot_or_less(said: Object, wanted: Object) -> None:
    spec = built(job(job_spec=workload(resources=said)))
    assert requests(spec) == wanted
    assert spec["template"]["spec"]["containers"][0]["resources"].get("limits") == said.get("limits")


def test_the_first_container_gets_what_the_others_leave() -> None:
    spec = workload()
    small = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    spec["template"]["spec"]["containers"].append({"name": "side", "resources": small})
    spec["template"]["spec"]["initContainers"] = [
        {"name": "early", "resources": {"requests": {"cpu": "8", "memory": "1Mi"}}},
        {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
    ]
    found = built(job(job_spec=spec))
    assert requests(found) == {"cpu": "0.4", "memory": "1536Mi"}
    assert requests(found, 1) == small["requests"]
    early, sidecar = found["template"]["spec"]["initContainers"]
    assert early["resources"]["requests"] == {"cpu": "0.6", "memory": "1Mi"}
    assert sidecar["resources"]["requests"] == {"cpu": "100m"}


def test_devices_have_limits_that_equal_their_requests() -> None:
    spec = built(job(job_spec=workload()), cpu=1, memory="1Gi", **{"nvidia.com/gpu": 2})
    found = spec["template"]["spec"]["containers"][0]["resources"]
    assert found["limits"] == {"nvidia.com/gpu": "2"}
    assert found["requests"]["nvidia.com/gpu"] == "2"


def test_replicated_jobs_share_the_slots() -> None:
    leader = workload() | {"parallelism": 1, "completions": 1}
    many = tuple(slot("n", n, 0, n) for n in range(7))
    spec = built(job(job_set_spec=job_set(leader, workload(), workload())), many)
    found = [each["template"]["spec"] for each in spec["replicatedJobs"]]
    assert [each["parallelism"] for each in found] == [1, 3, 3]
    for each in found:
        assert each["template"]["metadata"]["labels"]["batchjob.tuberlin.de/slots-resource-name"] == "tb"
        assert each["template"]["spec"]["schedulerName"] == "external-scheduler"
    twice = job_set(workload())
    twice["replicatedJobs"][0]["replicas"] = 2
    (only,) = built(job(job_set_spec=twice), many)["replicatedJobs"]
    assert only["template"]["spec"]["parallelism"] == 3


# -- what can never work -------------------------------------------------------------------------------


def without(spec: Object, key: str) -> Object:
    return {name: value for name, value in spec.items() if name != key}


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (job(), "its spec says nothing that can be run"),
        (job(spark=without(spark(), "sparkVersion")), "sparkSpec.sparkVersion is missing"),
        (job(spark=spark() | {"suspend": True}), "sparkSpec.suspend is true"),
        (job(spark=spark(memory="1.5g")), "sparkSpec.executor.memory is '1.5g': write a whole number"),
        (job(spark=spark(memoryOverhead="2g")), "overhead of sparkSpec.executor leaves nothing"),
        (job("1st", spark=spark()), "its name cannot be a SparkApplication's"),
        (job("a.b", spark=spark()), "its name cannot be a SparkApplication's"),
        (job("a" * 64, job_spec=workload()), "its name has 64 characters, and a Job's may have 63"),
        (job("a" * 46, flink=FLINK), "its name has 46 characters, and a FlinkDeployment's may have 45"),
        (job(flink={"className": "x"}), "flinkSpec.jarFile is missing"),
        (job(flink={"pyFile": "x.py"}), "write flinkKind: FlinkCluster"),
        (job(flink_deployment_spec=without(DEPLOYMENT, "job")), "a session cluster never completes"),
        (job(flink_deployment_spec={**DEPLOYMENT, "job": {"state": "suspended"}}), "state is suspended"),
        (job(flink_deployment_spec=without(DEPLOYMENT, "flinkVersion")), "flinkVersion is missing"),
        (job(job_spec={}), "jobSpec.template.spec.containers is missing"),
        (job(job_spec=workload() | {"suspend": True}), "jobSpec.suspend is true"),
        (job(job_set_spec={}), "jobSetSpec.replicatedJobs is missing"),
        (
            job(job_set_spec=job_set(workload(), {})),
            "replicatedJobs[1].template.spec.template.spec.containers",
        ),
    ],
)
def test_what_can_never_work_is_said(mine: BatchJob, words: str) -> None:
    assert words in apps.why_not(mine, slots_of())


def test_what_can_never_work_in_these_slots_is_said() -> None:
    mine = job(spark=spark(memoryOverhead="2g"))
    assert apps.why_not(mine) == "", "elsewhere it may"
    spec = workload()
    spec["template"]["spec"]["containers"].append({"name": "b", "resources": {"requests": {"cpu": "1"}}})
    assert apps.why_not(job(job_spec=spec), slots_of()) == (
        "jobSpec: the containers beside the first ask for all cpu of a slot"
    )
    pinned = workload()
    pinned["template"]["spec"]["nodeName"] = "n0"
    assert "fixes the node" in apps.why_not(job(job_spec=pinned))
    assert "which is no label" in apps.why_not(job(spark=spark()), slots_of("t" * 64))


def test_a_python_flink_job_works_as_a_cluster() -> None:
    mine = job(flink={"pyFile": "x.py"}, flink_kind=AppKind.FLINK_CLUSTER)
    assert apps.why_not(mine, slots_of()) == ""
    assert built(mine)["job"]["pyFile"] == "x.py"


def test_an_unreadable_spec_says_its_problem() -> None:
    mine = BatchJob(uid="b", version=1, namespace="ns", name="a", spec=None, problem="spec: no such field")
    assert apps.why_not(mine) == "spec: no such field"
    assert apps.account(mine) == ""


@pytest.mark.parametrize(
    ("mine", "name"),
    [
        (job(spark=spark()), "esi-spark-operator"),
        (job(spark=spark() | {"driver": {}}), ""),
        (job(spark=spark() | {"driver": {"template": {"spec": {"serviceAccountName": "t"}}}}), "t"),
        (job(flink=FLINK), "flink"),
        (job(flink=FLINK, flink_service_account="me"), "me"),
        (job(flink_deployment_spec={**DEPLOYMENT, "serviceAccount": "mine"}), "mine"),
        (job(flink_deployment_spec=DEPLOYMENT), "flink"),
        (job(flink=FLINK, flink_kind=AppKind.FLINK_CLUSTER), ""),
        (job(job_spec=workload()), ""),
        (job(job_spec={"template": {"spec": {"serviceAccountName": "w"}}}), "w"),
        (job(job_set_spec=job_set(workload(), {"template": {"spec": {"serviceAccountName": "w"}}})), "w"),
    ],
)
def test_the_account_that_a_driver_needs(mine: BatchJob, name: str) -> None:
    assert apps.account(mine) == name
