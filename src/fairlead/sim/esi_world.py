"""A simulated world with external schedulers' objects: Testbeds, BatchJobs, Schedulings and applications.

A `sim.world.World` around the same engine. It keeps custom resources (`sim.esi_objects`), carries out what
the engine asks to be created, patched and deleted, plays the operators (`sim.esi_operators`) and tells of all
of it as one more source, so that a crash and a new start at any point work as for pods. Used by tests, by the
simulated REST server (`sim.esi_cluster`) and by `fairlead esi simulate`. Deterministic.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.application import ESI_THINGS, Account, EsiThing, PriorityClass, tag_of
from fairlead.model.batchjob import AppKind, BatchJob, BatchJobStatus
from fairlead.model.esi import SCHEDULER, Ref, Testbed, TestbedStatus
from fairlead.model.node import Node
from fairlead.model.pod import Pod
from fairlead.model.quantity import amount
from fairlead.model.scheduling import Scheduling, SchedulingStatus
from fairlead.model.settings import Settings
from fairlead.sim.cluster import SOURCES
from fairlead.sim.esi_objects import ESI_KINDS, KINDS, Manifest, Objects, Refused, owner_of, part, ref_of
from fairlead.sim.esi_operators import Operators, RunTimes
from fairlead.sim.esi_pods import read
from fairlead.sim.faults import Faults
from fairlead.sim.world import World
from fairlead.wire import applications
from fairlead.wire import esi as wire

REQUEST_DELAY = 1
SURROUNDINGS = "surroundings"
SETTINGS = Settings(pace=0, sources=(*Settings().sources, SURROUNDINGS), aliases=(SCHEDULER,))
_READERS: dict[str, Callable[[bytes], Any]] = {
    **{kind.value: reader for kind, reader in applications.READERS.items()},
    "Testbed": wire.testbed,
    "BatchJob": wire.batch_job,
    "Scheduling": wire.scheduling,
}
Writes = cmd.CreateObject | cmd.PatchObject | cmd.DeleteObject | cmd.PatchAnnotation


class EsiWorld(World):
    """`objects` is the truth; `put`, `delete` and `edit` are what a user does to it."""

    sources = (*SOURCES, SURROUNDINGS)

    def __init__(
        self,
        settings: Settings | None = None,
        faults: Faults | None = None,
        run_times: RunTimes | None = None,
        **kwargs: Any,
    ) -> None:
        self.objects = Objects(self._next_version, lambda: self.now, self._changed)
        self.operators = Operators(self, self.objects, run_times or RunTimes())
        self.accounts: dict[str, Account] = {}
        self.classes: dict[str, PriorityClass] = {}
        """By name. None at all means that nobody looks: a cluster always has some."""
        self.events: list[cmd.Announce] = []
        """Kubernetes Events that the engine wrote."""
        self.refusing: dict[tuple[str, str], tuple[int, str]] = {}
        """(Verb, kind) -> (HTTP code, text): how such writes of the engine fail until it is taken out."""
        self.watchers: list[Callable[[], None]] = []
        """Called after each batch that the engine has learned."""
        self._ghosts = 0
        super().__init__(settings or SETTINGS, faults, **kwargs)

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    # -- what a user does ----------------------------------------------------------------------------

    def put(self, thing: Testbed | BatchJob | Scheduling | Manifest) -> str:
        """Create it, or replace what has its name (its status only where the thing brings one); the uid."""
        raw = thing if isinstance(thing, dict) else manifest(thing)
        old = self.objects.find(raw["kind"], ref_of(raw))
        kept = self.objects.create(raw) if old is None else self.objects.replace(old["metadata"]["uid"], raw)
        if raw.get("status"):
            kept = self.objects.patch(kept["metadata"]["uid"], {"status": raw["status"]}, "status")
        return kept["metadata"]["uid"]

    def edit(
        self, kind: str, name: str, changes: Manifest, namespace: str = "default", sub: str = ""
    ) -> None:
        """A merge patch, as kubectl patch."""
        self.objects.patch(self.uid(kind, name, namespace), changes, sub)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """As kubectl delete; what it owns goes with it."""
        self.objects.delete(self.uid(kind, name, namespace))

    def account(self, name: str, namespace: str = "default") -> None:
        """A ServiceAccount is created."""
        made = Account(f"sa-{namespace}-{name}", self._next_version(), namespace, name)
        self.accounts[made.uid] = made
        self._tell_watch(ev.EsiSeen(made))

    def priority_class(self, name: str) -> None:
        """A PriorityClass is created."""
        self.classes[name] = made = PriorityClass(f"class-{name}", self._next_version(), name)
        self._tell_watch(ev.EsiSeen(made))

    def lose_class(self, name: str) -> None:
        """It is deleted."""
        self._tell_watch(ev.EsiGone(self.classes.pop(name).uid, self._next_version()))

    def node(
        self,
        node: Node | str,
        labels: Mapping[str, str] | None = None,
        cpu: str = "2",
        memory: str = "20Gi",
    ) -> None:
        """A node as it is, or one by its name, with the sizes of ESI's own tests."""
        if isinstance(node, str):
            found = {"cpu": amount("cpu", cpu), "memory": amount("memory", memory), "pods": 110}
            named = {"kubernetes.io/hostname": node, **(labels or {})}
            node = Node(f"node-{node}", node, 0, tuple(sorted(found.items())), named, created=self.now)
        super().node(node)

    def label(self, node: str, **labels: str | None) -> None:
        """Set labels of a node (`__` for `/`); None takes one away."""
        changes = {key.replace("__", "/"): value for key, value in labels.items()}
        self.label_node(node, changes)

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set these labels of a node; None takes one away."""
        merged = {**self.nodes[name].labels, **labels}
        kept = {key: value for key, value in merged.items() if value is not None}
        self.node(structs.replace(self.nodes[name], labels=kept))

    # -- what there is -------------------------------------------------------------------------------

    def uid(self, kind: str, name: str, namespace: str = "default") -> str:
        """Raises Refused 404."""
        return self.objects.get(kind, Ref(namespace, name))["metadata"]["uid"]

    def thing(self, kind: str, name: str, namespace: str = "default") -> Any:
        """A Testbed, BatchJob or Scheduling as the cluster has it, None if it is not there."""
        raw = self.objects.find(kind, Ref(namespace, name))
        return None if raw is None else self._read(raw)

    def testbed(self, name: str, namespace: str = "default") -> TestbedStatus:
        """Its status as users see it."""
        found = self.thing("Testbed", name, namespace)
        return found.status if found else TestbedStatus()

    def job(self, name: str, namespace: str = "default") -> BatchJobStatus:
        found = self.thing("BatchJob", name, namespace)
        return found.status if found else BatchJobStatus()

    def scheduling(self, name: str, namespace: str = "default") -> SchedulingStatus:
        found = self.thing("Scheduling", name, namespace)
        return found.status if found else SchedulingStatus()

    def app_of(self, name: str, namespace: str = "default") -> Manifest | None:
        """The application of a BatchJob."""
        ref = Ref(namespace, name)
        return next((found for kind in AppKind if (found := self.objects.find(kind, ref))), None)

    def pods_of(self, name: str) -> list[Pod]:
        """The pods of a BatchJob's application that are still there."""
        app = self.app_of(name)
        uid = app["metadata"]["uid"] if app else ""
        return [pod for pod in self.pods.values() if pod.owner is not None and pod.owner.uid == uid]

    def ghosts(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.owner is not None and pod.owner.kind == "Testbed"]

    # -- what goes wrong -----------------------------------------------------------------------------

    def fail(self, job: str, *after: int) -> None:
        """The next applications of a job fail, each after so long of running; -1: it cannot be submitted."""
        self.operators.failing.setdefault(job, []).extend(after or (1_000,))

    def stall(self, job: str, stuck: bool = True) -> None:
        """Applications of a job get no pods from now on, as where an image cannot be pulled."""
        if stuck:
            self.operators.stuck[job] = None
        else:
            self.operators.stuck.pop(job, None)

    def vanish(self, job: str, namespace: str = "default") -> None:
        """Somebody deletes the application, as a time to live does."""
        app = self.app_of(job, namespace)
        if app is not None:
            self.objects.delete(app["metadata"]["uid"])

    # -- telling -------------------------------------------------------------------------------------

    def listing(self, source: str) -> list[ev.Event]:
        if source != SURROUNDINGS:
            return super().listing(source)
        things: list[EsiThing] = [self._read(raw) for raw in self.objects.all()]
        things += self.accounts.values()
        things += self.classes.values()
        events: list[ev.Event] = [ev.EsiSeen(thing) for thing in things]
        uids: dict[str, list[str]] = {tag_of(kind): [] for kind in ESI_THINGS}
        for thing in things:
            uids[tag_of(thing)].append(thing.uid)
        events += (ev.Listed(tag, tuple(found), self.version) for tag, found in uids.items())
        return [*events, ev.Synced(source)]

    def _read(self, raw: Manifest) -> EsiThing:
        return _READERS[raw["kind"]](json.dumps(raw).encode())

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        raw = new or old
        assert raw is not None
        uid, ours = raw["metadata"]["uid"], raw["kind"] not in ESI_KINDS
        if new is None:
            self._tell_watch(ev.EsiGone(uid, self._next_version()))
            if ours:
                self.operators.gone(uid)
            for pod in [p for p in self.pods.values() if p.owner is not None and p.owner.uid == uid]:
                self._end_pod(pod.uid)
            return
        if ours and old is None:
            self.operators.created(new)
        self._tell_watch(ev.EsiSeen(self._read(new)))

    # -- pods ----------------------------------------------------------------------------------------

    def pod(self, pod: Pod, run_time: int = 0) -> None:
        old = self.pods.get(pod.uid)
        super().pod(pod, run_time)
        self.operators.pod_changed(old, self.pods[pod.uid])

    def pod_gone(self, uid: str) -> None:
        old = self.pods.get(uid)
        super().pod_gone(uid)
        self.operators.pod_changed(old, None)

    def _end_pod(self, uid: str, grace: int = REQUEST_DELAY) -> None:
        if not self.pods[uid].deleting:
            self.change(uid, deleting=True)
            self.at(grace, lambda: self.pod_gone(uid))

    # -- what the engine asks for --------------------------------------------------------------------

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        super().perform(commands)
        for watch in self.watchers:
            watch()

    def forget(self) -> None:
        """Let go of what is only kept for tests to look at: who serves a world for hours does that."""
        self.log.clear()
        self.batches.clear()
        self.events.clear()

    def _perform(self, command: cmd.Command) -> None:
        life = self.epoch
        match command:
            case cmd.CreateObject() | cmd.PatchObject() | cmd.DeleteObject() | cmd.PatchAnnotation():
                self.at(REQUEST_DELAY, lambda: self._write_object(command, life))
            case cmd.Announce():
                self.events.append(command)
            case _:
                super()._perform(command)

    def _write_object(self, command: Writes, life: int) -> None:
        """A request arrives; one of a process that is paused, once that goes on (`take_over`)."""
        late = self._woken.get(life, 0) - self.now
        if late > 0:
            self.at(late, lambda: self._write_object(command, life))
            return
        try:
            match command:
                case cmd.CreateObject():
                    self._allowed("create", command.kind)
                    self._create(command)
                case cmd.PatchObject():
                    self._allowed("patch", command.ref.kind)
                    self._patch(command)
                case cmd.DeleteObject():
                    self._allowed("delete", command.ref.kind)
                    self._delete(command)
                case cmd.PatchAnnotation():
                    notes = {"metadata": {"annotations": {command.key: command.value or None}}}
                    ref = command.ref
                    ref = cmd.ObjectRef(ref.kind, ref.namespace, ref.name, ref.uid)
                    self._patch(cmd.PatchObject(ref, json.dumps(notes)))
        except Refused as error:
            self._refused(command, error)

    def _allowed(self, verb: str, kind: str) -> None:
        if (verb, kind) in self.refusing:
            raise Refused(*self.refusing[verb, kind])

    def _refused(self, command: Writes, error: Refused) -> None:
        match command:
            case cmd.CreateObject():
                self._later(0, _failure("create", command.kind, command, error))
            case cmd.PatchObject():
                self._later(0, _failure("patch", command.ref.kind, command.ref, error))
            case cmd.DeleteObject():
                if error.status != 404:
                    self._later(0, _failure("delete", command.ref.kind, command.ref, error))
            case cmd.PatchAnnotation():
                pass

    def _create(self, create: cmd.CreateObject) -> None:
        raw: Manifest = json.loads(create.body)
        raw["metadata"] |= {"namespace": create.namespace, "name": create.name}
        if create.kind == "Pod":
            self._create_pod(raw)
        elif create.kind not in KINDS:
            raise Refused(404, f"no kind {create.kind} is installed")
        elif self.objects.find(create.kind, ref_of(raw)) is None and not self._orphan(raw):
            self.objects.create(raw)

    def _orphan(self, raw: Manifest) -> bool:
        """Whether its owner is gone: then the garbage collector takes it at once."""
        owner = owner_of(raw)
        return bool(owner) and self.objects.by_uid(owner) is None

    def _create_pod(self, raw: Manifest) -> None:
        """A ghost: it names its node itself, and is run by the kubelet there."""
        name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
        if any(pod.name == name and pod.namespace == namespace for pod in self.pods.values()):
            return
        if self._orphan(raw):
            return
        self._ghosts += 1
        uid = f"{name}-{self._ghosts}"
        self.pod(structs.replace(read(raw), uid=uid, version=0))
        if self.pods[uid].node:
            self.at(REQUEST_DELAY, lambda: self._run(uid))

    def _patch(self, patch: cmd.PatchObject) -> None:
        ref, changes = patch.ref, json.loads(patch.body)
        pod = self.pods.get(ref.uid) if ref.kind == "Pod" else None
        if pod is None:
            self.objects.patch(ref.uid, changes, patch.sub, str(ref.version or ""))
            return
        if ref.version and ref.version != pod.version:
            raise Refused(409, "the pod has been modified")
        meta = part(changes, "metadata")
        notes = _merged(pod.annotations, part(meta, "annotations"))
        self.change(ref.uid, labels=_merged(pod.labels, part(meta, "labels")), annotations=notes)

    def _delete(self, delete: cmd.DeleteObject) -> None:
        ref = delete.ref
        if ref.kind != "Pod":
            self.objects.delete(ref.uid, str(ref.version or ""))
        elif ref.uid in self.pods:
            if delete.grace == 0:
                self.pod_gone(ref.uid)
            else:
                self._end_pod(ref.uid)


def _merged(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def _failure(
    verb: str, kind: str, about: cmd.CreateObject | cmd.ObjectRef, error: Refused
) -> ev.ObjectFailed:
    return ev.ObjectFailed(verb, kind, about.namespace, about.name, error.status, str(error))


def manifest(thing: Testbed | BatchJob | Scheduling) -> Manifest:
    """The custom resource of a thing."""
    meta: Manifest = {"namespace": thing.namespace or "default", "name": thing.name}
    meta |= {"labels": thing.labels, "annotations": thing.annotations}
    raw: Manifest = {"kind": tag_of(thing), "metadata": {k: v for k, v in meta.items() if v}}
    raw["spec"] = msgspec.to_builtins(thing.spec) if thing.spec is not None else {}
    if thing.status != type(thing.status)():
        raw["status"] = msgspec.to_builtins(thing.status)
    return raw
