"""What a second reading found wrong in how pods that mind others wait and are placed; each failed once."""

from collections.abc import Iterable

import pytest
from msgspec import structs
from test_engine import engine, node, one, pod
from test_matching_engine import (
    APART,
    HOST,
    TOGETHER,
    ZONE,
    X,
    answer,
    do_all,
    gang,
    host,
    minding,
    the_group,
)

from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome
from fairlead.model.plan import Plan
from fairlead.model.pod import Pod, PodPhase
from fairlead.model.rules import CLAIM, EPHEMERAL, PodTerm, Rules, Spread, Volume
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import PartitionSettings, QueueSettings, Settings
from fairlead.model.storage import Claim, CsiNode, StorageClass

RACK = "topology.kubernetes.io/rack"
EVEN = Rules(spread=(Spread(ZONE, X),))
NEAR_DB = Rules(affinity=(PodTerm(ZONE, (Expression("app", Operator.IN, ("db",)),)),))
IN_ONE_RACK = {"fairlead.dev/required-topology": RACK}


def noted(made: Pod, **notes: str) -> ev.PodSeen:
    """The pod with annotations of ours."""
    ours = {f"fairlead.dev/{key}": value for key, value in notes.items()}
    return ev.PodSeen(structs.replace(made, annotations={**made.annotations, **ours}))


def under(policy: str, *nodes: ev.NodeSeen) -> Engine:
    queue = QueueSettings("default", policy=policy)
    return engine(*nodes, settings=Settings(pace=0, queues=(queue,)))[0]


def told(made: Engine, *events: ev.Event) -> None:
    do_all(made, made.learn(events))


def ended(made: Engine, names: Iterable[str]) -> list[ev.Event]:
    pods = [made.state.pods[name] for name in names]
    return [ev.PodSeen(structs.replace(each, phase=PodPhase.SUCCEEDED, version=5_000)) for each in pods]


def racked(name: str, rack: str, cpu: int, version: int = 1) -> ev.NodeSeen:
    return ev.NodeSeen(node(name, version, cpu=cpu, labels={HOST: name, ZONE: "1", RACK: rack}))


def plans_again(commands: Iterable[cmd.Command]) -> bool:
    return any(isinstance(command, cmd.Propose) for command in commands)


# -- where nobody may be -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize("due", [False, True])
def test_who_starts_from_a_promise_is_counted_by_those_started_after_it(policy: str, due: bool):
    made = under(policy, host("a", "1"), host("b", "2"))
    for name in ("r1", "r2"):
        told(made, noted(pod(name, group=name, size=1, cpu=4), duration="10m"))
    told(made, noted(minding("b-0", Rules(), 2, "b", 1), duration="10m"))
    told(made, noted(minding("s-0", EVEN, 2, "s", 1), duration="10m"))
    told(made, ev.Tick(601_100 if due else 300_000), *ended(made, ("r1", "r2")))
    assert {made.state.pods["b-0"].node, made.state.pods["s-0"].node} == {"a", "b"}


def test_a_plan_from_outside_does_not_hide_what_has_changed_from_our_own():
    made, commands = engine(host("a", "1"), host("b", "1"), *gang("z", APART, 1, 99), *gang("g", Rules(), 1))
    plan = plan_now(one(commands, cmd.Propose).snapshot)  # type: ignore[union-attr]
    made.learn([ev.PodSeen(minding("other", APART, node="a", scheduler="default-scheduler"))])
    made.learn([ev.PlanProposed(Plan("ext", 0, 1_000, "outside", ()))])
    made.learn([ev.PlanProposed(plan)])
    assert "may not be on a" in made.last_stale


def test_zones_outside_the_partition_count_for_spread_as_for_kube_scheduler():
    inside = PartitionSettings("p", (Expression(ZONE, Operator.IN, ("1",)),))
    queue = QueueSettings("default", partition="p")
    settings = Settings(pace=0, queues=(queue,), partitions=(inside,))
    made, commands = engine(host("a", "1"), host("b", "2"), *gang("g", EVEN, 2), settings=settings)
    assert answer(made, commands) == {}
    made, commands = engine(host("a", "1"), host("b", "2"), *gang("g", EVEN, 1), settings=settings)
    assert answer(made, commands) == {"g-0": "a"}


def test_racks_that_are_others_since_are_looked_at_before_a_start():
    nodes = [
        ev.NodeSeen(node(name, cpu=1, labels={ZONE: zone, RACK: "r1"}))
        for name, zone in (("a", "1"), ("b", "2"))
    ]
    members = [structs.replace(pod(f"g-{i}", group="g", size=2), annotations=IN_ONE_RACK) for i in range(2)]
    made, commands = engine(*nodes, *map(ev.PodSeen, members), settings=Settings(pace=0, topology=(RACK,)))
    plan = plan_now(one(commands, cmd.Propose).snapshot)  # type: ignore[union-attr]
    two = structs.replace(made.state.settings, topology=(ZONE, RACK))
    after = made.learn([ev.Configured(two), ev.PlanProposed(plan)])
    assert not [each for each in after if isinstance(each, cmd.RecordAllocations) and each.grants]
    do_all(made, after)
    assert the_group(made, "g").outcome is Outcome.REJECTED
    told(made, ev.Tick(2_000), ev.Configured(structs.replace(two, topology=(RACK,))))
    assert {made.state.pods[f"g-{i}"].node for i in range(2)} == {"a", "b"}


# -- who waits though nothing stands in the way ------------------------------------------------------


