"""Plays a workload through the real engine: the port of `fairlead simulate` and of the benchmarks.

`sim.world` plays faults and delays for tests; here everything that is asked for happens at once, so that a
job starts in the very instant in which it is decided, and nothing is done that costs time and shows nowhere.
The engine (reduce, cycle, verify, control) is the product's own; a policy function is called in this process
and without a time limit. At one instant all completions come first,
then all arrivals, then plans until nothing more starts. Deterministic: no clock, no chance.
"""

import gc
import heapq
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from fairlead.control import ACTING
from fairlead.core import steps
from fairlead.core.adopt import adopt
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.outlook import Outlook
from fairlead.core.snapshot import Snapshot
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import FUNCTION, Grant, Plan, Reject, Reserve, Start
from fairlead.model.pod import Pod, PodPhase
from fairlead.model.settings import Settings
from fairlead.runtime import policy_pipe
from fairlead.runtime.policy_pipe import PolicyFunction
from fairlead.sim.workload import Arrival, JobRow, Result, Sample, Workload

ORIGIN = 86_400_000
"""The engine's time at the input's 0, in milliseconds: to the engine 0 means never."""
_PATIENCE = 366 * 86_400_000
"""How long the clock is let run, in milliseconds, when all that is left is waking the engine."""
_CALLS = 256
"""Instants between two calls of `progress`."""


