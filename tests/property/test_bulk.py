"""Placing a whole queue at once: never more than is there, everybody exactly once, else nothing at all."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core import bulk
from fairlead.core.cycle import plan_now
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Snapshot, Task
from fairlead.core.steps import now
from fairlead.model.node import Node
from fairlead.model.plan import Start
from fairlead.model.pod import Shape
from fairlead.model.settings import Settings


def snapshot(nodes: list[int], groups: list[tuple[tuple[int, int], ...]], match: str) -> Snapshot:
    """Nodes of so much cpu; groups of (cpu, members) per task."""
    inventory = Inventory()
    for i, cpu in enumerate(nodes):
        inventory.put(
            Node(uid=f"u{i}", name=f"n{i:03d}", version=1, allocatable=(("cpu", cpu), ("pods", 50)))
        )
    shapes = {cpu: Shape((("cpu", cpu), ("pods", 1))) for group in groups for cpu, _ in group}
    requests: list[Request] = []
    for i, group in enumerate(groups):
        tasks = tuple(
            Task(shapes[cpu], tuple(f"p{i}-{cpu}-{k}" for k in range(n))) for cpu, n in dict(group).items()
        )
        requests.append(Request(f"g{i}", (0, i, f"g{i}"), tasks, False, 0))
    for shape in shapes.values():
        inventory.vector(shape.requests)
    return columns(inventory, tuple(requests), Settings(match=match), 1000)


def drain(view: Snapshot):
    return now(bulk.place_all(Matcher(Draft(view), view.settings.match), view.waiting))


groups_of = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=2).map(tuple),
    min_size=2,
    max_size=40,
)


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "WORTH", 1)
    monkeypatch.setattr(bulk, "_PER_CLASS", 0)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=8),
    groups_of,
    st.sampled_from(["first", "pack", "spread", "locality"]),
)
def test_everybody_once_and_never_more_than_is_free(nodes, groups, match):
    view = snapshot(nodes, groups, match)
    before = view.free.copy()
    placed = drain(view)
    assert np.array_equal(view.free, before), "a snapshot is frozen"
    if placed is None:
        return
    used: Counter[str] = Counter()
    for request, places in zip(view.waiting, placed, strict=True):
        cpu_of = {uid: dict(task.shape.requests)["cpu"] for task in request.tasks for uid in task.uids}
        assert sorted(place.pod for place in places) == sorted(cpu_of)
        for place in places:
            used[place.node] += cpu_of[place.pod]
    for i, cpu in enumerate(nodes):
        assert used[f"n{i:03d}"] <= cpu


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 3), st.integers(2, 40))
def test_identical_pods_are_placed_if_and_only_if_they_fit(nodes, cpu, count):
    view = snapshot(nodes, [((cpu, 1),)] * count, "first")
    assert (drain(view) is not None) == (sum(n // cpu for n in nodes) >= count)


def test_a_queue_that_does_not_fit_is_planned_in_order():
    view = snapshot([4, 4], [((1, 1),)] * 9, "first")
    assert drain(view) is None
    plan = plan_now(view)
    assert [d.group for d in plan.decisions if isinstance(d, Start)] == [f"g{i}" for i in range(8)]
    assert dict(plan.heads) == {"default": "g8"}


def test_a_queue_that_fits_starts_whole_and_has_no_head():
    view = snapshot([10] * 4, [((2, 3),), ((1, 4), (3, 2)), ((1, 1),)], "spread")
    plan = plan_now(view)
    assert [d.group for d in plan.decisions if isinstance(d, Start)] == ["g0", "g1", "g2"]
    assert not plan.heads
