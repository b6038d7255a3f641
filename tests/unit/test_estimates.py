"""The estimated start: what is written about it and what is not, over a restart, and the forecast's error."""

import time

import pytest
from asking_support import MINUTE, START, gang, node
from hypothesis import given
from hypothesis import strategies as st

from fairlead.control.estimates import ESTIMATED_START, foretell
from fairlead.core import story, views
from fairlead.core.durations import instant, rfc3339, soon
from fairlead.core.estimates import expect, far
from fairlead.core.live import Group
from fairlead.model.command import Announce, PatchAnnotation
from fairlead.model.group import Phase, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim.world import World

HOUR = 60 * MINUTE


def easy(nodes: int = 2, **settings: int) -> World:
    world = World(Settings(queues=single("easy"), pace=0, **settings))
    world.now = START
    world.run(1)
    for i in range(nodes):
        world.node(node(f"n{i}", cpu=8))
    return world


def whole(world: World, name: str, minutes: int, runs: int = 0, size: int = 1, priority: int = 0) -> None:
    """A gang of pods that take a node each."""
    notes = {"fairlead.dev/duration": f"{minutes}m"}
    run_time = (runs or minutes) * MINUTE
    gang(world, name, size, run_time=run_time, priority=priority, annotations=notes, cpu=8)


def group(world: World, name: str) -> Group:
    return next(g for g in world.engine.state.groups.values() if g.name == name)


def written(world: World) -> list[tuple[str, str]]:
    """(object, value) of every annotation so far."""
    return [(c.ref.name, c.value) for _, c in world.log if isinstance(c, PatchAnnotation)]


def said(world: World) -> list[str]:
    """The notes of all Events about estimates."""
    about = (Why.ESTIMATED, Why.MOVED)
    return [c.note for _, c in world.log if isinstance(c, Announce) and c.reason in about]


def waiting(minutes: int = 60, runs: int = 0) -> World:
    """One group runs on the one node there is, one waits for its end; six seconds have passed."""
    world = easy(1)
    whole(world, "running", minutes, runs)
    world.run(1)
    whole(world, "head", 10)
    world.run(6_000)
    return world


# -- instants ----------------------------------------------------------------------------------------


@given(st.integers(0, 253_402_300_799))
def test_an_instant_is_written_as_it_is_read(seconds: int):
    text = rfc3339(seconds * 1000 + 999)
    assert text == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    assert instant(text) == seconds * 1000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(-5, "1s"), (0, "1s"), (59_001, "1m"), (600_001, "11m"), (36_000_000, "10h"), (864_000_000, "10d")],
)
def test_a_time_to_come_has_no_more_digits_than_matter(milliseconds: int, text: str):
    assert soon(milliseconds) == text


@pytest.mark.parametrize(
    ("told", "start", "is_far"),
    [
        (0, 0, False), (0, 9, True), (9, 0, True),
        (10 * MINUTE, 15 * MINUTE, False), (10 * MINUTE, 15 * MINUTE + 1, True),
        (100 * MINUTE, 120 * MINUTE, False), (100 * MINUTE, 121 * MINUTE, True),
        (100 * MINUTE, 80 * MINUTE, False), (100 * MINUTE, 79 * MINUTE, True),
    ],
)  # fmt: skip
def test_F17_far_is_five_minutes_and_a_fifth_of_what_was_left(told: int, start: int, is_far: bool):
    now = 7 * MINUTE
    shift = [at + now if at else 0 for at in (told, start)]
    assert far(*shift, now) is is_far


# -- what is written ---------------------------------------------------------------------------------


def test_F17_a_promise_that_lasts_is_written_once():
    world = waiting()
    head = group(world, "head")
    until = rfc3339(head.estimate)
    assert (instant(until) or 0) // 1000 == (group(world, "running").started_at + HOUR) // 1000
    assert written(world) == [("head-0", until)]
    assert said(world) == [f"group head: estimated to start at {until}, in 1h"]
    world.run(30 * MINUTE)
    assert len(written(world)) == len(said(world)) == 1


def test_F17_a_pod_is_written_to_at_the_version_it_was_seen_with():
    world = waiting()
    (command,) = [c for _, c in world.log if isinstance(c, PatchAnnotation)]
    assert (command.ref.kind, command.ref.uid, command.key) == ("Pod", "head-0", ESTIMATED_START)
    assert command.ref.version == world.pods["head-0"].version


