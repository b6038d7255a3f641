"""Views of a simulated cluster: rows, positions, reasons, nodes, health, and the story of a group."""

import msgspec
import pytest
from asking_support import MINUTE, START, amounts, busy, gang, node, past, state_of

from fairlead.core import story, views
from fairlead.core.engine import Engine
from fairlead.core.state import State
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase, Reason, Why
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import QueueSettings, Settings
from fairlead.model.view import Explanation, QueuePage, QueueRow
from fairlead.sim.world import World


@pytest.fixture(scope="module")
def state() -> State:
    return state_of(busy())


@pytest.fixture(scope="module")
def page(state: State) -> QueuePage:
    return views.queue_page(state, state.now)


def by_name(page: QueuePage, name: str) -> QueueRow:
    return next(row for row in page.groups if row.name.startswith(name))


def told(state: State, name: str) -> Explanation:
    (group, *_) = story.find(state, name)
    return story.explain(state, group, state.now)


# -- the queue ---------------------------------------------------------------------------------------


def test_waiting_groups_come_first_in_queue_order(page: QueuePage):
    assert [(row.position, row.name[:7]) for row in page.groups[:3]] == [
        (1, "big"), (2, "a-sweep"), (3, "report"),
    ]  # fmt: skip
    assert [row.state for row in page.groups[3:]] == ["assembling", "held", "held", "running", "rejected"]
    assert all(row.position == 0 for row in page.groups[3:])


def test_head_says_what_it_lacks_and_others_behind_whom(page: QueuePage):
    assert by_name(page, "big").text == "needs 3 × cpu=8 memory=4Gi, room for 0 now (short of cpu)"
    assert by_name(page, "a-sweep").text == "behind team-b/big"
    assert by_name(page, "report").why == Why.QUEUED


def test_seen_and_size_of_an_assembling_group(page: QueuePage):
    row = by_name(page, "assembling")
    assert (row.seen, row.size, row.text, row.why) == (2, 5, "has 2 of 5", "WaitingForGroup")


def test_F6_waited_runs_from_first_sight_to_start(page: QueuePage):
    waiting, running = by_name(page, "big"), by_name(page, "training")
    assert waiting.waited == page.as_of - waiting.first_seen == 8 * MINUTE
    assert running.waited == running.bound_at - running.first_seen < 1000
    assert by_name(page, "huge").waited == 7 * MINUTE  # rejected, yet it waits


def test_counts_and_total_are_of_all_groups_not_of_the_page(state: State):
    page = views.queue_page(state, state.now, limit=2, offset=1)
    assert (page.total, len(page.groups)) == (8, 2)
    assert page.counts == {"waiting": 3, "assembling": 1, "held": 2, "running": 1, "rejected": 1}
    assert [row.position for row in page.groups] == [2, 3]


def test_B24_namespace_filters_rows_but_not_positions(state: State):
    page = views.queue_page(state, state.now, namespace="team-b")
    assert [(row.position, row.name) for row in page.groups] == [(1, "big"), (3, "report")]


def test_ended_groups_only_when_asked_for_latest_first(state: State):
    page = views.queue_page(state, state.now, ended=[past()], include_ended=True)
    assert [row.name for row in page.groups[-3:]] == ["huge", "short", "yesterday"]
    assert by_name(page, "yesterday").state == "failed"
    assert all(row.name != "short" for row in views.queue_page(state, state.now).groups)


def test_records_of_the_store_give_the_same_rows(state: State, page: QueuePage):
    records = [group.record() for group in state.groups.values()]
    stored = views.record_page(records, state.now)
    assert (stored.source, stored.as_of) == ("database", state.now)
    assert stored.groups == page.groups


def test_a_new_group_of_higher_priority_is_not_behind_the_head():
    world = busy()
    gang(world, "urgent", 4, cpu=8, priority=1000)
    world.engine.learn([ev.Tick(world.now), *(ev.PodSeen(world.pods[f"urgent-{i}"]) for i in range(4))])
    page = views.queue_page(world.engine.state, world.now)
    assert by_name(page, "urgent").position == 1
    assert by_name(page, "urgent").text == "not looked at yet"
    assert by_name(page, "big").position == 2


