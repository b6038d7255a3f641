"""Which pods an operator makes of an application: executors and task managers; drivers are left out.

Called by `sim.esi_operators`. Pods are read by `wire.pod`, as from a live cluster. Must not know slots: what
the application's manifest does not carry, its pods do not have.
"""

import re
from collections.abc import Iterator
from typing import cast

import msgspec
from msgspec import structs

from fairlead.model.batchjob import AppKind
from fairlead.model.esi import GHOST_PRIORITY, PRIORITY
from fairlead.model.pod import OwnerRef, Pod
from fairlead.sim.esi_objects import Manifest, part
from fairlead.wire import pod as wire_pod
from fairlead.wire.structs import WirePod

PRIORITIES = {PRIORITY: 1000, GHOST_PRIORITY: 100}
_SIZE = re.compile(r"(\d+)([kmgt]?)b?")


def pods(app: Manifest) -> Iterator[Pod]:
    """The pods of an application as its operator would create them; versions and times are the cluster's."""
    for number, raw in enumerate(_raw(app)):
        yield read(raw, app, number)


def read(raw: Manifest, owner: Manifest | None = None, number: int = 0) -> Pod:
    """A pod manifest as the cluster shows it, controlled by `owner`."""
    spec = part(raw, "spec")
    meta = dict(part(raw, "metadata"))
    ref = None
    if owner is not None:
        above = owner["metadata"]
        meta["name"], meta["namespace"] = f"{above['name']}-exec-{number + 1}", above["namespace"]
        ref = OwnerRef(str(owner["kind"]), above["name"], above["uid"])
    spec = {"priority": PRIORITIES.get(str(spec.get("priorityClassName")), 0), **spec}
    spec["containers"] = [_defaulted(each) for each in cast("list[Manifest]", spec.get("containers") or [{}])]
    found = wire_pod.pod(msgspec.convert({"metadata": meta, "spec": spec}, WirePod, strict=False))
    return structs.replace(found, owner=ref) if ref else found


def _defaulted(container: Manifest) -> Manifest:
    """A request for each limit that has none, as the API server does."""
    resources = part(container, "resources")
    requests = {**part(resources, "limits"), **part(resources, "requests")}
    return {"name": "main", **container, "resources": {"requests": requests}}


def _raw(app: Manifest) -> Iterator[Manifest]:
    spec = part(app, "spec")
    match AppKind(app["kind"]):
        case AppKind.SPARK:
            yield from _spark(app, spec)
        case AppKind.FLINK:
            yield from _flink(app, spec)
        case AppKind.FLINK_CLUSTER:
            yield from _flink_cluster(app, spec)
        case AppKind.JOB:
            yield from _job(spec)
        case AppKind.JOB_SET:
            for each in cast("list[Manifest]", spec.get("replicatedJobs") or []):
                for _ in range(int(each.get("replicas", 1))):
                    yield from _job(part(part(each, "template"), "spec"))


def _job(spec: Manifest) -> Iterator[Manifest]:
    for _ in range(int(spec.get("parallelism", 1))):
        yield part(spec, "template")


def _over(template: Manifest, labels: Manifest, own: Manifest, container: Manifest) -> Manifest:
    """A pod template with what its operator sets itself; its first container is the operator's."""
    meta, spec = part(template, "metadata"), part(template, "spec")
    containers = cast("list[Manifest]", spec.get("containers") or [{}])
    kept = {key: value for key, value in own.items() if value}
    return {
        "metadata": {**meta, "labels": {**part(meta, "labels"), **labels}},
        "spec": {**spec, **kept, "containers": [{**containers[0], **container}, *containers[1:]]},
    }


def _spark(app: Manifest, spec: Manifest) -> Iterator[Manifest]:
    executor = part(spec, "executor")
    cpu = executor.get("coreRequest") or executor.get("cores") or 1
    memory = _mebibytes(executor.get("memory") or "1g") + _mebibytes(executor.get("memoryOverhead") or "384m")
    requests = {"cpu": str(cpu), "memory": f"{memory}Mi"}
    labels = {"sparkoperator.k8s.io/app-name": app["metadata"]["name"], "spark-role": "executor"}
    batch = part(spec, "batchSchedulerOptions")
    own = {
        "affinity": executor.get("affinity"),
        "tolerations": executor.get("tolerations"),
        "nodeSelector": executor.get("nodeSelector"),
        "schedulerName": executor.get("schedulerName"),
        "priorityClassName": executor.get("priorityClassName") or batch.get("priorityClassName"),
    }
    template = part(executor, "template")
    meta = part(template, "metadata")
    notes = {**part(meta, "annotations"), **part(executor, "annotations")}
    named = {**template, "metadata": {**meta, "annotations": notes}}
    labels = {**part(executor, "labels"), **labels}
    for _ in range(int(executor.get("instances", 1))):
        yield _over(named, labels, own, {"resources": {"requests": requests}})


def _flink(app: Manifest, spec: Manifest) -> Iterator[Manifest]:
    """As many as its parallelism needs, where nothing says how many."""
    manager = part(spec, "taskManager")
    resource = part(manager, "resource")
    template = manager.get("podTemplate") or part(spec, "podTemplate")
    memory = resource.get("memory") or "2048m"
    requests = {"cpu": str(resource.get("cpu") or 1), "memory": f"{_mebibytes(memory)}Mi"}
    labels = {"app": app["metadata"]["name"], "component": "taskmanager"}
    tasks = int(part(spec, "flinkConfiguration").get("taskmanager.numberOfTaskSlots", 1))
    needed = -(-int(part(spec, "job").get("parallelism", 1)) // tasks)
    for _ in range(int(manager.get("replicas", needed))):
        yield _over(template, labels, {}, {"resources": {"requests": requests}})


def _flink_cluster(app: Manifest, spec: Manifest) -> Iterator[Manifest]:
    """The fork's: its batch scheduler `external` sets scheduler and priority."""
    manager = part(spec, "taskManager")
    labels = {"cluster": app["metadata"]["name"], "component": "taskmanager"}
    template: Manifest = {
        "metadata": {
            "labels": part(manager, "podLabels"),
            "annotations": part(manager, "podAnnotations"),
        }
    }
    external = bool(spec.get("batchScheduler") or spec.get("batchSchedulerName"))
    own = {
        "affinity": manager.get("affinity"),
        "tolerations": manager.get("tolerations"),
        "schedulerName": "external-scheduler" if external else "",
        "priorityClassName": PRIORITY if external else "",
    }
    for _ in range(int(manager.get("replicas", 1))):
        yield _over(template, labels, own, {"resources": part(manager, "resources")})


def _mebibytes(size: object) -> int:
    """What the JVM calls 1g or 512m, and Kubernetes 1Gi or 512Mi."""
    text = str(size).lower().removesuffix("b").removesuffix("i")
    found = _SIZE.fullmatch(text)
    if found is None:
        return 0
    number, unit = int(found[1]), found[2]
    return {"": number >> 20, "k": number >> 10, "m": number, "g": number << 10, "t": number << 20}[unit]
