"""The BatchJob's machine: each state and transition, its application, its history, failures and ways out."""

import json
from typing import Any

import pytest
from msgspec import structs

from esi_yard import (
    LABEL,
    POD,
    bed,
    comes,
    conditions,
    ids,
    invariants,
    queue,
    ref,
    seconds,
    settled,
    spark,
    state_of,
    states,
    until,
    yard,
)
from fairlead.control.esi.batchjob import MACHINE, MOST_EVENTS
from fairlead.model import command as cmd
from fairlead.model.batchjob import BatchJobStatus, JobState, ScheduledEvent
from fairlead.model.esi import RESET, Ref
from fairlead.sim.esi_world import EsiWorld

FLINK: dict[str, Any] = {"jarFile": "local:///wc.jar", "className": "WordCount", "parallelism": 1}
KINDS: dict[str, dict[str, Any]] = {
    "Flink": {"flinkSpec": FLINK},
    "FlinkCluster": {"flinkSpec": FLINK, "fairlead": {"flinkKind": "FlinkCluster"}},
    "Spark": {"sparkSpec": json.loads(json.dumps(spark("x").spec.spark_spec))},
    "Job": {"fairlead": {"jobSpec": {"template": {"spec": POD}}}},
    "JobSet": {
        "fairlead": {
            "jobSetSpec": {
                "replicatedJobs": [
                    {"name": "workers", "replicas": 1, "template": {"spec": {"template": {"spec": POD}}}}
                ]
            }
        }
    },
}
PATH = [
    "InQueueState", "SubmittedState", "ScheduledState", "RunningState", "CompletedState", "PendingDeletion",
    "ReadyState",
]  # fmt: skip
ALWAYS = ["AWAIT_RELEASE_CONDITION"]
EXISTS = [*ALWAYS, "AWAIT_DELETION", "AWAIT_FAILURE_CONDITION", "AWAIT_COMPLETION_CONDITION"]
CONDITIONS = {
    "ReadyState": ["AWAIT_ENQUEUE_REQUEST_CONDITION"],
    "InQueueState": [*ALWAYS, "AWAIT_CREATION_REQUEST_CONDITION"],
    "SubmittedState": [*EXISTS, "AWAIT_POD_SCHEDULED_CONDITION"],
    "ScheduledState": [*EXISTS, "AWAIT_RUNNING_CONDITION"],
    "RunningState": EXISTS,
    "CompletedState": ALWAYS,
    "PendingDeletion": ["AWAIT_DELETION"],
}


def put(world: EsiWorld, name: str, spec: dict[str, Any]) -> None:
    world.put({"kind": "BatchJob", "metadata": {"name": name}, "spec": spec})


def written(world: EsiWorld, name: str) -> dict[str, list[str]]:
    """State -> the conditions that were written with it."""
    found: dict[str, list[str]] = {}
    for _, command in world.log:
        if isinstance(command, cmd.PatchObject) and command.sub == "status" and command.ref.name == name:
            status = json.loads(command.body)["status"]
            if command.ref.kind == "BatchJob":
                found[status["state"]] = [each["condition"] for each in status["conditions"] or []]
    return found


def created(world: EsiWorld, name: str) -> list[cmd.CreateObject]:
    return [c for _, c in world.log if isinstance(c, cmd.CreateObject) and c.name == name]