def test_ten_thousand_groups_build_only_the_page(monkeypatch: pytest.MonkeyPatch):
    """Ranking touches every group, but rows are built for the page alone."""
    state = State(Settings(sources=()))
    for i in range(10_000):
        group = state.groups[f"g{i}#1"] = busy_group(i)
        group.phase, group.reason = Phase.QUEUED, Reason(Why.QUEUED)
    built: list[str] = []
    real = views.row
    monkeypatch.setattr(views, "row", lambda r, *rest: built.append(r.id) or real(r, *rest))
    page = views.queue_page(state, 1, limit=50, offset=9_000)
    assert len(built) == 50
    assert [row.position for row in page.groups] == list(range(9_001, 9_051))


def busy_group(i: int):
    from fairlead.core.live import Group

    group = Group(f"g{i}", 1, "ns", f"g{i}", "label", 0)
    group.seq = i
    return group


# -- nodes and health --------------------------------------------------------------------------------


def test_nodes_tell_used_free_pods_and_groups(state: State):
    rows = {row.name: row for row in views.node_rows(state)}
    assert list(rows) == ["n0", "n1", "n2", "n3", "n4"]
    cpu = next(use for use in rows["n0"].resources if use.name == "cpu")
    assert (cpu.capacity, cpu.used, cpu.free) == (8000, 6000, 2000)
    assert rows["n0"].groups == ("team-a/training",)
    assert (rows["n3"].pods, rows["n3"].groups) == (1, ())  # of another scheduler
    assert rows["n4"].unschedulable
    assert "nvidia.com/gpu" not in [use.name for use in rows["n3"].resources]


def test_a_node_that_is_gone_is_shown_while_pods_are_on_it():
    world = busy()
    world.node_gone("n0")
    world.node_gone("n4")
    world.run(1)
    rows = {row.name: row.present for row in views.node_rows(state_of(world))}
    assert rows == {"n0": False, "n1": True, "n2": True, "n3": True}


def test_nodes_are_sorted_as_people_count():
    world = World()
    for name in ("n10", "n9", "rack-2-n1", "rack-10-n1"):
        world.node(node(name))
    world.run(1)
    names = [row.name for row in views.node_rows(state_of(world))]
    assert names == ["n9", "n10", "rack-2-n1", "rack-10-n1"]


def test_health_names_what_is_missing():
    engine = Engine(Settings())
    health = views.health(engine.state)
    assert not health.ready
    assert "waiting for the list of pods" in health.reasons
    assert "store: the store has not answered yet" in health.reasons
    engine.learn([ev.Synced(s) for s in ("pods", "nodes", "owners", "store")] + [ev.StoreReady(1)])
    assert views.health(engine.state).ready
    engine.learn([ev.StoreLost("connection refused")])
    assert views.health(engine.state).reasons == ("store: connection refused",)


def test_census_counts_groups_by_phase_and_reason(state: State):
    assert views.census(state)[("held", "WaitingForGroup")] == 1
    assert views.resource_totals(state)["cpu"] == (40_000, 21_000)


# -- the story of a group ----------------------------------------------------------------------------


def test_story_of_a_group_behind_others(state: State):
    e = told(state, "report")
    assert e.ahead == 2
    assert e.head is not None and e.head.name == "big" and "short of cpu" in e.head.text
    assert e.short == ""
    assert (
        e.next_step == "there is room for it now, so it starts as soon as it may: those ahead of it go first"
    )
    assert any("activeDeadlineSeconds (1h) of Job report" in note for note in e.notes)


def test_story_of_the_head_names_the_nearest_fit(state: State):
    e = told(state, "big")
    assert (e.ahead, e.head) == (0, None)
    assert e.nearest == "n3 comes closest to taking one more; it lacks cpu=8 (free: 7)"
    assert e.short == e.group.text


def test_story_tells_wishes_notes_and_stages(state: State):
    e = told(state, "team-a/a-sweep-with-a-name-that-somebody-generated-x7k2p")
    assert [(ask.count, ask.text) for ask in e.asks] == [(16, "16 × cpu=1 on nodes with zone=a")]
    assert (e.layout.required, e.layout.preferred, e.layout.exclusive) == ("", "zone", False)
    assert "Fairlead ends it when all its members have run for its walltime of 1h30m" in e.notes
    assert [stage.name for stage in e.stages] == ["seen", "complete"]


