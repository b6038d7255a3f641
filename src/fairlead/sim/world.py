"""A simulated Kubernetes and store around a real engine: the product runs, only the ports differ.

Used by scenarios, property tests and the fault simulation. `perform` pushes outcomes to the heap of a
`sim.cluster.Cluster`: a Bind becomes a pod seen on its node, running after a start delay and ended after its
run time. `crash` throws the engine away and `start` makes a new one from what was durable; a fuse lets the
process be killed between any two commands. Deterministic: time is the heap's, and nothing goes wrong but what
a Faults object says.
"""

import heapq
from collections.abc import Callable, Sequence

from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.core.snapshot import Snapshot
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import Grant, Reserve
from fairlead.model.pod import PodPhase
from fairlead.model.settings import Settings
from fairlead.sim.cluster import Cluster
from fairlead.sim.faults import Faults

BIND_DELAY = 1
START_DELAY = 1
STORE_DELAY = 2


def _plan(snapshot: Snapshot) -> ev.PlanProposed:
    return ev.PlanProposed(plan_now(snapshot))


Writes = cmd.RecordAllocations | cmd.SaveGroups | cmd.SettleGrants
DEAD = -1
UNBURNT = -1


class World(Cluster):
    """The cluster as it truly is, a durable store, a clock, and the engine that watches."""

    def __init__(
        self,
        settings: Settings | None = None,
        faults: Faults | None = None,
        planner: Callable[[Snapshot], ev.PlanProposed] | None = None,
    ) -> None:
        super().__init__(faults or Faults())
        self.settings = settings or Settings(pace=0)
        self.planner = planner or _plan
        self.epoch = 0
        self.skew = 0
        """By how much the scheduler's clock is ahead of the cluster's."""
        self._jumped = 0
        self.groups: dict[str, GroupRecord] = {}
        self.grants: dict[str, Grant] = {}
        self.reservations: tuple[Reserve, ...] = ()
        self.log: list[tuple[int, cmd.Command]] = []
        """Every command but Propose and WakeAt, with its time."""
        self.batches: list[tuple[ev.Event, ...]] = []
        self.check_always = True
        self.fuse = UNBURNT
        """After so many more commands the process is killed."""
        self._pending: list[ev.Event] = []
        self._frozen_until = 0
        self._woken: dict[int, int] = {}
        """Process that was paused while it led -> when it goes on."""
        self._store_down = False
        self._store_busy = 0
        self._unwritten: list[Writes] = []
        self._unanswered: list[str] = []
        """Plans that are durable, of which the answer was lost."""
        self.start()

    # -- the scheduler process -----------------------------------------------------------------------

    def start(self) -> None:
        """A scheduler process starts: store, then lists, as ordinary events, in any order."""
        self.epoch += 1
        self.skew, self._jumped = self.skew + self._jumped, 0
        self.engine = Engine(self.settings, RECONCILERS)
        self.batches = []
        self._life = self.epoch
        self.fuse, self._frozen_until = UNBURNT, 0
        self._unwritten, self._unanswered = [], []
        delay = self.faults.source_delay("store")
        if delay:
            self.at(delay, lambda life=self.epoch: self._tell_restored(life))
        else:
            self._tell_restored(self.epoch)
        self._deaf.clear()
        for source in self.sources:
            self._heard[source] += 1
            delay = self.faults.source_delay(source)
            if delay:
                self.gap(source, delay)
            else:
                self.tell(*self.listing(source))

    def _tell_restored(self, life: int) -> None:
        if life == self._life and not self._store_down:
            self.tell(*self._restored())

    def _restored(self) -> list[ev.Event]:
        """What the store tells a process at its start."""
        not_before = self.now + self.skew + self.settings.request_timeout
        records = sorted(self.groups.values(), key=lambda r: (r.seq, r.id))
        grants = sorted(self.grants.values(), key=lambda g: (g.at, g.id))
        waiting = {r.id for r in records if r.phase in (Phase.HELD, Phase.QUEUED)}
        promises = sorted(
            (r for r in self.reservations if r.group in waiting), key=lambda r: (r.start, r.group)
        )
        return [
            *(ev.GroupRestored(record) for record in records),
            *(ev.GrantRestored(grant, not_before) for grant in grants),
            *(ev.ReservationRestored(reserve) for reserve in promises),
            ev.StoreReady(self.epoch),
            ev.Synced("store"),
        ]

    @property
    def alive(self) -> bool:
        return self._life == self.epoch

    def crash(self) -> None:
        """The process is killed: what it had not done is not done, what it had sent may still arrive."""
        self._pending, self._unwritten, self._unanswered = [], [], []
        self._life = DEAD

    def freeze(self, duration: int) -> None:
        """The process does not run for so long; what happens meanwhile it hears at once afterwards."""
        self._frozen_until = self.now + duration
        self.at(duration, self.tell)

    def jump(self, by: int) -> None:
        """The scheduler's wall clock is set by so much; it is told with what it hears next."""
        self._jumped += by
        self.tell()

    def take_over(self, late: int) -> None:
        """The process is paused, another one takes the lead; the old one's requests arrive so much later."""
        self._woken[self.epoch] = self.now + late
        self.crash()
        self.start()

    # -- time ----------------------------------------------------------------------------------------

    def run(self, duration: int = 10_000) -> None:
        """Let time pass until nothing is left to happen, at most `duration` milliseconds."""
        end = self.now + duration
        self._deliver()
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action = heapq.heappop(self._heap)
            action()
            if not self._heap or self._heap[0][0] > self.now:  # what happens at once is heard at once
                self._deliver()
        self.now = end
        self.tell()
        self._deliver()

    def tell(self, *events: ev.Event) -> None:
        """Put events into the engine's inbox (a dead process hears nothing)."""
        self._pending += events or (ev.Tick(self.now + self.skew),)

    def _deliver(self) -> None:
        while self._pending and self.now >= self._frozen_until:
            batch = (ev.Tick(self.now + self.skew), *self._pending)
            self._pending = []
            if not self.alive:
                return
            if self._jumped:
                batch = (*batch, ev.ClockJumped(self._jumped))
                self.skew, self._jumped = self.skew + self._jumped, 0
            self.batches.append(batch)
            self.perform(self.engine.learn(batch))
            if self.check_always:
                self.look()

    def look(self) -> None:
        """After every batch: nothing that is always true may be broken."""
        wrong = check(self.engine.state)
        assert not wrong, wrong

    # -- performing ----------------------------------------------------------------------------------

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        """Carry out what a batch led to, in order; a process that is killed meanwhile does no more."""
        for command in commands:
            if self.fuse == 0:
                self.crash()
                return
            self.fuse -= self.fuse > 0
            if not isinstance(command, cmd.Propose | cmd.WakeAt):
                self.log.append((self.now, command))
            self._perform(command)

    def _perform(self, command: cmd.Command) -> None:
        life = self.epoch
        match command:
            case cmd.Propose():
                self._later(self.faults.plan_delay(), self.planner(command.snapshot))
            case cmd.Submit():
                self._later(0, ev.PlanProposed(command.plan))
            case cmd.RecordAllocations() | cmd.SaveGroups() | cmd.SettleGrants():
                self._store_busy = max(self._store_busy, self.now + STORE_DELAY) + self.faults.store_delay()
                self.at(self._store_busy - self.now, lambda: self._write(command, life))
            case cmd.Bind() | cmd.Evict() | cmd.Revoke() | cmd.End():
                self.at(BIND_DELAY, lambda: self._request(command, life))
            case cmd.WakeAt():
                self.at(max(command.at - self.now - self.skew, 0), self.tell)
            case _:
                pass

    def _request(self, command: cmd.Bind | cmd.Evict | cmd.Revoke | cmd.End, life: int) -> None:
        """A request reaches the API server; that of a process that is paused, once it goes on."""
        late = self._woken.get(life, 0) - self.now
        if late > 0:
            self.at(late, lambda: self._request(command, life))
            return
        match command:
            case cmd.Bind():
                self._bind(command)
            case cmd.Evict():
                self._evict(command)
            case cmd.Revoke():
                self._revoke(command)
            case cmd.End():
                self._end(command)

    def _later(self, delay: int, event: ev.Event) -> None:
        """An answer to this very process; a later one does not hear it."""
        life = self.epoch
        self.at(delay, lambda: self.tell(event) if life == self.epoch == self._life else None)

    # -- the store -----------------------------------------------------------------------------------

    def _write(self, command: Writes, epoch: int) -> None:
        """The store takes commands in order, fenced by epoch; while it is down they wait in the process."""
        if epoch != self.epoch:
            return
        if self._store_down:
            self._keep(command)
            return
        match command:
            case cmd.SaveGroups():
                self.groups.update({r.id: r for r in command.groups})
            case cmd.SettleGrants():
                for grant in command.grants:
                    self.grants.pop(grant, None)
            case cmd.RecordAllocations():
                self._commit(command)

    def _commit(self, command: cmd.RecordAllocations) -> None:
        """One transaction; where the connection breaks in the middle of it, the process asks afterwards."""
        outage = self.faults.outage(command)
        if outage is not None and outage.refused:
            self._later(0, ev.AllocationsRefused(command.plan, "the store does not take it"))
            return
        if outage is None or outage.durable:
            self.groups.update({r.id: r for r in command.groups})
            self.grants.update({g.id: g for g in command.grants})
            self.reservations = command.reservations
        if outage is None:
            self._later(0, ev.AllocationsRecorded(command.plan))
            return
        if outage.durable:
            self._unanswered.append(command.plan)
        else:
            self._keep(command)
        self.store_down()
        self.at(outage.length, self.store_up)

    def _keep(self, command: Writes) -> None:
        if self.alive:
            self._unwritten.append(command)

    def store_down(self) -> None:
        """The store stops answering; the engine hears of it."""
        self._store_down = True
        self.tell(ev.StoreLost("the store does not answer"))

    def store_up(self) -> None:
        """The store is back: what piled up is written; a process that waited for it gets what it holds."""
        self._store_down = False
        self.tell(*(ev.AllocationsRecorded(plan) for plan in self._unanswered))
        waiting, self._unwritten, self._unanswered = self._unwritten, [], []
        for command in waiting:
            self._write(command, self.epoch)
        if self._store_down:  # again, in the midst of it
            return
        if "store" in self.engine.state.missing:
            self.tell(*self._restored())
        else:
            self.tell(ev.StoreReady(self.epoch))

    # -- the API server ------------------------------------------------------------------------------

    def _bind(self, bind: cmd.Bind) -> None:
        """A request arrives, fails, or is lost on the way, perhaps to take effect later."""
        error = self.faults.bind(bind)
        if error is ev.BindError.UNKNOWN and self.faults.unknown_took_effect(bind):
            self.at(self.faults.unknown_delay(bind), lambda: (self._bind_here(bind), None)[1])
        if error is None:
            error = self._bind_here(bind)
        late = self.faults.answer_delay(bind)
        if error is None:
            self._later(late, ev.Bound(bind.pod, bind.grant, bind.node))
        else:
            self._later(late, ev.BindFailed(bind.pod, bind.grant, error))

    def _bind_here(self, bind: cmd.Bind) -> ev.BindError | None:
        """What the API server does: uid and resourceVersion are preconditions, capacity is not."""
        pod = self.pods.get(bind.pod)
        if pod is None:
            return ev.BindError.GONE
        if pod.node:
            return None if pod.node == bind.node else ev.BindError.TAKEN
        if pod.version != bind.version or pod.gated or pod.deleting:
            return ev.BindError.CHANGED
        labels, notes = {**pod.labels, **dict(bind.labels)}, {**pod.annotations, **dict(bind.annotations)}
        self.change(bind.pod, node=bind.node, labels=labels, annotations=notes)
        self.at(START_DELAY, lambda: self._run(bind.pod))
        return None

    def _evict(self, evict: cmd.Evict) -> None:
        if self.faults.eviction_fails(evict):
            return
        takes = self.faults.eviction_takes(evict)
        if takes:
            self.change(evict.pod.uid, deleting=True)
            self.at(takes, lambda: self.pod_gone(evict.pod.uid))
        else:
            self.pod_gone(evict.pod.uid)

    def _revoke(self, revoke: cmd.Revoke) -> None:
        pod = self.pods.get(revoke.pod.uid)
        if pod is not None and not pod.node and not self.faults.revocation_fails(revoke):
            self.change(pod.uid, annotations={**pod.annotations, cmd.REVOKED: revoke.grant})

    def _end(self, end: cmd.End) -> None:
        """What the API server and the Job controller do; a pod with a grace terminates for that long."""
        owned: list[str] = []
        for ref in (*end.fail, *end.delete):
            owner = self.owners.get(ref.uid)
            if owner is None or owner.ended:
                continue
            if ref in end.fail:
                self.owner(structs.replace(owner, ended="timeout"))
            else:
                self.owner_gone(ref.uid)
            owned += [pod.uid for pod in self.pods.values() if pod.owner and pod.owner.uid == ref.uid]
        for uid in (*owned, *(ref.uid for ref in end.pods)):
            if uid in self.pods and not self.pods[uid].ended:
                grace = self.grace.get(uid, 0)
                if grace:
                    self.change(uid, deleting=True)
                self.at(grace, lambda uid=uid: self.pod_gone(uid))

    def _run(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None or pod.ended:
            return
        if self.faults.kubelet_refuses(pod):
            self.change(uid, phase=PodPhase.FAILED)
            return
        self.change(uid, phase=PodPhase.RUNNING, started=True)
        if uid in self.run_time:
            self.at(self.run_time[uid], lambda: self.change(uid, phase=PodPhase.SUCCEEDED))
