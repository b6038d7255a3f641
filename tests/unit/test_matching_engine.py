"""Pods that mind other pods, through the whole engine: what people are told, and what was wrong once."""

import pytest
from msgspec import structs
from test_engine import engine, node, one, pod

from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.explain import amounts_text
from fairlead.core.story import explain
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase, Why
from fairlead.model.node import Taint
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, PodPhase
from fairlead.model.preferences import Preferences
from fairlead.model.rules import CLAIM, NO_RULES, PodTerm, Rules, Spread, Volume
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import QueueSettings, Settings

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
X = (Expression("app", Operator.IN, ("x",)),)
APART = Rules(anti_affinity=(PodTerm(HOST, X),))
TOGETHER = Rules(affinity=(PodTerm(ZONE, X),))


def host(name: str, zone: str, cpu: int = 4) -> ev.NodeSeen:
    return ev.NodeSeen(node(name, cpu=cpu, labels={HOST: name, ZONE: zone}))


def minding(name: str, rules: Rules, cpu: int = 1, group: str = "", size: int = 0, **fields: object) -> Pod:
    made = pod(name, cpu=cpu, group=group, size=size)
    shape = structs.replace(made.shape, rules=rules)
    return structs.replace(made, shape=shape, labels={**made.labels, "app": "x"}, **fields)


def gang(name: str, rules: Rules, size: int, cpu: int = 1) -> list[ev.PodSeen]:
    return [ev.PodSeen(minding(f"{name}-{i}", rules, cpu, name, size)) for i in range(size)]


def answer(made: Engine, commands: list[cmd.Command]) -> dict[str, str]:
    """Pod -> node of what is granted when the plan comes back."""
    plan = plan_now(one(commands, cmd.Propose).snapshot)  # type: ignore[union-attr]
    after = made.learn((ev.PlanProposed(plan),))
    grants = [g for each in after if isinstance(each, cmd.RecordAllocations) for g in each.grants]
    return {place.pod: place.node for grant in grants for place in grant.placements}


def the_group(made: Engine, name: str):
    return next(group for group in made.state.groups.values() if group.name == name)


def test_I5_members_that_keep_apart_are_each_on_a_node_of_their_own():
    made, commands = engine(host("a", "1"), host("b", "1"), host("c", "2"), *gang("g", APART, 3))
    assert sorted(answer(made, commands).values()) == ["a", "b", "c"]


def test_I5_a_plain_pod_keeps_off_where_one_that_is_there_forbids_it():
    guard = minding("other", APART, node="a", scheduler="default-scheduler")
    made, commands = engine(host("a", "1"), host("b", "1"), ev.PodSeen(guard), *gang("g", Rules(), 1))
    assert answer(made, commands) == {"g-0": "b"}


def test_L11_a_pod_that_came_while_the_plan_was_made_is_minded():
    made, commands = engine(host("a", "1"), host("b", "1"), *gang("g", Rules(), 1))
    guard = minding("other", APART, node="a", scheduler="default-scheduler")
    plan = plan_now(one(commands, cmd.Propose).snapshot)  # type: ignore[union-attr]
    after = made.learn((ev.PodSeen(guard), ev.PlanProposed(plan)))
    assert "may not be on a" in made.last_stale
    assert answer(made, after) == {"g-0": "b"}


def test_members_that_want_to_be_together_are_tried_in_each_zone():
    """The first zone has room for one and not for all: greedy placing alone would end there."""
    made, commands = engine(host("a", "1", cpu=1), host("b", "2"), host("c", "2"), *gang("g", TOGETHER, 5))
    assert set(answer(made, commands).values()) == {"b", "c"}


def test_I8_hard_spread_is_kept_within_one_group():
    even = Rules(spread=(Spread(ZONE, X),))
    made, commands = engine(host("a", "1", cpu=9), host("b", "2", cpu=9), *gang("g", even, 6))
    found = list(answer(made, commands).values())
    assert (found.count("a"), found.count("b")) == (3, 3)


def test_more_members_apart_than_nodes_are_told_so_and_looked_at_again_when_nodes_join():
    made, commands = engine(host("a", "1"), host("b", "1"), *gang("g", APART, 3))
    answer(made, commands)
    group = the_group(made, "g")
    assert (group.phase, group.outcome) == (Phase.ENDED, Outcome.REJECTED)
    assert f"each in another {HOST}, and 2 have room for one" in group.reason.text
    again = made.learn([ev.Tick(2_000), host("c", "1")])
    assert len(answer(made, again)) == 3


