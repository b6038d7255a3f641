"""Claims of Schedulings: all jobs or none, first come first served, and whoever waits says for whom."""

from msgspec import structs

from esi_yard import (
    comes,
    invariants,
    options,
    queue,
    ref,
    settled,
    slots,
    state_of,
    states,
    told,
    until,
    yard,
)
from fairlead.model.esi import CLAIM_LABELS, CLAIMS
from fairlead.model.scheduling import Scheduling, SchedulingSpec
from fairlead.sim.esi_world import EsiWorld


def waits(world: EsiWorld, name: str, *words: str) -> None:
    """It is in AcquireState and says why."""
    status = world.scheduling(name)
    assert status.state == "AcquireState", status
    for word in words:
        assert word in status.reason, status.reason


def holder(world: EsiWorld, job: str) -> str:
    """Who has claimed the job, as its spec and its status say."""
    found = world.thing("BatchJob", job)
    assert found.spec.active_scheduling == found.status.active_scheduling
    return found.status.active_scheduling.name if found.status.active_scheduling else ""


def test_RA2_claims_are_atomic_and_of_two_schedulings_that_share_a_job_the_second_waits():
    """D3.3, and `SchedulingReconciler.acquire (all parts)` of ESI's own tests."""
    world = yard(j1=20, j2=20, j3=20)
    queue(world, "first", "j1 j2")
    comes(world, "BatchJob", "j1", "RunningState")
    queue(world, "second", "j2 j3")
    world.run(3_000)
    waits(world, "second", "job j2", "default/first")
    assert world.scheduling("second").position == 1
    assert [holder(world, job) for job in ("j1", "j2", "j3")] == ["first", "first", ""]
    assert state_of(world, "BatchJob", "j3") == "ReadyState", "its private job is left alone"
    assert state_of(world, "BatchJob", "j1") == "RunningState", "the first one is not disturbed"
    comes(world, "Scheduling", "first", "CompletedState")
    world.run(5_000)
    waits(world, "second", "default/first")
    assert holder(world, "j3") == ""
    world.delete("Scheduling", "first")
    comes(world, "Scheduling", "second", "CompletedState")
    assert [holder(world, job) for job in ("j1", "j2", "j3")] == ["", "second", "second"]
    settled(world)


def test_RA2_a_waiter_starts_once_claims_are_released_on_completion():
    world = yard(j1=5, j2=5, j3=5)
    queue(world, "first", "j1 j2", release=True)
    queue(world, "second", "j2 j3", release=True)
    comes(world, "Scheduling", "second", "FinishedState")
    assert state_of(world, "Scheduling", "first") == "FinishedState"
    assert [holder(world, job) for job in ("j1", "j2", "j3")] == ["", "", ""]
    world.run(1_000)
    settled(world)


def test_RA2_a_waiter_says_so_once_in_an_event_and_in_a_condition():
    world = yard(j1=60)
    queue(world, "first", "j1")
    queue(world, "second", "j1")
    world.run(30_000)
    events = [each for each in told(world, "second") if each.startswith("Queued")]
    assert events == [
        "Queued: Scheduling second waits, as number 1: job j1 is claimed by Scheduling default/first"
    ]
    (claims, testbed, queued) = world.scheduling("second").conditions
    assert (claims.condition, claims.value) == ("AWAIT_JOBS_ACQUIRED", False)
    assert "default/first" in claims.error
    assert (testbed.condition, testbed.value) == ("AWAIT_SLOTS_ACQUIRED", False)
    assert (queued.condition, queued.value) == ("AWAIT_JOBS_ENQUEUE", False)


def test_RA2_waiters_are_served_in_the_order_of_their_creation():
    world = yard(j1=5, j2=5, j3=5)
    for number in range(4):
        queue(world, f"s{number}", "j1 j2" if number % 2 else "j1", release=True)
        world.run(1_000)
    assert [world.scheduling(f"s{n}").position for n in range(4)] == [0, 1, 2, 3]
    until(world, lambda: state_of(world, "Scheduling", "s3") == "FinishedState")
    begun = [
        next(at for at, command in world.log if getattr(command, "note", "") == "InQueue: j1, j2"
             and command.regarding.name == f"s{n}") for n in (1, 3)
    ]  # fmt: skip
    assert begun == sorted(begun)
    assert [state_of(world, "Scheduling", f"s{n}") for n in range(4)] == ["FinishedState"] * 4


def test_RA2_a_later_one_does_not_overtake_for_a_shared_job_but_does_when_it_shares_none():
    world = yard(nodes=4, j1=20, j2=20, j3=5)
    queue(world, "first", "j1")
    world.run(1_000)
    queue(world, "second", "j1 j2")
    world.run(1_000)
    queue(world, "third", "j2")
    queue(world, "fourth", "j3", release=True)
    comes(world, "Scheduling", "fourth", "FinishedState")
    waits(world, "third", "job j2 is wanted by Scheduling default/second, which came before")
    assert world.scheduling("third").position == 2
    assert holder(world, "j2") == ""


def test_one_that_waits_for_what_no_release_brings_keeps_nobody_off():
    world = yard(j1=5)
    queue(world, "first", "j1 nowhere")
    world.run(500)
    waits(world, "first", "job nowhere does not exist")
    queue(world, "second", "j1", release=True)
    comes(world, "Scheduling", "second", "FinishedState")
    world.put(structs.replace(world.thing("BatchJob", "j1"), name="nowhere", uid=""))
    comes(world, "Scheduling", "first", "CompletedState")


