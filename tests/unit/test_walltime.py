"""Walltimes: who says them, when the clock runs, how a group is ended, and what is never ended."""

from pathlib import Path

import pytest
from msgspec import structs

from fairlead.core.grouping import annotations, demand, walltime
from fairlead.core.story import explain
from fairlead.model import command as cmd
from fairlead.model.group import Outcome, Phase, Why
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape
from fairlead.model.settings import QueueSettings, Settings
from fairlead.sim import scenario
from fairlead.sim.world import World

SCENARIOS = Path(__file__).resolve().parents[1] / "data" / "scenarios"
MINUTE = 60_000
HOUR = 60 * MINUTE
CPU = (("cpu", 1000), ("pods", 1))


def told(text: str) -> None:
    scenario.run(scenario.parse("\n".join(line.strip() for line in text.strip().splitlines())))


def pod(uid: str, owner: Owner | None = None, group: str = "", size: int = 2, **more: object) -> Pod:
    labels = {"fairlead.dev/group": group, "fairlead.dev/group-size": str(size)} if group else {}
    ref = OwnerRef(owner.kind, owner.name, owner.uid) if owner else None
    made = Pod(uid, "default", uid, 0, Shape(CPU), scheduler="fairlead", labels=labels, owner=ref)
    return structs.replace(made, **more)


def job(uid: str, kind: str = "Job", size: int = 1, **more: object) -> Owner:
    return structs.replace(Owner(uid, kind, "default", uid, 0, size), **more)


def lasting(text: str) -> dict[str, str]:
    return {"fairlead.dev/duration": text}


@pytest.fixture
def world() -> World:
    made = World()
    for i in range(4):
        made.node(Node(f"uid-n{i}", f"n{i}", 0, (("cpu", 4000), ("pods", 110))))
    made.run(20)
    return made


def ends(world: World) -> list[cmd.End]:
    return [command for _, command in world.log if isinstance(command, cmd.End)]


def outcome(world: World, gid: str) -> Outcome:
    return world.groups[gid].outcome


# -- who says it -------------------------------------------------------------------------------------

BOUNDED = QueueSettings("short", walltime=10 * MINUTE, longest=HOUR)


@pytest.mark.parametrize(
    ("note", "own", "kind", "queue", "duration", "limit"),
    [
        ("30m", 0, "Job", BOUNDED, 30 * MINUTE, 30 * MINUTE),
        ("1800", 5 * MINUTE, "", QueueSettings(), 30 * MINUTE, 30 * MINUTE),
        ("", 5 * MINUTE, "Job", BOUNDED, 5 * MINUTE, 0),
        ("", 0, "Job", BOUNDED, 10 * MINUTE, 10 * MINUTE),
        ("", 0, "", QueueSettings(longest=HOUR), HOUR, HOUR),
        ("", 0, "", QueueSettings(walltime=2 * HOUR, longest=HOUR), HOUR, HOUR),
        ("", 0, "", QueueSettings(), 0, 0),
        ("", 0, "ReplicaSet", BOUNDED, 0, 0),
        ("", 0, "StatefulSet", BOUNDED, 0, 0),
        ("20m", 0, "ReplicaSet", BOUNDED, 20 * MINUTE, 20 * MINUTE),
    ],
)
def test_I17_one_clock_the_first_that_says_it(
    note: str, own: int, kind: str, queue: QueueSettings, duration: int, limit: int
):
    owner = job("o", kind) if kind else None
    member = pod("a", owner, walltime=own, annotations=lasting(note) if note else {})
    found = walltime(annotations([member], []), [member], queue)
    assert (found.duration, found.limit, found.wrong) == (duration, limit, None)


