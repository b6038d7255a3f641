"""What a policy function answered becomes a plan: what cannot be done is refused, each for a reason in words.

Called by `runtime.policies` and `sim.play`. Each decision is held against the snapshot that the function was
shown, less what the answer has started before it, and against all that `core.verify` would look at: a plan
that is refused there would be asked for again at once, and be the same. Never raises for what a function
says.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from fairlead.core import topology
from fairlead.core.crowd import Company
from fairlead.core.explain import amounts_text, blocked, possibility
from fairlead.core.labels import constraints
from fairlead.core.match import Matcher
from fairlead.core.outlook import Look, id_of
from fairlead.core.snapshot import Draft, Request, Task
from fairlead.model import outside
from fairlead.model.group import Reason, Why
from fairlead.model.plan import FUNCTION, Decision, Placement, Plan, Reject, Reserve, Start, Wait

_STEP = 64
_LONGEST = 200
"""Letters of what a function says of a group."""


class Refusal(NamedTuple):
    """A decision that cannot be done; `id` as the function wrote it."""

    id: str
    text: str


class Adopted(NamedTuple):
    """The plan, and what was refused."""

    plan: Plan
    refusals: tuple[Refusal, ...]


class _RefusedError(Exception):
    """The decision at hand cannot be done, for this reason."""


def adopt(look: Look, answer: Sequence[outside.Decision], name: str) -> Generator[None, None, Adopted]:
    """The plan of the function `name`; yields between decisions, as `core.cycle` does."""
    return (yield from _Adopting(look, name).run(answer))


class _Adopting:
    """The work on one answer; a class only to give its steps names."""

    def __init__(self, look: Look, name: str) -> None:
        self.view, self.snapshot = look
        self.name = name
        self.open = {id_of(request): request for request in self.snapshot.waiting}
        """Of whom nothing has been decided yet."""
        self.known = dict.fromkeys(self.open)
        self.draft = Draft(self.snapshot)
        self.company = None if self.snapshot.crowd is None else Company(self.snapshot.crowd)
        self.matcher = Matcher(self.draft, self.snapshot.settings.match, self.company)
        self.rows = {name: row for row, name in enumerate(self.snapshot.names)}
        self.decisions: list[Decision] = []
        self.promised: dict[str, None] = {}
        self.refusals: list[Refusal] = []
        self.failed: dict[int, None] = {}
        """Kinds of requests for which there is no room left."""

    def run(self, answer: Sequence[outside.Decision]) -> Generator[None, None, Adopted]:
        for number, decision in enumerate(answer):
            if number % _STEP == _STEP - 1 or isinstance(decision, outside.Start):
                yield
            try:
                self._decide(decision)
            except _RefusedError as refusal:
                if not (isinstance(decision, outside.Start) and decision.optional):
                    self._refuse(decision, str(refusal))
        yield from self._others()
        snapshot = self.snapshot
        plan = Plan(
            id=f"{snapshot.epoch}-{snapshot.version}",
            version=snapshot.version,
            at=snapshot.now,
            source=FUNCTION + self.name,
            decisions=tuple(self.decisions),
            withdrawn=tuple(
                dict.fromkeys(
                    promise.request.group
                    for promise in snapshot.promises
                    if promise.request.group not in self.promised
                )
            ),
        )
        return Adopted(plan, tuple(self.refusals))

    def _decide(self, decision: outside.Decision) -> None:
        request = self.open.get(decision.id)
        if request is None:
            known = decision.id in self.known
            raise _RefusedError("was decided on already" if known else "no such group waits")
        match decision:
            case outside.Start():
                placements = (
                    self._chosen(request, decision.optional)
                    if not decision.nodes
                    else self._named(request, decision)
                )
                self.decisions.append(Start(request.group, placements, request.growth))
            case outside.Reserve():
                self._reserve(request, decision)
            case outside.Wait():
                self.decisions.append(Wait(request.group, Reason(Why.QUEUED, decision.text[:_LONGEST])))
        del self.open[decision.id]

    def _refuse(self, decision: outside.Decision, text: str) -> None:
        """It waits on, and is told why, unless there is nobody to tell."""
        self.refusals.append(Refusal(decision.id, text))
        request = self.open.get(decision.id)
        if request is not None and (request.growth or not possibility(self.snapshot, request)[0]):
            del self.open[decision.id]
            said = f"the policy {self.name} would start it, but {text}"
            if isinstance(decision, outside.Reserve):
                said = f"the policy {self.name} would promise it a start, but {text}"
            self.decisions.append(Wait(request.group, Reason(Why.RESOURCES, said)))

    # -- starts --------------------------------------------------------------------------------------

    def _chosen(self, request: Request, optional: bool) -> tuple[Placement, ...]:
        """Nodes as Fairlead chooses them."""
        placements = None if request.kind in self.failed else self.matcher.place(request)
        if placements is None:
            if request.kind:
                self.failed[request.kind] = None  # free only shrinks: no other one of its kind fits, either
            raise _RefusedError(
                "" if optional else blocked(self.snapshot, self.draft.free, request, self.company)
            )
        return placements

    def _named(self, request: Request, start: outside.Start) -> tuple[Placement, ...]:
        """The nodes that the function has chosen, each looked at as if it were Fairlead's choice."""
        rows = [self._row(node) for node in start.nodes]
        wanted = sum(len(task.uids) for task in request.tasks)
        if len(rows) != wanted:
            raise _RefusedError(f"it has {wanted} pods and {len(rows)} nodes were named")
        shares: list[tuple[Task, list[int]]] = []
        at = 0
        for task in request.tasks:
            shares.append((task, rows[at : at + len(task.uids)]))
            at += len(task.uids)
        self._feasible(shares)
        self._room(shares)
        self._together(request, rows)
        self._among_others(shares)
        for task, there in shares:
            vector = self.snapshot.vectors[task.shape.requests]
            self.draft.take_all(vector, list(_counted(there).items()))
        names = self.snapshot.names
        return tuple(
            [
                Placement(uid, names[row])
                for task, there in shares
                for uid, row in zip(task.uids, there, strict=True)
            ]
        )

    def _row(self, node: int | str) -> int:
        """The row in the snapshot of a node named by its number in the view, or by its name."""
        names = self.view.nodes.names
        if isinstance(node, int):
            if not 0 <= node < len(names):
                raise _RefusedError(f"there is no node {node}: they are numbered 0 to {len(names) - 1}")
            node = names[node]
        row = self.rows.get(node)
        if row is None:
            raise _RefusedError(f"there is no node {node[:_LONGEST]!r}")
        return row

    def _feasible(self, shares: Sequence[tuple[Task, list[int]]]) -> None:
        for task, rows in shares:
            mask = self.snapshot.classes.now(constraints(task.shape))
            for row in rows:
                if not mask[row]:
                    name = self.snapshot.names[row]
                    raise _RefusedError(f"its selector, affinity, tolerations or the node forbid {name}")

    def _room(self, shares: Sequence[tuple[Task, list[int]]]) -> None:
        """Whether all of it fits at once."""
        need: dict[tuple[int, int], int] = {}
        for task, rows in shares:
            vector = self.snapshot.vectors[task.shape.requests]
            for row, times in _counted(rows).items():
                for resource, amount in vector.pairs:
                    cell = (resource, row)
                    need[cell] = need.get(cell, 0) + amount * times
        for (resource, row), amount in need.items():
            if self.draft.free.item((resource, row)) < amount:
                what = list(self.snapshot.resources)[resource]
                free = amounts_text(((what, max(self.draft.free.item((resource, row)), 0)),))
                asks = amounts_text(((what, amount),))
                raise _RefusedError(f"{self.snapshot.names[row]} has {free} left and it needs {asks} there")

    def _together(self, request: Request, rows: list[int]) -> None:
        required = request.layout.required
        if required:
            levels = topology.of(self.snapshot.classes, self.snapshot.settings.topology)
            if not levels.together(required, rows):
                raise _RefusedError(f"its pods have to lie within one {required}")

    def _among_others(self, shares: Sequence[tuple[Task, list[int]]]) -> None:
        """Other pods and volumes; those it starts count from here on."""
        company = self.company
        if company is None:
            return
        mark = company.mark()
        for task, rows in shares:
            like = task.like
            if like is None:
                continue
            for row in rows:
                if company.crowd.concerns(like) and not company.allowed(like)[row]:
                    why = company.lack(like, company.crowd.cluster.rows([row]))
                    company.rewind(mark)
                    raise _RefusedError(f"it may not be on {self.snapshot.names[row]}: {why}")
                company.take(like, row)

    # -- the rest ------------------------------------------------------------------------------------

    def _reserve(self, request: Request, reserve: outside.Reserve) -> None:
        nodes = tuple(dict.fromkeys(self.snapshot.names[self._row(node)] for node in reserve.nodes))
        if reserve.start and reserve.start <= self.snapshot.now:
            raise _RefusedError(f"{reserve.start} is not later than now ({self.snapshot.now})")
        text = reserve.text[:_LONGEST] or f"the policy {self.name} has promised it a start"
        self.decisions.append(Reserve(request.group, reserve.start, nodes, Reason(Why.RESOURCES, text)))
        self.promised[request.group] = None

    def _others(self) -> Generator[None, None, None]:
        """Who was not mentioned: an impossible group is told at once, others once that nobody chose them."""
        fresh = {id_of(request): None for request in self.snapshot.fresh}
        turned = bool(self.snapshot.heads)  # the last plan was a built-in policy's: its words are past
        for number, (key, request) in enumerate(self.open.items()):
            if number % _STEP == 0:
                yield
            never, _ = possibility(self.snapshot, request)
            if request.growth:
                continue
            if never:
                self.decisions.append(Reject(request.group, Reason(Why.UNSATISFIABLE, never)))
            elif turned or key in fresh:
                text = f"the policy {self.name} has not chosen it yet"
                self.decisions.append(Wait(request.group, Reason(Why.QUEUED, text)))


def _counted(rows: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in rows:
        found[row] = found.get(row, 0) + 1
    return found