@pytest.mark.parametrize("kind", list(KINDS))
def test_BatchJobReconciler_normal(kind: str):
    """A8: every state in its order with its exact conditions, for each kind of application."""
    world = yard(jobs="", app=5)
    world.account("flink")
    put(world, "app", KINDS[kind])
    world.run(100)
    queue(world, "s", "app app app app")
    comes(world, "Scheduling", "s", "CompletedState")
    (made,) = created(world, "app")
    text = made.body
    assert '"batchjob.tuberlin.de/slots-ids":"0_1_2_3"' in text
    assert '"batchjob.tuberlin.de/slots-is-ghost-pod":"false"' in text
    assert ids(world.job("app")) == "0_1_2_3" and world.job("app").replication == 4
    world.delete("Scheduling", "s")
    comes(world, "BatchJob", "app", "ReadyState")
    assert world.app_of("app") is None and not world.pods_of("app")
    assert states(world, "BatchJob", "app")[1:] == PATH
    assert {
        state: found for state, found in written(world, "app").items() if state in CONDITIONS
    } == CONDITIONS
    (event,) = world.job("app").scheduled_events
    assert event.successful and event.scheduling == ref("s")
    assert 5 <= seconds(event.stop) - seconds(event.start) <= 6
    settled(world)


def test_BatchJobReconciler_normal_Spark_stays_submitted_while_it_has_no_executors():
    world = yard()
    world.stall("j1")
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "SubmittedState")
    app = world.operators._apps[world.app_of("j1")["metadata"]["uid"]]
    world.operators._say(app, "running")
    world.run(5_000)
    assert state_of(world, "BatchJob", "j1") == "SubmittedState"
    world.operators._say(app, "completed")
    comes(world, "BatchJob", "j1", "CompletedState")
    (event,) = world.job("j1").scheduled_events
    assert event.successful and event.start == event.stop, "an execution that nobody saw running is one"


def test_states_are_skipped_if_nobody_looked_meanwhile():
    world = yard(j1=5)
    queue(world, "s", "j1", release=True)
    esi, uid = world.engine.state.esi, world.uid("BatchJob", "j1")
    until(world, lambda: esi.job_status(uid).state is JobState.SCHEDULED, step=1)
    world.crash()
    world.run(20_000)
    world.start()
    comes(world, "Scheduling", "s", "FinishedState")
    assert "RunningState" not in states(world, "BatchJob", "j1")
    assert len(world.job("j1").scheduled_events) == 1


def test_RA12_each_execution_is_kept():
    world = yard(j1=3)
    for number in range(3):
        queue(world, f"s{number}", "j1", release=True)
        comes(world, "Scheduling", f"s{number}", "FinishedState")
    events = world.job("j1").scheduled_events
    assert [each.scheduling.name for each in events] == ["s0", "s1", "s2"]
    assert all(each.successful and each.stop for each in events)


def test_of_many_executions_the_last_are_kept_and_the_others_counted():
    """What algorithms ask, the last of them, stays where it is."""
    world = yard(j1=3)
    ref = Ref("default", "old")
    before = [ScheduledEvent(f"{number}", f"{number}", True, ref) for number in range(MOST_EVENTS + 7)]
    world.engine.state.esi.status[world.uid("BatchJob", "j1")] = BatchJobStatus(
        JobState.READY, scheduled_events=before, omitted_events=3
    )
    queue(world, "s", "j1", release=True)
    comes(world, "Scheduling", "s", "FinishedState")
    status = world.job("j1")
    assert len(status.scheduled_events) == MOST_EVENTS and status.omitted_events == 3 + 8
    assert status.scheduled_events[:-1] == before[8:] and status.scheduled_events[-1].successful
    assert status.scheduled_events[-1].scheduling == Ref("default", "s")


def test_RA1_stop_is_written_on_failure_too():
    world = yard(j1=60)
    world.fail("j1", 5_000)
    queue(world, "s", "j1", on="Continue")
    comes(world, "BatchJob", "j1", "FailedSubmissionState")
    (event,) = world.job("j1").scheduled_events
    assert not event.successful and 5 <= seconds(event.stop) - seconds(event.start) <= 6
    assert world.job("j1").problems == [
        "the application has failed: driver container failed with ExitCode: 1"
    ]
    assert conditions(world.job("j1")) == [
        "AWAIT_RELEASE_CONDITION", "AWAIT_RESET_CONDITION", "AWAIT_RETRY_CONDITION",
    ]  # fmt: skip