def test_I17_pods_without_a_deadline_have_none_together():
    members = [pod("a", walltime=HOUR), pod("b")]
    assert walltime({}, members, QueueSettings()).duration == 0
    members[1] = pod("b", walltime=2 * HOUR)
    assert walltime({}, members, QueueSettings()).duration == 2 * HOUR


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        (lasting("soon"), "not a duration such as 3600, 90s or 2h30m"),
        (lasting("0"), "not a duration"),
        (lasting("99999999999d"), "at most"),
        (lasting("2h"), "asks for a walltime of 2h, queue default gives 1h at most"),
        ({"fairlead.dev/queue": "fast"}, "no such queue, the queues are default, short"),
        ({"fairlead.dev/on-timeout": "boom"}, "not one of fail, delete, pods"),
    ],
)
def test_what_cannot_be_meant_is_held_with_the_reason(notes: dict[str, str], words: str):
    settings = Settings(queues=(QueueSettings(longest=HOUR), BOUNDED))
    found = demand("pod", [pod("a", annotations=notes)], [], False, settings)
    assert found.hold is not None and found.hold.why is Why.INVALID
    assert words in found.hold.text


def test_a_pods_own_deadline_beyond_the_queues_maximum_is_held():
    settings = Settings(queues=(QueueSettings(longest=HOUR),))
    found = demand("pod", [pod("a", walltime=2 * HOUR)], [], False, settings)
    assert found.hold is not None and "gives 1h at most" in found.hold.text


# -- when the clock runs -----------------------------------------------------------------------------


def test_I4_the_clock_starts_when_all_members_run(world: World):
    """One member is bound late: what the other waits for it is not taken off the walltime."""
    world.pod(pod("a", group="g", annotations=lasting("5m")))
    world.run(3 * MINUTE)
    world.pod(pod("b", group="g", annotations=lasting("5m")))
    world.run(1_000)
    group = world.engine.state.groups["label:default/g#0"]
    assert group.started_at >= 3 * MINUTE
    world.run(5 * MINUTE - 2_000)
    assert group.phase is Phase.RUNNING
    world.run(2_000)
    assert outcome(world, group.id) is Outcome.TIMEOUT
    assert 0 <= world.groups[group.id].ended_at - group.started_at - 5 * MINUTE < 100


def test_I4_a_member_that_joins_late_has_what_is_left(world: World):
    world.pod(pod("a", group="g", size=1, annotations=lasting("1h")))
    world.run(40 * MINUTE)
    shape = Shape((("cpu", 64_000), ("pods", 1)))  # it waits for ever, so that its request can be seen
    world.pod(pod("b", group="g", size=1, shape=shape, annotations=lasting("1h")))
    world.run(1_000)
    (request,) = world.engine.state.waiting["label:default/g#0"]
    assert request.growth
    assert 19 * MINUTE < request.duration < 21 * MINUTE


# -- ending ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["walltime", "walltime_restart", "walltime_own", "walltime_maximum"])
def test_F7_at_its_limit_a_group_ends_as_timed_out(name: str):
    scenario.run(scenario.read(SCENARIOS / f"{name}.scn"))


def test_F7_the_end_comes_at_the_limit_and_once(world: World):
    world.pod(pod("a", annotations=lasting("90s")))
    world.run(10 * MINUTE)
    record = world.groups["pod:a#0"]
    assert record.outcome is Outcome.TIMEOUT
    assert 90_000 <= record.ended_at - record.started_at < 90_100
    (end,) = ends(world)
    assert [ref.uid for ref in end.pods] == ["a"]
    assert not end.fail and not end.delete


def test_F7_an_end_that_comes_to_nothing_is_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch):
    """The API server says no four times; the group is counted until it is gone."""
    carry_out = world._end  # pyright: ignore[reportPrivateUsage]
    asked: list[cmd.End] = []

    def refuse(command: cmd.End) -> None:
        asked.append(command)
        if len(asked) > 4:
            carry_out(command)

    monkeypatch.setattr(world, "_end", refuse)
    world.owner(job("j", annotations=lasting("1m")))
    world.pod(pod("a", job("j")))
    world.run(MINUTE + 5_000)
    group = world.engine.state.groups["job:j#0"]
    assert (group.phase, group.reason.why) == (Phase.RUNNING, Why.TIMEOUT)
    assert "a" in world.engine.state.inventory.held
    world.run(10 * MINUTE)
    assert len(asked) == 5
    assert outcome(world, group.id) is Outcome.TIMEOUT
    # Only the Job at first; when that came to nothing, its pods as well.
    assert [len(each.pods) for each in asked] == [0, 1, 1, 1, 1]
    assert all([ref.uid for ref in each.fail] == ["j"] for each in asked)


