"""What a second reading of the scheduling core has found: small worlds in which it went wrong."""

import pytest
from test_easy_world import MINUTE, Shift

from fairlead.model.event import PlanProposed
from fairlead.model.group import Phase
from fairlead.model.node import Node
from fairlead.model.plan import Placement, Plan, Start
from fairlead.model.settings import QueueSettings, Settings, single
from fairlead.sim.world import World


def _shift(*queues: QueueSettings, nodes: int = 2, down: int = 0) -> Shift:
    """A shift under these queues; the last `down` of its nodes are not ready."""
    shift = Shift(nodes=0)
    shift.world = World(Settings(queues=queues, pace=0))
    shift.begin = shift.world.now
    for i in range(nodes):
        amounts = (("cpu", 32), ("pods", 110))
        shift.world.node(Node(f"u{i}", f"n{i}", 0, amounts, ready=i < nodes - down))
    shift.world.run(0)
    return shift


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid", "conservative"])
def test_who_waits_for_missing_nodes_does_not_eat_the_queue_depth_of_those_that_come_later(policy: str):
    shift = _shift(*single(policy, looks=2), down=1)
    for name in ("w1", "w2", "w3"):
        shift.submit(name, 2, 10, cpu=32)
    shift.submit("fits", 1, 10, cpu=8)
    assert shift.group("fits").phase is Phase.RUNNING


def test_the_queue_depth_holds_also_for_those_that_come_later():
    shift = _shift(*single("hybrid", looks=2))
    shift.submit("running", 1, 60, cpu=32)
    for name in ("first", "second"):
        shift.submit(name, 2, 60, cpu=32)
    shift.submit("third", 1, 10, cpu=8)
    assert shift.group("third").phase is Phase.QUEUED


def test_a_plan_from_outside_does_not_open_a_queue_whose_head_waits():
    shift = _shift(*single("fcfs"))
    shift.submit("running", 1, 60, cpu=16)
    shift.submit("head", 2, 10, cpu=32)
    shift.submit("chosen", 1, 10, cpu=8)
    state = shift.world.engine.state
    start = Start(shift.group("chosen").id, (Placement("chosen-0", "n1"),))
    shift.world.tell(PlanProposed(Plan("outside-1", state.version, shift.world.now, "outside", (start,))))
    shift.world.run(MINUTE)
    shift.submit("late", 1, 10, cpu=8)
    assert shift.group("chosen").phase is Phase.RUNNING
    assert shift.group("late").phase is Phase.QUEUED
