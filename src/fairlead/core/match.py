"""Which nodes: placing the members of a request in a Draft, all or none.

Called by `core.cycle`. Works on classes, never on single pods: a View follows one (request vector,
mask) through the cycle, catching up with the draft's log instead of starting anew, so ten thousand
single pods of fifty shapes cost fifty scans and ten thousand small steps.

Match policies: `first` lowest node first; `pack` the fullest node that fits first (kube-scheduler's
MostAllocated); `spread` the emptiest first, as evenly as possible (LeastAllocated).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.inventory import Ints, Vector
from fairlead.core.labels import Mask, constraints
from fairlead.core.snapshot import Draft, Request, Task, rows_since
from fairlead.model.plan import Placement
from fairlead.model.pod import Shape

_SCALE = 1_000_000
_Rows = slice | Ints | NDArray[np.intp]


class Spot(NamedTuple):
    """`times` members on node row `row`."""

    row: int
    times: int


class View:
    """How often one request fits on each node now, kept up to date along the draft's log."""

    def __init__(self, draft: Draft, vector: Vector, mask: Mask) -> None:
        self.draft, self.vector, self.mask = draft, vector, mask
        self._fits: NDArray[np.bool_] | None = None
        self._counts: Ints | None = None
        self._scores: Ints | None = None
        self._at = len(draft.log)

    def fits(self) -> NDArray[np.bool_]:
        """[node] whether one more fits."""
        self._catch_up()
        if self._fits is None:
            self._fits = self._fit(slice(None)) & self.mask
        return self._fits

    def counts(self) -> Ints:
        """[node] how many fit; 0 where the mask forbids the node."""
        self._catch_up()
        if self._counts is None:
            self._counts = self._count(slice(None)) * self.mask
        return self._counts

    def scores(self) -> Ints:
        """[node] mean share of cpu, memory and what else is asked for that would be in use, in millionths."""
        self._catch_up()
        if self._scores is None:
            self._scores = self._score(slice(None))
        return self._scores

    def _catch_up(self) -> None:
        log = self.draft.log
        if self._at == len(log):
            return
        rows = np.unique(rows_since(self.draft, self._at))
        if self._fits is not None:
            self._fits[rows] = self._fit(rows) & self.mask[rows]
        if self._counts is not None:
            self._counts[rows] = self._count(rows) * self.mask[rows]
        if self._scores is not None:
            self._scores[rows] = self._score(rows)
        self._at = len(log)

    def _fit(self, rows: _Rows) -> NDArray[np.bool_]:
        free = self.draft.free
        result = free[0, rows] >= -(1 << 62)  # all true, of the right length
        for resource, amount in zip(self.vector.rows, self.vector.amounts, strict=True):
            result &= free[resource, rows] >= amount
        return result

    def _count(self, rows: _Rows) -> Ints:
        free = self.draft.free
        result = np.full_like(free[0, rows], 1 << 40)
        for resource, amount in zip(self.vector.rows, self.vector.amounts, strict=True):
            np.minimum(result, free[resource, rows] // amount, out=result)
        return np.maximum(result, 0)

    def _score(self, rows: _Rows) -> Ints:
        free, capacity = self.draft.free, self.draft.snapshot.capacity
        total = np.zeros_like(free[0, rows])
        counted = 0
        for resource, amount in zip(self.vector.rows, self.vector.amounts, strict=True):
            whole = capacity[resource, rows]
            total += (whole - free[resource, rows] + amount) * _SCALE // np.maximum(whole, 1)
            counted += 1
        return total // max(counted, 1)


class Matcher:
    """Places requests in one draft under one match policy."""

    def __init__(self, draft: Draft, policy: str) -> None:
        self.draft, self.policy = draft, policy
        self._views: dict[int, tuple[Shape, View]] = {}
        self._by_class: dict[object, View] = {}
        self._failed: dict[object, None] = {}

    def view(self, shape: Shape) -> View:
        """The view of a shape; shapes that differ in nothing that matters share one."""
        known = self._views.get(id(shape))
        if known is not None:
            return known[1]
        limits = constraints(shape)
        view = self._by_class.get((shape.requests, limits))
        if view is None:
            snapshot = self.draft.snapshot
            view = View(self.draft, snapshot.vectors[shape.requests], snapshot.classes.now(limits))
            self._by_class[(shape.requests, limits)] = view
        self._views[id(shape)] = (shape, view)  # the shape is kept, so its id stays taken
        return view

    def place(self, request: Request) -> tuple[Placement, ...] | None:
        """Place all members or none; None leaves the draft as it was."""
        names = self.draft.snapshot.names
        if len(request.tasks) == 1 and len(request.tasks[0].uids) == 1:
            shape, uids = request.tasks[0]
            row = self._one(self.view(shape))
            return None if row < 0 else (Placement(uids[0], names[row]),)
        key = tuple((id(task.shape), len(task.uids)) for task in request.tasks)
        if key in self._failed:  # within a cycle free only shrinks: what failed stays failed
            return None
        mark = self.draft.mark()
        placed: list[Placement] = []
        for task in self._hardest_first(request.tasks):
            spots = self._many(self.view(task.shape), len(task.uids))
            if spots is None:
                self.draft.rewind(mark)
                self._failed[key] = None
                return None
            uids = iter(task.uids)
            placed += [Placement(next(uids), names[spot.row]) for spot in spots for _ in range(spot.times)]
        return tuple(placed)

    def _hardest_first(self, tasks: tuple[Task, ...]) -> list[Task]:
        """Members for which fewest places are left go first; ties by the order of arrival."""
        if len(tasks) == 1:
            return list(tasks)
        room = [int(self.view(t.shape).counts().sum()) for t in tasks]
        return [tasks[i] for i in sorted(range(len(tasks)), key=lambda i: (room[i], i))]

    def _one(self, view: View) -> int:
        fits = view.fits()
        if self.policy == "first" or not len(fits):
            row = int(fits.argmax()) if len(fits) else 0
        else:
            sign = 1 if self.policy == "pack" else -1
            row = int(np.where(fits, sign * view.scores(), -(1 << 60)).argmax())
        if not len(fits) or not fits[row]:
            return -1
        self.draft.take(view.vector, row, 1)
        return row

    def _many(self, view: View, wanted: int) -> list[Spot] | None:
        counts = np.minimum(view.counts(), wanted)
        if int(counts.sum()) < wanted:
            return None
        if self.policy == "spread":
            spots = _level(counts, view.scores(), wanted)
        else:
            order = np.flatnonzero(counts)
            if self.policy == "pack":
                order = order[np.argsort(-view.scores()[order], kind="stable")]
            spots = _fill(counts, order, wanted)
        for spot in spots:
            self.draft.take(view.vector, spot.row, spot.times)
        return spots


def _fill(counts: Ints, order: NDArray[np.intp], wanted: int) -> list[Spot]:
    """Fill nodes one after the other in this order."""
    upto = np.cumsum(counts[order])
    last = int(np.searchsorted(upto, wanted))
    spots = [Spot(int(row), int(counts[row])) for row in order[: last + 1]]
    surplus = int(upto[last]) - wanted
    spots[-1] = Spot(spots[-1].row, spots[-1].times - surplus)
    return spots


def _level(counts: Ints, scores: Ints, wanted: int) -> list[Spot]:
    """As even as possible: the lowest L with sum(min(counts, L)) >= wanted; the emptiest get the last."""
    low, high = 1, wanted
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(counts, middle).sum()) >= wanted:
            high = middle
        else:
            low = middle + 1
    take = np.minimum(counts, low - 1)
    left = wanted - int(take.sum())
    candidates = np.flatnonzero(counts >= low)
    take[candidates[np.argsort(scores[candidates], kind="stable")][:left]] += 1
    order = np.flatnonzero(take)
    order = order[np.argsort(scores[order], kind="stable")]
    return [Spot(int(row), int(take[row])) for row in order]
