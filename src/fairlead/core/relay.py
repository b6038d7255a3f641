"""Laying promises on nodes in order of their starts, on amounts that move forward in time.

Called by `core.backfill` at the beginning of a cycle. Whoever is laid in order of starts needs to know only
what is free at its own start: what was laid before it can only end later. So one matrix is carried from
start to start, and nothing is asked of a profile. Whose promise is broken is not decided here.
"""

import heapq
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from fairlead.core.inventory import Ints
from fairlead.core.match import Matcher
from fairlead.core.profile import Share, shares
from fairlead.core.snapshot import Draft, Promise, Snapshot
from fairlead.model.plan import Placement


class Offer(NamedTuple):
    """A place in time: when, which pods on which nodes, and what that takes."""

    start: int
    placements: tuple[Placement, ...]
    shares: list[Share]


def use(free: Ints, taken: Sequence[Share], sign: int = 1) -> None:
    """Take the shares from the free amounts; `sign` -1 gives them back."""
    for vector, rows, times in taken:
        free[vector.rows[:, None], rows] -= sign * vector.amounts[:, None] * times


Begun = Sequence[tuple[int, Sequence[Share]]]
"""(end, what it takes) of each group that this plan has started."""


def lay(
    snapshot: Snapshot, free: Ints, begun: Begun, promises: Sequence[Promise]
) -> Generator[None, None, dict[str, Offer]]:
    """Group -> where it comes to stand; those for whom there is no room at their start are missing.

    `free` is [resource, node] what is free now; `promises` are in order of their starts. Each is laid on the
    nodes that were named with its promise if it can be: so promises that were good together stay so, whoever
    has since come ahead of whom. If that leaves somebody without room, all choose their nodes anew.
    """
    rows = {name: row for row, name in enumerate(snapshot.names)} if any(p.nodes for p in promises) else {}
    laid = yield from _lay(snapshot, free, begun, promises, rows)
    if rows and len(laid) < len(promises):
        anew = yield from _lay(snapshot, free, begun, promises, {})
        if len(anew) > len(laid):
            return anew
    return laid


def _lay(
    snapshot: Snapshot, free: Ints, begun: Begun, promises: Sequence[Promise], rows: dict[str, int]
) -> Generator[None, None, dict[str, Offer]]:
    """The same in one go; `rows` are the nodes by name, or empty if promised nodes do not count."""
    moving = free.copy()
    last = max([promise.start for promise in promises], default=0)
    ends = [(until, number, taken) for number, (until, taken) in enumerate(begun)]
    ends += [
        (release.until, number, (release.share,))
        for number, release in enumerate(snapshot.running, len(begun))
        if release.until <= last
    ]
    heapq.heapify(ends)
    number = len(begun) + len(snapshot.running)
    laid: dict[str, Offer] = {}
    for promise in promises:
        request, start = promise.request, max(promise.start, snapshot.now)
        while ends and ends[0][0] <= start:
            use(moving, heapq.heappop(ends)[2], -1)
        placements, taken = _place(snapshot, moving, promise, rows)
        if placements is not None:
            laid[request.group] = Offer(start, placements, taken)
            if request.duration:
                number += 1
                heapq.heappush(ends, (start + request.duration, number, taken))
        yield
    return laid


def _place(
    snapshot: Snapshot, moving: Ints, promise: Promise, rows: dict[str, int]
) -> tuple[tuple[Placement, ...] | None, list[Share]]:
    """Place it and take that from `moving`, on its own nodes if they have room."""
    match = snapshot.settings.match
    own = [rows[name] for name in promise.nodes if name in rows]
    if own:
        there = np.zeros_like(moving)
        there[:, own] = moving[:, own]
        draft = Draft(snapshot, there)
        placements = Matcher(draft, match).place(promise.request)
        if placements is not None:
            taken = shares(draft.log)
            use(moving, taken)
            return placements, taken
    draft = Draft(snapshot, moving)
    placements = Matcher(draft, match).place(promise.request)
    return placements, shares(draft.log)
