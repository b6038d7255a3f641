"""What the engine decided, as rows of the ledger: one per stage of a group, per change of mind, per plan.

An observer of `runtime.loop` (composed by `fairlead.app`), told each batch and its commands. A group that
waits for the same reason as before is not mentioned again: a plan over ten thousand of them is a few rows.
Pure but for the sink it is given; must not change what it looks at.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from fairlead.model.command import Command, End, Evict, RecordAllocations, SaveGroups
from fairlead.model.event import (
    BindFailed,
    ClockJumped,
    Configured,
    Event,
    GroupRestored,
    PlanProposed,
    ReservationRestored,
    StoreLost,
    StoreReady,
    Tick,
)
from fairlead.model.group import GroupRecord, Outcome, Phase, Why
from fairlead.model.plan import Plan, Reject, Reserve, Start, Wait
from fairlead.model.record import Change, Part, Source

STAGES = (
    ("first_seen", "Arrived"),
    ("complete_at", "Queued"),
    ("recorded_at", "Recorded"),
    ("bound_at", "Bound"),
    ("started_at", "Started"),
)
"""Fields of a record that say when, in the order in which they come about, and the word for each."""
WAITING = (Phase.HELD, Phase.QUEUED)
ENDED_KEPT = 10_000
"""Ended groups that are remembered, because a record may be written once more after the end."""
_DECISIONS: tuple[tuple[type, str], ...] = (
    (Start, "start"),
    (Reserve, "reserve"),
    (Wait, "wait"),
    (Reject, "reject"),
)


class _Said(Struct):
    """What was last said of a group."""

    record: GroupRecord
    why: Why = Why.NONE
    start: int = 0


class Decisions:
    """Remembers what was said of each group that has not ended; `sink` takes the rows and answers at once.

    `stale` says why the last plan was cut short, "" if it was not. Rows that find no room are counted in
    `dropped`: the engine never waits.
    """

    def __init__(self, scheduler: str, sink: Callable[[Part], bool], stale: Callable[[], str] = str) -> None:
        self._scheduler, self._sink, self._stale = scheduler, sink, stale
        self._said: dict[str, _Said] = {}
        self._ended: dict[str, None] = {}
        self._now = 0
        self.dropped = 0

    def batch(self, events: Sequence[Event], commands: Sequence[Command], _taken: float) -> None:
        """One batch, as `runtime.loop` tells its observers."""
        rows = tuple(self.changes(events, commands))
        if rows and not self._sink(Part(rows)):
            self.dropped += len(rows)

    def changes(self, events: Sequence[Event], commands: Sequence[Command]) -> Iterator[Change]:
        """The rows of one batch: what it told of ports and plans, then what it led to."""
        for event in events:
            match event:
                case Tick(now):
                    self._now = max(now, self._now)
                case GroupRestored(record):
                    self._restored(record)
                case ReservationRestored(reserve) if reserve.group in self._said:
                    self._said[reserve.group].start = reserve.start
                case PlanProposed(plan):
                    yield self._plan(plan, commands)
                case BindFailed(pod, grant, error, text):
                    extra = {"grant": grant}
                    yield self._row("Pod", "BindFailed", uid=pod, reason=error, message=text, extra=extra)
                case StoreReady(epoch):
                    yield self._row("Scheduler", "Leads", extra={"epoch": epoch})
                case StoreLost(error):
                    yield self._row("Scheduler", "StoreLost", message=error)
                case Configured():
                    yield self._row("Scheduler", "Configured")
                case ClockJumped(by):
                    yield self._row("Scheduler", "ClockJumped", extra={"milliseconds": by})
                case _:
                    pass
        for command in commands:
            match command:
                case RecordAllocations():
                    yield from self._recorded(command)
                case SaveGroups(groups):
                    for record in groups:
                        yield from self._group(record)
                case Evict(pod, text):
                    yield self._row(
                        "Pod",
                        "Evicted",
                        uid=pod.uid,
                        namespace=pod.namespace,
                        name=pod.name,
                        message=text,
                    )
                case End(group, text, why=why):
                    yield self._of(group, "Ending", reason=why, message=text)
                case _:
                    pass

    def _plan(self, plan: Plan, commands: Sequence[Command]) -> Change:
        """One row per plan, whatever its length; what it decided of each group follows, if that is news."""
        counts = {word: sum(isinstance(each, kind) for each in plan.decisions) for kind, word in _DECISIONS}
        granted = sum(
            len(each.grants)
            for each in commands
            if isinstance(each, RecordAllocations) and each.plan == plan.id
        )
        extra = {**counts, "granted": granted, "source": plan.source, "version": plan.version}
        return self._row("Plan", "Proposed", name=plan.id, at=plan.at, reason=self._stale(), extra=extra)

    def _recorded(self, command: RecordAllocations) -> Iterator[Change]:
        for record in command.groups:
            yield from self._group(record)
        for grant in command.grants:
            placements = [[each.pod, each.node] for each in grant.placements]
            extra: dict[str, Any] = {"plan": grant.plan, "epoch": grant.epoch, "placements": placements}
            if grant.growth:
                extra["growth"] = True
            yield self._of(grant.group, "Planned", at=grant.at, extra=extra)
        for reserve in command.reservations:
            said = self._said.get(reserve.group)
            if said is not None and said.start != reserve.start:
                yield self._reserved(reserve, said.start)
                said.start = reserve.start

    def _reserved(self, reserve: Reserve, before: int) -> Change:
        extra: dict[str, Any] = {"start": reserve.start, "before": before, "nodes": list(reserve.nodes)}
        why, text = reserve.reason.why, reserve.reason.text
        return self._of(reserve.group, "Reserved", reason=why, message=text, extra=extra)

    def _group(self, record: GroupRecord) -> Iterator[Change]:
        """Its stages that are new, then a change of mind about it, then its end."""
        if record.id in self._ended:
            return
        said = self._said.get(record.id)
        before = said.record if said else None
        if said is None:
            said = self._said[record.id] = _Said(record)
        said.record = record
        news: list[str] = []
        for field, event in STAGES:
            at: int = getattr(record, field)
            if at and (before is None or getattr(before, field) != at):
                news.append(event)
                yield self._of(record.id, event, at=at, extra=_asked(record) if event == "Queued" else None)
        why, ended = record.reason.why, record.phase is Phase.ENDED
        if why is Why.QUEUED and "Queued" in news:
            why = Why.NONE  # nobody has looked at it yet: that is no decision
        rejected = ended and record.outcome is Outcome.REJECTED
        if why is not said.why and why is not Why.NONE and (rejected or record.phase in WAITING):
            event = "Rejected" if rejected else "Waiting"
            yield self._of(record.id, event, reason=why, message=record.reason.text)
        said.why = why
        if ended and not rejected:
            reason, text = record.outcome, record.reason.text
            yield self._of(record.id, "Ended", at=record.ended_at, reason=reason, message=text)
            self._forget(record.id)

    def _restored(self, record: GroupRecord) -> None:
        """What an earlier process has said."""
        self._said[record.id] = _Said(record, record.reason.why)
        if record.phase is Phase.ENDED and record.outcome is not Outcome.REJECTED:
            self._forget(record.id)

    def _forget(self, group: str) -> None:
        self._said.pop(group, None)
        self._ended[group] = None
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def _of(self, group: str, event: str, **values: Any) -> Change:
        """A row about a group; one that is not known (any more) is told by its id alone."""
        said = self._said.get(group)
        record = said.record if said else None
        return self._row(
            "Group",
            event,
            uid=group,
            namespace=record.namespace if record else "",
            name=record.name if record else "",
            **values,
        )

    def _row(self, kind: str, event: str, *, at: int = 0, **values: Any) -> Change:
        return Change(
            kind, event, at or self._now, self._now, Source.FAIRLEAD, scheduler=self._scheduler, **values
        )


def _asked(record: GroupRecord) -> dict[str, Any]:
    """What a group asked for when it was complete."""
    asked: dict[str, Any] = {"queue": record.queue, "size": record.size, "priority": record.priority}
    if record.duration:
        asked["duration"] = record.duration
    return asked
