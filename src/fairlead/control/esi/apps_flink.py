"""A flinkSpec or a flinkDeploymentSpec as a FlinkDeployment, a flinkSpec as the old FlinkCluster.

Used by `apps`. TaskManagers go into slots, one task slot each; the JobManager takes none. A flinkSpec is
ESI's: the job of a FlinkCluster and nothing else, so what it runs on is made here, of the size that ESI gives
it. Pure.
"""

import re
from typing import cast

from fairlead.control.esi.apps_pod import Object, Pods, affinity, part, parts, readable, template, word
from fairlead.model.batchjob import BatchJobOptions

DEPLOYMENT = "flink.apache.org/v1beta1"
CLUSTER = "flinkoperator.k8s.io/v1beta1"
ACCOUNT = "flink"
"""The service account that the Apache operator's chart makes for JobManagers."""
VERSION = "1.20"
OLD_IMAGE = "flink:1.8.2"
"""What ESI's FlinkClusters run."""
TASK_SLOTS = "taskmanager.numberOfTaskSlots"
HOME = "/opt/flink/"
_MAIN = "flink-main-container"
_MIB = 1 << 20
_MEMORY = re.compile(r"(\d{1,18})\s*(b|bytes|k|kb|kibibytes|m|mb|mebibytes|g|gb|gibibytes|t|tb|tebibytes|)")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_POD_FIELDS = ("nodeSelector", "tolerations", "volumes", "initContainers", "securityContext", "hostAliases")
_PYTHON = ("pyFile", "pyFiles", "pyModule")


