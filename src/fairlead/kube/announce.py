"""Writes Kubernetes Events (events.k8s.io/v1), last in line.

Used by `kube.actuate`. The queue is bounded: the oldest is dropped and counted. Binds go first, but each
worker still sends one Event a second while they last. Repeats of the same (object, reason, note) become
the series of the first. Must not raise, and must not wait for the API server anywhere but in its workers.
"""

import hashlib
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from fairlead.kube.client import MERGE_PATCH, ApiClient, segment
from fairlead.kube.crew import Crew
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.outcomes import Fence, Metrics, Quiet, Stats, always, count
from fairlead.kube.paths import HOMES
from fairlead.model.command import Announce, Bind, ObjectRef

log = structlog.get_logger("fairlead.kube")

NOTE_BYTES = 1024
NAME_BYTES = 128
SERIES_EVERY = 60.0
"""A repeat within this many seconds is only counted, and told with the next one."""
YIELD = 1.0
GONE = 4096
"""So many objects are known to be gone."""
OWNERS = dict.fromkeys(("ReplicaSet", "StatefulSet", "Deployment"), "apps/v1")
API_VERSIONS = OWNERS | {kind: home.version for kind, home in HOMES.items()}

Key = tuple[str, str, str]


class Series:
    """What was sent of one key: how often it was said, and when it was last told."""

    __slots__ = ("count", "told")

    def __init__(self) -> None:
        self.count = 0
        self.told = float("-inf")


def cut(text: str, size: int) -> str:
    """At most `size` bytes of UTF-8, never half a character."""
    raw = text.encode()
    return text if len(raw) <= size else raw[:size].decode(errors="ignore")


def key_of(command: Announce) -> Key:
    return (command.regarding.uid, command.reason, command.note)


def event_name(command: Announce) -> str:
    """The same for the same key, so that a repeat after a restart meets its Event instead of a twin."""
    digest = hashlib.sha256("\0".join(key_of(command)).encode()).hexdigest()[:16]
    stem = cut(command.regarding.name, 220).rstrip("-.")
    return f"{stem}.{digest}"


def micros() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event_body(command: Announce, scheduler: str, instance: str) -> dict[str, Any]:
    ref = command.regarding
    regarding = {
        "apiVersion": API_VERSIONS.get(ref.kind, "v1"),
        "kind": ref.kind,
        "name": ref.name,
        "uid": ref.uid,
    }
    if ref.namespace:
        regarding["namespace"] = ref.namespace
    if ref.version:
        regarding["resourceVersion"] = str(ref.version)
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event_name(command), "namespace": ref.namespace or "default"},
        "eventTime": micros(),
        "type": "Warning" if command.warning else "Normal",
        "reason": cut(command.reason, NAME_BYTES),
        "action": cut(command.action, NAME_BYTES),
        "note": cut(command.note, NOTE_BYTES),
        "regarding": regarding,
        "reportingController": cut(scheduler, NAME_BYTES),
        "reportingInstance": instance,
    }


def scheduled(bind: Bind) -> Announce:
    """What kube-scheduler says of a bound pod, in the words people and tools look for."""
    ref = ObjectRef(kind="Pod", namespace=bind.namespace, name=bind.name, uid=bind.pod)
    note = f"Successfully assigned {bind.namespace}/{bind.name} to {bind.node}"
    return Announce(regarding=ref, reason="Scheduled", note=note, action="Binding")


class Announcer:
    def __init__(
        self,
        client: ApiClient,
        quiet: Quiet,
        metrics: Metrics,
        stats: Stats,
        *,
        scheduler: str,
        parallel: int = 8,
        bound: int = 16384,
        fence: Fence = always,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._quiet = quiet
        self._metrics = metrics
        self._stats = stats
        self._scheduler = scheduler
        self._instance = cut(f"{scheduler}-{socket.gethostname()}", NAME_BYTES)
        self._parallel = parallel
        self._limit = bound
        self._fence = fence
        self._clock = clock
        self._queue: deque[tuple[Announce, bool]] = deque()
        self._series: OrderedDict[str, dict[tuple[str, str], Series]] = OrderedDict()
        """Object -> (reason, note) -> its series; the object that was spoken of last comes last."""
        self._kept = 0
        """How many series these are."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        """Objects that went lately, the last one last: what is queued of them may be said yet."""
        self._crew = Crew()

    def add(self, command: Announce, once: bool = False) -> None:
        """`once`: this is never said again (a pod is bound once), so it needs no memory."""
        if len(self._queue) >= self._limit:
            self._queue.popleft()
            count(self._stats, "events_dropped")
        self._queue.append((command, once))
        if len(self._crew) < self._parallel:
            self._crew.begin(self._work())

    async def close(self, patience: float = 1.0) -> None:
        """A little time for what is queued; Events are worth no more."""
        await self._crew.close(patience)
        self._queue.clear()

    async def _work(self) -> None:
        while self._queue:
            await self._quiet.wait(YIELD)
            if not self._queue:
                return
            command, once = self._queue.popleft()
            outcome = await self._say(command, once)
            count(self._stats, f"events_{outcome}")
            self._metrics.writes.labels("event", outcome).inc()

    async def _say(self, command: Announce, once: bool) -> str:
        if not self._fence():
            return "fenced"
        try:
            if once:
                return await self._create(command, Series())
            series = self._remember(key_of(command))
            series.count += 1
            if self._clock() - series.told < SERIES_EVERY:
                return "repeated"
            series.told = self._clock()
            return await (
                self._create(command, series) if series.count == 1 else self._repeat(command, series)
            )
        except (KubeError, msgspec.MsgspecError) as error:
            if isinstance(error, ApiError) and error.status == 404:
                return "gone"
            log.debug("an Event could not be written", reason=command.reason, error=str(error))
            return "failed"

    def forget(self, uid: str) -> None:
        """The object is gone: what is still said of it is not said again."""
        self._gone[uid] = None
        if len(self._gone) > GONE:
            self._gone.popitem(last=False)
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        self._kept -= len(self._series.pop(uid, ()))

    def _remember(self, key: Key) -> Series:
        uid, said = key[0], key[1:]
        if uid in self._gone:
            return Series()
        about = self._series.setdefault(uid, {})
        self._series.move_to_end(uid)
        if said not in about:
            about[said] = Series()
            self._kept += 1
        series = about[said]
        while self._kept > self._limit:
            self._drop(next(iter(self._series)))
        return series

    def _path(self, command: Announce) -> str:
        namespace = segment(command.regarding.namespace or "default")
        return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"

    async def _create(self, command: Announce, series: Series) -> str:
        body = event_body(command, self._scheduler, self._instance)
        try:
            await self._client.post(self._path(command), msgspec.json.encode(body))
            return "written"
        except ApiError as error:
            if error.status != 409:
                raise
            # Said before by an earlier process.
            series.count = max(2, series.count + 1)
            return await self._patch_series(command, series)

    async def _repeat(self, command: Announce, series: Series) -> str:
        try:
            return await self._patch_series(command, series)
        except ApiError as error:
            if error.status != 404:
                raise
            # Events live an hour; this one is forgotten and may be said anew.
            series.count = 1
            return await self._create(command, series)

    async def _patch_series(self, command: Announce, series: Series) -> str:
        path = f"{self._path(command)}/{segment(event_name(command))}"
        body = {"series": {"count": series.count, "lastObservedTime": micros()}}
        await self._client.patch(path, msgspec.json.encode(body), content=MERGE_PATCH)
        return "series"
