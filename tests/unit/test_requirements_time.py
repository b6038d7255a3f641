"""Time, promises and plans by requirement: each test holds the real engine against one line of it."""

from collections import Counter

import pytest

from fairlead.core.cycle import plan_now
from fairlead.core.live import Group
from fairlead.core.snapshot import Snapshot
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase
from fairlead.model.node import Node
from fairlead.model.plan import Reserve, Start
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim import scenario
from fairlead.sim.world import Faults, World

MINUTE = 60_000
HOUR = 60 * MINUTE
AHEAD = ("easy", "hybrid", "conservative", "replan")
"""The policies that promise."""


def told(text: str) -> None:
    scenario.run(scenario.parse("\n".join(line.strip() for line in text.strip().splitlines())))


def machine(policy: str, nodes: int = 1, cpu: int = 8, faults: Faults | None = None, **queue: int) -> World:
    """A world with so many nodes and one queue; nothing is paced."""
    world = World(Settings(queues=single(policy, **queue), pace=0), faults)
    for i in range(nodes):
        world.node(Node(f"u{i}", f"n{i}", 0, (("cpu", cpu * 1000), ("pods", 2000))))
    world.run(1_000)
    return world


def submit(world: World, name: str, cpu: int, minutes: int = 0, runs: int = 0, members: int = 1) -> None:
    """Pods of one group; the walltime is their own deadline, which the kubelets would see to."""
    for i in range(members):
        pod = Pod(
            f"{name}-{i}", "d", f"{name}-{i}", 0, Shape((("cpu", cpu * 1000), ("pods", 1))), "fairlead",
            labels={"fairlead.dev/group": name, "fairlead.dev/group-size": str(members)},
            walltime=minutes * MINUTE,
        )  # fmt: skip
        world.pod(pod, run_time=(runs or minutes) * MINUTE)


def group(world: World, name: str) -> Group:
    return world.engine.state.groups[f"label:d/{name}#0"]


def of(world: World, kind: type[cmd.Command], since: int = 0) -> list[cmd.Command]:
    return [command for _, command in world.log[since:] if isinstance(command, kind)]


def granted(world: World) -> list[str]:
    """The names of the groups that were started, in order."""
    plans = [c for c in of(world, cmd.RecordAllocations) if isinstance(c, cmd.RecordAllocations)]
    return [grant.group[len("label:d/") : -2] for plan in plans for grant in plan.grants]


# -- F25: reservation depths ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "overtakes"),
    [(-1, "first second third"), (1, "second third"), (2, "third"), (3, ""), (0, "")],
)
@pytest.mark.parametrize(
    ("whom", "cpu", "minutes"), [("first", 4, 90), ("second", 2, 150), ("third", 1, 200)]
)
def test_F25_the_depth_says_whom_nobody_may_delay(
    depth: int, overtakes: str, whom: str, cpu: int, minutes: int
):
    """Each of the late ones fits now, and would delay one of those who wait: it starts unless that one is
    promised a start."""
    world = machine("hybrid", depth=depth)
    for name, size in (("base", 4), ("first", 6), ("second", 7), ("third", 8)):
        submit(world, name, size, minutes=60)
        world.run(100)
    submit(world, "late", cpu, minutes)
    world.run(100)
    assert ("late" in granted(world)) == (whom in overtakes.split())
    world.run(10 * HOUR)
    assert sorted(granted(world)) == ["base", "first", "late", "second", "third"]


# -- B2, B3, B16: promises -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", AHEAD)
def test_B2_one_plan_starts_promises_and_lets_overtake(policy: str):
    """All of them come at once: what is said of one is not lost among the others."""
    plans: list[ev.PlanProposed] = []

    def planner(snapshot: Snapshot) -> ev.PlanProposed:
        plans.append(ev.PlanProposed(plan_now(snapshot)))
        return plans[-1]

    world = machine(policy)
    world.planner = planner
    submit(world, "base", 6, minutes=60)
    submit(world, "head", 8, minutes=30)
    submit(world, "long", 2, minutes=90)
    submit(world, "short", 2, minutes=50)
    world.run(1_000)
    kinds = {decision.group[len("label:d/") : -2]: type(decision) for decision in plans[0].plan.decisions}
    assert (kinds["base"], kinds["head"], kinds["short"]) == (Start, Reserve, Start)
    assert granted(world) == ["base", "short"]
    (stored,) = [promise for promise in world.reservations if promise.group == group(world, "head").id]
    assert stored.start == group(world, "head").estimate > world.now
    world.run(2 * HOUR)
    assert granted(world) == ["base", "short", "head", "long"]
    assert 0 <= world.groups[stored.group].granted_at - stored.start < 100


def test_B2_fcfs_promises_nothing_and_nobody_overtakes():
    world = machine("fcfs")
    submit(world, "base", 6, minutes=60)
    submit(world, "head", 8, minutes=30)
    submit(world, "short", 2, minutes=50)
    world.run(1_000)
    assert (granted(world), world.reservations) == (["base"], ())


