"""The application that a BatchJob becomes: what the user wrote stays, what slots need is added."""

import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from app_support import (
    AFFINITY,
    ANNOTATIONS,
    DEPLOYMENT,
    FLINK,
    LABELS,
    REQUIRED,
    SLOTS,
    WHERE,
    Object,
    built,
    executor,
    job,
    job_set,
    slot,
    slots_of,
    spark,
    workload,
)
from hypothesis import given
from hypothesis import strategies as st

from fairlead.control.esi import apps
from fairlead.model.batchjob import AppKind, BatchJob
from fairlead.wire.esi import batch_job

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


def test_RA8_slots_that_fit_no_label_are_in_the_annotation_only() -> None:
    many = tuple(slot(f"n{n}", 0, n, n) for n in range(30))
    found = built(job(spark=spark()), many)["executor"]
    assert "batchjob.tuberlin.de/slots-ids" not in found["labels"]
    assert found["annotations"]["fairlead.dev/slots"] == ",".join(f"n{n}/0" for n in range(30))
    assert (
        len(built(job(spark=spark()), many[:24])["executor"]["labels"]["batchjob.tuberlin.de/slots-ids"])
        <= 63
    )


def test_RA8_nodes_without_numbers_are_named() -> None:
    named = (slot("a", 0, -1, 0), slot("b", 0, -1, 1), slot("a", 1, -1, 2))
    found = built(job(spark=spark()), named)["executor"]["affinity"]["nodeAffinity"]
    (term,) = found[REQUIRED]["nodeSelectorTerms"]
    assert term == {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}]
    }


def test_RA8_nodes_whose_names_are_no_labels_are_named_by_their_names() -> None:
    """A label's value, as in a requirement on one, has 63 characters; a node's name up to 253. A term takes
    one name, so there is one for each node and each of the user's alternatives, his own in front as they are:
    Flink's operator lays the parts of a pod template over each other by their place."""
    long = "a" * 64
    named = (slot(long, 0, -1, 0), slot("b", 0, -1, 1), slot(long, 1, -1, 2))
    ssd, hdd = ({"key": "disk", "operator": "In", "values": [kind]} for kind in ("ssd", "hdd"))
    where = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [n]}]} for n in (long, "b")
    ]
    found = built(job(spark=spark()), named)["executor"]["affinity"]["nodeAffinity"]
    assert found[REQUIRED]["nodeSelectorTerms"] == where
    own = [{"matchExpressions": [ssd]}, {"matchExpressions": [hdd]}]
    mine = spark(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": own}}})
    found = built(job(spark=mine), named)["executor"]["affinity"]["nodeAffinity"]
    assert found[REQUIRED]["nodeSelectorTerms"] == [term | each for each in where for term in own]
    numbered = (slot(long, 0, 4, 0),)
    assert built(job(spark=spark()), numbered)["executor"]["affinity"] == AFFINITY, "its number is a label"


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


def test_the_examples_of_the_document_can_be_run() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "applications.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    kinds: list[AppKind | None] = []
    for found in yaml.safe_load_all(block):
        found["metadata"] |= {"uid": "b", "namespace": "ns", "resourceVersion": "1"}
        mine = batch_job(json.dumps(found).encode())
        assert (mine.problem, apps.why_not(mine, slots_of())) == ("", ""), mine.name
        kinds.append(mine.kind)
        apps.build(mine, slots_of(), SLOTS)
    assert set(kinds) == set(AppKind)
