"""External schedulers, looked at by somebody who wants them to fail: what was found, each as a test."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from esi_yard import LABEL, comes, picture, queue, slots, spark, until, yard
from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.core.invariants import check
from fairlead.model import command as cmd
from fairlead.model.batchjob import BatchJob
from fairlead.model.esi import BATCH_JOB, Testbed
from fairlead.model.pod import Pod, Shape
from slotted import requests, slotted, words


@pytest.mark.parametrize("ids", [[], [0, 0]])
@pytest.mark.parametrize("mode", ["strict", "relaxed"])
def test_a_job_that_names_no_slot_or_one_twice_fails_its_scheduling_instead_of_keeping_claims(
    ids: list[int], mode: str
) -> None:
    world = yard()
    slots(world, "s", mode, {"j1": ids, "j2": [1]})
    comes(world, "Scheduling", "s", "FailedState")
    assert "slotIds of job j1: write each slot once, and at least one" in picture(world)["s"]
    comes(world, "BatchJob", "j2", "ReadyState")


def test_a_slot_that_is_assigned_to_a_job_is_given_to_no_pod_of_anybody_else() -> None:
    world = yard(jobs="j1", j1=5)
    queue(world, "s", "j1 j1")
    until(world, lambda: world.job("j1").places == ["n0/0", "n1/0"], step=1)
    assert not world.pods
    world.pod(slotted("thief", slots="n0/0", asks=requests(500)))
    world.pod(slotted("honest", slots="n0/1", asks=requests(500)))
    world.run(20)
    assert (world.pods["thief"].node, world.pods["honest"].node) == ("", "n0")
    assert words(world, "thief") == "slot n0/0 of testbed tb is assigned to BatchJob default/j1"
    comes(world, "BatchJob", "j1", "CompletedState")
    until(world, lambda: world.pods["thief"].node == "n0")


@pytest.mark.parametrize("how", ["Scheduling", "BatchJob"])
def test_a_slot_that_a_job_gives_back_unused_goes_to_who_waits_for_it(how: str) -> None:
    world = yard(jobs="j1")
    world.stall("j1")
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "SubmittedState")
    world.pod(slotted("other", slots="n0/0", asks=requests(500)))
    world.run(1_000)
    assert world.pods["other"].node == ""
    world.delete(how, "s" if how == "Scheduling" else "j1")
    until(world, lambda: world.pods["other"].node == "n0")
    world.run(1_000)
    assert not check(world.engine.state)


def test_who_waits_for_slots_of_nodes_that_are_closed_is_told_so() -> None:
    world = yard()
    for name in ("n0", "n1"):
        world.node(structs.replace(world.nodes[name], unschedulable=True))
    queue(world, "s", "j1")
    world.run(1_000)
    assert world.testbed("tb").state == "ERROR"
    assert world.scheduling("s").reason == (
        "job j1 needs 1 free slots, and 0 of 4 are free for it;"
        " slot 0 (n0/0) cannot be used: node n0 is cordoned"
    )


def test_a_job_whose_slot_is_lost_before_its_pods_come_says_so_until_it_is_back() -> None:
    world = yard(jobs="j1", j1=5)
    queue(world, "s", "j1")
    until(world, lambda: world.app_of("j1") is not None, step=1)
    world.label_node("n0", {LABEL: None})
    world.run(2_000)
    assert any("none of the slots that it may use exists" in text for text in world.job("j1").problems)
    written = len(world.log)
    world.run(9_000)
    assert not [each for _, each in world.log[written:] if isinstance(each, cmd.PatchObject)]
    world.label_node("n0", {LABEL: "0"})
    comes(world, "Scheduling", "s", "CompletedState")
    assert world.job("j1").problems == []


def test_an_application_that_the_cluster_does_not_let_go_is_a_condition_that_says_why() -> None:
    world = yard(jobs="j1", j1=1_000)
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.refusing["delete", "SparkApplication"] = (403, "forbidden")
    world.delete("Scheduling", "s")
    world.run(1_000)
    (condition,) = world.job("j1").conditions
    assert condition.error == "the SparkApplication j1 cannot be deleted: forbidden"
    del world.refusing["delete", "SparkApplication"]
    comes(world, "BatchJob", "j1", "ReadyState")


def test_a_pod_in_another_namespace_that_names_a_job_keeps_nothing_of_it() -> None:
    world = yard(jobs="j1", j1=1)
    uid = world.uid("BatchJob", "j1")
    stray = Pod(
        "stray", "elsewhere", "stray", 0, Shape(requests(100)), node="n0", annotations={BATCH_JOB: uid}
    )
    world.pod(stray)
    queue(world, "s", "j1", release=True)
    comes(world, "Scheduling", "s", "FinishedState")
    comes(world, "BatchJob", "j1", "ReadyState")


def test_a_job_whose_pods_live_on_says_which() -> None:
    world = yard(jobs="j1", j1=1)
    uid = world.uid("BatchJob", "j1")
    world.pod(
        Pod("last", "default", "last", 0, Shape(requests(100)), node="n0", annotations={BATCH_JOB: uid})
    )
    queue(world, "s", "j1", release=True)
    comes(world, "BatchJob", "j1", "PendingDeletion")
    world.run(1_000)
    (condition,) = world.job("j1").conditions
    assert condition.error == "pod last of its application has not ended yet"
    world.pod_gone("last")
    comes(world, "BatchJob", "j1", "ReadyState")


def test_refused_patches_leave_nothing_behind() -> None:
    world = yard(jobs="j1", j1=1)
    world.refusing["patch", "BatchJob"] = (409, "conflict")
    queue(world, "s", "j1")
    world.run(3_000)
    assert not world.engine.state.esi.failures
    del world.refusing["patch", "BatchJob"]
    comes(world, "Scheduling", "s", "CompletedState")


def test_a_mistake_of_ours_about_one_job_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    build = apps.build

    def trip(job: BatchJob, testbed: Testbed, chosen: Sequence[Slot]) -> dict[str, Any]:
        return build(job, testbed, chosen) if job.name != "j1" else {}["no such thing"]

    monkeypatch.setattr(apps, "build", trip)
    world = yard(jobs="j1 j2", j2=1)
    queue(world, "s", "j1")
    queue(world, "t", "j2")
    comes(world, "Scheduling", "t", "CompletedState")
    state = world.engine.state
    assert "KeyError" in state.poisoned["BatchJob default/j1"].text and state.poisonings == 1
    monkeypatch.undo()
    world.put(spark("j1", mainClass="Another"))
    comes(world, "Scheduling", "s", "CompletedState")
    assert not state.poisoned
