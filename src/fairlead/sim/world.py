"""A simulated Kubernetes and store around a real engine: the product runs, only the ports differ.

Used by scenarios, property tests and (later) `fairlead simulate`. A heap of future events; `perform`
pushes outcomes: a Bind becomes a pod seen on its node, running after a start delay and ended after its
run time. `crash` throws the engine away and starts a new one from what was durable. Deterministic: time
is the heap's, nothing is random unless a Faults object, which brings its own seed, says so.
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
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.plan import Grant, Reserve
from fairlead.model.pod import Pod, PodPhase
from fairlead.model.settings import Settings

BIND_DELAY = 1
START_DELAY = 1
STORE_DELAY = 2


class Faults:
    """What goes wrong. The defaults: nothing. Subclasses (tests) override."""

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        """The error a bind ends with; None lets it succeed. UNKNOWN may still take effect."""
        return None

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        """Whether a bind of unknown outcome was carried out all the same."""
        return False

    def unknown_delay(self, _: cmd.Bind) -> int:
        """How long after its error a bind of unknown outcome arrives, in milliseconds."""
        return 0

    def plan_delay(self) -> int:
        """How late a plan arrives, in milliseconds."""
        return 0

    def copies(self, _: ev.Event) -> int:
        """How often an event of the watch is delivered (at least once)."""
        return 1

    def watch_delay(self, _: ev.Event) -> int:
        """How late an event of the watch is delivered, in milliseconds; later ones may overtake it."""
        return 0


def _plan(snapshot: Snapshot) -> ev.PlanProposed:
    return ev.PlanProposed(plan_now(snapshot))


class World:
    """The cluster as it truly is, a durable store, a clock, and the engine that watches."""

    def __init__(
        self,
        settings: Settings | None = None,
        faults: Faults | None = None,
        planner: Callable[[Snapshot], ev.PlanProposed] | None = None,
    ) -> None:
        self.settings = settings or Settings(pace=0)
        self.faults = faults or Faults()
        self.planner = planner or _plan
        self.now = 1_000
        self.version = 0
        self.epoch = 0
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.owners: dict[str, Owner] = {}
        self.run_time: dict[str, int] = {}
        self.grace: dict[str, int] = {}
        """Pod -> how long it takes to end when it is deleted at its walltime, in milliseconds."""
        self.groups: dict[str, GroupRecord] = {}
        self.grants: dict[str, Grant] = {}
        self.reservations: tuple[Reserve, ...] = ()
        self.log: list[tuple[int, cmd.Command]] = []
        """Every command but Propose and WakeAt, with its time."""
        self.batches: list[tuple[ev.Event, ...]] = []
        self.check_always = True
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._pending: list[ev.Event] = []
        self._store_down = False
        self._unwritten: list[cmd.RecordAllocations | cmd.SaveGroups | cmd.SettleGrants] = []
        self.start()

    # -- the scheduler process -----------------------------------------------------------------------

    def start(self) -> None:
        """A scheduler process starts: store, then lists, as ordinary events."""
        self.epoch += 1
        self.engine = Engine(self.settings, RECONCILERS)
        self.batches = []
        self._life = self.epoch
        self._unwritten = []
        if not self._store_down:
            self.tell(*self._restored())
        self.tell(*self.lists())

    def _restored(self) -> list[ev.Event]:
        """What the store tells a process at its start."""
        not_before = self.now + self.settings.request_timeout
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

    def lists(self) -> list[ev.Event]:
        """What a watch says at its beginning: all nodes, owners and pods, each list with its end."""
        events: list[ev.Event] = [ev.NodeSeen(n) for n in self.nodes.values()]
        events += [
            ev.Listed("Node", tuple(n.uid for n in self.nodes.values()), self.version),
            ev.Synced("nodes"),
        ]
        events += [ev.OwnerSeen(o) for o in self.owners.values()]
        for kind in ("Job", "ReplicaSet", "StatefulSet"):
            uids = tuple(o.uid for o in self.owners.values() if o.kind == kind)
            events.append(ev.Listed(kind, uids, self.version))
        events.append(ev.Synced("owners"))
        events += [ev.PodSeen(p) for p in sorted(self.pods.values(), key=lambda p: (p.created, p.version))]
        events += [ev.Listed("Pod", tuple(self.pods), self.version), ev.Synced("pods")]
        return events

    def crash(self) -> None:
        """The process is killed: what it had not done is not done, what it had sent may still arrive."""
        self._pending, self._unwritten = [], []
        self._life = -1

    # -- the cluster ---------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        self.version += 1
        self.nodes[node.name] = structs.replace(node, version=self.version)
        self._tell_watch(ev.NodeSeen(self.nodes[node.name]))

    def node_gone(self, name: str) -> None:
        """The node object is deleted; its pods stay until somebody deletes them."""
        self.version += 1
        node = self.nodes.pop(name)
        self._tell_watch(ev.NodeGone(node.uid, self.version))

    def owner(self, owner: Owner) -> None:
        self.version += 1
        self.owners[owner.uid] = structs.replace(owner, version=self.version)
        self._tell_watch(ev.OwnerSeen(self.owners[owner.uid]))

    def owner_gone(self, uid: str) -> None:
        self.version += 1
        del self.owners[uid]
        self._tell_watch(ev.OwnerGone(uid, self.version))

    def pod(self, pod: Pod, run_time: int = 0) -> None:
        """Create or change a pod; `run_time` milliseconds after it runs it succeeds (0: never)."""
        self.version += 1
        created = pod.created or self.now
        self.pods[pod.uid] = structs.replace(pod, version=self.version, created=created)
        if run_time:
            self.run_time[pod.uid] = run_time
        self._tell_watch(ev.PodSeen(self.pods[pod.uid]))

    def change(self, uid: str, **fields: object) -> None:
        """Change fields of a pod, if it still exists."""
        if uid in self.pods:
            self.pod(structs.replace(self.pods[uid], **fields))

    def pod_gone(self, uid: str) -> None:
        if self.pods.pop(uid, None) is not None:
            self.version += 1
            self._tell_watch(ev.PodGone(uid, self.version))

    # -- time ----------------------------------------------------------------------------------------

    def at(self, delay: int, action: Callable[[], None]) -> None:
        """Do something `delay` milliseconds from now."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, action))

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
        self._pending += events or (ev.Tick(self.now),)

    def _tell_watch(self, event: ev.Event) -> None:
        for _ in range(self.faults.copies(event)):
            delay = self.faults.watch_delay(event)
            if delay:
                self._later(delay, event)
            else:
                self.tell(event)

    def _deliver(self) -> None:
        while self._pending:
            batch = (ev.Tick(self.now), *self._pending)
            self._pending = []
            if self._life != self.epoch:
                return
            self.batches.append(batch)
            commands = self.engine.learn(batch)
            self.perform(commands)
            if self.check_always:
                wrong = check(self.engine.state)
                assert not wrong, wrong

    # -- performing ----------------------------------------------------------------------------------

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        for command in commands:
            if not isinstance(command, cmd.Propose | cmd.WakeAt):
                self.log.append((self.now, command))
            match command:
                case cmd.Propose():
                    self._later(self.faults.plan_delay(), self.planner(command.snapshot))
                case cmd.RecordAllocations() | cmd.SaveGroups() | cmd.SettleGrants():
                    self.at(STORE_DELAY, lambda c=command, life=self.epoch: self._write(c, life))
                case cmd.Bind():
                    self.at(BIND_DELAY, lambda c=command: self._bind(c))
                case cmd.Evict():
                    self.at(BIND_DELAY, lambda c=command: self.pod_gone(c.pod.uid))
                case cmd.Revoke():
                    self.at(BIND_DELAY, lambda c=command: self._revoke(c))
                case cmd.End():
                    self.at(BIND_DELAY, lambda c=command: self._end(c))
                case cmd.WakeAt():
                    self.at(max(command.at - self.now, 0), self.tell)
                case _:
                    pass

    def _later(self, delay: int, event: ev.Event) -> None:
        """An answer to this very process; a later one does not hear it."""
        life = self.epoch
        self.at(delay, lambda: self.tell(event) if life == self.epoch == self._life else None)

    def _write(self, command: cmd.RecordAllocations | cmd.SaveGroups | cmd.SettleGrants, epoch: int) -> None:
        """The store takes commands in order, fenced by epoch; while it is down they wait in the process."""
        if epoch != self.epoch:
            return
        if self._store_down:
            self._unwritten.append(command)
            return
        match command:
            case cmd.SaveGroups():
                self.groups.update({r.id: r for r in command.groups})
            case cmd.SettleGrants():
                for grant in command.grants:
                    self.grants.pop(grant, None)
            case cmd.RecordAllocations():
                self.groups.update({r.id: r for r in command.groups})
                self.grants.update({g.id: g for g in command.grants})
                self.reservations = command.reservations
                self._later(0, ev.AllocationsRecorded(command.plan))

    def store_down(self) -> None:
        """The store stops answering; the engine hears of it."""
        self._store_down = True
        self.tell(ev.StoreLost("the store does not answer"))

    def store_up(self) -> None:
        """The store is back: what piled up is written; a process that waited for it gets what it holds."""
        self._store_down = False
        waiting, self._unwritten = self._unwritten, []
        for command in waiting:
            self._write(command, self.epoch)
        if "store" in self.engine.state.missing:
            self.tell(*self._restored())
        else:
            self.tell(ev.StoreReady(self.epoch))

    def _bind(self, bind: cmd.Bind) -> None:
        """A request arrives, fails, or is lost on the way, perhaps to take effect later."""
        error = self.faults.bind(bind)
        if error is ev.BindError.UNKNOWN and self.faults.unknown_took_effect(bind):
            self.at(self.faults.unknown_delay(bind), lambda: (self._bind_here(bind), None)[1])
        if error is None:
            error = self._bind_here(bind)
        if error is None:
            self._later(0, ev.Bound(bind.pod, bind.grant, bind.node))
        else:
            self._later(0, ev.BindFailed(bind.pod, bind.grant, error))

    def _bind_here(self, bind: cmd.Bind) -> ev.BindError | None:
        """What the API server does: uid and resourceVersion are preconditions, capacity is not."""
        pod = self.pods.get(bind.pod)
        if pod is None:
            return ev.BindError.GONE
        if pod.node:
            return None if pod.node == bind.node else ev.BindError.TAKEN
        if pod.version != bind.version or pod.gated or pod.deleting:
            return ev.BindError.CHANGED
        self.change(bind.pod, node=bind.node)
        self.at(START_DELAY, lambda: self._run(bind.pod))
        return None

    def _revoke(self, revoke: cmd.Revoke) -> None:
        pod = self.pods.get(revoke.pod.uid)
        if pod is not None:
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
        if uid in self.pods and self.pods[uid].ended:
            return
        self.change(uid, phase=PodPhase.RUNNING, started=True)
        if uid in self.run_time:
            self.at(self.run_time[uid], lambda: self.change(uid, phase=PodPhase.SUCCEEDED))
