"""Binds claims: `BindClaim` commands become patches of a volume or of a claim, each over one version.

Used by `kube.actuate`. Silence, overload and conflicts (422 is one of the uid) are not answered: the watch
tells what has become of it, and the engine asks again. Must not send anything when the fence is down.
"""

from typing import Any

import msgspec
import structlog

from fairlead.kube.client import segment
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.patches import metadata
from fairlead.kube.writer import Writer
from fairlead.model.command import BindClaim
from fairlead.model.event import BindError, BindFailed
from fairlead.wire.storage import SELECTED_NODE

log = structlog.get_logger("fairlead.kube")

BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


def request(command: BindClaim) -> tuple[str, bytes]:
    """Path and body of the patch, as kube-scheduler's VolumeBinding would write the object."""
    claim, volume = command.claim, command.volume
    if volume is None:
        path = f"/api/v1/namespaces/{segment(claim.namespace)}/persistentvolumeclaims/{segment(claim.name)}"
        notes = {"annotations": {SELECTED_NODE: command.node}}
        return path, msgspec.json.encode({"metadata": metadata(claim) | notes})
    meta = metadata(volume)
    if command.by_controller:
        meta["annotations"] = {BY_CONTROLLER: "yes"}
    reference: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": str(claim.version),
    }
    body = {"metadata": meta, "spec": {"claimRef": reference}}
    return f"/api/v1/persistentvolumes/{segment(volume.name)}", msgspec.json.encode(body)


class ClaimBinder(Writer):
    """One patch per command, tried once."""

    def add(self, command: BindClaim) -> None:
        self._begin(self._work(command))

    async def _work(self, command: BindClaim) -> None:
        allowed = min(self._request_timeout, self._fence())
        outcome = await self._bind(command, allowed) if allowed else "fenced"
        self._count("claim", f"claim_{outcome}", outcome)

    async def _bind(self, command: BindClaim, timeout: float) -> str:
        path, body = request(command)
        try:
            await self._client.patch(path, body, timeout=timeout)
            return "written"
        except KubeError as error:
            if not isinstance(error, ApiError) or error.transient or error.status in (401, 404, 409, 422):
                log.debug("a claim was not bound", claim=command.claim.name, error=str(error))
                return "not_written"
            log.warning("a claim cannot be bound", claim=command.claim.name, error=str(error))
            self._outcomes.add(BindFailed(command.pod, command.grant, BindError.REFUSED, str(error)))
            return "refused"