def test_who_wants_to_be_near_work_that_ends_is_promised_a_start_while_it_runs():
    made = under("easy", host("a", "1"))
    db = noted(pod("db", group="db", size=1), duration="60m").pod
    told(made, ev.PodSeen(structs.replace(db, labels={**db.labels, "app": "db"})))
    told(made, noted(pod("f", group="f", size=1, cpu=3), duration="10m"))
    told(made, noted(minding("g-0", NEAR_DB, 3, "g", 1), duration="5m"))
    assert the_group(made, "g").estimate == 1_000 + 600_000


def test_members_with_volumes_of_their_own_share_a_node():
    around = [
        StorageClass("sc", "csi.example", True),
        CsiNode("a", (("csi.example", 10),)),
        *(Claim("default", f"g-{i}-v", f"c{i}", "sc", owner=f"g-{i}", size=1) for i in range(2)),
    ]
    things = [ev.ThingSeen(f"u{i}", 1, each) for i, each in enumerate(around)]
    own = Rules(volumes=(Volume(EPHEMERAL, "v"),))
    made, commands = engine(host("a", "1"), *things, *gang("g", own, 2))
    assert answer(made, commands) == {"g-0": "a", "g-1": "a"}


def test_unlike_members_that_want_one_zone_are_tried_in_each():
    small, large = minding("s", TOGETHER, 1, "g", 2), minding("l", TOGETHER, 2, "g", 2)
    made, commands = engine(host("a", "1", cpu=2), host("b", "2"), ev.PodSeen(small), ev.PodSeen(large))
    assert answer(made, commands) == {"s": "b", "l": "b"}


def test_of_two_wishes_to_be_together_the_narrower_says_where_to_try():
    both = Rules(affinity=(PodTerm(ZONE, X), PodTerm(RACK, X)))
    made, commands = engine(racked("a", "r1", 1), racked("b", "r2", 4), *gang("g", both, 3))
    assert set(answer(made, commands).values()) == {"b"}


def test_outside_all_domains_nothing_keeps_members_apart():
    apart = Rules(anti_affinity=(PodTerm("rack", X),))
    nodes = [ev.NodeSeen(node("a", labels={"rack": "1"})), ev.NodeSeen(node("b"))]
    made, commands = engine(*nodes, *gang("g", apart, 3))
    assert len(answer(made, commands)) == 3


def test_a_label_that_changes_while_its_pod_is_being_bound_is_looked_at():
    made, commands = engine(host("a", "1"), *gang("x", Rules(), 1))
    made.learn([ev.PlanProposed(plan_now(one(commands, cmd.Propose).snapshot))])  # type: ignore[union-attr]
    assert answer(made, made.learn(gang("g", APART, 1))) == {}
    there = made.state.pods["x-0"]
    other = structs.replace(there, version=50, labels={**there.labels, "app": "other"})
    assert plans_again(made.learn([ev.Tick(2_000), ev.PodSeen(other)]))


def test_a_pod_that_is_being_deleted_counts_no_more_for_spread():
    other = minding("other", Rules(), node="a", scheduler="default-scheduler")
    made, commands = engine(host("a", "1"), host("b", "2", cpu=0), ev.PodSeen(other), *gang("g", EVEN, 1))
    assert answer(made, commands) == {}
    leaving = structs.replace(other, version=9, deleting=True)
    assert answer(made, made.learn([ev.Tick(2_000), ev.PodSeen(leaving)])) == {"g-0": "a"}


def test_who_joins_a_rack_that_is_renamed_follows():
    made, _ = engine(racked("a", "r1", 4))
    members = [structs.replace(pod(f"g-{i}", group="g", size=1), annotations=IN_ONE_RACK) for i in range(2)]
    told(made, ev.PodSeen(members[0]))
    told(made, ev.PodSeen(pod("full", node="a", cpu=3, scheduler="other")))
    told(made, ev.PodSeen(members[1]))
    told(made, ev.Tick(2_000), racked("a", "r9", 4, version=2))
    told(made, ev.Tick(3_000), ev.PodGone("full", 9))
    assert made.state.pods["g-1"].node == "a"


def test_endless_work_is_kept_off_the_rack_that_is_waited_for_and_no_other():
    made = under("easy", racked("a", "r1", 4), racked("b", "r2", 4), racked("c", "r2", 4))
    told(made, *(ev.PodSeen(pod(name, cpu=cpu, group=name, size=1)) for name, cpu in (("s", 2), ("t", 4))))
    members = [noted(pod(f"g-{i}", group="g", size=2, cpu=3), duration="10m").pod for i in range(2)]
    odd = structs.replace(members[1].shape, requests=(("cpu", 3_001), ("pods", 1)))
    members[1] = structs.replace(members[1], shape=odd)
    told(made, *(noted(each, **{"required-topology": RACK}) for each in members))
    told(made, ev.PodSeen(pod("endless", cpu=2, group="endless", size=1)))
    assert made.state.pods["endless"].node == "a"


def test_notes_of_changed_pods_do_not_pile_up_when_nobody_asks():
    made, commands = engine(host("a", "1"), *gang("v", Rules(volumes=(Volume(CLAIM, "c"),)), 1))
    do_all(made, commands)
    told(made, ev.PodGone("v-0", 5))
    for i in range(100):
        told(made, ev.PodSeen(pod(f"p{i}")))
        told(made, ev.PodGone(f"p{i}", 9_000))
    assert len(made.state.moved) < 50