def test_F7_a_pod_that_is_on_its_way_is_not_asked_again(world: World):
    world.grace["a"] = HOUR
    world.pod(pod("a", annotations=lasting("1m")))
    world.run(30 * MINUTE)
    assert len(ends(world)) == 1
    assert "a" in world.engine.state.inventory.held
    world.run(HOUR)
    assert outcome(world, "pod:a#0") is Outcome.TIMEOUT
    assert "a" not in world.engine.state.inventory.held


@pytest.mark.parametrize("phase", [PodPhase.FAILED, PodPhase.SUCCEEDED])
def test_F7_timed_out_however_its_pods_end(world: World, phase: PodPhase):
    world.grace["a"] = HOUR
    world.pod(pod("a", annotations=lasting("1m")))
    world.run(2 * MINUTE)
    world.change("a", phase=phase)
    world.run(1_000)
    assert outcome(world, "pod:a#0") is Outcome.TIMEOUT


def test_F7_what_ends_at_its_limit_by_itself_is_complete(world: World):
    world.pod(pod("a", annotations=lasting("1m")), run_time=MINUTE)
    world.run(5 * MINUTE)
    assert outcome(world, "pod:a#0") is Outcome.COMPLETED
    assert not ends(world)


def test_B18_a_job_fails_and_stays_with_its_record():
    scenario.run(scenario.read(SCENARIOS / "walltime_job.scn"))


def test_B18_the_record_of_a_group_that_was_ended_stays(world: World):
    world.pod(pod("a", annotations=lasting("1m")))
    world.run(2 * MINUTE)
    assert "pod:a#0" not in world.engine.state.groups
    record = world.groups["pod:a#0"]
    assert (record.phase, record.outcome, record.nodes) == (Phase.ENDED, Outcome.TIMEOUT, ("n0",))
    assert record.reason.text == "its walltime of 1m is over"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "MPIJob"])
@pytest.mark.parametrize("wish", ["fail", "delete"])
def test_F10_other_owners_than_jobs_are_never_touched(world: World, kind: str, wish: str):
    owner = job("o", kind, size=2)
    world.owner(owner)
    notes = {**lasting("1m"), "fairlead.dev/on-timeout": wish}
    for uid in ("a", "b"):
        world.pod(pod(uid, owner, group="g", annotations=notes))
    world.run(2 * MINUTE)
    (end,) = ends(world)
    assert (end.fail, end.delete) == ((), ())
    assert [ref.uid for ref in end.pods] == ["a", "b"]
    assert "o" in world.owners


@pytest.mark.parametrize("wish", ["fail", "delete"])
def test_F10_a_job_of_which_others_have_pods_too_is_left(world: World, wish: str):
    """Two groups share a Job: one that is over takes its own pods with it, not the other's."""
    owner = job("j", size=4)
    world.owner(owner)
    notes = {**lasting("1m"), "fairlead.dev/on-timeout": wish}
    for uid in ("a", "b"):
        world.pod(pod(uid, owner, group="g", annotations=notes))
        world.pod(pod(f"{uid}2", owner, group="h"))
    world.run(2 * MINUTE)
    (end,) = ends(world)
    assert (end.fail, end.delete) == ((), ())
    assert [ref.uid for ref in end.pods] == ["a", "b"]
    assert world.engine.state.groups["label:default/h#0"].phase is Phase.RUNNING


def test_F10_owners_and_pods_are_named_by_uid_and_a_deleted_job_by_version(world: World):
    notes = {**lasting("1m"), "fairlead.dev/on-timeout": "delete"}
    world.owner(job("j", annotations=notes))
    world.pod(pod("a", job("j")))
    world.run(2 * MINUTE)
    (end,) = ends(world)
    assert [(ref.kind, ref.uid, ref.version > 0) for ref in end.delete] == [("Job", "j", True)]


