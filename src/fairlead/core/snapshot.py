"""The frozen view a plan is made from, and the mutable what-if on top of it.

Taken by `core.picture` when a cycle is due; `core.cycle` works on it alone, so a plan depends on nothing
else. A Snapshot is column copies and a version; pods appear as tasks of requests.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.crowd import Crowd
from fairlead.core.inventory import Ints, Vector
from fairlead.core.labels import NodeClasses
from fairlead.core.outline import Need
from fairlead.core.profile import Release
from fairlead.core.taste import Taste
from fairlead.model.group import Reason
from fairlead.model.layout import NO_LAYOUT, Layout
from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.preferences import NO_PREFERENCES, Preferences
from fairlead.model.settings import DEFAULT_QUEUE, Settings


class Task(NamedTuple):
    """Interchangeable members: one shape, and the uids that want it."""

    shape: Shape
    uids: tuple[str, ...]
    like: Pod | None = None
    """What else of them matters to other pods and to constraints on them (`core.spoken`); None if nothing."""
    wishes: Preferences = NO_PREFERENCES


class Spot(NamedTuple):
    """`times` members on node row `row`."""

    row: int
    times: int


Order = tuple[int, int, int, str]
"""(-priority, walltime where the queue goes by it, first-seen sequence, id): the smaller, the earlier.