@pytest.mark.parametrize("when", ["SubmittedState", "ScheduledState", "RunningState"])
def test_an_application_that_vanishes_is_a_failure(when: str):
    world = yard(j1=20, j2=5)
    if when == "SubmittedState":
        world.stall("j1")
    queue(world, "s", "j1 j2", on="Continue")
    until(world, lambda: state_of(world, "BatchJob", "j1") == when, step=1)
    until(world, lambda: world.app_of("j1") is not None and world.job("j1").application != "", step=1)
    world.vanish("j1")
    comes(world, "BatchJob", "j1", "ReadyState")
    assert world.job("j1").problems == ["its application was deleted before it had ended"]
    assert all(each.stop and not each.successful for each in world.job("j1").scheduled_events)
    comes(world, "Scheduling", "s", "CompletedState")
    assert world.scheduling("s").failed_jobs == [ref("j1")]
    world.run(30_000)
    assert state_of(world, "BatchJob", "j1") == "ReadyState" and world.app_of("j1") is None
    world.delete("Scheduling", "s")
    world.run(1_000)
    settled(world)


def test_an_application_that_vanishes_is_submitted_again_where_the_policy_is_retry():
    world = yard(j1=5)
    queue(world, "s", "j1", on="Retry", backoff="2s")
    comes(world, "BatchJob", "j1", "RunningState")
    world.vanish("j1")
    comes(world, "Scheduling", "s", "CompletedState")
    assert [each.successful for each in world.job("j1").scheduled_events] == [False, True]


def test_an_application_that_vanishes_once_it_has_completed_does_not_run_again():
    world = yard(j1=3)
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "CompletedState")
    world.vanish("j1")
    world.run(30_000)
    assert state_of(world, "BatchJob", "j1") == "CompletedState" and world.app_of("j1") is None
    world.delete("Scheduling", "s")
    comes(world, "BatchJob", "j1", "ReadyState")
    assert len(world.job("j1").scheduled_events) == 1


def test_an_application_that_cannot_be_created_says_why():
    world = yard()
    world.refusing["create", "SparkApplication"] = (404, "no kind SparkApplication is installed")
    queue(world, "s", "j1", on="Continue")
    comes(world, "BatchJob", "j1", "FailedSubmissionState")
    (problem,) = world.job("j1").problems
    assert problem == "the SparkApplication j1 cannot be created: no kind SparkApplication is installed"
    assert not world.job("j1").scheduled_events
    del world.refusing["create", "SparkApplication"]
    world.delete("Scheduling", "s")
    world.run(1_000)
    queue(world, "t", "j1")
    comes(world, "BatchJob", "j1", "RunningState")


def test_an_application_of_somebody_else_is_left_alone_and_named():
    world = yard()
    world.objects.create({"kind": "SparkApplication", "metadata": {"name": "j1"}, "spec": {}})
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "FailedState")
    assert "there is a SparkApplication j1 that is not this BatchJob's" in world.scheduling("s").problems[0]
    world.run(5_000)
    assert world.app_of("j1") is not None


def test_a_missing_service_account_is_named_and_waited_for():
    world = yard(jobs="")
    world.put(spark("j1", driver={"serviceAccount": "nobody"}))
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "SubmittedState")
    world.run(60_000)
    status = world.job("j1")
    said = "service account nobody does not exist in namespace default: create it, or name another"
    assert status.state == "SubmittedState" and status.problems == [said]
    (condition,) = [each for each in status.conditions if each.error]
    assert (condition.condition, condition.error) == ("AWAIT_SERVICE_ACCOUNT_CONDITION", said)
    assert world.app_of("j1") is None
    world.account("nobody")
    comes(world, "BatchJob", "j1", "RunningState")
    assert world.job("j1").problems == []


