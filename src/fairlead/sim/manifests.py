"""Kubernetes manifests as arrivals: Pods, and the pods that Jobs and services would create, by group.

Called by `sim.inputs`. What a pod asks for is read by `wire.pod`, as from a live cluster; here is only what
an API server and controllers would add. Every pod is taken to be Fairlead's, whatever schedulerName it has.
Must not decide what fits.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec import structs

from fairlead.core import durations, grouping
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod
from fairlead.model.settings import Settings
from fairlead.sim.logs import SECOND, Faults
from fairlead.sim.workload import Arrival
from fairlead.wire import files, nodefile
from fairlead.wire import objects as wire_objects
from fairlead.wire import pod as wire_pod
from fairlead.wire.files import Fields, FileError
from fairlead.wire.structs import WireNode, WireOwner, WirePod

RUN_TIME = "fairlead.dev/run-time"
SUBMIT_TIME = "fairlead.dev/submit-time"
JOB_RUN_TIME = SECOND
"""How long pods of a Job run that say nothing, as on the local cluster; others run for ever."""
SERVICES = {"ReplicaSet", "Deployment", "StatefulSet", "ReplicationController"}
_Wire = TypeVar("_Wire")
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Contents(NamedTuple):
    """What a file of manifests holds."""

    nodes: list[Node]
    arrivals: list[Arrival]


class Member(NamedTuple):
    """One pod to be, with its owner; times in milliseconds, `at` -1 where none is stated."""

    pod: Pod
    owner: Owner | None
    at: int
    run: int


def read(path: Path, text: str, limit: int, faults: Faults) -> Contents:
    """The nodes in the file, and its groups in the order of their submission, the first `limit` (0: all)."""
    found = [(where, fields) for where, fields in files.objects(path, text)]
    reader = _Reader(path, found, faults)
    members = [member for where, fields in found for member in reader.members(where, fields)]
    arrivals = sorted(_groups(members), key=lambda arrival: arrival.at)
    return Contents(nodes(path, found), arrivals[:limit] if limit else arrivals)


def nodes(path: Path, found: Iterable[tuple[str, Fields]]) -> list[Node]:
    """The nodes among these manifests; one without a limit of pods has none. Raises FileError."""
    result: list[Node] = []
    manifests: list[Fields] = []
    for where, fields in found:
        if fields.get("kind", "Node") != "Node":
            continue
        nodefile.check(path, where, fields)
        manifests.append(fields)
        status = cast("Fields", fields.get("status") or {})
        whole: Fields = {**fields, "status": {"allocatable": status.get("capacity") or {}, **status}}
        try:
            node = wire_objects.node(msgspec.convert(files.plain(whole), WireNode))
        except (msgspec.MsgspecError, ValueError) as error:
            raise FileError(f"{path}: {where}: {error}") from None
        labels = {"kubernetes.io/hostname": node.name, **node.labels}
        result.append(structs.replace(node, uid=node.uid or f"node/{node.name}", version=1, labels=labels))
    nodefile.check_names(path, manifests)
    return result


class _Reader:
    """Objects of one file -> members. Priority classes and owners may stand anywhere in it."""

    def __init__(self, path: Path, found: Iterable[tuple[str, Fields]], faults: Faults) -> None:
        self._path = path
        self._faults = faults
        self._priorities = dict(_SYSTEM)
        self._uids: set[object] = set()
        self._names: set[tuple[str, str, str]] = set()
        for where, fields in found:
            meta = self._map(where, fields, "metadata")
            self._uids.add(meta.get("uid"))
            value: object = fields.get("value")
            if fields.get("kind") == "PriorityClass" and isinstance(value, int):
                self._priorities[str(meta.get("name"))] = value

    def members(self, where: str, fields: Fields) -> Iterator[Member]:
        """The pods that this object is or would create."""
        kind = str(fields.get("kind"))
        meta, spec = self._map(where, fields, "metadata"), self._map(where, fields, "spec")
        if self._owned(meta):
            return
        if kind == "Pod":
            yield self._member(where, fields, meta, None, self._name(where, kind, meta))
        elif kind == "Job" or kind in SERVICES:
            yield from self._created(where, kind, fields, meta, spec)
        elif kind == "JobSet":
            yield from self._jobs(where, meta, spec)
        elif {"template", "jobTemplate", "replicatedJobs", "leaderWorkerTemplate"} & set(spec):
            name = f"{kind} {meta.get('name')}"
            self._faults.add(0, "bad", f"{where}: {name}: it is not known which pods this kind creates")

    def _owned(self, meta: Fields) -> bool:
        """Whether a controller that is in the file, too, stands for this object."""
        refs: object = meta.get("ownerReferences") or []
        return isinstance(refs, list) and any(
            isinstance(ref, dict) and cast("Fields", ref).get("uid") in self._uids
            for ref in cast("list[object]", refs)
        )

    def _jobs(self, where: str, meta: Fields, spec: Fields) -> Iterator[Member]:
        """The pods of the Jobs that a JobSet would create, named as its controller names them."""
        name = self._name(where, "JobSet", meta)
        if spec.get("suspend"):
            self._faults.add(0, "bad", f"{where}: JobSet {name} is suspended and creates no pods")
            return
        parts: object = spec.get("replicatedJobs") or []
        for part in cast("list[object]", parts) if isinstance(parts, list) else [None]:
            fields = cast("Fields", part) if isinstance(part, dict) else {}
            times: object = fields.get("replicas", 1)
            if not isinstance(fields.get("name"), str) or not isinstance(times, int):
                raise FileError(
                    f"{self._path}: {where}: JobSet {name}: a replicatedJob needs a name and replicas"
                )
            job = self._map(where, fields, "template")
            for number in range(times):
                own = {**self._map(where, job, "metadata"), "name": f"{name}-{fields['name']}-{number}"}
                own["namespace"] = meta.get("namespace") or "default"
                made = self._map(where, job, "spec")
                whole: Fields = {"kind": "Job", "metadata": own, "spec": made}
                yield from self._created(where, "Job", whole, own, made)

    def _created(self, where: str, kind: str, fields: Fields, meta: Fields, spec: Fields) -> Iterator[Member]:
        name = self._name(where, kind, meta)
        kept = {**fields, "metadata": {**meta, "name": name}}
        kept.pop("status", None)
        wire = self._converted(f"{where}: {kind} {name}", kept, WireOwner)
        # Pods of a Deployment belong to its ReplicaSet.
        owner = wire_objects.owner("ReplicaSet" if kind == "Deployment" else kind, wire)
        namespace = owner.namespace or "default"
        owner = structs.replace(owner, uid=f"{kind}/{namespace}/{name}", namespace=namespace, version=1)
        if owner.suspended:
            self._faults.add(0, "bad", f"{where}: {kind} {name} is suspended and creates no pods")
            return
        template = self._map(where, spec, "template")
        for index in range(owner.size):
            yield self._member(where, template, meta, owner, f"{name}-{index}")

    def _member(self, where: str, template: Fields, outer: Fields, owner: Owner | None, name: str) -> Member:
        meta = self._map(where, template, "metadata")
        spec = self._completed(where, name, self._map(where, template, "spec"))
        namespace = owner.namespace if owner else str(meta.get("namespace") or "default")
        # Only what its author says: where a pod of a live cluster is and how it goes is left out.
        own = {key: meta[key] for key in ("labels", "annotations") if meta.get(key)}
        own |= {"name": name, "namespace": namespace, "uid": f"Pod/{namespace}/{name}"}
        what = f"{where}: pod {name}"
        pod = wire_pod.pod(self._converted(what, {"metadata": own, "spec": spec}, WirePod))
        for field in pod.shape.unsupported:
            if field.startswith(wire_pod.UNREADABLE):
                raise FileError(f"{self._path}: {what}: {field}")
        ref = OwnerRef(owner.kind, owner.name, owner.uid) if owner else None
        pod = structs.replace(pod, version=1, owner=ref)
        notes = {**(owner.annotations if owner else {}), **pod.annotations}
        stated = notes.get(SUBMIT_TIME) or files.plain(outer.get("creationTimestamp"))
        at = self._instant(what, stated) if stated else -1
        return Member(pod, owner, at, self._run(what, notes.get(RUN_TIME)))

    def _completed(self, where: str, name: str, spec: Fields) -> Fields:
        """A pod's spec with what an API server adds that counts for placing; unbound, and Fairlead's."""
        done = {**spec, "schedulerName": "fairlead", "nodeName": "", "resources": _requests(spec)}
        if not done["resources"]:
            del done["resources"]
        for key in ("containers", "initContainers"):
            parts: object = spec.get(key) or []
            if not isinstance(parts, list) or not all(
                isinstance(p, dict) for p in cast("list[object]", parts)
            ):
                raise FileError(f"{self._path}: {where}: pod {name}: {key} is no list of containers")
            host = bool(spec.get("hostNetwork"))
            done[key] = [_container(part, host) for part in cast("list[Fields]", parts)]
        if not done["containers"]:
            raise FileError(f"{self._path}: {where}: pod {name}: no containers")
        wanted: object = spec.get("priorityClassName")
        if wanted and "priority" not in spec:
            if wanted not in self._priorities:
                text = f"{where}: pod {name}: PriorityClass {wanted} is not in the file; taken as 0"
                self._faults.add(0, "changed", text)
                self._priorities[str(wanted)] = 0
            done["priority"] = self._priorities.get(str(wanted), 0)
        return done

    def _name(self, where: str, kind: str, meta: Fields) -> str:
        stated: object = meta.get("name") or (f"{meta['generateName']}x" if meta.get("generateName") else "")
        if not isinstance(stated, str) or not stated:
            raise FileError(f"{self._path}: {where}: {kind} without metadata.name")
        key, number, name = (kind, str(meta.get("namespace") or "default")), 1, stated
        while (*key, name) in self._names:
            if meta.get("name"):
                raise FileError(f"{self._path}: {where}: {kind} {stated} occurs twice")
            number += 1
            name = f"{stated}{number}"
        self._names.add((*key, name))
        return name

    def _map(self, where: str, fields: Fields, key: str) -> Fields:
        value: object = fields.get(key) or {}
        if not isinstance(value, dict):
            raise FileError(f"{self._path}: {where}: {key} is no map but {value!r:.60}")
        return cast("Fields", value)

    def _converted(self, what: str, fields: Fields, kind: type[_Wire]) -> _Wire:
        try:
            return msgspec.convert(files.plain(fields), kind)
        except msgspec.ValidationError as error:
            raise FileError(f"{self._path}: {what}: {error}") from None

    def _instant(self, what: str, text: object) -> int:
        found = durations.instant(str(text))
        if found is None:
            raise FileError(f"{self._path}: {what}: {text!r} is no time such as 2030-01-31T08:00:00Z")
        return found

    def _run(self, what: str, text: str | None) -> int:
        """The stated run time, -1 where none is."""
        found = durations.duration(text) if text is not None else -1
        if found is None:
            raise FileError(f"{self._path}: {what}: {RUN_TIME} is {text!r}; give 90s or 2h30m")
        return found


def _requests(spec: Fields) -> Fields:
    """Resources with a request for each limit that has none."""
    resources: object = spec.get("resources")
    if not isinstance(resources, dict):
        return {}
    both = cast("dict[str, Fields | None]", resources)
    return {"requests": {**(both.get("limits") or {}), **(both.get("requests") or {})}}


def _container(part: Fields, host: bool) -> Fields:
    """A container with its requests; on the node's network each of its ports is the node's."""
    done = {**part, "resources": _requests(part)}
    if host:
        ports = cast("list[Fields]", part.get("ports") or [])
        done["ports"] = [{"hostPort": port.get("containerPort", 0), **port} for port in ports]
    return done


def _groups(members: list[Member]) -> Iterator[Arrival]:
    """Members put together as the scheduler does, in file order; a group comes with its last member.

    Those without a time come with the earliest that has one, at 0 where none has.
    """
    first = min((member.at for member in members if member.at >= 0), default=0)
    groups: dict[str, list[Member]] = {}
    widths: dict[str, int] = {}
    for member in members:
        groups.setdefault(grouping.key_of(member.pod).text, []).append(member)
        if member.owner is not None:
            widths[member.owner.uid] = widths.get(member.owner.uid, 0) + 1
    for group in groups.values():
        at = max(member.at if member.at >= 0 else first for member in group)
        yield _arrival(group, widths, at)


def _arrival(group: list[Member], widths: dict[str, int], at: int) -> Arrival:
    head = group[0]
    owners = {member.owner.uid: member.owner for member in group if member.owner is not None}
    owner = head.owner if len(owners) == 1 and all(member.owner for member in group) else None
    if owner is not None and widths[owner.uid] != len(group):
        owner = None
    pods = tuple(member.pod if owner else _bare(member) for member in group)
    known = [owner] if owner else []
    found = grouping.key_of(head.pod)
    asked = grouping.demand(found.source, pods, known, missing_owner=False, settings=Settings())
    runs = [_length(member, asked.duration) for member in group]
    name = found.name if head.pod.namespace == "default" else f"{head.pod.namespace}/{found.name}"
    cpu = sum(dict(pod.shape.requests).get("cpu", 0) for pod in pods)
    run = max(runs) if all(runs) else 0
    return Arrival(at, name, pods, run, asked.duration, max(-(-cpu // 1000), 1), owner)


def _bare(member: Member) -> Pod:
    """The pod without an owner that stands for others, too; what the owner says of it stays with it."""
    if member.owner is None:
        return member.pod
    notes = {**member.owner.annotations, **member.pod.annotations}
    return structs.replace(member.pod, owner=None, annotations=notes)


def _length(member: Member, walltime: int) -> int:
    if member.run >= 0:
        return member.run
    return walltime or (JOB_RUN_TIME if member.owner is not None and member.owner.kind == "Job" else 0)
