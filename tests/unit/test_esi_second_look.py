"""External schedulers, looked at by somebody who wants them to fail: what was found, each as a test."""

import pytest

from esi_yard import comes, picture, queue, slots, until, yard
from fairlead.core.invariants import check
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
