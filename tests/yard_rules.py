"""What must hold of every plan, found by counting; for property tests of the queue policies.

Each rule looks at a `Case`: a plan together with what it rests on. Free amounts are counted instant by
instant, node by node, or in sum where any slot is as good as any other. On unlike nodes the engine's own
layout of its promises is believed: which nodes are best for them is no rule's business.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fairlead.core.inventory import Ints, how_many
from fairlead.core.labels import constraints
from fairlead.core.policy import Lookahead, lookahead
from fairlead.core.running import releases
from fairlead.core.snapshot import Promise, Request
from fairlead.model.plan import Placement, Reject, Reserve, Start, Wait
from yard import Judged


class Table:
    """What is free at every instant at which that changes: [resource, node].

    Where sums decide it is one column: the only node, or how many slots there are.
    """

    def __init__(self, judged: Judged) -> None:
        self.snapshot = s = judged.snapshot
        self.slot = s.pool.slot if s.pool is not None else None
        self.times = [s.now]
        free = s.free.copy()
        if self.slot is not None:
            free = how_many(free, self.slot).sum(keepdims=True).reshape(1, 1)
        self.free = [free]
        for until, (vector, rows, times) in releases(judged.yard.engine.state):
            amounts = np.zeros_like(free)
            if self.slot is not None:
                amounts[:] = times.sum()
            else:
                amounts[vector.rows[:, None], rows] = vector.amounts[:, None] * times
            self._add(amounts, until, 0)

    def use(self, request: Request, placements: Sequence[Placement]) -> Ints:
        """What the members take: where they are placed, or in sum if that is all that is known."""
        s = self.snapshot
        shapes = {uid: task.shape for task in request.tasks for uid in task.uids}
        amounts = np.zeros_like(self.free[0])
        if self.slot is not None:
            amounts[:] = len(shapes)
            return amounts
        spots = [(p.pod, s.names.index(p.node)) for p in placements] or [(uid, 0) for uid in shapes]
        for uid, row in spots:
            for resource, amount in s.vectors[shapes[uid].requests].pairs:
                amounts[resource, row] += amount
        return amounts

    def _cut(self, time: int) -> int:
        """Index of the instant, which is made if it is new; what has passed is now."""
        time = max(time, self.times[0])
        if time not in self.times:
            i = sum(t < time for t in self.times)
            self.times.insert(i, time)
            self.free.insert(i, self.free[i - 1].copy())
        return self.times.index(time)

    def _add(self, amounts: Ints, start: int, end: int) -> None:
        first = self._cut(start)
        last = self._cut(end) if end else len(self.times)
        for i in range(first, last):
            self.free[i] += amounts

    def take(self, request: Request, amounts: Ints, start: int, sign: int = 1) -> None:
        """The request uses that much from then on for its whole walltime; `sign` -1 gives it back."""
        self._add(-sign * amounts, start, start + request.duration if request.duration else 0)

    def low(self, start: int, length: int) -> Ints:
        """The least that is free from then on for so long (0: for ever)."""
        inside = [
            free
            for i, free in enumerate(self.free)
            if (not length or self.times[i] < start + length)
            and (i + 1 == len(self.times) or self.times[i + 1] > start)
        ]
        return np.minimum.reduce(inside)

    def fits(self, request: Request, start: int) -> bool:
        """Whether all members have room from then on for the whole walltime."""
        low = self.low(start, request.duration)
        if self.slot is not None:
            return int(low.item()) >= sum(len(task.uids) for task in request.tasks)
        return self.holds(request, low)

    def holds(self, request: Request, free: Ints) -> bool:
        """Whether all members have room on so much ([resource, node]), on nodes that may be used now."""
        (task,) = request.tasks
        free = free[:, self.snapshot.classes.now(constraints(task.shape))]
        pairs = self.snapshot.vectors[task.shape.requests].pairs
        room = [min(max(int(free[r, k]), 0) // n for r, n in pairs) for k in range(free.shape[1])]
        return sum(room) >= len(task.uids)

    def earliest(self, request: Request, before: int = 0) -> int:
        """The earliest instant from which it has room, if that is before the other; else that other."""
        instants = [t for t in self.times if not before or t < before]
        return next((t for t in instants if self.fits(request, t)), before)


class Case:
    """A plan, and what comes of it: who starts, who is promised what."""

    def __init__(self, judged: Judged) -> None:
        self.judged = judged
        self.yard, self.snapshot, self.plan, self.laid = judged
        state = self.yard.engine.state
        self.sums = self.snapshot.pool is not None
        self.requests = {gid: asked[0] for gid, asked in state.waiting.items()}
        self.starts = [d for d in self.plan.decisions if isinstance(d, Start)]
        self.started = {d.group: d for d in self.starts}
        self.refused = {d.group for d in self.plan.decisions if isinstance(d, Wait | Reject)}
        self.standing: dict[str, Promise] = {
            p.request.group: p
            for p in self.snapshot.promises
            if self.policy(p.request).keep or not self.snapshot.freed
        }
        gone = {*self.plan.withdrawn, *self.started, *self.refused}
        told = {d.group: d.start for d in self.plan.decisions if isinstance(d, Reserve)}
        promised = {gid: r.start for gid, r in state.promises.items() if gid in self.requests} | told
        self.promises = {gid: start for gid, start in promised.items() if gid not in gone}
        """Group -> the start it is promised now, 0 without a date."""

    def policy(self, request: Request) -> Lookahead:
        queue = self.yard.settings.queue(request.queue)
        assert queue is not None
        return lookahead(queue)

    @cached_property
    def taken(self) -> dict[str, tuple[Ints, int]]:
        """Group -> what it takes from when on, of all that start or have a date."""
        table, now = Table(self.judged), self.snapshot.now
        found = {
            gid: (table.use(self.requests[gid], start.placements), now) for gid, start in self.started.items()
        }
        for gid, start in self.promises.items():
            if self.sums and start > now:
                found[gid] = (table.use(self.requests[gid], ()), start)
        for gid, (request, offer) in self.laid.items():
            if gid not in self.started:
                found[gid] = (table.use(request, offer.placements), offer.start)
        return found

    @cached_property
    def kept_places(self) -> dict[str, int]:
        """Group -> where what it was promised still has room, laid in order of time; if sums decide."""
        table, found = Table(self.judged), dict[str, int]()
        for promise in sorted(self.standing.values(), key=lambda p: (p.start, p.request.order)):
            request, start = promise.request, max(promise.start, self.snapshot.now)
            if promise.start and table.fits(request, start):
                found[request.group] = start
                table.take(request, table.use(request, ()), start)
        return found

    @property
    def broken(self) -> bool:
        """Whether anybody comes later than promised."""
        return any(p.start and self.promises.get(gid, 0) > p.start for gid, p in self.standing.items())

    def table(self) -> Table:
        """What is free beside all that."""
        table = Table(self.judged)
        for gid, (amounts, start) in self.taken.items():
            table.take(self.requests[gid], amounts, start)
        return table


def starts_are_whole(case: Case) -> None:
    """No group starts twice or partly: every member once, on a node that is there."""
    assert len(case.started) == len(case.starts), "a group starts twice"
    for start in case.starts:
        assert start.group in case.requests, f"{start.group} starts and waits not"
        uids = sorted(uid for task in case.requests[start.group].tasks for uid in task.uids)
        assert sorted(p.pod for p in start.placements) == uids, f"{start.group} starts partly"
        assert all(p.node in case.yard.nodes for p in start.placements)


def promises_are_the_laid(case: Case) -> None:
    """What is promised is what was laid, and nobody who waits not is promised anything."""
    assert all(d.group in case.requests for d in case.plan.decisions if isinstance(d, Reserve))
    for gid, (_, offer) in case.laid.items():
        if gid not in case.started:
            assert case.promises.get(gid) == offer.start, f"{gid} is not promised what was laid for it"


def nothing_is_taken_twice(case: Case) -> None:
    """What runs, starts and is promised fits together at every instant: no start delays a promise."""
    table = case.table()
    for gid, (amounts, start) in case.taken.items():
        low = table.low(start, case.requests[gid].duration)
        assert (low[amounts > 0] >= 0).all(), f"{gid} at {start} takes what is used or promised"


def nobody_could_start(case: Case) -> None:
    """Nobody waits whom the policy allows to start now and who would delay no promise.

    Of those that the plan has looked at; where sums decide, of all, unless a promise was broken: what that
    leaves is found by the next plan that looks at everybody.
    """
    table, now = case.table(), case.snapshot.now
    looked = {r.group for r in case.snapshot.waiting}
    heads = dict(case.plan.heads)
    for gid, request in case.requests.items():
        policy = case.policy(request)
        if gid in case.started or (gid not in looked and (case.broken or not case.sums)):
            continue
        if not policy.overtake and heads.get(request.queue, gid) != gid:
            continue
        if policy.keep and gid in case.standing:
            continue  # compression is one sweep: a promise that moved after it may have left it room
        if not request.duration and not all(case.promises.values()):
            continue  # without an end: not on what is kept for who waits without a date
        mine = case.taken.get(gid)
        if mine is not None:
            table.take(request, *mine, sign=-1)
        assert not table.fits(request, now), f"{gid} could start and delay nobody"
        if mine is not None:
            table.take(request, *mine)


def nobody_overtakes(case: Case) -> None:
    """Where nobody may: all that stand ahead of one who starts have started, or wait for lost nodes."""
    table = Table(case.judged)
    for gid in case.started:
        request = case.requests[gid]
        if case.policy(request).overtake:
            continue
        for other in case.requests.values():
            if other.queue == request.queue and other.order < request.order:
                possible = table.holds(other, case.snapshot.capacity)
                assert other.group in case.started or not possible, f"{gid} overtakes {other.group}"


def endless_work_waits_for_the_undated(case: Case) -> None:
    """Where sums decide, what has no end neither starts nor is promised a date behind one without a date."""
    undated = not case.snapshot.freed and any(not p.start for p in case.standing.values())
    for decision in case.plan.decisions:
        gid = decision.group
        start = case.snapshot.now if isinstance(decision, Start) else case.promises.get(gid, -1)
        endless = not case.requests[gid].duration and gid not in case.standing
        assert not (case.sums and endless and undated and start > 0), f"{gid} has no end and passes by"
        undated = undated or not start


def depth_is_kept(case: Case) -> None:
    """No queue holds more promises than its policy allows."""
    for queue in case.yard.settings.queues:
        held = sum(case.requests[gid].queue == queue.name for gid in case.promises)
        assert held <= lookahead(queue).depth, f"{queue.name} holds {held} promises"


def new_promises_are_earliest(case: Case) -> None:
    """A promise that is made or laid anew is delayed by nobody behind: it is the earliest start that the
    work that runs, promises that stand, and those decided before it leave."""
    table, undated = Table(case.judged), False
    old = [gid for gid in case.standing if gid in case.taken]
    for gid in (*old, *(d.group for d in case.plan.decisions if d.group not in case.standing)):
        request = case.requests[gid]
        start = case.snapshot.now if gid in case.started else case.promises.get(gid)
        if start is None:
            continue
        undated = undated or not start
        if gid not in case.standing and (request.duration or not undated):
            better = table.earliest(request, start)
            assert better == start, f"{gid} is promised {start} and could have {better}"
        if gid in case.taken:
            table.take(request, *case.taken[gid])


def kept_promises_only_move_up(case: Case) -> None:
    """Where promises are kept and sums decide: each has what one sweep in queue order finds for it.

    If some cannot be kept, nobody ahead of them in the queue comes later for it.
    """
    kept = [p for p in case.standing.values() if case.policy(p.request).keep]
    if not case.sums or any(p.request.group in case.refused for p in kept):
        return
    now, table, undated = case.snapshot.now, Table(case.judged), False
    places = case.kept_places
    for gid, start in places.items():
        table.take(case.requests[gid], table.use(case.requests[gid], ()), start)
    broken = [p.request.order for p in case.standing.values() if p.start and p.request.group not in places]
    for request, _, _, _ in sorted(kept, key=lambda p: p.request.order):
        gid, before = request.group, places.get(request.group, 0)
        has = now if gid in case.started else case.promises.get(gid, 0)
        if before and not (broken and min(broken) < request.order):
            assert 0 < has <= before, f"{gid} is promised {has} and had {before}"
        if broken or not case.snapshot.freed:
            continue
        amounts = table.use(request, ())
        if before:
            table.take(request, amounts, before, -1)
        undated = undated or not has
        best = table.earliest(request, before) if request.duration or not undated else before
        assert has == best, f"{gid} is promised {has} and one sweep gives it {best}"
        if best:
            table.take(request, amounts, best)


RULES = (
    starts_are_whole,
    promises_are_the_laid,
    nothing_is_taken_twice,
    nobody_could_start,
    nobody_overtakes,
    endless_work_waits_for_the_undated,
    depth_is_kept,
    new_promises_are_earliest,
    kept_promises_only_move_up,
)


def plan_holds(judged: Judged) -> None:
    """Every rule; what the plan promises is noted for `yard_rest.at_rest`."""
    case = Case(judged)
    for rule in RULES:
        rule(case)
    judged.yard.planned = case.promises
