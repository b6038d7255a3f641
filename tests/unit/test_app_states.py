"""What operators write of their applications -> pending, running, completed or failed, whatever it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.application import Application, AppState, tag_of
from fairlead.model.batchjob import AppKind
from fairlead.wire import applications

P, R, C, F = AppState.PENDING, AppState.RUNNING, AppState.COMPLETED, AppState.FAILED
OWNER = {
    "apiVersion": "esi.tu-berlin.de/v1alpha1",
    "kind": "BatchJob",
    "name": "a",
    "uid": "bj",
    "controller": True,
}
META = {"name": "a", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "ownerReferences": [OWNER]}


def read(kind: AppKind, status: Any, spec: Any = None) -> Application:
    raw = json.dumps({"metadata": META, "spec": spec or {}, "status": status})
    return applications.READERS[kind](raw.encode())


def test_an_application_is_known_by_the_batchjob_that_controls_it() -> None:
    found = read(AppKind.SPARK, {})
    assert (found.uid, found.version, found.namespace, found.name) == ("u1", 7, "ns", "a")
    assert (found.batch_job, found.deleting, found.state, found.text) == ("bj", False, P, "")
    for refs in ([{**OWNER, "controller": False}], [{**OWNER, "kind": "Workflow"}], None, "nobody"):
        raw = json.dumps(
            {"metadata": {**META, "ownerReferences": refs, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        )
        found = applications.spark(raw.encode())
        assert (found.batch_job, found.deleting) == ("", True)


def test_every_kind_of_application_has_a_reader() -> None:
    assert set(applications.READERS) == set(AppKind)
    tags = {tag_of(read(kind, {})) for kind in AppKind}
    assert tags == {"SparkApplication", "FlinkDeployment", "FlinkCluster", "ApplicationJob", "JobSet"}


def spark(state: str, *executors: str, restart: str = "Never", error: str = "") -> tuple[AppState, str]:
    status = {
        "applicationState": {"state": state, **({"errorMessage": error} if error else {})},
        "executorState": {f"a-exec-{n}": each for n, each in enumerate(executors)},
    }
    found = read(AppKind.SPARK, status, {"restartPolicy": {"type": restart}})
    return found.state, found.text


@pytest.mark.parametrize(
    ("state", "executors", "wanted"),
    [
        ("", (), P), ("SUBMITTED", (), P), ("PENDING_RERUN", (), P), ("INVALIDATING", (), P),
        ("UNKNOWN", (), P), ("SUSPENDED", (), P), ("a state of next year", (), P),
        ("RUNNING", (), R), ("RUNNING", ("RUNNING", "RUNNING"), R), ("RUNNING", ("RUNNING", "FAILED"), R),
        ("RUNNING", ("RUNNING", "PENDING"), P), ("RUNNING", ("UNKNOWN",), P),
        ("SUCCEEDING", ("COMPLETED",), R), ("COMPLETED", ("COMPLETED",), C),
        ("FAILED", (), F), ("SUBMISSION_FAILED", (), F), ("FAILING", ("RUNNING",), F),
    ],
)  # fmt: skip
def test_states_of_a_spark_application(state: str, executors: tuple[str, ...], wanted: AppState) -> None:
    assert spark(state, *executors)[0] is wanted


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
@pytest.mark.parametrize("state", ["FAILING", "SUBMISSION_FAILED"])
def test_a_spark_application_that_is_tried_again_has_not_failed(policy: str, state: str) -> None:
    assert spark(state, restart=policy)[0] is P
    assert spark("FAILED", restart=policy)[0] is F


def test_the_spark_operators_words_are_kept_but_not_all_of_them() -> None:
    assert spark("FAILED", error="driver container\n failed")[1] == "driver container failed"
    assert spark("FAILING")[1] == "its operator says FAILING"
    assert len(spark("FAILED", error="x" * 10_000)[1]) == applications.LONGEST


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, P),
        ({"jobManagerDeploymentStatus": "MISSING", "lifecycleState": "CREATED"}, P),
        ({"jobManagerDeploymentStatus": "DEPLOYING", "jobStatus": {"state": "RECONCILING"}}, P),
        ({"jobManagerDeploymentStatus": "DEPLOYED_NOT_READY", "jobStatus": {"state": "RUNNING"}}, P),
        ({"jobManagerDeploymentStatus": "READY", "jobStatus": {"state": "CREATED"}}, P),
        ({"jobManagerDeploymentStatus": "READY", "jobStatus": {"state": "RUNNING"}}, R),
        ({"jobManagerDeploymentStatus": "READY", "jobStatus": {"state": "RESTARTING"}}, P),
        ({"jobManagerDeploymentStatus": "READY", "jobStatus": {"state": "SUSPENDED"}}, P),
        ({"jobManagerDeploymentStatus": "READY", "jobStatus": {"state": "FINISHED"}}, C),
        ({"jobManagerDeploymentStatus": "MISSING", "jobStatus": {"state": "FINISHED"}}, C),
        ({"jobStatus": {"state": "FAILED"}, "lifecycleState": "FAILED"}, F),
        ({"jobStatus": {"state": "CANCELED"}}, F),
        ({"jobManagerDeploymentStatus": "ERROR"}, F),
        ({"lifecycleState": "FAILED", "error": "Flink version is missing"}, F),
    ],
)
def test_states_of_a_flink_deployment(status: dict[str, Any], wanted: AppState) -> None:
    assert read(AppKind.FLINK, status).state is wanted


def test_the_flink_operators_error_is_told_without_its_trace() -> None:
    error = json.dumps({"type": "DeploymentFailedException", "message": "no image", "throwableList": ["…"]})
    assert read(AppKind.FLINK, {"lifecycleState": "FAILED", "error": error}).text == "no image"
    assert read(AppKind.FLINK, {"lifecycleState": "FAILED", "error": "plain"}).text == "plain"
    assert read(AppKind.FLINK, {"jobStatus": {"state": "FAILED"}}).text == "the Flink job is FAILED"
    # An error beside a job that runs is about an upgrade.
    assert read(AppKind.FLINK, {"jobStatus": {"state": "RUNNING"}, "error": "x"}).text == ""


def sets(job_manager: str, task_manager: str, job: str = "") -> dict[str, Any]:
    more = {"job": {"state": job}} if job else {}
    return {
        "jobManagerStatefulSet": {"state": job_manager},
        "taskManagerStatefulSet": {"state": task_manager},
        **more,
    }


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"state": "Creating"}, P),
        ({"state": "Running"}, R),
        ({"state": "Failed"}, F),
        ({"state": "Stopping"}, P),
        ({"state": "Stopped", "components": sets("Deleted", "Ready")}, R),
        ({"state": "Stopped", "components": sets("Deleted", "Deleted")}, C),
        ({"state": "Stopped", "components": sets("Deleted", "Deleted", "Succeeded")}, C),
        ({"state": "Stopped", "components": sets("Deleted", "Deleted", "Failed")}, F),
        ({"state": "Running", "components": sets("Ready", "Ready", "Lost")}, F),
    ],
)
def test_states_of_a_flink_cluster(status: dict[str, Any], wanted: AppState) -> None:
    assert read(AppKind.FLINK_CLUSTER, status).state is wanted


def test_a_flink_cluster_that_is_restarted_from_a_savepoint_has_not_failed() -> None:
    again = {"job": {"restartPolicy": "FromSavepointOnFailure"}}
    status = {"state": "Running", "components": sets("Ready", "Ready", "Failed")}
    assert read(AppKind.FLINK_CLUSTER, status, again).state is R
    assert read(AppKind.FLINK_CLUSTER, status).text == "the Flink job is Failed"


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, P), ({"active": 2}, P), ({"active": 2, "ready": 0}, P), ({"active": 2, "ready": 1}, R),
        ({"active": 1, "ready": 0, "succeeded": 1}, R),
        (condition("Suspended"), P), (condition("FailureTarget"), P), (condition("SuccessCriteriaMet"), P),
        (condition("Complete"), C), (condition("Complete", "False"), P), (condition("Failed"), F),
    ],
)  # fmt: skip
def test_states_of_a_job(status: dict[str, Any], wanted: AppState) -> None:
    assert read(AppKind.JOB, status).state is wanted


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({}, P),
        ({"replicatedJobsStatus": [{"name": "w", "active": 2, "ready": 0}]}, P),
        ({"replicatedJobsStatus": [{"name": "w", "ready": 0}, {"name": "l", "ready": 1}]}, R),
        (condition("StartupPolicyCompleted"), P),
        (condition("Completed"), C),
        (condition("Failed"), F),
        # A JobSet has no condition of this name.
        (condition("Complete"), P),
    ],
)
def test_states_of_a_job_set(status: dict[str, Any], wanted: AppState) -> None:
    assert read(AppKind.JOB_SET, status).state is wanted


def test_a_failed_job_says_why() -> None:
    status = condition("Failed", reason="BackoffLimitExceeded", message="Job has reached its limit")
    assert read(AppKind.JOB, status).text == "BackoffLimitExceeded: Job has reached its limit"


def test_a_service_account_is_read() -> None:
    found = applications.account(json.dumps({"metadata": META}).encode())
    assert (found.uid, found.version, found.namespace, found.name) == ("u1", 7, "ns", "a")
    with pytest.raises(ValueError, match="no uid"):
        applications.account(b'{"metadata": {"name": "a"}}')


def test_a_priority_class_is_read() -> None:
    found = applications.priority_class(json.dumps({"metadata": META, "value": 1000}).encode())
    assert (found.uid, found.version, found.namespace, found.name) == ("u1", 7, "", "a")
    with pytest.raises(ValueError, match="no uid"):
        applications.priority_class(b'{"metadata": {"name": "a"}}')


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["True", "Failed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
fields = (
    "applicationState", "state", "errorMessage", "executorState", "jobStatus", "lifecycleState", "error",
    "jobManagerDeploymentStatus", "components", "job", "jobManagerStatefulSet", "conditions", "type",
    "status", "reason", "message", "ready", "succeeded", "replicatedJobsStatus", "restartPolicy",
)  # fmt: skip
statuses = st.recursive(
    anything,
    lambda inner: st.dictionaries(st.sampled_from(fields), inner | st.lists(inner, max_size=2), max_size=6),
)


@given(kind=st.sampled_from(list(AppKind)), status=statuses, spec=statuses)
def test_nothing_that_a_server_may_send_stops_a_reader(kind: AppKind, status: Any, spec: Any) -> None:
    found = read(kind, status, spec)
    assert found.uid == "u1"
    assert found.state in AppState
    assert len(found.text) <= applications.LONGEST
