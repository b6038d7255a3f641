"""The Scheduling's machine: which jobs start when in which slots, what becomes of failures, and ways out."""

import pytest

from esi_yard import (
    comes,
    conditions,
    free,
    ids,
    invariants,
    queue,
    ref,
    seconds,
    settled,
    slots,
    state_of,
    states,
    told,
    until,
    yard,
)
from fairlead.control.esi.scheduling import MACHINE
from fairlead.control.esi.strategy import Choice, choose, kept, needs
from fairlead.model.scheduling import SchedulingSpec, SchedulingState, SlotBased, SlotJob, SlotMode

# -- strategies --------------------------------------------------------------------------------------


def queued(jobs: str) -> SchedulingSpec:
    return SchedulingSpec(ref("tb"), queue_based=[ref(each) for each in jobs.split()])


def named(mode: str, **jobs: list[int]) -> SchedulingSpec:
    based = SlotBased([SlotJob(ref(job), each) for job, each in jobs.items()], SlotMode(mode))
    return SchedulingSpec(ref("tb"), slot_based=based)


def chosen(spec: SchedulingSpec, waiting: str, free: list[int]) -> dict[str, tuple[int, ...]]:
    found = choose(spec, [ref(each) for each in waiting.split()], free)
    return {choice.job.name: choice.slots for choice in found}


@pytest.mark.parametrize(
    ("jobs", "waiting", "free", "expected"),
    [
        ("j2 j1 j2 j1", "j1 j2", [0, 1, 2, 3], {"j2": (0, 2), "j1": (1, 3)}),
        ("j1 j1 j1 j2 j2 j2", "j1 j2", [0, 1, 2, 3], {"j1": (0, 1, 2)}),
        ("j1 j1 j1 j2 j2 j2", "j2", [0, 1, 2, 3], {"j2": (0, 1, 2)}),
        ("j1 j2 j3", "j1 j2 j3", [1, 3, 5], {"j1": (1,), "j2": (3,), "j3": (5,)}),
        ("j1 j2 j1 j2 j1", "j2", [4, 6, 9], {"j2": (4, 6)}),
        ("j1 j1 j2", "j1 j2", [0], {}),
        ("j1", "j1", [], {}),
        ("j1 j2", "", [0, 1], {}),
        ("j2 j1 j2", "j1 j2", [0, 1], {"j2": (0, 1)}),
    ],
)
def test_RA7_queue_strategy(jobs: str, waiting: str, free: list[int], expected: dict[str, tuple[int, ...]]):
    """ESI's unit tests of its slot selection: odd lengths, skipped entries, impossible ones empty."""
    assert chosen(queued(jobs), waiting, free) == expected


@pytest.mark.parametrize(
    ("mode", "jobs", "free", "expected"),
    [
        ("strict", {"j1": [0, 1], "j2": [2]}, [0, 1, 2], {"j1": (0, 1), "j2": (2,)}),
        ("strict", {"j1": [0, 1], "j2": [2]}, [0, 2], {}),
        ("relaxed", {"j1": [0, 1], "j2": [2]}, [0, 2], {"j2": (2,)}),
        ("strict", {"j1": [0], "j2": [0]}, [0], {"j1": (0,)}),
        ("relaxed", {"j1": [0], "j2": [0], "j3": [1]}, [0, 1], {"j1": (0,), "j3": (1,)}),
        ("relaxed", {"j1": [9]}, [0, 1], {}),
    ],
)
def test_RA7_slot_strategies(
    mode: str, jobs: dict[str, list[int]], free: list[int], expected: dict[str, tuple[int, ...]]
):
    assert chosen(named(mode, **jobs), "j1 j2 j3", free) == expected


