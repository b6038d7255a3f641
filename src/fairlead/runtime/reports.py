"""What the log and the metrics say about each batch: a line per decision, a heartbeat every 30 s.

An observer of `runtime.loop`. Reads the engine, changes nothing.
"""

import asyncio
from collections.abc import Sequence

import structlog

from fairlead.core.engine import Engine
from fairlead.core.story import stages
from fairlead.core.views import span
from fairlead.model.command import Command, RecordAllocations, SaveGroups
from fairlead.model.event import (
    AllocationsRefused,
    BindFailed,
    Event,
    PlanProposed,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import Decision, Plan, Reject, Start, Wait
from fairlead.runtime.metrics import Metrics

HEARTBEAT = 30.0
_STAGES = ("complete", "planned", "recorded", "bound", "started")
_log = structlog.get_logger("scheduler")


class Reports:
    """Structured lines and counters about what the engine learned and decided."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._said: dict[str, str] = {}
        """Group -> the waiting reason last logged, so that a reason is a line once."""
        self._cycle = 0.0
        self._poisonings = self._races = 0
        self._since = 0
        """When this process first learned anything: what was bound before, an earlier one has measured."""
        self._measured: dict[str, int] = {}
        """Group -> when the start was bound whose stages have been measured."""

    def cycle(self, seconds: float, _: int) -> None:
        """Called by the planner with the working time of a cycle, before its plan comes back."""
        self._cycle = seconds

    def batch(self, events: Sequence[Event], commands: Sequence[Command], seconds: float) -> None:
        """Called by the loop after each batch."""
        self._metrics.learned(len(events), seconds)
        self._troubles()
        self._since = self._since or self._engine.state.now
        for command in commands:
            if isinstance(command, SaveGroups):
                for record in command.groups:
                    self._measure(record)
        for event in events:
            match event:
                case PlanProposed():
                    self._plan(event.plan, commands)
                case BindFailed():
                    self._metrics.kube.attempted(self._profile, "error", 1)
                    _log.warning("bind failed", pod=self._pod(event.pod), error=event.error, text=event.text)
                case StoreLost():
                    self._metrics.store(False)
                    _log.error("store lost: nothing is placed until it is back", error=event.error)
                case StoreReady():
                    self._metrics.store(True)
                    _log.info("store ready", epoch=event.epoch)
                case AllocationsRefused():
                    _log.error("plan refused by the store", plan=event.plan, reason=event.reason)
                case Synced():
                    _log.info("in sync", source=event.source)
                case _:
                    pass

    def _measure(self, record: GroupRecord) -> None:
        """How long each stage took, once all its members run, or at its end if they never did all at once."""
        over = record.phase is Phase.ENDED
        new = record.bound_at >= self._since and self._measured.get(record.id) != record.bound_at
        if record.bound_at and new and (record.started_at or over):
            self._measured[record.id] = record.bound_at
            for stage in stages(record):
                if stage.name in _STAGES:
                    self._metrics.stage(stage.name, stage.took)
            group = self._engine.state.groups.get(record.id)
            tries = 1 + (group.attempts if group is not None else 0)
            self._metrics.kube.bound(record.bound_at - record.complete_at, tries, record.size)
        if over:
            self._measured.pop(record.id, None)

    def _troubles(self) -> None:
        """What was set aside, and where others met ours, since the last batch."""
        state = self._engine.state
        if state.poisonings > self._poisonings:
            self._metrics.set_aside(state.poisonings - self._poisonings)
            for poison in list(state.poisoned.values())[self._poisonings - state.poisonings :]:
                what = {"kind": poison.kind, "name": poison.name, "error": poison.text}
                _log.error("set aside; please report this", **what)
            self._poisonings = state.poisonings
        if state.races > self._races:
            self._metrics.raced(state.races - self._races)
            _log.warning("another scheduler's pods met ours", nodes=list(state.raced))
            self._races = state.races

    def _plan(self, plan: Plan, commands: Sequence[Command]) -> None:
        granted: dict[str, None] = {}
        for command in commands:
            if isinstance(command, RecordAllocations) and command.plan == plan.id:
                granted = {grant.group: None for grant in command.grants}
        stale = self._engine.last_stale
        self._metrics.planned(self._cycle, "stale" if stale else "accepted" if granted else "empty")
        whole = max((self._engine.state.now - plan.at) / 1000, self._cycle)
        result = "scheduled" if granted else "unschedulable"
        self._metrics.kube.planned(self._profile, result, whole, self._cycle)
        for decision in plan.decisions:
            self._decision(plan.id, decision, decision.group in granted)
        if stale:
            _log.info("plan cut short", plan=plan.id, reason=stale)

    def _decision(self, plan: str, decision: Decision, granted: bool) -> None:
        name = self._name(decision.group)
        self._attempted(decision, granted)
        match decision:
            case Start() if granted:
                group = self._engine.state.groups.get(decision.group)
                if group is not None and not decision.growth:
                    self._metrics.granted()
                    self._metrics.waited(self._engine.state.now - group.first_seen)
                    self._metrics.spans(span(self._engine.state, group.nodes))
                    if group.promised:
                        at = group.granted_at
                        self._metrics.forecast(at - group.promised, at - group.promised_last)
                self._said.pop(decision.group, None)
                _log.info("start", group=name, plan=plan, pods=len(decision.placements))
            case Wait() | Reject() if self._said.get(decision.group) != decision.reason.text:
                self._said[decision.group] = decision.reason.text
                verb = "wait"
                if isinstance(decision, Reject):
                    verb = "reject"
                    self._metrics.rejected()
                reason = decision.reason
                _log.info(verb, group=name, plan=plan, why=reason.why.value, reason=reason.text)
            case _:
                pass

    def _attempted(self, decision: Decision, granted: bool) -> None:
        if isinstance(decision, Start):
            if granted:
                self._metrics.kube.attempted(self._profile, "scheduled", len(decision.placements))
            return
        group = self._engine.state.groups.get(decision.group)
        self._metrics.kube.attempted(self._profile, "unschedulable", group.size if group is not None else 1)

    @property
    def _profile(self) -> str:
        return self._engine.state.settings.scheduler

    def _name(self, group_id: str) -> str:
        group = self._engine.state.groups.get(group_id)
        return f"{group.namespace}/{group.name}" if group else group_id

    def _pod(self, uid: str) -> str:
        pod = self._engine.state.pods.get(uid)
        return f"{pod.namespace}/{pod.name}" if pod else uid

    async def beat(self) -> None:
        """A line every 30 seconds, so that silence means trouble."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            state = self._engine.state
            phases = dict.fromkeys(Phase, 0)
            for group in state.groups.values():
                phases[group.phase] += 1
            self._said = {gid: text for gid, text in self._said.items() if gid in state.groups}
            _log.info(
                "heartbeat",
                ready=state.ready,
                nodes=sum(at == 0 for at in state.inventory.gone_at),
                pods=len(state.pods),
                intents=len(state.intents),
                **{phase.value: n for phase, n in phases.items()},
            )
