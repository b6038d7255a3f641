"""Plans and large gangs by requirement: one plan at a time from a frozen view, one end for a thousand."""

from collections import Counter

import pytest
from msgspec import structs
from test_requirements_time import AHEAD, HOUR, MINUTE, granted, group, machine, of, submit

from fairlead.control import RECONCILERS
from fairlead.core.cycle import plan_now
from fairlead.core.engine import PATIENCE, Engine
from fairlead.core.invariants import check
from fairlead.core.snapshot import Snapshot
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.plan import Reserve, Start
from fairlead.model.pod import OwnerRef, PodPhase
from fairlead.model.settings import Settings, single
from fairlead.sim.world import Faults, World

# -- I16: one cycle after the other --------------------------------------------------------------------


class Slow(Faults):
    """Plans take half a second."""

    def plan_delay(self) -> int:
        return 500


def proposals(commands: list[cmd.Command]) -> list[Snapshot]:
    return [command.snapshot for command in commands if isinstance(command, cmd.Propose)]


def test_I16_a_plan_is_made_from_a_frozen_view():
    """Whatever is learnt while a plan is in the making, it is the same plan, and no second one is begun."""
    world = machine("easy", nodes=2)
    engine = world.engine
    submit(world, "base", 8, minutes=60)
    submit(world, "head", 8, minutes=30, members=2)
    submit(world, "short", 8, minutes=20)
    submit(world, "last", 8, minutes=20)
    pods = list(world.pods.values())
    (snapshot,) = proposals(engine.learn([ev.Tick(world.now + 1), *(ev.PodSeen(pod) for pod in pods)]))
    before = plan_now(snapshot)
    news: list[ev.Event] = [
        ev.NodeSeen(
            structs.replace(world.nodes["n1"], version=900, allocatable=(("cpu", 1000), ("pods", 1)))
        ),
        ev.NodeSeen(Node("u9", "n9", 901, (("cpu", 64_000), ("pods", 110)))),
        ev.PodGone("last-0", 902),
        ev.PodSeen(structs.replace(pods[0], uid="new-0", name="new-0", version=903, labels={}, priority=9)),
        ev.Tick(world.now + PATIENCE - 1000),
    ]
    for event in news:
        assert not proposals(engine.learn([event]))
    assert plan_now(snapshot) == before
    assert [type(decision) for decision in before.decisions] == [Start, Reserve, Start]
    names = [decision.group for decision in before.decisions]
    assert names == [f"label:d/{name}#0" for name in ("base", "head", "short")]
    assert not engine.state.intents and not engine.state.promises
    answers = engine.learn([ev.PlanProposed(before)])
    assert len(proposals(answers)) == 1
    assert proposals(answers)[0].waiting[0].group == "pod:new-0#0"


@pytest.mark.parametrize("policy", AHEAD)
def test_I16_promises_are_laid_by_the_plan_and_by_nothing_else(policy: str):
    """Until the plan is in there are none of it, and none of who was gone meanwhile."""
    world = machine(policy, faults=Slow())
    submit(world, "base", 8, minutes=60)
    world.run(2_000)
    submit(world, "head", 8, minutes=30)
    world.run(400)
    assert (world.reservations, world.engine.state.promises) == ((), {})
    world.pod_gone("head-0")
    submit(world, "next", 8, minutes=30)
    world.run(5_000)
    assert [promise.group for promise in world.reservations] == ["label:d/next#0"]
    assert list(world.engine.state.promises) == ["label:d/next#0"]
    world.pod_gone("next-0")
    world.run(5_000)
    assert (world.reservations, world.engine.state.promises) == ((), {})


@pytest.mark.parametrize("policy", ["fcfs", *AHEAD])
def test_I16_the_same_news_make_the_same_plans_and_commands(policy: str):
    world = machine(policy, nodes=3, faults=Slow())
    for i in range(30):
        submit(world, f"g{i}", 1 + i * 5 % 8, minutes=5 + i * 7 % 31, runs=4 + i * 7 % 29, members=1 + i % 3)
        world.run(i * 1_700 % 40_000)
    world.pod_gone("g29-0")
    world.run(12 * HOUR)
    assert len(granted(world)) >= 29
    again = Engine(world.settings, RECONCILERS)
    plans: dict[int, ev.PlanProposed] = {}
    commands: list[cmd.Command] = []
    heard = 0
    for batch in world.batches:
        for event in batch:
            if isinstance(event, ev.PlanProposed):
                assert event == plans.pop(event.plan.version)
                heard += 1
        answers = again.learn(batch)
        plans |= {snapshot.version: ev.PlanProposed(plan_now(snapshot)) for snapshot in proposals(answers)}
        assert len(plans) <= 1
        commands += [c for c in answers if not isinstance(c, cmd.Propose | cmd.WakeAt)]
    assert heard > 30
    assert commands == [command for _, command in world.log]


