"""External schedulers, looked at by somebody who wants them to fail: what was found, each as a test."""

import pytest

from esi_yard import comes, picture, slots, yard


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
