"""Claims that wait for their first consumer: decided with the start, bound before any member of it is."""

from typing import Any

import pytest
from msgspec import structs
from test_engine import engine, node, pod, starting
from test_surroundings import seen

from fairlead.control import RECONCILERS
from fairlead.control.claims import AGAIN, PATIENCE
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.story import explain
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.plan import Grant, Placement, Start
from fairlead.model.pod import Pod, Shape
from fairlead.model.rules import CLAIM, Rules, Volume
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings
from fairlead.model.storage import Claim, PersistentVolume, StorageClass

HOST = "kubernetes.io/hostname"
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", delayed=True)
MADE = StorageClass("made", "example.com/maker", delayed=True)


def user(name: str, *claims: str, group: str = "", size: int = 0, cpu: int = 1) -> Pod:
    """A pod that mounts these claims."""
    made = pod(name, group=group, size=size, cpu=cpu)
    rules = Rules(volumes=tuple(Volume(CLAIM, each) for each in claims))
    return structs.replace(made, shape=Shape(made.shape.requests, rules=rules))


def claim(name: str, kind: StorageClass = LOCAL, **more: Any) -> Claim:
    return Claim("default", name, f"uid-{name}", storage_class=kind.name, size=1_000, **more)


def disk(name: str, host: str, size: int = 5_000, **more: Any) -> PersistentVolume:
    affinity = ((Expression(HOST, Operator.IN, (host,)),),)
    return structs.replace(
        PersistentVolume(name, storage_class="local", size=size, available=True, affinity=affinity), **more
    )


def hosts(*names: str) -> list[ev.Event]:
    return [ev.NodeSeen(node(name, labels={HOST: name})) for name in names]


def told(thing: Any, version: int = 1) -> ev.ThingSeen:
    return seen(thing, version, f"uid-{thing.name}")


def granted(made: Engine, commands: list[cmd.Command], on: str = "n0") -> list[cmd.Command]:
    """The plan that all waiting groups start on that node is durable: what goes out."""
    (record,) = [c for c in made.learn([starting(commands, node=on)]) if isinstance(c, cmd.RecordAllocations)]
    return made.learn([ev.AllocationsRecorded(record.plan)])


def of(commands: list[cmd.Command], kind: type[Any]) -> list[Any]:
    return [command for command in commands if isinstance(command, kind)]


def begun(*things: Any, pods: tuple[Pod, ...] = (), on: str = "n0") -> tuple[Engine, list[cmd.Command]]:
    """Nodes n0 and n1, these things and pods; and what goes out once all of them are granted `on`."""
    told_all = [told(each) for each in (LOCAL, MADE, *things)]
    made, commands = engine(*hosts("n0", "n1"), *told_all, *map(ev.PodSeen, pods))
    return made, granted(made, commands, on)


def gang(*claims: str, **more: Any) -> tuple[Pod, ...]:
    """Members that mount a claim each."""
    return tuple(user(f"p{n}", each, group="g", size=len(claims), **more) for n, each in enumerate(claims))


def test_a_volume_on_the_node_is_bound_first_and_the_pod_after_it():
    made, out = begun(claim("data"), disk("far", "n1"), disk("near", "n0"), pods=(user("p", "data"),))
    (ask,) = of(out, cmd.BindClaim)
    assert (ask.claim.name, ask.claim.uid, ask.volume.name, ask.by_controller) == (
        "data", "uid-data", "near", True,
    )  # fmt: skip
    assert not of(out, cmd.Bind)
    mine = ("default", "data", "uid-data")
    out = made.learn([told(disk("near", "n0", claim=mine, available=False), 2)])
    assert not of(out, cmd.Bind) and not of(out, cmd.BindClaim), "it is written but not bound yet"
    out = made.learn([told(claim("data", volume="near", bound=True), 3)])
    (bind,) = of(out, cmd.Bind)
    assert (bind.pod, bind.node) == ("p", "n0")
    made.learn([ev.PodSeen(structs.replace(user("p", "data"), version=2, node="n0"))])
    assert not made.state.surroundings.choices and not made.state.surroundings.held


def test_of_the_volumes_there_the_smallest_that_is_large_enough():
    things = (claim("data"), disk("large", "n0"), disk("small", "n0", 500), disk("right", "n0", 1_000))
    _, out = begun(*things, pods=(user("p", "data"),))
    assert [ask.volume.name for ask in of(out, cmd.BindClaim)] == ["right"]


