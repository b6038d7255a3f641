"""Plans from outside: each start is verified by itself, each refusal says why, nobody else is concerned."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.control.esi.placing import PAUSE
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.core.state import State
from fairlead.core.story import explain
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Reason
from fairlead.model.node import Taint
from fairlead.model.plan import Placement, Plan, Start, Wait
from fairlead.model.pod import PodPhase, Shape
from fairlead.model.record import Change
from fairlead.model.rules import PodTerm, Rules
from fairlead.model.selector import Expression, Operator
from fairlead.runtime.checkpoint import Restored
from fairlead.runtime.decisions import Decisions
from fairlead.runtime.inbox import Queue
from fairlead.runtime.planner import Planner
from fairlead.runtime.replay import Replay, Replayer
from fairlead.runtime.segments import Decoder, Encoder
from fairlead.runtime.shared import Shared
from fairlead.sim.esi_world import EsiWorld
from slotted import LABEL, bed_of, free, ghost, group, plain, requests, slotted, states, words, world

HOST = "kubernetes.io/hostname"


class Held(EsiWorld):
    """A world in which nothing that is submitted enters by itself."""

    submitted: list[Plan]
    holding = True

    def _perform(self, command: cmd.Command) -> None:
        if isinstance(command, cmd.Submit) and self.holding:
            self.submitted.append(command.plan)
        else:
            super()._perform(command)


def held(nodes: dict[str, str] | None = None, slots: int = 2) -> Held:
    """Two nodes with two slots each; pod `a` may use n0/0, `b` may use n1/0, `c` waits for n0/0."""
    made = Held()
    made.submitted = []
    for name, value in (nodes or {"n0": "0", "n1": "1"}).items():
        made.node(name, {LABEL: value})
    made.put(bed_of(slots=slots))
    made.run(100)
    for name, ids in (("a", "0"), ("b", "1"), ("c", "0")):
        made.pod(slotted(name, ids=ids))
    made.run(100)
    return made


def start(pod: str, node: str, of: str = "") -> Start:
    return Start(f"pod:{of or pod}#0", (Placement(pod, node),))


def propose(made: EsiWorld, *decisions: Start | Wait, name: str = "theirs-1") -> list[cmd.Command]:
    """What the engine answers to the plan of an outside scheduler."""
    plan = Plan(name, 0, made.now, "theirs", decisions)
    commands = made.engine.learn([ev.Tick(made.now), ev.PlanProposed(plan)])
    assert check(made.engine.state) == []
    made.perform(commands)
    return commands


def granted(commands: list[cmd.Command]) -> list[tuple[str, str]]:
    plans = [each for each in commands if isinstance(each, cmd.RecordAllocations)]
    return [(place.pod, place.node) for each in plans for grant in each.grants for place in grant.placements]


def others(state: State, pod: str) -> object:
    """All that a refused start of this pod must leave as it is."""
    return (
        {uid: intent.node for uid, intent in state.intents.items()},
        {uid: place for uid, place in state.esi.places.items() if uid != pod},
        dict(state.inventory.held),
        {gid: each.phase for gid, each in state.groups.items()},
        dict(state.esi.status),
        dict(state.pods),
    )


# -- what holds --------------------------------------------------------------------------------------


def test_a_plan_from_outside_starts_a_pod_in_its_slot_and_it_is_bound_when_that_is_durable() -> None:
    made = held()
    assert granted(propose(made, start("a", "n0"))) == [("a", "n0")]
    assert [each for _, each in made.log if isinstance(each, cmd.Bind)] == []
    assert states(made)["n0/0"] == "RESERVED a"
    made.run(1_000)
    assert made.pods["a"].node == "n0" and states(made)["n0/0"] == "OCCUPIED a"


def test_each_start_is_judged_by_itself() -> None:
    made = held()
    commands = propose(made, start("a", "n9"), start("b", "n1"), start("c", "n0"), start("none", "n0"))
    assert granted(commands) == [("b", "n1")]
    refused = made.engine.state.esi.refused
    assert list(refused) == ["a", "c"]
    assert made.engine.last_stale.startswith("pod:a#0: there is no node n9; pod c has no slot:")


def test_two_starts_of_one_plan_share_what_a_node_has_beside_its_slots() -> None:
    made = EsiWorld()
    made.node("n0", {LABEL: "0"}, cpu="1210m")
    made.put(bed_of())
    made.run(100)
    for number in range(2):
        made.pod(slotted(f"p{number}", ids=str(number), asks=requests(606)))
    made.run(1_000)
    assert [made.pods[f"p{number}"].node for number in range(2)] == ["n0", ""]
    assert free(made, "n0") == 1210 - 606 - 600
    made.pod_gone("p0")
    made.run(10_000)
    assert made.pods["p1"].node == "n0"


# -- what is refused ---------------------------------------------------------------------------------


def closed(made: EsiWorld) -> None:
    made.node(structs.replace(made.nodes["n0"], taints=(Taint("mine", "", "NoSchedule"),)))


def foreigner(made: EsiWorld) -> None:
    made.pod(plain("x", 1_500, scheduler="stock", node="n0", phase=PodPhase.RUNNING))


def bound(made: EsiWorld) -> None:
    made.change("a", node="n0", phase=PodPhase.RUNNING)


def nothing(_: EsiWorld) -> None:
    pass


@pytest.mark.parametrize(
    ("before", "asked", "said"),
    [
        (nothing, start("a", "n9"), "pod:a#0: there is no node n9"),
        (nothing, start("a", "n1"), "the slot of pod a is n0/0, not on n1"),
        (nothing, start("c", "n0"), "pod c has no slot: no slot it may use is free: n0/0 of testbed tb"),
        (nothing, start("zz", "n0"), "there is no group pod:zz#0"),
        (nothing, start("b", "n0", of="a"), "pod:a#0 has no pod b"),
        (nothing, Start("pod:a#0", ()), "pod:a#0 does not ask for this (it is queued: waits for slot n0/0"),
        (
            nothing,
            Start("pod:a#0", (Placement("a", "n0"), Placement("a", "n0"))),
            "pod:a#0 does not ask for this",
        ),
        (nothing, Wait("pod:a#0", Reason()), "pod:a#0: only starts are taken from outside"),
        (bound, start("a", "n0"), "pod:a#0: pod a is on n0 already"),
        (
            closed,
            start("a", "n0"),
            "pod a has no slot: it may not use slot n0/0 of testbed tb: node n0",
        ),
        (foreigner, start("a", "n0"), "pod a has no slot: no slot it may use is free: n0/0"),
    ],
)
def test_an_outside_start_that_does_not_hold_changes_nothing_and_is_told_why(
    before: Callable[[EsiWorld], None], asked: Start | Wait, said: str
) -> None:
    made = held()
    before(made)
    made.run(0)
    state = made.engine.state
    known = others(state, "a")
    assert granted(propose(made, asked)) == []
    assert made.engine.last_stale.startswith(said)
    assert others(state, "a") == known


def test_a_plan_that_is_posted_twice_starts_nobody_twice() -> None:
    made = held()
    assert granted(propose(made, start("a", "n0"))) == [("a", "n0")]
    known = others(made.engine.state, "a")
    assert granted(propose(made, start("a", "n0"), start("b", "n1"))) == []
    assert made.engine.last_stale.startswith("pod:a#0: there is a plan theirs-1 already")
    assert granted(propose(made, start("a", "n0"), name="theirs-2")) == []
    assert made.engine.last_stale == "pod:a#0: pod a is being started already"
    assert others(made.engine.state, "a") == known
    made.run(1_000)
    assert len([each for _, each in made.log if isinstance(each, cmd.Bind)]) == 1


def test_a_start_in_a_slot_in_which_a_ghost_pod_still_is_waits_for_its_end() -> None:
    made = held()
    made.pod(ghost("n0", 0))
    made.run(0)
    assert granted(propose(made, start("a", "n0"))) == []
    assert made.engine.last_stale == "a ghost pod is still in slot n0/0"


def test_other_pods_may_keep_one_off_its_slot_and_it_is_said_which() -> None:
    made = world({"n0": "0"})
    apart = Rules(anti_affinity=(PodTerm(HOST, (Expression("app", Operator.IN, ("db",)),)),))
    made.pod(plain("db", 100, scheduler="x", node="n0", phase=PodPhase.RUNNING, labels={"app": "db"}))
    made.pod(structs.replace(slotted("a", ids="0"), shape=Shape(requests(), rules=apart)))
    made.run(1_000)
    assert not made.pods["a"].node
    assert "anti-affinity" in made.engine.state.esi.refused["a"]
    made.pod_gone("db")
    made.run(1_000)
    assert made.pods["a"].node == "n0" and not made.engine.state.esi.refused


def test_a_refusal_is_what_people_read_until_the_start_is_granted() -> None:
    made = held()
    propose(made, start("a", "n1"))
    state = made.engine.state
    assert words(made, "a") == (
        "waits for slot n0/0 of testbed tb; its start was refused: the slot of pod a is n0/0, not on n1"
    )
    assert explain(state, group(state, "a"), made.now).group.text == words(made, "a")
    propose(made, start("a", "n0"), name="theirs-2")
    assert not state.esi.refused and group(state, "a").phase is Phase.STARTING


def test_groups_that_our_own_plans_start_may_be_started_from_outside_where_they_fit() -> None:
    made = held()
    made.planner = lambda snapshot: ev.PlanProposed(Plan("late", snapshot.version, 0, "fairlead", ()))
    made.pod(plain("fits", 800))
    made.pod(plain("big", 900))
    made.run(0)
    assert granted(propose(made, start("big", "n0"), start("fits", "n0"))) == [("fits", "n0")]
    assert made.engine.last_stale == "pod:big#0 no longer fits"


# -- what Fairlead submits itself --------------------------------------------------------------------


def test_what_can_start_is_submitted_once_as_one_plan() -> None:
    made = held()
    (plan,) = made.submitted
    assert (plan.version, plan.source) == (0, "esi")
    assert [each.group for each in plan.decisions] == ["pod:a#0", "pod:b#0"]
    made.run(PAUSE // 2)
    assert len(made.submitted) == 1


def test_a_start_that_came_to_nothing_is_submitted_again_after_a_while() -> None:
    made = held()
    made.run(PAUSE)
    assert [len(plan.decisions) for plan in made.submitted] == [2, 2]
    assert made.submitted[0].id != made.submitted[1].id


def test_a_start_is_submitted_again_as_soon_as_something_changes_on_its_node() -> None:
    made = held()
    made.pod(plain("x", 100, scheduler="x", node="n1", phase=PodPhase.RUNNING))
    made.run(10)
    assert [[each.group for each in plan.decisions] for plan in made.submitted[1:]] == [["pod:b#0"]]


def test_nothing_is_submitted_while_the_store_does_not_answer() -> None:
    made = held()
    made.store_down()
    made.pod_gone("a")
    made.run(2 * PAUSE)
    assert len(made.submitted) == 1
    made.store_up()
    made.run(100)
    assert sorted(each.group for plan in made.submitted[1:] for each in plan.decisions) == [
        "pod:b#0", "pod:c#0",
    ]  # fmt: skip


# -- what is recorded, and the live port -------------------------------------------------------------


def test_submitted_plans_are_recorded_whole_and_a_replay_comes_to_the_same_slots() -> None:
    made = world()
    for number in range(6):
        made.pod(slotted(f"p{number}", ids="0_1_2_3"), run_time=2_000)
    made.pod(plain("ordinary", 300))
    made.run(20_000)
    encoder, decoder = Encoder(), Decoder(Shared())
    for batch in made.batches:
        encoder.add(batch)
    chunk = encoder.cut()
    assert chunk is not None
    decoder.know(chunk.specs)
    found, engine = Replay(), Engine(made.settings, RECONCILERS)
    replayer = Replayer(found, Restored(engine, {}), exact=True)
    for number, batch in enumerate(decoder.batches(chunk.packed())):
        replayer.batch(batch, str(number))
    replayer.close()
    submitted = [each for _, each in made.log if isinstance(each, cmd.Submit)]
    assert (found.outside, found.wrong, found.unanswered) == (len(submitted), 0, 0)
    assert engine.state.inventory.held == made.engine.state.inventory.held
    assert {uid: pod.node for uid, pod in engine.state.pods.items()} == {
        uid: pod.node for uid, pod in made.pods.items()
    }


async def test_the_live_planner_lets_a_submitted_plan_enter_at_once() -> None:
    inbox, planner = Queue(), Planner()
    plan = Plan("esi-1-1", 0, 1, "esi", ())
    running = asyncio.create_task(planner.run(inbox))
    await asyncio.sleep(0)
    planner.perform([cmd.Submit(plan)])
    assert await inbox.take() == [ev.PlanProposed(plan)]
    running.cancel()


def test_a_refused_plan_is_a_row_of_the_ledger_that_says_why() -> None:
    made = held()
    rows: list[Change] = []
    decisions = Decisions(
        "fairlead", lambda part: rows.extend(part.changes) or True, lambda: made.engine.last_stale
    )
    plan = Plan("theirs-1", 0, made.now, "theirs", (start("a", "n1"), start("b", "n1")))
    events = [ev.Tick(made.now), ev.PlanProposed(plan)]
    decisions.batch(events, made.engine.learn(events), 0.0)
    (row,) = [row for row in rows if row.object == "Plan"]
    assert row.reason == "the slot of pod a is n0/0, not on n1"
    assert row.extra is not None and (row.extra["source"], row.extra["granted"]) == ("theirs", 1)
