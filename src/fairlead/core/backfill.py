"""Looking ahead within a cycle: who is promised what and when, and who may start without delaying it.

Made by `core.cycle` for policies with a depth, and used from the first group on that cannot start. EASY is
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
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from fairlead.core import relay
from fairlead.core.crowd import Company
from fairlead.core.explain import blocked
from fairlead.core.inventory import Ints, Vector
from fairlead.core.labels import constraints
from fairlead.core.match import Matcher
from fairlead.core.profile import Bools, Profile, Share, Want, shares
from fairlead.core.relay import Offer, use
from fairlead.core.sift import fitting
from fairlead.core.snapshot import Draft, Promise, Request, Snapshot
from fairlead.model.plan import Placement


class Horizon(Protocol):
    """What `core.cycle` asks of the future; answered here and in `core.pool`."""

    def start(self, request: Request) -> tuple[Placement, ...] | None: ...
    def offer(self, request: Request, not_before: int, before: int = 0) -> Offer | None: ...
    def take(self, request: Request, offer: Offer) -> None: ...
    def lift(self, request: Request, offer: Offer) -> None: ...
    def lay(self, promises: Sequence[Promise]) -> Generator[None, None, dict[str, Offer]]: ...
    def room_before(self, request: Request, start: int, /) -> bool: ...
    def pin(self, request: Request, /) -> None: ...
    def hopeless(self, requests: Sequence[Request], /) -> list[int]: ...
    def place(self, request: Request) -> tuple[Placement, ...]: ...
    def started(self, taken: Sequence[Share], duration: int) -> None: ...
    def nodes(self, offer: Offer, /) -> tuple[str, ...]: ...
    def lack(self, request: Request) -> str: ...


def earliest(
    profile: Profile,
    snapshot: Snapshot,
    request: Request,
    not_before: int,
    before: int = 0,
    barred: Bools | None = None,
    company: Company | None = None,
) -> Offer | None:
    """The earliest start at which the match policy places all members for their whole walltime.

    None if there is none before `before` (0: none at all, so that the request waits behind work whose end is
    not known). For members of one shape the start is the earliest possible one. For several shapes it is the
    earliest at which greedy placing succeeds, which may be later, and each instant at which every shape alone
    has room costs one try. So it is for those who want to be near each other, and for those who mind other
    pods: for these the pods of now count that are not expected to be gone by then (`company`), and only some
    instants are tried. Nodes that are `barred` are left alone.
    """
    wants: list[Want] = []
    tries = 0
    for task in request.tasks:
        mask = snapshot.classes.now(constraints(task.shape))
        mask = mask if barred is None else mask & ~barred
        if company is not None and task.like is not None and company.crowd.concerns(task.like):
            mask = mask & company.fixed(task.like)
            tries = _TRIES
        wants.append(Want(snapshot.vectors[task.shape.requests], mask, len(task.uids)))
    if len(wants) == 1 and wants[0].copies == 1 and not tries:
        start = profile.gap(wants[0], request.duration, not_before, before)
        return None if start is None else _at(profile, snapshot, request, start, barred, None)
    instants = profile.candidates(wants, request.duration, not_before, before)
    for start in islice(instants, tries) if tries else instants:
        there = company if company is None or start <= snapshot.now else Company(company.crowd, start)
        offer = _at(profile, snapshot, request, start, barred, there)
        if offer is not None:
            return offer
    return None


_TRIES = 32
"""At how many instants it is tried to place those who mind other pods."""


def _at(
    profile: Profile,
    snapshot: Snapshot,
    request: Request,
    start: int,
    barred: Bools | None,
    company: Company | None,
) -> Offer | None:
    """The match policy's choice for a start at that instant, for the whole walltime."""
    free = profile.window(start, request.duration)
    if barred is not None:
        free[:, barred] = np.minimum(free[:, barred], 0)
    draft = Draft(snapshot, free)
    mark = 0 if company is None else company.mark()
    placements = Matcher(draft, snapshot.settings.match, company).place(request)
    if company is not None:
        company.rewind(mark)
    return None if placements is None else Offer(start, placements, shares(draft.log))


