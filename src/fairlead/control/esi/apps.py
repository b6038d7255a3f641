"""The application that a BatchJob becomes: its manifest, why it can never be one, whose account it needs.

Called by `control.esi` when a job is submitted, and by the simulated cluster's tests. What users wrote is
merged with, not replaced: docs/applications.md says field by field what wins. Pure. Must not decide which
slots a job gets, and must not raise for anything that a spec may hold.
"""

import re
from collections.abc import Sequence
from copy import deepcopy

from fairlead.control.esi import apps_flink, apps_job, apps_spark
from fairlead.control.esi.apps_pod import Object, Pods, amounts, pods
from fairlead.core.esi.table import Slot
from fairlead.model.batchjob import AppKind, BatchJob, BatchJobSpec
from fairlead.model.esi import BATCH_JOB, GROUP, LONGEST_LABEL, MANAGED_LABEL, VERSION, Testbed

API_VERSIONS: dict[AppKind, str] = {
    AppKind.SPARK: apps_spark.API_VERSION,
    AppKind.FLINK: apps_flink.DEPLOYMENT,
    AppKind.FLINK_CLUSTER: apps_flink.CLUSTER,
    AppKind.JOB: apps_job.JOB,
    AppKind.JOB_SET: apps_job.JOB_SET,
}
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST = {AppKind.FLINK: 45}
"""Characters of a name, where that is less than a label may have."""


def build(job: BatchJob, testbed: Testbed, slots: Sequence[Slot]) -> Object:
    """The whole manifest, with apiVersion and kind. Only for a job of which `why_not` says nothing."""
    kind = job.kind or AppKind.JOB
    made = pods(testbed, slots)
    made.annotations[BATCH_JOB] = job.uid
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "BatchJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": API_VERSIONS[kind],
        "kind": str(kind),
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": dict([MANAGED_LABEL]),
            "ownerReferences": [owner],
        },
        "spec": _spec(kind, job.spec or BatchJobSpec(), made),
    }


def _spec(kind: AppKind, spec: BatchJobSpec, made: Pods) -> Object:
    found, options = _written(spec), spec.fairlead
    if kind is AppKind.SPARK:
        return apps_spark.build(found, made)
    if kind is AppKind.FLINK_CLUSTER:
        return apps_flink.cluster(found, options, made)
    if kind is AppKind.FLINK:
        own = found if spec.flink_spec is None else apps_flink.from_job(found, options)
        return apps_flink.deployment(own, made)
    return apps_job.job(found, made) if kind is AppKind.JOB else apps_job.job_set(found, made)


def why_not(job: BatchJob, testbed: Testbed | None = None) -> str:
    """Why the spec can never work, in a sentence (in slots of this Testbed, if given); "" if it can."""
    kind, spec = job.kind, job.spec
    if spec is None or kind is None:
        return job.problem or "its spec says nothing that can be run"
    if problem := _name(kind, job.name):
        return problem
    slot = None
    if testbed is not None and testbed.spec is not None:
        slot = amounts(testbed.spec.resources_per_slot)
        if len(testbed.name) > LONGEST_LABEL:
            return f"testbed {testbed.name} has a name of over {LONGEST_LABEL} characters, which is no label"
    found = _written(spec)
    if kind is AppKind.SPARK:
        return apps_spark.why_not(found, slot)
    if kind is AppKind.JOB:
        return apps_job.why_not(found, "jobSpec", slot)
    if kind is AppKind.JOB_SET:
        return apps_job.why_not_set(found, slot)
    if spec.flink_spec is None:
        return apps_flink.why_not(found)
    return apps_flink.why_not_job(found, kind is AppKind.FLINK_CLUSTER)


def account(job: BatchJob) -> str:
    """The service account without which no driver can be made; "" if none is named."""
    kind, spec = job.kind, job.spec
    if spec is None or kind is None:
        return ""
    found, options = _written(spec), spec.fairlead
    if kind is AppKind.SPARK:
        return apps_spark.account(found)
    if kind is AppKind.JOB:
        return apps_job.account(found)
    if kind is AppKind.JOB_SET:
        return apps_job.account_of_set(found)
    if kind is AppKind.FLINK_CLUSTER:
        return options.flink_service_account
    named = found.get("serviceAccount") if spec.flink_spec is None else options.flink_service_account
    return named if isinstance(named, str) and named else apps_flink.ACCOUNT


def _written(spec: BatchJobSpec) -> Object:
    """A copy of the one spec of an application that there is."""
    more = spec.fairlead
    found = (spec.spark_spec, spec.flink_spec, more.flink_deployment_spec, more.job_spec, more.job_set_spec)
    nothing: Object = {}
    return deepcopy(next((each for each in found if each is not None), nothing))


def _name(kind: AppKind, name: str) -> str:
    """Operators make labels and names of Services of it; a Job only a label."""
    most = _LONGEST.get(kind, LONGEST_LABEL)
    if len(name) > most:
        return f"its name has {len(name)} characters, and a {kind}'s may have {most}"
    if kind is not AppKind.JOB and not _LABEL.fullmatch(name):
        return f"its name cannot be a {kind}'s: it must be lower-case letters, digits and -, a letter first"
    return ""
