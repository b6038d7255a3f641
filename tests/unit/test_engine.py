"""What the engine must never do, by requirement, and each bug that was found in it once."""

from collections.abc import Iterator

import pytest
from msgspec import structs
from test_scenarios import play

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.core.lifecycle import MOVES, may_move
from fairlead.core.tombstones import LIFE
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.plan import Grant, Placement, Plan, Reject, Start
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape
from fairlead.model.settings import Settings
from fairlead.sim import scenario
from fairlead.sim.world import World


def node(name: str, version: int = 1, cpu: int = 4, uid: str = "", **fields: object) -> Node:
    made = Node(uid or f"uid-{name}", name, version, (("cpu", cpu * 1000), ("pods", 110)))
    return structs.replace(made, **fields)


def pod(name: str, version: int = 1, cpu: int = 1, group: str = "", size: int = 0, **fields: object) -> Pod:
    labels = {"fairlead.dev/group": group, "fairlead.dev/group-size": str(size)} if group else {}
    made = Pod(
        name, "default", name, version, Shape((("cpu", cpu * 1000), ("pods", 1))), "fairlead", labels=labels
    )
    return structs.replace(made, **fields)


def engine(*events: ev.Event, settings: Settings | None = None) -> tuple[Engine, list[cmd.Command]]:
    """An engine with nodes and an empty store, and what it answered to the events."""
    made = Engine(settings or Settings(pace=0), RECONCILERS)
    first = (ev.Tick(1_000), ev.StoreReady(1), *(ev.Synced(s) for s in made.state.settings.sources))
    return made, made.learn((*first, *events))


def one(commands: list[cmd.Command], kind: type[cmd.Command]) -> cmd.Command:
    found = [command for command in commands if isinstance(command, kind)]
    assert len(found) == 1, commands
    return found[0]


def starting(commands: list[cmd.Command], *groups: str, head: str = "", node: str = "n0") -> ev.PlanProposed:
    """The planner's answer to Propose: these groups (`label:…#0`) start on one node."""
    snapshot = one(commands, cmd.Propose).snapshot  # type: ignore[union-attr]
    starts = tuple(
        Start(r.group, tuple(Placement(u, node) for t in r.tasks for u in t.uids), r.growth)
        for r in snapshot.waiting
        if not groups or r.group in groups
    )
    return ev.PlanProposed(
        Plan("1-1", snapshot.version, snapshot.now, "fairlead", starts, (("default", head),) if head else ())
    )


# -- requirements proved by scenarios ----------------------------------------------------------------


def test_F13_a_group_label_changed_before_and_after_the_start():
    play("labels_removed")


def test_F15_F27_a_member_deleted_between_match_and_bind():
    play("ladder_1_member_left")


def test_F16_impossible_groups_are_told_and_looked_at_again():
    play("rejected")


def test_F22_L2_leader_and_workers_of_unlike_sizes():
    play("unlike_members")


def test_I3_a_job_made_again_under_its_name():
    play("job_again")
    play("job_again_labelled")
    play("job_suspended")


def test_I6_a_thousand_groups_of_one_second_start_in_their_order():
    report = play("burst")
    assert report.started == [f"g{i}" for i in range(1000)]


def test_B4_one_rejection_does_not_stop_others():
    play("rejection_is_alone")


def test_B5_first_come_first_served_and_waiting_groups_are_woken():
    play("no_overtaking")
    play("burst_waiting")


def test_B8_B23_I13_members_that_end_or_vanish_give_back_their_share_and_no_more():
    play("phases")
    play("surplus")
    report = scenario.run(
        scenario.parse(
            "cluster 1 nodes cpu=4\n"
            "00:00 submit a 4x cpu=1 -> start a n0*4\n"
            "00:01 finish a-0 -> free n0 cpu=1; run a\n"
            "00:02 delete a-1 -> free n0 cpu=2; run a\n"
            "00:03 delete a -> free n0 cpu=4; gone a\n"
        )
    )
    assert report.started == ["a"]


def test_B12_a_gang_of_which_one_cannot_be_bound_is_completed_or_taken_back():
    play("ladder_1_refused")
    play("ladder_2_forward")
    play("ladder_3_evicts")


