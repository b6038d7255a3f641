"""A containment tree with its bookings, and everything one can do with it.

Called by `cli.resource_query` and by tests. Each operation either happens as a whole or raises TreeError and
changes nothing. "Busy" (not now) and "never" (not even with everything free) are different answers.
Must not read files.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.tree.admission import Admissions, Allowed
from fairlead.core.tree.answers import Answers
from fairlead.core.tree.bookings import Bookings, Held, Job, Span
from fairlead.core.tree.bound import Bound
from fairlead.core.tree.columns import Pool, Tree, TreeError
from fairlead.core.tree.counts import alternatives, nodes_asked, together
from fairlead.core.tree.filters import Filters
from fairlead.core.tree.levels import Levels, State
from fairlead.core.tree.matchpolicy import NODE, MatchPolicy
from fairlead.core.tree.order import Order
from fairlead.core.tree.parts import Parts
from fairlead.core.tree.room import demands
from fairlead.core.tree.together import Together, Trials, check, closure, with_whole_nodes
from fairlead.core.tree.vector import Unusual, Vector
from fairlead.core.tree.walk import Aim, Walk
from fairlead.model.jobspec import Jobspec, Resource

HORIZON = 100 * 365 * 24 * 3600
"""Seconds for which a tree exists, if nothing else is said: a hundred years."""


class Op(Enum):
    """What a match may do."""

    allocate = "allocate"
    allocate_orelse_reserve = "allocate_orelse_reserve"
    allocate_with_satisfiability = "allocate_with_satisfiability"
    satisfiability = "satisfiability"
    without_allocating = "without_allocating"


class Verdict(Enum):
    """The answer to a match."""

    granted = "granted"
    busy = "busy"
    never = "never"


class Outcome(Struct, frozen=True):
    """What became of a request; `job` is what it got or, without allocating, would have got."""

    verdict: Verdict
    job: Job | None = None
    visits: int = 0


class Graph:
    """The tree, who holds what, and the policy by which requests are matched."""

    def __init__(
        self,
        tree: Tree,
        policy: MatchPolicy,
        *,
        filters: str = "ALL:core,ALL:node",
        horizon: int = HORIZON,
        flexible: bool = False,
        levels: bool = True,
    ) -> None:
        """`filters` are pruning filters as Fluxion writes them. Raises TreeError if they are not.

        Without `levels` every match walks the tree: slower, and the oracle of the other way.
        """
        self._ranked = levels and not (policy.first or policy.locality or flexible)
        self._remembers = levels
        self.tree, self.policy, self.horizon, self.flexible = tree, policy, horizon, flexible
        self.bookings = Bookings(tree.type, tree.sizes)
        self.order = Order(tree)
        self.filters = Filters(tree, filters)
        self._admissions, self._answers = Admissions(tree), Answers()
        self.tries = 0
        """How often a match was looked for at some instant."""
        self._levels: Levels | None = None
        self._changed: dict[int, None] = {}

    # -- matching ------------------------------------------------------------------------------------

    def match(self, jobspec: Jobspec, op: Op, id_: int, now: int = 0) -> Outcome:
        """Match a request; what it is granted is booked for job `id_`. Raises TreeError."""
        if id_ in self.bookings.jobs:
            raise TreeError(f"job {id_} exists; use another id, or cancel it first")
        allowed = self._admissions.of(jobspec.constraint)
        if not self.flexible:
            check(jobspec.resources)
        if op is Op.satisfiability:
            return Outcome(Verdict.granted if self._ever(jobspec, allowed) else Verdict.never)
        if not self._nodes_enough(jobspec, allowed):
            return Outcome(Verdict.never if op is Op.allocate_with_satisfiability else Verdict.busy)
        visits = 0
        reserve = op is Op.allocate_orelse_reserve
        if not (self._answers.busy(jobspec, now) or (reserve and self._full(jobspec, now))):
            visits, held = self._select(Aim.now, now, jobspec, allowed)
            if held is not None:
                return self._grant(id_, now, jobspec, held, op, now, visits)
            if self._remembers and not self.flexible:
                self._answers.was_busy(jobspec, now)
        if reserve:
            return self._reserve(jobspec, id_, now, allowed)
        if op is Op.allocate_with_satisfiability and not self._ever(jobspec, allowed):
            return Outcome(Verdict.never)
        return Outcome(Verdict.busy, visits=visits)

    def _full(self, jobspec: Jobspec, now: int) -> bool:
        """Whether there is too little of something now, wherever it is."""
        end = now + self._duration(jobspec, now)
        return not self.bookings.room.possible(now, end, self._spare(jobspec))

    def _reserve(self, jobspec: Jobspec, id_: int, now: int, allowed: Allowed | None) -> Outcome:
        """The earliest instant at which something ends or starts and the request fits."""
        op, visits = Op.allocate_orelse_reserve, 0
        for at in self.bookings.room.instants(now, jobspec.duration or self.horizon, self._spare(jobspec)):
            if at + self._duration(jobspec, at) > self.horizon:
                break
            seen, held = self._select(Aim.later, at, jobspec, allowed)
            visits += seen
            if held is not None:
                return self._grant(id_, at, jobspec, held, op, now, visits)
        return Outcome(Verdict.busy if self._ever(jobspec, allowed) else Verdict.never, visits=visits)

    def _spare(self, jobspec: Jobspec) -> dict[str, int]:
        """How much of each type others may hold at most while the request holds the least it takes."""
        asked = {} if self.flexible else demands(jobspec.resources)
        return {type_: self.filters.whole(type_) - least for type_, least in asked.items()}

    def _ever(self, jobspec: Jobspec, allowed: Allowed | None) -> bool:
        known = self._answers.ever(jobspec)
        if known is None:
            known = self._possible(jobspec, allowed)
            if self._remembers:
                self._answers.was_ever(jobspec, known)
        return known

    def _nodes_enough(self, jobspec: Jobspec, allowed: Allowed | None) -> bool:
        """Whether as many nodes are up, and admitted, as the request names, whatever it wants of them."""
        wanted = nodes_asked(jobspec.resources)
        if wanted == 0 or not self.filters.counts(NODE):
            return True
        if wanted > self.tree.nodes_up():
            return False
        return allowed is None or int(allowed.level(NODE).sum()) >= wanted

    def _select(
        self, aim: Aim, at: int, jobspec: Jobspec, allowed: Allowed | None
    ) -> tuple[int, dict[int, Held] | None]:
        """The match at one instant, and how many vertices were visited for it."""
        self.tries += 1
        span = (at, at + self._duration(jobspec, at))
        if self.flexible or not together(jobspec.resources):
            return self._at(aim, span, jobspec.resources, allowed, self.policy)
        return self._together(aim, span, jobspec.resources, allowed)

    def _at(
        self,
        aim: Aim,
        span: Span,
        resources: Sequence[Resource],
        allowed: Allowed | None,
        policy: MatchPolicy,
    ) -> tuple[int, dict[int, Held] | None]:
        """The match without slots side by side; of alternatives the first that fits."""
        walk = Walk(
            self.tree,
            self.bookings,
            policy,
            self.order,
            aim=aim,
            span=span,
            allowed=allowed,
            flexible=self.flexible,
        )
        if self._ranked:
            try:
                return 0, Vector(walk, self._state(aim, span)).select(tuple(resources))
            except Unusual:
                walk.marks.clear()
        choices = alternatives(tuple(resources)) if self.flexible else (resources,)
        found = (walk.select(each) for each in choices)
        held = next((each for each in found if each is not None), None)
        return walk.visits, held

    def _together(
        self, aim: Aim, span: Span, resources: Sequence[Resource], allowed: Allowed | None
    ) -> tuple[int, dict[int, Held] | None]:
        """The match of slots side by side; nodes that the policy gives whole are made so at the end."""
        policy, visits = replace(self.policy, node_exclusive=False), 0
        if span[0] >= span[1]:
            return 0, None  # at the end of time nothing on trial would be in the way of anything

        def select(wants: Sequence[Resource], allowed: Allowed | None) -> dict[int, Held] | None:
            nonlocal visits
            seen, held = self._at(aim, span, wants, allowed, policy)
            visits += seen
            return held

        def idle(v: int) -> bool:
            used = aim is Aim.now and self.bookings.in_use(v)
            return not used and self.bookings.untouched(v, *span)

        trials = Trials(self.bookings, self._changed, span)
        held = Together(self.tree, select, trials, self.filters.whole, allowed).select(resources)
        if held is not None and self.policy.node_exclusive:
            held = with_whole_nodes(self.tree, held, idle)
        return visits, held

    def _possible(self, jobspec: Jobspec, allowed: Allowed | None) -> bool:
        """Whether the tree could hold it with everything free and up, as far as can be told for certain."""
        if self.flexible or not together(jobspec.resources):
            return self._select(Aim.ever, 0, jobspec, allowed)[1] is not None
        span = (0, self._duration(jobspec, 0))

        def select(wants: Sequence[Resource], allowed: Allowed | None) -> dict[int, Held] | None:
            return self._at(Aim.ever, span, wants, allowed, self.policy)[1]

        return Bound(self.tree, select, self.filters.whole, allowed).possible(jobspec.resources)

    def _state(self, aim: Aim, span: tuple[int, int]) -> State:
        """What is held at that span of time, by level."""
        if self._levels is None:
            self._levels = Levels(self.tree, self.policy)
            self._changed.update(dict.fromkeys(self.bookings.jobs))
        self._levels.follow(self.bookings.jobs, self._changed)
        self._changed.clear()
        return self._levels.at(aim is Aim.ever, aim is Aim.now, span)

    def _duration(self, jobspec: Jobspec, at: int) -> int:
        return jobspec.duration or self.horizon - at

    def _grant(
        self, id_: int, at: int, jobspec: Jobspec, held: dict[int, Held], op: Op, now: int, visits: int
    ) -> Outcome:
        end = min(at + self._duration(jobspec, at), self.horizon)
        job = Job(id_, at, end, at > now, held, self.filters.see(held))
        if op is not Op.without_allocating:
            self._book(job)
        return Outcome(Verdict.granted, job, visits)

    def _book(self, job: Job) -> None:
        self.bookings.add(job)
        self._changed[job.id] = None
        if self.policy.first:
            if not job.reserved:
                self.filters.take(job.held, 1)
            for v, free in self.filters.emptiness(job.held).items():
                self.order.reweigh(v, free)

    # -- jobs ----------------------------------------------------------------------------------------

    def cancel(self, id_: int) -> None:
        """Give back all that a job holds. Raises TreeError for a job that is not there."""
        self._job(id_)
        self._remove(id_)

    def _remove(self, id_: int) -> None:
        job = self.bookings.remove(id_)
        self._answers.freed()
        if self.policy.first and not job.reserved:
            self.filters.take(job.held, -1)
        self._changed[id_] = None

    def release(self, id_: int, vertices: Iterable[int]) -> bool:
        """Give back vertices of an allocation with all below them; whether that was all. Raises TreeError."""
        job = self._job(id_)
        if job.reserved:
            raise TreeError("reservations not currently supported by partial cancel")
        gone = set(vertices)
        if not gone <= job.held.keys():
            name = self.tree.paths[min(gone - job.held.keys())]
            raise TreeError(f"job {id_} does not hold {name}")
        gone |= {v for v in job.held if not gone.isdisjoint(self.tree.ancestors(v))}
        self._changed[id_] = None
        self._answers.freed()
        left = {v for v, held in job.held.items() if held.exclusive and v not in gone}
        if not left and job.counts:
            self._remove(id_)
            return True
        if not left:  # no filter sees that this was all: what is above stays the job's until it is cancelled
            left = {v for v in job.held if v not in gone}
        needed = left | {above for v in left for above in self.tree.ancestors(v)}
        lost = {v: held for v, held in job.held.items() if v in gone or v not in needed}
        if self.policy.first:
            self.filters.take(lost, -1)
        self.bookings.release(id_, lost)
        return False

    def release_ranks(self, id_: int, ranks: Iterable[int]) -> bool:
        """Give back all a job holds on some ranks; whether that was all of it. Raises TreeError."""
        job, wanted = self._job(id_), set(ranks)
        known = set(self.tree.rank.tolist())
        if not wanted <= known:
            raise TreeError(f"no vertex has rank {min(wanted - known)}")
        return self.release(id_, [v for v in job.held if int(self.tree.rank[v]) in wanted])

    def reinstate(self, id_: int, held: dict[int, Held], at: int, duration: int, reserved: bool) -> Job:
        """Book what an earlier process had granted. Raises TreeError if somebody else holds any of it."""
        if id_ in self.bookings.jobs:
            raise TreeError(f"job {id_} exists")
        for v, each in held.items():
            if each.exclusive and not self.bookings.untouched(v, at, at + duration):
                raise TreeError(f"{self.tree.paths[v]} is held by another job at that time")
        job = Job(id_, at, at + duration, reserved, held, self.filters.see(held))
        self._book(job)
        return job

    def closure(self, vertices: Iterable[int]) -> dict[int, Held]:
        """These vertices exclusively and all above them shared, children before their parents."""
        return closure(self.tree, vertices)

    def _job(self, id_: int) -> Job:
        job = self.bookings.jobs.get(id_)
        if job is None:
            raise TreeError(f"nonexistent job {id_}")
        return job

    # -- the tree itself -----------------------------------------------------------------------------

    def vertex(self, path: str) -> int:
        """The vertex of a path. Raises TreeError."""
        v = self.tree.by_path.get(path)
        if v is None:
            raise TreeError(f"Could not find path {path} in resource graph.")
        return v

    def set_up(self, v: int, up: bool) -> None:
        """Mark a vertex up or down."""
        self.tree.set_up(v, up)
        self._answers.freed()
        if self._levels is not None:
            self._levels.set_up(v, up)

    def set_property(self, v: int, name: str, value: str | None) -> None:
        """Give a vertex a property, or take it away with None."""
        self.tree.set_property(v, name, value)
        self._admissions, self._answers = Admissions(self.tree), Answers()

    def of_ranks(self, ranks: Iterable[int]) -> list[int]:
        """The topmost vertices of these ranks. Raises TreeError for a rank that no vertex has."""
        found: list[int] = []
        for rank in sorted(set(ranks)):
            there: list[int] = np.flatnonzero(self.tree.rank == rank).tolist()
            if not there:
                raise TreeError(f"no vertex has rank {rank}")
            found.extend(v for v in there if self.tree.rank[self.tree.parent[v]] != rank)
        return found

    def attach(self, more: Sequence[Pool] | Parts) -> None:
        """Add vertices below those that exist, as Tree.joined does. Raises TreeError."""
        tree, where = self.tree.joined(more)
        self._move(tree, where)

    def remove(self, vertices: Iterable[int]) -> None:
        """Remove subtrees; jobs lose what they hold there."""
        tree, where = self.tree.without(vertices)
        self._move(tree, where)

    def _move(self, tree: Tree, where: dict[int, int]) -> None:
        self.bookings = self.bookings.moved(where, tree.type, tree.sizes)
        self.order = self.order.moved(tree, where)
        self.filters = Filters(tree, self.filters.text)
        for job in self.bookings.jobs.values():
            if self.policy.first and not job.reserved:
                self.filters.take(job.held, 1)
        self.tree, self._admissions, self._answers = tree, Admissions(tree), Answers()
        self._levels = None
