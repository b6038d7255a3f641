"""The frozen view a plan is made from, and the mutable what-if on top of it.

`take` is called by `core.engine` when a cycle is due; `core.cycle` works on the result alone, so a plan
depends on nothing else. A Snapshot is column copies and a version; pods appear as tasks of requests.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.inventory import Ints, Inventory, Vector
from fairlead.core.labels import NodeClasses
from fairlead.model.pod import Amounts, Shape
from fairlead.model.settings import Settings


class Task(NamedTuple):
    """Interchangeable members: one shape, and the uids that want it."""

    shape: Shape
    uids: tuple[str, ...]


class Request(NamedTuple):
    """What one group waits for: all members of a start, or one that joins a running group."""

    group: str
    order: tuple[int, int, str]
    """(-priority, first-seen sequence, id): the smaller, the earlier."""
    tasks: tuple[Task, ...]
    growth: bool
    duration: int


class Snapshot(NamedTuple):
    """Columns are [resource, node], in the units of the model. `waiting` is in queue order.

    `unchecked` are the requests of which it is not known yet whether they could ever be held.
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
    unchecked: tuple[Request, ...] = ()


def take(
    inventory: Inventory,
    waiting: tuple[Request, ...],
    unchecked: tuple[Request, ...],
    version: int,
    epoch: int,
    now: int,
    settings: Settings,
) -> Snapshot:
    """Copy what a plan needs.

    `inventory.vectors` is shared, not copied: it only grows, and every waiting request's vector was
    resolved when the request was made (`core.groups`), so the columns here are wide enough.
    """
    n, r = len(inventory), len(inventory.resources)
    return Snapshot(
        version=version,
        epoch=epoch,
        now=now,
        settings=settings,
        names=inventory.classes().names,
        capacity=inventory.capacity[:r, :n].copy(),
        free=inventory.free[:r, :n].copy(),
        classes=inventory.classes(),
        vectors=inventory.vectors,
        resources=dict(inventory.resources),
        waiting=waiting,
        unchecked=unchecked,
    )


class Draft:
    """Free amounts as they would be; every taking is logged, so it can be rewound to a mark."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.free = snapshot.free.copy()
        self.log: list[tuple[Vector, int, int]] = []
        """(request, node row, how many) in order; `core.match` catches up with it."""

    def take(self, vector: Vector, row: int, times: int) -> None:
        """Let `times` such requests use the node."""
        self.free[vector.rows, row] -= vector.amounts * times
        self.log.append((vector, row, times))

    def mark(self) -> int:
        return len(self.log)

    def rewind(self, mark: int) -> None:
        """Undo what was taken since the mark. The undoing is logged too: caches follow the log forward."""
        for vector, row, times in reversed(self.log[mark:]):
            self.free[vector.rows, row] += vector.amounts * times
            self.log.append((vector, row, -times))


def rows_since(draft: Draft, position: int) -> NDArray[np.intp]:
    """Node rows whose free amounts changed after the log position."""
    return np.array([row for _, row, _ in draft.log[position:]], dtype=np.intp)