def test_B19_replacement_pod_joins_running_group():
    play("surplus")
    play("node_lost_while_running")


def test_B20_surplus_pods_start_too():
    play("surplus")


def test_B24_same_pod_name_in_two_namespaces():
    play("same_names")


def test_L1_killed_at_any_point_nothing_is_lost_or_started_twice():
    for name in (
        "crash_waiting",
        "crash_before_durable",
        "crash_running",
        "crash_label_reused",
        "store_late",
    ):
        play(name)


def test_L6_pods_that_were_there_before_count_and_give_back():
    play("foreign")


# -- requirements proved here ------------------------------------------------------------------------


def told(text: str) -> None:
    scenario.run(scenario.parse("\n".join(line.strip() for line in text.strip().splitlines())))


def test_B6_a_pod_that_comes_while_its_group_starts_does_not_change_the_start():
    told("""
        cluster 2 nodes cpu=4
        00:00 binds of a-1 unknown 2
        + submit a 2x cpu=2       -> start a n0; starting a
        00:00:00.500 bring a 1    -> starting a; on a n0,n1
        00:00:05 later            -> run a; on a n0*2,n1
    """)


def test_B7_the_name_of_a_group_that_ended_can_be_used_again():
    told("""
        cluster 2 nodes cpu=4
        00:00 submit a 2x cpu=4 runs 1m   -> start a n0-n1
        00:02 submit a 2x cpu=2 runs 1m   -> start a n0*2
        00:04 delete a                    -> gone a
        00:05 submit a 2x cpu=4           -> start a n0-n1
    """)


def test_B13_a_bare_pod_without_labels_is_a_group_of_its_own():
    told("""
        cluster 1 nodes cpu=4
        00:00 submit a 1x cpu=1           -> start a n0; run a
    """)


def test_B22_several_members_of_unlike_size_on_one_node():
    told("""
        cluster 1 nodes cpu=8 match=pack
        00:00 submit a 1x cpu=4 + 3x cpu=1   -> start a n0*4; free n0 cpu=1
    """)


def test_B9_the_same_pod_again_does_not_count_twice():
    made, _ = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a", 1, group="g", size=2)))
    for version in (1, 2, 2, 3):
        made.learn([ev.PodSeen(pod("a", version, group="g", size=2))])
    group = made.state.groups["label:default/g#0"]
    assert (group.phase, group.seen) == (Phase.HELD, 1)
    assert group.reason == Reason(Why.WAITING_FOR_GROUP, "has 1 of 2")


def test_F3_the_node_assumed_is_the_node_bound_for_every_bind():
    world = World()
    for i in range(5):
        world.node(node(f"n{i}"))
    for i in range(40):
        world.pod(pod(f"p{i}", cpu=1 + i % 3, group=f"g{i // 4}", size=4), run_time=1_000)
    world.run(60_000)
    granted = {
        place.pod: place.node
        for _, c in world.log
        if isinstance(c, cmd.RecordAllocations)
        for grant in c.grants
        for place in grant.placements
    }
    binds = [c for _, c in world.log if isinstance(c, cmd.Bind)]
    assert len(binds) == 40
    assert {b.pod: b.node for b in binds} == granted == {p.uid: p.node for p in world.pods.values()}


def test_F6_the_place_in_the_queue_and_the_first_sight_survive_a_restart():
    world = World()
    world.pod(pod("a", cpu=9, group="g", size=2))
    world.run(5_000)
    first = world.groups["label:default/g#0"]
    world.crash()
    world.start()
    world.run(5_000)
    again = world.groups["label:default/g#0"]
    assert (again.seq, again.first_seen) == (first.seq, first.first_seen)
    assert first.first_seen < 2_000


def test_B11_a_plan_whose_placements_do_not_match_the_members_is_refused():
    made, commands = engine(
        ev.NodeSeen(node("n0")), *(ev.PodSeen(pod(f"p{i}", 1, group="g", size=2)) for i in "01")
    )
    snapshot = one(commands, cmd.Propose).snapshot  # type: ignore[union-attr]
    gid = "label:default/g#0"
    for pods in (("p0",), ("p0", "p0"), ("p0", "p1", "p1"), ("p0", "zz"), ()):
        plan = Plan(
            "x", snapshot.version, 0, "outside", (Start(gid, tuple(Placement(p, "n0") for p in pods)),)
        )
        answers = made.learn([ev.PlanProposed(plan)])
        assert not [c for c in answers if isinstance(c, cmd.RecordAllocations)]
        assert not made.state.intents
    assert made.state.groups[gid].phase is Phase.QUEUED