def test_a_volume_that_a_user_reserved_stays_his():
    reserved = disk("near", "n0", claim=("default", "data", ""), available=False)
    _, out = begun(claim("data"), disk("other", "n0", 1_000), reserved, pods=(user("p", "data"),))
    assert [(ask.volume.name, ask.by_controller) for ask in of(out, cmd.BindClaim)] == [("near", False)]


def test_two_pods_of_one_plan_get_a_volume_each():
    pods = (user("p", "a"), user("q", "b"))
    made, out = begun(claim("a"), claim("b"), disk("one", "n0"), disk("two", "n0"), pods=pods)
    assert {(ask.claim.name, ask.volume.name) for ask in of(out, cmd.BindClaim)} == {
        ("a", "one"),
        ("b", "two"),
    }
    taken = made.state.surroundings.storage.volumes
    assert all(volume.claim is not None for volume in taken.values())


def test_a_plan_in_which_members_share_a_volume_is_not_accepted():
    told_all = [told(each) for each in (LOCAL, claim("a"), claim("b"), disk("one", "n0"), disk("two", "n1"))]
    made, commands = engine(*hosts("n0", "n1"), *told_all, *map(ev.PodSeen, gang("a", "b")))
    made.learn([starting(commands, node="n0")])
    assert not made.state.intents and not made.state.surroundings.choices


def test_a_start_that_loses_its_volume_before_it_is_durable_is_taken_back_whole():
    told_all = [told(each) for each in (LOCAL, claim("a"), claim("b"), disk("one", "n0"), disk("two", "n0"))]
    made, commands = engine(*hosts("n0", "n1"), *told_all, *map(ev.PodSeen, gang("a", "b")))
    (record,) = of(made.learn([starting(commands)]), cmd.RecordAllocations)
    made.learn([told(disk("two", "n0", claim=("x", "y", "z")), 2)])
    out = made.learn([ev.AllocationsRecorded(record.plan)])
    assert not of(out, cmd.Bind) and not of(out, cmd.BindClaim)
    made.learn([ev.Tick(1_001)])
    (group,) = made.state.groups.values()
    assert group.phase is Phase.HELD and group.reason.why is Why.BACKOFF
    assert made.state.surroundings.storage.volumes["one"].claim is None


def test_no_member_is_bound_before_the_claims_of_all_are():
    pods = (user("p", "a", group="gang", size=2), pod("q", group="gang", size=2))
    made, out = begun(claim("a"), disk("one", "n0"), pods=pods)
    assert of(out, cmd.BindClaim) and not of(out, cmd.Bind)
    mine = ("default", "a", "uid-a")
    out = made.learn([told(disk("one", "n0", claim=mine), 2), told(claim("a", volume="one", bound=True), 3)])
    assert sorted(bind.pod for bind in of(out, cmd.Bind)) == ["p", "q"]


def test_a_provisioner_is_told_the_node_and_waited_for():
    made, out = begun(claim("data", MADE), pods=(user("p", "data"),))
    (ask,) = of(out, cmd.BindClaim)
    assert ask.volume is None and ask.node == "n0" and ask.claim.name == "data"
    out = made.learn([told(claim("data", MADE, selected_node="n0"), 2)])
    assert not of(out, cmd.BindClaim) and not of(out, cmd.Bind)
    out = made.learn([told(claim("data", MADE, selected_node="n0", volume="new", bound=True), 3)])
    assert not of(out, cmd.Bind), "its volume has not been seen yet"
    out = made.learn([told(disk("new", "n0", claim=("default", "data", "uid-data")), 4)])
    assert len(of(out, cmd.Bind)) == 1


def test_a_volume_made_where_the_pod_cannot_reach_it_ends_the_start():
    made, _ = begun(claim("data", MADE), pods=(user("p", "data"),))
    bound = claim("data", MADE, selected_node="n0", volume="new", bound=True)
    out = made.learn([told(disk("new", "n1", claim=("default", "data", "uid-data")), 4), told(bound, 5)])
    assert not of(out, cmd.Bind)
    made.learn([ev.Tick(1_001)])
    assert not made.state.intents


