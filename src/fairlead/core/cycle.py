"""One cycle: the queue in order, each group placed, promised a start, told to wait, or rejected.

`plan` is a generator that yields between groups, so that `runtime.planner` can run it in slices of a
few milliseconds between I/O; its return value is the Plan. It sees a Snapshot and nothing else.

All policies are this one function (`core.policy`): a group that cannot start closes its queue (fcfs), or is
promised its earliest start while the queue's depth allows it (easy, hybrid, replan, conservative), and later
ones start if that delays no promise. Where promises are kept (conservative) each is first tried earlier, in
queue order. Sources: see `core.backfill`.
"""

from collections.abc import Generator, Sequence
from functools import cached_property
from weakref import proxy

from fairlead.core.advise import name_nodes
from fairlead.core.apart import stuck
from fairlead.core.backfill import Ahead, Horizon
from fairlead.core.bulk import place_all
from fairlead.core.crowd import SOMETIME, Company
from fairlead.core.explain import POSSIBLE, blocked, possibility
from fairlead.core.lane import Lane, lanes
from fairlead.core.match import Matcher
from fairlead.core.mistake import mistake
from fairlead.core.pool import Pooled
from fairlead.core.profile import shares
from fairlead.core.relay import Offer, by_order, by_start, late
from fairlead.core.snapshot import FIRST, Draft, Promise, Request, Snapshot
from fairlead.core.steps import now
from fairlead.model.group import Reason, Why
from fairlead.model.plan import Decision, Placement, Plan, Reject, Reserve, Start, Wait


