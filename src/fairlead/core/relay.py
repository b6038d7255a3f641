"""Laying promises on nodes in order of their starts, on amounts that move forward in time.

Called by `core.backfill` at the beginning of a cycle. Whoever is laid in order of starts needs to know only
what is free at its own start: what was laid before it can only end later. So one matrix is carried from
start to start, and nothing is asked of a profile. Whose promise is broken is not decided here.
"""

import heapq
from collections.abc import Generator, Sequence
from typing import NamedTuple

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


def lay(
    snapshot: Snapshot,
    free: Ints,
    begun: Sequence[tuple[int, Sequence[Share]]],
    promises: Sequence[Promise],
) -> Generator[None, None, dict[str, Offer]]:
    """Group -> where it comes to stand; those for whom there is no room at their start are missing.

    `free` is [resource, node] what is free now, `begun` when what this plan has started ends and what it
    takes; `promises` are in order of their starts.
    """
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
        draft = Draft(snapshot, moving)
        placements = Matcher(draft, snapshot.settings.match).place(request)
        if placements is not None:
            taken = shares(draft.log)
            laid[request.group] = Offer(start, placements, taken)
            if request.duration:
                number += 1
                heapq.heappush(ends, (start + request.duration, number, taken))
        yield
    return laid