def overbooked(world: World) -> list[str]:
    """Nodes on which more is bound and has not ended than there is, by the cluster's own account."""
    used: Counter[str] = Counter()
    for pod in world.pods.values():
        if pod.node and not pod.ended:
            used[pod.node] += dict(pod.shape.requests)["cpu"]
    return [name for name, node in world.nodes.items() if used[name] > dict(node.allocatable)["cpu"]]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("policy", AHEAD)
def test_B3_a_promise_binds_nothing_while_its_nodes_are_busy(policy: str, killed: bool):
    """Its hour comes and what it waits for runs on: it goes on waiting, in a new process too."""
    world = machine(policy, nodes=2)
    submit(world, "base", 8, minutes=60, runs=75, members=2)
    world.run(100)
    submit(world, "head", 8, minutes=30, members=2)
    world.run(MINUTE)
    (promise,) = world.reservations
    assert promise.group == group(world, "head").id
    assert promise.start == group(world, "base").started_at + HOUR
    assert promise.nodes == ("n0", "n1")  # where base is
    if killed:
        world.crash()
        world.start()
    for _ in range(73):
        world.run(MINUTE)
        assert not [bind for bind in of(world, cmd.Bind) if isinstance(bind, cmd.Bind) and "head" in bind.pod]
        assert granted(world) == ["base"]
        assert not overbooked(world)
        assert group(world, "head").phase is Phase.QUEUED
    assert world.now > promise.start
    world.run(2 * MINUTE)
    assert group(world, "head").phase is Phase.RUNNING
    assert not overbooked(world)


@pytest.mark.parametrize("policy", AHEAD)
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("minutes", [5, 60, 185, 3 * 24 * 60])
def test_B16_a_promise_is_the_time_at_which_what_runs_will_end(policy: str, minutes: int, nodes: int):
    """Not an hour from nothing: the end of this very walltime, whenever it began, and it comes true."""
    for at in (0, 1_700_000_000_000):
        world = machine(policy, nodes)
        world.run(at + 17 * MINUTE)
        submit(world, "base", 5, minutes, members=nodes)
        world.run(2 * MINUTE)
        submit(world, "head", 8, minutes=30, members=nodes)
        world.run(100)
        submit(world, "next", 8, minutes=30, members=nodes)
        world.run(100)
        promised = group(world, "head").estimate
        assert promised == group(world, "base").started_at + minutes * MINUTE
        if policy == "conservative":
            assert group(world, "next").estimate == promised + 30 * MINUTE
        world.crash()
        world.start()
        world.run(MINUTE)
        assert group(world, "head").estimate == promised
        world.run(minutes * MINUTE)
        assert 0 <= group(world, "head").granted_at - promised < 100


# -- B5: woken -----------------------------------------------------------------------------------------


def test_B5_who_waited_for_days_starts_at_once():
    told("""
        cluster 1 nodes cpu=4
        00:00 submit a 1x cpu=4          -> start a
        00:01 submit b 1x cpu=4          -> wait b
        00:02 submit c 1x cpu=4          -> wait c
        99:00 finish a                   -> start b
        200:00 delete b                  -> start c
    """)


# -- I17: edits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", AHEAD)
def test_I17_an_edited_deadline_of_what_runs_moves_who_waits_for_it(policy: str):
    """`activeDeadlineSeconds` of pods that run may be shortened; nothing else has to happen."""
    world = machine(policy)
    submit(world, "base", 6, minutes=120)
    world.run(MINUTE)
    submit(world, "head", 8, minutes=30)
    world.run(MINUTE)
    began = group(world, "base").started_at
    assert group(world, "head").estimate == began + 120 * MINUTE
    world.change("base-0", walltime=40 * MINUTE)
    world.run(100)
    assert group(world, "head").estimate == began + 40 * MINUTE
    assert world.reservations[0].start == began + 40 * MINUTE


# -- D10: services -------------------------------------------------------------------------------------


def test_D10_services_and_gangs_side_by_side():
    """Gangs come, wait, are promised starts and end at their walltimes; the services beside them run on."""
    told("""
        cluster 3 nodes cpu=4 policy easy walltime=30m
        00:00 submit web 1x cpu=1 as deployment           -> start web-0 n0
        + submit db 1x cpu=1 as statefulset               -> start db-0 n0
        00:01 submit gang 2x cpu=4 runs 9h as job         -> start gang n1-n2
        00:02 submit late 2x cpu=4 for 20m runs 9h as job -> reserve late at 00:31
        00:31 later                                       -> end gang timeout; start late n1-n2
        00:51 later                                       -> end late timeout; run web-0; run db-0
        99:00 later                                       -> run web-0; run db-0; on web-0 n0; on db-0 n0
    """)