def test_F17_nothing_is_written_about_a_short_wait():
    world = easy(1)
    whole(world, "running", 1, runs=1)
    world.run(56_000)
    whole(world, "head", 10)
    world.run(HOUR)
    assert group(world, "head").promised and group(world, "head").granted_at
    assert written(world) == said(world) == []


def test_F17_nothing_is_written_where_nothing_is_promised():
    world = World(Settings(queues=single("fcfs"), pace=0))
    world.node(node("n0"))
    whole(world, "running", 60)
    world.run(1)
    whole(world, "head", 10)
    world.run(HOUR // 2)
    assert written(world) == said(world) == []


def test_F17_a_job_is_written_to_instead_of_its_pods():
    world = easy(1)
    whole(world, "running", 60)
    world.run(1)
    world.owner(Owner("job-1", "Job", "team-a", "report", 0, annotations={"fairlead.dev/duration": "5m"}))
    shape = Shape((("cpu", 8000), ("pods", 1)))
    ref = OwnerRef("Job", "report", "job-1")
    world.pod(Pod("report-x", "team-a", "report-x", 0, shape, "fairlead", owner=ref))
    world.run(6_000)
    (command,) = [c for _, c in world.log if isinstance(c, PatchAnnotation)]
    assert (command.ref.kind, command.ref.name, command.ref.uid, command.ref.version) == (
        "Job", "report", "job-1", 0,
    )  # fmt: skip


def test_F17_a_small_move_is_not_told_and_a_far_one_is():
    world = waiting()
    (first,) = written(world)
    later(world, 11 * MINUTE)
    assert written(world) == [first]
    later(world, 5 * MINUTE)  # sixteen in sum, of sixty
    assert [name for name, _ in written(world)] == ["head-0", "head-0"]
    assert written(world)[-1][1] == rfc3339(group(world, "head").estimate)
    assert said(world)[-1].endswith("; 16m later than told before")


def later(world: World, by: int) -> None:
    """The promise of the head moves by this, and stays there for a while."""
    state, head = world.engine.state, group(world, "head")
    expect(state, head, head.estimate + by)
    touched = [state.groups[gid] for gid in state.noted]
    world.perform(foretell(state, touched))
    state.now += state.settings.lasting
    world.perform(foretell(state, touched))


def test_F17_an_early_end_moves_the_estimate():
    world = easy(2)
    whole(world, "a", 60, runs=20)
    whole(world, "b", 40)
    world.run(1)
    whole(world, "head", 10, size=2)
    world.run(21 * MINUTE)
    assert len(written(world)) == 2
    assert written(world)[-1] == ("head-0", rfc3339(group(world, "b").started_at + 40 * MINUTE))
    assert said(world)[-1].endswith("in 20m; 20m earlier than told before")


def test_F17_an_estimate_that_holds_no_more_is_taken_away():
    world = waiting()
    world.node_gone("n0")
    world.run(6_000)
    assert group(world, "head").estimate == 0
    assert written(world)[-1] == ("head-0", "")
    assert "no start can be promised any more" in said(world)[-1]


def test_F17_nothing_is_written_to_a_pod_that_is_bound_or_about_to_be():
    world = waiting()
    world.run(HOUR + MINUTE)
    assert group(world, "head").phase is Phase.RUNNING
    assert len(written(world)) == 1
    for batch in range(len(world.log)):
        at, command = world.log[batch]
        if isinstance(command, PatchAnnotation):
            assert at < group(world, "head").granted_at


def test_F17_after_a_restart_what_is_on_the_object_is_not_written_again():
    world = waiting()
    ((name, value),) = written(world)
    world.change(name, annotations={**world.pods[name].annotations, ESTIMATED_START: value})
    world.run(1_000)
    world.crash()
    world.start()
    world.run(10 * MINUTE)
    assert group(world, "head").estimate
    assert written(world) == [(name, value)]
    world.change("running-0", phase="Succeeded")
    whole(world, "urgent", 120, priority=5)
    world.run(MINUTE)
    assert len(written(world)) == 2, "but a far move is"


def test_the_engine_takes_its_own_annotation_for_no_news():
    world = waiting()
    ((name, value),) = written(world)
    before = len(world.log)
    asked = group(world, "head").asked_at
    world.change(name, annotations={**world.pods[name].annotations, ESTIMATED_START: value})
    world.run(MINUTE)
    assert world.log[before:] == []
    assert group(world, "head").asked_at == asked


# -- the store and the forecast's error --------------------------------------------------------------


def test_F11_estimate_and_first_promise_are_the_same_after_a_restart():
    world = waiting()
    (kept,) = world.reservations
    world.crash()
    world.faults.plan_delay = lambda: MINUTE
    world.start()
    world.run(1)
    head = group(world, "head")
    assert world.engine.state.promises == {head.id: kept}
    assert head.estimate == head.promised == kept.start
    assert (group(world, "running").estimate, group(world, "running").promised) == (0, 0)


def test_F11_no_promise_is_given_back_for_a_group_that_waits_no_more():
    world = waiting()
    kept = world.reservations
    world.run(HOUR)
    assert world.reservations == ()
    world.reservations = kept  # the process died before the next plan
    world.crash()
    world.start()
    world.run(1)
    assert world.engine.state.promises == {}
    assert group(world, "head").estimate == 0


def test_the_error_of_the_forecast_stays_with_the_group():
    world = waiting(minutes=60, runs=20)
    head = group(world, "head")
    assert head.record().promised_last == 0  # it is not known yet
    first = head.promised
    world.run(30 * MINUTE)
    record = world.groups[head.id]
    assert (record.promised, record.granted_at - record.promised) == (first, record.granted_at - first)
    assert -40 * MINUTE <= record.granted_at - record.promised < -39 * MINUTE
    assert record.promised_last


def test_a_group_that_was_incomplete_in_between_is_promised_anew():
    world = easy(1)
    whole(world, "running", 60)
    world.run(1)
    gang(world, "pair", 2, annotations={"fairlead.dev/duration": "5m"}, cpu=4)
    world.run(1_000)
    first = group(world, "pair").promised
    assert first
    world.pod_gone("pair-1")
    world.run(1_000)
    assert (group(world, "pair").promised, group(world, "pair").estimate) == (0, 0)


# -- what people see ---------------------------------------------------------------------------------


def test_F1_the_story_tells_when_where_and_after_whom():
    world = waiting()
    state, head = world.engine.state, group(world, "head")
    promise = story.explain(state, head, world.now).promise
    assert promise is not None
    assert (promise.start, promise.nodes) == (head.estimate, ("n0",))
    running = group(world, "running")
    assert [(b.name, b.until) for b in promise.after] == [("running", running.granted_at + HOUR)]
    assert story.explain(state, group(world, "running"), world.now).promise is None


def test_F1_the_store_alone_tells_estimates_too():
    world = waiting()
    records = [g.record() for g in world.engine.state.groups.values()]
    stored = {reserve.group: reserve for reserve in world.reservations}
    page = views.record_page(records, world.now, promised=stored)
    live = views.queue_page(world.engine.state, world.now)
    assert page.groups == live.groups
    assert page.groups[0].estimate == group(world, "head").estimate
    told = story.explain_record(group(world, "head").record(), world.now, (), stored[group(world, "head").id])
    assert told.promise is not None and told.promise.start == told.group.estimate > 0


def test_groups_beyond_the_bound_are_told_that_they_wait_without_a_promise():
    world = World(Settings(queues=single("conservative", promises=2), pace=0))
    world.now = START
    world.run(1)
    world.node(node("n0", cpu=8))
    for name in ("running", "first", "second", "third"):
        whole(world, name, 60)
    world.run(MINUTE)
    text = "waits without a promised start: its queue keeps 2 of them and no more"
    noted = {name: text in story.explain(world.engine.state, group(world, name), world.now).notes
             for name in ("running", "first", "second", "third")}  # fmt: skip
    assert noted == {"running": False, "first": False, "second": False, "third": True}
    assert [c.note for _, c in world.log if isinstance(c, Announce) and text in c.note] == [
        f"group third: {text}"
    ]
    world.run(HOUR)  # the first runs now
    assert group(world, "third").estimate == pytest.approx(START + 3 * HOUR, abs=MINUTE)
    assert text not in story.explain(world.engine.state, group(world, "third"), world.now).notes
