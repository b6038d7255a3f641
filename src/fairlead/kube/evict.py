"""Evicts pods: marks them DisruptionTarget, then deletes them by uid.

Used by `kube.actuate`. Each command is answered by exactly one Evicted. Must never delete a pod of the same
name that is not the one meant.
"""

import time
from typing import Any

import msgspec
import structlog

from fairlead.kube.bind import pod_path
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.insist import insist
from fairlead.kube.patches import condition_patch
from fairlead.kube.writer import Writer
from fairlead.model.command import Evict
from fairlead.model.event import Evicted

log = structlog.get_logger("fairlead.kube")


class Evictor(Writer):
    """Marks, then deletes; a few at a time."""

    parallel = 8

    def add(self, command: Evict) -> None:
        self._begin(self._work(command))

    async def _work(self, command: Evict) -> None:
        try:
            text = await self._evict(command)
            ok = True
        except KubeError as error:
            text, ok = str(error), False
            log.warning("a pod could not be evicted", pod=command.pod.name, error=text)
        name = "evicted" if ok else "evict_failed"
        self._count("evict", name, name)
        self._outcomes.add(Evicted(command.pod.uid, ok, text))

    async def _evict(self, command: Evict) -> str:
        """Overload and silence are tried again within the time-out: both requests are safe to repeat."""
        deadline = time.monotonic() + self._request_timeout
        try:
            try:
                await insist(lambda left: self._mark(command, left), deadline, self._fence)
            except ApiError as error:
                # 422: the uid differs (or the mark is not to the server's taste); the deletion decides.
                if error.status != 422:
                    raise
            await insist(lambda left: self._delete(command, left), deadline, self._fence)
        except ApiError as error:
            # A conflict is the uid's: the pod that was meant is gone.
            if error.status in (404, 409):
                return "already gone"
            raise
        return ""

    async def _mark(self, command: Evict, timeout: float) -> None:
        """By uid, not by version: whatever else changed, this pod is to go."""
        ref = msgspec.structs.replace(command.pod, version=0)
        body = condition_patch(ref, "DisruptionTarget", "True", "PreemptionByScheduler", command.text)
        await self._client.patch(pod_path(ref.namespace, ref.name) + "/status", body, timeout=timeout)

    async def _delete(self, command: Evict, timeout: float) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": command.pod.uid},
        }
        if command.grace is not None:
            options["gracePeriodSeconds"] = command.grace
        path = pod_path(command.pod.namespace, command.pod.name)
        await self._client.delete(path, msgspec.json.encode(options), timeout=timeout)
