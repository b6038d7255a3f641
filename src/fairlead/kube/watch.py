"""One reflector per kind: what the API server has, as events, for ever.

Run by `kube.port`. A first list comes by WatchList streaming (paged lists where the server has none), then
the watch goes on from its version; 410 lists anew. Objects of a list are emitted sorted by (created,
version), then Listed, then, once, Synced. A list that is older than what was seen before (the API server's
database was restored from a backup) comes after Rewound. Must never drop an event, never select by field (a
selector hides how a pod ended) and never raise for a fault of the server: it logs and tries again.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Protocol

import msgspec
import structlog

from fairlead.kube.client import ApiClient
from fairlead.kube.errors import ApiError, KubeError, Silent, Unreachable
from fairlead.kube.lines import LineSplitter
from fairlead.kube.pages import pages
from fairlead.kube.structs import ObjectList, Status, WatchEvent
from fairlead.kube.translate import Item, KindOf, Line, complain, place, uid_in, uid_of, version_in
from fairlead.model.event import Listed, Rewound, Synced
from fairlead.wire.pod import version_of
from fairlead.wire.structs import MetadataOnly

log = structlog.get_logger("fairlead.kube")

IDLE = 30.0
"""Seconds without a byte after which a watch is opened anew: it may be dead and nobody says so.

A server that has nothing to tell is silent for a minute; asking it again twice in that time costs little.
"""
FIRST_IDLE = 30.0
"""The same while a first list streams in."""
WATCH_SECONDS = (300, 600)
SHORT = 1.0
"""A watch that ends sooner, and has told nothing, is a fault: it must not be opened again at once."""
LONGEST_WISH = 60.0
"""No longer than this is waited on a server's word (Retry-After)."""
TRIES = 3
"""After so many faults in a row that are not the server's load, a list is the safer way on."""
ABSENT = 10.0
"""Seconds until a server that did not know a kind is asked again: its definition may be applied any time."""
LOG_EVERY = 30.0
INITIAL_END = "k8s.io/initial-events-end"

_envelope = msgspec.json.Decoder(WatchEvent).decode
_metadata = msgspec.json.Decoder(MetadataOnly).decode
_status = msgspec.json.Decoder(Status).decode
_list = msgspec.json.Decoder(ObjectList).decode


class Expired(Exception):
    """The version we watched from is too old (410), or the server does not know it yet: list anew."""


class Taker(Protocol):
    """Where what is told goes: the engine's inbox, or the recorder."""

    def put(self, events: Sequence[Any]) -> None:
        """What one chunk of a watch, or a whole list, has told, in order."""
        ...


class Found:
    """A list while it comes in: what it holds, and the uids of what is there but cannot be read."""

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.unread: dict[str, None] = {}

    def add(self, item: Item | None, uid: str = "") -> None:
        if item is not None:
            self.items[uid_of(item)] = item
        elif uid:
            self.unread[uid] = None

    def drop(self, uid: str) -> None:
        self.items.pop(uid, None)
        self.unread.pop(uid, None)

    def events(self, kind: str, version: int) -> list[Item]:
        """In order, with Listed behind them. What could not be read is there all the same."""
        items = sorted(self.items.values(), key=place)
        uids = (*(uid_of(item) for item in items), *(uid for uid in self.unread if uid not in self.items))
        return [*items, Listed(kind, uids, version)]


class SyncGate:
    """Emits Synced(source) once, when all kinds of that source have been listed."""

    def __init__(self, kinds: Sequence[KindOf[Any]]) -> None:
        self._missing: dict[str, set[str]] = {}
        for kind in kinds:
            self._missing.setdefault(kind.source, set()).add(kind.name)

    def listed(self, kind: KindOf[Any]) -> list[Item]:
        missing = self._missing.get(kind.source)
        if missing is None:
            return []
        missing.discard(kind.name)
        if missing:
            return []
        del self._missing[kind.source]
        return [Synced(kind.source)]


