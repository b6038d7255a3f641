"""Random worlds for property tests: seeded operations on a simulated cluster, and what must hold in it.

`play` carries out drawn operations under drawn faults, then lets the world come to rest without faults.
`Chaos` is a World whose Jobs bring new pods for those that were evicted, as real controllers do.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.core.grouping import EXCLUSIVE, REQUIRED_TOPOLOGY
from fairlead.core.invariants import check
from fairlead.core.match import Matcher
from fairlead.core.picture import take
from fairlead.core.snapshot import Draft
from fairlead.core.state import IDLE, State
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, OwnerRef, Pod, PodPhase, Shape
from fairlead.model.settings import Settings
from fairlead.sim.world import Faults, World

RACK = "topology.kubernetes.io/rack"
PAUSES = (0, 1, 2, 3, 7, 40, 300, 1_100, 4_000, 11_000)


class Op(NamedTuple):
    """One thing that happens, then a pause. The numbers are taken modulo whatever there is."""

    verb: str
    a: int
    b: int
    c: int
    pause: int


VERBS = (
    "submit", "submit", "submit", "bring", "join", "leave", "shrink", "cordon", "foreign", "delete",
    "delete_all", "finish", "relabel", "crash", "store", "relist", "nothing",
)  # fmt: skip


def make_amounts(cpu: int, gpu: int = 0) -> Amounts:
    return tuple(x for x in (("cpu", cpu * 1000), ("gpu", gpu), ("pods", 1)) if x[1])


class Drawn(Faults):
    """Faults out of a list of numbers, used again and again; `off` ends them."""

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes, self.at, self.off = codes or [9], 0, False
        self.effect = -1

    def draw(self) -> int:
        self.at += 1
        return 9 if self.off else self.codes[self.at % len(self.codes)]

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        code = self.draw()
        self.effect = {2: 0, 3: 700, 4: 8_000}.get(code, -1)
        return {
            0: ev.BindError.REFUSED,
            1: ev.BindError.CHANGED,
            2: ev.BindError.UNKNOWN,
            3: ev.BindError.UNKNOWN,
            4: ev.BindError.UNKNOWN,
            5: ev.BindError.UNKNOWN,
        }.get(code)

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        return self.effect >= 0

    def unknown_delay(self, _: cmd.Bind) -> int:
        return max(self.effect, 0)

    def plan_delay(self) -> int:
        return {0: 3, 1: 40, 2: 700}.get(self.draw(), 0)

    def copies(self, _: ev.Event) -> int:
        return 2 if self.draw() == 3 else 1

    def watch_delay(self, _: ev.Event) -> int:
        return {0: 1, 1: 5, 2: 60}.get(self.draw(), 0)


class Stammering(Engine):
    """An engine that is told every batch twice."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        return [*super().learn(events), *super().learn(events)]