def test_needs_count_those_before_in_queue_and_strict():
    found = needs(queued("j1 j1 j2"), [ref("j1"), ref("j2")], [4, 5])
    assert [(each.job.name, each.number, each.met) for each in found] == [("j1", 2, True), ("j2", 3, False)]
    found = needs(named("strict", j1=[1], j2=[0]), [ref("j1"), ref("j2")], [0])
    assert [(each.slots, each.met) for each in found] == [((1,), False), ((0, 1), False)]
    found = needs(named("relaxed", j1=[1], j2=[0]), [ref("j1"), ref("j2")], [0])
    assert [(each.slots, each.met) for each in found] == [((1,), False), ((0,), True)]


def test_what_is_kept_for_the_first_that_waits():
    waiting = [ref("j1")]
    assert kept(queued("j1 j1 j1"), waiting, [3, 5], 8) == (3, 5)
    assert kept(queued("j1"), waiting, [3, 5], 8) == (3,)
    assert kept(queued("j1 j1 j1"), waiting, [0, 1], 2) == (), "it can never start"
    assert kept(named("strict", j1=[2, 3]), waiting, [3], 8) == (2, 3)
    assert kept(named("strict", j1=[9]), waiting, [3], 8) == ()
    assert kept(named("relaxed", j1=[2]), waiting, [3], 8) == ()
    assert (
        choose(SchedulingSpec(ref("tb")), waiting, [0])
        == []
        == needs(SchedulingSpec(ref("tb")), waiting, [0])
    )
    assert Choice(ref("j1"), (1,)).job.name == "j1"


# -- ESI's own scenarios -------------------------------------------------------------------------------


def test_SchedulingIntegration_at_once():
    """A8: [j2,j1,j2,j1] on 4 slots -> j1 `1_3`, j2 `0_2`."""
    world = yard(j1=10, j2=20)
    queue(world, "s", "j2 j1 j2 j1")
    comes(world, "Scheduling", "s", "AwaitingCompletionState")
    assert (ids(world.job("j1")), ids(world.job("j2"))) == ("1_3", "0_2")
    for job, expected in (("j1", "1_3"), ("j2", "0_2")):
        pods = world.pods_of(job)
        assert {pod.labels["batchjob.tuberlin.de/slots-ids"] for pod in pods} == {expected}
        assert {pod.labels["batchjob.tuberlin.de/slots-is-ghost-pod"] for pod in pods} == {"false"}
        assert len(pods) == 2
    request = world.thing("BatchJob", "j1").spec.creation_request
    assert (request.slot_ids, request.replication, request.testbed_name) == ([1, 3], 2, ref("tb"))
    comes(world, "Scheduling", "s", "CompletedState")
    assert states(world, "Scheduling", "s") == [
        "AcquireState", "ConfirmationState", "AwaitingCompletionState", "CompletedState",
    ]  # fmt: skip
    settled(world)


def test_SchedulingIntegration_at_once_nothing_is_submitted_before_all_jobs_are_claimed_and_that_is_written():
    world = yard(jobs="j1 j2")
    world.refusing["patch", "BatchJob"] = (500, "not now")
    queue(world, "s", "j1 j2")
    world.run(2_000)
    assert state_of(world, "Scheduling", "s") == "AcquireState"
    assert world.app_of("j1") is None and world.app_of("j2") is None
    del world.refusing["patch", "BatchJob"]
    comes(world, "BatchJob", "j1", "RunningState")
    comes(world, "BatchJob", "j2", "RunningState")


