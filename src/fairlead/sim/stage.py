"""What can happen in a scenario: each verb as one method that changes the simulated world.

Called by `sim.scenario` with the words of a line; must not look at the engine. Verbs and their words are
explained in `sim.scenario`. A verb that cannot be understood raises `Unclear`, which names the word.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from fairlead.core import durations
from fairlead.model import quantity
from fairlead.model.event import BindError
from fairlead.model.node import Node, Taint
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, OwnerRef, Pod, PodPhase, Shape, Toleration
from fairlead.model.rules import EVERY_ADDRESS
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings
from fairlead.sim.script import Script
from fairlead.sim.table import bare
from fairlead.sim.world import World

_KINDS = {"job": "Job", "deployment": "ReplicaSet", "statefulset": "StatefulSet", "ordered": "StatefulSet"}
_LABELS = {
    "fairlead": ("fairlead.dev/group", "fairlead.dev/group-size"),
    "fluxnetes": ("fluxnetes.group-name", "fluxnetes.group-size"),
    "fluence": ("scheduling.x-k8s.io/pod-group", "fluence.group-size"),
}
_RESOURCES = {"cpu", "memory", "gpu", "pods", "disk"}
_NOTES = {
    "duration", "exclusive", "on-member-failure", "on-timeout", "preferred-topology", "queue",
    "required-topology",
}  # fmt: skip
_LEVELS = {"racks": "topology.kubernetes.io/rack", "zones": "topology.kubernetes.io/zone"}


class Unclear(ValueError):
    """A word of a scenario that nobody understands; the message names it."""


class Entry(NamedTuple):
    """Something submitted under a name: its members' template, and how many have come so far."""

    name: str
    shapes: tuple[Shape, ...]
    template: Pod
    owner: Owner | None
    run_time: int
    labelled: bool
    grace: int = 0


def amounts(words: dict[str, str], **fixed: int) -> Amounts:
    """The words that are resources, in the units of the model, sorted by name."""
    found = {k: quantity.amount(k, v) for k, v in words.items() if k in _RESOURCES}
    found |= {k: EVERY_ADDRESS for k in words if k.startswith("port:")}
    return tuple(sorted((name, n) for name, n in {**fixed, **found}.items() if n))