class Cycle:
    """The work of one plan; a class only to give its steps names."""

    def __init__(self, snapshot: Snapshot, source: str) -> None:
        self.snapshot, self.source = snapshot, source
        self.decisions: list[Decision] = []
        self.decided: dict[str, None] = {}
        self.lanes = lanes(snapshot)
        self.plain = snapshot.pool is None
        """True until the first look ahead: what fits now may simply start."""
        self.begun: list[tuple[int, int, int]] = []
        """(begin, end, walltime) of what each Start took in the draft's log."""
        self.laid: list[Promise] = []
        """Promises made or moved by this plan, and those that stand."""
        self.failed: dict[int, None] = {}
        """Kinds of which one could not start now: none can."""
        self.sift_at = _MANY
        """How many kinds must fail until the rest of the queue is looked at in one go; then twice as many."""
        self.not_before: dict[int, int | None] = {}
        """Kinds of which one was offered a start: no earlier one is left. None: not even a date."""
        self._end: Company | None = None
        self._stuck: dict[int, bool] = {}
        """Kinds of which it is known whether they wait for other things than the end of work."""
        self.old = {promise.request.group: promise for promise in snapshot.promises}
        self.at = ""
        """The group that is being looked at."""
        self.replaced = 0
        """How many of those first in line have the place of a lost member already."""

    def run(self) -> Generator[None, None, Plan]:
        if not (self.old or self.snapshot.heads or self.snapshot.crowd):
            everybody = yield from place_all(self.matcher, self.snapshot.waiting)
            if everybody is not None:
                for request, placed in zip(self.snapshot.waiting, everybody, strict=True):
                    self.decisions.append(Start(request.group, placed, request.growth))
                return self._plan()
        yield from self._old_promises()
        for request in self.snapshot.waiting[self.replaced :]:
            lane = self.lanes[request.queue]
            if lane.closed or (request.group in self.decided and not request.growth):
                if all(lane.closed for lane in self.lanes.values()):
                    break
                continue
            if lane.skips(request, self.failed):
                continue
            yield
            lane.looked += 1
            self.at = request.group
            self._decide(request, lane)
        self.at = ""
        yield from self._call_impossible()
        return self._plan()

    # -- promises of earlier plans -------------------------------------------------------------------

    def _old_promises(self) -> Generator[None, None, None]:
        """Lay what stays promised; move it earlier where something has become free; start what is due."""
        standing = [promise for promise in self.snapshot.promises if self._stands(promise)]
        if not standing:
            return
        dated = sorted([promise for promise in standing if promise.start], key=by_start)
        guests, laid = yield from self._lay(dated)
        if len(dated) < len(standing) and not self.snapshot.freed:
            for promise in standing:
                if not promise.start:
                    self.horizon.pin(promise.request)
        self._replace_lost()
        standing.sort(key=by_order)
        for promise in standing:
            held = laid.get(promise.request.group)
            same = held is not None and held.start == promise.start > self.snapshot.now
            if same and not self.snapshot.freed:
                self.decided[promise.request.group] = None
                self.laid.append(promise)
                self.lanes[promise.request.queue].stop(promise.request)
                continue
            yield
            self.at = promise.request.group
            self._renew(promise, held)
        self.at = ""
        for promise, held in guests:
            self.horizon.lift(promise.request, held)
        if guests:
            self.not_before.clear()

    def _replace_lost(self) -> None:
        """Who comes for a lost member may have its place before any promise is moved earlier into it."""
        for request in self.snapshot.waiting:
            self.at = request.group
            if request.order[0] != FIRST or not self._start(request):
                break
            self.replaced += 1

    def _lay(
        self, dated: Sequence[Promise]
    ) -> Generator[None, None, tuple[list[tuple[Promise, Offer]], dict[str, Offer]]]:
        """Lay what stays promised, and as guests what other queues have promised and will lay anew.

        Without them a group that moves earlier would take the place of one that stands ahead of it in another
        queue. Where they leave no room for all that stays, they go.
        """
        others = [p for p in self.snapshot.promises if p.start and not self._stands(p)]
        laid = yield from self.horizon.lay(sorted([*dated, *others], key=by_start))
        guests = [(p, laid.pop(p.request.group)) for p in others if p.request.group in laid]
        if guests and late(dated, laid, self.snapshot.now):
            for promise in dated:
                held = laid.get(promise.request.group)
                if held is not None:
                    self.horizon.lift(promise.request, held)
            for promise, held in guests:
                self.horizon.lift(promise.request, held)
            guests, laid = [], (yield from self.horizon.lay(dated))
        return guests, laid

    def _stands(self, promise: Promise) -> bool:
        """Whether the promise stays in this plan. What a running group waits for is always laid anew."""
        if promise.request.growth:
            return not self.snapshot.freed
        return self.lanes[promise.request.queue].stands(self.snapshot)

    def _renew(self, promise: Promise, held: Offer | None) -> None:
        """The same promise or an earlier one; a later one only if it was broken."""
        request, now = promise.request, self.snapshot.now
        lane = self.lanes[request.queue]
        lane.looked += self.snapshot.freed
        if held is None:
            if self.snapshot.freed or promise.start:
                lane.promised -= not self.snapshot.freed
                self._hold_up(request, lane)
            else:
                lane.stop(request)
                self.decided[request.group] = None
            return
        offer = held
        if self.snapshot.freed and held.start > now and self.horizon.room_before(request, held.start):
            self.horizon.lift(request, held)
            better = self.horizon.offer(request, now, before=held.start)
            if better is not None and better.start < held.start:
                offer = better
            self.horizon.take(request, offer)
        self.decided[request.group] = None
        if offer.start <= now:
            if self._minds(request):  # others may have come to where it was promised a place
                self.horizon.lift(request, offer)
                lane.promised -= not self.snapshot.freed
                del self.decided[request.group]
                self._decide(request, lane)
                return
            placements = offer.placements or self._place(request)
            self._begin(request, placements)
            return
        lane.promised += self.snapshot.freed
        lane.stop(request)
        self.laid.append(promise._replace(start=offer.start))
        if offer.start != promise.start:
            nodes = self.horizon.nodes(offer)
            self.decisions.append(Reserve(request.group, offer.start, nodes, promise.reason))

    # -- one group after the other -------------------------------------------------------------------

    def _decide(self, request: Request, lane: Lane) -> None:
        if request.kind not in self.failed:
            if self._start(request):
                return
            if request.kind:
                self.failed[request.kind] = None
        self._hold_up(request, lane)
        if len(self.failed) >= self.sift_at:
            self._sift()

    def _sift(self) -> None:
        """Find at once for all kinds that are left which of them cannot start either."""
        left: dict[int, Request] = {}
        for request in self.snapshot.waiting:
            kind = request.kind
            # Who might be impossible, too, is to be told so, one by one.
            if kind and kind not in self.failed and self.snapshot.possible.get(kind) == POSSIBLE:
                left[kind] = request
        if left:
            self.failed.update(dict.fromkeys(self.horizon.hopeless(list(left.values()))))
        self.sift_at = 2 * len(self.failed)

    def _hold_up(self, request: Request, lane: Lane) -> None:
        """It cannot start now: never, not while nodes are down, or not until something ends."""
        never, down = possibility(self.snapshot, request)
        if never and not request.growth:
            self._note(Reject(request.group, Reason(Why.UNSATISFIABLE, never)))
        elif down:  # outside the policy's depth: it does not hold up anybody
            text = f"waits for nodes that are not there now: {down}"
            self._note(Wait(request.group, Reason(Why.NODES_DOWN, text)))
            lane.looked -= 1
        elif self._is_stuck(request):
            self._note(Wait(request.group, Reason(Why.BLOCKED, self._lack(request))))
            lane.looked -= 1
        elif lane.promised < lane.depth:
            self._promise(request, lane)
        else:
            first = not lane.head
            lane.stop(request)
            if first:
                self._note(Wait(request.group, Reason(Why.RESOURCES, self._lack(request))))

    def _start(self, request: Request) -> bool:
        """Start it now if it fits and delays no promise."""
        mark = self._mark()
        placements = self.matcher.place(request) if self.plain else self.horizon.start(request)
        if placements is None:
            return False
        self.begun.append((mark, self._mark(), request.duration))
        self.decisions.append(Start(request.group, placements, request.growth))
        self.decided[request.group] = None
        return True

    def _promise(self, request: Request, lane: Lane) -> None:
        """Promise the earliest start; without a date, hold nodes for it against work without an end."""
        now = self.snapshot.now
        not_before = self.not_before.get(request.kind, now)
        offer = None if not_before is None else self.horizon.offer(request, not_before)
        if request.kind:
            self.not_before[request.kind] = None if offer is None else offer.start
        self.decided[request.group] = None
        if offer is not None and offer.start <= now:
            self.horizon.take(request, offer)
            placements = offer.placements or self._place(request)
            self._begin(request, placements)
            return
        lane.stop(request)
        lane.promised += 1
        reason = self._reason(request, lane)
        if offer is None:
            self.horizon.pin(request)
            self.decisions.append(Reserve(request.group, 0, (), reason))
            return
        self.horizon.take(request, offer)
        self.laid.append(Promise(request, offer.start, (), reason))
        self.decisions.append(Reserve(request.group, offer.start, self.horizon.nodes(offer), reason))

    def _reason(self, request: Request, lane: Lane) -> Reason:
        """Why it waits. Behind the head what was told with its last promise will do; it is renewed often."""
        old = self.old.get(request.group)
        if old is not None and lane.head != request.group:
            return old.reason
        return Reason(Why.RESOURCES, self._lack(request))

    def _place(self, request: Request) -> tuple[Placement, ...]:
        """Choose nodes for a start that has been found to fit (`core.pool`)."""
        mark = self._mark()
        placements = self.horizon.place(request)
        self.begun.append((mark, self._mark(), request.duration))
        return placements

    def _mark(self) -> int:
        """Where the draft's log ends; on one node, of which the sums are told, there is none."""
        pool = self.snapshot.pool
        return 0 if pool is not None and pool.slot is None else self.draft.mark()

    @cached_property
    def draft(self) -> Draft:
        """What is free, less what this plan has started."""
        return Draft(self.snapshot)

    @cached_property
    def matcher(self) -> Matcher:
        return Matcher(self.draft, self.snapshot.settings.match, self.company)

    @cached_property
    def company(self) -> Company | None:
        """What this plan starts, for those who mind it."""
        return None if self.snapshot.crowd is None else Company(self.snapshot.crowd)

    def _is_stuck(self, request: Request) -> bool:
        """Whether it waits for other things than the end of work. Nobody is held up by it, either."""
        crowd = self.snapshot.crowd
        if crowd is None or self.company is None or not self._minds(request):
            return False
        known = self._stuck.get(request.kind)
        if known is None or not request.kind:
            self._end = self._end or Company(crowd, SOMETIME)
            known = self._stuck[request.kind] = stuck(self.snapshot, request, self.company, self._end)
        return known

    def _minds(self, request: Request) -> bool:
        crowd = self.snapshot.crowd
        return crowd is not None and any(crowd.concerns(task.like) for task in request.tasks)

    def _begin(self, request: Request, placements: Sequence[Placement]) -> None:
        """Start it, and let the others know, for the match did not choose this itself."""
        self.decisions.append(Start(request.group, tuple(placements), request.growth))
        if self.company is not None:
            likes = {uid: task.like for task in request.tasks for uid in task.uids}
            rows = {name: row for row, name in enumerate(self.snapshot.names)}
            for place in placements:
                like = likes[place.pod]
                if like is not None:
                    self.company.take(like, rows[place.node])

    @cached_property
    def horizon(self) -> Horizon:
        """What is promised; made when the first group is found that cannot start."""
        self.plain = False
        if self.snapshot.pool is not None:
            me = proxy(self)  # held both ways, the snapshot would stay until the collector comes
            return Pooled(self.snapshot, self.snapshot.pool, lambda: me.matcher)
        ahead = Ahead(self.snapshot, self.draft.free, self.company)
        for mark, end, duration in self.begun:
            ahead.started(shares(self.draft.log[mark:end]), duration)
        return ahead

    def _lack(self, request: Request) -> str:
        if self.plain:
            return blocked(self.snapshot, self.draft.free, request, self.company)
        return self.horizon.lack(request)

    def _note(self, decision: Reject | Wait) -> None:
        self.decided[decision.group] = None
        self.decisions.append(decision)

    def _call_impossible(self) -> Generator[None, None, None]:
        """Groups behind the head that arrived since the last plan: an impossible one is told at once."""
        for request in self.snapshot.fresh:
            if request.group not in self.decided and not request.growth:
                yield
                never, _ = possibility(self.snapshot, request)
                if never:
                    self.decisions.append(Reject(request.group, Reason(Why.UNSATISFIABLE, never)))

    def _plan(self) -> Plan:
        s, pool = self.snapshot, self.snapshot.pool
        if pool is not None and pool.slot is not None and s.settings.advise:
            name_nodes(s, self.draft, self.begun, self.laid, self.decisions)
        gone = [
            gid for gid, promise in self.old.items() if gid not in self.decided and not self._stands(promise)
        ]
        return Plan(
            id=f"{s.epoch}-{s.version}",
            version=s.version,
            at=s.now,
            source=self.source,
            decisions=tuple(self.decisions),
            heads=tuple([(lane.name, lane.head) for lane in self.lanes.values() if lane.head]),
            withdrawn=tuple(gone),
        )


_MANY = 256


def plan(snapshot: Snapshot, source: str = "fairlead") -> Generator[None, None, Plan]:
    """Decide for the groups in queue order until the policy says that nobody may overtake.

    A mistake of ours that one group brings to light must not stop everybody for ever: then the plan is empty
    and names that group, for the engine to set aside.
    """
    cycle = Cycle(snapshot, source)
    try:
        return (yield from cycle.run())
    except Exception as error:
        s = snapshot
        name = cycle.at or (snapshot.waiting[0].group if len(snapshot.waiting) == 1 else "")
        return Plan(f"{s.epoch}-{s.version}", s.version, s.now, source, (), failure=(name, mistake(error)))


def plan_now(snapshot: Snapshot) -> Plan:
    """The same plan in one go, for simulation and replay."""
    return now(plan(snapshot))
