"""Requirements of the engine by their id: nodes that change, pods of any age and length, one opinion."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs
from test_engine import engine, node, one, pod, starting
from test_kube_translate import container, read, wire
from test_requirements_open import where

from fairlead.core import story
from fairlead.core.views import queue_page
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings
from fairlead.sim.world import Faults, World

AVX = "feature.node.kubernetes.io/cpu-cpuid.AVX512F"


def amounts(**named: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted({"pods": 1, **named}.items()))


# -- I7: node changes ----------------------------------------------------------------------------------


def changes() -> Iterator[tuple[str, dict[str, Any]]]:
    """What makes a node of 2 cores fit for a pod of 4 cores that needs a feature."""
    good = {"labels": {AVX: "true"}, "cpu": 4}
    yield "joins", {}
    yield "uncordoned", good | {"unschedulable": True}
    yield "grown", good | {"cpu": 2}
    yield "labelled", good | {"labels": {}}
    yield "ready", good | {"ready": False}


@pytest.mark.parametrize(("change", "was"), list(changes()), ids=lambda value: str(value))
def test_I7_a_node_that_became_fit_is_used_within_a_second_and_one_that_is_not_no_more(
    change: str, was: dict[str, Any]
):
    world = World(Settings())
    world.node(node("other", cpu=9))  # free, but without the feature
    if was:
        world.node(node("n0", **was))
    needs = Shape(amounts(cpu=4000), (Expression(AVX, Operator.IN, ("true",)),))
    world.pod(pod("a", shape=needs))
    world.run(5_000)
    assert where(world, "a") == [""]
    world.node(node("n0", cpu=4, labels={AVX: "true"}))
    world.run(1_000)
    assert where(world, "a") == ["n0"], change
    world.pod_gone("a")
    world.run(1_000)
    if was:
        world.node(node("n0", **was))
    else:
        world.node_gone("n0")
    world.pod(pod("b", shape=needs))
    world.run(5_000)
    assert where(world, "b") == [""], f"not {change} any more"


# -- I11: very short work ------------------------------------------------------------------------------


class Hesitant(Faults):
    """The last member of each group cannot be bound at first: the others have ended when it can."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def bind(self, bind: cmd.Bind) -> ev.BindError | None:
        if bind.name.endswith("-3") and bind.name not in self.refused:
            self.refused.add(bind.name)
            return ev.BindError.REFUSED
        return None


def test_I11_members_that_end_within_a_second_do_not_stall_their_siblings():
    faults = Hesitant()
    world = World(faults=faults)
    for i in range(4):
        world.node(node(f"n{i}", cpu=8))
    for i in range(200):
        for member in range(4):
            world.pod(pod(f"g{i}-{member}", group=f"g{i}", size=4), run_time=1_000)
    world.run(200_000)
    assert len(faults.refused) == 200
    assert {p.phase for p in world.pods.values()} == {PodPhase.SUCCEEDED}
    assert [r.outcome for r in world.groups.values()] == [Outcome.COMPLETED] * 200
    binds = [c.name for _, c in world.log if isinstance(c, cmd.Bind)]
    assert len(binds) == 1_000, "each pod once, and the last of each group twice"
    assert not any(isinstance(c, cmd.Evict | cmd.End) for _, c in world.log)


# -- I20: pods from before the start -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_I20_the_end_of_any_imported_pod_restores_exactly_its_share(seed: int):
    chance = random.Random(seed)
    world = World()
    world.crash()
    for i in range(3):
        world.node(
            structs.replace(node(f"n{i}"), allocatable=amounts(cpu=64_000, memory=1 << 38, gpu=8, pods=110))
        )
    for i in range(60):
        shape = Shape(
            amounts(cpu=chance.randrange(3_000), memory=chance.randrange(1 << 33), gpu=chance.randrange(2))
        )
        phase = chance.choice([PodPhase.RUNNING, PodPhase.RUNNING, PodPhase.PENDING, PodPhase.SUCCEEDED])
        scheduler = chance.choice(["fairlead", "default-scheduler"])
        world.pod(
            Pod(f"p{i}", "default", f"p{i}", 0, shape, scheduler, node=f"n{chance.randrange(3)}", phase=phase)
        )
    world.start()
    world.run(1_000)
    _compare(world)
    live = [uid for uid, each in world.pods.items() if not each.ended]
    for uid in chance.sample(live, len(live)):
        match chance.randrange(4):
            case 0:
                world.pod_gone(uid)
            case 1:
                world.change(uid, deleting=True)  # still there, and so is its share
            case end:
                world.change(uid, phase=PodPhase.FAILED if end == 2 else PodPhase.SUCCEEDED)
        world.run(100)
        _compare(world)