class Reflector:
    """Lists and watches one kind. `on_event` is told of each event before it goes to the inbox.

    `start` is the version to go on from, 0 to begin with a list. `marked` makes what is put behind all that a
    chunk of the watch has told: the version up to which everything is in. A list says it itself.
    """

    def __init__(
        self,
        client: ApiClient,
        kind: KindOf[Any],
        inbox: Taker,
        gate: SyncGate,
        stats: dict[str, int],
        on_event: Callable[[Item], None] | None = None,
        *,
        start: int = 0,
        marked: Callable[[int], Any] | None = None,
        idle: float = IDLE,
        first_idle: float = FIRST_IDLE,
        absent: float = ABSENT,
        backoff: tuple[float, float] = (0.2, 15.0),
    ) -> None:
        self._client = client
        self._kind = kind
        self._inbox = inbox
        self._gate = gate
        self._stats = stats
        self._on_event = on_event
        self._idle, self._first_idle = idle, first_idle
        self._absent, self._backoff = absent, backoff
        self._marked = marked
        self._version = str(start or "")
        self._highest = start
        """The highest version of this kind so far."""
        self._doubtful = start > 0
        """True after a watch: what answers next may be a server with another past."""
        self._streaming, self._unknown = True, False
        self._failures, self._logged = 0, -LOG_EVERY

    async def run(self) -> None:
        """Until cancelled. Without a version it lists; with one it goes on from there."""
        while True:
            try:
                while not self._version:
                    await self._list_if_there()
                if self._doubtful:
                    await self._make_sure()
                await self._watch()
            except Expired:
                self._version = ""
                self._count("relists")
            except Exception as error:
                # Whatever it was, the cluster must be watched: a scheduler that is blind is worse.
                self._complain(error)
                self._consider(error)
                await asyncio.sleep(self._pause(error))

    def _consider(self, error: Exception) -> None:
        """Whether to go on from where we were. After some refusals in a row a list is the safer start."""
        self._failures += 1
        if isinstance(error, Unreachable):
            return
        if not isinstance(error, ApiError):  # a line that cannot be read would come again and again
            if self._failures >= TRIES:
                self._version = ""
        elif error.status == 410 or (self._failures >= TRIES and error.status not in (401, 403, 429, 503)):
            self._version = ""

    def _pause(self, error: Exception) -> float:
        low, high = self._backoff
        pause = random.uniform(0.5, 1.0) * min(high, low * 2 ** min(self._failures, 10))
        if isinstance(error, ApiError) and error.retry_after:
            # Not all at the same moment again: that is what the server asked to be spared.
            return max(pause, min(error.retry_after, LONGEST_WISH) * random.uniform(1.0, 1.2))
        return pause

    def _complain(self, error: Exception) -> None:
        self._count("watch_errors")
        if time.monotonic() - self._logged < LOG_EVERY:
            return
        self._logged = time.monotonic()
        known = isinstance(error, KubeError)
        log.warning(
            "cannot watch; trying again",
            kind=self._kind.name,
            error=str(error) or repr(error),
            exc_info=not known,
        )

    def _count(self, name: str, by: int = 1) -> None:
        self._stats[name] = self._stats.get(name, 0) + by

    async def _list_if_there(self) -> None:
        """A kind that the server does not know, or no longer, has no objects, until it does."""
        try:
            await self._list()
        except ApiError as error:
            if error.status != 404 or not self._kind.optional:
                raise
            if not self._unknown:
                self._unknown = True
                log.info("the server does not know this kind", kind=self._kind.name, again_in=self._absent)
                gone = [Listed(self._kind.name, (), self._highest)] if self._highest else []
                self._put([*gone, *self._gate.listed(self._kind)])
            self._count(f"absent_{self._kind.name}")
            await asyncio.sleep(self._absent)

    async def _list(self) -> None:
        if self._streaming:
            try:
                await self._stream_list()
                return
            except ApiError as error:
                if error.status not in (400, 422):
                    raise
                self._without_streaming(str(error))
            except Silent as error:  # so a server looks that never sends the mark
                self._without_streaming(f"no mark of the end: {error}")
                raise
        await self._paged_list()

    def _without_streaming(self, why: str) -> None:
        self._streaming = False
        log.info("the server does not stream lists; using pages", kind=self._kind.name, why=why)

    async def _stream_list(self) -> None:
        """WatchList: without allowWatchBookmarks the end mark would never come."""
        params = {
            "watch": "1",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
            **self._kind.params,
        }
        found = Found()
        splitter = LineSplitter()
        rest: list[Line] = []
        async with self._client.stream(self._kind.path, params, self._first_idle) as chunks:
            async for chunk in chunks:
                for raw in splitter.feed(chunk):
                    line = self._checked(self._read_listed(raw))
                    if not self._version:
                        self._collect(found, line)
                    else:
                        rest.append(line)
                if self._version:
                    # The same stream could go on; a watch of its own has the right idle time.
                    self._emit(rest)
                    return
        # Ended without the mark: a server that ignores sendInitialEvents.
        self._without_streaming("the stream ended without its mark")
        await self._paged_list()

    def _read_listed(self, raw: bytes) -> Line:
        """A line that cannot be read must not keep all the others from being listed."""
        try:
            return self.read(raw)
        except msgspec.MsgspecError as error:
            complain(self._kind.name, raw, error, self._count)
            return Line("", 0)

    def _collect(self, found: Found, line: Line) -> None:
        if line.end_of_list:
            self._finish_list(found, line.version)
        elif line.what == "DELETED":
            found.drop(line.uid)
        elif line.what in ("ADDED", "MODIFIED"):
            found.add(line.item, line.uid)

    async def _paged_list(self) -> None:
        """Pages of one snapshot; all carry its version. A page that expired (410) starts anew."""
        found, version = Found(), 0
        async for page in pages(self._client, self._kind.path, self._kind.params):
            for raw in page.items:
                item = self._kind.seen(raw, self._count)
                found.add(item, "" if item else uid_in(raw))
            version = version_of(page.metadata.resource_version)
            await asyncio.sleep(0)
        self._finish_list(found, version)

    def _finish_list(self, found: Found, version: int) -> None:
        events = found.events(self._kind.name, version)
        if version < self._highest:
            self._say_rewound(version)
            events.insert(0, Rewound(self._kind.name))
        self._put([*events, *self._gate.listed(self._kind)])
        self._version, self._highest = str(version), version
        self._doubtful = self._unknown = False
        self._count(f"listed_{self._kind.name}", len(found.items))
        log.info("listed", kind=self._kind.name, objects=len(found.items), version=version)

    def _say_rewound(self, version: int) -> None:
        self._count("rewinds")
        log.error(
            "the API server's versions went back, as after a restored backup; learning all anew",
            kind=self._kind.name,
            known=self._highest,
            found=version,
        )

    async def _make_sure(self) -> None:
        """Ask for the server's present version. A watch from one that it has yet to reach would be silent,
        and stay so: the server only tells what is newer."""
        answer = await self._client.get(self._kind.path, params={"limit": "1"})
        if version_of(_list(answer).metadata.resource_version) < self._highest:
            raise Expired("the server's version is lower than what it told before")
        self._doubtful = False

    async def _watch(self) -> None:
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
            **self._kind.params,
        }
        splitter = LineSplitter()
        opened, told = time.monotonic(), False
        self._doubtful = True
        try:
            async with self._client.stream(self._kind.path, params, self._idle) as chunks:
                async for chunk in chunks:
                    lines = splitter.feed(chunk)
                    told = told or bool(lines)
                    self._emit([self.read(raw) for raw in lines])
        except Silent:
            self._count("watch_silences")  # no fault, unless what is asked next is not answered either
            return
        if not told and time.monotonic() - opened < SHORT:
            raise Unreachable("the watch ended as soon as it had begun")
        self._failures = 0

    def _emit(self, lines: list[Line]) -> None:
        """One put for all that one chunk brought. An error line ends the watch, after what came before."""
        events: list[Item] = []
        version = 0
        told = list(takewhile(lambda line: line.what != "ERROR", lines))
        for line in told:
            version = line.version or version
            if line.item is not None:
                events.append(line.item)
        if version and self._marked is not None:
            events.append(self._marked(version))
        self._put(events)
        if version:
            self._version = str(version)
            self._highest = max(self._highest, version)
        if len(told) < len(lines):
            self._checked(lines[len(told)])
        if lines:
            self._failures = 0

    def _put(self, events: list[Item]) -> None:
        if not events:
            return
        if self._on_event is not None:
            for event in events:
                self._on_event(event)
        self._inbox.put(events)
        self._count("events", len(events))

    def _checked(self, line: Line) -> Line:
        if line.what != "ERROR":
            return line
        if line.code == 410:
            raise Expired(line.text)
        raise ApiError(f"watch {self._kind.name}: {line.text} ({line.code})", status=line.code)

    def read(self, raw: bytes) -> Line:
        """One watch line. The envelope alone is decoded first: a bookmark's object is not a valid one."""
        envelope = _envelope(raw)
        what = envelope.type
        if what in ("ADDED", "MODIFIED"):
            item = self._kind.seen(envelope.object, self._count)
            if item is None:
                return Line(what, 0, uid=uid_in(envelope.object))
            return Line(what, version_in(item), item)
        if what == "ERROR":
            status = _status(envelope.object)
            return Line(what, 0, code=status.code, text=status.message)
        meta = _metadata(envelope.object).metadata
        version = version_of(meta.resource_version)
        if what == "DELETED":
            last = self._kind.last(envelope.object, self._count) if self._kind.last is not None else None
            return Line(what, version, last or self._kind.gone(meta.uid, version), meta.uid)
        return Line(what, version, end_of_list=meta.annotations.get(INITIAL_END) == "true")