def play(
    workload: Workload,
    settings: Settings,
    *,
    progress: Callable[[int, int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    restart_at: Sequence[int] = (),
    function: PolicyFunction | None = None,
) -> Result:
    """What becomes of the workload under the settings; `function` makes the plans if there is one.

    `progress` is told (groups ended, all groups, simulated milliseconds) now and then; when `stop` says so,
    the result is what there is, marked incomplete. At each of `restart_at` (milliseconds of the input) the
    engine is thrown away and a new one is told what was durable. Raises AnswerError if the function fails.
    """
    before = gc.get_threshold()
    gc.set_threshold(20_000, 20, 50)  # as in the scheduler: cycles are rare, walking the heap should be too
    try:
        return Player(workload, settings, function).run(progress, stop, restart_at)
    finally:
        gc.set_threshold(*before)


class Player:
    """The cluster and the store as they are, a heap of what ends when, and the engine."""

    def __init__(
        self, workload: Workload, settings: Settings, function: PolicyFunction | None = None
    ) -> None:
        self.workload, self.settings, self._function = workload, settings, function
        self.now = ORIGIN
        self.epoch = 0
        self.cycles = 0
        self.pods: dict[str, Pod] = {}
        self.records: dict[str, GroupRecord] = {}
        self.grants: dict[str, Grant] = {}
        self.reservations: tuple[Reserve, ...] = ()
        self.samples: list[Sample] = []
        self.refused: list[str] = []
        self._index: dict[str, int] = {}
        """Pod -> number of its arrival."""
        jobs = len(workload.arrivals)
        self._group: list[str] = [""] * jobs
        self._start, self._end, self._bound = [-1] * jobs, [-1] * jobs, [0] * jobs
        self._nodes: list[dict[str, None]] = [{} for _ in range(jobs)]
        self._promised: dict[str, int] = {}
        self._overtook: dict[str, None] = {}
        self._ends: list[tuple[int, int]] = []
        self._wake = self._last = 0
        self._used = self._ended = 0

    def run(
        self,
        progress: Callable[[int, int, int], None] | None = None,
        stop: Callable[[], bool] | None = None,
        restart_at: Sequence[int] = (),
    ) -> Result:
        """Until nothing is left to happen or `stop` says so."""
        arrivals = self.workload.arrivals
        restarts = sorted(at + ORIGIN for at in restart_at)
        self._boot()
        submitted, instants, complete = 0, 0, True
        while True:
            upcoming = arrivals[submitted].at + ORIGIN if submitted < len(arrivals) else 0
            self.now = self._next(upcoming)
            if not self.now:
                break
            while restarts and restarts[0] <= self.now:
                restarts.pop(0)
                self._boot()
            events: list[ev.Event] = [ev.Tick(self.now)]
            while self._ends and self._ends[0][0] == self.now:
                events += self._finish(heapq.heappop(self._ends)[1], PodPhase.SUCCEEDED)
            while submitted < len(arrivals) and arrivals[submitted].at + ORIGIN == self.now:
                events += self._submit(submitted)
                submitted += 1
            self._settle(events)
            self._sample()
            instants += 1
            if instants % _CALLS == 0:
                if progress is not None:
                    progress(self._ended, len(arrivals), self.now - ORIGIN)
                if stop is not None and stop():
                    complete = False
                    break
        return self._result(submitted, complete)

    # -- what happens --------------------------------------------------------------------------------

    def _next(self, upcoming: int) -> int:
        """The next instant; 0 if nothing is left to happen."""
        found = [at for at in (upcoming, self._ends[0][0] if self._ends else 0) if at]
        if self._wake > self.now and (found or self.now < self._last + _PATIENCE):
            found.append(self._wake)
        if found != [self._wake]:
            self._last = self.now
        return min(found, default=0)

    def _boot(self) -> None:
        """A scheduler process starts: store, then lists, as ordinary events."""
        self.epoch += 1
        self.engine = Engine(self.settings, ACTING)
        self._outlook = Outlook(self.engine.state)
        self._wake = 0
        events: list[ev.Event] = [ev.Tick(self.now)]
        events += [ev.GroupRestored(r) for r in sorted(self.records.values(), key=lambda r: (r.seq, r.id))]
        events += [ev.GrantRestored(grant, self.now) for grant in self.grants.values()]
        events += [ev.ReservationRestored(reserve) for reserve in self.reservations]
        events += [ev.StoreReady(self.epoch), ev.Synced("store")]
        nodes = self.workload.nodes
        events += [ev.NodeSeen(node) for node in nodes]
        events += [ev.Listed("Node", tuple(node.uid for node in nodes), 1), ev.Synced("nodes")]
        owners = {
            a.owner.uid: a.owner for i, a in enumerate(self.workload.arrivals) if a.owner and self._group[i]
        }
        events += [ev.OwnerSeen(owner) for owner in owners.values()]
        events += [ev.Synced("owners")]
        events += [ev.PodSeen(pod) for pod in self.pods.values()]
        events += [ev.Listed("Pod", tuple(self.pods), 1), ev.Synced("pods")]
        self._settle(events)

    def _submit(self, number: int) -> Iterable[ev.Event]:
        arrival = self.workload.arrivals[number]
        if arrival.owner is not None:
            yield ev.OwnerSeen(arrival.owner)
        for pod in arrival.pods:
            self.pods[pod.uid] = pod
            self._index[pod.uid] = number
            yield ev.PodSeen(pod)

    def _finish(self, number: int, phase: PodPhase) -> Iterable[ev.Event]:
        """All members end, and their objects go."""
        if self._end[number] >= 0:
            return
        arrival = self.workload.arrivals[number]
        self._end[number] = self.now
        self._used -= arrival.procs
        self._ended += 1
        if arrival.owner is not None:
            ended = "completed" if phase is PodPhase.SUCCEEDED else "failed"
            yield ev.OwnerSeen(structs.replace(arrival.owner, version=arrival.owner.version + 1, ended=ended))
        for each in arrival.pods:
            pod = self.pods.pop(each.uid)
            yield ev.PodSeen(structs.replace(pod, version=pod.version + 1, phase=phase))
            yield ev.PodGone(pod.uid, pod.version + 2)
        if arrival.owner is not None:
            yield ev.OwnerGone(arrival.owner.uid, arrival.owner.version + 2)

    def _bind(self, bind: cmd.Bind) -> ev.Event:
        number = self._index[bind.pod]
        pod = self.pods[bind.pod]
        pod = structs.replace(
            pod, version=pod.version + 1, node=bind.node, phase=PodPhase.RUNNING, started=True
        )
        self.pods[bind.pod] = pod
        self._bound[number] += 1
        self._nodes[number][bind.node] = None
        arrival = self.workload.arrivals[number]
        if self._bound[number] == len(arrival.pods):
            self._start[number] = self.now
            self._used += arrival.procs
            if arrival.run:
                heapq.heappush(self._ends, (self.now + arrival.run, number))
        return ev.PodSeen(pod)

    # -- what is asked for ---------------------------------------------------------------------------

    def _settle(self, events: Sequence[ev.Event]) -> None:
        """Let the engine learn, do what it asks for, and tell it, until it asks for nothing more."""
        while events:
            commands = self.engine.learn(events)
            events = []
            for command in commands:
                events += self._perform(command)

    def _perform(self, command: cmd.Command) -> Iterable[ev.Event]:
        match command:
            case cmd.Propose():
                self.cycles += 1
                plan = self._plan(command.snapshot)
                self._note(plan)
                return (ev.PlanProposed(plan),)
            case cmd.Bind():
                return (self._bind(command),)
            case cmd.SaveGroups():
                self._save(command.groups)
            case cmd.RecordAllocations():
                self._save(command.groups)
                self.reservations = command.reservations
                for grant in command.grants:
                    self.grants[grant.id] = grant
                return (ev.AllocationsRecorded(command.plan),) if command.grants else ()
            case cmd.SettleGrants():
                for grant in command.grants:
                    self.grants.pop(grant, None)
            case cmd.WakeAt():
                self._wake = command.at
            case cmd.End():
                ended = [i for i, gid in enumerate(self._group) if gid == command.group]
                return [event for number in ended for event in self._finish(number, PodPhase.FAILED)]
            case _:
                pass
        return ()

    def _plan(self, snapshot: Snapshot) -> Plan:
        if self._function is None or snapshot.settings.function is None:
            return plan_now(snapshot)
        look = self._outlook.look(snapshot)
        answer = policy_pipe.read(policy_pipe.call(self._function, look.view))
        adopted = steps.now(adopt(look, answer, snapshot.settings.function.name))
        self.refused += [f"{each.id}: {each.text}" for each in adopted.refusals]
        return adopted.plan

    def _save(self, records: Sequence[GroupRecord]) -> None:
        for record in records:
            self.records[record.id] = record

    def _note(self, plan: Plan) -> None:
        """First promises, and who starts while one that stands ahead of it goes on waiting."""
        waiting = self.engine.state.waiting
        heads = [waiting[gid][0] for _, gid in plan.heads if gid in waiting]
        if plan.source.startswith(
            FUNCTION
        ):  # it names no heads: whoever is first and stays behind is overtaken
            started = {each.group: None for each in plan.decisions if isinstance(each, Start)}
            first = next((r for _, _, r in self.engine.state.line if r.group not in started), None)
            heads = [first] if first is not None else []
        for decision in plan.decisions:
            gid = decision.group
            if isinstance(decision, Reserve):
                if decision.start:
                    self._promised.setdefault(gid, decision.start)
            elif isinstance(decision, Start) and not decision.growth:
                order = waiting[gid][0].order
                if any(head.order < order for head in heads):
                    self._overtook[gid] = None
                for place in decision.placements:
                    self._group[self._index[place.pod]] = gid
            elif isinstance(decision, Reject):
                for task in waiting[gid][0].tasks if gid in waiting else ():
                    self._group[self._index[task.uids[0]]] = gid

    # -- what came of it -----------------------------------------------------------------------------

    def _sample(self) -> None:
        sample = Sample(self.now - ORIGIN, self._used, len(self.engine.state.waiting))
        if not self.samples or self.samples[-1][1:] != sample[1:]:
            self.samples.append(sample)

    def _result(self, submitted: int, complete: bool) -> Result:
        rows = [self._row(i, arrival) for i, arrival in enumerate(self.workload.arrivals[:submitted])]
        queue = self.settings.queues[0]
        policy = f"hybrid:{queue.depth}" if queue.policy == "hybrid" else queue.policy
        return Result(
            workload=self.workload.name,
            policy=policy,
            capacity=self.workload.capacity,
            rows=tuple(rows),
            samples=tuple(self.samples),
            cycles=self.cycles,
            complete=complete,
            refused=tuple(self.refused),
        )

    def _row(self, number: int, arrival: Arrival) -> JobRow:
        gid = self._group[number] or self.engine.state.group_of.get(arrival.pods[0].uid, "")
        live = self.engine.state.groups.get(gid)
        record = live.record() if live is not None else self.records.get(gid)
        start, end = self._start[number], self._end[number]
        promised = self._promised.get(gid, -1)
        return JobRow(
            job_id=arrival.name,
            submit=arrival.at,
            start=start - ORIGIN if start >= 0 else -1,
            end=end - ORIGIN if end >= 0 else -1,
            run=arrival.run,
            procs=arrival.procs,
            estimate=arrival.estimate,
            promised=promised - ORIGIN if promised >= 0 else -1,
            backfilled=gid in self._overtook,
            outcome=_outcome(record, start, end),
            reason="" if record is None else record.reason.text,
            nodes=tuple(self._nodes[number]),
        )


def _outcome(record: GroupRecord | None, start: int, end: int) -> str:
    if record is not None and record.phase is Phase.ENDED:
        return str(record.outcome)
    if end >= 0:
        return "completed"
    return "running" if start >= 0 else "waiting"