def test_a_missing_priority_class_is_named_and_waited_for():
    """Every cluster has classes of its own; which lack tells it."""
    world = yard(jobs="j1 j2")
    world.priority_class("system-node-critical")
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "SubmittedState")
    world.run(60_000)
    status = world.job("j1")
    said = (
        "priority class high-priority does not exist, and pods that name it are refused: apply"
        " deploy/esi.yaml, or kubectl create priorityclass high-priority --value=1000"
    )
    assert status.state == "SubmittedState" and status.problems == [said]
    (condition,) = [each for each in status.conditions if each.error]
    assert (condition.condition, condition.error) == ("AWAIT_PRIORITY_CLASS_CONDITION", said)
    assert world.app_of("j1") is None
    world.priority_class("high-priority")
    comes(world, "BatchJob", "j1", "RunningState")
    assert world.job("j1").problems == []
    world.lose_class("high-priority")
    queue(world, "t", "j2")
    comes(world, "BatchJob", "j2", "SubmittedState")
    world.run(1_000)
    assert world.job("j2").problems == [said] and world.job("j1").problems == []


def test_a_job_without_a_readable_spec_is_failed_until_it_is_repaired():
    world = yard(jobs="")
    put(world, "j1", {})
    comes(world, "BatchJob", "j1", "FailedState")
    assert world.job("j1").problems
    world.put(spark("j1"))
    comes(world, "BatchJob", "j1", "ReadyState")
    assert world.job("j1").problems == []
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "RunningState")


def test_RA10_an_edit_of_a_running_job_evicts_nothing():
    world = yard(j1=20)
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.edit("BatchJob", "j1", {"spec": {"sparkSpec": None}})
    world.run(3_000)
    assert state_of(world, "BatchJob", "j1") == "RunningState" and len(world.pods_of("j1")) == 1
    comes(world, "BatchJob", "j1", "CompletedState")
    world.delete("Scheduling", "s")
    comes(world, "BatchJob", "j1", "FailedState")
    assert world.app_of("j1") is None


def test_RA6_a_failed_job_is_reset_by_its_annotation():
    world = yard(j1=5, j2=300)
    world.fail("j1", 500)
    queue(world, "s", "j1 j2", on="Continue")
    comes(world, "BatchJob", "j1", "FailedSubmissionState")
    world.edit("BatchJob", "j1", {"metadata": {"annotations": {RESET: "1"}}})
    comes(world, "BatchJob", "j1", "CompletedState")
    assert world.scheduling("s").failed_jobs == []
    assert [each.successful for each in world.job("j1").scheduled_events] == [False, True]


def test_an_old_reset_does_not_hide_a_later_failure():
    world = yard(j1=5, j2=300)
    world.edit("BatchJob", "j1", {"metadata": {"annotations": {RESET: "1"}}})
    world.run(100)
    assert world.job("j1").reset == "1"
    world.fail("j1", 500)
    queue(world, "s", "j1 j2", on="Continue")
    comes(world, "BatchJob", "j1", "FailedSubmissionState")
    world.run(10_000)
    assert state_of(world, "BatchJob", "j1") == "FailedSubmissionState"


def test_a_reset_job_whose_scheduling_has_completed_is_let_go():
    world = yard(j1=5, j2=2)
    world.fail("j1", 500)
    queue(world, "s", "j1 j2", on="Continue")
    comes(world, "Scheduling", "s", "CompletedState")
    world.edit("BatchJob", "j1", {"metadata": {"annotations": {RESET: "now"}}})
    comes(world, "BatchJob", "j1", "ReadyState")
    assert world.job("j1").active_scheduling is None and world.job("j1").problems == []


def test_nothing_is_created_before_the_assignment_is_seen():
    world = yard()
    queue(world, "s", "j1")
    until(world, lambda: bool(created(world, "j1")), step=1)
    (at,) = [at for at, command in world.log if isinstance(command, cmd.CreateObject)]
    wrote = [
        at
        for at, command in world.log
        if isinstance(command, cmd.PatchObject)
        and command.sub == "status"
        and '"places":["n0/0"]' in command.body
    ]
    assert wrote and wrote[0] < at


