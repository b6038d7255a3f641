"""One cycle: the queue in order, each group placed, promised a start, told to wait, or rejected.

`plan` is a generator that yields between groups, so that `runtime.planner` can run it in slices of a
few milliseconds between I/O; its return value is the Plan. It sees a Snapshot and nothing else.
"""

from collections.abc import Generator, Iterator
from functools import cached_property

from fairlead.core.backfill import Ahead, nodes_of
from fairlead.core.bulk import place_all
from fairlead.core.explain import blocked, unsatisfiable
from fairlead.core.inventory import Ints
from fairlead.core.match import Matcher
from fairlead.core.policy import lookahead
from fairlead.core.profile import shares
from fairlead.core.snapshot import Draft, Request, Snapshot
from fairlead.model.group import Reason, Why
from fairlead.model.plan import Decision, Plan, Reject, Reserve, Start, Wait


class Cycle:
    """The work of one plan; a class only to give its steps names."""

    def __init__(self, snapshot: Snapshot, source: str) -> None:
        self.snapshot, self.source = snapshot, source
        self.draft = Draft(snapshot)
        self.matcher = Matcher(self.draft, snapshot.settings.match)
        self.decisions: list[Decision] = []
        self.head = ""
        self.depth = lookahead(snapshot.settings.queues[0]).depth
        self.started: list[tuple[int, int, int]] = []
        """(begin, end, walltime) of what each Start took in the draft's log, for policies with a depth."""
        self._possible: dict[object, str] = {}

    def run(self) -> Generator[None, None, Plan]:
        everybody = yield from place_all(self.matcher, self.snapshot.waiting)
        if everybody is not None:
            pairs = zip(self.snapshot.waiting, everybody, strict=True)
            self.decisions = [Start(request.group, placed, request.growth) for request, placed in pairs]
            return self._plan()
        queue = iter(self.snapshot.waiting)
        for request in queue:
            yield
            self._decide(request)
            if self.head:  # nobody overtakes the head
                break
        if self.head and self.depth:  # but who does not delay it
            yield from self._look_ahead(queue)
        yield from self._call_impossible()
        return self._plan()

    def _decide(self, request: Request) -> None:
        mark = self.draft.mark() if self.depth else 0
        placements = self.matcher.place(request)
        if placements is not None:
            self.decisions.append(Start(request.group, placements, request.growth))
            if self.depth:
                self.started.append((mark, self.draft.mark(), request.duration))
            return
        verdict = self._refuse(request, self.draft.free)
        if isinstance(verdict, Wait) and verdict.reason.why is not Why.NODES_DOWN:
            self.head = request.group
            if self.depth:
                verdict = self._promise(request, verdict)
        self.decisions.append(verdict)

    def _look_ahead(self, rest: Iterator[Request]) -> Generator[None, None, None]:
        """Those behind the head, in order and once: each starts, or is promised a start, or waits."""
        promised = 1
        for request in rest:
            yield
            placements = self.ahead.start(request)
            if placements is not None:
                self.decisions.append(Start(request.group, placements, request.growth))
            elif promised < self.depth:
                verdict = self._refuse(request, self.ahead.free)
                if isinstance(verdict, Wait) and verdict.reason.why is not Why.NODES_DOWN:
                    promised += 1
                    verdict = self._promise(request, verdict)
                self.decisions.append(verdict)

    def _promise(self, request: Request, wait: Wait) -> Reserve | Wait:
        """Reserve the earliest start; a Wait if no end is known of what it waits for."""
        offer = self.ahead.reserve(request)
        if offer is None:
            return wait
        return Reserve(request.group, offer.start, nodes_of(offer.placements), wait.reason)

    @cached_property
    def ahead(self) -> Ahead:
        """What is promised; made when the first group is found that cannot start."""
        ahead = Ahead(self.snapshot, self.draft.free)
        for mark, end, duration in self.started:
            ahead.started(shares(self.draft.log[mark:end]), duration)
        return ahead

    def _refuse(self, request: Request, free: Ints) -> Wait | Reject:
        """Why it cannot start now: never, not while nodes are down, or not until something ends."""
        never = self._never(request)
        if never and not request.growth:
            return Reject(request.group, Reason(Why.UNSATISFIABLE, never))
        down = never or unsatisfiable(self.snapshot, request, present=True)
        if down:  # outside the policy's depth: it does not hold up anybody
            return Wait(
                request.group, Reason(Why.NODES_DOWN, f"waits for nodes that are not there now: {down}")
            )
        return Wait(request.group, Reason(Why.RESOURCES, blocked(self.snapshot, free, request)))

    def _never(self, request: Request) -> str:
        key = tuple((id(task.shape), len(task.uids)) for task in request.tasks)
        verdict = self._possible.get(key)
        if verdict is None:
            verdict = self._possible[key] = unsatisfiable(self.snapshot, request)
        return verdict

    def _call_impossible(self) -> Generator[None, None, None]:
        """Groups behind the head that arrived since the last plan: an impossible one is told at once."""
        decided = {decision.group: None for decision in self.decisions}
        for request in self.snapshot.unchecked:
            if request.group not in decided:
                yield
                never = self._never(request)
                if never:
                    self.decisions.append(Reject(request.group, Reason(Why.UNSATISFIABLE, never)))

    def _plan(self) -> Plan:
        s = self.snapshot
        return Plan(
            id=f"{s.epoch}-{s.version}",
            version=s.version,
            at=s.now,
            source=self.source,
            decisions=tuple(self.decisions),
            head=self.head,
        )


def plan(snapshot: Snapshot, source: str = "fairlead") -> Generator[None, None, Plan]:
    """Decide for the groups in queue order until the policy says that nobody may overtake."""
    return Cycle(snapshot, source).run()


def plan_now(snapshot: Snapshot) -> Plan:
    """The same plan in one go, for simulation and replay."""
    steps = plan(snapshot)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
