"""Yards: simulated clusters in which nothing takes time, for property tests of the queue policies.

A Yard is a World whose binds and writes are done at once, so that every start and every promise is exact to
the millisecond; `settle` lets everything that is due at this instant happen. What is drawn for a property is
a list of `Act`. Each plan can be looked at, with what it laid and the state it rests on, by `judge`.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from hypothesis import strategies as st
from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.backfill import Ahead, Horizon, Offer
from fairlead.core.cycle import Cycle
from fairlead.core.engine import Engine
from fairlead.core.live import Group
from fairlead.core.snapshot import Request, Snapshot
from fairlead.core.state import IDLE
from fairlead.core.steps import now
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.node import Node
from fairlead.model.plan import Plan
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import QueueSettings, Settings
from fairlead.sim.world import World

SECOND = 1_000
ONE, SLOTS, MIXED = "one node", "slots", "mixed"
MACHINES = (ONE, SLOTS, MIXED)
_ZONES = ("", "", "a", "b")
_LIMITS = (1, 2, 3, 5, 8, 13)
PAUSES = (0, 0, 0, 1, 1, 2, 5, 13)
Write = cmd.RecordAllocations | cmd.SaveGroups | cmd.SettleGrants


class Act(NamedTuple):
    """One thing that happens, then a pause. The numbers are taken modulo whatever there is."""

    verb: str
    a: int
    b: int
    c: int
    d: int
    pause: int


QUIET = ("submit",) * 5 + ("finish", "cancel", "tick")
"""Nothing that breaks a promise: no overrun, no lost node."""
CALM = (*QUIET, "crash")
ENDLESS = (*QUIET, "endless", "urgent")
ROUGH = (*QUIET, "submit", "urgent", "endless", "overrun", "cordon", "lose", "crash", "kill")


def acts(verbs: Sequence[str], most: int = 25) -> st.SearchStrategy[list[Act]]:
    """Things to happen in a yard."""
    number = st.integers(0, 27)
    one = st.builds(Act, st.sampled_from(verbs), number, number, number, number, number)
    return st.lists(one, min_size=4, max_size=most)


class Watched(Cycle):
    """A cycle of which is known where it laid each promise, on machines where nodes matter."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot, "fairlead")
        self.offers: dict[str, tuple[Request, Offer]] = {}

    @cached_property
    def horizon(self) -> Horizon:
        found = Cycle.horizon.func(self)
        if isinstance(found, Ahead):
            take, lift = found.take, found.lift

            def noted_take(request: Request, offer: Offer) -> None:
                self.offers[request.group] = (request, offer)
                take(request, offer)

            def noted_lift(request: Request, offer: Offer) -> None:
                del self.offers[request.group]
                lift(request, offer)

            found.take, found.lift = noted_take, noted_lift
        return found


class Judged(NamedTuple):
    """A plan as it was made: by whom, from what, and what it decided."""

    yard: "Yard"
    snapshot: Snapshot
    plan: Plan
    laid: dict[str, tuple[Request, Offer]]