class Chaos(World):
    """Notes what must never be seen: a Bind to where, as far as was told, the pod does not fit."""

    def __init__(self, settings: Settings, faults: Faults, engine: type[Engine] = Engine) -> None:
        self.count = 0
        self.meddled: dict[str, None] = {}
        self._kind = engine
        super().__init__(settings, faults)

    def start(self) -> None:
        super().start()
        self.engine = self._kind(self.settings, RECONCILERS)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        inventory = self.engine.state.inventory
        for command in commands:
            if isinstance(command, cmd.Bind):
                row = inventory.rows[command.node]
                assert not inventory.gone_at[row], f"bind to {command.node}, which is gone"
                pod = self.engine.state.pods[command.pod]
                for resource, _ in inventory.vector(self.engine.state.asked(pod)).pairs:
                    assert inventory.free[resource, row] >= 0, f"{command.name} does not fit {command.node}"
                grant = self.grants.get(command.grant)
                assert grant is not None, "bound before it was durable"
                assert any(p.pod == command.pod and p.node == command.node for p in grant.placements)
            elif isinstance(command, cmd.RecordAllocations):
                self._nobody_is_overtaken(command)
        super().perform(commands)

    def _nobody_is_overtaken(self, command: cmd.RecordAllocations) -> None:
        state = self.engine.state
        for grant in command.grants:
            group = state.groups.get(grant.group)
            if group is None:
                continue
            order = (-group.priority, 0, group.seq, group.id)
            for requests in state.waiting.values():
                other = state.groups[requests[0].group]
                new = other.asked_at == state.version  # it came in this very batch
                if requests[0].order < order and not new and other.phase is not Phase.RUNNING:
                    assert other.reason.why in (Why.NODES_DOWN, Why.BLOCKED), (
                        f"{group.id} overtakes {other.id}: {other.reason}"
                    )

    def pod_gone(self, uid: str) -> None:
        pod = self.pods.get(uid)
        super().pod_gone(uid)
        if pod is not None and pod.owner is not None and pod.owner.uid in self.owners:
            self.at(500, lambda: self._again(pod))

    def _again(self, pod: Pod) -> None:
        if pod.owner is not None and pod.owner.uid in self.owners:
            name = self.name("p")
            fresh = structs.replace(
                pod, uid=name, name=name, node="", phase=PodPhase.PENDING, started=False, created=0,
                deleting=False, condition="",
            )  # fmt: skip
            self.pod(fresh, self.run_time.get(pod.uid, 0))

    # -- operations ----------------------------------------------------------------------------------

    def do(self, op: Op) -> None:
        getattr(self, f"_op_{op.verb}")(op)
        self.run(PAUSES[op.pause % len(PAUSES)])

    def _op_nothing(self, _: Op) -> None:
        pass

    def _op_join(self, op: Op) -> None:
        name = f"n{op.a % 6}"
        if name not in self.nodes:
            allocatable = tuple(sorted((*make_amounts(1 + op.b % 6, op.c % 3)[:-1], ("pods", 5 + op.c % 3))))
            self.node(Node(self.name("nu"), name, 0, allocatable, {RACK: f"r{op.a % 2}"}))

    def _some_node(self, number: int) -> str | None:
        names = list(self.nodes)
        return names[number % len(names)] if names else None

    def _op_leave(self, op: Op) -> None:
        name = self._some_node(op.a)
        if name is not None:
            self.node_gone(name)
            for pod in [p for p in self.pods.values() if p.node == name]:
                self.meddled[pod.uid] = None
                self.at(50, lambda uid=pod.uid: self.pod_gone(uid))

    def _op_shrink(self, op: Op) -> None:
        name = self._some_node(op.a)
        if name is not None:
            allocatable = tuple(sorted((*make_amounts(1 + op.b % 6, op.c % 3)[:-1], ("pods", 5))))
            self.node(structs.replace(self.nodes[name], allocatable=allocatable))

    def _op_cordon(self, op: Op) -> None:
        name = self._some_node(op.a)
        if name is not None:
            self.node(structs.replace(self.nodes[name], unschedulable=op.b % 3 == 0))

    def _op_submit(self, op: Op) -> None:
        name, size, first = self.name("g"), 1 + op.a % 4, op.c % 7
        owner = None
        if op.b % 2:
            owner = Owner(self.name("o"), "Job", "default", name, 0, size)
            self.owner(owner)
        labels = {"fairlead.dev/group": name, "fairlead.dev/group-size": str(size)}
        notes = {5: {EXCLUSIVE: "true"}, 8: {REQUIRED_TOPOLOGY: "rack"}}.get(op.c, {})
        for i in range(size - (1 if first == 0 and size > 1 else 0)):
            uid = self.name("p")
            asked = make_amounts(1 + (op.b + (i if op.c % 5 == 0 else 0)) % 3, 1 if op.c % 4 == 0 else 0)
            self.pod(
                Pod(
                    uid, "default", uid, 0, Shape(asked), scheduler="fairlead", priority=op.c % 3,
                    labels={} if owner else labels, owner=OwnerRef("Job", name, owner.uid) if owner else None,
                    annotations=notes,
                ),
                (0, 50, 3_000, 20_000)[op.b % 4],
            )  # fmt: skip

    def _ours(self, number: int) -> Pod | None:
        found = [pod for pod in self.pods.values() if pod.scheduler == "fairlead"]
        return found[number % len(found)] if found else None

    def _op_bring(self, op: Op) -> None:
        """One more member of some group: the missing one, or one too many."""
        pod = self._ours(op.a)
        if pod is not None:
            self._meddle(pod)
            name = self.name("p")
            fresh = structs.replace(
                pod,
                uid=name,
                name=name,
                node="",
                phase=PodPhase.PENDING,
                started=False,
                created=0,
                deleting=False,
            )
            self.pod(fresh, self.run_time.get(pod.uid, 0))

    def _op_foreign(self, op: Op) -> None:
        name = self._some_node(op.a)
        if name is not None:
            uid = self.name("f")
            owner = OwnerRef("DaemonSet", "d", "d") if op.c == 3 else None
            pod = Pod(uid, "default", uid, 0, Shape(make_amounts(1 + op.b % 2)), node=name, owner=owner)
            self.pod(structs.replace(pod, phase=PodPhase.RUNNING))
            if op.c % 3:
                self.at(op.c * 500, lambda: self.change(uid, phase=PodPhase.SUCCEEDED))

    def _meddle(self, pod: Pod) -> None:
        """What was done to one member from outside excuses its whole group."""
        for other in self.pods.values():
            same_owner = pod.owner is not None and other.owner == pod.owner
            if same_owner or (pod.labels and other.labels == pod.labels):
                self.meddled[other.uid] = None
        self.meddled[pod.uid] = None

    def _op_delete(self, op: Op) -> None:
        pod = self._ours(op.a)
        if pod is not None:
            self._meddle(pod)
            if op.b % 2:
                self.change(pod.uid, deleting=True)
                self.at(100, lambda: self.pod_gone(pod.uid))
            else:
                self.pod_gone(pod.uid)

    def _op_delete_all(self, op: Op) -> None:
        pod = self._ours(op.a)
        if pod is None:
            return
        if pod.owner is not None and pod.owner.uid in self.owners:
            self.owner_gone(pod.owner.uid)
        for other in list(self.pods.values()):
            if other.owner == pod.owner and other.labels == pod.labels:
                self.pod_gone(other.uid)

    def _op_finish(self, op: Op) -> None:
        pod = self._ours(op.a)
        if pod is not None and pod.node:
            self._meddle(pod)
            self.change(pod.uid, phase=PodPhase.FAILED if op.b % 2 else PodPhase.SUCCEEDED)

    def _op_relabel(self, op: Op) -> None:
        pod = self._ours(op.a)
        if pod is not None:
            self._meddle(pod)
            self.change(pod.uid, labels={})

    def _op_crash(self, op: Op) -> None:
        self.crash()
        self.run(PAUSES[op.a % len(PAUSES)])
        self.start()

    def _op_store(self, op: Op) -> None:
        self.store_down() if op.a % 2 else self.store_up()

    def _op_relist(self, _: Op) -> None:
        self.tell(*self.lists())


