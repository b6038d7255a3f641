"""Revokes bindings of unknown fate: annotates the pod, so that a late one fails on its resourceVersion.

Used by `kube.actuate`. Not answered: the watch shows the annotation, and the engine asks until it does. By
uid only: whatever else has changed, this pod must not be bound by that grant. Must not send anything when
the fence is down.
"""

import time

import msgspec
import structlog

from fairlead.kube.bind import pod_path
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.insist import insist
from fairlead.kube.patches import annotation_patch
from fairlead.kube.writer import Writer
from fairlead.model.command import REVOKED, Revoke

log = structlog.get_logger("fairlead.kube")


class Revoker(Writer):
    """One patch per command, repeated until it is answered for good or its time is over."""

    def add(self, command: Revoke) -> None:
        self._begin(self._work(command))

    async def _work(self, command: Revoke) -> None:
        ref = msgspec.structs.replace(command.pod, version=0)
        body = annotation_patch(ref, REVOKED, command.grant)
        path = pod_path(ref.namespace, ref.name)

        async def patch(left: float) -> None:
            await self._client.patch(path, body, timeout=left)

        try:
            await insist(patch, time.monotonic() + self._request_timeout, self._fence)
            outcome = "written"
        except KubeError as error:
            gone = isinstance(error, ApiError) and error.status in (404, 409, 422)  # another uid has the name
            outcome = "gone" if gone else "failed"
            if not gone:
                log.warning("a start could not be revoked; trying again", pod=ref.name, error=str(error))
        self._count("revoke", f"revoke_{outcome}", outcome)