def test_what_the_provisioner_gives_back_ends_the_start_and_another_node_may_be_chosen():
    made, _ = begun(claim("data", MADE), pods=(user("p", "data"),))
    made.learn([told(claim("data", MADE, selected_node="n0"), 2)])
    out = made.learn([told(claim("data", MADE), 3)])
    (said,) = of(out, cmd.Announce)
    assert said.note == "not bound to n0: no volume could be made for claim data on node n0"
    made.learn([ev.Tick(1_001)])
    (group,) = made.state.groups.values()
    assert group.phase is Phase.HELD and group.reason.why is Why.BACKOFF
    assert made.state.surroundings.storage.claims["default", "data"].selected_node is None
    again = of(made.learn([ev.Tick(60_000)]), cmd.Propose)
    out = granted(made, again, "n1")
    assert [ask.node for ask in of(out, cmd.BindClaim)] == ["n1"]


def test_a_volume_that_somebody_else_took_ends_the_start():
    made, _ = begun(claim("data"), disk("near", "n0"), pods=(user("p", "data"),))
    out = made.learn([told(disk("near", "n0", claim=("x", "y", "z")), 2)])
    assert "volume near belongs to claim x/y now" in of(out, cmd.Announce)[0].note


@pytest.mark.parametrize("gone", ["uid-data", "uid-near"])
def test_a_claim_or_volume_that_goes_away_ends_the_start(gone: str):
    made, _ = begun(claim("data"), disk("near", "n0"), pods=(user("p", "data"),))
    out = made.learn([ev.ThingGone(gone, 9)])
    assert of(out, cmd.Announce)[0].warning
    made.learn([ev.Tick(1_001)])
    assert not made.state.intents and not made.state.surroundings.choices


def test_a_request_is_repeated_over_a_new_version_at_once_and_over_the_same_after_a_while():
    made, out = begun(claim("data", MADE), pods=(user("p", "data"),))
    assert [ask.claim.version for ask in of(out, cmd.BindClaim)] == [1]
    assert not of(made.learn([ev.Tick(1_500)]), cmd.BindClaim)
    out = made.learn([told(claim("data", MADE, owner="x"), 7)])
    assert [ask.claim.version for ask in of(out, cmd.BindClaim)] == [7]
    out = made.learn([ev.Tick(1_500 + AGAIN)])
    assert [ask.claim.version for ask in of(out, cmd.BindClaim)] == [7]


def test_a_refused_request_ends_the_start():
    made, out = begun(claim("data", MADE), pods=(user("p", "data"),))
    (ask,) = of(out, cmd.BindClaim)
    made.learn([ev.BindFailed("p", ask.grant, ev.BindError.REFUSED, "forbidden")])
    assert not made.state.intents and not made.state.surroundings.choices


def test_claims_are_waited_for_no_longer_than_kube_scheduler_does():
    made, _ = begun(claim("data", MADE), pods=(user("p", "data"),))
    made.learn([told(claim("data", MADE, selected_node="n0"), 2)])
    made.learn([ev.Tick(PATIENCE)])
    assert made.state.intents
    out = made.learn([ev.Tick(PATIENCE + 2 * AGAIN)])
    assert of(out, cmd.Announce)[0].note == "not bound to n0: claims not bound within 600 s: data"
    made.learn([ev.Tick(PATIENCE + 2 * AGAIN)])
    assert not made.state.intents


def test_a_claim_that_a_pod_mounts_twice_gets_one_volume():
    things = (claim("data"), disk("one", "n0"), disk("two", "n0", 6_000))
    made, out = begun(*things, pods=(user("p", "data", "data"),))
    assert [ask.volume.name for ask in of(out, cmd.BindClaim)] == ["one"]
    volumes = made.state.surroundings.storage.volumes
    assert {name for name, each in volumes.items() if each.claim is not None} == {"one"}


def test_explain_says_which_claims_are_waited_for():
    made, _ = begun(claim("data", MADE), pods=(user("p", "data"),))
    (group,) = made.state.groups.values()
    assert explain(made.state, group, made.state.now).notes == ("not bound before these claims are: data",)


