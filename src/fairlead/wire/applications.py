"""Applications on the wire, as their operators show them -> what a BatchJob's machine looks at.

Called by `kube.esi_kinds` and by the simulated cluster. Pure. A reader must not raise for anything a server
may send that has a uid (ValueError or msgspec's error for what has none): a status that cannot be read counts
as not yet written. An application that its operator is going to try again has not failed.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw

from fairlead.model.application import (
    Account,
    Application,
    AppState,
    BatchV1Job,
    FlinkCluster,
    FlinkDeployment,
    JobSet,
    PriorityClass,
    SparkApplication,
)
from fairlead.model.batchjob import AppKind
from fairlead.wire.pod import version_of
from fairlead.wire.salvage import metadata_of, part, text, tree

Json = dict[str, Any]
Body = bytes | Raw
Verdict = tuple[AppState, str]
"""The state, and what the operator says of a failure."""
A = TypeVar("A", bound=Application)
LONGEST = 500
"""Characters of an operator's words that are kept: the rest is a trace of its own code."""

_PENDING: Verdict = (AppState.PENDING, "")
_RUNNING: Verdict = (AppState.RUNNING, "")
_COMPLETED: Verdict = (AppState.COMPLETED, "")


def spark(raw: Body) -> SparkApplication:
    return _read(raw, SparkApplication, _spark)


def flink_deployment(raw: Body) -> FlinkDeployment:
    return _read(raw, FlinkDeployment, _flink_deployment)


def flink_cluster(raw: Body) -> FlinkCluster:
    return _read(raw, FlinkCluster, _flink_cluster)


def job(raw: Body) -> BatchV1Job:
    return _read(raw, BatchV1Job, _job)


def job_set(raw: Body) -> JobSet:
    return _read(raw, JobSet, _job_set)


READERS: dict[AppKind, Callable[[Body], Application]] = {
    AppKind.SPARK: spark,
    AppKind.FLINK: flink_deployment,
    AppKind.FLINK_CLUSTER: flink_cluster,
    AppKind.JOB: job,
    AppKind.JOB_SET: job_set,
}


def account(raw: Body) -> Account:
    meta = metadata_of(tree(raw))
    return Account(meta.uid, version_of(meta.resource_version), meta.namespace, meta.name)


def priority_class(raw: Body) -> PriorityClass:
    meta = metadata_of(tree(raw))
    return PriorityClass(meta.uid, version_of(meta.resource_version), meta.name)


def _read(raw: Body, form: type[A], verdict: Callable[[Json, Json], Verdict]) -> A:
    found = tree(raw)
    meta = metadata_of(found)
    owners = [ref.uid for ref in meta.owner_references if ref.controller and ref.kind == "BatchJob"]
    state, words = verdict(part(found, "spec"), part(found, "status"))
    return form(
        uid=meta.uid,
        version=version_of(meta.resource_version),
        namespace=meta.namespace,
        name=meta.name,
        batch_job=owners[0] if owners else "",
        state=state,
        text=words,
        deleting=meta.deletion_timestamp is not None,
    )


# -- Spark -------------------------------------------------------------------------------------------


def _spark(spec: Json, status: Json) -> Verdict:
    """FAILING and SUBMISSION_FAILED are on the way to FAILED, or, by the restart policy, to another try."""
    application = part(status, "applicationState")
    state, words = text(application, "state"), _short(text(application, "errorMessage"))
    again = text(part(spec, "restartPolicy"), "type") in ("Always", "OnFailure")
    if state == "FAILED" or (state in ("FAILING", "SUBMISSION_FAILED") and not again):
        return AppState.FAILED, words or f"its operator says {state}"
    if state == "COMPLETED":
        return _COMPLETED
    if state == "SUCCEEDING":
        return _RUNNING
    executors = part(status, "executorState").values()
    waiting = any(each in ("PENDING", "UNKNOWN") for each in executors)
    return _RUNNING if state == "RUNNING" and not waiting else _PENDING


# -- Flink -------------------------------------------------------------------------------------------


def _flink_deployment(_: Json, status: Json) -> Verdict:
    """The state of its life is FAILED when the job has ended so, and when its spec was refused before."""
    state, words = text(part(status, "jobStatus"), "state"), _error(status.get("error"))
    manager = text(status, "jobManagerDeploymentStatus")
    if state == "FINISHED":
        return _COMPLETED
    if state in ("FAILED", "CANCELED"):
        return AppState.FAILED, words or f"the Flink job is {state}"
    if text(status, "lifecycleState") == "FAILED" or manager == "ERROR":
        return AppState.FAILED, words or "its JobManager cannot be deployed"
    return _RUNNING if state == "RUNNING" and manager in ("", "READY") else _PENDING


def _error(value: object) -> str:
    """Newer operators write a JSON object with a message."""
    if not isinstance(value, str):
        return ""
    try:
        found = msgspec.json.decode(value)
    except msgspec.MsgspecError:
        return _short(value)
    return _short(text(cast("Json", found), "message", value) if isinstance(found, dict) else value)


def _flink_cluster(spec: Json, status: Json) -> Verdict:
    """Stopped is the end only when both stateful sets are gone; how the job ended, it says itself."""
    state, components = text(status, "state"), part(status, "components")
    ended = text(part(components, "job"), "state")
    again = text(part(spec, "job"), "restartPolicy") == "FromSavepointOnFailure"
    lost = ended in ("Failed", "Cancelled", "DeployFailed", "Lost") and not again
    if state == "Failed" or lost:
        return AppState.FAILED, f"the Flink job is {ended or state}"
    if state == "Stopped":
        sets = ("jobManagerStatefulSet", "taskManagerStatefulSet")
        gone = all(text(part(components, name), "state") == "Deleted" for name in sets)
        return _COMPLETED if gone else _RUNNING
    return _RUNNING if state == "Running" else _PENDING


# -- Jobs --------------------------------------------------------------------------------------------


def _job(_: Json, status: Json) -> Verdict:
    ended = _ended(status, "Complete", "Failed")
    if ended is not None:
        return ended
    return _RUNNING if _number(status, "ready") or _number(status, "succeeded") else _PENDING


def _job_set(_: Json, status: Json) -> Verdict:
    ended = _ended(status, "Completed", "Failed")
    if ended is not None:
        return ended
    found = _objects(status, "replicatedJobsStatus")
    running = any(_number(each, "ready") or _number(each, "succeeded") for each in found)
    return _RUNNING if running else _PENDING


def _ended(status: Json, completed: str, failed: str) -> Verdict | None:
    true = {
        text(each, "type"): each for each in _objects(status, "conditions") if each.get("status") == "True"
    }
    if failed in true:
        words = (text(true[failed], "reason"), text(true[failed], "message"))
        return AppState.FAILED, _short(
            ": ".join(each for each in words if each)
        ) or "its condition says Failed"
    return _COMPLETED if completed in true else None


# -- pieces ------------------------------------------------------------------------------------------


def _objects(thing: Json, name: str) -> Iterable[Json]:
    found = thing.get(name)
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [cast("Json", each) for each in listed if isinstance(each, dict)]


def _number(thing: Json, name: str) -> int:
    found = thing.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _short(words: str) -> str:
    words = " ".join(words.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
