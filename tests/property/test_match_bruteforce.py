"""Placing and calling impossible, against brute force on small clusters."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.explain import unsatisfiable
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Snapshot, Task
from fairlead.model.node import Node
from fairlead.model.pod import Amounts, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings

cpu, gpu = st.integers(1, 4), st.integers(0, 2)
NODES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from("ab")), min_size=0, max_size=4
)
TASKS = st.lists(
    st.tuples(cpu, gpu, st.sampled_from(["", "a", "b"]), st.integers(1, 3)), min_size=1, max_size=3
)
POLICIES = st.sampled_from(("first", "pack", "spread"))


def amounts(**wanted: int) -> Amounts:
    return tuple(sorted((name, n) for name, n in wanted.items() if n))


def make_snapshot(
    nodes: list[tuple[int, int, str]], tasks: list[tuple[int, int, str, int]], policy: str
) -> tuple[Snapshot, Request]:
    inventory = Inventory()
    for i, (c, g, zone) in enumerate(nodes):
        inventory.put(Node(f"u{i}", f"n{i}", i + 1, amounts(cpu=c, gpu=g, pods=5), {"zone": zone}))
    made: list[Task] = []
    for number, (c, g, zone, times) in enumerate(tasks):
        selector = (Expression("zone", Operator.IN, (zone,)),) if zone else ()
        shape = Shape(amounts(cpu=c, gpu=g, pods=1), selector)
        inventory.vector(shape.requests)
        made.append(Task(shape, tuple(f"p{number}-{i}" for i in range(times))))
    request = Request("g", (0, 1, "g"), tuple(made), False, 0)
    settings_ = Settings(match=policy)
    return columns(inventory, (request,), settings_, 0), request


def fits(snapshot: Snapshot, request: Request, where: tuple[int, ...]) -> bool:
    free = snapshot.capacity.copy()
    pods = [task.shape for task in request.tasks for _ in task.uids]
    for shape, row in zip(pods, where, strict=True):
        if not snapshot.classes.now((shape.selector, shape.affinity, shape.tolerations))[row]:
            return False
        for name, n in shape.requests:
            free[snapshot.resources[name], row] -= n
    return bool((free >= 0).all())


def possible(snapshot: Snapshot, request: Request) -> bool:
    members = sum(len(task.uids) for task in request.tasks)
    return any(
        fits(snapshot, request, where) for where in product(range(len(snapshot.names)), repeat=members)
    )


@settings(max_examples=300)
@given(NODES, TASKS, POLICIES)
def test_what_is_placed_fits_and_is_whole(nodes: list, tasks: list, policy: str):
    snapshot, request = make_snapshot(nodes, tasks, policy)
    draft = Draft(snapshot)
    placed = Matcher(draft, policy).place(request)
    if placed is None:
        assert (draft.free == snapshot.free).all()
        return
    uids = [uid for task in request.tasks for uid in task.uids]
    assert sorted(p.pod for p in placed) == sorted(uids)
    row = {name: i for i, name in enumerate(snapshot.names)}
    node = {p.pod: row[p.node] for p in placed}
    assert fits(snapshot, request, tuple(node[uid] for uid in uids))


@settings(max_examples=300)
@given(NODES, TASKS.map(lambda tasks: tasks[:1]), POLICIES)
def test_identical_members_are_placed_whenever_they_can_be(nodes: list, tasks: list, policy: str):
    snapshot, request = make_snapshot(nodes, tasks, policy)
    placed = Matcher(Draft(snapshot), policy).place(request)
    assert (placed is not None) == possible(snapshot, request)


@settings(max_examples=300)
@given(NODES, TASKS.filter(lambda tasks: sum(t[3] for t in tasks) <= 5))
def test_F16_nothing_possible_is_called_impossible(nodes: list, tasks: list):
    snapshot, request = make_snapshot(nodes, tasks, "first")
    verdict = unsatisfiable(snapshot, request)
    if possible(snapshot, request):
        assert verdict == ""
    elif len(request.tasks) == 1:
        assert verdict


@settings(max_examples=200)
@given(NODES, st.integers(1, 8))
def test_spread_is_as_even_as_possible(nodes: list, members: int):
    snapshot, request = make_snapshot(nodes, [(1, 0, "", members)], "spread")
    placed = Matcher(Draft(snapshot), "spread").place(request)
    if placed is None:
        return
    times = [sum(p.node == name for p in placed) for name in snapshot.names]
    room = [min(c, 5) for c, _, _ in nodes]
    assert all(t <= r for t, r in zip(times, room, strict=True))
    low = min((t for t, r in zip(times, room, strict=True) if t < r), default=max(times))
    assert max(times) <= low + 1  # who has one more than another leaves that one no room, or is the last


@settings(max_examples=200)
@given(NODES, st.integers(1, 8))
def test_first_and_pack_fill_one_node_after_the_other(nodes: list, members: int):
    for policy in ("first", "pack"):
        snapshot, request = make_snapshot(nodes, [(1, 0, "", members)], policy)
        placed = Matcher(Draft(snapshot), policy).place(request)
        if placed is None:
            continue
        times = [sum(p.node == name for p in placed) for name in snapshot.names]
        room = [min(c, 5) for c, _, _ in nodes]
        assert sum(0 < t < r for t, r in zip(times, room, strict=True)) <= 1
        if policy == "first":
            used = [i for i, t in enumerate(times) if t]
            assert all(times[i] == room[i] for i in range(max(used)))


STEPS = st.lists(
    st.tuples(st.sampled_from(("take", "mark", "rewind", "look")), st.integers(0, 3), st.integers(0, 2)),
    max_size=25,
)


@settings(max_examples=300)
@given(NODES.filter(len), TASKS, STEPS, POLICIES)
def test_a_view_that_caught_up_equals_a_new_one(nodes: list, tasks: list, steps: list, policy: str):
    snapshot, request = make_snapshot(nodes, tasks, policy)
    draft = Draft(snapshot)
    matcher = Matcher(draft, policy)
    marks = [0]
    for verb, a, b in steps:
        task = request.tasks[b % len(request.tasks)]
        view = matcher.view(task.shape)
        if verb == "mark":
            marks.append(draft.mark())
        elif verb == "rewind":
            draft.rewind(marks.pop() if len(marks) > 1 else 0)
            marks = marks if len(marks) > 1 else [0]
        elif verb == "take":
            row = a % len(nodes)
            if draft.fits(view.vector, row):
                draft.take(view.vector, row, 1)
        fresh_draft = Draft(snapshot)
        fresh_draft.free[:] = draft.free
        fresh = Matcher(fresh_draft, policy).view(task.shape)
        assert (view.counts() == fresh.counts()).all()
        assert view.lowest() == fresh.lowest()
        assert view.most(1) == fresh.most(1)
        assert view.most(-1) == fresh.most(-1)
        assert (draft.load() == fresh_draft.load()).all()
    draft.rewind(0)
    assert np.array_equal(draft.free, snapshot.free)