def test_F10_pods_brought_for_one_that_was_ended_are_a_new_group(world: World):
    owner = job("o", "StatefulSet", size=2)
    world.owner(owner)
    world.grace["a"] = world.grace["b"] = 30_000
    for uid in ("a", "b"):
        world.pod(pod(uid, owner, group="g", annotations=lasting("1m")))
    world.run(MINUTE + 5_000)
    world.pod(pod("c", owner, group="g", annotations=lasting("1m")))
    world.run(1_000)
    groups = world.engine.state.groups
    assert list(groups["label:default/g#1"].pods) == ["c"]
    assert groups["label:default/g#1"].phase is Phase.HELD
    world.run(MINUTE)
    assert outcome(world, "label:default/g#0") is Outcome.TIMEOUT


def test_D10_services_run_on_whatever_the_queue_gives():
    scenario.run(scenario.read(SCENARIOS / "walltime_service.scn"))


# -- edits, deadlines of Jobs, begin times -----------------------------------------------------------


def test_I17_an_edited_limit_holds_at_once_and_plans_anew():
    scenario.run(scenario.read(SCENARIOS / "walltime_edited.scn"))


def test_I17_an_edit_of_the_job_and_of_its_pods_deadline_count(world: World):
    world.owner(job("j", annotations=lasting("10m")))
    world.pod(pod("a", job("j")))
    world.pod(pod("b", walltime=10 * MINUTE))
    world.run(1_000)
    groups = world.engine.state.groups
    assert (groups["job:j#0"].limit, groups["pod:b#0"].limit) == (10 * MINUTE, 0)
    world.owner(structs.replace(world.owners["j"], annotations=lasting("20m")))
    world.change("b", walltime=5 * MINUTE)
    world.run(100)
    assert (groups["job:j#0"].duration, groups["job:j#0"].limit) == (20 * MINUTE, 20 * MINUTE)
    assert (groups["pod:b#0"].duration, groups["pod:b#0"].limit) == (5 * MINUTE, 0)
    world.owner(structs.replace(world.owners["j"], annotations={}))
    world.run(HOUR)
    assert groups["job:j#0"].phase is Phase.RUNNING


def test_a_queues_new_default_is_not_for_what_runs(world: World):
    world.pod(pod("a"))
    world.run(1_000)
    world.engine.state.settings = Settings(queues=(QueueSettings(walltime=MINUTE),))
    world.change("a", labels={"x": "y"})
    world.run(5 * MINUTE)
    assert world.engine.state.groups["pod:a#0"].phase is Phase.RUNNING


def test_a_jobs_deadline_is_warned_of_while_it_waits_and_when_it_starts():
    scenario.run(scenario.read(SCENARIOS / "deadline.scn"))


def test_a_jobs_deadline_is_explained(world: World):
    world.owner(job("j", deadline=30 * MINUTE, started=world.now, annotations=lasting("1h")))
    world.pod(pod("a", job("j"), shape=Shape((("cpu", 4_000), ("pods", 1))), node=""))
    for name in list(world.nodes):
        world.node(structs.replace(world.nodes[name], unschedulable=True))
    world.run(20 * MINUTE)
    state = world.engine.state
    notes = explain(state, state.groups["job:j#0"], world.now).notes
    assert any("of Job j runs while it waits: Kubernetes will end it in 10m" in note for note in notes)
    assert "started now, it could not run for its walltime before Kubernetes ends it" in notes


def test_F12_begin_time_is_kept_to_the_second():
    for name in ("begin_time", "begin_time_restart"):
        scenario.run(scenario.read(SCENARIOS / f"{name}.scn"))
    told("""
        cluster 1 nodes cpu=4
        00:00 submit a 1x cpu=4 begin=00:30   -> hold a (begin-time)
        00:29:59.900 later                    -> hold a (begin-time)
        00:30 later                           -> start a
    """)
