"""Looking ahead within a cycle: who is promised what and when, and who may start without delaying it.

Used by `core.cycle` from the first group on that cannot start, and only by policies with a depth. EASY is
depth 1: D. A. Lifka, "The ANL/IBM SP Scheduling System" (1995); A. W. Mu'alem and D. G. Feitelson,
"Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
Backfilling" (2001). There two numbers decide, the shadow time and the extra processors; over nodes and
several resources it is the window: a later group may use what is free all the time from now until it ends,
promises included. That is the same rule, and it holds for any number of promises.

All windows begin now, so a window's minimum is over now and the promises that start before it ends: there
is one matrix for each such instant, and one draft and matcher for each set of them, whatever the walltimes.
The order of the queue and what a refusal is called are `core.cycle`'s business, not this file's.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairlead.core.inventory import Ints
from fairlead.core.labels import constraints
from fairlead.core.match import Matcher
from fairlead.core.profile import Profile, Share, Want, shares
from fairlead.core.snapshot import Draft, Request, Snapshot
from fairlead.model.plan import Placement


class Offer(NamedTuple):
    """A place in time: when, which pods on which nodes, and what that takes."""

    start: int
    placements: tuple[Placement, ...]
    shares: list[Share]


def earliest(profile: Profile, snapshot: Snapshot, request: Request, not_before: int) -> Offer | None:
    """The earliest start at which the match policy places all members for their whole walltime.

    None if there is none: the request waits behind work whose end is not known. For members of one shape
    the start is the earliest possible one. For several shapes it is the earliest at which greedy placing
    succeeds, which may be later, and each instant at which every shape alone has room costs one try.
    """
    wants = [
        Want(
            snapshot.vectors[task.shape.requests],
            snapshot.classes.now(constraints(task.shape)),
            len(task.uids),
        )
        for task in request.tasks
    ]
    for start in profile.candidates(wants, request.duration, not_before):
        draft = Draft(snapshot, profile.window(start, request.duration))
        placements = Matcher(draft, snapshot.settings.match).place(request)
        if placements is not None:
            return Offer(start, placements, shares(draft.log))
    return None


class Ahead:
    """Promises, and the windows from now that they leave."""

    def __init__(self, snapshot: Snapshot, free: Ints) -> None:
        """`free` is what is free now, less what this plan has started; `started` tells when that ends."""
        self.snapshot = snapshot
        self.profile = Profile(free, snapshot.now, snapshot.running)
        self.undated = 0
        """How many were promised nothing because no end of what they wait for is known."""
        self._instants = [snapshot.now]
        self._free = [free.copy()]
        """What is free at each of these instants: now, and the starts of promises."""
        self._windows: dict[int, Matcher] = {}
        """For windows from now in which the last of those instants is this one."""

    @property
    def free(self) -> Ints:
        """[resource, node] what is free now."""
        return self._free[0]

    def started(self, taken: Sequence[Share], duration: int) -> None:
        """A group that this plan starts is missing in `free` already: let it end."""
        if duration:
            self.profile.give(taken, self.snapshot.now + duration, 0)

    def reserve(self, request: Request) -> Offer | None:
        """Promise the request its earliest start."""
        offer = earliest(self.profile, self.snapshot, request, self.snapshot.now)
        if offer is None:
            self.undated += 1
            return None
        place = bisect_left(self._instants, offer.start)
        if place == len(self._instants) or self._instants[place] != offer.start:
            self._instants.insert(place, offer.start)
            self._free.insert(place, self.profile.at(offer.start))
        self._take(offer.shares, offer.start, request.duration)
        return offer

    def start(self, request: Request) -> tuple[Placement, ...] | None:
        """Start the request now if that delays no promise; None if it would.

        While something waits without a date, only what is known to end may start.
        """
        if self.undated and not request.duration:
            return None
        now = self.snapshot.now
        matcher = self._matcher(now + request.duration if request.duration else 0)
        mark = matcher.draft.mark()
        placements = matcher.place(request)
        if placements is not None:
            self._take(taken_since(matcher.draft, mark), now, request.duration)
        return placements

    # -- inside --------------------------------------------------------------------------------------

    def _matcher(self, until: int) -> Matcher:
        """The matcher for windows from now to `until` (0: without end)."""
        last = (bisect_left(self._instants, until) if until else len(self._instants)) - 1
        last = max(last, 0)
        matcher = self._windows.get(self._instants[last])
        if matcher is None:
            low = np.minimum.reduce(self._free[: last + 1])
            matcher = Matcher(Draft(self.snapshot, low), self.snapshot.settings.match)
            self._windows[self._instants[last]] = matcher
        return matcher

    def _take(self, taken: Sequence[Share], start: int, duration: int) -> None:
        """Use it from `start` on: less is free at the instants within, and in the windows around them."""
        until = start + duration if duration else 0
        self.profile.take(taken, start, until)
        for instant, free in zip(self._instants, self._free, strict=True):
            if start <= instant and (not until or instant < until):
                for vector, rows, times in taken:
                    free[vector.rows[:, None], rows] -= vector.amounts[:, None] * times
        rows = np.unique(np.concatenate([share.rows for share in taken]))
        for instant, matcher in self._windows.items():
            if instant >= start:
                upto = bisect_left(self._instants, instant) + 1
                least = np.minimum.reduce([free[:, rows] for free in self._free[:upto]])
                matcher.draft.lower(rows, least)


def nodes_of(placements: Sequence[Placement]) -> tuple[str, ...]:
    """The nodes' names, each once, in the order of placing."""
    return tuple(dict.fromkeys(place.node for place in placements))


def taken_since(draft: Draft, mark: int) -> list[Share]:
    """What was taken from the draft since the mark."""
    return shares(draft.log[mark:])
