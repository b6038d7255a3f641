"""The policy function of the configuration: asked beside the built-in policies, or in their place.

Held by `runtime.planner`, told by the composition root of SIGHUP. `shadow`: the function is asked after the
plan has gone on its way, if it is not busy still, and its answer is compared. `live`: its answer is the plan;
where there is none in time the built-in policies make it. One that fails again and again is switched off
until the configuration is read anew. Must not delay anything but a live plan, and that by its limit at most.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fairlead.core.adopt import Adopted, adopt
from fairlead.core.outlook import Look, Outlook
from fairlead.core.snapshot import Snapshot
from fairlead.core.state import State
from fairlead.model.plan import Plan, Start
from fairlead.model.record import Change, Source
from fairlead.model.settings import PolicyFunction, Settings
from fairlead.runtime.policy_process import PolicyError, PolicyProcess
from fairlead.runtime.slices import sliced

MOST_FAILURES = 5
"""In a row; then it is switched off."""
SWITCHED_OFF = "PolicyFunctionSwitchedOff"
"""The reason of the Event."""
_TOLD = 3
"""Refusals of one plan that the log names."""
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_log = structlog.get_logger("policies")


class Asked(NamedTuple):
    """A cycle in which the function is asked."""

    look: Look
    live: bool


class Compared(NamedTuple):
    """Starts of the built-in policies' plan beside those of the function's: how many groups each."""

    same: int
    other_nodes: int
    only_builtin: int
    only_function: int


def compared(builtin: Plan, own: Plan) -> Compared:
    """Group by group; pods of a group are interchangeable."""
    a, b = _starts(builtin), _starts(own)
    same = sum(nodes == b.get(key) for key, nodes in a.items())
    both = sum(key in b for key in a)
    return Compared(same, both - same, len(a) - both, len(b) - both)


def _starts(plan: Plan) -> dict[tuple[str, str], list[str]]:
    return {
        (each.group, min(place.pod for place in each.placements)): sorted(
            place.node for place in each.placements
        )
        for each in plan.decisions
        if isinstance(each, Start) and each.placements
    }


class Policies:
    """What the planner asks. `rows`: where the comparison goes as a row of the ledger; None: into the log.
    `announce`: who says in the cluster, by reason and note, that the function is switched off."""

    def __init__(self, state: State, registry: CollectorRegistry) -> None:
        self.rows: Callable[[Change], object] | None = None
        self.announce: Callable[[str, str], object] = lambda _reason, _note: None
        self._state, self._outlook = state, Outlook(state)
        self._function: PolicyFunction | None = None
        self._process: PolicyProcess | None = None
        self._processes: dict[PolicyProcess, None] = {}
        """Also those that are being ended."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._asking: asyncio.Task[None] | None = None
        self.ready = False
        """Whether the function is imported and may be asked."""
        self._failures = 0
        self._off = ""
        self._calls = Counter(
            "fairlead_policy_function_calls",
            "Cycles in which a policy function was to be asked, by what came of it: answered, failed, late, "
            "crashed, busy (shadow: with the cycle before), loading, off.",
            ["mode", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "fairlead_policy_function_duration_seconds",
            "From the question to its answer.",
            ["mode"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._refused = Counter(
            "fairlead_policy_function_refusals", "Decisions of it that cannot be done.", registry=registry
        )
        self._starts = Counter(
            "fairlead_policy_function_starts",
            "In shadow, starts of the function's plan beside those of the built-in one: same, other_nodes, "
            "only_builtin, only_function.",
            ["as_builtin"],
            registry=registry,
        )
        on = Gauge(
            "fairlead_policy_function_on", "1 while it may be asked, 0 if switched off.", registry=registry
        )
        on.set_function(lambda: float(self._function is not None and not self._off))

    # -- called by the planner, at once --------------------------------------------------------------

    def begin(self) -> None:
        """Let the function be imported before the first cycle."""
        self._turn_to(self._state.settings.function)

    def again(self, settings: Settings) -> None:
        """The configuration was read anew: so is the function, which may have changed with its own file."""
        self._turn_to(settings.function)

    def remark(self) -> str:
        """What people are to know of it beside every answer; "" if nothing."""
        return self._off

    def look(self, snapshot: Snapshot) -> Asked | None:
        """Take the picture, if there is somebody to show it to. Only right after the snapshot was taken."""
        function = snapshot.settings.function
        if function != self._function:
            self._turn_to(function)
        if function is None:
            return None
        idle = "off" if self._off else "" if self.ready else "loading"
        if not idle and self._asking is not None:
            idle = "busy"
        if idle:
            self._calls.labels(function.mode, idle).inc()
            return None
        try:
            return Asked(self._outlook.look(snapshot), function.mode == "live")
        except Exception:  # a mistake of ours must not stop the planner
            _log.exception("no picture for the policy function", function=function.name)
            self._calls.labels(function.mode, "failed").inc()
            return None

    # -- asking --------------------------------------------------------------------------------------

    async def plan(self, asked: Asked) -> tuple[Plan | None, float]:
        """The function's plan, None if the built-in policies have to make it; and the seconds it took."""
        begun = asyncio.get_running_loop().time()
        adopted = await self._ask(asked)
        took = asyncio.get_running_loop().time() - begun
        if adopted is None:
            return None, took
        self._tell_refusals(adopted)
        return adopted.plan, took

    def compare(self, asked: Asked, builtin: Plan) -> None:
        """Ask the function about a plan that has gone on its way already."""
        self._asking = self._spawn(self._shadow(asked, builtin))

    async def _shadow(self, asked: Asked, builtin: Plan) -> None:
        try:
            adopted = await self._ask(asked)
            if adopted is not None:
                self._tell_refusals(adopted)
                self._record(builtin, adopted)
        finally:
            if self._asking is asyncio.current_task():
                self._asking = None

    async def _ask(self, asked: Asked) -> Adopted | None:
        function, process = self._function, self._process
        if function is None or process is None or not self.ready:
            return None
        begun = asyncio.get_running_loop().time()
        try:
            answer = await process.ask(asked.look.view)
            took = asyncio.get_running_loop().time() - begun
            adopted = await sliced(adopt(asked.look, answer, function.name))
        except PolicyError as error:
            if process is self._process:  # else it was ended because another one is wanted
                self._failed(function, process, error)
            return None
        except Exception as error:  # a mistake of ours
            _log.exception("an answer of the policy function cannot be taken in", function=function.name)
            self._failed(function, process, PolicyError("failed", f"its answer cannot be taken in: {error}"))
            return None
        self._failures = 0
        self._calls.labels(function.mode, "answered").inc()
        self._seconds.labels(function.mode).observe(took)
        return adopted

    def _failed(self, function: PolicyFunction, process: PolicyProcess, error: PolicyError) -> None:
        """Counted and told; its process begins anew unless it only raised."""
        self._calls.labels(function.mode, error.kind).inc()
        self._failures += 1
        _log.warning(
            "the policy function gave no plan", function=function.name, result=error.kind, error=str(error)
        )
        if self._failures >= MOST_FAILURES:
            self._switch_off(function, f"it failed {self._failures} times in a row, at last: {error}")
        elif error.kind != "failed":
            self._start(function, process)

    def _switch_off(self, function: PolicyFunction, why: str) -> None:
        self._off = (
            f"policy function {function.name} is switched off until the configuration is read anew: {why}"
        )
        _log.error("the policy function is switched off", function=function.name, why=why, hint="kill -HUP")
        self.announce(SWITCHED_OFF, self._off)
        self._retire()

    # -- the process ---------------------------------------------------------------------------------

    def _turn_to(self, function: PolicyFunction | None) -> None:
        """From now on ask this one; none of what was known of another one holds."""
        self._function, self._failures, self._off = function, 0, ""
        if function is None:
            self._retire()
        else:
            self._start(function, self._process)

    def _retire(self) -> None:
        old, self._process, self.ready = self._process, None, False
        if old is not None:
            self._spawn(self._end(old))

    def _start(self, function: PolicyFunction, old: PolicyProcess | None) -> None:
        """A process for it, in the place of another one."""
        self._process, self.ready = PolicyProcess(function), False
        self._processes[self._process] = None
        self._spawn(self._started(function, self._process, old))

    async def _started(
        self, function: PolicyFunction, process: PolicyProcess, old: PolicyProcess | None
    ) -> None:
        try:
            if old is not None:
                await self._end(old)
            await process.start()
        except PolicyError as error:
            await self._end(process)
            if process is self._process:
                self._switch_off(function, str(error))
            return
        if process is not self._process:  # another one is wanted by now
            await self._end(process)
            return
        self.ready = True
        _log.info("policy function ready", function=function.name, mode=function.mode, pid=process.pid)

    async def _end(self, process: PolicyProcess) -> None:
        await process.stop()
        self._processes.pop(process, None)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name="policy function")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return task

    async def idle(self) -> None:
        """Until the function is not being asked beside a plan."""
        if self._asking is not None:
            await asyncio.wait((self._asking,))

    async def close(self) -> None:
        """End what runs, and leave no process behind."""
        self._process, self.ready = None, False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in list(self._processes):
            await self._end(process)

    # -- telling -------------------------------------------------------------------------------------

    def _tell_refusals(self, adopted: Adopted) -> None:
        if adopted.refusals:
            self._refused.inc(len(adopted.refusals))
            first = [f"{each.id}: {each.text}" for each in adopted.refusals[:_TOLD]]
            _log.warning(
                "decisions refused", plan=adopted.plan.id, refused=len(adopted.refusals), first=first
            )

    def _record(self, builtin: Plan, adopted: Adopted) -> None:
        """One row per cycle in which either of both starts anything."""
        found = compared(builtin, adopted.plan)
        for name, count in found._asdict().items():
            self._starts.labels(name).inc(count)
        if not any(found):
            return
        said = {**found._asdict(), "refused": len(adopted.refusals), "source": adopted.plan.source}
        if self.rows is None:
            _log.info("shadow plan", plan=builtin.id, **said)
            return
        starts = {group: nodes for (group, _), nodes in _starts(adopted.plan).items()}
        extra = {**said, "starts": starts}
        self.rows(
            Change(
                "Plan",
                "Shadowed",
                at=builtin.at,
                seen=self._state.now,
                source=Source.FAIRLEAD,
                scheduler=self._state.settings.scheduler,
                name=builtin.id,
                extra=extra,
            )
        )
