"""What the log and the metrics say about each batch: a line per decision, a heartbeat every 30 s.

An observer of `runtime.loop`. Reads the engine, changes nothing.
"""

import asyncio
from collections.abc import Sequence

import structlog

from fairlead.core.engine import Engine
from fairlead.model.command import Bind, Command, RecordAllocations
from fairlead.model.event import (
    AllocationsRefused,
    BindFailed,
    Bound,
    Event,
    PlanProposed,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.model.group import Phase
from fairlead.model.plan import Reject, Start, Wait
from fairlead.runtime.metrics import Metrics

HEARTBEAT = 30.0
_log = structlog.get_logger("scheduler")


class Reports:
    """Structured lines and counters about what the engine learned and decided."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics
        self._said: dict[str, str] = {}
        """Group -> the waiting reason last logged, so that a reason is a line once."""

    def batch(self, events: Sequence[Event], commands: Sequence[Command]) -> None:
        """Called by the loop after each batch."""
        self._metrics.learned(len(events))
        for event in events:
            match event:
                case PlanProposed():
                    self._plan(event, commands)
                case Bound():
                    self._metrics.bind("bound")
                case BindFailed():
                    self._metrics.bind(event.error)
                    _log.warning("bind failed", pod=self._pod(event.pod), error=event.error, text=event.text)
                case StoreLost():
                    self._metrics.store_up(False)
                    _log.error("store lost: nothing is placed until it is back", error=event.error)
                case StoreReady():
                    self._metrics.store_up(True)
                    _log.info("store ready", epoch=event.epoch)
                case AllocationsRefused():
                    _log.error("plan refused by the store", plan=event.plan, reason=event.reason)
                case Synced():
                    _log.info("in sync", source=event.source)
                case _:
                    pass
        for command in commands:
            if isinstance(command, Bind):
                self._metrics.bind_sent()

    def _plan(self, event: PlanProposed, commands: Sequence[Command]) -> None:
        plan = event.plan
        granted: dict[str, int] = {}
        for command in commands:
            if isinstance(command, RecordAllocations) and command.plan == plan.id:
                for grant in command.grants:
                    granted[grant.group] = granted.get(grant.group, 0) + len(grant.placements)
        self._metrics.plan(len(granted), sum(granted.values()))
        for decision in plan.decisions:
            name = self._name(decision.group)
            match decision:
                case Start() if decision.group in granted:
                    group = self._engine.state.groups.get(decision.group)
                    if group is not None and not decision.growth:
                        self._metrics.started(self._engine.state.now - group.first_seen)
                    self._said.pop(decision.group, None)
                    _log.info("start", group=name, plan=plan.id, pods=len(decision.placements))
                case Wait() | Reject() if self._said.get(decision.group) != decision.reason.text:
                    self._said[decision.group] = decision.reason.text
                    verb = "reject" if isinstance(decision, Reject) else "wait"
                    reason = decision.reason
                    _log.info(verb, group=name, plan=plan.id, why=reason.why, reason=reason.text)
                case _:
                    pass
        if self._engine.last_stale:
            _log.info("plan cut short", plan=plan.id, reason=self._engine.last_stale)

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
            self._metrics.groups({phase.value: n for phase, n in phases.items()})
            _log.info(
                "heartbeat",
                ready=state.ready,
                nodes=sum(at == 0 for at in state.inventory.gone_at),
                pods=len(state.pods),
                intents=len(state.intents),
                **{phase.value: n for phase, n in phases.items()},
            )