def test_story_of_a_running_group(state: State):
    e = told(state, "training")
    names = ["seen", "complete", "planned", "recorded", "bound", "started"]
    assert [stage.name for stage in e.stages] == names
    assert [stage.at for stage in e.stages] == sorted(stage.at for stage in e.stages)
    assert [(m.name, m.phase, m.node) for m in e.members] == [
        ("training-0", "Running", "n0"), ("training-1", "Running", "n1"), ("training-2", "Running", "n2"),
    ]  # fmt: skip
    assert e.next_step == ""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("assembling", "it queues when 3 more pods come"),
        ("later", "it queues at its begin-time, in 3389d"),
        ("typo", "it queues once the labels or annotations named above are put right"),
        ("huge", "it is looked at again when nodes join or grow"),
    ],
)
def test_story_says_what_comes_next(state: State, name: str, step: str):
    assert told(state, name).next_step == step


def test_story_while_members_are_being_bound():
    world = busy()
    gang(world, "quick", 2, priority=200)
    while not (state := state_of(world)).intents:
        world.run(1)
    e = told(state, "quick")
    assert e.group.state == "starting"
    assert all(m.intended and m.node == "n0" for m in e.members)
    assert e.members[0].reason in ("its place is being written down", "is being bound")


def test_a_promised_start_is_shown_everywhere():
    state = state_of(busy())
    story.find(state, "big")[0].estimate = state.now + 5 * MINUTE
    assert told(state, "big").group.estimate == state.now + 5 * MINUTE
    row = by_name(views.queue_page(state, state.now), "big")
    assert row.estimate == state.now + 5 * MINUTE
    assert by_name(views.queue_page(state, state.now), "report").estimate == 0


def test_a_pod_leads_to_its_group(state: State):
    assert told(state, "report-1").group.name == "report"
    assert told(state, "team-b/report-1").group.name == "report"
    assert story.find(state, "nobody") == []


def test_B24_one_name_in_two_namespaces_is_two_groups():
    world = busy()
    gang(world, "same", 1, namespace="team-a", cpu=9)
    world.pod(Pod("x", "team-b", "same", 0, Shape(amounts(cpu=9)), "fairlead"))
    world.run(1)
    state = state_of(world)
    assert {g.namespace for g in story.find(state, "same")} == {"team-a", "team-b"}
    assert [g.namespace for g in story.find(state, "team-b/same")] == ["team-b"]


def test_story_from_the_store_alone():
    e = story.explain_record(past(), START)
    assert e.group.state == "failed"
    assert [stage.name for stage in e.stages] == ["seen", "complete", "planned", "bound", "started", "ended"]
    rejected = msgspec.structs.replace(past(), outcome=Outcome.REJECTED, granted_at=0, bound_at=0)
    assert story.explain_record(rejected, START).stages[-1].name == "rejected"


def test_pods_that_wait_to_join_are_noted():
    world = busy()
    world.pod(
        msgspec.structs.replace(world.pods["training-0"], uid="late", name="late", node="", phase="Pending")
    )
    world.run(MINUTE)
    e = told(state_of(world), "training")
    assert "waiting to join it: 1 pod" in e.notes
    assert (e.members[-1].phase, e.members[-1].reason) == (PodPhase.PENDING, "waits")


def test_positions_are_those_of_the_queue_s_own_order():
    """Shortest first: who asked later for less stands ahead, in `queue` and in `explain`."""
    world = World(Settings(queues=(QueueSettings(order="shortest"),), pace=0))
    world.now = START
    world.run(1)
    world.node(node("n0", cpu=8))
    for name, minutes in (("running", 60), ("long", 50), ("short", 10), ("middle", 20)):
        notes = {"fairlead.dev/duration": f"{minutes}m"}
        gang(world, name, 1, run_time=minutes * MINUTE, annotations=notes, cpu=8)
        world.run(10)
    state = world.engine.state
    rows = [(row.name, row.position) for row in views.queue_page(state, world.now).groups if row.position]
    assert rows == [("short", 1), ("middle", 2), ("long", 3)]
    groups = {g.name: g for g in state.groups.values()}
    assert [story.explain(state, groups[name], world.now).ahead for name, _ in rows] == [0, 1, 2]