def test_who_waits_for_others_to_go_is_told_in_the_words_of_kube_scheduler():
    guard = minding("other", APART, node="a", scheduler="default-scheduler")
    made, commands = engine(host("a", "1"), ev.PodSeen(guard), *gang("g", Rules(), 1))
    assert answer(made, commands) == {}
    group = the_group(made, "g")
    assert group.reason.why is Why.BLOCKED
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in group.reason.text
    gone = made.learn([ev.Tick(2_000), ev.PodGone("other", 9)])
    assert answer(made, gone) == {"g-0": "a"}


def test_who_waits_for_others_to_come_starts_when_they_do():
    near = Rules(affinity=(PodTerm(ZONE, (Expression("app", Operator.IN, ("db",)),)),))
    made, commands = engine(host("a", "1"), host("b", "2"), *gang("g", near, 1))
    assert answer(made, commands) == {}
    assert "didn't match pod affinity rules" in the_group(made, "g").reason.text
    base = structs.replace(pod("db", node="b", scheduler="default-scheduler"), labels={"app": "db"})
    came = made.learn([ev.Tick(2_000), ev.PodSeen(base)])
    assert answer(made, came) == {"g-0": "b"}


def test_a_namespace_of_its_own_is_no_concern_of_others():
    guard = minding("other", APART, node="a", scheduler="default-scheduler", namespace="elsewhere")
    made, commands = engine(host("a", "1"), ev.PodSeen(guard), *gang("g", Rules(), 1))
    assert answer(made, commands) == {"g-0": "a"}


def test_labels_that_nobody_speaks_of_do_not_tell_members_apart():
    members = [
        structs.replace(
            minding(f"g-{i}", APART, 1, "g", 3),
            labels={**minding("x", APART, 1, "g", 3).labels, "index": str(i)},
        )
        for i in range(3)
    ]
    made, _ = engine(host("a", "1"), *map(ev.PodSeen, members))
    (request,) = the_group(made, "g").requests
    assert [len(task.uids) for task in request.tasks] == [3]


def test_unlike_members_on_one_node_are_counted_together():
    """Only the largest task was compared with what is free, so that three cores were granted on two."""
    made, commands = engine(
        ev.NodeSeen(node("a", cpu=3)), ev.PodSeen(pod("first", node="a")), settings=Settings(pace=0)
    )
    small, large = pod("s", cpu=1, group="g", size=2), pod("l", cpu=2, group="g", size=2)
    commands = made.learn([ev.PodSeen(small), ev.PodSeen(large)])
    assert answer(made, commands) == {}
    assert not made.last_stale


# -- wishes: they decide where the policy sees no difference -----------------------------------------


def wishing(name: str, **wishes: object) -> ev.PodSeen:
    return ev.PodSeen(structs.replace(pod(name), wishes=Preferences(**wishes)))


def zoned(name: str, zone: str, **fields: object) -> ev.NodeSeen:
    return ev.NodeSeen(node(name, labels={HOST: name, ZONE: zone}, **fields))


IN_TWO = ((50, (Expression(ZONE, Operator.IN, ("2",)),)),)


@pytest.mark.parametrize("match", ["first", "pack", "spread"])
def test_preferred_node_affinity_decides_between_equals(match: str):
    made, commands = engine(
        zoned("a", "1"), zoned("b", "2"), zoned("c", "1"), settings=Settings(pace=0, match=match)
    )
    assert commands == []
    commands = made.learn([wishing("p", nodes=IN_TWO)])
    assert answer(made, commands) == {"p": "b"}


def test_a_wish_does_not_outweigh_the_policy():
    made, _ = engine(zoned("a", "1"), zoned("b", "2"), settings=Settings(pace=0, match="pack"))
    made.learn([ev.PodSeen(pod("there", node="a", scheduler="other"))])
    commands = made.learn([wishing("p", nodes=IN_TWO)])
    assert answer(made, commands) == {"p": "a"}


def test_a_node_that_prefers_to_be_left_alone_comes_last():
    shy = (Taint("k", "v", "PreferNoSchedule"),)
    made, commands = engine(zoned("a", "1", taints=shy), zoned("b", "1"), *gang("g", NO_RULES, 5))
    found = list(answer(made, commands).values())
    assert (found.count("a"), found.count("b")) == (1, 4)