def test_SchedulingIntegration_queue():
    """A8: [j1x3, j2x3] on 4 slots: j2 waits until the slots are free, not only until j1 has completed."""
    world = yard(j1=10, j2=10)
    queue(world, "s", "j1 j1 j1 j2 j2 j2")
    comes(world, "BatchJob", "j1", "RunningState")
    world.run(1_000)
    assert state_of(world, "BatchJob", "j2") == "InQueueState"
    assert state_of(world, "Scheduling", "s") == "SubmissionState"
    assert "job j2 needs 3 free slots, and 1 of 4 are free for it" in world.scheduling("s").reason
    (need,) = [c for c in world.scheduling("s").conditions if c.condition == "AWAIT_NUMBER_OF_SLOTS"]
    assert (need.job_name, need.number_of_slots_required, need.value) == (ref("j2"), 3, False)
    app = world.operators._apps[world.app_of("j1")["metadata"]["uid"]]
    world.operators._say(app, "completed")
    comes(world, "BatchJob", "j1", "CompletedState")
    world.run(1_000)
    assert not world.job("j2").slot_ids, "its pods are still there"
    comes(world, "BatchJob", "j2", "RunningState")
    assert ids(world.job("j2")) == "0_1_2"
    comes(world, "Scheduling", "s", "CompletedState")


def test_testLongQueue():
    """A8: four jobs, nine entries, four slots: in order, each state seen."""
    names = "j1 j2 j3 j4"
    world = yard(jobs=names, j1=5, j2=10, j3=5, j4=5)
    queue(world, "s", "j1 j1 j2 j2 j3 j3 j3 j4 j4")
    until(world, lambda: state_of(world, "Scheduling", "s") == "CompletedState")
    first = {name: world.job(name).scheduled_events[0].start for name in names.split()}
    assert first["j1"] == first["j2"] < first["j3"] <= first["j4"]
    assert (ids(world.job("j1")), ids(world.job("j2"))) == ("0_1", "2_3")
    written = states(world, "Scheduling", "s")
    assert written[:3] == ["AcquireState", "ConfirmationState", "SubmissionState"]
    assert written[-2:] == ["AwaitingCompletionState", "CompletedState"]
    stages = {each.name.name: str(each.state) for each in world.scheduling("s").job_states}
    assert stages == dict.fromkeys(names.split(), "Completed")


def test_only_one_fits():
    """A8: the first one's executors take all slots; each asks for just one slot's share."""
    world = yard(j1=5, j2=5)
    queue(world, "s", "j1 j1 j1 j2 j2")
    comes(world, "Scheduling", "s", "SubmissionState")
    assert conditions(world.scheduling("s")) == ["AWAIT_COMPLETION", "AWAIT_NUMBER_OF_SLOTS"]
    executor = world.app_of("j1")["spec"]["executor"]
    assert executor["instances"] == 3
    assert {dict(pod.shape.requests)["cpu"] for pod in world.pods_of("j1")} == {500}
    comes(world, "Scheduling", "s", "CompletedState")


def test_strict_waits_for_its_order_and_relaxed_overtakes():
    for mode, expected in (("strict", "InQueueState"), ("relaxed", "RunningState")):
        world = yard(j1=30, j2=5, j3=5)
        slots(world, "busy", "strict", {"j1": [0]})
        comes(world, "BatchJob", "j1", "RunningState")
        slots(world, "s", mode, {"j2": [0, 1], "j3": [2]})
        world.run(2_000)
        assert state_of(world, "BatchJob", "j3") == expected, mode
        assert (
            "job j2 waits for slots that are not free: 0" in world.scheduling("s").reason or mode == "relaxed"
        )
        comes(world, "Scheduling", "s", "CompletedState")
        assert (ids(world.job("j2")), ids(world.job("j3"))) == ("0_1", "2")


def test_a_slot_that_does_not_exist_is_named():
    world = yard()
    slots(world, "s", "strict", {"j1": [7]})
    world.run(2_000)
    assert world.scheduling("s").reason == "job j1 asks for slot 7, and Testbed default/tb has slots 0 to 3"
    queue(world, "t", "j2 j2 j2 j2 j2")
    world.run(2_000)
    assert world.scheduling("t").reason == "job j2 needs 5 slots, and Testbed default/tb has 4"


# -- several at once -------------------------------------------------------------------------------------