def test_a_new_process_goes_on_where_the_old_one_was_killed():
    """Its grant is in the store; one claim is written already, the other was not sent."""
    old, commands = begun(claim("a", MADE), claim("b"), disk("one", "n0"), pods=(user("p", "a", "b"),))
    asked = {ask.claim.name: ask for ask in of(commands, cmd.BindClaim)}
    assert asked["b"].volume.name == "one" and asked["a"].volume is None
    (group,) = old.state.groups.values()
    made = Engine(Settings(pace=0), RECONCILERS)
    grant = Grant(asked["a"].grant, "1-1", group.id, 1, 1_000, (Placement("p", "n0"),))
    events = [
        ev.Tick(2_000),
        *hosts("n0", "n1"),
        *[told(each) for each in (LOCAL, MADE, claim("a", MADE, selected_node="n0"), claim("b"))],
        told(disk("one", "n0")),
        ev.GroupRestored(group.record()),
        ev.GrantRestored(grant, not_before=12_000),
        ev.PodSeen(user("p", "a", "b")),
        ev.StoreReady(2),
        *[ev.Synced(source) for source in made.state.settings.sources],
    ]
    assert not of(made.learn(events), cmd.BindClaim), "a request of the old process may be on its way"
    out = made.learn([ev.Tick(12_000)])
    assert [(ask.claim.name, ask.volume.name) for ask in of(out, cmd.BindClaim)] == [("b", "one")]
    assert not of(out, cmd.Bind)


def test_a_claim_that_members_on_two_nodes_share_is_made_for_the_first():
    pods = (user("p", "data", group="gang", size=2), user("q", "data", group="gang", size=2, cpu=2))
    told_all = [told(each) for each in (LOCAL, MADE, claim("data", MADE))]
    made, commands = engine(*hosts("n0", "n1"), *told_all, *map(ev.PodSeen, pods))
    plan = starting(commands).plan
    (start,) = plan.decisions
    both = tuple(structs.replace(p, node=n) for p, n in zip(start.placements, ("n0", "n1"), strict=True))
    plan = structs.replace(plan, decisions=(structs.replace(start, placements=both),), source="outside")
    (record,) = of(made.learn([ev.PlanProposed(plan)]), cmd.RecordAllocations)
    out = made.learn([ev.AllocationsRecorded(record.plan)])
    assert [ask.node for ask in of(out, cmd.BindClaim)] == ["n0"]
    shared = structs.replace(disk("new", "n0"), affinity=None, claim=("default", "data", "uid-data"))
    out = made.learn(
        [told(shared, 4), told(claim("data", MADE, selected_node="n0", volume="new", bound=True), 5)]
    )
    assert sorted((bind.pod, bind.node) for bind in of(out, cmd.Bind)) == [("p", "n0"), ("q", "n1")]


def test_a_bound_claim_costs_no_wait():
    near = disk("near", "n0", claim=("default", "data", "uid-data"))
    _, out = begun(claim("data", volume="near", bound=True), near, pods=(user("p", "data"),))
    assert len(of(out, cmd.Bind)) == 1 and not of(out, cmd.BindClaim)


# -- while a plan is made ----------------------------------------------------------------------------


def planned(*things: Any, pods: tuple[Pod, ...]) -> dict[str, str]:
    """Pod -> node, of those that the plan starts."""
    told_all = [told(each) for each in (LOCAL, MADE, *things)]
    _, commands = engine(*hosts("n0", "n1"), *told_all, *map(ev.PodSeen, pods))
    (propose,) = of(commands, cmd.Propose)
    starts = [each for each in plan_now(propose.snapshot).decisions if isinstance(each, Start)]
    return {place.pod: place.node for start in starts for place in start.placements}


def test_members_go_where_there_is_a_volume_for_each_of_them():
    things = (claim("a"), claim("b"), disk("one", "n0"), disk("two", "n1"))
    assert sorted(planned(*things, pods=gang("a", "b")).values()) == ["n0", "n1"]


def test_a_gang_for_which_there_are_too_few_volumes_waits():
    assert planned(claim("a"), claim("b"), disk("one", "n0"), pods=gang("a", "b")) == {}


def test_groups_of_one_plan_do_not_count_on_the_same_volume():
    things = (claim("a"), claim("b"), disk("one", "n1"))
    assert planned(*things, pods=(user("p", "a"), user("q", "b"))) == {"p": "n1"}


def test_a_claim_that_all_members_share_does_not_keep_them_on_one_node():
    pods = gang("data", "data", cpu=3)
    assert sorted(planned(claim("data", MADE), pods=pods).values()) == ["n0", "n1"]
    anywhere = structs.replace(disk("net", "n0"), affinity=None)
    assert sorted(planned(claim("data"), anywhere, pods=pods).values()) == ["n0", "n1"]