def test_a_large_image_is_not_pulled_again_where_it_need_not_be():
    here = (("big:1", 900 << 20),)
    made, _ = engine(zoned("a", "1"), zoned("b", "1", images=here), zoned("c", "1"))
    commands = made.learn([wishing("p", images=("big:1",)), wishing("q", images=("small:1",))])
    assert answer(made, commands) == {"p": "b", "q": "a"}


def test_preferred_pod_affinity_and_soft_spread_look_at_the_pods_there():
    db = structs.replace(pod("db", node="b", scheduler="other"), labels={"app": "db"})
    near = ((100, PodTerm(HOST, (Expression("app", Operator.IN, ("db",)),))),)
    made, _ = engine(zoned("a", "1"), zoned("b", "1"), zoned("c", "1"), ev.PodSeen(db))
    commands = made.learn([wishing("p", affinity=near), wishing("q", anti_affinity=near)])
    assert answer(made, commands) == {"p": "b", "q": "a"}
    even = (Spread(HOST, (Expression("app", Operator.IN, ("db",)),)),)
    made, _ = engine(zoned("b", "1"), zoned("c", "1"), ev.PodSeen(db))
    assert answer(made, made.learn([wishing("r", spread=even)])) == {"r": "c"}


def test_I8_under_locality_a_gang_lies_on_as_few_racks_as_it_can():
    rack = "topology.kubernetes.io/rack"
    sizes = {"a": ("r1", 1), "b": ("r2", 2), "c": ("r1", 1), "d": ("r2", 2)}
    nodes = [ev.NodeSeen(node(name, cpu=cpu, labels={rack: r})) for name, (r, cpu) in sizes.items()]
    for match, expected in (("first", {"a", "b", "c"}), ("locality", {"b", "d"})):
        made, _ = engine(*nodes, settings=Settings(pace=0, match=match))
        commands = made.learn(gang("g", NO_RULES, 4))
        assert set(answer(made, commands).values()) == expected


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_promise_that_others_stand_in_the_way_of_is_given_anew_and_kept_in_the_end(policy: str):
    """The place it was promised comes free in time, but one that it must keep away from has come there."""
    queue = QueueSettings("default", policy=policy)
    running = structs.replace(
        pod("r", group="r", size=1, cpu=4), annotations={"fairlead.dev/duration": "10m"}, version=5
    )
    made, commands = engine(host("a", "1"), ev.PodSeen(running), settings=Settings(pace=0, queues=(queue,)))
    do_all(made, commands)
    head = [
        structs.replace(each.pod, annotations={"fairlead.dev/duration": "10m"})
        for each in gang("g", APART, 1)
    ]
    do_all(made, made.learn([ev.PodSeen(each) for each in head]))
    group = the_group(made, "g")
    assert group.estimate == 1_000 + 600_000
    guard = minding("other", APART, node="a", scheduler="default-scheduler", cpu=0)
    do_all(made, made.learn([ev.Tick(300_000), ev.PodSeen(guard)]))
    gone = structs.replace(made.state.pods["r"], phase=PodPhase.SUCCEEDED, version=2_000)
    do_all(made, made.learn([ev.Tick(601_000), ev.PodSeen(gone)]))
    assert group.phase is Phase.QUEUED and "anti-affinity" in group.reason.text
    do_all(made, made.learn([ev.Tick(700_000), ev.PodGone("other", 3_000)]))
    assert group.phase is Phase.RUNNING


def do_all(made: Engine, commands: list[cmd.Command]) -> None:
    """Carry out what the engine wants until it wants nothing more."""
    for version in range(1_000, 1_100):
        events: list[ev.Event] = []
        for each in commands:
            match each:
                case cmd.Propose():
                    events.append(ev.PlanProposed(plan_now(each.snapshot)))
                case cmd.RecordAllocations():
                    events.append(ev.AllocationsRecorded(each.plan))
                case cmd.Bind():
                    there = structs.replace(made.state.pods[each.pod], node=each.node, phase=PodPhase.RUNNING)
                    events += [ev.Bound(each.pod, each.grant, each.node)]
                    events += [ev.PodSeen(structs.replace(there, version=version, started=True))]
                case _:
                    pass
        if not events:
            return
        commands = made.learn(events)
    raise AssertionError("it never comes to rest")


