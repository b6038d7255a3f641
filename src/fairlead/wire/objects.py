"""Nodes and owners of pods on the wire -> those the engine sees. Pure.

Called by `kube.translate` and by `sim.manifests`. Raises ValueError for a quantity that cannot be read.
"""

from fairlead.model.node import Node, Taint
from fairlead.model.owner import Owner
from fairlead.model.quantity import ceiling
from fairlead.wire.pod import OVERDUE, millis, own_annotations, owner_of, version_of
from fairlead.wire.resources import read
from fairlead.wire.structs import WireNode, WireOwner

_WORTH = 23 << 20
"""Bytes from which on it may matter where an image is (as for kube-scheduler's ImageLocality)."""


def node(wire: WireNode) -> Node:
    meta, status = wire.metadata, wire.status
    sums = {name: ceiling(name, value) for name, value in read(status.allocatable).items()}
    return Node(
        uid=meta.uid,
        name=meta.name,
        version=version_of(meta.resource_version),
        allocatable=tuple(sorted((name, value) for name, value in sums.items() if value)),
        labels=meta.labels,
        taints=tuple(
            sorted(
                Taint(each.key, each.value, each.effect)
                for each in wire.spec.taints
                if each.effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")
            )
        ),
        unschedulable=wire.spec.unschedulable,
        # A node that never reported is kept away by its taints, as for kube-scheduler.
        ready=all(each.status == "True" for each in status.conditions if each.type == "Ready"),
        deleting=meta.deletion_timestamp is not None,
        created=millis(meta.creation_timestamp),
        features=tuple(status.declared_features),
        images=tuple([(n, i.size_bytes) for i in status.images if i.size_bytes >= _WORTH for n in i.names]),
    )


def owner(kind: str, wire: WireOwner) -> Owner:
    meta, spec = wire.metadata, wire.spec
    return Owner(
        uid=meta.uid,
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        version=version_of(meta.resource_version),
        size=_job_size(wire) if kind == "Job" else _default(spec.replicas, 1),
        suspended=spec.suspend,
        ended=_ended(wire),
        ordered=kind == "StatefulSet" and spec.pod_management_policy in ("", "OrderedReady"),
        deleting=meta.deletion_timestamp is not None,
        annotations=own_annotations(meta),
        deadline=spec.active_deadline_seconds * 1000,
        started=millis(wire.status.start_time),
        owner=owner_of(meta),
        retries=_retries(wire) if kind == "Job" else None,
    )


def _retries(wire: WireOwner) -> int | None:
    """How many of a Job's pods may be evicted, marked DisruptionTarget, before it fails; None: any number.

    The first rule of its podFailurePolicy that matches decides; one on exit codes may match an eviction.
    """
    spec = wire.spec
    for rule in spec.pod_failure_policy.rules:
        disrupted = any(
            each.type == "DisruptionTarget" and each.status in ("", "True") for each in rule.on_pod_conditions
        )
        if rule.action == "Ignore" and disrupted:
            return None
        if rule.action in ("FailJob", "FailIndex") and (disrupted or rule.on_exit_codes is not None):
            return 0
        if disrupted:
            break
    per_index = spec.backoff_limit_per_index
    limit = spec.backoff_limit
    if per_index is not None:
        limit = per_index if limit is None else min(limit, per_index)
    uncounted = wire.status.uncounted_terminated_pods
    failed = wire.status.failed + (len(uncounted.failed) if uncounted is not None else 0)
    return max(_default(limit, _BACKOFF_LIMIT) - failed, 0)


_BACKOFF_LIMIT = 6
"""What the API server fills in where a Job says nothing."""


def _default(value: int | None, default: int) -> int:
    return default if value is None else value


def _job_size(wire: WireOwner) -> int:
    """How many pods run side by side from now on."""
    parallelism = _default(wire.spec.parallelism, 1)
    completions = wire.spec.completions
    if completions is None:
        return parallelism
    return max(0, min(parallelism, completions - wire.status.succeeded))


def _ended(wire: WireOwner) -> str:
    for condition in wire.status.conditions:
        if condition.status == "True" and condition.type in ("Complete", "Failed"):
            if condition.type == "Failed":
                return "timeout" if condition.reason == OVERDUE else "failed"
            return "completed"
    return ""
