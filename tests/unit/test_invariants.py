"""Every invariant, broken by hand, and how it is named; a state and a store that differ, and how that is."""

from collections.abc import Callable

import pytest
from msgspec import structs

from fairlead.core.invariants import agree, check
from fairlead.core.live import Intent
from fairlead.core.state import IDLE, State
from fairlead.model.group import Phase, Reason
from fairlead.model.node import Node
from fairlead.model.plan import Reserve
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings
from fairlead.sim.faults import Faults
from fairlead.sim.world import World

ONE = (("cpu", 1000), ("pods", 1))
RUNS, WAITS, STARTS = "label:default/runs#0", "pod:w#0", "label:default/starts#0"


def pod(uid: str, cpu: int = 1, group: str = "", size: int = 1) -> Pod:
    labels = {"fairlead.dev/group": group, "fairlead.dev/group-size": str(size)} if group else {}
    return Pod(uid, "default", uid, 0, Shape((("cpu", cpu * 1000), ("pods", 1))), "fairlead", labels=labels)


class Slow(Faults):
    """The store takes a minute for what comes late."""

    late = False

    def store_delay(self) -> int:
        return 60_000 if self.late else 0


def world() -> World:
    """A group of two that runs, one that is being started, and a pod that waits for more than there is."""
    faults = Slow()
    made = World(Settings(pace=0), faults)
    made.node(Node("u0", "n0", 0, (("cpu", 8000), ("pods", 20))))
    for uid in ("a", "b"):
        made.pod(pod(uid, group="runs", size=2))
    made.run(1_000)
    faults.late = True
    for uid in ("s", "t"):
        made.pod(pod(uid, group="starts", size=2))
    made.run(100)
    faults.late = False
    made.pod(pod("w", cpu=6))
    made.run(100)
    state = made.engine.state
    assert state.groups[RUNS].phase is Phase.RUNNING
    assert state.groups[STARTS].phase is Phase.STARTING
    assert state.groups[WAITS].phase is Phase.QUEUED
    assert check(state) == []
    return made


def hold_too_much(state: State) -> None:
    state.inventory.free[0, 0] += 1


def hold_elsewhere(state: State) -> None:
    state.inventory.hold("a", "n7", ONE)


def hold_less(state: State) -> None:
    state.inventory.hold("a", "n0", (("pods", 1),))


def hold_nothing(state: State) -> None:
    state.inventory.release("a")


def intent_holds_nothing(state: State) -> None:
    state.inventory.release("s")


def intent_astray(state: State) -> None:
    state.intents["s"].grant = "another"


def intent_of_nobody(state: State) -> None:
    state.intents["s"].group = "gone"


def empty_grant(state: State) -> None:
    state.grants["g"] = {}


def early(state: State) -> None:
    state.intents["s"].durable = True


def bound_early(state: State) -> None:
    state.to_bind["s"] = None


def wrong_line(state: State) -> None:
    state.line.append(state.line[0])


def lost_from_line(state: State) -> None:
    state.line.clear()


def wrong_place(state: State) -> None:
    state.groups[WAITS].seq = 77


def wrong_counts(state: State) -> None:
    next(iter(state.wanted.values()))[1][0] += 1


def fresh(state: State) -> None:
    state.fresh["nobody"] = None


def promised_and_runs(state: State) -> None:
    state.promises[RUNS] = Reserve(RUNS, 5_000)


def promised_unknown(state: State) -> None:
    state.promises[WAITS] = Reserve(WAITS, 5_000)
    state.dirty, state.planning = False, IDLE


def asks_else(state: State) -> None:
    state.groups[WAITS].requests = ()


def unknown_member(state: State) -> None:
    state.groups[RUNS].pods["nobody"] = None


def two_masters(state: State) -> None:
    state.group_of["a"] = WAITS


def lost_key(state: State) -> None:
    del state.by_key[state.groups[RUNS].key]


def started_unnoted(state: State) -> None:
    del state.started[RUNS]


def rejected_noted(state: State) -> None:
    state.rejected[WAITS] = None


def no_reason(state: State) -> None:
    state.groups[WAITS].reason = Reason()


def same_place(state: State) -> None:
    state.groups[RUNS].seq = state.groups[STARTS].seq


def intended_and_bound(state: State) -> None:
    state.grants["g"] = {"a": None}
    state.intents["a"] = Intent("a", "n0", "g", RUNS)


def no_group(state: State) -> None:
    del state.groups[RUNS].pods["a"]
    del state.group_of["a"]