def test_F14_a_plan_made_before_its_node_was_closed_is_not_carried_out():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    answers = made.learn([ev.NodeSeen(node("n0", 2, unschedulable=True)), starting(commands)])
    assert not [c for c in answers if isinstance(c, cmd.RecordAllocations)]
    assert one(answers, cmd.Propose)


def test_a_late_plan_lets_nobody_overtake_who_came_meanwhile():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    answers = made.learn([ev.PodSeen(pod("b", 2, priority=5)), starting(commands)])
    assert made.last_stale.startswith("pod:b#0 arrived ahead")
    assert [r.group for r in one(answers, cmd.Propose).snapshot.waiting] == ["pod:b#0", "pod:a#0"]  # type: ignore[union-attr]


def test_nothing_is_bound_before_the_start_is_durable():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    answers = made.learn([starting(commands)])
    assert one(answers, cmd.RecordAllocations)
    assert not [c for c in answers if isinstance(c, cmd.Bind)]
    assert one(made.learn([ev.AllocationsRecorded("1-1")]), cmd.Bind)
    assert not [c for c in made.learn([ev.AllocationsRecorded("1-1")]) if isinstance(c, cmd.Bind)]


def test_a_refused_start_leaves_nothing_behind():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    made.learn([starting(commands)])
    made.learn([ev.StoreLost("fenced"), ev.AllocationsRefused("1-1", "fenced")])
    assert not made.state.intents
    assert made.state.groups["pod:a#0"].phase is Phase.QUEUED
    assert made.state.groups["pod:a#0"].record().nodes == ()


# -- bugs found by a second reading ------------------------------------------------------------------


def test_a_rejection_from_before_a_node_joined_does_not_count():
    """The group would never be looked at again: nobody would wake it."""
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a", cpu=8)))
    snapshot = one(commands, cmd.Propose).snapshot  # type: ignore[union-attr]
    never = Reject("pod:a#0", Reason(Why.UNSATISFIABLE, "too large"))
    plan = Plan("1-1", snapshot.version, 0, "fairlead", (never,))
    answers = made.learn([ev.NodeSeen(node("n1", 2, cpu=8)), ev.PlanProposed(plan)])
    assert made.state.groups["pod:a#0"].phase is Phase.QUEUED
    assert one(answers, cmd.Propose)


def test_a_rejection_counts_also_behind_a_start_that_has_gone_stale():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")), ev.PodSeen(pod("b", cpu=9)))
    plan = starting(commands, "pod:a#0").plan
    never = Reject("pod:b#0", Reason(Why.UNSATISFIABLE, "too large"))
    plan = structs.replace(plan, decisions=(*plan.decisions, never))
    made.learn([ev.PodGone("a", 9), ev.PlanProposed(plan)])
    assert made.state.groups["pod:b#0"].rejected


def test_a_plan_heard_twice_is_carried_out_once():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    plan = starting(commands)
    made.learn([plan])
    made.learn([ev.AllocationsRecorded("1-1"), ev.BindFailed("a", "1-1/0", ev.BindError.REFUSED)])
    answers = made.learn([ev.Tick(9_000), plan])
    assert not [c for c in answers if isinstance(c, cmd.RecordAllocations)]


def test_a_pod_bound_elsewhere_wakes_those_who_wait_for_its_place():
    made, commands = engine(
        ev.NodeSeen(node("n0")),
        ev.NodeSeen(node("n1")),
        ev.PodSeen(pod("a", cpu=4)),
        ev.PodSeen(pod("b", cpu=3)),
    )
    made.learn([starting(commands, "pod:a#0", head="pod:b#0")])
    made.learn([ev.AllocationsRecorded("1-1")])
    made.state.dirty = False
    made.learn([ev.StoreLost("so that it can be seen")])
    made.learn([ev.PodSeen(pod("a", 5, cpu=4, node="n1"))])
    assert made.state.dirty