def test_RA2_several_schedulings_run_on_one_testbed_at_once():
    world = yard(j1=20, j2=20)
    queue(world, "a", "j1 j1")
    queue(world, "b", "j2 j2")
    comes(world, "BatchJob", "j1", "RunningState")
    comes(world, "BatchJob", "j2", "RunningState")
    assert (ids(world.job("j1")), ids(world.job("j2"))) == ("0_1", "2_3")
    assert free(world) == []


def test_RA2_what_an_earlier_one_waits_for_is_not_given_to_a_later_one():
    world = yard(j1=10, j2=10, j3=60)
    queue(world, "a", "j1 j1 j1")
    comes(world, "BatchJob", "j1", "RunningState")
    queue(world, "b", "j2 j2 j2")
    world.run(1_000)
    queue(world, "c", "j3")
    world.run(3_000)
    assert state_of(world, "BatchJob", "j3") == "InQueueState", "one slot is free, but b waits for it"
    assert world.scheduling("c").reason.endswith("are kept for Scheduling default/b, which came before")
    comes(world, "BatchJob", "j2", "RunningState")
    comes(world, "BatchJob", "j3", "RunningState")


def test_RA2_one_that_can_never_start_keeps_no_slots():
    world = yard(j2=5)
    queue(world, "a", "j1 j1 j1 j1 j1")
    world.run(1_000)
    queue(world, "b", "j2", release=True)
    comes(world, "Scheduling", "b", "FinishedState")


# -- failures --------------------------------------------------------------------------------------------


def test_RA1_fail_fast_releases_claims_and_says_why():
    world = yard(j1=60, j2=60)
    world.fail("j2", 2_000)
    queue(world, "s", "j1 j2")
    comes(world, "Scheduling", "s", "FailedState")
    status = world.scheduling("s")
    assert status.problems == ["job j2: the application has failed: driver container failed with ExitCode: 1"]
    assert status.reason == status.problems[0] and status.failed_jobs == [ref("j2")]
    assert [each for each in told(world, "s") if each.startswith("Failed: Scheduling s has failed: job j2")]
    comes(world, "BatchJob", "j1", "ReadyState")
    comes(world, "BatchJob", "j2", "ReadyState")
    assert world.app_of("j1") is None and world.app_of("j2") is None
    world.run(1_000)
    assert free(world) == [0, 1, 2, 3]
    settled(world)


def test_RA1_a_failed_scheduling_begins_anew_once_its_spec_is_edited():
    world = yard(j1=3, j2=3)
    world.fail("j1", 1_000)
    queue(world, "s", "j1 j2")
    comes(world, "Scheduling", "s", "FailedState")
    world.run(20_000)
    assert state_of(world, "Scheduling", "s") == "FailedState"
    queue(world, "s", "j2 j1")
    comes(world, "Scheduling", "s", "CompletedState")
    status = world.scheduling("s")
    assert (status.problems, status.failed_jobs, status.observed_generation) == ([], [], 2)


def test_RA1_with_continue_the_others_go_on():
    world = yard(j1=60, j2=5, j3=5)
    world.fail("j1", 1_000)
    queue(world, "s", "j1 j1 j2 j2 j3 j3", on="Continue")
    comes(world, "Scheduling", "s", "CompletedState")
    assert world.scheduling("s").failed_jobs == [ref("j1")]
    assert world.scheduling("s").reason.startswith("all jobs have ended; failed: j1")
    assert state_of(world, "BatchJob", "j1") == "FailedSubmissionState", "it is there to be looked at"
    world.delete("Scheduling", "s")
    comes(world, "BatchJob", "j1", "ReadyState")
    settled(world)


def test_RA1_RA6_retry_submits_again_after_a_growing_pause():
    world = yard(j1=5, j2=5)
    world.fail("j1", 1_000, 1_000)
    queue(world, "s", "j1 j2", on="Retry", retries=2, backoff="10s")
    comes(world, "Scheduling", "s", "CompletedState")
    events = world.job("j1").scheduled_events
    assert [each.successful for each in events] == [False, False, True]
    starts = [seconds(each.start) for each in events]
    assert 10 <= starts[1] - starts[0] < 15 and 20 <= starts[2] - starts[1] < 25
    assert len(world.job("j2").scheduled_events) == 1


