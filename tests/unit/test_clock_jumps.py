"""The wall clock is set forward and back by an hour: what people gave in wall time is kept to the second of
the corrected clock, what lasts goes on lasting, and nothing that runs is ended for it."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from asking_support import MINUTE, START, amounts, gang, node
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from fairlead.control.estimates import ESTIMATED_START
from fairlead.core import views
from fairlead.core.durations import instant, rfc3339
from fairlead.core.engine import Engine
from fairlead.core.live import Group, Intent
from fairlead.core.redate import TIMES
from fairlead.core.surroundings import Choice, Held
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.runtime import record, replay
from fairlead.runtime.clock import Clock
from fairlead.runtime.loop import Loop
from fairlead.sim.world import World

HOUR = 60 * MINUTE
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["forward", "back"])


class Cluster(World):
    """A world whose wall clock can be set. What goes on in it takes as long as before."""

    set_by = 0

    def __init__(self, settings: Settings) -> None:
        self.done: list[tuple[int, cmd.Command]] = []
        """Every command, and how much time had passed by then."""
        super().__init__(settings)

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        self.done += [(self.now - self.set_by, command) for command in commands]
        super().perform(commands)

    def set_clock(self, by: int) -> None:
        self._deliver()
        batch = (ev.Tick(self.now), ev.ClockJumped(by))
        self.batches.append(batch)
        commands = self.engine.learn(batch)
        self.now += by
        self.set_by += by
        self._store_busy += by
        self._heap = [(at + by, count, action) for at, count, action in self._heap]
        self.perform(commands)

    def told(self, kind: type[cmd.Command]) -> list[Any]:
        return [command for _, command in self.log if isinstance(command, kind)]

    def group(self, name: str) -> Group:
        return next(g for g in self.engine.state.groups.values() if g.name == name)


def cluster(nodes: int = 1, policy: str = "easy", **other: Any) -> Cluster:
    world = Cluster(Settings(queues=single(policy), **{"pace": 0, **other}))
    world.now = START
    world.run(1)
    for i in range(nodes):
        world.node(node(f"n{i}", cpu=8))
    return world


def submit(world: Cluster, name: str, minutes: int, runs: int = 0, size: int = 1, **notes: str) -> None:
    """A gang of pods that take a node each."""
    said = {"fairlead.dev/duration": f"{minutes}m"}
    said |= {f"fairlead.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    gang(world, name, size, run_time=(runs or minutes) * MINUTE, annotations=said, cpu=8)


# -- begin-time --------------------------------------------------------------------------------------


@JUMPS
def test_F12_a_begin_time_is_kept_by_the_corrected_clock(jump: int) -> None:
    world = cluster()
    begin = START + 2 * HOUR
    submit(world, "later", 10, begin_time=rfc3339(begin))
    world.run(10 * MINUTE)
    world.set_clock(jump)
    while world.group("later").phase is Phase.HELD:
        assert world.now <= begin + 1000
        world.run(1000)
    assert begin <= world.now <= begin + 1000
    assert world.group("later").granted_at >= begin


def test_F12_a_begin_time_that_the_jump_passed_has_come_at_once() -> None:
    world = cluster()
    submit(world, "later", 10, begin_time=rfc3339(START + HOUR))
    world.run(30 * MINUTE)
    assert world.group("later").phase is Phase.HELD
    world.set_clock(HOUR)
    world.run(100)
    assert world.group("later").phase is Phase.RUNNING


def test_a_latest_end_that_a_job_has_is_where_the_job_put_it() -> None:
    world = cluster()
    world.owner(Owner("o", "Job", "d", "j", 0, 1, deadline=3 * HOUR, started=START))
    world.pod(Pod("p", "d", "p", 0, Shape(amounts(cpu=16)), "fairlead", owner=OwnerRef("Job", "j", "o")))
    world.run(1000)
    ends = [g.latest_end for g in world.engine.state.groups.values()]
    world.set_clock(HOUR)
    world.run(1000)
    assert [g.latest_end for g in world.engine.state.groups.values()] == ends == [START + 3 * HOUR]


# -- what lasts --------------------------------------------------------------------------------------


@JUMPS
def test_what_runs_is_ended_at_its_walltime_and_not_for_a_jump(jump: int) -> None:
    world = cluster()
    submit(world, "over", 30, runs=300)
    world.run(10 * MINUTE)
    world.set_clock(jump)
    world.run(19 * MINUTE)
    assert world.group("over").phase is Phase.RUNNING and not world.told(cmd.End)
    world.run(2 * MINUTE)
    assert world.told(cmd.End)
    assert [record.outcome for record in world.groups.values()] == [Outcome.TIMEOUT]


@JUMPS
def test_a_promise_keeps_its_distance_and_is_shown_in_wall_time(jump: int) -> None:
    world = cluster()
    submit(world, "runs", 60)
    world.run(10 * MINUTE)
    submit(world, "waits", 60)
    world.run(MINUTE)
    promised = world.group("waits").estimate
    assert promised == world.group("runs").started_at + HOUR
    world.set_clock(jump)
    world.run(1000)
    assert world.group("waits").estimate == promised + jump
    row = next(r for r in views.queue_page(world.engine.state, world.now).groups if r.name == "waits")
    assert row.estimate == promised + jump and row.first_seen == START + 10 * MINUTE + 1 + jump
    world.run(48 * MINUTE)
    assert world.group("waits").phase is Phase.QUEUED
    world.run(2 * MINUTE)
    assert world.group("waits").phase is Phase.RUNNING


def test_people_are_told_the_estimate_anew_that_the_jump_made_wrong() -> None:
    world = cluster()
    submit(world, "runs", 300)
    world.run(MINUTE)
    submit(world, "waits", 60)
    world.run(10 * MINUTE)
    world.set_clock(HOUR)
    world.run(10 * MINUTE)
    told = [instant(each.value) for each in world.told(cmd.PatchAnnotation) if each.key == ESTIMATED_START]
    assert told[-1] is not None and abs(told[-1] - world.group("waits").estimate) < 1000
    assert told[0] is not None and told[-1] - told[0] >= HOUR - 1000


@JUMPS
def test_a_bind_of_unknown_fate_is_not_repeated_sooner_or_later_for_a_jump(jump: int) -> None:
    made = Engine(Settings(pace=0))
    state = made.state
    made.learn([ev.Tick(START), ev.StoreReady(1), *(ev.Synced(source) for source in state.settings.sources)])
    state.wake(START + 5000, "x")
    made.learn([ev.ClockJumped(jump)])
    assert state.next_wake() == START + jump + 5000
    commands = made.learn([ev.Tick(START + jump)])
    state.wake(START + jump + 4000, "y")
    commands += made.learn([ev.Tick(START + jump + 1)])
    assert [c.at for c in commands if isinstance(c, cmd.WakeAt)] == [START + jump + 4000]


@JUMPS
def test_plans_are_made_after_a_jump_as_soon_as_before(jump: int) -> None:
    world = cluster(pace=100)
    submit(world, "one", 1)
    world.run(2 * MINUTE)
    world.set_clock(jump)
    submit(world, "two", 1)
    world.run(1000)
    assert world.group("two").phase is Phase.RUNNING


@JUMPS
def test_a_plan_in_the_making_is_made_anew(jump: int) -> None:
    world = cluster()
    world.faults.plan_delay = lambda: 50  # type: ignore[method-assign]
    submit(world, "runs", 60)
    world.run(1000)
    submit(world, "waits", 60)
    world.run(20)
    world.set_clock(jump)
    world.run(1000)
    assert world.group("waits").estimate == world.group("runs").started_at + HOUR


@JUMPS
def test_a_process_that_starts_after_the_jump_reads_the_times_as_its_own(jump: int) -> None:
    world = cluster()
    submit(world, "runs", 60, runs=300)
    world.run(10 * MINUTE)
    submit(world, "waits", 60)
    world.run(10 * MINUTE)
    world.set_clock(jump)
    world.run(1000)
    before = {g.id: g.record() for g in world.engine.state.groups.values()}
    assert world.groups == before
    world.crash()
    world.start()
    world.run(38 * MINUTE)
    assert world.group("runs").phase is Phase.RUNNING and not world.told(cmd.End)
    world.run(3 * MINUTE)
    assert world.told(cmd.End)


# -- completeness ------------------------------------------------------------------------------------

GIVEN = {"begin", "latest_end", "created", "told_start", "deadline", "started", "seq", "asked_at"}
"""Times that others gave or were told; numbers that are no times."""


def times(thing: object, path: str, seen: dict[int, object]) -> Iterator[tuple[str, int]]:
    """Every number below `thing` that looks like a time around now, with the way to it."""
    if isinstance(thing, int) and not isinstance(thing, bool):
        if abs(thing - START) < 30 * HOUR:
            yield path, int(thing)
        return
    if id(thing) in seen or thing is None or isinstance(thing, str | bytes):
        return
    seen[id(thing)] = thing
    inside: dict[Any, object] = {}
    if isinstance(thing, dict):
        inside = dict(thing)
        yield from times(list(thing), f"{path}.keys", seen)
    elif isinstance(thing, list | tuple):
        inside = dict(enumerate(thing))
    elif isinstance(thing, Struct):
        inside = {name: getattr(thing, name) for name in thing.__struct_fields__}
    elif hasattr(thing, "__slots__"):
        inside = {name: getattr(thing, name) for name in thing.__slots__}
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith("fairlead"):
        inside = vars(thing)
    for name, value in inside.items():
        if name not in GIVEN:
            yield from times(value, f"{path}.{name}", seen)


@JUMPS
def test_every_time_in_the_state_moves(jump: int) -> None:
    world = cluster(2)
    submit(world, "ended", 1)
    world.run(2 * MINUTE)
    submit(world, "runs", 60)
    submit(world, "waits", 60, size=2)
    submit(world, "later", 10, begin_time=rfc3339(START + 20 * HOUR))
    world.node(structs.replace(node("n2", cpu=8), uid="u2"))
    world.run(10 * MINUTE)
    world.node_gone("n2")
    world.pod_gone("nobody")
    submit(world, "starts", 10)
    world._deliver()
    state = world.engine.state
    found = dict(times(state, "state", {}))
    assert len(found) > 20
    world.engine.reconcilers = ()
    world.engine.learn([ev.ClockJumped(jump)])
    moved = dict(times(state, "state", {}))
    stayed = [path for path, at in found.items() if path in moved and moved[path] == at]
    assert not stayed


NUMBERS = {
    "incarnation", "seq", "size", "seen", "priority", "duration", "limit", "endings", "completed", "failed",
    "started_size", "attempts", "evictions", "asked_at", "begin", "latest_end", "told_start", "sent_version",
}  # fmt: skip
"""Integers of groups, intents and choices that are no times of ours. Add a new field here, or to `TIMES`."""


@pytest.mark.parametrize("kind", TIMES)
def test_every_number_of_what_lives_is_known_to_be_a_time_or_not(kind: type) -> None:
    made: dict[type, Any] = {
        Group: lambda: Group("k", 0, "d", "g", "label", 5),
        Intent: lambda: Intent("p", "n", "g", "group"),
        Held: lambda: Held(5),
        Choice: lambda: Choice(("d", "c"), "v", "n"),
    }
    thing = made[kind]()
    names = vars(thing) if hasattr(thing, "__dict__") else thing.__slots__
    numbers = {
        n for n in names if isinstance(getattr(thing, n), int) and not isinstance(getattr(thing, n), bool)
    }
    assert numbers - NUMBERS == set(TIMES[kind])


Step = tuple[str, int, int]


def played(steps: list[Step], jumps: bool) -> list[tuple[object, ...]]:
    """What was granted, bound and ended, and after how much time; with or without the jumps."""
    world = cluster(3, "hybrid", pace=40)
    for number, (what, a, b) in enumerate(steps):
        if what == "submit":
            submit(world, f"g{number}", 1 + a, 1 + b, 1 + (a + b) % 3)
        elif what == "run":
            world.run(a * MINUTE + b * 777)
        elif what == "restart":
            world.run(1000)
            world.crash()
            world.start()
        elif jumps:
            world.set_clock((a - 20) * 7 * MINUTE + b)
    world.run(600 * MINUTE)
    found: list[tuple[object, ...]] = []
    for since, command in world.done:
        match command:
            case cmd.RecordAllocations(grants=grants) if grants:
                found.append((since, *[(place.pod, place.node) for g in grants for place in g.placements]))
            case cmd.Bind() | cmd.Evict():
                found.append((since, type(command), command.pod))
            case cmd.End():
                found.append((since, cmd.End))
            case _:
                pass
    return found


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["submit", "submit", "run", "run", "jump", "restart"]),
            st.integers(0, 40), st.integers(0, 40),
        ),
        min_size=3, max_size=14,
    )
)  # fmt: skip
def test_with_jumps_or_without_the_same_happens_after_the_same_time(steps: list[Step]) -> None:
    assert played(steps, jumps=True) == played(steps, jumps=False)


def test_a_recording_with_jumps_is_replayed_to_the_bit(tmp_path: Path) -> None:
    world = cluster()
    recorder = record.Recorder(tmp_path / "r", world.settings)
    for jump in (HOUR, -2 * HOUR, 0):
        submit(world, f"runs{jump}", 60)
        submit(world, f"waits{jump}", 60, begin_time=rfc3339(START + 3 * HOUR))
        world.run(30 * MINUTE)
        if jump:
            world.set_clock(jump)
    world.run(3 * HOUR)
    for batch in world.batches:
        recorder.batch(batch)
    recorder.close()
    outcome = replay.replay_file(tmp_path / "r")
    assert not outcome.differences and outcome.plans > 3


# -- the clock and the loop --------------------------------------------------------------------------


class Dials:
    """A wall clock and an even one, turned by hand (milliseconds)."""

    def __init__(self) -> None:
        self.wall, self.even = START, 5_000

    def clock(self) -> Clock:
        return Clock(lambda: self.wall * 1_000_000, lambda: self.even * 1_000_000)

    def pass_by(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.even += milliseconds


@JUMPS
def test_the_clock_runs_evenly_until_it_is_told_to_follow(jump: int) -> None:
    dials = Dials()
    clock = dials.clock()
    dials.pass_by(1000)
    dials.wall += jump
    assert clock.now() == START + 1000 and clock.off == jump
    assert clock.jump() == jump
    assert clock.now() == START + 1000 + jump and clock.off == clock.jump() == 0


def test_a_clock_that_is_slewed_is_followed_by_the_second() -> None:
    dials = Dials()
    clock = dials.clock()
    jumps = []
    for _ in range(1000):
        dials.pass_by(1000)
        dials.wall += 3
        jumps.append(clock.jump())
        assert abs(clock.now() - dials.wall) < 1000
    assert sum(1 for each in jumps if each) == 2


def test_the_even_clock_goes_on_while_the_machine_is_suspended() -> None:
    """Suspension shows in it: no jump, time has passed."""
    dials = Dials()
    clock = dials.clock()
    dials.pass_by(8 * HOUR)
    assert clock.jump() == 0 and clock.now() == START + 8 * HOUR


async def test_a_loop_in_which_nothing_happens_notices_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.runtime.loop.LOOK", 0.01)
    dials = Dials()
    learned: list[ev.Event] = []

    class Noting(Engine):
        def learn(self, events: Any) -> list[cmd.Command]:
            learned.extend(events)
            return super().learn(events)

    loop = Loop(Noting(Settings()), (), dials.clock())
    running = asyncio.create_task(loop.run())
    loop._set_timer(START + HOUR)
    await asyncio.sleep(0)
    dials.pass_by(HOUR)  # as after a suspension: asyncio's own timer would fire in an hour
    async with asyncio.timeout(30):
        while not learned:
            await asyncio.sleep(0.01)
        dials.wall -= 2 * HOUR
        while ev.ClockJumped(-2 * HOUR) not in learned:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert learned[0] == ev.Tick(START + HOUR)