def test_slots_that_go_before_anything_has_started_are_replaced():
    world = yard(jobs="")
    world.put(spark("j1", driver={"serviceAccount": "nobody"}))
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "SubmittedState")
    assert world.job("j1").places == ["n0/0"]
    world.label_node("n0", {LABEL: None})
    until(world, lambda: world.job("j1").places == ["n1/0"])
    world.delete("Testbed", "tb")
    comes(world, "BatchJob", "j1", "InQueueState")
    world.account("nobody")
    world.put(bed())
    comes(world, "BatchJob", "j1", "RunningState")


def test_nothing_moves_while_this_process_does_not_lead():
    world = yard(j1=5)
    world.store_down()
    world.run(100)
    queue(world, "s", "j1", release=True)
    world.run(5_000)
    assert state_of(world, "BatchJob", "j1") == "ReadyState"
    assert state_of(world, "Scheduling", "s") == "InitialState"
    world.store_up()
    comes(world, "Scheduling", "s", "FinishedState")


@pytest.mark.parametrize("state", [each for each in PATH if each != "ReadyState"])
def test_a_restart_in_any_state_leads_to_the_same_end(state: str):
    world = yard(j1=5)
    queue(world, "s", "j1 j1", release=True)
    until(world, lambda: state_of(world, "BatchJob", "j1") == state, step=1)
    world.crash()
    world.run(2_000)
    world.start()
    comes(world, "Scheduling", "s", "FinishedState")
    comes(world, "BatchJob", "j1", "ReadyState")
    assert [each.successful for each in world.job("j1").scheduled_events] == [True]
    world.run(1_000)
    invariants(world)
    settled(world)


@pytest.mark.parametrize("state", [each for each in PATH if each != "ReadyState"])
def test_deletion_in_any_state(state: str):
    world = yard(j1=5, j2=5)
    queue(world, "s", "j1 j1 j2", release=True, on="Continue")
    until(world, lambda: state_of(world, "BatchJob", "j1") == state, step=1)
    world.delete("BatchJob", "j1")
    comes(world, "Scheduling", "s", "FinishedState")
    world.run(2_000)
    assert world.app_of("j1") is None and not world.pods_of("j1")
    assert len(world.job("j2").scheduled_events) == 1
    invariants(world)
    settled(world)


@pytest.mark.parametrize("state", PATH[1:5])
def test_release_in_any_state(state: str):
    world = yard(j1=5)
    queue(world, "s", "j1 j1")
    until(world, lambda: state_of(world, "BatchJob", "j1") == state, step=1)
    world.delete("Scheduling", "s")
    comes(world, "BatchJob", "j1", "ReadyState")
    status = world.job("j1")
    assert (status.places, status.slot_ids, status.application, status.claimed_by) == ([], [], "", "")
    assert all(each.stop for each in status.scheduled_events)
    assert world.app_of("j1") is None
    spec = world.thing("BatchJob", "j1").spec
    assert (spec.active_scheduling, spec.creation_request) == (None, None)
    settled(world)


def test_a_job_is_not_started_again_while_something_of_its_last_run_lives():
    world = yard(j1=5)
    queue(world, "s", "j1", release=True)
    comes(world, "BatchJob", "j1", "RunningState")
    executor = world.pods_of("j1")[0]
    world.pod(structs.replace(executor, uid="driver", name="j1-driver", version=0, labels={}, annotations={}))
    end = world._end_pod
    world._end_pod = lambda uid, *more: None if uid == "driver" else end(uid, *more)  # it does not go
    world.delete("Scheduling", "s")
    world.run(2_000)
    assert world.app_of("j1") is None
    assert state_of(world, "BatchJob", "j1") == "PendingDeletion"
    world.pod_gone("driver")
    comes(world, "BatchJob", "j1", "ReadyState")


def test_every_state_has_a_way_out():
    ways = {state: {step.to for step in steps} - {state} for state, steps in MACHINE.items()}
    assert set(ways) == set(JobState)
    assert all(ways.values())
