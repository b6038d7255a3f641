"""Looking ahead where sums decide who fits: one node, or slots that are all alike (`core.snapshot.Pool`).

Made by `core.cycle` instead of `core.backfill` when the snapshot has a pool; both answer the same questions.
On such machines a promise is a start and an amount, and any choice of nodes that is good now stays good: on
one node there is none, and slots are as interchangeable as processors. Intervals that never overlap more
than P times can always be laid on P slots when they are laid in order of their starts (an interval graph is
perfect), so nodes are chosen when a group starts and not before.
"""

from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from heapq import heappop, heappush
from operator import itemgetter

from fairlead.core.explain import blocked, describe, spoken
from fairlead.core.labels import constraints
from fairlead.core.match import Matcher
from fairlead.core.outline import Need, Outline
from fairlead.core.profile import Share
from fairlead.core.relay import Offer
from fairlead.core.snapshot import Pool, Promise, Request, Snapshot
from fairlead.model.plan import Placement

_TIME = itemgetter(0)
_NEVER: Need = ((-1, 0),)
"""Of a request that the machine as it is now cannot hold."""


class Pooled:
    """Promises on a pool, and what they leave."""

    def __init__(self, snapshot: Snapshot, pool: Pool, matcher: Callable[[], Matcher]) -> None:
        """`matcher` gives the one that chooses nodes; it is asked for only where nodes are chosen."""
        self.snapshot, self.pool, self._matcher = snapshot, pool, matcher
        self.undated = 0
        """How many wait for something whose end is not known."""
        self._place = {row: k for k, row in enumerate(pool.rows)}

    @cached_property
    def outline(self) -> Outline:
        """What is free; made when it is first asked for, as `lay` makes another in its place."""
        return Outline(self.snapshot.now, self.pool.free, self.pool.ends)

    def start(self, request: Request) -> tuple[Placement, ...] | None:
        """Start the request now if that delays no promise; None if it would or does not fit."""
        need, outline = self._need(request), self.outline
        if need is _NEVER or not outline.now(need) or (self.undated and not request.duration):
            return None
        if not outline.fits(need, self.snapshot.now, request.duration):
            return None
        outline.take(need, self.snapshot.now, request.duration)
        return self.place(request)

    def offer(self, request: Request, not_before: int, before: int = 0) -> Offer | None:
        """The earliest start; None if nothing that it waits for has a known end, or not before that time.

        While something waits without a date, what has no end is promised none either.
        """
        need = self._need(request)
        never = need is _NEVER or (self.undated and not request.duration)
        start = None if never else self.outline.earliest(need, request.duration, not_before)
        return None if start is None or (before and start >= before) else Offer(start, (), [])

    def take(self, request: Request, offer: Offer) -> None:
        """Let the request have it."""
        self.outline.take(self._need(request), offer.start, request.duration)

    def lift(self, request: Request, offer: Offer) -> None:
        """Undo exactly such a take."""
        self.outline.take(self._need(request), offer.start, request.duration, -1)

    def lay(self, promises: Sequence[Promise]) -> Generator[None, None, dict[str, Offer]]:
        """Lay what was promised before, in order of the starts; group -> what it has.

        As a rule all can be kept, and are laid in one sweep: nothing is promised twice as long as no
        sum falls below nothing. Else who has no room at its start is put off, as in `core.relay`; those who
        never have any are missing in the answer.
        """
        now = self.snapshot.now
        offers = {p.request.group: Offer(max(p.start, now), (), []) for p in promises}
        needs = [self._need(promise.request) for promise in promises]
        if _NEVER not in needs:
            whole = Outline(now, self.pool.free, self._events(promises, needs))
            if all(min(level) >= 0 for level in whole.levels):
                self.outline = whole
                return offers
        starts = [(max(p.start, now), i) for i, p in enumerate(promises)]  # in order: a heap
        while starts:
            start, i = heappop(starts)
            request, need = promises[i].request, needs[i]
            found = None if need is _NEVER else self.outline.earliest(need, request.duration, start)
            if found is None:
                del offers[request.group]
            elif found > start:  # whoever was promised a start before that goes first
                heappush(starts, (found, i))
            else:
                offers[request.group] = Offer(start, (), [])
                self.outline.take(need, start, request.duration)
            yield
        return offers

    def _events(self, promises: Sequence[Promise], needs: Sequence[Need]) -> list[tuple[int, Need]]:
        """Ends of what runs, starts and ends of what is promised, in order of time."""
        events = list(self.pool.ends)
        now = self.snapshot.now
        for promise, need in zip(promises, needs, strict=True):
            start = max(promise.start, now)
            events.append((start, tuple([(k, -amount) for k, amount in need])))
            if promise.request.duration:
                events.append((start + promise.request.duration, need))
        events.sort(key=_TIME)
        return events

    def room_before(self, request: Request, start: int) -> bool:
        """Whether there is any moment before this start at which so much is free."""
        return self.outline.peaks(self._need(request), start)

    def pin(self, _: Request) -> None:
        """Nothing without an end may start while the request waits without a date."""
        self.undated += 1

    def hopeless(self, _: Sequence[Request], /) -> list[int]:
        """Nobody is ruled out: to try one is no more than a few comparisons."""
        return []

    def place(self, request: Request) -> tuple[Placement, ...]:
        """Choose nodes for a request that has been found to fit now."""
        if self.pool.slot is None:
            name = self.snapshot.names[0]
            return tuple([Placement(uid, name) for task in request.tasks for uid in task.uids])
        placements = self._matcher().place(request)
        assert placements is not None, "slots that are all alike were counted wrongly"
        return placements

    def started(self, taken: Sequence[Share], duration: int) -> None:
        """A pool is there from the beginning of a cycle: nothing is started before it."""
        raise AssertionError(f"{len(taken)} shares for {duration} ms were taken beside the pool")

    def nodes(self, _: Offer) -> tuple[str, ...]:
        """The only node, or none: slots are chosen at the start."""
        return self.snapshot.names[:1] if self.pool.slot is None else ()

    def lack(self, request: Request) -> str:
        """Why it cannot start now, in words."""
        need, outline = self._need(request), self.outline
        if outline.now(need):
            wanted = " + ".join([describe(task) for task in request.tasks])
            return f"needs {wanted}, which would delay a group that is promised a start"
        if self.pool.slot is not None:
            return blocked(self.snapshot, self._matcher().draft.free, request)
        names = list(self.snapshot.resources)
        lacks: list[tuple[int, str]] = []
        for task in request.tasks:
            vector = self.snapshot.vectors[task.shape.requests]
            scarce = [
                (max(outline.levels[k][0] // amount, 0), spoken(names[row], vector))
                for row, amount in vector.pairs
                if (k := self._place.get(row)) is not None
            ]
            room, name = min(scarce, default=(len(task.uids), "nothing"))
            room = min(room, len(task.uids))
            text = f"needs {describe(task)}, room for {room} now (short of {name})"
            lacks.append((room - len(task.uids), text))
        return min(lacks, key=itemgetter(0))[1]

    def _need(self, request: Request) -> Need:
        need = self.pool.needs.get(request.kind)
        if need is None or not request.kind:
            need = self.pool.needs[request.kind] = self._count(request)
        return need

    def _count(self, request: Request) -> Need:
        if self.pool.slot is not None:
            return ((0, sum([len(task.uids) for task in request.tasks])),)
        total: dict[int, int] = {}
        for task in request.tasks:
            if not self.snapshot.classes.now(constraints(task.shape))[0]:
                return _NEVER
            for row, amount in self.snapshot.vectors[task.shape.requests].pairs:
                k = self._place.get(row)
                if k is not None:
                    total[k] = total.get(k, 0) + amount * len(task.uids)
        return tuple(total.items())