def split(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Plain words and `key=value` words."""
    plain = [word for word in words if "=" not in word]
    return plain, dict(word.split("=", 1) for word in words if "=" in word)


def length(text: str) -> int:
    """A duration in milliseconds."""
    found = durations.duration(text)
    if found is None:
        raise Unclear(f"{text!r} is not a duration such as 90s or 2h30m")
    return found


class Stage:
    """A World with names: verbs change it, and nothing is told to the engine but through its watch."""

    def __init__(self, settings: Settings) -> None:
        self.script = Script()
        self.world = World(settings, self.script)
        self.entries: dict[str, Entry] = {}
        self.count: dict[str, int] = {}
        self.zero = self.world.now
        self._uid = 0
        self._verbs: dict[str, Callable[[list[str]], None]] = {
            name[4:]: getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }

    def do(self, words: list[str]) -> None:
        """Carry out one line's action."""
        verb = self._verbs.get(words[0])
        if verb is None:
            raise Unclear(f"{words[0]!r} is no verb; there are {', '.join(sorted(self._verbs))}")
        verb(words[1:])

    def pods_of(self, name: str) -> list[Pod]:
        """The pod of this name, or all pods of the entry of this name, in order of creation."""
        pods = [(bare(pod.namespace, pod.name), pod) for pod in self.world.pods.values()]
        found = [pod for each, pod in pods if each == name]
        return found or [pod for each, pod in pods if each.rpartition("-")[0] == name]

    def _new_uid(self, name: str) -> str:
        self._uid += 1
        return f"{name}:{self._uid}"

    # -- nodes ---------------------------------------------------------------------------------------

    def add_nodes(self, number: int, words: dict[str, str]) -> None:
        """The first nodes, in racks and zones of so many each."""
        of = {key: int(words.pop(word)) for word, key in _LEVELS.items() if word in words}
        for i in range(number):
            where = {key: f"{key[-4:]}{i // size}" for key, size in of.items()}
            self.add_node(f"n{i}", {**words, **where})

    def add_node(self, name: str, words: dict[str, str]) -> None:
        labels = {"kubernetes.io/hostname": name}
        taints: list[Taint] = []
        for key, value in words.items():
            if key == "taint":
                taint, _, effect = value.partition(":")
                taints.append(Taint(taint, "", effect or "NoSchedule"))
            elif key not in _RESOURCES:
                labels[key] = value
        self.world.node(Node(self._new_uid(name), name, 0, amounts(words, pods=110), labels, tuple(taints)))

    def _do_node(self, words: list[str]) -> None:
        name, what, *rest = words
        _, pairs = split(rest)
        if what == "joins":
            self.add_node(name, pairs)
            return
        if name not in self.world.nodes:
            raise Unclear(f"there is no node {name!r}")
        node = self.world.nodes[name]
        if what == "gone":
            self.world.node_gone(name)
        elif what in ("cordoned", "uncordoned"):
            self.world.node(structs.replace(node, unschedulable=what == "cordoned"))
        elif what in ("down", "up"):
            self.world.node(structs.replace(node, ready=what == "up"))
        elif what == "labelled":
            self.world.node(structs.replace(node, labels={**node.labels, **pairs}))
        elif what == "has":
            self.world.node(structs.replace(node, allocatable=amounts(pairs, pods=110)))
        else:
            raise Unclear(f"a node cannot be {what!r}")

    # -- pods and owners -----------------------------------------------------------------------------

    def _do_submit(self, words: list[str]) -> None:
        name, *rest = words
        plain, pairs = split(rest)
        shapes = list(self._shapes(rest, pairs))
        kind = plain[plain.index("as") + 1] if "as" in plain else "bare"
        namespace = pairs.get("ns", "default")
        many = len(shapes) > 1 or "size" in pairs
        labelled = pairs.get("labels", "") != "none" and ((kind == "bare" and many) or "labels" in pairs)
        owner = None
        if kind != "bare":
            if kind not in _KINDS:
                raise Unclear(f"{kind!r} is no kind; there are {', '.join(_KINDS)}, bare")
            size = int(pairs["parallelism"]) if "parallelism" in pairs else len(shapes)
            owner = Owner(
                self._new_uid(name), _KINDS[kind], namespace, name, 0, size,
                suspended="suspended" in plain, ordered=kind == "ordered",
                deadline=length(pairs["deadline"]) if "deadline" in pairs else 0, started=self.world.now,
                retries=int(pairs["retries"]) if "retries" in pairs else None,
            )  # fmt: skip
            self.world.owner(owner)
        template = Pod(
            uid="", namespace=namespace, name=name, version=0, shape=shapes[0], scheduler="fairlead",
            priority=int(pairs.get("priority", "0")), gated="gated" in plain,
            labels=self._labels(name, len(shapes), pairs) if labelled else {},
            annotations=self._annotations(plain, pairs),
            owner=OwnerRef(owner.kind, name, owner.uid) if owner else None,
            walltime=length(pairs["own-deadline"]) if "own-deadline" in pairs else 0,
        )  # fmt: skip
        run_time = length(plain[plain.index("runs") + 1]) if "runs" in plain else 0
        if not run_time and "for" in plain:
            run_time = length(plain[plain.index("for") + 1])
        grace = length(pairs["grace"]) if "grace" in pairs else 0
        many = labelled or owner is not None or many
        entry = Entry(name, tuple(shapes), template, owner, run_time, many, grace)
        key = bare(namespace, name)
        self.entries[key] = entry
        self.count.setdefault(key, 0)
        first = int(pairs.get("first", "0" if "suspended" in plain else str(len(shapes))))
        for shape in shapes[:first]:
            self._create(key, shape)

    def _shapes(self, words: list[str], pairs: dict[str, str]) -> Iterator[Shape]:
        """The members' shapes, one per member: `2x cpu=4 + 1x cpu=8 gpu=1`."""
        selector = tuple(
            Expression(*(key_value[0], Operator.IN, (key_value[1],)))
            for key_value in [pair.split(":") for pair in pairs.get("only", "").split(",") if pair]
        )
        tolerations = tuple(Toleration(key, "Exists") for key in pairs.get("tolerates", "").split(",") if key)
        unsupported = tuple(field for field in pairs.get("unsupported", "").split(",") if field)
        parts = re.split(r"(?:^| )\+(?: |$)", " ".join(words))
        for part in parts:
            found = re.search(r"(?:^| )(\d+)x(?: |$)", part)
            asked = amounts(split(part.split())[1], pods=1)
            shape = Shape(asked, selector, (), tolerations, unsupported)
            yield from [shape] * (int(found[1]) if found else 1)

    @staticmethod
    def _labels(name: str, size: int, pairs: dict[str, str]) -> dict[str, str]:
        group, size_label = _LABELS[pairs.get("labels", "fairlead")]
        labels = {group: pairs.get("group", name)}
        stated = pairs.get("size", str(size))
        return labels if stated == "none" else {**labels, size_label: stated}

    def _annotations(self, plain: list[str], pairs: dict[str, str]) -> dict[str, str]:
        notes = {f"fairlead.dev/{k}": v for k, v in pairs.items() if k in _NOTES}
        if "for" in plain:
            notes["fairlead.dev/duration"] = plain[plain.index("for") + 1]
        if "begin" in pairs:
            hours, minutes, *more = pairs["begin"].split(":")
            seconds = self.zero // 1000 + int(*more)
            notes["fairlead.dev/begin-time"] = f"1970-01-01T{hours}:{minutes}:{seconds:02d}Z"
        return notes

    def _create(self, key: str, shape: Shape) -> None:
        entry = self.entries[key]
        number = self.count[key]
        self.count[key] += 1
        alone = not entry.labelled and len(entry.shapes) == 1
        name = entry.name if alone else f"{entry.name}-{number}"
        pod = structs.replace(entry.template, uid=self._new_uid(name), name=name, shape=shape)
        if entry.grace:
            self.world.grace[pod.uid] = entry.grace
        self.world.pod(pod, entry.run_time)

    def _do_bring(self, words: list[str]) -> None:
        name, number = words[0], int(words[1])
        entry = self.entries[name]
        for _ in range(number):
            self._create(name, entry.shapes[min(self.count[name], len(entry.shapes) - 1)])

    def _do_burst(self, words: list[str]) -> None:
        """`burst g 1000 2x cpu=1`: g0, g1, … all at once."""
        for i in range(int(words[1])):
            self._do_submit([f"{words[0]}{i}", *words[2:]])

    def _do_foreign(self, words: list[str]) -> None:
        name, _, node, *rest = words
        plain, pairs = split(rest)
        run_time = length(plain[plain.index("for") + 1]) if "for" in plain else 0
        kind = plain[plain.index("of") + 1] if "of" in plain else ""
        owner = OwnerRef(kind, name, f"owner-{name}") if kind else None
        shape = Shape(amounts(pairs, pods=1))
        pod = Pod(self._new_uid(name), "default", name, 0, shape, node=node, owner=owner)
        self.world.pod(structs.replace(pod, phase=PodPhase.RUNNING, started=True))
        if run_time:
            self.world.at(run_time, lambda: self.world.change(pod.uid, phase=PodPhase.SUCCEEDED))

    def _pods(self, words: list[str]) -> list[Pod]:
        found = [pod for word in words for pod in self.pods_of(word)]
        if not found:
            raise Unclear(f"there is no pod of {' '.join(words)!r}")
        return found

    def _do_delete(self, words: list[str]) -> None:
        for pod in self._pods(words):
            self.world.pod_gone(pod.uid)
        for word in words:
            entry = self.entries.get(word)
            if entry is not None and entry.owner is not None:
                self.world.owner_gone(entry.owner.uid)

    def _do_terminate(self, words: list[str]) -> None:
        """Deleted, but still there: the pods have been asked to go; their owner is gone."""
        for pod in self._pods(words):
            self.world.change(pod.uid, deleting=True)
        for word in words:
            entry = self.entries.get(word)
            if entry is not None and entry.owner is not None:
                self.world.owner_gone(entry.owner.uid)

    def _do_finish(self, words: list[str]) -> None:
        for pod in self._pods(words):
            self.world.change(pod.uid, phase=PodPhase.SUCCEEDED)

    def _do_fail(self, words: list[str]) -> None:
        for pod in self._pods(words):
            self.world.change(pod.uid, phase=PodPhase.FAILED)

    def _do_completes(self, words: list[str]) -> None:
        """The Job itself says that it is complete, or what else the second word says."""
        self._own(words[0], ended=words[1] if len(words) > 1 else "completed")

    def _do_overdue(self, words: list[str]) -> None:
        """The kubelet ends the pods for their own activeDeadlineSeconds."""
        for pod in self._pods(words):
            self.world.change(pod.uid, phase=PodPhase.FAILED, overdue=True)

    def _own(self, name: str, **fields: object) -> None:
        entry = self.entries[name]
        if entry.owner is None:
            raise Unclear(f"{name} has no owner")
        self.world.owner(structs.replace(self.world.owners[entry.owner.uid], **fields))

    def _do_wants(self, words: list[str]) -> None:
        """`wants big 2`: so many pods side by side from now on."""
        self._own(words[0], size=int(words[1]))

    def _do_suspend(self, words: list[str]) -> None:
        self._own(words[0], suspended=True)
        for pod in self.pods_of(words[0]):
            self.world.pod_gone(pod.uid)

    def _do_resume(self, words: list[str]) -> None:
        self._own(words[0], suspended=False)
        for shape in self.entries[words[0]].shapes:
            self._create(words[0], shape)

    def _do_ungate(self, words: list[str]) -> None:
        for pod in self._pods(words):
            self.world.change(pod.uid, gated=False)

    def _do_relabel(self, words: list[str]) -> None:
        """`relabel big-1 group=other`; an empty value takes the label away."""
        plain, pairs = split(words)
        for pod in self._pods(plain):
            labels = dict(pod.labels)
            for key, value in pairs.items():
                label = _LABELS["fairlead"][("group", "size").index(key)]
                labels.pop(label, None)
                if value:
                    labels[label] = value
            self.world.change(pod.uid, labels=labels)

    def _do_edit(self, words: list[str]) -> None:
        """`edit big duration=2h`: on its pods; an empty value takes the annotation away."""
        plain, pairs = split(words)
        for pod in self._pods(plain):
            notes = {**pod.annotations, **{f"fairlead.dev/{key}": value for key, value in pairs.items()}}
            self.world.change(pod.uid, annotations={key: value for key, value in notes.items() if value})

    def _do_patch(self, words: list[str]) -> None:
        """Somebody changes something of no concern: only the resourceVersion moves."""
        for pod in self._pods(words):
            self.world.change(pod.uid)

    def _do_bindto(self, words: list[str]) -> None:
        """Somebody else binds our pod."""
        for pod in self._pods(words[:1]):
            self.world.change(pod.uid, node=words[1], phase=PodPhase.RUNNING)

    def _do_resize(self, words: list[str]) -> None:
        """`resize big-1 cpu=2`: in place, as by the pod's resize subresource; the kubelet has agreed."""
        plain, pairs = split(words)
        for pod in self._pods(plain):
            requests = {**dict(pod.shape.requests), **dict(amounts(pairs))}
            shape = structs.replace(pod.shape, requests=tuple(sorted(requests.items())))
            self.world.change(pod.uid, shape=shape)

    # -- faults --------------------------------------------------------------------------------------

    def _do_binds(self, words: list[str]) -> None:
        """`binds of big-1 refused 2`, `binds of all unknown 1 arriving 500ms`."""
        _, whose, error, times, *rest = words
        late = None
        if rest:
            late = 0 if rest[-1] == "0" else length(rest[-1])
        self.script.orders.append([whose, BindError(error), late, int(times)])

    def _do_kubelet(self, words: list[str]) -> None:
        """`kubelet refuses big-1 1`, or any pod of `big`: so many times."""
        self.script.refusals[words[1]] = int(words[2])

    def _do_store(self, words: list[str]) -> None:
        if words == ["down"]:
            self.world.store_down()
        else:
            self.world.store_up()

    def _do_crash(self, _: list[str]) -> None:
        self.world.crash()

    def _do_restart(self, _: list[str]) -> None:
        self.script.gap = False
        self.world.start()

    def _do_gap(self, _: list[str]) -> None:
        """The watch misses all that happens, until it lists anew."""
        self.script.gap = True

    def _do_relist(self, _: list[str]) -> None:
        self.script.gap = False
        self.world.tell(*self.world.lists())

    def _do_later(self, _: list[str]) -> None:
        """Nothing but time."""