def test_a_testbed_that_does_not_exist_is_waited_for():
    world = yard()
    queue(world, "first", "j1", tb="other")
    world.run(500)
    waits(world, "first", "Testbed default/other does not exist")
    assert holder(world, "j1") == ""


def test_an_exclusive_scheduling_has_its_testbed_alone():
    world = yard(nodes=4, j1=10, j2=10, j3=10)
    queue(world, "first", "j1", release=True)
    world.run(1_000)
    queue(world, "alone", "j2", release=True, alone=True)
    world.run(1_000)
    waits(world, "alone", "Testbed default/tb is used by Scheduling default/first")
    queue(world, "last", "j3", release=True)
    world.run(1_000)
    waits(world, "last", "is wanted by Scheduling default/alone, which came before")
    comes(world, "BatchJob", "j2", "RunningState")
    world.run(1_000)
    waits(world, "last", "which has it alone")
    comes(world, "Scheduling", "last", "FinishedState")


def test_the_testbed_names_who_uses_it():
    world = yard(j1=10, j2=20)
    queue(world, "first", "j1", release=True)
    world.run(1_000)
    queue(world, "second", "j2", release=True)
    world.run(2_000)
    found = world.thing("Testbed", "tb")
    assert [found.labels.get(key) for key in CLAIM_LABELS] == ["first", "default"]
    assert found.annotations[CLAIMS] == "default/first,default/second"
    comes(world, "Scheduling", "second", "FinishedState")
    world.run(1_000)
    found = world.thing("Testbed", "tb")
    assert not [key for key in CLAIM_LABELS if key in found.labels]
    assert CLAIMS not in found.annotations


def test_RA2_a_claim_that_a_crash_left_on_some_jobs_only_is_void_and_given_anew_in_order():
    world = yard(j1=5, j2=5)
    for name in ("first", "second"):
        spec = SchedulingSpec(ref("tb"), queue_based=[ref("j1"), ref("j2")], fairlead=options(release=True))
        world.put(Scheduling("", 0, "default", name, spec))
    world.crash()
    for job, claimant in (("j1", "first"), ("j2", "second")):  # as if each had got one
        uid = world.uid("Scheduling", claimant)
        status = {
            "state": "InQueueState",
            "activeScheduling": {"namespace": "default", "name": claimant},
            "claimedBy": uid,
        }
        world.edit("BatchJob", job, {"status": status}, sub="status")
        world.edit("Scheduling", claimant, {"status": {"state": "AcquireState"}}, sub="status")
    world.start()
    comes(world, "Scheduling", "first", "FinishedState")
    comes(world, "Scheduling", "second", "FinishedState")
    world.run(1_000)
    settled(world)


def test_a_claim_written_by_hand_is_put_right():
    world = yard(j1=20)
    queue(world, "first", "j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.edit("BatchJob", "j1", {"spec": {"activeScheduling": None}})
    world.edit("BatchJob", "j2", {"spec": {"activeScheduling": {"namespace": "default", "name": "first"}}})
    world.run(1_000)
    assert holder(world, "j1") == "first" and holder(world, "j2") == ""
    assert state_of(world, "BatchJob", "j1") == "RunningState"


def test_a_scheduling_made_anew_under_its_name_is_another_one():
    """The old one's completed job is no result of the new one's."""
    world = yard(j1=5)
    queue(world, "first", "j1")
    comes(world, "Scheduling", "first", "CompletedState")
    world.delete("Scheduling", "first")
    queue(world, "first", "j1")
    comes(world, "Scheduling", "first", "CompletedState")
    assert len(world.job("j1").scheduled_events) == 2
    assert states(world, "Scheduling", "first")[-4:] == [
        "AcquireState", "ConfirmationState", "AwaitingCompletionState", "CompletedState",
    ]  # fmt: skip


def test_RA1_claims_are_released_when_a_scheduling_is_deleted_in_whichever_state():
    for state in ("AcquireState", "ConfirmationState", "AwaitingCompletionState", "CompletedState"):
        world = yard(j1=5, j2=5, j3=5)
        if state == "AcquireState":
            queue(world, "blocker", "j2")
            world.run(500)
        queue(world, "first", "j1 j2")
        until(world, lambda world=world, state=state: state_of(world, "Scheduling", "first") == state, step=1)
        world.delete("Scheduling", "first")
        world.run(3_000)
        assert holder(world, "j1") == "", state
        assert world.app_of("j1") is None, state
        assert state_of(world, "BatchJob", "j1") == "ReadyState", state
        invariants(world)
        settled(world)


def test_RA2_many_schedulings_share_a_testbed_without_deadlock():
    """Philosophers: each wants two neighbouring jobs."""
    names = [f"p{n}" for n in range(5)]
    world = yard(nodes=5, jobs=" ".join(names), **dict.fromkeys(names, 3))
    for n in range(5):
        queue(world, f"s{n}", f"p{n} p{(n + 1) % 5}", release=True)
    until(world, lambda: all(state_of(world, "Scheduling", f"s{n}") == "FinishedState" for n in range(5)))
    assert all(len(world.job(name).scheduled_events) == 2 for name in names)


def test_slot_based_ones_claim_as_well():
    world = yard(j1=5)
    slots(world, "first", "strict", {"j1": [0], "j2": [1]})
    world.run(500)
    assert holder(world, "j1") == holder(world, "j2") == "first"
