"""Laying promises on nodes in order of their starts, on amounts that move forward in time.

Called by `core.backfill` at the beginning of a cycle. Whoever is laid in order of starts needs to know only
what is free at its own start: what was laid before it can only end later. So one matrix is carried from
start to start, and nothing is asked of a profile.

Who has no room at its start is put off to the next end, and those behind it follow: what ends late by some
milliseconds, as everything does whose clock starts when all members run, moves everybody behind it by that
much and nobody to the end of the line. Who is put off by more goes behind those whose starts come before.
"""

import heapq
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairlead.core.inventory import Ints
from fairlead.core.match import Matcher
from fairlead.core.profile import Share, shares
from fairlead.core.snapshot import Draft, Order, Promise, Snapshot
from fairlead.model.plan import Placement


class Offer(NamedTuple):
    """A place in time: when, which pods on which nodes, and what that takes."""

    start: int
    placements: tuple[Placement, ...]
    shares: list[Share]


def by_start(promise: Promise) -> tuple[int, Order]:
    return (promise.start, promise.request.order)


def by_order(promise: Promise) -> Order:
    return promise.request.order


def use(free: Ints, taken: Sequence[Share], sign: int = 1) -> None:
    """Take the shares from the free amounts; `sign` -1 gives them back."""
    for vector, rows, times in taken:
        free[vector.rows[:, None], rows] -= sign * vector.amounts[:, None] * times


Begun = Sequence[tuple[int, Sequence[Share]]]
"""(end, what it takes) of each group that this plan has started."""


def lay(
    snapshot: Snapshot, free: Ints, begun: Begun, promises: Sequence[Promise]
) -> Generator[None, None, dict[str, Offer]]:
    """Group -> where it comes to stand, at its start or later; those for whom no room was found are missing.

    `free` is [resource, node] what is free now; `promises` are in order of their starts. Each is laid on the
    nodes that were named with its promise if it can be: so promises that were good together stay so, whoever
    has since come ahead of whom. If that makes somebody late, all choose their nodes anew.
    """
    rows = {name: row for row, name in enumerate(snapshot.names)} if any(p.nodes for p in promises) else {}
    laid = yield from _lay(snapshot, free, begun, promises, rows)
    if rows and (behind := late(promises, laid, snapshot.now)):
        anew = yield from _lay(snapshot, free, begun, promises, {})
        if late(promises, anew, snapshot.now) < behind:
            return anew
    return laid


def late(promises: Sequence[Promise], laid: Mapping[str, Offer], now: int) -> int:
    """How many promises cannot be kept."""
    found = [(max(promise.start, now), laid.get(promise.request.group)) for promise in promises]
    return sum([offer is None or offer.start > start for start, offer in found])


def _lay(
    snapshot: Snapshot, free: Ints, begun: Begun, promises: Sequence[Promise], rows: dict[str, int]
) -> Generator[None, None, dict[str, Offer]]:
    """The same in one go; `rows` are the nodes by name, or empty if promised nodes do not count."""
    moving = free.copy()
    ends = [(until, number, taken) for number, (until, taken) in enumerate(begun)]
    ends += [
        (release.until, number, (release.share,))
        for number, release in enumerate(snapshot.running, len(begun))
    ]
    heapq.heapify(ends)
    number = len(begun) + len(snapshot.running)
    laid: dict[str, Offer] = {}
    starts = [(max(promise.start, snapshot.now), i) for i, promise in enumerate(promises)]  # a heap
    tries = len(promises) + _PUT_OFF
    while starts and tries:
        tries -= 1
        start, i = heapq.heappop(starts)
        request = promises[i].request
        while ends and ends[0][0] <= start:
            use(moving, heapq.heappop(ends)[2], -1)
        placements, taken = _place(snapshot, moving, promises[i], rows)
        if placements is not None:
            laid[request.group] = Offer(start, placements, taken)
            if request.duration:
                number += 1
                heapq.heappush(ends, (start + request.duration, number, taken))
        elif ends:
            heapq.heappush(starts, (ends[0][0], i))
        yield
    return laid


_PUT_OFF = 1_024
"""How often in all somebody is put off until the rest is left without a place."""


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
