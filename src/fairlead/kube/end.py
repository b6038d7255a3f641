"""Ends groups that are over: fails Jobs, deletes owners and pods, each only if it is the one meant.

Used by `kube.actuate`. A Job is failed by setting its activeDeadlineSeconds to what is over already: the Job
controller then ends its pods and keeps the Job, its history and its finalizers' work (B18, F10). Nothing is
forced: pods get the grace they ask for, finalizers and blockOwnerDeletion are waited for by Kubernetes. Must
not try for ever: the engine asks again while there is something to end.
"""

import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import structlog

from fairlead.kube.announce import Announcer
from fairlead.kube.bind import pod_path
from fairlead.kube.client import MERGE_PATCH, segment
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.insist import insist
from fairlead.kube.writer import Writer
from fairlead.model.command import Announce, End, ObjectRef

log = structlog.get_logger("fairlead.kube")

ENDED = "fairlead.dev/ended"
PROPAGATION = "Foreground"
"""A Job that is deleted stays until its pods, which block that, are gone: nobody takes it for done before."""
GONE = (404, 409)
"""Not there any more, or another object of that name (or, with a version, changed: then it is asked anew)."""


class Ender(Writer):
    """Few requests at a time: ending must not crowd out binds, which give what was ended to others."""

    def __init__(self, announcer: Announcer, *shared: Any, **limits: Any) -> None:
        super().__init__(*shared, **limits)
        self._announcer = announcer

    def add(self, command: End) -> None:
        """Begin all that the command asks for."""
        for ref in command.fail:
            self._send(ref, lambda left, ref=ref: self._fail(ref, f"{command.why}: {command.text}", left))
        for ref in command.delete:
            self._send(ref, lambda left, ref=ref: self._delete(ref, left))
        for ref in command.pods:
            self._send(ref, lambda left, ref=ref: self._delete_pod(ref, left))

    def _send(self, ref: ObjectRef, request: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        self._begin(self._work(ref, request))

    async def _work(self, ref: ObjectRef, request: Callable[[float], Coroutine[Any, Any, None]]) -> None:
        outcome = await self._outcome(ref, request)
        self._count("end", f"end_{outcome}", outcome)

    async def _outcome(self, ref: ObjectRef, request: Callable[[float], Coroutine[Any, Any, None]]) -> str:
        try:
            await insist(request, time.monotonic() + self._request_timeout, self._fence)
        except KubeError as error:
            if isinstance(error, ApiError) and error.status in GONE:
                return "gone"
            log.warning("what is over could not be ended", kind=ref.kind, name=ref.name,
                        namespace=ref.namespace, error=str(error))  # fmt: skip
            if isinstance(error, ApiError) and error.status == 403:
                note = f"it is over, but it cannot be ended: {error}"
                self._announcer.add(Announce(ref, "EndForbidden", note, warning=True, action="Ending"))
            return "failed"
        return "done"

    async def _fail(self, ref: ObjectRef, text: str, timeout: float) -> None:
        """By uid, not by version: whatever else changes, this Job is over. 422 would be the uid's."""
        body = {
            "metadata": {"uid": ref.uid, "annotations": {ENDED: text}},
            "spec": {"activeDeadlineSeconds": 1},
        }
        patch = msgspec.json.encode(body)
        await self._client.patch(_job_path(ref), patch, content=MERGE_PATCH, timeout=timeout)

    async def _delete(self, ref: ObjectRef, timeout: float) -> None:
        """By uid and version: that the Job is the group's alone was true of this version."""
        body = msgspec.json.encode({**_only(ref), "propagationPolicy": PROPAGATION})
        await self._client.delete(_job_path(ref), body, timeout=timeout)

    async def _delete_pod(self, ref: ObjectRef, timeout: float) -> None:
        path = pod_path(ref.namespace, ref.name)
        await self._client.delete(path, msgspec.json.encode(_only(ref)), timeout=timeout)


def _only(ref: ObjectRef) -> dict[str, Any]:
    """Delete options that hold for this very object."""
    preconditions = {"uid": ref.uid}
    if ref.version:
        preconditions["resourceVersion"] = str(ref.version)
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}


def _job_path(ref: ObjectRef) -> str:
    return f"/apis/batch/v1/namespaces/{segment(ref.namespace)}/jobs/{segment(ref.name)}"