def play(
    ops: Sequence[Op], codes: Sequence[int], match: str = "first", engine: type[Engine] = Engine
) -> Chaos:
    """The world at rest after all that."""
    faults = Drawn(codes)
    world = Chaos(Settings(match=match, pace=0), faults, engine)
    for i in range(3):
        world.do(Op("join", i, 3, 1, 0))
    for op in ops:
        world.do(op)
    faults.off = True
    world.store_up()
    world.run(300_000)
    return world


def resting(world: Chaos) -> list[str]:
    """Everything that must be so in a world that has come to rest, and is not."""
    state = world.engine.state
    wrong = check(state)
    if state.intents or state.grants or state.recording or state.to_bind:
        wrong.append(f"unresolved: {list(state.intents)} {state.grants} {state.recording} {state.to_bind}")
    if world.grants:
        wrong.append(f"grants never settled in the store: {list(world.grants)}")
    if state.planning != IDLE or (state.dirty and state.waiting):
        wrong.append("a plan is due or under way")
    return wrong + _truth(world, state) + _groups(world, state) + _layouts(state) + _stuck(world.engine)


def _truth(world: Chaos, state: State) -> list[str]:
    """The engine's picture is the cluster's."""
    wrong: list[str] = []
    if {u: p.version for u, p in state.pods.items()} != {u: p.version for u, p in world.pods.items()}:
        wrong.append("pods differ from the cluster's")
    if sorted(state.node_uids.values()) != sorted(world.nodes):
        wrong.append("nodes differ from the cluster's")
    for name, node in world.nodes.items():
        row = state.inventory.rows[name]
        for resource, capacity in node.allocatable:
            used = sum(
                dict(p.shape.requests).get(resource, 0)
                for p in world.pods.values()
                if p.node == name and not p.ended
            )
            free = int(state.inventory.free[state.inventory.resources[resource], row])
            if free != capacity - used:
                wrong.append(f"{name} {resource}: free {free}, in truth {capacity - used}")
    return wrong


