"""A planner that is slow or has died loses nothing: a plan that does not come is made anew."""

import pytest
from asking_support import gang, node

from fairlead.core.cycle import plan_now
from fairlead.core.engine import PATIENCE
from fairlead.core.invariants import check
from fairlead.core.snapshot import Snapshot
from fairlead.model.event import PlanProposed
from fairlead.sim.world import World


class Late(World):
    """Its planner answers the first proposals as late as told, in milliseconds."""

    def __init__(self, *delays: int) -> None:
        self.delays = list(delays)
        self.asked: list[int] = []
        super().__init__(planner=self._answer)
        self.faults.plan_delay = lambda: self.delays.pop(0) if self.delays else 0  # type: ignore[method-assign]
        self.node(node("n0", cpu=2))
        self.run(100)

    def _answer(self, snapshot: Snapshot) -> PlanProposed:
        self.asked.append(self.now)
        return PlanProposed(plan_now(snapshot))


@pytest.mark.parametrize("late", [PATIENCE + 30_000, 10**9], ids=["slow", "dead"])
def test_a_plan_that_does_not_come_is_asked_for_again(late: int) -> None:
    world = Late(late)
    gang(world, "a", 1)
    world.run(PATIENCE + 10_000)
    assert not world.pods["a-0"].node  # nothing has happened that would let the engine look at the time
    gang(world, "b", 1)
    world.run(1_000)
    assert world.pods["a-0"].node and world.pods["b-0"].node
    world.run(PATIENCE)  # the late answer counts for nothing
    assert check(world.engine.state) == [] and len(world.engine.state.pods) == 2


def test_a_planner_that_is_always_slow_gets_more_and_more_time() -> None:
    slow = 3 * PATIENCE
    world = Late(*[slow] * 8)
    gang(world, "a", 1)
    for i in range(40):
        world.run(PATIENCE // 4)
        gang(world, f"late{i}", 1)
    world.run(10 * slow)
    assert world.pods["a-0"].node


def test_one_that_is_slow_but_in_time_is_waited_for() -> None:
    world = Late(PATIENCE - 5_000)
    gang(world, "a", 1)
    world.run(1_000)
    gang(world, "b", 1)
    world.run(PATIENCE)
    assert world.pods["a-0"].node and world.pods["b-0"].node
    assert len(world.asked) == 2