class Yard(World):
    """A World without delays, and the queues of some policies."""

    def __init__(
        self,
        machine: str,
        *queues: QueueSettings,
        engine: type[Engine] = Engine,
        cycle: type[Watched] = Watched,
        judge: Callable[[Judged], None] | None = None,
    ) -> None:
        self.machine, self.judge = machine, judge
        self.planned: dict[str, int] = {}
        """What is promised to whom by the plan made last and those before it, if they are judged."""
        self.durable: list[cmd.RecordAllocations] = []
        """What was written of starts and promises, in order; what a killed process had in mind is not."""
        self._engine, self._cycle = engine, cycle
        self.count = 0
        self.lost: dict[str, Node] = {}
        super().__init__(Settings(queues=queues, pace=0), planner=self._planned)
        for node in machine_nodes(machine):
            self.node(node)
        self.settle()

    def start(self) -> None:
        super().start()
        self.engine = self._engine(self.settings, RECONCILERS)

    def at(self, delay: int, action: Callable[[], None]) -> None:
        """What takes the world's few milliseconds takes none here."""
        super().at(delay if delay >= SECOND else 0, action)

    def settle(self) -> None:
        """Let everything happen that is due at this instant."""
        self.run(0)
        while self._heap and self._heap[0][0] <= self.now:
            self.run(0)
        assert self.engine.state.planning == IDLE

    def _write(self, command: Write, epoch: int) -> None:
        super()._write(command, epoch)
        if epoch == self.epoch and isinstance(command, cmd.RecordAllocations):
            self.durable.append(command)

    def _planned(self, snapshot: Snapshot) -> ev.PlanProposed:
        cycle = self._cycle(snapshot)
        plan = now(cycle.run())
        if self.judge is not None:
            self.judge(Judged(self, snapshot, plan, cycle.offers))
        return ev.PlanProposed(plan)

    # -- what happens ----------------------------------------------------------------------------------

    def do(self, act: Act) -> None:
        """Carry it out, and let time pass."""
        getattr(self, f"_{act.verb}")(act)
        self.settle()
        self.pause(PAUSES[act.pause % len(PAUSES)])

    def pause(self, seconds: int) -> None:
        if seconds:
            self.run(seconds * SECOND)
            self.settle()

    def submit(
        self,
        members: int,
        limit: int,
        runs: int,
        *,
        priority: int = 0,
        queue: str = "default",
        zone: str = "",
        **amounts: int,
    ) -> str:
        """A group of so many equal members; its walltime and what it truly takes are in seconds."""
        self.count += 1
        name = f"g{self.count}"
        selector = (Expression("zone", Operator.IN, (zone,)),) if zone else ()
        shape = Shape((*sorted((k, n) for k, n in amounts.items() if n), ("pods", 1)), selector)
        for i in range(members):
            pod = Pod(
                f"{name}-{i}", "d", f"{name}-{i}", 0, shape, scheduler="fairlead", priority=priority,
                labels={"fairlead.dev/group": name, "fairlead.dev/group-size": str(members)},
                annotations={"fairlead.dev/queue": queue}, walltime=limit * SECOND,
            )  # fmt: skip
            self.pod(pod, run_time=runs * SECOND)
        return name

    def cancel(self, name: str) -> None:
        for uid in [uid for uid in self.pods if uid.startswith(f"{name}-")]:
            self.pod_gone(uid)

    def group(self, name: str) -> Group:
        """The live group of this name."""
        return next(g for g in self.engine.state.groups.values() if g.name == name)

    def _submit(self, act: Act, priority: int = 0, late: int = 0, endless: bool = False) -> None:
        limit = 0 if endless else _LIMITS[act.d % len(_LIMITS)]
        runs = max(limit - act.c % 3 if act.c % 2 else limit, 1) + late
        members, cpu, gpu, zone = 1 + act.a % 4, 1, 0, ""
        if self.machine != SLOTS:
            members, cpu, gpu = 1 + act.a % 3, 1 + act.b % 4, act.b % 3 if act.b > 13 else 0
        if self.machine == MIXED:
            zone = _ZONES[act.c % len(_ZONES)]
        queues = self.settings.queues
        self.submit(
            members, limit, runs if limit else 4 + late, priority=priority,
            queue=queues[(act.a + act.c) % len(queues)].name, zone=zone, cpu=cpu, gpu=gpu,
        )  # fmt: skip

    def _urgent(self, act: Act) -> None:
        self._submit(act, priority=1 + act.b % 2)

    def _endless(self, act: Act) -> None:
        """A group that gives no walltime."""
        self._submit(act, endless=True)

    def _overrun(self, act: Act) -> None:
        self._submit(act, late=3 + act.a)

    def _finish(self, act: Act) -> None:
        """A group that runs ends before its time."""
        names = [g.name for g in self.engine.state.groups.values() if g.id in self.engine.state.started]
        if names:
            name = names[act.a % len(names)]
            for uid in [uid for uid in self.pods if uid.startswith(f"{name}-")]:
                self.change(uid, phase=PodPhase.SUCCEEDED)

    def _cancel(self, act: Act) -> None:
        names = [self.engine.state.groups[gid].name for gid in self.engine.state.waiting]
        if names:
            self.cancel(names[act.a % len(names)])

    def _tick(self, _: Act) -> None:
        self.tell()

    def _cordon(self, act: Act) -> None:
        names = list(self.nodes)
        if names:
            node = self.nodes[names[act.a % len(names)]]
            self.node(structs.replace(node, unschedulable=not node.unschedulable))

    def _lose(self, act: Act) -> None:
        """A node goes with all that runs on it; the next time it comes back."""
        if self.lost:
            self.node(self.lost.popitem()[1])
        elif self.nodes:
            name = list(self.nodes)[act.a % len(self.nodes)]
            self.lost[name] = self.nodes[name]
            self.node_gone(name)
            for uid in [pod.uid for pod in self.pods.values() if pod.node == name]:
                self.pod_gone(uid)

    def _crash(self, _: Act) -> None:
        """The process is killed at rest, and started again."""
        self.crash()
        self.start()

    def _kill(self, act: Act) -> None:
        """The same in the middle of its work: a group has come, and few steps of what follows are done."""
        self._submit(act)
        self.tell()
        self._deliver()
        for _ in range(act.b % 6):
            if self._heap and self._heap[0][0] <= self.now:
                heapq.heappop(self._heap)[2]()
                self._deliver()
        self._crash(act)

    def sweep(self) -> None:
        """Delete the pods that have ended, as whoever made them does some time."""
        for uid in [pod.uid for pod in self.pods.values() if pod.ended]:
            self.pod_gone(uid)

    def forget(self) -> None:
        """Drop what the world keeps for tests that look back."""
        self.log.clear()
        self.batches.clear()
        self.durable.clear()

    # -- what came of it -------------------------------------------------------------------------------

    def promised(self) -> dict[str, int]:
        """Group -> the start it is promised, where there is a date."""
        return {gid: r.start for gid, r in self.engine.state.promises.items() if r.start}


def machine_nodes(machine: str) -> list[Node]:
    """The nodes of each kind of machine."""
    if machine == ONE:
        sizes = [("a", 8, 3)]
    elif machine == SLOTS:
        sizes = [("a", 1, 0)] * 5
    else:
        sizes = [("a", 5, 2), ("a", 4, 0), ("b", 3, 2)]
    return [
        Node(f"u{i}", f"n{i}", 0, (("cpu", cpu), ("gpu", gpu), ("pods", 110)), labels={"zone": zone})
        for i, (zone, cpu, gpu) in enumerate(sizes)
    ]


def queues(*policies: str) -> tuple[QueueSettings, ...]:
    """A queue for each, the first is `default`: "easy", or "hybrid:2" for two reservations."""
    found: list[QueueSettings] = []
    for i, text in enumerate(policies):
        policy, _, depth = text.partition(":")
        name = f"q{i}" if i else "default"
        found.append(QueueSettings(name=name, policy=policy, depth=int(depth or 64)))
    return tuple(found)