def _compare(world: World) -> None:
    inventory = world.engine.state.inventory
    for name, each in world.nodes.items():
        live = [p for p in world.pods.values() if p.node == name and not p.ended]
        for resource, capacity in each.allocatable:
            free = int(inventory.free[inventory.resources[resource], inventory.rows[name]])
            assert free == capacity - sum(dict(p.shape.requests).get(resource, 0) for p in live), (
                name,
                resource,
            )


# -- B26: missing timestamps ---------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [{}, {"creationTimestamp": None}, {"creationTimestamp": ""}])
def test_B26_objects_without_any_time_are_placed_and_told_of(missing: dict[str, Any]):
    world = World()
    world.now = 1_790_000_000_000
    world.run(1)
    world.node(node("n0"))
    spec = {"schedulerName": "fairlead", "containers": [container(cpu="3")]}
    for name in ("a", "b"):
        seen = read(wire(spec, {"phase": "Pending", "startTime": None}, name=name, uid=name, **missing))
        assert seen.created == 0
        world.version += 1
        world.pods[name] = structs.replace(seen, version=world.version)
        world.tell(ev.PodSeen(world.pods[name]))
    world.run(5_000)
    assert where(world, "a") == ["n0"] and where(world, "b") == [""]
    state = world.engine.state
    rows = queue_page(state, world.now).groups
    assert [(row.name, row.waited < 10_000) for row in rows] == [("b", True), ("a", True)]
    for group in state.groups.values():
        told_of = story.explain(state, group, world.now)
        assert told_of.group.first_seen >= 1_790_000_000_000
        assert all(stage.at >= 1_790_000_000_000 for stage in told_of.stages if stage.at)


# -- B29: no second opinion ----------------------------------------------------------------------------


class Witness(World):
    """Looks at every bind as it is sent: its node is the one node on which the engine counts the pod."""

    binds = 0

    def perform(self, commands: Any) -> None:
        state = self.engine.state
        for command in commands:
            assert not isinstance(command, cmd.Evict | cmd.End), "somebody was thrown out"
            if isinstance(command, cmd.Bind):
                self.binds += 1
                assert state.intents[command.pod].node == command.node
                held = [name for name in self.nodes if command.pod in state.inventory.holders(name)]
                assert held == [command.node]
        super().perform(commands)


def test_B29_a_pod_counts_where_it_is_bound_and_nowhere_else_and_nobody_is_preempted():
    class Moody(Faults):
        def __init__(self) -> None:
            self.count = 0

        def bind(self, _: cmd.Bind) -> ev.BindError | None:
            self.count += 1
            return ev.BindError.REFUSED if self.count % 3 == 0 else None

    world = Witness(Settings(match="spread", pace=0), Moody())
    for i in range(3):
        world.node(node(f"n{i}"))
    for i in range(12):
        world.pod(pod(f"p{i}"))
    world.run(60_000)
    assert all(each.node for each in world.pods.values())
    assert world.binds > 12, "refused binds were made good"
    _compare(world)
    world.pod(pod("urgent", cpu=4, priority=1_000_000))
    world.run(60_000)
    assert where(world, "urgent") == [""]
    assert sum(bool(each.node) for each in world.pods.values()) == 12


# -- I19: a burst of submissions -----------------------------------------------------------------------


def test_I19_a_burst_spoils_neither_the_plan_in_the_making_nor_its_binds():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a", cpu=4)))
    plan = starting(commands)
    for begin in range(0, 10_000, 250):
        seen = [ev.PodSeen(pod(f"b{i}", 2 + i)) for i in range(begin, begin + 250)]
        assert not [c for c in made.learn([ev.Tick(1_001), *seen]) if isinstance(c, cmd.Propose)]
    assert [g.group for g in one(made.learn([plan]), cmd.RecordAllocations).grants] == ["pod:a#0"]  # type: ignore[union-attr]
    assert made.last_stale == ""
    answers = made.learn([ev.AllocationsRecorded("1-1")])
    assert one(answers, cmd.Bind).pod == "a"  # type: ignore[union-attr]
