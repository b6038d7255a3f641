"""Placing those for whom it matters where others are: near each other, apart from each other, on few racks.

Called by `core.match` for requests with a layout or with members that mind other pods; by `core.cycle` to
know who waits for more than the end of work. Members whose own kind does not come into it are placed in one
pass like all others, and so are those that only want a node each; the rest go one by one, each seeing those
before it. Must leave the draft and the company as they were where not all members find a place. Greedy: it
may find none where there is one, and never one that is not allowed.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import TYPE_CHECKING

from fairlead.core import topology
from fairlead.core.columns import Mask
from fairlead.core.crowd import Company
from fairlead.core.inventory import Ints, how_many
from fairlead.core.labels import constraints
from fairlead.core.snapshot import Request, Snapshot, Spot, Task
from fairlead.model.layout import Layout
from fairlead.model.plan import Placement
from fairlead.model.pod import Pod

if TYPE_CHECKING:
    from fairlead.core.match import Matcher

_ALL_ORDERS = 3
"""Up to so many kinds of members all orders are tried."""
_REGIONS = 64
"""In how many domains all members are tried at most, once each has room for every task alone."""


def place(matcher: "Matcher", tasks: tuple[Task, ...], layout: Layout) -> tuple[Placement, ...] | None:
    """Place all members or none. Unlike members are placed in another order if that is of no avail."""
    orders = [matcher.ordered(tasks)]
    if 1 < len(tasks) <= _ALL_ORDERS:
        orders += [each for each in permutations(tasks) if each != orders[0]]
    elif len(tasks) > 1:
        orders += [tasks, tasks[::-1]]
    for each in orders:
        placed = _place(matcher, each, layout)
        if placed is not None:
            return placed
    return None


def stuck(snapshot: Snapshot, request: Request, now: Company, end: Company) -> bool:
    """Whether some member could go nowhere, neither in the company of now nor in that of the end of all work.

    Then it waits for pods, claims or volumes to come or go. What members want of each other is left out, so
    the answer may be no where nothing will help.
    """
    for task in request.tasks:
        like = task.like
        if like is None or not end.crowd.concerns(like):
            continue
        vector = snapshot.vectors[task.shape.requests]
        good = snapshot.classes.now(constraints(task.shape)) & (how_many(snapshot.capacity, vector) > 0)
        alone = len(request.tasks) == 1
        good &= end.allowed(like) | now.allowed(like) if alone else end.fixed(like) | now.fixed(like)
        if not good.any():
            return True
    return False


def _place(matcher: "Matcher", tasks: Sequence[Task], layout: Layout) -> tuple[Placement, ...] | None:
    for region in _regions(matcher, layout, tasks):
        mark = matcher.mark()
        placed = _within(matcher, tasks, region)
        if placed is not None:
            return placed
        matcher.rewind(mark)
    return None


def _regions(matcher: "Matcher", layout: Layout, tasks: Sequence[Task]) -> Iterator[Mask | None]:
    """Nodes to try one after the other; None for all of them."""
    key = layout.required or _together(matcher, tasks)
    if not (key or layout.preferred):
        yield None
        return
    snapshot = matcher.draft.snapshot
    counts = [_room(matcher, task) for task in tasks]
    wanted = [len(task.uids) for task in tasks]
    levels = topology.of(snapshot.classes, snapshot.settings.topology)
    policy = "pack" if matcher.policy == "locality" else matcher.policy
    found = levels.regions(layout._replace(required=key), counts, wanted, policy, matcher.draft.load())
    yield from islice(found, _REGIONS)
    if not (layout.required or layout.preferred):  # not everybody need be where some want to be together
        yield None


def _together(matcher: "Matcher", tasks: Sequence[Task]) -> str:
    """The topology key of a domain that members want to share with each other."""
    if matcher.company is not None and sum([len(task.uids) for task in tasks]) > 1:
        for task in tasks:
            if (like := matcher.minds(task)) is not None:
                key = matcher.company.together(like)
                if key:
                    return key
    return ""


def _room(matcher: "Matcher", task: Task) -> Ints:
    """[node] how many members fit, before any of them is placed."""
    counts = matcher.view(task.shape).counts()
    like, company = matcher.minds(task), matcher.company
    if like is None or company is None:
        return counts
    counts = counts * company.allowed(like)
    return company.one_per_domain(like, counts) if company.once_each(like) else counts


def _within(matcher: "Matcher", tasks: Sequence[Task], region: Mask | None) -> tuple[Placement, ...] | None:
    placed: list[Placement] = []
    for task in tasks:
        spots = _spots(matcher, task, region)
        if spots is None:
            return None
        placed += matcher.named(task, spots)
    return tuple(placed)


def _spots(matcher: "Matcher", task: Task, region: Mask | None) -> list[Spot] | None:
    like, company = matcher.minds(task), matcher.company
    alone = like is None or company is None or company.indifferent(like) or company.once_each(like)
    if like is not None and not alone:
        return _one_by_one(matcher, task, like, region)
    counts = _room(matcher, task)
    return matcher.many(task, counts if region is None else counts * region)


def _one_by_one(matcher: "Matcher", task: Task, like: Pod, region: Mask | None) -> list[Spot] | None:
    view, company = matcher.view(task.shape), matcher.company
    assert company is not None
    liking = matcher.liking(task)
    spots: list[Spot] = []
    for _ in task.uids:
        good = (view.counts() > 0) & company.allowed(like)
        row = matcher.pick(good if region is None else good & region, liking)
        if row < 0:
            return None
        matcher.take(task, [Spot(row, 1)])
        spots.append(Spot(row, 1))
    return spots
