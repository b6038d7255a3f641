"""The composition root of the recorder: options become watches, doors and a ledger.

Called by `fairlead recorder` (cli). Back-pressure ends here: doors answer whatever becomes of what they were
told, and watches are stopped and go on from what is durable when the database cannot keep up. Must not look
into what is recorded.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.process_collector import ProcessCollector
from starlette.routing import Route

from fairlead import __version__
from fairlead.api import health, tap
from fairlead.api.apart import Apart
from fairlead.api.listen import Listen, listen
from fairlead.api.rpc.door import Door
from fairlead.api.server import HttpServer
from fairlead.kube import observe
from fairlead.kube.access import check_access, until_reached
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load
from fairlead.kube.tally import Tally
from fairlead.kube.translate import KindOf
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.record import Part
from fairlead.model.view import Health
from fairlead.recorder.book import Book, Mark
from fairlead.recorder.extender import Extender
from fairlead.recorder.feed import Feed
from fairlead.recorder.jsonl_file import JsonLines
from fairlead.recorder.outlet import Outlet
from fairlead.recorder.scheduling_events import SchedulingEvents
from fairlead.runtime import eventloop, logs
from fairlead.store.errors import FencedError
from fairlead.store.folder import RECORDER as FOLDER
from fairlead.store.folder import default_data_dir
from fairlead.store.ledger import Ledger

ALLOW = "--allow-remote"
MOST_BYTES = 64 << 20
"""Of one message at the gRPC door: 500 facts of the plugin, each with the scores of some hundred nodes."""
ROOM = 200_000
"""Rows that may wait for the database."""
FOR_DOORS = ROOM * 3 // 4
"""The rest is for what the watches see: a loud door must not make them begin anew again and again."""
DAY = 24 * 3600 * 1000
IDLE = 75.0
"""Seconds without a byte after which a watch is opened anew. A server tells a quiet one once a minute how far
it is: opened sooner, it would never hear that, and nobody could say up to when nothing has happened."""
_log = structlog.get_logger("recorder")


class Options(Struct, frozen=True):
    """What `fairlead recorder` was told. None and empty strings mean: not given, or not wanted."""

    kubeconfig: Path | None = None
    context: str = ""
    data_dir: Path | None = None
    database_url: str = ""
    grpc: str = "127.0.0.1:4242"
    http: str = "127.0.0.1:8081"
    extender: str = ""
    """Where kube-scheduler asks; "": at `http`."""
    extender_tls: Path | None = None
    """The folder with the certificates for that."""
    allow_remote: bool = False
    jsonl: Path | None = None
    retention: int = 30 * DAY
    """Milliseconds."""
    events: bool = True
    """Whether Kubernetes Events are recorded, too."""
    log_format: str = "text"


def run(options: Options) -> None:
    """Record until SIGINT or SIGTERM. Raises KubeError, StoreError, ServerError or ConfigError for people."""
    logs.configure(options.log_format)
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        eventloop.run(_serve(options))


async def _serve(options: Options) -> None:
    recorder = Recorder(options)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, NotImplementedError):  # not in the main thread: a test
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await recorder.start()
        await recorder.record()
    finally:
        await recorder.stop()
        _log.info("recorder stopped")


class Recorder:
    """One process' recorder: starts what was asked for, records, and tells how it is."""

    def __init__(self, options: Options) -> None:
        """Raises what can be said before anything is started."""
        self._options = options
        self._client = ApiClient(
            load(options.kubeconfig, options.context or None), connections=8, user_agent="fairlead-recorder"
        )
        self.ledger = Ledger(
            data=None if options.database_url else options.data_dir or default_data_dir() / FOLDER,
            url=options.database_url,
            limit=ROOM,
            retention=options.retention,
            now=_now,
        )
        self._kinds: list[KindOf[Any]] = [observe.PODS, observe.NODES]
        if options.events:
            self._kinds.append(observe.EVENTS)
        self._feed: Feed | None = None
        self._jsonl: JsonLines | None = None
        self._stats: dict[str, int] = {}
        self._reached = False
        self._outlets: dict[str, Outlet] = {}
        apart = Apart(options.extender, options.extender_tls, options.allow_remote, ALLOW)
        apart.check()
        routes = self._tap() if options.http or options.extender else []
        self.extender = apart.server(routes)
        self.http = self._http([] if self.extender else routes) if options.http else None
        self.grpc = self._grpc() if options.grpc else None
        self._registry = self._measured()

    # -- start and stop ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Doors open when it returns; the API server may still be away. Raises what a user can put right."""
        await asyncio.to_thread(self.ledger.check)
        if self._options.jsonl is not None:
            self._jsonl = JsonLines(self._options.jsonl)
        for door in (self.http, self.extender, self.grpc):
            if door is not None:
                await door.start()
        _log.info(
            "recorder started",
            http=self.http.url if self.http else "",
            extender=self.extender.url if self.extender else "",
            grpc=self.grpc.address if self.grpc else "",
        )
        if self.grpc is not None and self.grpc.warning:
            _log.warning(self.grpc.warning, address=self.grpc.address)

    async def stop(self) -> None:
        for door in (self.grpc, self.extender, self.http):
            if door is not None:
                await door.stop()
        await self.ledger.close()
        if self._jsonl is not None:
            await asyncio.to_thread(self._jsonl.close)
        await self._client.close()

    async def record(self) -> None:
        """Turn after turn: another recorder may take over meanwhile, and this one then stands by."""
        while True:
            writing = asyncio.create_task(self.ledger.run(), name="ledger")
            watching = asyncio.create_task(self._watch(), name="watch")
            try:
                await asyncio.wait({writing, watching}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._feed = None
                await _ended(watching)
                if not writing.done():
                    await _ended(writing)
            if watching.done() and not watching.cancelled():
                watching.result()
            with suppress(FencedError):
                writing.result()
            _log.warning("another recorder has taken over: standing by")

    # -- watching ------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Life after life of the watches, each from what the ledger has. Raises KubeError at the start."""
        rights = observe.needed(self._options.events)
        await until_reached(partial(check_access, self._client, needed=rights), "nothing is recorded")
        self._reached = True
        while True:
            loaded = await self.ledger.load()
            if self._jsonl is not None:
                self._jsonl.go_on(loaded.pods.values())
            _log.info("watching", pods=len(loaded.pods), nodes=len(loaded.nodes), marks=loaded.marks)
            feed = Feed(Book(loaded, SchedulingEvents().learn), self._put, _now)
            feed.listed |= loaded.marks.keys()
            self._feed = feed
            await self._watch_until_full(feed, loaded.marks)
            self._feed = None
            _log.warning("the database does not keep up: the watches wait", rows=self.ledger.waiting)
            await self.ledger.drained()

    async def _watch_until_full(self, feed: Feed, marks: dict[str, int]) -> None:
        gate = SyncGate(())
        reflectors = [
            Reflector(
                self._client, kind, feed, gate, self._stats,
                start=marks.get(kind.name, 0), marked=partial(Mark, kind.name), idle=IDLE,
            )
            for kind in self._kinds
        ]  # fmt: skip
        watches = [asyncio.create_task(each.run(), name="reflector") for each in reflectors]
        try:
            await feed.full.wait()
        finally:
            for task in watches:
                await _ended(task)

    def _put(self, part: Part) -> bool:
        if not self.ledger.put(part):
            return False
        if self._jsonl is not None:
            self._jsonl.put(part)
        return True

    # -- doors ---------------------------------------------------------------------------------------

    def _put_told(self, part: Part) -> bool:
        return self.ledger.waiting < FOR_DOORS and self._put(part)

    def _outlet(self, name: str) -> Outlet:
        self._outlets[name] = outlet = Outlet(self._put_told, name, _now)
        return outlet

    def _tap(self) -> list[Route]:
        return tap.routes(Extender(self._outlet("extender").put, _now))

    def _http(self, routes: Sequence[Route]) -> HttpServer:
        at = self._listen(self._options.http)
        return HttpServer(health.create_app(self, routes, at.host), *at, "choose another --http")

    def _grpc(self) -> Door:
        from fairlead.recorder import sniffer_service, stream

        sniffer = sniffer_service.SnifferService(self._put_told, _now)
        schedulers = stream.RecorderService(self._put_told, _now)
        self._outlets |= {"sniffer": sniffer.outlet, "plugin": schedulers.outlet}
        services = {sniffer_service.SERVICE: sniffer.methods()}
        at = self._listen(self._options.grpc)
        return Door(services, at, {stream.SERVICE: schedulers.streams()}, MOST_BYTES)

    def _listen(self, text: str) -> Listen:
        return listen(text, self._options.allow_remote, ALLOW)

    # -- how it is -----------------------------------------------------------------------------------

    def health(self) -> Health:
        reasons = tuple(self._reasons())
        return Health(not reasons, reasons)

    def _reasons(self) -> list[str]:
        if self.ledger.standby:
            return ["stands by: another recorder writes"]
        reasons = [f"the database: {self.ledger.error}"] if self.ledger.error else []
        if not self._reached:
            reasons.append("the API server has not answered yet")
        elif self._feed is None:
            reasons.append("the watches wait for the database")
        else:
            missing = [kind.name for kind in self._kinds if kind.name not in self._feed.listed]
            reasons += [f"{name}s are not listed yet" for name in missing]
        return reasons

    def metrics(self) -> bytes:
        return generate_latest(self._registry)

    def _measured(self) -> CollectorRegistry:
        r = CollectorRegistry()
        ProcessCollector(registry=r)
        r.register(Tally(self._stats))
        info = Gauge("fairlead_build_info", "Always 1; the label tells the version.", ["version"], registry=r)
        info.labels(__version__).set(1)
        rows = Gauge(
            "fairlead_ledger_rows", "Rows of the ledger by what became of them.", ["state"], registry=r
        )
        rows.labels("written").set_function(lambda: self.ledger.written)
        rows.labels("waiting").set_function(lambda: self.ledger.waiting)
        rows.labels("dropped").set_function(lambda: self.ledger.dropped)
        doors = Gauge(
            "fairlead_recorder_door_changes", "What was told at a door, by what became of it.",
            ["door", "state"], registry=r,
        )  # fmt: skip
        for name, outlet in self._outlets.items():
            doors.labels(name, "taken").set_function(partial(getattr, outlet, "taken"))
            doors.labels(name, "refused").set_function(partial(getattr, outlet, "refused"))
        self._gauge(r, "pods", "Pods that are not known to be gone.", lambda feed: feed.book.pods)
        self._gauge(r, "nodes", "Nodes that are there.", lambda feed: feed.book.nodes)
        self._gauge(r, "mistakes", "Facts that were left out over a mistake.", lambda feed: feed.mistakes)
        ready = Gauge("fairlead_ready", "1 while what happens is recorded.", registry=r)
        ready.set_function(lambda: not self._reasons())
        standby = Gauge("fairlead_recorder_standby", "1 while another recorder writes.", registry=r)
        standby.set_function(lambda: self.ledger.standby)
        return r

    def _gauge(self, r: CollectorRegistry, name: str, words: str, value: Callable[[Feed], int]) -> None:
        gauge = Gauge(f"fairlead_recorder_{name}", words, registry=r)
        gauge.set_function(lambda: value(self._feed) if self._feed is not None else 0)


async def _ended(task: "asyncio.Task[None]") -> None:
    """Cancelled, and over."""
    task.cancel()
    await asyncio.wait({task})


def _now() -> int:
    return time.time_ns() // 1_000_000