def test_B15_pods_seen_before_the_store_answers_find_their_groups():
    made = Engine(Settings(pace=0), RECONCILERS)
    record = GroupRecord(
        "label:default/g#3", "label:default/g", 3, "default", "g", 7, 500, "label", 2, phase=Phase.RUNNING,
        granted_at=600, nodes=("n0",),
    )  # fmt: skip
    bound = pod("a", 3, group="g", size=2, node="n0", phase=PodPhase.RUNNING)
    made.learn([ev.Tick(1_000), ev.NodeSeen(node("n0")), ev.Synced("nodes"), ev.Synced("owners")])
    made.learn([ev.PodSeen(bound), ev.PodSeen(pod("b", 4)), ev.Synced("pods")])
    assert made.state.groups == {}
    made.learn([ev.Tick(60_000), ev.GroupRestored(record), ev.StoreReady(2), ev.Synced("store")])
    assert list(made.state.groups) == ["label:default/g#3", "pod:b#0"]
    assert list(made.state.groups["label:default/g#3"].pods) == ["a"]
    assert made.state.groups["pod:b#0"].first_seen == 1_000
    assert made.state.groups["pod:b#0"].seq == 8


def test_a_restored_grant_of_an_ended_group_is_settled():
    made = Engine(Settings(pace=0), RECONCILERS)
    ended = GroupRecord(
        "pod:a#0", "pod:a", 0, "default", "a", 1, 1, phase=Phase.ENDED, outcome=Outcome.COMPLETED
    )
    grant = Grant("1-1/0", "1-1", "pod:a#0", 1, 1, (Placement("a", "n0"),))
    answers = made.learn([ev.GroupRestored(ended), ev.GrantRestored(grant, 10), ev.Synced("store")])
    assert one(answers, cmd.SettleGrants).grants == ("1-1/0",)  # type: ignore[union-attr]


def test_two_restored_grants_of_one_pod_do_not_both_stay_open():
    record = GroupRecord("pod:a#0", "pod:a", 0, "default", "a", 1, 1, phase=Phase.STARTING, granted_at=1)
    grants = [Grant(f"1-{i}/0", f"1-{i}", "pod:a#0", 1, i, (Placement("a", f"n{i}"),)) for i in (1, 2)]
    made = Engine(Settings(pace=0), RECONCILERS)
    made.learn([ev.GroupRestored(record), *(ev.GrantRestored(g, 10) for g in grants), ev.Synced("store")])
    assert list(made.state.grants) == ["1-2/0"]
    assert made.state.intents["a"].node == "n2"


def test_news_of_an_earlier_node_of_the_same_name_is_old_news():
    made, _ = engine(ev.NodeSeen(node("n0", 1, uid="old")), ev.NodeSeen(node("n0", 9, cpu=8, uid="new")))
    made.learn([ev.NodeSeen(node("n0", 5, cpu=2, uid="old")), ev.NodeGone("old", 6)])
    assert made.state.inventory.node("n0") == node("n0", 9, cpu=8, uid="new")


def test_a_first_request_for_a_new_resource_in_a_plan_is_no_crash():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a")))
    odd = Shape(tuple((f"example.com/r{i}", 1) for i in range(20)))
    answers = made.learn([ev.PodSeen(pod("a", 2, shape=odd, gated=True)), starting(commands)])
    assert not [c for c in answers if isinstance(c, cmd.RecordAllocations)]


def test_the_status_of_a_replica_set_does_not_touch_the_groups_of_its_pods():
    owner = Owner("rs", "ReplicaSet", "default", "web", 1, 3)
    made, _ = engine(
        ev.NodeSeen(node("n0")),
        ev.OwnerSeen(owner),
        ev.PodSeen(pod("a", owner=OwnerRef("ReplicaSet", "web", "rs"))),
    )
    made.learn([ev.OwnerSeen(structs.replace(owner, version=2))])
    assert made._touched == {}