def test_RA1_retries_end_and_then_it_fails():
    world = yard(j1=5)
    world.fail("j1", 100, 100, 100)
    queue(world, "s", "j1", on="Retry", retries=1, backoff="1s")
    comes(world, "Scheduling", "s", "FailedState")
    assert len(world.job("j1").scheduled_events) == 2
    comes(world, "BatchJob", "j1", "ReadyState")
    settled(world)


def test_RA1_a_job_that_cannot_be_submitted_fails_its_scheduling():
    world = yard(j1=5)
    world.fail("j1", -1)
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "FailedState")
    assert "no such image" in world.scheduling("s").problems[0]


@pytest.mark.parametrize("when", ["InQueueState", "SubmittedState", "RunningState", "CompletedState"])
def test_a_job_that_is_deleted_is_a_failure_unless_it_has_completed(when: str):
    world = yard(j1=20, j2=3)
    queue(world, "s", "j1 j1 j1 j1 j2" if when == "InQueueState" else "j1 j2", on="Continue")
    job = "j2" if when in ("InQueueState", "CompletedState") else "j1"
    until(world, lambda: state_of(world, "BatchJob", job) == when, step=1)
    world.run(20)
    world.delete("BatchJob", job)
    comes(world, "Scheduling", "s", "CompletedState")
    assert world.scheduling("s").failed_jobs == ([] if when == "CompletedState" else [ref(job)])
    world.run(1_000)
    assert free(world) == [0, 1, 2, 3]
    settled(world)


def test_a_job_that_is_deleted_fails_the_scheduling_by_default():
    world = yard(j1=20, j2=20)
    queue(world, "s", "j1 j2")
    comes(world, "BatchJob", "j1", "RunningState")
    world.delete("BatchJob", "j1")
    comes(world, "Scheduling", "s", "FailedState")
    assert world.scheduling("s").problems == ["job j1: it was deleted"]
    comes(world, "BatchJob", "j2", "ReadyState")


def test_a_job_that_can_never_run_fails_who_wants_it():
    world = yard()
    world.put({"kind": "BatchJob", "metadata": {"name": "empty"}, "spec": {}})
    queue(world, "s", "j1 empty")
    comes(world, "Scheduling", "s", "FailedState")
    assert "job empty: it cannot run: " in world.scheduling("s").problems[0]
    assert world.job("j1").active_scheduling is None


# -- waiting for too long --------------------------------------------------------------------------------


def test_RA1_max_wait_for_claims():
    world = yard(j1=300)
    queue(world, "a", "j1")
    queue(world, "b", "j1", wait="30s")
    begun = world.now
    comes(world, "Scheduling", "b", "FailedState")
    assert 30_000 <= world.now - begun <= 32_000
    (problem,) = world.scheduling("b").problems
    assert problem.startswith("it has waited in AcquireState for 30s, longer than it may: job j1 is claimed")


def test_RA1_max_wait_for_slots_and_for_pods():
    world = yard(j1=300)
    queue(world, "a", "j1 j1 j1")
    world.stall("j3")
    queue(world, "b", "j2 j2", wait="30s")
    queue(world, "c", "j3", wait="40s")
    comes(world, "Scheduling", "b", "FailedState")
    assert "it has waited in SubmissionState for 30s" in world.scheduling("b").problems[0]
    comes(world, "Scheduling", "c", "FailedState")
    assert "it has waited in ConfirmationState for 40s" in world.scheduling("c").problems[0]
    comes(world, "BatchJob", "j3", "ReadyState")
    assert state_of(world, "BatchJob", "j1") == "RunningState"
    settled(world)


