"""Patches objects that wait: PodScheduled=False conditions and annotations, when there is time for it.

Used by `kube.actuate`; `kube.evict` takes the body of a condition from here. One pending patch per object and
purpose, a newer one replaces it, a bind cancels its pod's. Must never write to a pod after its bind: each
patch of a pod carries uid and resourceVersion, so one that comes too late fails.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog
from msgspec import Struct

from fairlead.kube.bind import pod_path
from fairlead.kube.client import MERGE_PATCH, STRATEGIC_MERGE, ApiClient
from fairlead.kube.crew import Crew
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.outcomes import Fence, Metrics, Quiet, Stats, TokenBucket, always, count
from fairlead.kube.paths import HOMES
from fairlead.model.command import ObjectRef, PatchAnnotation, PatchCondition
from fairlead.wire import pod as wire_pod
from fairlead.wire.structs import ObjectMeta, WirePod

log = structlog.get_logger("fairlead.kube")


class _Patched(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_pod = msgspec.json.Decoder(WirePod).decode
_patched = msgspec.json.Decoder(_Patched).decode


class Wanted(NamedTuple):
    """A patch that waits; `body` makes it for the version the object then has. `kind` is for counting."""

    kind: str
    ref: ObjectRef
    path: str
    body: Callable[[ObjectRef], bytes]
    content: str = STRATEGIC_MERGE


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata(ref: ObjectRef) -> dict[str, Any]:
    """The preconditions of a patch; without a version it is bound to the uid only."""
    found: dict[str, Any] = {"uid": ref.uid}
    if ref.version:
        found["resourceVersion"] = str(ref.version)
    return found


def condition_patch(ref: ObjectRef, kind: str, status: str, reason: str, message: str) -> bytes:
    """A strategic-merge patch of one condition."""
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message[:32000],
        "lastTransitionTime": now_text(),
    }
    return msgspec.json.encode({"metadata": metadata(ref), "status": {"conditions": [condition]}})


def annotation_patch(ref: ObjectRef, key: str, value: str) -> bytes:
    """A merge patch of one annotation; an empty value takes it away."""
    return msgspec.json.encode({"metadata": {**metadata(ref), "annotations": {key: value or None}}})


class Patches:
    def __init__(
        self,
        client: ApiClient,
        quiet: Quiet,
        metrics: Metrics,
        stats: Stats,
        *,
        rate: float = 50.0,
        parallel: int = 4,
        fence: Fence = always,
    ) -> None:
        self._client = client
        self._quiet = quiet
        self._metrics = metrics
        self._stats = stats
        self._bucket = TokenBucket(rate, rate)
        self._parallel = parallel
        self._fence = fence
        self._pending: dict[str, dict[str, Wanted]] = {}
        self._busy: set[str] = set()
        self._crew = Crew()

    def condition(self, command: PatchCondition) -> None:
        """One patch per pod."""
        for ref in command.pods:
            body = partial(
                condition_patch,
                kind="PodScheduled",
                status="False",
                reason=command.reason,
                message=command.message,
            )
            path = pod_path(ref.namespace, ref.name) + "/status"
            self._add("condition", Wanted("condition", ref, path, body))

    def annotation(self, command: PatchAnnotation) -> None:
        body = partial(annotation_patch, key=command.key, value=command.value)
        ref = command.ref
        path = HOMES[ref.kind].of(ref.namespace, ref.name)
        self._add(command.key, Wanted("annotation", ref, path, body, MERGE_PATCH))

    def cancel(self, uid: str) -> None:
        """The pod is being bound: the bind writes the condition itself, and carries the version."""
        for wanted in self._pending.pop(uid, {}).values():
            count(self._stats, f"{wanted.kind}s_cancelled")

    async def close(self) -> None:
        self._pending.clear()
        await self._crew.close(0)

    def _add(self, purpose: str, wanted: Wanted) -> None:
        known = self._pending.setdefault(wanted.ref.uid, {})
        if known.pop(purpose, None):
            count(self._stats, f"{wanted.kind}s_superseded")
        known[purpose] = wanted
        if len(self._crew) < self._parallel:
            self._crew.begin(self._work())

    async def _work(self) -> None:
        while self._pending:
            await asyncio.sleep(self._bucket.take())
            await self._quiet.wait()
            # Chosen only now: while we waited it may have been replaced, or its pod bound.
            wanted = self._next()
            if wanted is None:
                return
            uid = wanted.ref.uid
            self._busy.add(uid)
            try:
                outcome = await self._patch(wanted)
            finally:
                self._busy.discard(uid)
            count(self._stats, f"{wanted.kind}s_{outcome}")
            self._metrics.writes.labels(wanted.kind, outcome).inc()

    def _next(self) -> Wanted | None:
        """Of an object that no other worker is at: two patches at once would only collide."""
        for uid, known in self._pending.items():
            if uid not in self._busy:
                wanted = known.pop(next(iter(known)))
                if not known:
                    del self._pending[uid]
                return wanted
        return None

    def _renew(self, uid: str, answer: bytes) -> None:
        """What else waits for this object was meant for the version that we have just replaced."""
        known = self._pending.get(uid)
        if known:
            version = int(_patched(answer).metadata.resource_version)
            for purpose, wanted in known.items():
                if 0 < wanted.ref.version < version:
                    known[purpose] = wanted._replace(ref=msgspec.structs.replace(wanted.ref, version=version))

    async def _patch(self, wanted: Wanted) -> str:
        try:
            return await (self._of_pod if wanted.ref.kind == "Pod" else self._once)(wanted)
        except ApiError as error:
            if error.status == 404:
                return "gone"
            name = f"{wanted.ref.namespace}/{wanted.ref.name}"
            log.warning("a patch could not be written", what=wanted.kind, name=name, error=str(error))
            return "failed"
        except (KubeError, msgspec.MsgspecError) as error:
            log.debug("a patch could not be written", what=wanted.kind, error=str(error))
            return "failed"

    async def _once(self, wanted: Wanted) -> str:
        """Bound to the uid: another object may have the name now."""
        if not self._fence():
            return "fenced"
        try:
            answer = await self._client.patch(wanted.path, wanted.body(wanted.ref), content=wanted.content)
            self._renew(wanted.ref.uid, answer)
        except ApiError as error:
            if error.status not in (409, 422):
                raise
            return "dropped"
        return "written"

    async def _of_pod(self, wanted: Wanted) -> str:
        """At the version it was last seen with; if it has changed, once more if it still is unbound."""
        ref = wanted.ref
        for _ in range(2):
            if not ref.version:
                ref = msgspec.structs.replace(ref, version=await self._unbound_version(ref))
            if not ref.version:
                return "dropped"
            outcome = await self._once(wanted._replace(ref=ref))
            if outcome != "dropped":
                return outcome
            ref = msgspec.structs.replace(ref, version=0)
        return "dropped"

    async def _unbound_version(self, ref: ObjectRef) -> int:
        """The version to patch now; 0 if the pod is another one, bound or ending."""
        pod = wire_pod.pod(_pod(await self._client.get(pod_path(ref.namespace, ref.name))))
        unbound = pod.uid == ref.uid and not pod.node and not pod.deleting and not pod.ended
        return pod.version if unbound else 0