def test_a_bind_is_not_sent_where_somebody_else_has_come_meanwhile():
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a", cpu=3)))
    made.learn([starting(commands)])
    other = pod("f", 5, cpu=2, node="n0", scheduler="default-scheduler", phase=PodPhase.RUNNING)
    answers = made.learn([ev.PodSeen(other), ev.AllocationsRecorded("1-1")])
    assert not [c for c in answers if isinstance(c, cmd.Bind)]
    assert made.state.intents == {}
    assert made.state.groups["pod:a#0"].reason.why is Why.BACKOFF


def test_the_same_timer_is_kept_once():
    begin = {"fairlead.dev/begin-time": "2099-01-01T00:00:00Z"}
    made, _ = engine(ev.NodeSeen(node("n0")))
    for version in range(1, 200):
        made.learn([ev.PodSeen(pod("a", version, annotations=begin))])
    assert len(made.state._timers) < 10


# -- nothing grows for ever --------------------------------------------------------------------------


def churn(made: Engine, groups: int) -> Iterator[list[cmd.Command]]:
    """Short groups, each a label group of its own, that come, run, end and are deleted, 50 at a time."""
    version, now = 10, 10_000
    for begin in range(0, groups, 50):
        names = [f"p{begin + i}" for i in range(50)]
        for fields in ({}, {"node": "n0"}, {"node": "n0", "phase": PodPhase.SUCCEEDED}):
            version, now = version + 1, now + 1_000
            seen = [ev.PodSeen(pod(n, version, group=f"g-{n}", size=1, **fields)) for n in names]
            yield made.learn([ev.Tick(now), *seen])
            made.state.planning = -1
        version += 1
        yield made.learn([ev.Tick(now), *(ev.PodGone(n, version) for n in names)])


def test_ten_thousand_short_groups_leave_the_state_as_small_as_before():
    made, _ = engine(ev.NodeSeen(node("n0", cpu=100)), settings=Settings(pace=0, retention=60_000))
    for _ in churn(made, 10_000):
        pass
    state = made.state
    for name, value in vars(state).items():
        if isinstance(value, dict | list | set) and name not in ("tombstones", "incarnations", "retired"):
            assert len(value) < 500, f"{name} holds {len(value)}"  # a few seconds of work
    assert len(state.tombstones) <= 10_000
    assert len(state.incarnations) < 2_000, "numbers of labels are kept as long as their records, no longer"
    assert len(state.inventory.held) == 0
    assert check(state) == []


def test_tombstones_do_not_outlive_their_time():
    made, _ = engine(ev.NodeSeen(node("n0", cpu=100)))
    for i in range(12_000):
        made.learn([ev.Tick(1_000 + i * 1_000), ev.PodGone(f"x{i}", i)])
    assert len(made.state.tombstones) <= 4_096


def test_an_owner_is_known_to_be_gone_as_long_as_a_group_names_it():
    made, _ = engine(ev.NodeSeen(node("n0", cpu=100)))
    made.learn([ev.PodSeen(pod("a", 1, owner=OwnerRef("Job", "j", "job-1"))), ev.OwnerGone("job-1", 2)])
    for i in range(12_000):
        made.learn([ev.Tick(1_000 + i * 1_000), ev.PodGone(f"x{i}", i)])
    assert "job-1" in made.state.tombstones
    assert len(made.state.tombstones) <= 4_096 + 1


def test_a_busy_hour_is_remembered_for_no_longer_than_a_tombstone_lives():
    made, _ = engine(ev.NodeSeen(node("n0", cpu=100)))
    for i in range(3_600):
        made.learn([ev.Tick(1_000 + i * 1_000), *(ev.PodGone(f"x{i}-{n}", i) for n in range(50))])
    assert 50 * LIFE // 1000 <= len(made.state.tombstones) <= 50 * (LIFE // 1000 + 2)


# -- the table of moves ------------------------------------------------------------------------------


@pytest.mark.parametrize("old", list(Phase))
@pytest.mark.parametrize("new", list(Phase))
def test_every_move_is_in_the_table_or_refused(old: Phase, new: Phase):
    assert may_move(old, new) == (new in MOVES[old])


def test_every_phase_can_end_and_only_rejected_groups_come_back():
    assert all(Phase.ENDED in MOVES[phase] for phase in Phase if phase is not Phase.ENDED)
    assert Phase.RUNNING not in MOVES[Phase.ENDED]