class Ahead:
    """Promises, and the windows from now that they leave."""

    def __init__(self, snapshot: Snapshot, free: Ints, company: Company | None = None) -> None:
        """`free` is what is free now, less what this plan has started; `started` tells when that ends.

        `company` is told of what is started, for those who mind it.
        """
        self.snapshot, self.company = snapshot, company
        self.profile = Profile(free, snapshot.now, snapshot.running)
        self.undated = 0
        """How many were promised nothing because no end of what they wait for is known."""
        self._pinned = np.zeros(free.shape[1], dtype=bool)
        """[node] kept for those: nothing without an end may start there."""
        self._now = free.copy()
        self._begun: list[tuple[int, Sequence[Share]]] = []
        """(end, what it takes) of what this plan has started."""
        self._starts: dict[int, int] = {}
        """Start -> how many promises are laid there."""
        self._instants: list[int] = []
        self._free: list[Ints] = []
        """What is free at each of these instants: now, and the starts of promises. Empty until asked for."""
        self._windows: dict[tuple[int, bool], Matcher] = {}
        """For windows from now in which the last of those instants is this one, and for work without end."""

    @property
    def free(self) -> Ints:
        """[resource, node] what is free now."""
        return self._now

    def started(self, taken: Sequence[Share], duration: int) -> None:
        """A group that this plan starts is missing in `free` already: let it end."""
        if duration:
            until = self.snapshot.now + duration
            self.profile.give(taken, until, 0)
            self._begun.append((until, taken))

    def offer(self, request: Request, not_before: int, before: int = 0) -> Offer | None:
        """The earliest start; None if nothing that it waits for has a known end, or not before that time.

        While something waits without a date, what has no end is promised no place on the nodes kept for it.
        """
        barred = self._pinned if self.undated and not request.duration else None
        return earliest(self.profile, self.snapshot, request, not_before, before, barred, self.company)

    def lay(self, promises: Sequence[Promise]) -> Generator[None, None, dict[str, Offer]]:
        """Lay what was promised before, in order of the starts; group -> what it has (`core.relay`)."""
        laid = yield from relay.lay(self.snapshot, self._now, self._begun, promises)
        for promise in promises:
            offer = laid.get(promise.request.group)
            if offer is not None:
                self.take(promise.request, offer)
        return laid

    def room_before(self, request: Request, _: int, /) -> bool:
        """Whether it is worth looking for an earlier start; that is not known without looking."""
        return bool(request.tasks)

    def take(self, request: Request, offer: Offer) -> None:
        """Let the request have it."""
        if offer.start > self.snapshot.now:
            self._starts[offer.start] = self._starts.get(offer.start, 0) + 1
            if self._free and offer.start not in self._instants:
                place = bisect_left(self._instants, offer.start)
                self._instants.insert(place, offer.start)
                self._free.insert(place, self.profile.at(offer.start))
        self._take(offer.shares, offer.start, request.duration)

    def lift(self, request: Request, offer: Offer) -> None:
        """Undo exactly such a take."""
        until = offer.start + request.duration if request.duration else 0
        self.profile.give(offer.shares, offer.start, until)
        if offer.start > self.snapshot.now:
            self._starts[offer.start] -= 1
            if not self._starts[offer.start]:
                del self._starts[offer.start]
        else:
            use(self._now, offer.shares, -1)
        self._instants, self._free = [], []
        self._windows.clear()

    def pin(self, request: Request) -> None:
        """The request waits without a date: nothing without an end may start on nodes that would hold it."""
        self.undated += 1
        draft = Draft(self.snapshot, self.snapshot.capacity.copy())
        if Matcher(draft, self.snapshot.settings.match).place(request) is None:
            self._pinned[:] = True
        for share in shares(draft.log):
            self._pinned[share.rows[share.times > 0]] = True
        self._windows.clear()

    def start(self, request: Request) -> tuple[Placement, ...] | None:
        """Start the request now if that delays no promise; None if it would.

        While something waits without a date, what is not known to end stays off the nodes kept for it.
        """
        now = self.snapshot.now
        matcher = self._matcher(now + request.duration if request.duration else 0)
        mark = matcher.draft.mark()
        placements = matcher.place(request)
        if placements is not None:
            self._take(shares(matcher.draft.log[mark:]), now, request.duration)
        return placements

    def hopeless(self, requests: Sequence[Request]) -> list[int]:
        """Kinds of those of which not even the first member fits anywhere now, found for all at once."""
        shapes: dict[int, int] = {}
        vectors: list[Vector] = []
        for request in requests:
            shape = request.tasks[0].shape
            if id(shape) not in shapes:
                shapes[id(shape)] = len(vectors)
                vectors.append(self.snapshot.vectors[shape.requests])
        fits: dict[int, list[bool]] = {}
        by_duration: dict[int, list[bool]] = {}
        for duration in {request.duration: None for request in requests}:
            matcher = self._matcher(self.snapshot.now + duration if duration else 0)
            if id(matcher) not in fits:
                fits[id(matcher)] = fitting(matcher.draft.free, vectors).tolist()
            by_duration[duration] = fits[id(matcher)]
        return [
            request.kind
            for request in requests
            if not by_duration[request.duration][shapes[id(request.tasks[0].shape)]]
        ]

    def place(self, request: Request) -> tuple[Placement, ...]:
        """Every offer of this horizon names its nodes."""
        raise AssertionError(f"{request.group} was offered a start without nodes")

    def nodes(self, offer: Offer) -> tuple[str, ...]:
        """The nodes' names, each once, in the order of placing."""
        return tuple(dict.fromkeys(place.node for place in offer.placements))

    def lack(self, request: Request) -> str:
        """Why it cannot start now, in words."""
        return blocked(self.snapshot, self._now, request, self.company)

    # -- inside --------------------------------------------------------------------------------------

    def _matcher(self, until: int) -> Matcher:
        """The matcher for windows from now to `until` (0: without end)."""
        if not self._free:
            self._instants = [self.snapshot.now, *sorted(self._starts)]
            self._free = [self._now, *(self.profile.at(start) for start in self._instants[1:])]
        last = (bisect_left(self._instants, until) if until else len(self._instants)) - 1
        last = max(last, 0)
        key = (self._instants[last], bool(until))
        matcher = self._windows.get(key)
        if matcher is None:
            low = np.minimum.reduce(self._free[: last + 1])
            if not until and self.undated:
                low[:, self._pinned] = np.minimum(low[:, self._pinned], 0)
            matcher = Matcher(Draft(self.snapshot, low), self.snapshot.settings.match, self.company)
            self._windows[key] = matcher
        return matcher

    def _take(self, taken: Sequence[Share], start: int, duration: int) -> None:
        """Use it from `start` on: less is free at the instants within, and in the windows around them."""
        until = start + duration if duration else 0
        self.profile.take(taken, start, until)
        if not self._free:
            if start <= self.snapshot.now:
                use(self._now, taken)
            return
        for instant, free in zip(self._instants, self._free, strict=True):
            if start <= instant and (not until or instant < until):
                use(free, taken)
        if not taken:
            return
        rows = np.unique(np.concatenate([share.rows for share in taken]))
        for (instant, bounded), matcher in self._windows.items():
            if instant >= start:
                upto = bisect_left(self._instants, instant) + 1
                least = np.minimum.reduce([free[:, rows] for free in self._free[:upto]])
                if not bounded and self.undated:
                    pinned = self._pinned[rows]
                    least[:, pinned] = np.minimum(least[:, pinned], 0)
                matcher.draft.lower(rows, least)
