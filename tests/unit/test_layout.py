"""Groups that must lie together, or alone: what they get, what they never get, and what is told of it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from test_engine import engine, node, one, pod
from test_scenarios import play

from fairlead.control import RECONCILERS
from fairlead.core.containment import pools, split
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.explain import unsatisfiable
from fairlead.core.invariants import check
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Snapshot, Task
from fairlead.core.state import State
from fairlead.core.tenancy import PLACES, WHOLE
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.graph import Graph, Op
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.layout import Layout
from fairlead.model.node import Node
from fairlead.model.plan import Placement, Plan, Start
from fairlead.model.pod import OwnerRef, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim.stage import Stage
from fairlead.wire.jobspec import read

RACK = "topology.kubernetes.io/rack"
EXCLUSIVE = {"fairlead.dev/exclusive": "true"}
EASY = Settings(pace=0, queues=single("easy"))
ONE_RACK = {"fairlead.dev/required-topology": "rack"}


# -- alone on its nodes ------------------------------------------------------------------------------


def test_I5_exclusive_nodes_are_shared_with_nobody():
    play("exclusive")


def test_I5_a_promise_of_whole_nodes_counts_who_is_on_them():
    play("exclusive_easy")
    play("exclusive_conservative")


def test_I5_places_are_counted_from_the_first_wish_on():
    made, _ = engine(ev.NodeSeen(node("n0")), ev.NodeSeen(node("n1")), ev.PodSeen(pod("a", node="n0")))
    state = made.state
    assert PLACES not in state.inventory.resources  # who does not ask for it does not pay for it
    daemon = pod("d", node="n1", scheduler="default-scheduler", owner=OwnerRef("DaemonSet", "d", "d"))
    mirror = pod("m", node="n1", scheduler="default-scheduler", owner=OwnerRef("Node", "n1", "n1"))
    made.learn([ev.PodSeen(daemon), ev.PodSeen(mirror), ev.PodSeen(pod("b", cpu=5))])
    waiting = state.waiting["pod:b#0"]
    made.learn([ev.PodSeen(pod("x", annotations=EXCLUSIVE))])
    row = state.inventory.resources[PLACES]
    assert state.inventory.capacity[row, :2].tolist() == [WHOLE, WHOLE]
    assert state.inventory.free[row, :2].tolist() == [WHOLE - 1, WHOLE]
    assert dict(state.waiting["pod:x#0"][0].tasks[0].shape.requests)[PLACES] == WHOLE
    assert dict(state.waiting["pod:b#0"][0].tasks[0].shape.requests)[PLACES] == 1
    assert waiting[0].tasks[0].shape is pod_shape(state, "b")
    assert check(state) == []


def pod_shape(state: State, uid: str) -> Shape:
    return state.pods[uid].shape


def proposed(commands: list[cmd.Command], starts: dict[str, list[str]]) -> ev.PlanProposed:
    """A plan of these starts: group -> the nodes of its pods in order."""
    snapshot = one(commands, cmd.Propose).snapshot  # type: ignore[union-attr]
    found = tuple(
        Start(
            r.group,
            tuple(
                Placement(uid, name)
                for uid, name in zip([u for t in r.tasks for u in t.uids], starts[r.group], strict=True)
            ),
        )
        for r in snapshot.waiting
        if r.group in starts
    )
    return ev.PlanProposed(Plan("1-1", snapshot.version, snapshot.now, "fairlead", found))


def test_I5_a_plan_that_was_made_before_the_wish_is_held_against_it():
    nodes = (ev.NodeSeen(node("n0")), ev.NodeSeen(node("n1")), ev.PodSeen(pod("a", node="n0")))
    made, commands = engine(*nodes, ev.PodSeen(pod("x")))
    plan = proposed(commands, {"pod:x#0": ["n0"]})
    made.learn([ev.PodSeen(pod("x", version=2, annotations=EXCLUSIVE))])
    answer = made.learn([plan])
    assert not [each for each in answer if isinstance(each, cmd.RecordAllocations) and each.grants]
    assert made.last_stale == "pod:x#0 no longer fits"
    assert check(made.state) == []


def test_I5_nobody_is_granted_a_place_beside_an_exclusive_pod():
    lone = pod("x", node="n0", phase="Running", annotations=EXCLUSIVE)
    made, commands = engine(ev.NodeSeen(node("n0")), ev.PodSeen(lone), ev.PodSeen(pod("b")))
    made.learn([proposed(commands, {"pod:b#0": ["n0"]})])
    assert made.last_stale == "pod:b#0 no longer fits"


def test_what_keeps_who_wants_whole_nodes_waiting_is_told_in_words():
    for names in (["n0"], ["n0", "n1"]):  # one node is looked at in sums
        made, _ = engine(*[ev.NodeSeen(node(name)) for name in names], settings=EASY)
        state = made.state
        made.learn([ev.PodSeen(pod(f"on-{name}", node=name)) for name in names])
        commands = made.learn([ev.PodSeen(pod("x", group="x", size=1, annotations=EXCLUSIVE))])
        plan = plan_now(one(commands, cmd.Propose).snapshot)  # type: ignore[union-attr]
        made.learn([ev.PlanProposed(plan)])
        assert state.groups["label:default/x#0"].reason.text.endswith("(short of empty nodes)")


def test_I5_what_an_earlier_process_started_keeps_its_nodes_to_itself():
    first, _ = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("x", node="n0", annotations=EXCLUSIVE)))
    (record,) = [group.record() for group in first.state.groups.values()]
    again = Engine(Settings(pace=0), RECONCILERS)
    sources = [ev.Synced(source) for source in again.state.settings.sources]
    again.learn(
        [
            ev.Tick(2_000), ev.StoreReady(2), ev.GroupRestored(record), ev.NodeSeen(node("n0")),
            ev.PodSeen(pod("x", node="n0", annotations=EXCLUSIVE)), *sources,
        ]
    )  # fmt: skip
    inventory = again.state.inventory
    assert again.state.groups["pod:x#0"].phase is Phase.RUNNING
    assert inventory.free[inventory.resources[PLACES], 0] == 0
    assert check(again.state) == []


def test_an_annotation_that_is_taken_back_gives_the_node_back():
    made, _ = engine(ev.NodeSeen(node("n0")), ev.PodSeen(pod("a", cpu=9, annotations=EXCLUSIVE)))
    made.learn([ev.PodSeen(pod("a", version=2, cpu=9))])
    assert not made.state.groups["pod:a#0"].layout.exclusive
    assert dict(made.state.waiting["pod:a#0"][0].tasks[0].shape.requests)[PLACES] == 1


# -- together ----------------------------------------------------------------------------------------


def test_I8_eight_nodes_in_one_rack():
    play("layout_rack")


def test_I8_few_racks_where_one_has_no_room():
    play("layout_preferred")


def test_I8_who_joins_comes_into_the_rack_of_the_others():
    play("layout_growth")


def test_I8_a_promise_is_for_one_rack():
    play("layout_easy")


def test_I8_what_no_node_has_holds_the_group_until_one_has():
    play("layout_unreadable")


def test_I8_a_level_that_disappears_holds_who_waits_for_it():
    labelled = node("n0", labels={RACK: "r"})
    made, _ = engine(ev.NodeSeen(labelled), ev.PodSeen(pod("a", cpu=4, node="n0")))
    made.learn([ev.PodSeen(pod("b", annotations=ONE_RACK))])
    assert made.state.groups["pod:b#0"].phase is Phase.QUEUED and made.state.confined
    made.learn([ev.NodeSeen(node("n0", version=2))])
    assert made.state.groups["pod:b#0"].reason.why is Why.INVALID and not made.state.confined
    made.learn([ev.NodeSeen(node("n0", version=3, labels={RACK: "r"}))])
    assert made.state.groups["pod:b#0"].phase is Phase.QUEUED


def test_I8_a_plan_over_two_racks_is_refused():
    racks = [ev.NodeSeen(node(f"n{i}", labels={RACK: f"r{i}"})) for i in range(2)]
    members = [ev.PodSeen(pod(f"a{i}", group="a", size=2, annotations=ONE_RACK)) for i in range(2)]
    made, commands = engine(*racks, *members)
    gid = "label:default/a#0"
    moved = ev.NodeSeen(node("n1", version=2, labels={RACK: "r1", "x": "y"}))
    made.learn([moved])
    made.learn([proposed(commands, {gid: ["n0", "n1"]})])
    assert "together" in made.last_stale and made.state.groups[gid].phase is Phase.QUEUED


def test_I8_too_large_for_any_rack_is_told_with_what_it_lacks():
    stage = Stage(Settings(pace=0))
    stage.add_nodes(6, {"cpu": "4", "memory": "8Gi", "racks": "3"})
    cases = {
        "count": ("4x cpu=4", f"needs 4 × cpu=4 in one {RACK}, the largest holds 3 (rack0)"),
        "sum": ("3x cpu=3 + 2x cpu=2", f"needs cpu=13 in all in one {RACK}, the largest has 12"),
        "alone": ("3x cpu=1 + 1x cpu=2 exclusive=true", f"needs more nodes for itself than any {RACK} has"),
    }
    for name, (words, text) in cases.items():
        stage.do(["submit", name, *words.split(), "required-topology=rack"])
        stage.world.run(20)
        (group,) = [g for g in stage.world.engine.state.groups.values() if g.name == name]
        assert (group.reason.why, group.reason.text) == (Why.UNSATISFIABLE, text)


CASES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", "a", "b"])), min_size=1, max_size=5)
TASKS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=2)


def made(
    nodes: list[tuple[int, str]], tasks: list[tuple[int, int]], layout: Layout
) -> tuple[Snapshot, Request]:
    inventory = Inventory()
    for i, (cpu, rack) in enumerate(nodes):
        labels = {RACK: rack} if rack else {}
        inventory.put(Node(f"u{i}", f"n{i}", 1, (("cpu", cpu), ("pods", 9)), labels))
    found: list[Task] = []
    for number, (cpu, times) in enumerate(tasks):
        shape = Shape((("cpu", cpu), ("pods", 1)))
        inventory.vector(shape.requests)
        found.append(Task(shape, tuple(f"p{number}-{i}" for i in range(times))))
    request = Request("g", (0, 0, 1, "g"), tuple(found), False, 0, layout=layout)
    return columns(inventory, (request,), Settings(), 0), request


@settings(max_examples=300)
@given(CASES, TASKS)
def test_I8_nothing_is_called_impossible_that_an_empty_rack_could_hold(
    nodes: list[tuple[int, str]], tasks: list[tuple[int, int]]
):
    snapshot, request = made(nodes, tasks, Layout(required=RACK))
    placed = Matcher(Draft(snapshot), "first").place(request)
    verdict = unsatisfiable(snapshot, request)
    if placed is not None:
        assert not verdict
        racks = {nodes[int(place.node[1:])][1] for place in placed}
        assert len(racks) == 1 and "" not in racks
    if len(tasks) == 1:  # one shape: the bound is exact
        assert bool(verdict) == (placed is None)


# -- beside Fluxion's choices ------------------------------------------------------------------------

POLICIES = ("first", "low", "high", "lonode", "hinode", "locality")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), min_size=2, max_size=9),
    st.integers(1, 7),
    st.sampled_from(POLICIES),
)
def test_D9_few_racks_are_never_more_than_those_of_fluxions_policies(
    nodes: list[tuple[int, str]], wanted: int, name: str
):
    """The tree's policies choose as Fluxion's own do, which is tested elsewhere."""
    inventory = Inventory()
    found = [
        Node(f"u{i}", f"n{i}", 1, (("cpu", cpu * 1000), ("pods", 9)), {RACK: rack})
        for i, (cpu, rack) in enumerate(nodes)
    ]
    for each in found:
        inventory.put(each)
    shape = Shape((("cpu", 3_000),))
    inventory.vector(shape.requests)
    task = Task(shape, tuple(f"p{i}" for i in range(wanted)))
    request = Request("g", (0, 0, 1, "g"), (task,), False, 0, layout=Layout(preferred=RACK))
    placed = Matcher(Draft(columns(inventory, (request,), Settings(), 0)), "first").place(request)
    tree = Tree(split(pools(found, (RACK,))))
    job = Graph(tree, match_policy(name)).match(read(_job(wanted), tree.types), Op.allocate, 1).job
    assert (placed is None) == (job is None)
    if placed is not None and job is not None:
        ours = {nodes[int(place.node[1:])][1] for place in placed}
        theirs = {tree.name(v) for v in job.held if tree.type[v] == "rack"}
        assert len(ours) <= len(theirs)


def _job(wanted: int) -> str:
    return f"""
version: 1
resources:
  - type: slot
    count: {wanted}
    label: default
    with: [{{type: node, count: 1, with: [{{type: core, count: 3}}]}}]
tasks: [{{command: [a], slot: default, count: {{per_slot: 1}}}}]
attributes: {{system: {{duration: 60}}}}
"""