# -- I18: the end of a large gang ----------------------------------------------------------------------

MANY = 1_000


def large(**more: object) -> World:
    """A gang of a thousand runs on ten nodes, and another waits for the same places."""
    world = World(Settings(queues=single("easy")))
    world.check_always = False
    for i in range(10):
        world.node(Node(f"u{i}", f"n{i}", 0, (("cpu", MANY * 100), ("pods", MANY))))
    submit(world, "gang", 1, minutes=60, runs=24 * 60, members=MANY)
    for pod in list(world.pods.values()) if more else ():
        world.change(pod.uid, **more)
    world.run(1_000)
    submit(world, "next", 1, minutes=60, members=MANY)
    world.run(1_000)
    assert granted(world) == ["gang"]
    return world


def free(world: World) -> int:
    inventory = world.engine.state.inventory
    return int(inventory.free[inventory.resources["cpu"]].sum()) // 1000


def ended(world: World, since: int) -> list[str]:
    saves = [c for c in of(world, cmd.SaveGroups, since) if isinstance(c, cmd.SaveGroups)]
    return [record.name for save in saves for record in save.groups if record.phase is Phase.ENDED]


@pytest.mark.parametrize("apart", [0, 1])
def test_I18_a_gang_of_a_thousand_ends_as_one(apart: int):
    """Its pods end in one moment, or one after the other within a second: that is no thousand of anything."""
    world = large()
    since, planned = len(world.log), len(world.batches)
    for i in range(MANY):
        world.at(1 + i * apart, lambda i=i: world.change(f"gang-{i}", phase=PodPhase.SUCCEEDED))
    world.run(2_000)
    assert not check(world.engine.state)
    assert ended(world, since) == ["gang"]
    assert granted(world) == ["gang", "next"]
    tally = Counter(type(command) for _, command in world.log[since:])
    assert tally.pop(cmd.Bind) == MANY  # the next one's
    cycles = sum(isinstance(e, ev.PlanProposed) for batch in world.batches[planned:] for e in batch)
    assert cycles <= (2 if not apart else 2 + 1_000 // world.settings.pace)
    assert sum(tally.values()) <= cycles + 10
    assert not tally[cmd.End] + tally[cmd.Evict]
    assert tally[cmd.SettleGrants] == 1


def test_I18_each_pod_gives_back_its_own_share_and_no_more():
    world = large()
    for gone in (1, 400, 999):
        for i in range(gone):
            world.change(f"gang-{i}", phase=PodPhase.SUCCEEDED)
        world.run(200)
        assert free(world) == gone
        assert group(world, "gang").phase is Phase.RUNNING
        assert granted(world) == ["gang"]
    assert not check(world.engine.state)


@pytest.mark.parametrize("owned", [False, True])
def test_I18_one_command_ends_a_thousand_pods_at_their_walltime(owned: bool):
    notes: dict[str, object] = {"annotations": {"fairlead.dev/duration": "30m"}}
    if owned:
        notes["owner"] = OwnerRef("Job", "gang", "j")
    world = large(**notes)
    if owned:
        world.owner(Owner("j", "Job", "d", "gang", 0, MANY))
    since = len(world.log)
    world.run(31 * MINUTE)
    (end,) = of(world, cmd.End, since)
    assert isinstance(end, cmd.End)
    assert (len(end.fail), len(end.pods)) == ((1, 0) if owned else (0, MANY))
    assert ended(world, since) == ["gang"]
    assert world.groups["label:d/gang#0"].outcome is Outcome.TIMEOUT
    assert granted(world) == ["gang", "next"]
    assert not of(world, cmd.Evict, since)