def test_without_max_wait_a_slow_driver_fails_nothing():
    """ESI's two minutes are not ours."""
    world = yard(j1=5)
    world.stall("j1")
    queue(world, "s", "j1")
    world.run(600_000)
    assert state_of(world, "Scheduling", "s") == "ConfirmationState"
    assert world.scheduling("s").reason == "waits until the pods of j1 are in their slots"


def test_RA1_max_wait_of_a_completed_one_releases_its_claims():
    world = yard(j1=5)
    queue(world, "s", "j1", wait="1m")
    comes(world, "Scheduling", "s", "CompletedState")
    comes(world, "Scheduling", "s", "FinishedState")
    comes(world, "BatchJob", "j1", "ReadyState")
    settled(world)


def test_a_long_run_is_no_wait():
    world = yard(j1=300)
    queue(world, "s", "j1", wait="30s", release=True)
    comes(world, "Scheduling", "s", "FinishedState", 400_000)


# -- edits ---------------------------------------------------------------------------------------------


def test_RA6_a_job_that_is_appended_runs_and_the_others_go_on():
    world = yard(j1=30, j2=5)
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "AwaitingCompletionState")
    queue(world, "s", "j1 j2")
    comes(world, "BatchJob", "j2", "CompletedState")
    assert len(world.job("j1").scheduled_events) == 1 and not world.job("j1").scheduled_events[0].stop
    comes(world, "Scheduling", "s", "CompletedState")


def test_RA6_a_completed_one_can_be_given_more():
    world = yard(j1=3, j2=3)
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "CompletedState")
    queue(world, "s", "j1 j2")
    until(world, lambda: state_of(world, "BatchJob", "j2") == "CompletedState")
    comes(world, "Scheduling", "s", "CompletedState")
    assert len(world.job("j1").scheduled_events) == 1


def test_RA6_RA10_a_job_taken_out_runs_to_its_end_and_one_that_waits_is_let_go():
    world = yard(j1=20, j2=5, j3=5)
    queue(world, "s", "j1 j1 j1 j2 j2 j3 j3", release=True)
    comes(world, "BatchJob", "j1", "RunningState")
    queue(world, "s", "j3 j3", release=True)
    world.run(2_000)
    assert state_of(world, "BatchJob", "j1") == "RunningState", "an edit evicts nobody"
    assert state_of(world, "BatchJob", "j2") == "ReadyState"
    comes(world, "Scheduling", "s", "FinishedState")
    assert world.job("j1").scheduled_events[0].successful
    world.run(1_000)
    settled(world)


def test_RA6_waiting_jobs_can_be_reordered():
    world = yard(j1=10, j2=5, j3=5)
    queue(world, "s", "j1 j1 j1 j2 j2 j2 j3 j3 j3")
    comes(world, "BatchJob", "j1", "RunningState")
    queue(world, "s", "j1 j1 j1 j3 j3 j3 j2 j2 j2")
    comes(world, "BatchJob", "j3", "RunningState")
    assert state_of(world, "BatchJob", "j2") == "InQueueState"


