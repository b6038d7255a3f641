"""What happens in a random world: operations that can be drawn, written down as lines, and carried out.

`Busy` is a World in which they happen; its Jobs bring new pods for those that were lost and end when all
have succeeded, as real controllers do. Numbers are taken modulo whatever there is, so that any operation may
be left out of a story and the rest can still be told (`sim.shrink`). Used by `sim.chaos`.
"""

from typing import NamedTuple

from msgspec import structs

from fairlead.core.grouping import DURATION, EXCLUSIVE, ON_FAILURE, REQUIRED_TOPOLOGY
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, OwnerRef, Pod, PodPhase, Shape
from fairlead.sim.world import World

RACK = "topology.kubernetes.io/rack"
PAUSES = (0, 1, 2, 3, 7, 40, 300, 1_100, 4_000, 11_000)
"""Milliseconds after an operation, by its `pause`."""
RUN_TIMES = (0, 50, 3_000, 20_000)
_WALLTIMES = ("2s", "25s", "2m", "1h")
_GAPS = (5, 90, 1_500, 12_000)
_JUMPS = (-3_600_000, -4_000, 2_000, 70_000, 3_600_000)
_SKEWS = (0, 0, 0, 150, -150, 2_500, -2_500)


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
MORE_VERBS = (
    "timed", "race", "steal", "suspend", "unready", "kill", "takeover", "freeze", "gap", "touch", "clock",
)  # fmt: skip


def make_amounts(cpu: int, gpu: int = 0) -> Amounts:
    return tuple(x for x in (("cpu", cpu * 1000), ("gpu", gpu), ("pods", 1)) if x[1])


