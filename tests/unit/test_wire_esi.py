"""ESI's custom resources as they are written -> things, and problems that say what to write."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model import esi as nouns
from fairlead.model.batchjob import AppKind, BatchJobStatus, JobCondition, JobState, ScheduledEvent
from fairlead.model.esi import HoldCapacity, Ref, SlotState, SlotStatus
from fairlead.model.scheduling import (
    OnFailure,
    SchedulingCondition,
    SchedulingState,
    SchedulingStatus,
    SlotBased,
    SlotJob,
    SlotMode,
)
from fairlead.wire import esi

META = {
    "name": "x",
    "namespace": "lab",
    "uid": "u1",
    "resourceVersion": "77",
    "generation": 3,
    "creationTimestamp": "2026-11-21T09:59:17Z",
    "labels": {"a": "b"},
    "annotations": {"fairlead.dev/reset": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
}
TESTBED = {
    "nodeLabel": "lab/slots",
    "slotsPerNode": 2,
    "resourcesPerSlot": {"cpu": "600m", "memory": "1.75Gi"},
}


def raw(spec: Any, status: Any = None, **meta: Any) -> bytes:
    found: dict[str, Any] = {"apiVersion": esi.API_VERSION, "metadata": META | meta, "spec": spec}
    return json.dumps(found if status is None else found | {"status": status}).encode()


def ref(name: str) -> dict[str, str]:
    return {"namespace": "lab", "name": name}


def test_a_testbed_with_all_its_fields() -> None:
    slot = {
        "position": 1,
        "nodeId": 4,
        "nodeName": "n4",
        "slotPositionOnNode": 0,
        "state": "OCCUPIED",
        "podName": "p",
        "podUId": "u",
        "reservedFor": "r",
    }
    status = {
        "state": "RUNNING",
        "nodeProblems": {"n5": ["Requires"]},
        "slots": [slot],
        "observedGeneration": 3,
    }
    found = esi.testbed(raw({**TESTBED, "fairlead": {"holdCapacity": "pods"}}, status))
    assert (found.uid, found.version, found.namespace, found.name) == ("u1", 77, "lab", "x")
    assert (found.generation, found.created, found.deleting) == (3, 1_795_255_157_000, False)
    assert found.labels == {"a": "b"} and found.annotations == {"fairlead.dev/reset": "1"}
    assert found.spec is not None and found.spec.fairlead.hold_capacity is HoldCapacity.PODS
    assert (found.spec.node_label, found.spec.slots_per_node) == ("lab/slots", 2)
    assert found.spec.resources_per_slot == {"cpu": "600m", "memory": "1.75Gi"}
    assert found.status == nouns.TestbedStatus(
        nouns.TestbedState.RUNNING,
        {"n5": ["Requires"]},
        [],
        [SlotStatus(1, 4, "n4", 0, SlotState.OCCUPIED, "p", "u", "r")],
        3,
    )


def test_a_batch_job_keeps_what_belongs_to_others_as_it_is() -> None:
    spark = {"type": "Scala", "executor": {"cores": 1, "labels": None}, "mode": "CLUSTER", "jobs": []}
    blob = {"profiler": [{"other": "12.5 (3)"}]}
    spec = {
        "sparkSpec": spark,
        "flinkSpec": None,
        "activeScheduling": ref("s"),
        "creationRequest": {"slotIds": [0, 2], "testbedName": ref("t"), "replication": 2},
        "externalScheduler": blob,
    }
    found = esi.batch_job(raw(spec))
    assert found.problem == "" and found.kind is AppKind.SPARK and found.spec is not None
    assert found.spec.spark_spec == spark
    assert found.spec.external_scheduler == blob
    assert found.spec.active_scheduling == Ref("lab", "s")
    assert found.spec.creation_request is not None
    assert found.spec.creation_request.slot_ids == [0, 2]
    flink = esi.batch_job(raw({"flinkSpec": {}, "fairlead": {"flinkKind": "FlinkCluster"}}))
    assert flink.kind is AppKind.FLINK_CLUSTER
    assert esi.batch_job(raw({"fairlead": {"jobSpec": {}}})).kind is AppKind.JOB


@pytest.mark.parametrize("mode", ["strict", "STRICT", "relaxed", "RELAXED"])
def test_both_ways_to_write_a_mode_are_read(mode: str) -> None:
    jobs = [{"name": ref("a"), "slotIds": [0]}, {"name": ref("b"), "slotIds": [1, 2]}]
    found = esi.scheduling(raw({"testbed": ref("t"), "slotBased": {"mode": mode, "jobs": jobs}}))
    expected = [SlotJob(Ref("lab", "a"), [0]), SlotJob(Ref("lab", "b"), [1, 2])]
    assert found.spec is not None and found.problem == ""
    assert found.spec.slot_based == SlotBased(expected, SlotMode(mode.lower()))


def test_the_old_name_of_the_testbeds_key_is_read() -> None:
    found = esi.scheduling(raw({"slots": ref("t"), "queueBased": [ref("a"), ref("a")]}))
    assert found.problem == "" and found.testbed == Ref("lab", "t")
    assert found.spec is not None and found.spec.queue_based == [Ref("lab", "a")] * 2
    assert esi.scheduling(raw({"testbed": ref("t"), "queueBased": []})).testbed == Ref("lab", "t")


def test_options_are_read_and_absent_ones_are_defaults() -> None:
    policy = {"onFailure": "Retry", "retries": 1, "backoff": "1m"}
    more = {"autoRelease": True, "failurePolicy": policy, "maxWait": "2h"}
    found = esi.scheduling(raw({"testbed": ref("t"), "queueBased": [ref("a")], "fairlead": more})).spec
    assert found is not None and found.fairlead.auto_release and found.fairlead.max_wait == "2h"
    assert found.fairlead.failure_policy.on_failure is OnFailure.RETRY
    plain = esi.scheduling(raw({"testbed": ref("t"), "queueBased": [ref("a")]})).spec
    assert plain is not None and not plain.fairlead.auto_release and plain.fairlead.max_wait == ""


ONE_JOB = {"testbed": {"namespace": "lab", "name": "t"}, "queueBased": [{"namespace": "lab", "name": "a"}]}
TWICE = {"jobs": [{"name": ref("a"), "slotIds": [0]}, {"name": ref("a"), "slotIds": [1]}]}


@pytest.mark.parametrize(
    ("read", "spec", "problem"),
    [
        (esi.testbed, {**TESTBED, "slotsPerNode": 0}, "spec: write slotsPerNode: 1, or more"),
        (esi.testbed, {**TESTBED, "slotsPerNode": "2"}, "spec.slotsPerNode: expected int, got str"),
        (esi.testbed, {"slotsPerNode": 2}, "spec: object missing required field nodeLabel"),
        (esi.testbed, {**TESTBED, "nodeLabel": ""}, "spec: write nodeLabel: KEY"),
        (esi.testbed, {**TESTBED, "resourcesPerSlot": {"cpu": 1}}, "spec: write both cpu and memory"),
        (
            esi.testbed,
            {**TESTBED, "resourcesPerSlot": {"cpu": "much", "memory": 1}},
            "spec: resourcesPerSlot.cpu: 'much' is not a quantity",
        ),
        (
            esi.testbed,
            {**TESTBED, "resourcesPerSlot": {"cpu": "-1", "memory": 1}},
            "spec: resourcesPerSlot.cpu: write an amount that is not below 0",
        ),
        (
            esi.testbed,
            {**TESTBED, "fairlead": {"holdCapacity": "all"}},
            "spec.fairlead.holdCapacity: invalid",
        ),
        (esi.testbed, None, "spec: expected object, got null"),
        (esi.batch_job, {}, "spec: write exactly one of sparkSpec, flinkSpec,"),
        (esi.batch_job, {"sparkSpec": {}, "flinkSpec": {}}, "spec: write exactly one of sparkSpec"),
        (esi.batch_job, {"sparkSpec": {}, "fairlead": {"jobSpec": {}}}, "spec: write exactly one of"),
        (
            esi.batch_job,
            {"flinkSpec": {}, "fairlead": {"flinkKind": "Job"}},
            "spec: fairlead: write flinkKind: FlinkDeployment",
        ),
        (esi.scheduling, {"testbed": ref("t")}, "spec: write exactly one of queueBased and slotBased"),
        (esi.scheduling, {**ONE_JOB, "slotBased": {"jobs": []}}, "spec: write exactly one of queueBased"),
        (esi.scheduling, {"queueBased": []}, "spec: write testbed: {namespace: NAMESPACE, name: NAME}"),
        (esi.scheduling, {**ONE_JOB, "slots": ref("t")}, "spec: write testbed: {namespace"),
        (esi.scheduling, {"testbed": ref("t"), "slotBased": TWICE}, "spec: write each job once"),
        (
            esi.scheduling,
            {**ONE_JOB, "fairlead": {"maxWait": "soon"}},
            "spec: fairlead.maxWait: write a duration such as",
        ),
        (
            esi.scheduling,
            {**ONE_JOB, "fairlead": {"failurePolicy": {"backoff": "0s"}}},
            "spec: fairlead.failurePolicy.backoff: write a duration",
        ),
        (esi.scheduling, {"testbed": "t", "queueBased": []}, "spec.testbed: expected object, got str"),
    ],
)
def test_a_spec_that_cannot_be_used_says_what_to_write(read: Any, spec: Any, problem: str) -> None:
    found = read(raw(spec))
    assert found.problem.startswith(problem)
    assert found.spec is None and (found.uid, found.generation) == ("u1", 3)


def test_a_status_is_read_as_far_as_it_goes() -> None:
    """ESI wrote InitState as null; a field of another shape loses itself, not the others."""
    event = {"start": "2026-11-21T10:00:00Z", "scheduling": ref("s")}
    status = {
        "state": None,
        "scheduledEvents": [event],
        "conditions": "none",
        "slotIds": [1],
        "attempts": {"a": 1},
        "foreign": 1,
    }
    found = esi.batch_job(raw({"sparkSpec": {}}, status)).status
    events = [ScheduledEvent("2026-11-21T10:00:00Z", scheduling=Ref("lab", "s"))]
    assert found == BatchJobStatus(JobState.INIT, events, slot_ids=[1])
    assert esi.scheduling(raw(ONE_JOB, "odd")).status == SchedulingStatus()
    assert esi.scheduling(raw(ONE_JOB, {"state": "Gone"})).status.state is SchedulingState.INITIAL


def test_metadata_that_does_not_decode_is_salvaged() -> None:
    found = esi.testbed(raw(TESTBED, labels={"a": 1}, creationTimestamp="long ago", deletionTimestamp="now"))
    assert (found.uid, found.generation, found.created, found.deleting) == ("u1", 3, 0, True)
    assert found.spec is not None
    with pytest.raises(ValueError, match="no uid"):
        esi.testbed(raw(TESTBED, uid=""))


def test_statuses_have_ESIs_names_and_InitState_is_told() -> None:
    slot = SlotStatus(0, 1, "n", 0, SlotState.RESERVED, "p", "u", "r")
    assert msgspec.to_builtins(slot) == {
        "position": 0,
        "nodeId": 1,
        "nodeName": "n",
        "slotPositionOnNode": 0,
        "state": "RESERVED",
        "podName": "p",
        "podUId": "u",
        "reservedFor": "r",
    }
    condition = JobCondition("AWAIT_RELEASE_CONDITION", True, Ref("lab", "x"), "e", "now")
    assert msgspec.to_builtins(condition) == {
        "condition": "AWAIT_RELEASE_CONDITION",
        "value": True,
        "name": ref("x"),
        "error": "e",
        "lastUpdateTimestamp": "now",
    }
    wanted = SchedulingCondition("AWAIT", False, Ref("lab", "a"), [0], 1, "now", Ref("lab", "t"), "e", [])
    assert set(msgspec.to_builtins(wanted)) == {
        "condition", "value", "jobName", "slotIds", "numberOfSlotsRequired", "lastUpdateTimestamp",
        "testbedName", "error",
    }  # fmt: skip
    assert msgspec.json.encode(JobState.INIT) == b'"InitState"'
    names = {each.encode_name for each in msgspec.structs.fields(BatchJobStatus)}
    assert names >= {
        "state", "scheduledEvents", "slots", "slotIds", "replication", "activeScheduling", "problems",
        "conditions", "observedGeneration",
    }  # fmt: skip


def test_what_is_written_is_what_is_read() -> None:
    spec = esi.scheduling(raw(ONE_JOB)).spec
    assert spec is not None
    written = esi.manifest("Scheduling", Ref("lab", "x"), spec)
    assert written == {
        "apiVersion": "esi.tu-berlin.de/v1alpha1",
        "kind": "Scheduling",
        "metadata": {"namespace": "lab", "name": "x"},
        "spec": ONE_JOB,
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["state", "slots", "testbed", "jobs", "mode", "slotBased", "queueBased", "name", "conditions"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_nothing_that_a_server_sends_raises(spec: Any, status: Any) -> None:
    for read in (esi.testbed, esi.batch_job, esi.scheduling):
        found = read(raw(spec, status))
        assert (found.spec is None) == bool(found.problem)