def lives_on(state: State) -> None:
    state.groups[RUNS].phase = Phase.ENDED
    del state.started[RUNS]


def half(state: State) -> None:
    for uid in ("s", "t"):
        state.drop_intent(uid)


def waits_half(state: State) -> None:
    state.groups[RUNS].phase = Phase.HELD
    del state.started[RUNS]


def idle(state: State) -> None:
    state.pods["a"] = structs.replace(state.pods["a"], node="")
    state.inventory.release("a")


@pytest.mark.parametrize(
    ("breaks", "named"),
    [
        (hold_too_much, "node n0 cpu: free"),
        (hold_elsewhere, "pod a holds 'n7' but should hold 'n0'"),
        (hold_less, "pod a holds (('pods', 1),) but asks for"),
        (hold_nothing, "pod a is on n0 but holds nothing"),
        (intent_holds_nothing, "pod s is on n0 but holds nothing"),
        (intent_astray, "intent of s is not in its grant another"),
        (intent_of_nobody, "intent of s belongs to no group (gone)"),
        (empty_grant, "grant g is open without an intent"),
        (early, "intent of s is durable although plan"),
        (bound_early, "pod s is to be bound without a durable intent"),
        (wrong_line, "the line is not in order"),
        (lost_from_line, "the line is not what waits"),
        (wrong_place, f"{WAITS} stands in line as"),
        (wrong_counts, "the counted wishes are not those of the line"),
        (fresh, "nobody is noted as fresh but does not wait"),
        (promised_and_runs, f"{RUNS} is promised a start but does not wait"),
        (promised_unknown, f"{WAITS} expects to start at 0 but is promised 5000"),
        (asks_else, f"{WAITS} asks for something else than what waits"),
        (unknown_member, f"pod nobody of {RUNS} is not known"),
        (two_masters, f"pod a of {RUNS} is noted as {WAITS}'s"),
        (lost_key, f"{RUNS} is not found by its key"),
        (started_unnoted, f"{RUNS} is running but is not noted as started"),
        (rejected_noted, f"{WAITS} is queued , which the rejected do not say"),
        (no_reason, f"{WAITS} is queued without a reason"),
        (same_place, "has place 2, as"),
        (intended_and_bound, "pod a is intended for n0 although it is on n0"),
        (no_group, "pod a belongs to no group"),
        (lives_on, f"pod a lives in {RUNS}, which has ended"),
        (half, f"{STARTS} is half started, without an intent and without recovery"),
        (waits_half, f"{RUNS} is held but has a, b on nodes"),
        (idle, f"pod a waits in {RUNS}, which asks for nothing"),
    ],
)
def test_a_broken_invariant_is_named(breaks: Callable[[State], None], named: str):
    state = world().engine.state
    breaks(state)
    assert any(named in each for each in check(state)), check(state)


def test_before_all_sources_are_in_nothing_is_said_of_groups():
    made = World()
    made.pod(pod("a"))
    made.engine.state.synced = False
    assert check(made.engine.state) == []


# -- state and store ---------------------------------------------------------------------------------


def test_a_store_that_has_what_the_state_has_agrees():
    made = world()
    made.run(300_000)
    assert agree(made.engine.state, made.grants.values(), made.groups) == []


def test_every_difference_between_state_and_store_is_named():
    made = world()
    state = made.engine.state
    assert f"grant {next(iter(state.grants))} is open but not in the store" in agree(state, (), made.groups)
    made.run(200_000)
    groups = dict(made.groups)
    del groups[RUNS]
    groups["x#0"] = structs.replace(made.groups[RUNS], id="x#0")
    groups[WAITS] = structs.replace(made.groups[WAITS], seq=9)
    wrong = agree(state, made.grants.values(), groups)
    assert f"{RUNS} is not in the store" in wrong
    assert "x#0 is running in the store and unknown" in wrong
    assert any(each.startswith(f"{WAITS} is (") for each in wrong)


def test_a_grant_for_another_node_or_for_nobody_is_named():
    made = world()
    while not made.grants:
        made.run(1)
    state = made.engine.state
    grant = made.grants[next(iter(state.grants))]
    other = structs.replace(grant, id="other")
    moved = structs.replace(grant, placements=tuple(p for p in grant.placements if p.pod != "s"))
    wrong = agree(state, (moved, other), made.groups)
    assert "grant other is open in the store alone" in wrong
    assert any(each.startswith("pod s is intended for n0, in the store for") for each in wrong)
