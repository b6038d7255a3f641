"""Writes PodScheduled=False conditions, when there is time for it.

Used by `kube.actuate`. One pending patch per pod, a newer one replaces it, a bind cancels it. Must never
write after a bind: each patch carries uid and resourceVersion, so one that comes too late fails.
"""

import asyncio
from datetime import UTC, datetime

import msgspec
import structlog

from fairlead.kube.bind import pod_path
from fairlead.kube.client import ApiClient
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.outcomes import Metrics, Quiet, Stats, TokenBucket, count
from fairlead.model.command import ObjectRef, PatchCondition
from fairlead.wire import pod as wire_pod
from fairlead.wire.structs import WirePod

log = structlog.get_logger("fairlead.kube")

_pod = msgspec.json.Decoder(WirePod).decode

Pending = tuple[ObjectRef, str, str]


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition_patch(ref: ObjectRef, kind: str, status: str, reason: str, message: str) -> bytes:
    """A strategic-merge patch of one condition; without a version it is bound to the uid only."""
    metadata = {"uid": ref.uid}
    if ref.version:
        metadata["resourceVersion"] = str(ref.version)
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:32000],
        "lastTransitionTime": now_text(),
    }
    return msgspec.json.encode({"metadata": metadata, "status": {"conditions": [condition]}})


class Conditions:
    def __init__(
        self,
        client: ApiClient,
        quiet: Quiet,
        metrics: Metrics,
        stats: Stats,
        *,
        rate: float = 50.0,
        parallel: int = 4,
    ) -> None:
        self._client = client
        self._quiet = quiet
        self._metrics = metrics
        self._stats = stats
        self._bucket = TokenBucket(rate, rate)
        self._parallel = parallel
        self._pending: dict[str, Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, command: PatchCondition) -> None:
        for ref in command.pods:
            if self._pending.pop(ref.uid, None):
                count(self._stats, "conditions_superseded")
            self._pending[ref.uid] = (ref, command.reason, command.message)
            if len(self._tasks) < self._parallel:
                task = asyncio.create_task(self._work())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def cancel(self, uid: str) -> None:
        """The pod is being bound: the bind writes the condition itself."""
        if self._pending.pop(uid, None):
            count(self._stats, "conditions_cancelled")

    async def close(self) -> None:
        self._pending.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while self._pending:
            await asyncio.sleep(self._bucket.take())
            await self._quiet.wait()
            # Chosen only now: while we waited it may have been replaced, or its pod bound.
            if not self._pending:
                return
            uid = next(iter(self._pending))
            ref, reason, message = self._pending.pop(uid)
            outcome = await self._patch(ref, reason, message)
            count(self._stats, f"conditions_{outcome}")
            self._metrics.writes.labels("condition", outcome).inc()

    async def _patch(self, ref: ObjectRef, reason: str, message: str) -> str:
        try:
            for _ in range(2):
                if not ref.version and (version := await self._unbound_version(ref)):
                    ref = msgspec.structs.replace(ref, version=version)
                if not ref.version:
                    return "dropped"
                body = condition_patch(ref, "PodScheduled", "False", reason, message)
                try:
                    await self._client.patch(pod_path(ref.namespace, ref.name) + "/status", body)
                    return "written"
                except ApiError as error:
                    # 409 for the version, 422 for the uid: another pod may have the name now.
                    if error.status not in (409, 422):
                        raise
                ref = msgspec.structs.replace(ref, version=0)
            return "dropped"
        except ApiError as error:
            if error.status == 404:
                return "gone"
            log.warning(
                "a condition could not be written", pod=f"{ref.namespace}/{ref.name}", error=str(error)
            )
            return "failed"
        except (KubeError, msgspec.MsgspecError) as error:
            log.debug("a condition could not be written", error=str(error))
            return "failed"

    async def _unbound_version(self, ref: ObjectRef) -> int:
        """The version to patch now; 0 if the pod is another one, bound or ending."""
        pod = wire_pod.pod(_pod(await self._client.get(pod_path(ref.namespace, ref.name))))
        unbound = pod.uid == ref.uid and not pod.node and not pod.deleting and not pod.ended
        return pod.version if unbound else 0
