"""Another scheduler binds without asking: what does not fit is seen, counted, and ours give way."""

import pytest
from asking_support import amounts, gang, node
from msgspec import structs

from fairlead.control import ACTING, RECONCILERS
from fairlead.control.ladder import MAX_EVICTIONS
from fairlead.core.encounters import MOMENT
from fairlead.core.invariants import check
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape
from fairlead.sim.world import World


def world_of(nodes: int = 2, cpu: int = 4) -> World:
    world = World()
    for i in range(nodes):
        world.node(node(f"n{i}", cpu=cpu))
    world.run(100)
    return world


def job(world: World, name: str, size: int, cpu: int = 4) -> None:
    owner = Owner(f"job-{name}", "Job", "default", name, 0, size)
    world.owner(owner)
    for i in range(size):
        ref = OwnerRef("Job", name, owner.uid)
        shape = Shape(amounts(cpu=cpu))
        world.pod(Pod(f"{name}-{i}", "default", f"{name}-{i}", 0, shape, "fairlead", owner=ref))


def foreign(world: World, name: str, where: str, cpu: int = 4) -> None:
    world.pod(Pod(name, "default", name, 0, Shape(amounts(cpu=cpu)), node=where, phase=PodPhase.RUNNING))


def evicted(world: World) -> list[str]:
    return [c.pod.name for _, c in world.log if isinstance(c, cmd.Evict)]


def said(world: World, why: Why) -> list[str]:
    return [c.regarding.name for _, c in world.log if isinstance(c, cmd.Announce) and c.reason == why]


def over(world: World) -> list[str]:
    return [name for name in world.nodes if world.engine.state.inventory.over(name)]


def test_D4_ours_gives_way_where_another_came_at_the_same_moment() -> None:
    world = world_of()
    job(world, "a", 1)
    world.run(10)
    where = world.pods["a-0"].node
    foreign(world, "other", where)
    world.run(2_000)
    state = world.engine.state
    assert state.races == 1 and not state.raced and over(world) == []
    assert evicted(world) == ["a-0"] and said(world, Why.YIELDED) == ["a-0"]
    assert world.pods["other"].node == where and check(state) == []
    bring(world, "a", 1)
    world.run()
    assert world.pods["a-1"].node not in ("", where)


def bring(world: World, name: str, number: int) -> None:
    """The Job controller's replacement for the one that was evicted."""
    ref = OwnerRef("Job", name, f"job-{name}")
    pod = Pod(
        f"{name}-{number}", "default", f"{name}-{number}", 0, Shape(amounts(cpu=4)), "fairlead", owner=ref
    )
    world.pod(pod)


def test_D4_a_bind_in_flight_meets_another_and_is_taken_back_after_it_landed() -> None:
    world = world_of()
    job(world, "a", 1)
    world.run(2)  # granted; durable and bound a moment later
    (intent,) = world.engine.state.intents.values()
    assert not world.pods["a-0"].node
    foreign(world, "other", intent.node)
    world.run(2_000)
    assert world.pods["other"].node == intent.node
    assert over(world) == [] and check(world.engine.state) == []
    assert "a-0" not in world.pods or world.pods["a-0"].node != intent.node


def test_only_as_many_give_way_as_must_and_the_last_come_first() -> None:
    world = world_of(nodes=1, cpu=8)
    job(world, "a", 1, cpu=2)
    world.run(100)
    job(world, "b", 1, cpu=2)
    world.run(100)
    job(world, "c", 1, cpu=2)
    world.run(100)
    foreign(world, "other", "n0", cpu=4)
    world.run(3_000)
    assert evicted(world) == ["c-0"] and over(world) == []


def test_members_of_a_gang_that_stay_run_on() -> None:
    world = world_of(nodes=3)
    job(world, "a", 2)
    world.run(100)
    foreign(world, "other", world.pods["a-1"].node)
    world.run(2_000)
    (group,) = world.engine.state.groups.values()
    assert group.phase is Phase.RUNNING and world.pods["a-0"].node and "a-1" not in world.pods
    bring(world, "a", 2)
    world.run()
    assert world.pods["a-2"].node


def test_a_bare_pod_stays_and_its_group_is_flagged_until_there_is_room() -> None:
    world = world_of(nodes=1)
    gang(world, "a", 1, cpu=4)
    world.run(100)
    foreign(world, "other", "n0", cpu=1)
    world.run(2_000)
    (group,) = world.engine.state.groups.values()
    assert not evicted(world) and said(world, Why.BROKEN) == ["a-0"]
    assert "another scheduler" in group.broken and world.pods["a-0"].node == "n0"
    world.pod_gone("other")
    world.run(2_000)
    assert not group.broken and not world.engine.state.raced


@pytest.mark.parametrize("what", ["long ago", "shrunk", "ended"])
def test_what_is_no_race_evicts_nobody(what: str) -> None:
    world = world_of(nodes=1)
    job(world, "a", 1)
    world.run(100)
    if what == "long ago":
        world.run(MOMENT + 1)
        job(world, "b", 1, cpu=0)
        foreign(world, "other", "n0")
    elif what == "shrunk":
        world.node(structs.replace(world.nodes["n0"], allocatable=amounts(cpu=2)))
    else:
        world.change("a-0", phase=PodPhase.SUCCEEDED)
        foreign(world, "other", "n0")
    world.run(3_000)
    assert not evicted(world) and world.engine.state.races == 0


def test_an_eviction_that_came_to_nothing_is_asked_for_again() -> None:
    world = world_of()
    gone, asked = world.pod_gone, []

    def deaf(uid: str) -> None:
        asked.append(world.now)
        if len(asked) > 1:
            gone(uid)

    world.pod_gone = deaf  # type: ignore[method-assign]
    job(world, "a", 1)
    world.run(10)
    foreign(world, "other", world.pods["a-0"].node)
    world.run(60_000)
    assert len(asked) == 2 and over(world) == []


def test_L5_a_race_while_nobody_watched_is_undone_by_the_next_process() -> None:
    world = world_of()
    job(world, "a", 1)
    world.run(5)
    world.crash()
    world.run(5)
    foreign(world, "other", world.pods["a-0"].node)
    world.start()
    world.run(20_000)
    assert evicted(world) == ["a-0"] and over(world) == []
    assert world.engine.state.races == 1


def test_evictions_that_fail_do_not_use_up_a_groups_few() -> None:
    world = world_of(nodes=1)
    job(world, "a", 1)
    world.run(10)
    (group,) = world.engine.state.groups.values()
    world.pod_gone = lambda uid: world.tell(ev.Evicted(uid, ok=False))  # type: ignore[method-assign]
    foreign(world, "other", "n0")
    world.run(100_000)
    assert len(evicted(world)) > MAX_EVICTIONS and not group.broken


def test_alarms_that_nobody_tells_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.core.state.ALARMS", 2)
    world = world_of(nodes=4)
    world.engine.reconcilers = ACTING
    job(world, "a", 4)
    world.run(10)
    for i in range(4):
        foreign(world, f"other-{i}", f"n{i}")
    world.run(2_000)
    state = world.engine.state
    assert state.races == len(evicted(world)) == 4
    assert [(ref.kind, ref.version > 0, why) for ref, why, _ in state.alarms] == [
        ("Pod", True, Why.YIELDED)
    ] * 2
    world.engine.reconcilers = RECONCILERS
    world.run(2_000)
    world.node(node("n4"))  # any batch tells them
    world.run(10)
    assert len(said(world, Why.YIELDED)) == 2 and not state.alarms
