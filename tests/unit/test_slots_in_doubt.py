"""A process that starts does not know which slot a bind names that is on its way: it gives that to nobody."""

import pytest

from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.esi import SLOT
from fairlead.model.pod import PodPhase
from fairlead.sim.esi_world import EsiWorld
from fairlead.sim.faults import Faults
from slotted import slot, slotted, states, words, world

BOTH = "n0/0,n0/1"
AN_HOUR = 3_600_000


class Lost(Faults):
    """While `on`, nothing is known of what became of a bind, and nothing became of it."""

    on = False

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        return ev.BindError.UNKNOWN if self.on else None


def one_node(faults: Faults | None = None) -> EsiWorld:
    """`p` runs in n0/0, so that who comes next gets n0/1."""
    made = world({"n0": "0"}, faults=faults)
    made.pod(slotted("p", slots="n0/0"), AN_HOUR)
    made.run(1_000)
    return made


def until_sent(made: EsiWorld, pod: str) -> None:
    """Until its bind has been sent, and not arrived."""
    for _ in range(1_000):
        if any(isinstance(each, cmd.Bind) and each.pod == pod for _, each in made.log):
            return
        made.run(1)
    raise AssertionError(states(made))


def said(made: EsiWorld, *pods: str) -> dict[str, str]:
    """The slots that they say they have; the table must say the same."""
    found = {name: made.pods[name].annotations.get(SLOT, "") for name in pods}
    assert {slot(made, key).pod: key for key in found.values()} == found
    return found


@pytest.mark.parametrize("late", [0, 20, 2_000, 9_000])
def test_a_slot_that_a_bind_on_its_way_may_name_is_nobody_elses(late: int):
    """x is on its way to n0/1. Whoever starts now sees it meant for the node, and n0/0 is free by then."""
    made = one_node()
    made.pod(slotted("x", slots=BOTH), AN_HOUR)
    until_sent(made, "x")
    made.change("p", phase=PodPhase.SUCCEEDED)
    made.pod(slotted("w", slots=BOTH), AN_HOUR)
    made.take_over(late)
    made.run(60_000)
    assert said(made, "x", "w") == {"x": "n0/1", "w": "n0/0"}
    assert made.engine.state.esi.guessed == {}


def test_who_waits_for_such_a_slot_is_told_so():
    made = one_node()
    made.pod(slotted("x", slots=BOTH), AN_HOUR)
    until_sent(made, "x")
    made.change("p", phase=PodPhase.SUCCEEDED)
    made.pod(slotted("w", slots=BOTH), AN_HOUR)
    made.take_over(9_000)
    made.run(1_000)
    assert "may be pod default/x's: a request that was sent before" in words(made, "w")


def test_a_bind_that_never_arrives_is_sent_again_and_then_the_other_slot_is_free():
    faults = Lost()
    made = one_node(faults)
    faults.on = True
    made.pod(slotted("x", slots=BOTH), AN_HOUR)
    until_sent(made, "x")
    made.run(2)
    made.crash()
    made.change("p", phase=PodPhase.SUCCEEDED)
    made.pod(slotted("w", slots=BOTH), AN_HOUR)
    faults.on = False
    made.start()
    made.run(60_000)
    assert said(made, "x", "w") == {"x": "n0/0", "w": "n0/1"}


def test_all_find_a_slot_again_that_had_one():
    """x may use both and had n0/1, y may use n0/0 only; neither has arrived. x must not take the one of y."""
    faults = Lost()
    made = one_node(faults)
    faults.on = True
    made.pod(slotted("x", slots=BOTH), AN_HOUR)
    until_sent(made, "x")
    made.change("p", phase=PodPhase.SUCCEEDED)
    made.pod(slotted("y", slots="n0/0"), AN_HOUR)
    until_sent(made, "y")
    made.run(2)
    assert not made.pods["x"].node and not made.pods["y"].node
    made.crash()
    faults.on = False
    made.start()
    made.run(60_000)
    assert said(made, "x", "y") == {"x": "n0/1", "y": "n0/0"}
    assert states(made) == {"n0/0": "OCCUPIED y", "n0/1": "OCCUPIED x"}