def test_RA10_an_edit_that_cannot_be_read_evicts_nobody():
    world = yard(j1=20)
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.edit("Scheduling", "s", {"spec": {"queueBased": None}})
    world.run(2_000)
    assert state_of(world, "BatchJob", "j1") == "RunningState"
    comes(world, "Scheduling", "s", "FailedState")
    assert world.job("j1").scheduled_events[0].successful
    assert "queueBased" in world.scheduling("s").problems[0]
    queue(world, "s", "j1", release=True)
    comes(world, "Scheduling", "s", "FinishedState")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"testbed": {"namespace": "default", "name": "tb"}}, "queueBased"),
        (
            {
                "testbed": {"namespace": "default", "name": "tb"},
                "queueBased": [{"namespace": "other", "name": "j1"}],
            },
            "other/j1 is in another namespace",
        ),
        (
            {
                "testbed": {"namespace": "default", "name": "tb"},
                "queueBased": [{"namespace": "default", "name": "j1"}],
                "fairlead": {"maxWait": "soon"},
            },
            "maxWait",
        ),
        (
            {
                "testbed": {"namespace": "default", "name": "tb"},
                "slotBased": {
                    "mode": "strict",
                    "jobs": [
                        {"name": {"namespace": "default", "name": "j1"}, "slotIds": [n]} for n in (0, 1)
                    ],
                },
            },
            "write each job once",
        ),
    ],
)
def test_a_spec_that_cannot_be_used_fails_and_says_what_is_wrong(spec: dict[str, object], said: str):
    world = yard()
    world.put({"kind": "Scheduling", "metadata": {"name": "s"}, "spec": spec})
    comes(world, "Scheduling", "s", "FailedState")
    assert said in world.scheduling("s").problems[0], world.scheduling("s").problems


# -- the rest ------------------------------------------------------------------------------------------


def test_every_state_has_a_way_out():
    ways = {state: {step.to for step in steps} for state, steps in MACHINE.items()}
    assert set(ways) == set(SchedulingState)
    assert [state for state, ends in ways.items() if not ends - {state}] == [SchedulingState.FINISHED]


def test_what_has_finished_is_over_for_good_and_says_so():
    """As in ESI: its deletion is the way out, also for who posts its name again."""
    world = yard(j1=3)
    queue(world, "s", "j1", release=True)
    comes(world, "Scheduling", "s", "FinishedState")
    queue(world, "s", "j1 j2", release=True)
    world.run(60_000)
    assert state_of(world, "Scheduling", "s") == "FinishedState"
    assert world.scheduling("s").reason.endswith("delete it to use its name again")
    world.delete("Scheduling", "s")
    queue(world, "s", "j1 j2", release=True)
    comes(world, "Scheduling", "s", "FinishedState")
    assert len(world.job("j1").scheduled_events) == 2 and len(world.job("j2").scheduled_events) == 1


def test_nothing_moves_where_nothing_changes():
    world = yard(j1=500)
    queue(world, "s", "j1")
    comes(world, "Scheduling", "s", "AwaitingCompletionState")
    world.run(10_000)
    before = len(world.log)
    world.run(100_000)
    assert world.log[before:] == []


def test_an_empty_queue_completes():
    world = yard()
    queue(world, "s", "", release=True)
    comes(world, "Scheduling", "s", "FinishedState")


def test_one_event_for_all_jobs_that_come_to_a_stage_together():
    names = " ".join(f"j{n}" for n in range(8))
    world = yard(nodes=4, jobs=names, **dict.fromkeys(names.split(), 3))
    queue(world, "s", names, release=True)
    comes(world, "Scheduling", "s", "FinishedState")
    changes = [each for each in told(world, "s") if each.startswith("StateChange: InQueue")]
    assert changes == ["StateChange: InQueue: " + names.replace(" ", ", ")]
    assert len(told(world, "s")) < 20


@pytest.mark.parametrize("state", list(SchedulingState))
def test_a_restart_in_any_state_leads_to_the_same_end(state: SchedulingState):
    world = yard(j1=5, j2=5)
    queue(world, "s", "j1 j1 j1 j2 j2 j2", release=True)
    end = world.now + 60_000
    while world.now < end and state_of(world, "Scheduling", "s") != state:
        world.run(1)
        if state_of(world, "Scheduling", "s") == "FinishedState":
            break
    world.crash()
    world.run(5_000)
    world.start()
    comes(world, "Scheduling", "s", "FinishedState")
    comes(world, "BatchJob", "j2", "ReadyState")
    assert [len(world.job(name).scheduled_events) for name in ("j1", "j2")] == [1, 1]
    invariants(world)
    world.run(1_000)
    settled(world)
