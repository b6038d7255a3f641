"""Binds pods: `Bind` commands become POSTs of bindings, each answered by exactly one Bound or BindFailed.

Used by `kube.actuate`. Every binding carries the pod's uid and resourceVersion. Must never send a request
when the fence is down or the time of the command is over, and must never call a bind failed that may
still succeed: what is not known is UNKNOWN.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog
from msgspec import Struct

from fairlead.kube.client import ApiClient, segment
from fairlead.kube.crew import Crew
from fairlead.kube.errors import ApiError, KubeError, Unreachable
from fairlead.kube.outcomes import Fence, Metrics, Outcomes, Quiet, Stats, always, count
from fairlead.model.command import REVOKED, Bind
from fairlead.model.event import BindError, BindFailed, Bound
from fairlead.model.pod import Pod, Shape
from fairlead.wire import pod as wire_pod
from fairlead.wire.structs import WirePod

log = structlog.get_logger("fairlead.kube")

PLANNED = Callable[[str, int], Shape | None]
"""(uid, version) -> the shape that version had, None where it is not known."""

BACKOFF = (0.05, 2.0)
LEAST = 0.1
"""Share of a binding's time that a request must have left: one that is cut short before a loaded server has
answered would leave in doubt what is known not to be done so far."""


class _Meta(Struct, rename="camel", omit_defaults=True):
    name: str
    namespace: str
    uid: str
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Target(Struct, rename="camel"):
    name: str
    kind: str = "Node"
    api_version: str = "v1"


class _Binding(Struct, rename="camel"):
    metadata: _Meta
    target: _Target
    kind: str = "Binding"
    api_version: str = "v1"


class Job(NamedTuple):
    bind: Bind
    planned: Shape | None
    queued: float


class Verdict(NamedTuple):
    """What a look at the pod says: bind once more with `version`, or the outcome."""

    version: int = 0
    bound: bool = False
    error: BindError | None = None
    text: str = ""


_encode = msgspec.json.Encoder().encode
_pod = msgspec.json.Decoder(WirePod).decode


def binding(bind: Bind, version: int) -> bytes:
    notes = dict(bind.labels), dict(bind.annotations)
    meta = _Meta(bind.name, bind.namespace, bind.pod, str(version) if version else "", *notes)
    return _encode(_Binding(meta, _Target(bind.node)))


def pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}"


def classify(bind: Bind, pod: Pod, planned: Shape | None) -> Verdict:
    """What a conflict means, by what the pod is now (kubernetes-facts 1 and 3)."""
    if pod.uid != bind.pod:
        return Verdict(error=BindError.GONE, text="another pod has this name now")
    if pod.node:
        if pod.node == bind.node:
            return Verdict(bound=True)
        return Verdict(error=BindError.TAKEN, text=f"bound to {pod.node}")
    if pod.annotations.get(REVOKED) == bind.grant:
        return Verdict(error=BindError.CHANGED, text="this start was revoked")
    for changed, text in (
        (pod.deleting, "the pod is being deleted"),
        (pod.gated, "the pod has a scheduling gate"),
        (pod.ended, f"the pod is {pod.phase}"),
        (planned is not None and pod.shape != planned, "the pod's spec changed"),
    ):
        if changed:
            return Verdict(error=BindError.CHANGED, text=text)
    return Verdict(version=pod.version)


class Binder:
    """`parallel` bindings in flight. `fence` is asked before each request, and bounds its time.

    The clock of a binding (`request_timeout`) starts when it leaves the queue; `queue_timeout`, where given,
    also ends those that waited longer than that for their turn, unsent.
    """

    def __init__(
        self,
        client: ApiClient,
        outcomes: Outcomes,
        quiet: Quiet,
        metrics: Metrics,
        stats: Stats,
        *,
        planned: PLANNED | None = None,
        bound: Callable[[Bind], None] | None = None,
        fence: Fence = always,
        parallel: int = 64,
        request_timeout: float = 10.0,
        queue_timeout: float | None = None,
    ) -> None:
        self._client = client
        self._outcomes = outcomes
        self._quiet = quiet
        self._metrics = metrics
        self._stats = stats
        self._planned = planned
        self._bound = bound
        self._fence = fence
        self._parallel = parallel
        self._request_timeout = request_timeout
        self._queue_timeout = queue_timeout
        self._queue: deque[Job] = deque()
        self._crew = Crew()
        metrics.waiting.set_function(lambda: len(self._queue))
        # Finding a labelled counter costs as much as counting, and nearly all are this one.
        self._count_bound = metrics.binds.labels("bound").inc

    def add(self, bind: Bind) -> None:
        planned = self._planned(bind.pod, bind.version) if self._planned else None
        self._queue.append(Job(bind, planned, time.monotonic()))
        self._quiet.busy()
        if len(self._crew) < self._parallel:
            self._crew.begin(self._work())

    async def close(self, patience: float = 2.0) -> None:
        """Nothing new is sent; what is in flight gets `patience` seconds."""
        self._queue.clear()
        await self._crew.close(patience)

    async def _work(self) -> None:
        while self._queue:
            job = self._queue.popleft()
            if not self._queue:
                self._quiet.idle()
            started = time.monotonic()
            self._metrics.bind_queue_seconds.observe(started - job.queued)
            try:
                verdict = await self._bind(job)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                log.error("bind failed unexpectedly", pod=job.bind.name, exc_info=True)
                verdict = Verdict(error=BindError.UNKNOWN, text=repr(error))
            self._metrics.bind_seconds.observe(time.monotonic() - started)
            self._tell(job.bind, verdict)

    def _tell(self, bind: Bind, verdict: Verdict) -> None:
        name = verdict.error.value if verdict.error else "bound"
        count(self._stats, f"bind_{name}")
        if verdict.error:
            self._metrics.binds.labels(name).inc()
            self._outcomes.add(BindFailed(bind.pod, bind.grant, verdict.error, verdict.text))
            return
        self._count_bound()
        self._outcomes.add(Bound(bind.pod, bind.grant, bind.node))
        if self._bound:
            self._bound(bind)

    async def _bind(self, job: Job) -> Verdict:
        """Send until there is an answer that settles it, the time is over or the fence is down."""
        start = time.monotonic()
        if self._queue_timeout is not None and start - job.queued > self._queue_timeout:
            return Verdict(error=BindError.UNKNOWN, text="not sent: waited too long for its turn")
        deadline = start + self._request_timeout
        version, conflicts, attempt = job.bind.version, 0, 0
        text, refused_only = "not sent", True
        while (left := deadline - time.monotonic()) > LEAST * self._request_timeout:
            allowed = self._fence()
            if not allowed:
                return Verdict(error=BindError.UNKNOWN, text=f"{text}: this process may not write any more")
            try:
                await self._post(job.bind, version, min(left, allowed))
                return Verdict(bound=True)
            except ApiError as error:
                text = str(error)
                if error.status == 404:
                    return Verdict(error=BindError.GONE, text=text)
                if error.status == 409:
                    verdict = await self._look(job, deadline)
                    conflicts += 1
                    if not verdict.version:
                        return verdict
                    if conflicts > 1:
                        return Verdict(error=BindError.CHANGED, text=f"it keeps changing: {text}")
                    version = verdict.version
                    continue
                if not error.transient:
                    return Verdict(error=BindError.REFUSED, text=text)
                pause = error.retry_after
                refused_only = refused_only and error.status == 429
            except Unreachable as error:
                text = str(error)
                if error.sent:
                    return await self._find_out(job, text)
                pause = 0.0
            attempt += 1
            await asyncio.sleep(min(max(0.0, deadline - time.monotonic()), self._pause(attempt, pause)))
        if attempt and refused_only:
            return Verdict(error=BindError.BUSY, text=text)
        return await self._find_out(job, text)

    async def _post(self, bind: Bind, version: int, timeout: float) -> None:
        path = pod_path(bind.namespace, bind.name) + "/binding"
        await self._client.post(path, binding(bind, version), timeout=timeout)

    @staticmethod
    def _pause(attempt: int, asked: float) -> float:
        """Not all at the same moment again, when the server has asked many to come back later."""
        low, high = BACKOFF
        return max(asked, min(high, low * 2**attempt)) * random.uniform(1.0, 1.2)

    async def _look(self, job: Job, deadline: float) -> Verdict:
        """The pod as it is now, judged. The outcome is UNKNOWN when it cannot be seen."""
        count(self._stats, "bind_conflicts")
        try:
            timeout = max(0.1, deadline - time.monotonic())
            body = await self._client.get(pod_path(job.bind.namespace, job.bind.name), timeout=timeout)
            return classify(job.bind, wire_pod.pod(_pod(body)), job.planned)
        except ApiError as error:
            known = BindError.GONE if error.status == 404 else BindError.UNKNOWN
            return Verdict(error=known, text=str(error))
        except (KubeError, msgspec.MsgspecError) as error:
            return Verdict(error=BindError.UNKNOWN, text=str(error))

    async def _find_out(self, job: Job, text: str) -> Verdict:
        """After silence: a pod seen bound or gone settles it; one seen unbound may still be bound."""
        count(self._stats, "bind_silences")
        verdict = await self._look(job, time.monotonic() + min(2.0, self._request_timeout))
        if verdict.bound or verdict.error in (BindError.GONE, BindError.TAKEN):
            return verdict
        return Verdict(error=BindError.UNKNOWN, text=text)