def deployment(found: Object, pods: Pods) -> Object:
    """The whole spec of a FlinkDeployment from the user's own. In native mode Flink starts as many
    TaskManagers as its parallelism needs: with more than there are slots, each works on several tasks."""
    manager, job = part(found, "taskManager"), part(found, "job")
    wanted = job.get("parallelism")
    tasks = 1
    if isinstance(wanted, int) and wanted > 0:
        tasks = -(-wanted // max(pods.number, 1))
    else:
        job["parallelism"] = pods.number
    replicas = manager.get("replicas")
    if isinstance(replicas, int):
        manager["replicas"] = min(replicas, pods.number)
    manager["resource"] = _resource(part(manager, "resource"), pods)
    shared, own = part(found, "podTemplate"), part(manager, "podTemplate")
    manager["podTemplate"] = _template(shared, own, pods)
    settings = part(found, "flinkConfiguration") | {TASK_SLOTS: str(tasks)}
    return {**found, "job": job, "taskManager": manager, "flinkConfiguration": settings}


def from_job(found: Object, options: BatchJobOptions) -> Object:
    """What a flinkSpec says, as the user's own spec of a FlinkDeployment."""
    version = options.flink_version.removeprefix("v").replace("_", ".") or VERSION
    job: Object = {"jarURI": _jar(word(found, "jarFile")), "upgradeMode": "stateless"}
    names = {
        "className": "entryClass",
        "args": "args",
        "parallelism": "parallelism",
        "fromSavepoint": "initialSavepointPath",
        "allowNonRestoredState": "allowNonRestoredState",
    }
    job |= {names[key]: value for key, value in found.items() if key in names and value is not None}
    manager: Object = {"resource": {"cpu": 0.2, "memory": "1024m"}}
    if pod := _submitter(found):
        manager["podTemplate"] = pod
    savepoints = word(found, "savepointsDir")
    return {
        "image": options.flink_image or f"flink:{version}",
        "flinkVersion": "v" + version.replace(".", "_"),
        "serviceAccount": options.flink_service_account or ACCOUNT,
        "flinkConfiguration": {"state.savepoints.dir": savepoints} if savepoints else {},
        "jobManager": manager,
        "job": job,
    }


def cluster(found: Object, options: BatchJobOptions, pods: Pods) -> Object:
    """The whole spec of a FlinkCluster, as ESI makes it. Its operator calls ESI's scheduler and priority
    `external`."""
    version = options.flink_version.removeprefix("v").replace("_", ".")
    image = options.flink_image or (f"flink:{version}" if version else OLD_IMAGE)
    job = found if found.get("parallelism") is not None else {**found, "parallelism": pods.number}
    spec: Object = {
        "image": {"name": image},
        "jobManager": {
            "ports": {"ui": 8081},
            "resources": {"limits": {"cpu": "200m", "memory": "1024Mi"}},
        },
        "taskManager": {
            "replicas": pods.number,
            "resources": {"requests": dict(pods.texts), "limits": dict(pods.texts)},
            "memoryOffHeapMin": pods.texts.get("memory", "0"),
            "podLabels": pods.labels,
            "podAnnotations": pods.annotations,
            "affinity": affinity({}, pods),
        },
        "flinkProperties": {TASK_SLOTS: "1"},
        "batchScheduler": {"name": "external"},
        "job": job,
    }
    if options.flink_service_account:
        spec["serviceAccountName"] = options.flink_service_account
    return spec


def why_not(found: Object) -> str:
    """Of a FlinkDeployment from the user's own spec."""
    if not part(found, "job"):
        return "flinkDeploymentSpec.job is missing: a session cluster never completes"
    if word(found, "job", "state") == "suspended":
        return "flinkDeploymentSpec.job.state is suspended: it would never start"
    return "" if found.get("flinkVersion") else "flinkDeploymentSpec.flinkVersion is missing"


def why_not_job(found: Object, old: bool) -> str:
    """Of a flinkSpec; `old`: as a FlinkCluster."""
    if not old and any(found.get(key) for key in _PYTHON):
        return (
            "flinkSpec runs Python, which becomes a FlinkDeployment only as fairlead.flinkDeploymentSpec; or"
            " write flinkKind: FlinkCluster"
        )
    python = any(found.get(key) for key in _PYTHON)
    return "" if found.get("jarFile") or python else "flinkSpec.jarFile is missing"


def _template(shared: Object, own: Object, pods: Pods) -> Object:
    """The operator lays a TaskManager's template over the shared one, lists by position. So ours has all of
    the shared one's node terms in their places, and the new requirement after them."""
    both = _over(part(shared, "spec").get("affinity"), part(own, "spec").get("affinity"))
    spec = part(own, "spec")
    if both is not None:
        spec["affinity"] = both
    return template({**own, "spec": spec}, pods)


def _over(below: object, above: object) -> object:
    """As the operator merges pod templates."""
    if isinstance(below, dict) and isinstance(above, dict):
        lower, upper = cast("Object", below), cast("Object", above)
        return lower | {key: _over(lower.get(key), value) for key, value in upper.items()}
    if isinstance(below, list) and isinstance(above, list):
        low, high = cast("list[object]", below), cast("list[object]", above)
        merged = [_over(a, b) for a, b in zip(low, high, strict=False)]
        return merged + low[len(merged) :] + high[len(merged) :]
    return cast("object", below if above is None else above)


def _resource(found: Object, pods: Pods) -> Object:
    """cpu is a number of cores, memory a text of Flink's or a quantity: the slot's, unless they are less."""
    cpu, memory = pods.slot.get("cpu", 0), pods.slot.get("memory", 0)
    wanted = _milli(found.get("cpu"))
    if wanted is None or wanted > cpu:
        found["cpu"] = cpu / 1000
    bytes_ = _bytes(found.get("memory"))
    if bytes_ is None or bytes_ > memory:
        found["memory"] = f"{memory // _MIB}m"
    return found


def _milli(value: object) -> int | None:
    return round(value * 1000) if isinstance(value, float) and value < 1e9 else readable("cpu", value)


def _bytes(value: object) -> int | None:
    match = _MEMORY.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is not None:
        return int(match[1]) * 1024 ** _POWERS.get(match[2][:1], 0)
    return readable("memory", value)


def _jar(path: str) -> str:
    """A file of the image by its whole path; ESI's examples name it from Flink's home."""
    if "://" in path:
        return path
    return f"local://{path if path.startswith('/') else HOME + path.removeprefix('./')}"


def _submitter(found: Object) -> Object:
    """What a flinkSpec says of the pod that submits the job: the JobManager does, now."""
    meta = {"labels": part(found, "podLabels"), "annotations": part(found, "podAnnotations")}
    meta = {key: value for key, value in meta.items() if value}
    spec: Object = {key: found[key] for key in _POD_FIELDS if found.get(key)}
    if mounts := parts(found, "volumeMounts"):
        spec["containers"] = [{"name": _MAIN, "volumeMounts": mounts}]
    return {**({"metadata": meta} if meta else {}), **({"spec": spec} if spec else {})}