class Busy(World):
    """A world to which operations happen. `meddled`: pods of groups that were touched from outside."""

    count = 0
    most_nodes = 6

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.meddled: dict[str, None] = {}
        self.shared: dict[str, None] = {}
        """Nodes on which others than the scheduler may have taken what there was."""
        self.stolen: dict[str, None] = {}
        """Pods of ours that others bound."""
        self._last: dict[str, Pod] = {}
        """Suspended Job -> one of its pods, as a pattern for new ones."""
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def do(self, op: Op) -> str:
        """Carry out one operation and its pause; says what came of it."""
        said = getattr(self, f"_op_{op.verb}")(op)
        self.run(PAUSES[op.pause % len(PAUSES)])
        return said or "nothing to do it to"

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # -- controllers ---------------------------------------------------------------------------------

    def pod(self, pod: Pod, run_time: int = 0) -> None:
        before = self.pods.get(pod.uid)
        super().pod(pod, run_time)
        if pod.owner is None or not pod.ended or (before is not None and before.ended):
            return
        if pod.phase is PodPhase.FAILED:
            self.at(500, lambda: self._again(pod))
        else:
            self.at(300, lambda: self._one_less(pod.owner))

    def _one_less(self, ref: OwnerRef | None) -> None:
        """One completion less is left to do; after the last one the Job is over."""
        owner = self.owners.get(ref.uid) if ref is not None else None
        if owner is not None and not owner.ended:
            left = max(owner.size - 1, 0)
            self.owner(structs.replace(owner, size=left, ended="" if left else "completed"))

    def pod_gone(self, uid: str) -> None:
        pod = self.pods.get(uid)
        super().pod_gone(uid)
        if pod is not None and not pod.ended:
            self.at(500, lambda: self._again(pod))

    def _again(self, pod: Pod) -> None:
        """A Job brings a new pod for one that was lost, unless it is suspended, over or gone."""
        owner = self.owners.get(pod.owner.uid) if pod.owner is not None else None
        if owner is not None and not (owner.ended or owner.suspended or owner.deleting):
            self._copy(pod)

    def _copy(self, pod: Pod) -> str:
        name = self.name("p")
        fresh = structs.replace(
            pod, uid=name, name=name, node="", phase=PodPhase.PENDING, started=False, created=0,
            deleting=False, condition="",
        )  # fmt: skip
        self.pod(fresh, self.run_time.get(pod.uid, 0))
        return name

    # -- nodes ---------------------------------------------------------------------------------------

    def _op_nothing(self, _: Op) -> str:
        return "time passes"

    def _op_join(self, op: Op) -> str:
        name = f"n{op.a % self.most_nodes}"
        if name in self.nodes:
            return ""
        allocatable = tuple(sorted((*make_amounts(1 + op.b % 6, op.c % 3)[:-1], ("pods", 5 + op.c % 3))))
        self.node(Node(self.name("nu"), name, 0, allocatable, {RACK: f"r{op.a % 2}"}))
        return f"node {name} joins: {_show(allocatable)}, rack r{op.a % 2}"

    def _some_node(self, number: int) -> str | None:
        names = list(self.nodes)
        return names[number % len(names)] if names else None

    def _op_leave(self, op: Op) -> str:
        name = self._some_node(op.a)
        if name is None:
            return ""
        self.shared[name] = None
        self.node_gone(name)
        pods = [p.uid for p in self.pods.values() if p.node == name]
        for uid in pods:
            self.meddled[uid] = None
            self.at(50, lambda uid=uid: self.pod_gone(uid))
        return f"node {name} is gone, its pods {' '.join(pods) or '(none)'} follow"

    def _op_shrink(self, op: Op) -> str:
        name = self._some_node(op.a)
        if name is None:
            return ""
        self.shared[name] = None
        allocatable = tuple(sorted((*make_amounts(1 + op.b % 6, op.c % 3)[:-1], ("pods", 5))))
        self.node(structs.replace(self.nodes[name], allocatable=allocatable))
        return f"node {name} has {_show(allocatable)} from now on"

    def _op_cordon(self, op: Op) -> str:
        return self._set_node(op.a, unschedulable=op.b % 3 == 0)

    def _op_unready(self, op: Op) -> str:
        return self._set_node(op.a, ready=op.b % 3 != 0)

    def _set_node(self, number: int, **fields: object) -> str:
        name = self._some_node(number)
        if name is None:
            return ""
        self.node(structs.replace(self.nodes[name], **fields))
        return f"node {name}: {fields}"

    # -- groups --------------------------------------------------------------------------------------

    def _op_submit(self, op: Op) -> str:
        notes = {5: {EXCLUSIVE: "true"}, 8: {REQUIRED_TOPOLOGY: "rack"}, 10: {ON_FAILURE: "fail-all"}}
        return self._submit(op, notes.get(op.c, {}))

    def _op_timed(self, op: Op) -> str:
        """The same with a walltime, which may be too short."""
        return self._submit(op, {DURATION: _WALLTIMES[(op.b + op.c) % len(_WALLTIMES)]})

    def _submit(self, op: Op, notes: dict[str, str]) -> str:
        name, size, first = self.name("g"), 1 + op.a % 4, op.c % 7
        owner = None
        if op.b % 2:
            owner = Owner(self.name("o"), "Job", "default", name, 0, size)
            self.owner(owner)
        labels = {"fairlead.dev/group": name, "fairlead.dev/group-size": str(size)}
        members: list[str] = []
        for i in range(size - (1 if first == 0 and size > 1 else 0)):
            uid = self.name("p")
            asked = make_amounts(1 + (op.b + (i if op.c % 5 == 0 else 0)) % 3, 1 if op.c % 4 == 0 else 0)
            members.append(f"{uid} {_show(asked[:-1])}")
            self.pod(
                Pod(
                    uid, "default", uid, 0, Shape(asked), scheduler="fairlead", priority=op.c % 3,
                    labels={} if owner else labels, owner=OwnerRef("Job", name, owner.uid) if owner else None,
                    annotations=notes,
                ),
                RUN_TIMES[op.b % 4],
            )  # fmt: skip
        kind = f"Job {owner.uid}" if owner else f"group {name}"
        extra = "".join(f", {key.partition('/')[2]}={value}" for key, value in notes.items())
        runs = RUN_TIMES[op.b % 4]
        runs_for = f", runs {runs} ms" if runs else ""
        return f"{kind} of {size}, priority {op.c % 3}: {', '.join(members)}{extra}{runs_for}"

    def _ours(self, number: int) -> Pod | None:
        found = [pod for pod in self.pods.values() if pod.scheduler == "fairlead"]
        return found[number % len(found)] if found else None

    def _op_bring(self, op: Op) -> str:
        """One more member of some group: the missing one, or one too many."""
        pod = self._ours(op.a)
        if pod is None:
            return ""
        self._meddle(pod)
        return f"pod {self._copy(pod)} comes, like {pod.uid}"

    def _meddle(self, pod: Pod) -> None:
        """What was done to one member from outside excuses its whole group."""
        for other in self.pods.values():
            same_owner = pod.owner is not None and other.owner == pod.owner
            if same_owner or (pod.labels and other.labels == pod.labels):
                self.meddled[other.uid] = None
        self.meddled[pod.uid] = None

    def _op_delete(self, op: Op) -> str:
        pod = self._ours(op.a)
        if pod is None:
            return ""
        self._meddle(pod)
        if op.b % 2:
            self.change(pod.uid, deleting=True)
            self.at(100, lambda: self.pod_gone(pod.uid))
            return f"pod {pod.uid} is told to end, and gone in 100 ms"
        self.pod_gone(pod.uid)
        return f"pod {pod.uid} is gone"

    def _op_delete_all(self, op: Op) -> str:
        pod = self._ours(op.a)
        if pod is None:
            return ""
        if pod.owner is not None and pod.owner.uid in self.owners:
            self.owner_gone(pod.owner.uid)
        gone = [p.uid for p in self.pods.values() if p.owner == pod.owner and p.labels == pod.labels]
        for uid in gone:
            self.pod_gone(uid)
        return f"all of {pod.uid}'s group are gone: {' '.join(gone)}"

    def _op_suspend(self, op: Op) -> str:
        """A Job is suspended, which ends its pods; one that is suspended goes on."""
        jobs = [owner for owner in self.owners.values() if not owner.ended]
        if not jobs:
            return ""
        owner = jobs[op.a % len(jobs)]
        self.owner(structs.replace(owner, suspended=not owner.suspended))
        pods = [p for p in self.pods.values() if p.owner is not None and p.owner.uid == owner.uid]
        if owner.suspended:
            there = [p for p in pods if not p.ended][: owner.size]
            last = self._last.get(owner.uid)
            for _ in range(owner.size - len(there)):
                if last is not None:
                    self._copy(last)
            return f"Job {owner.uid} goes on"
        for pod in pods:
            self._last[owner.uid] = pod
            self._meddle(pod)
            self.pod_gone(pod.uid)
        return f"Job {owner.uid} is suspended"

    def _op_finish(self, op: Op) -> str:
        pod = self._ours(op.a)
        if pod is None or not pod.node or pod.ended:
            return ""
        self._meddle(pod)
        phase = PodPhase.FAILED if op.b % 2 else PodPhase.SUCCEEDED
        self.change(pod.uid, phase=phase)
        return f"pod {pod.uid} {phase}"

    def _op_relabel(self, op: Op) -> str:
        pod = self._ours(op.a)
        if pod is None:
            return ""
        self._meddle(pod)
        self.change(pod.uid, labels={})
        return f"pod {pod.uid} loses its labels"

    def _op_touch(self, op: Op) -> str:
        """Something of no concern changes: only the resourceVersion moves."""
        pod = self._ours(op.a)
        if pod is None:
            return ""
        self.change(pod.uid)
        return f"pod {pod.uid} is written by somebody"

    # -- others --------------------------------------------------------------------------------------

    def _op_foreign(self, op: Op) -> str:
        name = self._some_node(op.a)
        return "" if name is None else self._foreign(op, name)

    def _op_race(self, op: Op) -> str:
        """A pod of others comes to a node that was just given to one of ours."""
        nodes = [intent.node for intent in self.engine.state.intents.values() if intent.node in self.nodes]
        return self._foreign(op, nodes[op.a % len(nodes)]) if nodes else ""

    def _foreign(self, op: Op, name: str) -> str:
        self.shared[name] = None
        uid = self.name("f")
        owner = OwnerRef("DaemonSet", "d", "d") if op.c == 3 else None
        asked = make_amounts(1 + op.b % 2)
        pod = Pod(uid, "default", uid, 0, Shape(asked), node=name, owner=owner)
        self.pod(structs.replace(pod, phase=PodPhase.RUNNING))
        if op.c % 3:
            self.at(op.c * 500, lambda: self.change(uid, phase=PodPhase.SUCCEEDED))
        return f"pod {uid} of others on {name}: {_show(asked[:-1])}"

    def _op_steal(self, op: Op) -> str:
        """Somebody else binds our pod."""
        pod, name = self._ours(op.a), self._some_node(op.b)
        if pod is None or name is None or pod.node or pod.ended or pod.deleting:
            return ""
        self._meddle(pod)
        self.shared[name] = self.stolen[pod.uid] = None
        self.change(pod.uid, node=name, phase=PodPhase.RUNNING, started=True)
        return f"others bind {pod.uid} to {name}"

    # -- the process, its store, its watches ---------------------------------------------------------

    def _op_crash(self, op: Op) -> str:
        self.crash()
        pause = PAUSES[op.a % len(PAUSES)]
        self.run(pause)
        self._restart(op)
        return f"the scheduler is killed and started {pause} ms later, {self._clock()}"

    def _op_kill(self, op: Op) -> str:
        """Killed in the middle of its commands, if it has any to carry out before it is to be started."""
        self.fuse, life = op.a % 8, self.epoch
        pause = 1 + PAUSES[(op.b + op.c) % len(PAUSES)]
        self.at(pause, lambda: self._restart(op) if life == self.epoch else None)
        return f"the scheduler is killed after {op.a % 8} more commands, and started in {pause} ms"

    def _restart(self, op: Op) -> None:
        if self.alive:
            self.crash()
        self.skew += _SKEWS[(op.b + op.c) % len(_SKEWS)]
        self.start()

    def _clock(self) -> str:
        return f"its clock {self.skew} ms ahead"

    def _op_takeover(self, op: Op) -> str:
        late = PAUSES[op.a % len(PAUSES)] * (4 if op.b % 3 == 0 else 1)
        self.take_over(late)
        return f"another scheduler takes the lead; what the first one had sent arrives {late} ms later"

    def _op_freeze(self, op: Op) -> str:
        pause = PAUSES[op.a % len(PAUSES)]
        self.freeze(pause)
        return f"the scheduler stands still for {pause} ms"

    def _op_clock(self, op: Op) -> str:
        by = _JUMPS[op.a % len(_JUMPS)]
        self.jump(by)
        return f"the scheduler's clock is set, {by} ms ahead of what it was"

    def _op_store(self, op: Op) -> str:
        if op.a % 2:
            self.store_down()
            return "the store is down"
        self.store_up()
        return "the store is up"

    def _op_relist(self, _: Op) -> str:
        self.tell(*self.lists())
        return "everything is listed anew"

    def _op_gap(self, op: Op) -> str:
        source, length = ("pods", "pods", "nodes", "owners")[op.a % 4], _GAPS[op.b % len(_GAPS)]
        self.gap(source, length)
        return f"the watch of {source} is cut off for {length} ms"


def _show(amounts: Amounts) -> str:
    return " ".join(f"{name}={n // 1000 if name == 'cpu' else n}" for name, n in amounts)
