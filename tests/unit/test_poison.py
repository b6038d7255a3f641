"""What the engine trips over is set aside, loudly, and everybody else goes on."""

from typing import Any

import pytest
from asking_support import amounts, gang, node
from msgspec import structs

from fairlead.core import cycle, poison
from fairlead.core.invariants import check
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.pod import Pod, Shape
from fairlead.sim.world import World


def world_of(nodes: int = 2, cpu: int = 4) -> World:
    world = World()
    for i in range(nodes):
        world.node(node(f"n{i}", cpu=cpu))
    world.run(100)
    return world


def broken(uid: str, **fields: Any) -> Pod:
    """A pod such as no reader makes: its labels are no mapping."""
    pod = Pod(uid, "default", uid, 0, Shape(amounts(cpu=1)), "fairlead", **fields)
    return structs.replace(pod, labels=None)


def told(world: World) -> list[str]:
    return [
        c.regarding.name for _, c in world.log if isinstance(c, cmd.Announce) and c.reason == Why.SET_ASIDE
    ]


def free(world: World, name: str) -> int:
    inventory = world.engine.state.inventory
    return int(inventory.free[inventory.resources["cpu"], inventory.rows[name]])


def test_a_pod_that_the_reducer_trips_over_is_set_aside_and_the_rest_goes_on() -> None:
    world = world_of()
    gang(world, "before", 2)
    world.pod(broken("bad"))
    gang(world, "after", 2)
    world.run()
    state = world.engine.state
    assert {g.name: g.phase for g in state.groups.values()} == {
        "before": Phase.RUNNING,
        "after": Phase.RUNNING,
    }
    assert list(state.poisoned) == ["bad"] and "AttributeError" in state.poisoned["bad"].text
    assert told(world) == ["bad"] and state.poisonings == 1
    assert check(state) == []


def test_on_a_node_it_counts_all_the_same_and_gives_back_its_share() -> None:
    world = world_of(nodes=1)
    world.pod(broken("bad", node="n0"))
    world.run()
    assert free(world, "n0") == 3_000
    world.pod_gone("bad")
    world.run()
    assert free(world, "n0") == 4_000 and not world.engine.state.poisoned


def test_a_newer_version_of_it_that_can_be_read_is_placed() -> None:
    world = world_of()
    world.pod(broken("bad"))
    world.run()
    world.change("bad", labels={})
    world.run()
    assert world.pods["bad"].node and not world.engine.state.poisoned


def test_a_member_that_is_set_aside_leaves_its_group_incomplete_until_it_is_readable() -> None:
    world = world_of()
    gang(world, "a", 2, have=1)
    good = structs.replace(world.pods["a-0"], uid="a-1", name="a-1")
    world.pod(structs.replace(good, labels={**good.labels, "fairlead.dev/group": 7}))  # type: ignore[dict-item]
    world.run()
    (group,) = [g for g in world.engine.state.groups.values() if g.name == "a"]
    assert group.phase is Phase.HELD and check(world.engine.state) == []
    world.change("a-1", labels=good.labels)
    world.run()
    assert group.phase is Phase.RUNNING


def test_a_node_that_cannot_be_read_stays_as_it_was() -> None:
    world = world_of(nodes=1)
    world.node(structs.replace(node("n0", cpu=8), allocatable=None))  # type: ignore[arg-type]
    gang(world, "a", 1, cpu=4)
    world.run()
    assert world.pods["a-0"].node == "n0" and len(world.engine.state.poisoned) == 1


def test_a_group_that_cannot_be_looked_at_waits_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    refresh = poison.refresh

    def trip(state: Any, group: Any) -> None:
        if group.name == "bad":
            raise KeyError("no such thing")
        refresh(state, group)

    world = world_of()
    with monkeypatch.context() as patch:
        patch.setattr(poison, "refresh", trip)
        gang(world, "bad", 2)
        gang(world, "good", 2)
        world.run()
        phases = {g.name: g.phase for g in world.engine.state.groups.values()}
        assert phases == {"bad": Phase.HELD, "good": Phase.RUNNING}
        assert told(world) == ["bad-0"]
    world.change("bad-0", annotations={"fairlead.dev/duration": "1h"})
    world.run()
    assert {g.phase for g in world.engine.state.groups.values()} == {Phase.RUNNING}
    assert not world.engine.state.poisoned


def test_a_group_that_no_plan_can_be_made_with_is_left_out_until_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = cycle.Cycle._start

    def trip(self: cycle.Cycle, request: Any) -> bool:
        if "bad" in request.group:
            raise IndexError("out of bounds")
        return start(self, request)

    monkeypatch.setattr(cycle.Cycle, "_start", trip)
    monkeypatch.setattr(cycle, "place_all", no_bulk)
    world = world_of()
    gang(world, "first", 1)
    gang(world, "bad", 2)
    gang(world, "last", 1)
    world.run()
    groups = {g.name: g for g in world.engine.state.groups.values()}
    assert {name: g.phase for name, g in groups.items()} == {
        "first": Phase.RUNNING, "bad": Phase.HELD, "last": Phase.RUNNING
    }  # fmt: skip
    assert groups["bad"].reason.why is Why.SET_ASIDE and "IndexError" in groups["bad"].reason.text
    gang(world, "later", 1)
    world.run()
    assert world.pods["later-0"].node
    monkeypatch.setattr(cycle.Cycle, "_start", start)
    world.change("bad-0", annotations={"fairlead.dev/duration": "1h"})
    world.run()
    assert groups["bad"].phase is Phase.RUNNING


def no_bulk(*_: object) -> Any:
    yield
    return None


def test_a_plan_that_fails_for_nobody_in_particular_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    world = world_of()
    old = cycle.Cycle._old_promises

    def trip(self: cycle.Cycle) -> Any:
        calls.append(self.snapshot.now)
        if len(calls) < 3:
            raise ValueError("a bad day")
        return old(self)

    monkeypatch.setattr(cycle.Cycle, "_old_promises", trip)
    monkeypatch.setattr(cycle, "place_all", no_bulk)
    gang(world, "a", 1)
    gang(world, "b", 1)
    world.run()
    assert world.pods["a-0"].node and world.pods["b-0"].node
    assert calls[1] - calls[0] >= 1_000


def test_what_was_set_aside_is_the_same_in_a_replay() -> None:
    first, second = world_of(), world_of()
    for world in (first, second):
        world.pod(broken("bad"))
        gang(world, "a", 2)
        world.run()
    assert first.log == second.log
    assert first.engine.state.poisoned == second.engine.state.poisoned


def test_poison_in_a_list_does_not_keep_a_process_from_starting() -> None:
    world = world_of()
    world.pod(broken("bad", node="n1"))
    world.run()
    world.crash()
    world.start()
    gang(world, "a", 2)
    world.run()
    assert world.engine.state.synced and world.pods["a-0"].node and free(world, "n1") <= 3_000
    assert told(world) == ["bad", "bad"]


def test_an_event_with_a_broken_number_is_only_remembered() -> None:
    world = world_of(nodes=1)
    world.pod(structs.replace(broken("bad", node="n0"), shape=None))  # type: ignore[arg-type]
    gang(world, "a", 1)
    world.run()
    assert "bad" in world.engine.state.poisoned and world.pods["a-0"].node
    assert isinstance(world.batches[-1][0], ev.Tick)