Who takes the place of a lost member has FIRST and -priority instead of the first two.
"""
FIRST = -(1 << 62)


class Request(NamedTuple):
    """What one group waits for: all members of a start, or one that joins a running group."""

    group: str
    order: Order
    tasks: tuple[Task, ...]
    growth: bool
    duration: int
    queue: str = DEFAULT_QUEUE
    kind: int = 0
    """Equal where queue, duration, layout and tasks are (uids apart); 0 is like no other."""
    layout: Layout = NO_LAYOUT


class Promise(NamedTuple):
    """A start that a waiting request was promised by an earlier plan."""

    request: Request
    start: int
    nodes: tuple[str, ...]
    reason: Reason


class Pool(NamedTuple):
    """A machine on which sums decide who fits: one node, or slots that are all alike (`core.pool`).

    `free` and the amounts of `ends` are per resource of `rows`; `rows` is empty for slots, whose one
    resource is their number. `ends` is in order of time.
    """

    rows: tuple[int, ...]
    free: tuple[int, ...]
    ends: tuple[tuple[int, Need], ...]
    needs: dict[int, Need]
    """Kind of request -> its amounts; shared between snapshots, filled by `core.pool`."""
    slot: Vector | None = None


class Snapshot(NamedTuple):
    """Columns are [resource, node], in the units of the model. `waiting` is in queue order.

    If `freed`, everybody is in `waiting`, and what is promised is laid anew or, where promises are kept,
    moved earlier. Else only those are whom no plan has looked at yet or whose promise has come due; for the
    others nothing has changed. `fresh` are the requests of which it is not known yet whether they could
    ever be held.
    """

    version: int
    epoch: int
    now: int
    settings: Settings
    names: tuple[str, ...]
    capacity: Ints
    free: Ints
    classes: NodeClasses
    vectors: dict[Amounts, Vector]
    resources: dict[str, int]
    waiting: tuple[Request, ...]
    fresh: tuple[Request, ...] = ()
    running: tuple[Release, ...] = ()
    """What started groups will give back; only for policies that look ahead, and where there is no pool."""
    freed: bool = True
    promises: tuple[Promise, ...] = ()
    heads: tuple[tuple[str, str], ...] = ()
    """(queue, group) for each queue of which a group holds up others."""
    depths: tuple[tuple[str, int, int], ...] = ()
    """(queue, how many of its groups wait, how many of these are promised a start)."""
    pool: Pool | None = None
    possible: dict[int, tuple[str, str]] = {}  # noqa: RUF012 - a tuple's field, and never of kind 0
    """Kind -> why it can never be held, and why not on the nodes there now. Shared until nodes change."""
    crowd: Crowd | None = None
    """For those who mind other pods or have volumes; None if nobody who waits does."""
    taste: Taste | None = None
    """For those who would rather have some nodes than others; None if nobody does."""


_NOTHING = Vector(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), ())


class Draft:
    """Free amounts as they would be; every taking is logged, so it can be rewound to a mark.

    Within a cycle free only shrinks, but for rewinds: `reopened` counts those, so that what is known
    not to fit can be trusted until it moves.
    """

    def __init__(self, snapshot: Snapshot, free: Ints | None = None) -> None:
        self.snapshot = snapshot
        self.free = snapshot.free.copy() if free is None else free
        self.log: list[tuple[Vector, int, int]] = []
        """(request, node row, how many) in order; `core.match` catches up with it."""
        self.reopened = 0
        self._cells = [memoryview(column) for column in self.free]
        self._load: Ints | None = None

    def take(self, vector: Vector, row: int, times: int) -> None:
        """Let `times` such requests use the node."""
        cells = self._cells  # about ten times faster than indexing the array for a handful of numbers
        for resource, amount in vector.pairs:
            cells[resource][row] -= amount * times
        self.log.append((vector, row, times))
        if self._load is not None:
            self._load[row] = self._load_of(row)

    def take_all(self, vector: Vector, spots: Sequence[tuple[int, int]]) -> None:
        """The same on many nodes, each once: (row, times)."""
        if len(spots) < _MANY:
            for row, times in spots:
                self.take(vector, row, times)
            return
        pairs = np.array(spots, dtype=np.int64)
        rows, times = pairs[:, 0], pairs[:, 1]
        self.free[vector.rows[:, None], rows] -= vector.amounts[:, None] * times
        self.log += [(vector, row, n) for row, n in spots]
        if self._load is not None:
            self._load[rows] = self._loads_of(rows)

    def fits(self, vector: Vector, row: int) -> bool:
        """Whether one such request fits on the node."""
        cells = self._cells
        for resource, amount in vector.pairs:  # noqa: SIM110 - a generator in all() costs three times as much
            if cells[resource][row] < amount:
                return False
        return True

    def lower(self, rows: Ints, free: Ints) -> None:
        """Less is free on these nodes ([resource, row]) for a reason outside the draft; caches follow."""
        self.free[:, rows] = free
        for row in rows.tolist():
            self.take(_NOTHING, row, 0)

    def mark(self) -> int:
        return len(self.log)

    def rewind(self, mark: int) -> None:
        """Undo what was taken since the mark. The undoing is logged too: caches follow the log forward."""
        for vector, row, times in reversed(self.log[mark:]):
            self.take(vector, row, -times)
        self.reopened += 1

    def load(self) -> Ints:
        """[node] mean share of cpu and memory in use, in millionths (kube-scheduler's MostAllocated)."""
        load = self._load
        if load is None:
            load = self._load = self._loads_of(slice(None))
        return load

    def _loads_of(self, rows: slice | Ints) -> Ints:
        capacity = self.snapshot.capacity
        total = np.zeros_like(capacity[0, rows])
        for resource in self._weighed():
            whole = capacity[resource, rows]
            coarse = np.where(whole < _HUGE, 0, _COARSE)
            total += ((whole - self.free[resource, rows]) >> coarse) * SCALE // np.maximum(whole >> coarse, 1)
        return total // 2

    def _weighed(self) -> list[int]:
        resources = self.snapshot.resources
        return [resources[name] for name in ("cpu", "memory") if name in resources]

    def _load_of(self, row: int) -> int:
        total = 0
        for resource in self._weighed():
            whole = int(self.snapshot.capacity[resource, row])
            coarse = 0 if whole < _HUGE else _COARSE
            total += ((whole - self._cells[resource][row]) >> coarse) * SCALE // max(whole >> coarse, 1)
        return total // 2


SCALE = 1_000_000
_HUGE, _COARSE = 1 << 43, 10
"""Amounts from 8 TiB on are counted in KiB, or SCALE times as much would be more than 64 bits hold."""
_MANY = 32
"""Nodes from which on one pass over columns is cheaper than a step per node."""


def rows_since(draft: Draft, position: int) -> NDArray[np.intp]:
    """Node rows whose free amounts changed after the log position, each once."""
    return np.array(list(dict.fromkeys([entry[1] for entry in draft.log[position:]])), dtype=np.intp)
