"""How a sparkSpec, a flinkSpec, a jobSpec become what their operators take: as large and as many as slots."""

import pytest
from app_support import (
    AFFINITY,
    ANNOTATIONS,
    DEPLOYMENT,
    FLINK,
    LABELS,
    REQUIRED,
    WHERE,
    Object,
    built,
    executor,
    job,
    job_set,
    slot,
    spark,
    workload,
)
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.batchjob import AppKind

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


def test_what_sparkconf_says_of_dynamic_allocation_ends_at_the_slots_too() -> None:
    """Spark refuses a least number above the most, wherever the two are written."""
    conf = {"spark.executor.instances": "5", "spark.dynamicAllocation.minExecutors": "1"}
    spec = built(job(spark=spark() | {"sparkConf": conf, "dynamicAllocation": {"enabled": True}}))
    assert spec["sparkConf"]["spark.executor.instances"] == "2"
    assert spec["sparkConf"]["spark.dynamicAllocation.minExecutors"] == "1"
    assert spec["dynamicAllocation"]["maxExecutors"] == 2
    fewer = {"spark.dynamicAllocation.maxExecutors": "1"}
    spec = built(job(spark=spark() | {"sparkConf": fewer, "dynamicAllocation": {"enabled": True}}))
    assert spec["dynamicAllocation"]["maxExecutors"] == 1


def test_old_and_new_operators_find_the_priority() -> None:
    spec = built(job(spark=spark() | {"batchScheduler": "volcano", "batchSchedulerOptions": {"queue": "q"}}))
    assert spec["batchSchedulerOptions"] == {"queue": "q", "priorityClassName": "high-priority"}
    assert spec["executor"]["priorityClassName"] == "high-priority"
    assert "batchScheduler" not in spec, "it would win over the executors' scheduler"


def test_a_pod_template_for_executors_gets_the_same() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"priority": 5, "preemptionPolicy": "Never", "schedulerName": "x", "dnsPolicy": "None"},
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
