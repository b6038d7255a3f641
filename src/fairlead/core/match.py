"""Which nodes: placing the members of a request in a Draft, all or none.

Called by `core.cycle`. Works on classes, never on single pods: a View follows one (request vector,
mask) through the cycle, catching up with the draft's log instead of starting anew, so ten thousand
single pods of fifty shapes cost fifty scans and ten thousand small steps.

Match policies: `first` lowest node first; `pack` the fullest node that fits first (kube-scheduler's
MostAllocated); `spread` the emptiest first, as evenly as possible (LeastAllocated); `locality` the fewest
racks, and within them as `pack`. Load is a node's share of cpu and memory in use before the placing, so it is
one column for all shapes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.core import apart, topology
from fairlead.core.columns import Mask
from fairlead.core.crowd import Company
from fairlead.core.inventory import Ints, Vector, how_many
from fairlead.core.labels import constraints
from fairlead.core.snapshot import Draft, Request, Spot, Task, rows_since
from fairlead.core.taste import MOST
from fairlead.model.layout import Layout
from fairlead.model.plan import Placement
from fairlead.model.pod import Pod, Shape

_CHUNK = 256
_NEVER = 1 << 60
_Rows = slice | NDArray[np.intp]


class View:
    """Where one request fits now, kept up to date along the draft's log.

    For single pods it keeps a superset of the nodes that fit (what did not fit stays out until a rewind)
    and checks the chosen node itself; for several it keeps exact counts.
    """

    def __init__(self, draft: Draft, vector: Vector, mask: Mask) -> None:
        self.draft, self.vector, self.mask = draft, vector, mask
        self._cursor = 0
        self._maybe: NDArray[np.bool_] | None = None
        self._counts: Ints | None = None
        self._at = len(draft.log)
        self._reopened = draft.reopened

    def lowest(self) -> int:
        """The lowest node row where one fits; -1 if none. The cursor only moves forward."""
        self._forget_after_rewind()
        row, size = self._cursor, len(self.mask)
        if row < size and self.mask[row] and self.draft.fits(self.vector, row):
            return row
        while row < size:
            fits = self._fit(slice(row, row + _CHUNK)) & self.mask[row : row + _CHUNK]
            at = int(fits.argmax())
            if fits[at]:
                self._cursor = row + at
                return self._cursor
            row += _CHUNK
        self._cursor = size
        return -1

    def most(self, sign: int) -> int:
        """The node row with the highest (sign 1) or lowest (-1) load where one fits; -1 if none."""
        self._forget_after_rewind()
        if self._maybe is None:
            self._maybe = self._fit(slice(None)) & self.mask
        if not len(self._maybe):
            return -1
        while True:
            load = self.draft.load()
            if sign > 0:
                row = int(np.where(self._maybe, load, -_NEVER).argmax())
            else:
                row = int(np.where(self._maybe, load, _NEVER).argmin())
            if not self._maybe[row]:
                return -1
            if self.draft.fits(self.vector, row):
                return row
            self._maybe[row] = False

    def counts(self) -> Ints:
        """[node] how many fit; 0 where the mask forbids the node."""
        behind = len(self.draft.log) - self._at
        if self._counts is None or behind * 8 > len(self.mask):  # so much that starting anew is cheaper
            self._counts = how_many(self.draft.free, self.vector) * self.mask
        elif behind:
            rows = rows_since(self.draft, self._at)
            self._counts[rows] = how_many(self.draft.free[:, rows], self.vector) * self.mask[rows]
        self._at = len(self.draft.log)
        return self._counts

    def _forget_after_rewind(self) -> None:
        if self._reopened != self.draft.reopened:
            self._reopened, self._cursor, self._maybe = self.draft.reopened, 0, None

    def _fit(self, rows: _Rows) -> NDArray[np.bool_]:
        free = self.draft.free
        result: NDArray[np.bool_] | None = None
        for resource, amount in self.vector.pairs:
            enough = free[resource, rows] >= amount
            result = enough if result is None else result & enough
        return np.ones(free[0, rows].shape, dtype=bool) if result is None else result


class Matcher:
    """Places requests in one draft under one match policy, and tells the company of each if there is one."""

    def __init__(self, draft: Draft, policy: str, company: Company | None = None) -> None:
        self.draft, self.policy, self.company = draft, policy, company
        self._sign = {"first": 0, "pack": 1, "spread": -1, "locality": 1}[policy]
        self._likings: dict[tuple[int, int, int], tuple[Task, Ints | None]] = {}
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
        layout = self._layout(request)
        if self.company is not None and any(map(self.minds, request.tasks)):
            return apart.place(self, request.tasks, layout)
        if layout.near:
            wanted = (layout, *((id(task.shape), len(task.uids)) for task in request.tasks))
            placed = None if wanted in self._failed else apart.place(self, request.tasks, layout)
            if placed is None:
                self._failed[wanted] = None
            return placed
        if len(request.tasks) == 1 and len(request.tasks[0].uids) == 1:
            return self._place_single(request.tasks[0])
        key = tuple((id(task.shape), len(task.uids)) for task in request.tasks)
        if key in self._failed:  # within a cycle free only shrinks: what failed stays failed
            return None
        mark = self.mark()
        found: list[Placement] = []
        for task in self.ordered(request.tasks):
            spots = self.many(task, self.view(task.shape).counts())
            if spots is None:
                self.rewind(mark)
                self._failed[key] = None
                return None
            found += self.named(task, spots)
        return tuple(found)

    def _layout(self, request: Request) -> Layout:
        """What the group asks for; under `locality` all who say nothing want to lie close together."""
        layout = request.layout
        if self.policy != "locality" or layout.near or request.growth:
            return layout
        if len(request.tasks) == 1 and len(request.tasks[0].uids) == 1:
            return layout
        snapshot = self.draft.snapshot
        levels = topology.of(snapshot.classes, snapshot.settings.topology).present()
        return layout._replace(preferred=levels[-1]) if levels else layout

    def _place_single(self, task: Task) -> tuple[Placement, ...] | None:
        """The same for one pod: the path that ten thousand of them take in one cycle."""
        known = self._views.get(id(task.shape))
        view = self.view(task.shape) if known is None else known[1]
        liking = None if self.draft.snapshot.taste is None else self.liking(task)
        if liking is not None:
            row = self.pick(view.counts() > 0, liking)
        else:
            row = view.lowest() if self._sign == 0 else view.most(self._sign)
        if row < 0:
            return None
        self.draft.take(view.vector, row, 1)
        if self.company is not None and task.like is not None:
            self.company.take(task.like, row)
        return (Placement(task.uids[0], self.draft.snapshot.names[row]),)

    def minds(self, task: Task) -> Pod | None:
        """What the members mind others by; None if other pods and volumes are nothing to them."""
        if self.company is None or not self.company.crowd.concerns(task.like):
            return None
        return task.like

    def liking(self, task: Task) -> Ints | None:
        """[node] how much the members would like to be there; None if it is all the same to them."""
        taste = self.draft.snapshot.taste
        if taste is None:
            return None
        key = (id(task.shape), id(task.wishes), id(task.like))
        known = self._likings.get(key)
        if known is None:  # the task is kept, so that the ids stay taken
            known = self._likings[key] = (task, taste.of(task, self.view(task.shape).mask))
        return known[1]

    def ordered(self, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        if len(tasks) == 1:
            return tasks
        order = self.hardest_first([task.shape for task in tasks])
        return tuple([tasks[i] for i in order])

    def hardest_first(self, shapes: Sequence[Shape]) -> list[int]:
        """Indices of the shapes, those for which fewest places are left first; ties by the order given."""
        room = [int(self.view(shape).counts().sum()) for shape in shapes]
        return sorted(range(len(shapes)), key=lambda i: (room[i], i))

    def nodes_for(self, task: Task, total: int) -> Iterator[str] | None:
        """Names of nodes for so many pods like the task's, one per pod; None if they do not all fit."""
        view = self.view(task.shape)
        spots = self._choose(view.counts(), total, self.liking(task))
        if spots is None:
            return None
        self.draft.take_all(view.vector, spots)
        names = self.draft.snapshot.names
        return iter([names[spot.row] for spot in spots for _ in range(spot.times)])

    def many(self, task: Task, counts: Ints) -> list[Spot] | None:
        """Take places for all members of a task, at most `counts` per node; None if there are too few."""
        spots = self._choose(counts, len(task.uids), self.liking(task))
        if spots is not None:
            self.take(task, spots)
        return spots

    def take(self, task: Task, spots: Sequence[Spot]) -> None:
        """Let members of the task have these places."""
        self.draft.take_all(self.view(task.shape).vector, spots)
        if self.company is not None and task.like is not None:
            for row, times in spots:
                self.company.take(task.like, row, times)

    def pick(self, good: Mask, liking: Ints | None) -> int:
        """The policy's choice among these nodes; -1 if there are none."""
        row = int(good.argmax())
        if not good[row]:
            return -1
        costs = self._costs(liking)
        return row if costs is None else int(np.where(good, costs, _NEVER).argmin())

    def _costs(self, liking: Ints | None) -> Ints | None:
        """[node] the less, the sooner it is taken; None if in row order. Wishes count between equals only."""
        if not self._sign:
            return None if liking is None else -liking
        load = self.draft.load() * -self._sign
        return load if liking is None else load * (MOST + 1) - liking

    def named(self, task: Task, spots: Sequence[Spot]) -> list[Placement]:
        """The members of the task on these places, in order."""
        uids, names = iter(task.uids), self.draft.snapshot.names
        return [Placement(next(uids), names[spot.row]) for spot in spots for _ in range(spot.times)]

    def mark(self) -> tuple[int, int]:
        """Where to rewind to, of the draft and of the company."""
        return self.draft.mark(), self.company.mark() if self.company is not None else 0

    def rewind(self, mark: tuple[int, int]) -> None:
        """Nothing that was taken since is taken."""
        self.draft.rewind(mark[0])
        if self.company is not None:
            self.company.rewind(mark[1])

    def _choose(self, counts: Ints, wanted: int, liking: Ints | None) -> list[Spot] | None:
        counts = np.minimum(counts, wanted)
        if int(counts.sum()) < wanted:
            return None
        if self.policy == "spread":
            costs = self._costs(liking)
            assert costs is not None
            return _level(counts, costs, wanted)
        order = np.flatnonzero(counts)
        costs = self._costs(liking)
        if costs is not None:
            order = order[np.argsort(costs[order], kind="stable")]
        return _fill(counts, order, wanted)


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
