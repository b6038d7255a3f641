"""Tells at start, and at once, why this cluster cannot be scheduled with these credentials.

Called by the composition root through `KubePort.check_access`. Later the same faults are retried for ever;
here they are raised as KubeError, so that a wrong flag does not look like a long wait. (That nobody
answers is said at once, too, and waited for: an API server may be started after us.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec import Struct

from fairlead.kube.client import ApiClient
from fairlead.kube.errors import ApiError, KubeError, Unreachable, Untrusted
from fairlead.kube.paths import HOMES
from fairlead.model.batchjob import AppKind
from fairlead.model.esi import GROUP

_log = structlog.get_logger("fairlead.kube")
_REACH_AGAIN = 1.0
_SAY_EVERY = 30
"""After how many tries it is said again that nobody answers."""


class _Answer(Struct, frozen=True):
    allowed: bool = False


class _Review(Struct):
    status: _Answer = _Answer()


_review = msgspec.json.Decoder(_Review).decode

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Right(NamedTuple):
    verb: str
    resource: str
    group: str = ""
    sub: str = ""
    namespace: str = ""
    """Where it is needed; "" is in all namespaces."""

    def __str__(self) -> str:
        resource = f"{self.resource}/{self.sub}" if self.sub else self.resource
        return f"{self.verb} {resource}" + (f".{self.group}" if self.group else "")


WATCHED = (
    ("pods", ""),
    ("nodes", ""),
    ("jobs", "batch"),
    ("replicasets", "apps"),
    ("statefulsets", "apps"),
    ("namespaces", ""),
    ("persistentvolumeclaims", ""),
    ("persistentvolumes", ""),
    ("storageclasses", "storage.k8s.io"),
    ("csinodes", "storage.k8s.io"),
    ("csidrivers", "storage.k8s.io"),
    ("csistoragecapacities", "storage.k8s.io"),
    ("volumeattachments", "storage.k8s.io"),
    ("deviceclasses", "resource.k8s.io"),
)
NEEDED = (
    *(Right(verb, resource, group) for resource, group in WATCHED for verb in ("list", "watch")),
    Right("get", "pods"),
    Right("patch", "pods"),
    Right("delete", "pods"),
    Right("patch", "jobs", "batch"),
    Right("delete", "jobs", "batch"),
    Right("patch", "persistentvolumeclaims"),
    Right("patch", "persistentvolumes"),
    Right("create", "pods", sub="binding"),
    Right("patch", "pods", sub="status"),
    Right("create", "events", "events.k8s.io"),
    Right("patch", "events", "events.k8s.io"),
)

_APPLICATIONS = [HOMES[kind] for kind in AppKind if kind is not AppKind.JOB]
_EACH_ESI = ("get", "list", "watch", "create", "update", "patch", "delete")
ESI_NEEDED = (
    *(Right(verb, name, GROUP) for name in ("batchjobs", "schedulings", "testbeds") for verb in _EACH_ESI),
    *(Right("patch", name, GROUP, "status") for name in ("batchjobs", "schedulings", "testbeds")),
    *(Right("update", name, GROUP, "finalizers") for name in ("batchjobs", "testbeds")),
    *(
        Right(verb, home.resource, home.group)
        for home in _APPLICATIONS
        for verb in ("get", "list", "watch", "create", "delete")
    ),
    Right("get", "jobs", "batch"),
    Right("create", "jobs", "batch"),
    Right("create", "pods"),
    *(Right(verb, "serviceaccounts") for verb in ("list", "watch")),
    *(Right(verb, "priorityclasses", "scheduling.k8s.io") for verb in ("list", "watch")),
    Right("create", "tokenreviews", "authentication.k8s.io"),
    Right("create", "subjectaccessreviews", "authorization.k8s.io"),
)
"""What serving external schedulers needs besides. Of applications: get, to tell one of ours from another's
that has its name. finalizers: some clusters ask for that of whoever makes objects that block their owner's
deletion."""
ESI_ENROL = (Right("patch", "nodes"),)
"""For the debug verb that labels nodes; not needed to start."""


def to_elect(namespace: str) -> tuple[Right, ...]:
    """What leader election needs besides."""
    verbs = ("get", "create", "update")
    return tuple(Right(verb, "leases", "coordination.k8s.io", namespace=namespace) for verb in verbs)


async def check_access(
    client: ApiClient, more: Sequence[Right] = (), needed: Sequence[Right] = NEEDED
) -> None:
    """KubeError naming the fault: no answer, a certificate, 401, or the missing verbs."""
    rights = (*needed, *more)
    try:
        allowed = await asyncio.gather(*(_allowed(client, right) for right in rights))
    except ApiError as error:
        if error.status != 403:
            raise
        raise KubeError(f"{error} (this account may not even ask what it may do)") from error
    missing = [right for right, ok in zip(rights, allowed, strict=True) if not ok]
    who = f"forbidden: the account of {client.access.source} may not"
    if everywhere := [str(right) for right in missing if not right.namespace]:
        raise KubeError(
            f"{who} {', '.join(everywhere)}"
            " in all namespaces. Bind it to a ClusterRole with these rules (RBAC)"
        )
    if missing:
        raise KubeError(
            f"{who} {', '.join(map(str, missing))} in the namespace {missing[0].namespace}. Bind it to a Role"
            " with these rules there (RBAC), or name another --lease-namespace"
        )


async def until_reached(check: Callable[[], Awaitable[None]], consequence: str) -> None:
    """Until the API server answers; `consequence` is what does not happen before. Raises KubeError if it
    answers, and does not let us in or do our work.

    Database, API server and Fairlead may be started in any order, as they may be killed in any.
    """
    for attempt in count():
        try:
            await check()
            break
        except Untrusted:
            raise
        except (Unreachable, ApiError) as error:
            if isinstance(error, ApiError) and not error.transient:
                raise
            if attempt % _SAY_EVERY == 0:
                _log.error(f"{consequence}: no API server answers; trying again", error=str(error))
        await asyncio.sleep(_REACH_AGAIN)


async def _allowed(client: ApiClient, right: Right) -> bool:
    attributes = {"verb": right.verb, "resource": right.resource, "group": right.group}
    if right.sub:
        attributes["subresource"] = right.sub
    if right.namespace:
        attributes["namespace"] = right.namespace
    body: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return _review(await client.post(REVIEWS, msgspec.json.encode(body))).status.allowed
