"""EASY: one plan against a brute force over small snapshots, and promises in simulated worlds."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.cycle import plan_now
from fairlead.core.inventory import Vector
from fairlead.core.labels import NodeClasses
from fairlead.core.profile import Release, Share
from fairlead.core.snapshot import Request, Snapshot, Task
from fairlead.model import command as cmd
from fairlead.model.node import Node
from fairlead.model.plan import Plan, Reserve, Start
from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim.world import World

NOW, SPAN = 1_000, 60
NODES, CAPACITY = 2, (5, 3)
NAMES = ("cpu", "gpu")
SHAPES = tuple(
    Shape(tuple((name, n) for name, n in zip(NAMES, (cpu, gpu), strict=True) if n))
    for cpu in range(5)
    for gpu in range(3)
    if cpu + gpu
)


def vector(amounts: Amounts) -> Vector:
    pairs = tuple((NAMES.index(name), n) for name, n in amounts)
    return Vector(np.array([r for r, _ in pairs]), np.array([n for _, n in pairs]), pairs)


VECTORS = {shape.requests: vector(shape.requests) for shape in SHAPES}


def request(i: int, members: int, shape: Shape, duration: int) -> Request:
    task = Task(shape, tuple(f"{i}.{j}" for j in range(members)))
    return Request(f"g{i}", (0, i, f"g{i}"), (task,), False, duration)


def snapshot(free: np.ndarray, running: Sequence[Release], waiting: Sequence[Request]) -> Snapshot:
    nodes = [Node(f"u{i}", f"n{i}", 1, tuple(zip(NAMES, CAPACITY, strict=True))) for i in range(NODES)]
    return Snapshot(
        version=1,
        epoch=1,
        now=NOW,
        settings=Settings(queues=single("easy"), match="first"),
        names=tuple(node.name for node in nodes),
        capacity=np.repeat(np.array(CAPACITY, dtype=np.int64)[:, None], NODES, axis=1),
        free=free,
        classes=NodeClasses(nodes, [False] * NODES),
        vectors=VECTORS,
        resources={"cpu": 0, "gpu": 1},
        waiting=tuple(waiting),
        running=tuple(running),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    free = np.repeat(np.array(CAPACITY, dtype=np.int64)[:, None], NODES, axis=1)
    running: list[Release] = []
    for until in draw(st.lists(st.sampled_from((0, 1, 2, 2, 3, 3, 4, 4)), min_size=1, max_size=6)):
        v = VECTORS[draw(st.sampled_from(SHAPES)).requests]
        row = draw(st.integers(0, NODES - 1))
        if (free[v.rows, row] >= v.amounts).all():
            free[v.rows, row] -= v.amounts
            if until:
                running.append(Release(NOW + until, Share(v, np.array([row]), np.array([1]))))
    waiting: list[Request] = []
    for i in range(draw(st.integers(3, 10))):
        shape, members = draw(st.sampled_from(SHAPES)), draw(st.integers(1, 2))
        waiting.append(request(i, members, shape, draw(st.sampled_from((1, 1, 2, 2, 3, 4, 5, 0)))))
    return snapshot(free, running, waiting)


class Table:
    """Free amounts at every millisecond, node and resource."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.names = snapshot.names
        self.free = np.repeat(snapshot.free[None], SPAN, axis=0)
        for until, (v, rows, times) in snapshot.running:
            for row, n in zip(rows, times, strict=True):
                self.free[until - NOW :, v.rows, row] += n * v.amounts

    def take(self, request: Request, nodes: Sequence[str], start: int) -> None:
        v = VECTORS[request.tasks[0].shape.requests]
        end = start + request.duration if request.duration else NOW + SPAN
        for name in nodes:
            self.free[start - NOW : end - NOW, v.rows, self.names.index(name)] -= v.amounts

    def last(self, request: Request) -> int:
        """The first instant too late to ask about."""
        return NOW + SPAN - request.duration

    def fits(self, request: Request, start: int) -> bool:
        end = start + request.duration if request.duration else NOW + SPAN
        low = self.free[start - NOW : end - NOW].min(axis=0)
        pairs = VECTORS[request.tasks[0].shape.requests].pairs
        room = sum(max(min(low[r, node] // n for r, n in pairs), 0) for node in range(NODES))
        return room >= len(request.tasks[0].uids)


def spread_over(request: Request, nodes: Sequence[str], table: Table, start: int) -> list[str]:
    """A promise names each node once: find how many members each holds."""
    found: list[str] = []
    v = VECTORS[request.tasks[0].shape.requests]
    end = start + request.duration if request.duration else NOW + SPAN
    for name in nodes:
        low = table.free[start - NOW : end - NOW, :, table.names.index(name)].min(axis=0)
        found += [name] * max(min(low[r] // n for r, n in v.pairs), 0)
    return found[: len(request.tasks[0].uids)]


def check(snapshot: Snapshot, plan: Plan, depth: int) -> None:
    requests = {r.group: r for r in snapshot.waiting}
    table, promised, undated = Table(snapshot), 0, False
    decided: dict[str, None] = {}
    for decision in plan.decisions:
        request = requests[decision.group]
        decided[decision.group] = None
        if isinstance(decision, Start):
            table.take(request, [p.node for p in decision.placements], NOW)
            assert (table.free >= 0).all(), f"{decision} takes what is used or promised"
        elif isinstance(decision, Reserve):
            promised += 1
            until = decision.start or table.last(request)
            if request.duration or not undated:  # what has no end leaves alone what is kept for the undated
                assert not any(table.fits(request, t) for t in range(NOW, until)), "not the earliest"
            if not decision.start:  # no date is known: it waits behind work without an end
                undated = True
                continue
            assert table.fits(request, decision.start)
            # The nodes are advisory where several members share one; the room is not.
            table.take(request, spread_over(request, decision.nodes, table, decision.start), decision.start)
            assert (table.free >= 0).all()
    assert promised <= depth
    head = dict(plan.heads).get("default", "")
    order = [r.group for r in snapshot.waiting]
    behind = order[order.index(head) + 1 :] if head else []
    for name in behind:
        if name not in decided and not (undated and not requests[name].duration):
            assert not table.fits(requests[name], NOW), f"{name} could start and delay nobody"


@given(snapshots())
@settings(max_examples=400)
def test_a_plan_of_easy_is_what_exhaustive_search_allows(snapshot: Snapshot):
    check(snapshot, plan_now(snapshot), 1)


@given(snapshots(), st.integers(2, 4))
def test_so_is_a_plan_with_more_promises(snapshot: Snapshot, depth: int):
    hybrid = snapshot._replace(settings=Settings(queues=single("hybrid", depth)))
    check(hybrid, plan_now(hybrid), depth)


def test_what_ends_as_a_promise_begins_does_not_touch_it():
    one, two, four = (Shape((("cpu", n),)) for n in (1, 2, 4))
    free = np.array([[3, 0], [0, 0]], dtype=np.int64)
    running = [Release(NOW + 4, Share(VECTORS[two.requests], np.array([0]), np.array([1])))]
    asked = [(four, 5), (one, 4), (one, 9), (one, 9)]
    waiting = [request(i, 1, shape, duration) for i, (shape, duration) in enumerate(asked)]
    plan = plan_now(snapshot(free, running, waiting))
    assert [(type(d), d.group) for d in plan.decisions] == [(Reserve, "g0"), (Start, "g1"), (Start, "g2")]


@given(snapshots())
def test_no_match_policy_takes_what_is_promised(snapshot: Snapshot):
    for match in ("pack", "spread"):
        view = snapshot._replace(settings=Settings(queues=single("easy"), match=match))
        requests = {r.group: r for r in view.waiting}
        table = Table(view)
        plan = plan_now(view)
        for decision in plan.decisions:
            if isinstance(decision, Start):
                table.take(requests[decision.group], [p.node for p in decision.placements], NOW)
        promises = [d for d in plan.decisions if isinstance(d, Reserve)]
        assert all(table.fits(requests[d.group], d.start) for d in promises)


SECOND = 1_000
Submission = tuple[int, int, int, int, int]
"""Seconds until it comes, members, cpu, gpu, seconds it runs."""
submissions = st.tuples(
    st.integers(0, 5), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2), st.integers(1, 12)
)


@given(st.lists(submissions, min_size=2, max_size=14))
def test_with_exact_estimates_a_promise_never_gets_later(jobs: list[Submission]):
    world = World(Settings(queues=single("easy"), pace=0))
    for i in range(NODES):
        world.node(Node(f"u{i}", f"n{i}", 0, (*zip(NAMES, CAPACITY, strict=True), ("pods", 110))))
    for i, (wait, members, cpu, gpu, runs) in enumerate(jobs):
        world.run(wait * SECOND)
        requests = (("cpu", cpu), *((("gpu", gpu),) if gpu else ()), ("pods", 1))
        for j in range(members):
            name = f"g{i}-{j}"
            pod = Pod(
                uid=name,
                namespace="d",
                name=name,
                version=0,
                shape=Shape(requests),
                scheduler="fairlead",
                labels={"fairlead.dev/group": f"g{i}", "fairlead.dev/group-size": str(members)},
                annotations={"fairlead.dev/duration": f"{runs}s"},
            )
            world.pod(pod, run_time=runs * SECOND)
    world.run(400 * SECOND)
    slack = SECOND // 2  # binding and starting take a few milliseconds each time
    first: dict[str, int] = {}
    for _, command in world.log:
        if isinstance(command, cmd.RecordAllocations):
            for promise in command.reservations:
                assert promise.start <= first.setdefault(promise.group, promise.start) + slack
            for grant in command.grants:
                assert grant.at <= first.get(grant.group, grant.at) + slack
    assert not world.engine.state.promises
    assert not world.engine.state.waiting
