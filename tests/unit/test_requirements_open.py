"""Requirements of the engine by their id: what a user may ask for, order, ends, retirement, node changes."""

import itertools
from typing import Any

import pytest
from msgspec import structs
from test_engine import node, pod, told
from test_kube_translate import container, read, wire

from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, PodPhase
from fairlead.model.settings import QueueSettings, Settings
from fairlead.sim.world import Faults, World

HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
DAY = 24 * 3_600_000


def where(world: World, group: str) -> list[str]:
    """The nodes of the pods whose names begin with this, "" for those that wait."""
    return sorted(p.node for p in world.pods.values() if p.name.startswith(group))


# -- F18: which nodes a user may ask for --------------------------------------------------------------


def required(operator: str, *values: str, key: str = HOST, part: str = "matchExpressions") -> dict[str, Any]:
    term = {part: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": node_affinity}}


@pytest.mark.parametrize(
    ("asked", "resources", "nodes"),
    [
        (required("In", "n1", "n2"), {}, {"n1", "n2"}),
        (required("In", "n2", key="metadata.name", part="matchFields"), {}, {"n2"}),
        ({"nodeSelector": {HOST: "n1"}}, {}, {"n1"}),
        (required("NotIn", "n0", "n1"), {}, {"n2", "n3"}),
        (required("DoesNotExist", key="plain"), {}, {"n3"}),
        (required("Exists", key="fast"), {}, {"n3"}),
        ({}, {GPU: "1"}, {"n3"}),
    ],
)
def test_F18_only_these_nodes_not_these_or_with_something(
    asked: dict[str, Any], resources: dict[str, str], nodes: set[str]
):
    """As many members as fill exactly the nodes that were asked for; one more and it can never be."""
    world = World()
    for name in ("n0", "n1", "n2", "n3"):
        world.node(node(name, labels={HOST: name, **({"fast": ""} if name == "n3" else {"plain": ""})}))
    world.node(structs.replace(world.nodes["n3"], allocatable=(("cpu", 4000), (GPU, 3), ("pods", 110))))
    for group, size in (("fits", 2 * len(nodes)), ("more", 2 * len(nodes) + 1)):
        labels = {"fairlead.dev/group": group, "fairlead.dev/group-size": str(size)}
        spec = {"schedulerName": "fairlead", "containers": [container(cpu="2", **resources)], **asked}
        for i in range(size):
            world.pod(read(wire(spec, name=f"{group}-{i}", uid=f"{group}-{i}", labels=labels)))
        world.run()
    assert where(world, "fits") == sorted([*nodes, *nodes])
    assert set(where(world, "more")) == {""}
    assert world.engine.state.groups["label:ns/more#0"].rejected


# -- F24: what an error means --------------------------------------------------------------------------


def test_F24_lost_refused_busy_impossible_and_gone_are_told_apart():
    told("""
        cluster 1 nodes cpu=4
        00:00 binds of lost unknown 1
        + submit lost 1x cpu=1          -> start lost; starting lost; free n0 cpu=3
        00:00:01 later                  -> order lost; run lost; on lost n0; free n0 cpu=3
        00:01 binds of no refused 1
        + submit no 1x cpu=1            -> order lost no; hold no (Backoff); free n0 cpu=3
        00:01:02 later                  -> order lost no no; run no; on no n0
        00:02 submit never 1x cpu=5     -> reject never (largest matching node has cpu=4)
        00:03 submit busy 1x cpu=3 runs 1m   -> wait busy (short of cpu)
        00:04 submit quit 1x cpu=4      -> wait quit
        00:05 delete quit               -> gone quit; end quit cancelled
        + relist                        -> gone quit; wait busy; reject never
        00:06 finish no                 -> start busy n0
        00:08 later                     -> end busy completed; reject never
    """)


def test_F24_a_bind_of_a_pod_that_is_gone_is_no_failure():
    """It was cancelled already: nothing is held, tried again or told as broken, and the others go on."""
    told("""
        cluster 1 nodes cpu=4
        00:00 binds of a gone 1
        + submit a 1x cpu=4             -> order a
        00:00:00.500 delete a           -> gone a; free n0 cpu=4
        00:01 submit b 1x cpu=4         -> start b n0
    """)


# -- F31: the order of the queue -----------------------------------------------------------------------

GROUPS = [
    ("f", 0, 5), ("c", 7, 60), ("a", 0, 5), ("h", -3, 1),
    ("b", 7, 5), ("e", 0, 0), ("g", -3, 60), ("d", 7, 60),
]  # fmt: skip
"""(name, priority, walltime in minutes) in the order of arrival; the names are in none."""


def bound_in_order(order: str, groups: list[tuple[str, int, int]]) -> list[str]:
    """The group of each bind, where everything starts at once after its members came in turns."""
    world = World(Settings(queues=(QueueSettings(order=order),), pace=0))
    world.node(node("n0", cpu=100, unschedulable=True))
    for i in range(3):
        for name, priority, minutes in groups:
            notes = {"fairlead.dev/duration": f"{minutes}m"} if minutes else {}
            world.pod(pod(f"{name}-{i}", group=name, size=3, priority=priority, annotations=notes))
            world.run(10)
    assert not any(isinstance(c, cmd.Bind) for _, c in world.log)
    world.node(structs.replace(world.nodes["n0"], unschedulable=False))
    world.run(1_000)
    return [c.name.partition("-")[0] for _, c in world.log if isinstance(c, cmd.Bind)]


@pytest.mark.parametrize("order", ["priority", "fifo", "shortest"])
def test_F31_order_is_total_and_transitive_and_members_are_adjacent(order: str):
    """What goes before what is asked of the engine for every pair alone, and then for all together."""
    before: set[tuple[str, str]] = set()
    for pair in itertools.combinations(GROUPS, 2):
        runs = [name for name, _ in itertools.groupby(bound_in_order(order, list(pair)))]
        assert len(runs) == 2, f"the members of {runs} are not adjacent"
        before.add((runs[0], runs[1]))
    names = [name for name, _, _ in GROUPS]
    for a, b, c in itertools.permutations(names, 3):
        assert ((a, b) in before) != ((b, a) in before)
        assert not ((a, b) in before and (b, c) in before) or (a, c) in before, f"{a} < {b} < {c}"
    together = bound_in_order(order, GROUPS)
    ranked = sorted(names, key=lambda name: sum((other, name) in before for other in names))
    assert together == [name for name in ranked for _ in range(3)]


def test_F31_each_order_is_what_it_is_called():
    assert "".join(bound_in_order("fifo", GROUPS)[::3]) == "fcahbegd"
    assert "".join(bound_in_order("priority", GROUPS)[::3]) == "cbdfaehg"
    alike = [(name, 0, minutes) for name, _, minutes in GROUPS]
    assert "".join(bound_in_order("shortest", alike)[::3]) == "hfabcgde"


# -- L10, B27: when a group is retired -----------------------------------------------------------------


def owned(world: World, kind: str, size: int, cpu: int = 1) -> list[str]:
    """An owner with pods of it; their uids."""
    owner = Owner(kind, kind, "default", kind.lower(), 0, size)
    world.owner(owner)
    uids = [f"{owner.name}-{i}" for i in range(size)]
    for uid in uids:
        world.pod(pod(uid, cpu=cpu, owner=OwnerRef(kind, owner.name, owner.uid)))
    return uids


def known(world: World) -> tuple[int, int]:
    """How many groups the engine knows, and how many owners it keeps for them."""
    return len(world.engine.state.groups), len(world.engine.state.groups_of_owner)


@pytest.mark.parametrize(("kind", "groups"), [("Job", 1), ("ReplicaSet", 3), ("StatefulSet", 3)])
@pytest.mark.parametrize(
    "cpu", [1, 4]
)  # what asks for the whole node has members that run and others that wait
def test_L10_groups_stay_while_their_owner_lives_and_go_with_it(kind: str, groups: int, cpu: int):
    world = World()
    for i in range(3 if kind == "Job" else 1):
        world.node(node(f"n{i}"))
    uids = owned(world, kind, 3, cpu)
    world.run()
    world.run(30 * DAY)  # far longer than ended groups are remembered
    assert known(world) == (groups, 1)
    assert any(g.phase is Phase.RUNNING for g in world.engine.state.groups.values())
    world.owner_gone(kind)
    world.run(5_000)
    assert known(world) == (groups, 1), "its pods were left as orphans: they run, and so do their groups"
    for uid in uids:
        world.pod_gone(uid)
    world.run(5_000)
    assert known(world) == (0, 0)
    assert not world.grants and {r.phase for r in world.groups.values()} == {Phase.ENDED}


def test_B27_groups_are_retired_when_and_only_when_they_should():
    """Neither an error of a bind nor one of the store retires a group, and an end in good order does."""

    class Refusing(Faults):
        def bind(self, bind: cmd.Bind) -> ev.BindError | None:
            return ev.BindError.REFUSED if bind.name == "refused" else None

    world = World(faults=Refusing())
    world.node(node("n0"))
    for name in ("done", "refused", "stays"):
        world.pod(pod(name))
    world.pod(pod("waits", cpu=4))
    world.run(1_000)
    world.store_down()
    world.change("done", phase=PodPhase.SUCCEEDED)
    world.run(120_000)
    groups = world.engine.state.groups
    assert [g.id for g in groups.values() if g.phase is Phase.ENDED] == ["pod:done#0"]
    assert len(groups) == 4
    world.pod_gone("done")
    world.run(1_000)
    assert "pod:done#0" not in groups and len(groups) == 3
    assert world.groups["pod:done#0"].phase is Phase.RUNNING, "the store could not be told yet"
    world.store_up()
    world.run(120_000)
    assert (world.groups["pod:done#0"].phase, world.groups["pod:done#0"].outcome) == (
        Phase.ENDED, Outcome.COMPLETED,
    )  # fmt: skip
    assert [r.id for r in world.groups.values() if r.phase is Phase.ENDED] == ["pod:done#0"]
    assert len(groups) == 3