def test_unlike_members_are_tried_in_another_order_before_the_group_waits():
    """Its leader wants another like it near and none else: it can only be the first."""
    z = (Expression("app", Operator.IN, ("x",)),)
    alone = Rules(affinity=(PodTerm(HOST, z),), anti_affinity=(PodTerm(ZONE, z),))
    leader = minding("l", alone, group="g", size=2)
    worker = minding("w", Rules(), group="g", size=2, cpu=2)
    for members in ((leader, worker), (worker, leader)):
        nodes = [host("a", "1"), ev.NodeSeen(node("b", cpu=2, labels={HOST: "b"}))]
        made, commands = engine(*nodes, *map(ev.PodSeen, members))
        assert answer(made, commands) == {"l": "a", "w": "b"}


def test_what_is_told_counts_only_nodes_that_would_do_otherwise():
    guard = minding("other", APART, node="b", scheduler="default-scheduler")
    made, commands = engine(host("a", "1", cpu=0), host("b", "1"), ev.PodSeen(guard), *gang("g", Rules(), 1))
    answer(made, commands)
    assert the_group(made, "g").reason.text.endswith(
        ": 1 node(s) didn't satisfy existing pods anti-affinity rules"
    )


def test_members_that_fit_one_by_one_only_are_told_so():
    leader = minding("l", APART, group="g", size=2)
    made, commands = engine(host("a", "1"), *map(ev.PodSeen, (leader, minding("w", Rules(), 1, "g", 2))))
    answer(made, commands)
    assert "room for each of them, but not for all together" in the_group(made, "g").reason.text


def test_host_ports_are_called_what_people_call_them():
    asked = (
        ("cpu", 100),
        ("pods", 1),
        ("port:TCP/80", 1),
        ("port:TCP/80@10.0.0.1", 1),
        ("port:UDP/53", 1 << 20),
    )
    assert amounts_text(asked) == "cpu=0.1 hostPort=80/TCP on 10.0.0.1 hostPort=53/UDP"


# -- who waits for more than the end of work holds up nobody -----------------------------------------


def replica(name: str) -> list[ev.Event]:
    """A pod of a Deployment that wants a node of its own."""
    owner = Owner("rs", "ReplicaSet", "default", "web", 1, size=9)
    made = structs.replace(minding(name, APART), owner=OwnerRef("ReplicaSet", "web", "rs"))
    return [ev.OwnerSeen(owner), ev.PodSeen(made)]


def test_a_replica_too_many_does_not_hold_up_the_queue():
    made, commands = engine(host("a", "1"), *replica("r1"), *replica("r2"))
    do_all(made, commands)
    blocked = the_group(made, "r2")
    assert (blocked.phase, blocked.reason.why) == (Phase.QUEUED, Why.BLOCKED)
    assert "didn't match pod anti-affinity rules" in blocked.reason.text
    do_all(made, made.learn([ev.Tick(2_000), ev.PodSeen(pod("batch"))]))
    assert the_group(made, "batch").phase is Phase.RUNNING
    do_all(made, made.learn([ev.Tick(3_000), host("b", "1")]))
    assert blocked.phase is Phase.RUNNING


def test_a_missing_claim_does_not_hold_up_the_queue():
    shape = pod("c").shape
    claims = structs.replace(shape, rules=Rules(volumes=(Volume(CLAIM, "nope"),)))
    made, commands = engine(
        host("a", "1"), ev.PodSeen(structs.replace(pod("c"), shape=claims)), ev.PodSeen(pod("d"))
    )
    do_all(made, commands)
    assert the_group(made, "c").reason.why is Why.BLOCKED
    assert 'persistentvolumeclaim "nope" not found' in the_group(made, "c").reason.text
    assert the_group(made, "d").phase is Phase.RUNNING
    assert "others pass it meanwhile" in explain(made.state, the_group(made, "c"), 1_000).next_step


def test_who_waits_for_work_that_will_end_keeps_its_place():
    made, commands = engine(
        host("a", "1"), *gang("g", APART, 1), *gang("h", APART, 1), ev.PodSeen(pod("late"))
    )
    do_all(made, commands)
    assert the_group(made, "g").phase is Phase.RUNNING
    assert the_group(made, "h").reason.why is Why.RESOURCES
    assert the_group(made, "late").phase is Phase.QUEUED