def _groups(world: Chaos, state: State) -> list[str]:
    """None lost, none half started but for broken ones, none ended while it lives."""
    wrong: list[str] = []
    for uid, pod in world.pods.items():
        group = state.groups.get(state.group_of.get(uid, ""))
        if pod.scheduler != "fairlead" or pod.ended:
            continue
        if group is None or uid not in group.pods:
            wrong.append(f"pod {uid} belongs to no group")
        elif group.phase is Phase.ENDED and not group.rejected:
            wrong.append(f"pod {uid} lives in {group.id}, which has ended")
        elif (
            not (pod.node or pod.deleting or group.id in state.waiting)
            and group.phase is Phase.RUNNING
            and group.backoff_until <= state.now
        ):
            wrong.append(f"pod {uid} waits in {group.id}, which asks for nothing")
    for group in state.groups.values():
        if group.phase is Phase.STARTING:
            wrong.append(f"{group.id} is still starting")
        members = [world.pods[uid] for uid in group.pods]
        if group.broken or any(pod.uid in world.meddled for pod in members):
            continue
        bound = sum(bool(pod.node) for pod in members)
        if bound not in (0, len(members)) and group.phase is not Phase.RUNNING:
            wrong.append(f"{group.id} is half bound: {bound} of {len(members)}")
        astray = group.id in state.astray  # no node has a rack: there is no node
        usual = (Why.WAITING_FOR_GROUP, Why.BACKOFF, *([Why.INVALID] if astray else []))
        if group.phase is Phase.HELD and group.reason.why not in usual:
            wrong.append(f"{group.id} is held: {group.reason}")
    return wrong


def _layouts(state: State) -> list[str]:
    """Who wants nodes for himself shares them with nobody of ours; who shares a rack is in one."""
    wrong: list[str] = []
    tenants: dict[str, list[tuple[str, bool]]] = {}
    for group in state.groups.values():
        live = [pod for uid in group.pods if (pod := state.pods[uid]).node and not pod.ended]
        notes = live[0].annotations if live else {}
        racks = {int(pod.node[1:]) % 2 for pod in live}
        if REQUIRED_TOPOLOGY in notes and len(racks) > 1:
            wrong.append(f"{group.id} is in two racks: {[pod.node for pod in live]}")
        for pod in live:
            tenants.setdefault(pod.node, []).append((pod.uid, EXCLUSIVE in notes))
    for name, pods in tenants.items():
        if len(pods) > 1 and any(alone for _, alone in pods):
            wrong.append(f"{name} is shared: {pods}")
    return wrong


def _stuck(engine: Engine) -> list[str]:
    """The first in order that waits for room has none."""
    state = engine.state
    waiting = sorted((r for requests in state.waiting.values() for r in requests), key=lambda r: r.order)
    snapshot = take(state, True)
    for request in waiting:
        if Matcher(Draft(snapshot), "first").place(request) is not None:
            return [f"{request.group} could start and does not: {state.groups[request.group].reason}"]
        if state.groups[request.group].reason.why not in (Why.NODES_DOWN, Why.BLOCKED):
            break
    return []
