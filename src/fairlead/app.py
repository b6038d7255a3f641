"""The composition root of the scheduler: options become ports, an engine and a loop.

Called by `fairlead scheduler` (cli) and by tests that want a scheduler in their own process. The only
module besides `cli` that knows every package. Must not decide anything about groups.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct, structs

from fairlead.api.listen import listen
from fairlead.api.server import Server
from fairlead.api.source import EngineSource
from fairlead.app_esi import EsiOptions, EsiPart
from fairlead.app_ledger import LedgerPort
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.kube.access import to_elect, until_reached
from fairlead.kube.client import ApiClient
from fairlead.kube.config import IN_CLUSTER, KubeAccess, load
from fairlead.kube.errors import KubeError
from fairlead.kube.lease import ApiLeases, Elector, Timing
from fairlead.kube.outcomes import always
from fairlead.kube.port import KubePort
from fairlead.kube.things import SOURCE
from fairlead.model.command import Announce, ObjectRef
from fairlead.model.group import GroupRecord
from fairlead.model.settings import Settings
from fairlead.runtime import address, config, eventloop, logs, policy_process
from fairlead.runtime.audit import INTERVAL, Auditor
from fairlead.runtime.clock import Clock
from fairlead.runtime.config import Given
from fairlead.runtime.datafolder import DataFolder
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.loop import Loop, Observer
from fairlead.runtime.memory import Thrift
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.planner import Planner
from fairlead.runtime.policies import Policies
from fairlead.runtime.port import Inbox, Port
from fairlead.runtime.record import Recorder, Recording, Recordings
from fairlead.runtime.reloading import Reloading
from fairlead.runtime.reports import Reports
from fairlead.store import reader
from fairlead.store.folder import default_data_dir
from fairlead.store.postgres import PostgresStore

if TYPE_CHECKING:
    from fairlead.api.rpc.door import Door

_log = structlog.get_logger("app")


class Options(Struct, frozen=True):
    """What `fairlead scheduler` was told. None and empty strings mean: not given."""

    kubeconfig: Path | None = None
    context: str = ""
    data_dir: Path | None = None
    database_url: str = ""
    config: Path | None = None
    policy: str = ""
    reservation_depth: int | None = None
    queue_depth: int | None = None
    match: str = ""
    scheduler: str = ""
    pod_events: bool = True
    record: Path | None = None
    log_format: str = "text"
    host: str = "127.0.0.1"
    port: int = 0
    grpc: str = ""
    grpc_allow_remote: bool = False
    bind_parallelism: int = 64
    ledger: bool = False
    """Whether decisions are written into the database, row by row."""
    ledger_interval: float = 3600.0
    """Seconds between two states that a replay can begin with."""
    ledger_retention: float = 30 * 86400.0
    """Seconds; with a recorder on the same database the shorter of both counts."""
    audit_interval: float = INTERVAL
    """Seconds between two audits; 0 = none by itself."""
    leader_elect: bool = False
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    lease_name: str = "fairlead"
    lease_namespace: str = ""
    also_listen: tuple[int, ...] = ()
    """More ports of the HTTP server, on the same host."""
    esi: EsiOptions | None = None
    """External schedulers are served."""

    @property
    def given(self) -> Given:
        """What of this is about the engine's settings."""
        return Given(
            config=self.config,
            policy=self.policy,
            depth=self.reservation_depth,
            looks=self.queue_depth,
            match=self.match,
            scheduler=self.scheduler,
            aliases=self.esi.aliases if self.esi else (),
        )

    @property
    def timing(self) -> Timing:
        """What of this is about the lease, in seconds."""
        return Timing(self.lease_duration, self.renew_deadline, self.retry_period)


class StoreHistory:
    """What the store knows of groups that the engine has forgotten; a connection per question."""

    def __init__(self, data: Path, url: str) -> None:
        self._data, self._url = data, url

    async def ended(self, limit: int) -> list[GroupRecord]:
        async with reader.open_reader(data=self._data, url=self._url) as conn:
            return [r for r in await reader.groups(conn, True, limit) if r.ended_at]

    async def find(self, name: str) -> list[GroupRecord]:
        async with reader.open_reader(data=self._data, url=self._url) as conn:
            return await reader.find(conn, name)


def run(options: Options) -> None:
    """Run a scheduler until SIGINT or SIGTERM. Raises KubeError, StoreError or ConfigError for people."""
    logs.configure(options.log_format)
    if options.esi is not None:
        options.esi.check(options.host)
    settings = config.settings(options.given)
    if settings.function is not None:
        policy_process.check(settings.function)
    if options.leader_elect and not options.database_url:
        raise ConfigError(
            "--leader-elect needs --database-url: replicas share a PostgreSQL of yours, the one inside "
            "belongs to one process"
        )
    folder = DataFolder(options.data_dir or default_data_dir(), shared=options.leader_elect)
    with folder, suppress(KeyboardInterrupt, asyncio.CancelledError):
        eventloop.run(serve(options, settings, folder.path))


class Life:
    """An engine and its ports, from empty to closed. A replica that may lead no longer begins another one.

    `elector` None: this process is alone, and leads as soon as the database lets it.
    """

    def __init__(
        self, options: Options, settings: Settings, access: KubeAccess, data: Path, elector: Elector | None
    ) -> None:
        self.options, self.settings, self._elector = options, settings, elector
        self.stopped = False
        """Told to end by a signal."""
        self.metrics = Metrics()
        self.engine = Engine(structs.replace(settings, sources=(*settings.sources, SOURCE)), RECONCILERS)
        self._reports = Reports(self.engine, self.metrics)
        self.policies = Policies(self.engine.state, self.metrics.registry)
        self._clock = Clock()
        self.kube = KubePort(
            access,
            scheduler=settings.scheduler,
            aliases=settings.aliases,
            esi=options.esi is not None,
            bind_parallelism=options.bind_parallelism,
            request_timeout=settings.request_timeout / 1000,
            pod_events=options.pod_events,
            fence=elector.allowed if elector else always,
            registry=self.metrics.registry,
        )
        about = ObjectRef("Namespace", "", access.namespace or "default", "")
        self.policies.announce = lambda reason, note: self.kube.perform(
            [Announce(about, reason, note, warning=True, action="Planning")]
        )
        every, state = options.audit_interval, self.engine.state
        self.auditor = Auditor(state, self.kube.relist, self.metrics, interval=every, clock=self._clock)
        self.store = PostgresStore(
            data=None if options.database_url else data,
            url=options.database_url,
            request_timeout=settings.request_timeout,
            retention=settings.retention,
            now=self._clock.now,
            elected=partial(self._elected, elector) if elector else None,
        )
        self._inbox: Inbox | None = None
        self._caught_up = False
        if elector is not None:
            self.metrics.leads(lambda: elector.allowed() > 0)

    async def run(
        self, record: Path | None, on_lead: Callable[[], None], more: Sequence[Observer] = ()
    ) -> str:
        """Until the process is told to end (then `stopped`), or may lead no longer: then the reason."""
        recordings: list[Recording] = (
            [Recorder(record, self.engine.state.settings)] if record is not None else []
        )
        ports: list[Port] = [self.store, self.kube, Planner(self._reports.cycle, self.policies), self.auditor]
        thrift = Thrift()
        observers: list[Observer] = [self._reports.batch, self.auditor.batch, thrift.batch, *more]
        if self.options.ledger:
            ledger = self._ledger()
            ports.append(ledger)
            observers.append(ledger.batch)
            recordings.append(ledger.segments)
            self.policies.rows = ledger.tell
        loop = Loop(self.engine, ports, self._clock, Recordings(*recordings), observers)
        self._inbox = loop.inbox
        reloading = Reloading(self.options.given, self.settings, loop.inbox, self.policies.again)
        if self.options.config is not None:
            _on_signal(signal.SIGHUP, reloading)
        running = asyncio.create_task(loop.run(), name="scheduler")
        watching: list[asyncio.Task[str | None]] = [
            asyncio.create_task(self._reports.beat(), name="heartbeat"),
            asyncio.create_task(thrift.run(), name="thrift"),
        ]
        if self._elector is not None:
            watching.append(asyncio.create_task(self._lead(self._elector, on_lead), name="election"))
            watching.append(asyncio.create_task(self._fenced(), name="fence"))
        for number in (signal.SIGINT, signal.SIGTERM):
            _on_signal(number, partial(self._stop, running))
        _spare_the_collector()  # only now does nothing hold the life before this one any more
        try:
            await asyncio.wait((running, *watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
            await asyncio.wait((running,))  # what is in flight comes to its end while the lease is renewed
            lost = [task.result() or "" for task in watching if task.done()]
            await self._stop_watching(watching)
            self.settings = reloading.present
        if not lost and not running.cancelled():
            running.result()
        return "; ".join(lost)

    def _ledger(self) -> LedgerPort:
        return LedgerPort(
            self.store.url,
            self.engine,
            retention=round(self.options.ledger_retention * 1000),
            now=self._clock.now,
            registry=self.metrics.registry,
            leads=lambda: self._elector is None or self._elector.allowed() > 0,
            every=round(self.options.ledger_interval * 1000),
        )

    def _stop(self, running: asyncio.Task[None]) -> None:
        self.stopped = True
        running.cancel()

    async def _stop_watching(self, watching: Sequence[asyncio.Task[str | None]]) -> None:
        """The lease is given back only if it is still ours: one that was lost runs out by itself."""
        held = not any(task.done() for task in watching if task.get_name() == "election")
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        if held and self._elector is not None:
            await self._elector.release()

    async def _elected(self, elector: Elector) -> None:
        """Returns while this one leads, and has been told of all that the one before it has done.

        A watch may be late, or dead and nobody says so: a standby would then give away room that is taken.
        """
        await elector.until_led()
        while self._inbox is not None and not self._caught_up:
            try:
                self._inbox.put(await self.kube.catch_up())
                self._caught_up = True
            except KubeError as error:
                _log.warning("leads, but cannot list what there is; trying again", error=str(error))
                await asyncio.sleep(1.0)
            await elector.until_led()

    async def _lead(self, elector: Elector, on_lead: Callable[[], None]) -> str:
        await elector.acquire()
        on_lead()
        return await elector.hold()

    async def _fenced(self) -> str:
        await self.store.fenced.wait()
        return f"another one writes to the database ({self.store.error})"


async def serve(options: Options, settings: Settings, data: Path) -> None:
    """Compose everything and run it until cancelled or signalled, life after life."""
    access = load(options.kubeconfig, options.context or None)
    client = ApiClient(access, connections=2)  # its own: a renewal must not queue behind binds
    elector, rights = None, ()
    if options.leader_elect:
        namespace = options.lease_namespace or (
            access.namespace if access.source == IN_CLUSTER else "kube-system"
        )
        elector = Elector(ApiLeases(client, namespace, options.lease_name), options.timing)
        rights = to_elect(namespace)
    life = Life(options, settings, access, data, elector)
    history = StoreHistory(data, options.database_url)
    standby = (lambda: elector.standing) if elector else str
    source = EngineSource(life.engine.state, life.metrics, history, standby=standby)
    source.auditor = life.auditor
    source.remark = lambda: life.policies.remark()
    esi = options.esi and EsiPart(options.esi, access, life.engine.state, elector)
    routes, document = (esi.routes(), esi.document()) if esi else ((), None)
    server = Server(source, options.host, options.port, options.also_listen, routes, document)
    door = _door(options, source)
    try:
        await asyncio.to_thread(life.store.check)
        await server.start()
        if esi:
            await esi.start(options.host)
        tell_address(data, server.url, leads=elector is None)
        await until_reached(partial(life.kube.check_access, rights), "nothing is scheduled")
        if door is not None:
            await door.start()
            _log.info("gRPC server started", address=door.address)
            if door.warning:
                _log.warning(door.warning, address=door.address)
        queues = {queue.name: queue.policy for queue in settings.queues}
        started = {"scheduler": settings.scheduler, "api": server.url, "data": str(data), "queues": queues}
        _log.info("scheduler started", **started)
        on_lead = partial(tell_address, data, server.url, leads=True)
        for record in recordings(options.record):
            lost = await life.run(record, on_lead, esi.observers if esi else ())
            if life.stopped or not lost:
                break
            _log.warning("steps down", reason=lost)
            life = Life(options, life.settings, access, data, elector)
            source.turn_to(life.engine.state, life.metrics, life.auditor)
            if esi:
                esi.turn_to(life.engine.state)
        _log.info("scheduler stopped")
    finally:
        if door is not None:
            await door.stop()
        if esi:
            await esi.close()
        await server.stop()
        await life.kube.close()
        await client.close()
        address.remove(data)


def tell_address(data: Path, url: str, leads: bool) -> None:
    """Where the command line asks. Of replicas on one machine that is the one that leads."""
    known = address.read(data)
    if leads or known is None or not address.alive(known.pid):
        try:
            address.write(data, url)
        except OSError as error:  # a full disk must not keep anybody from watching until there is room
            why = {"folder": str(data), "error": error.strerror}
            _log.error("the command line will not find this scheduler", **why)


def recordings(first: Path | None) -> Iterator[Path | None]:
    """A file for each life of the engine: FILE, FILE.2, FILE.3 …"""
    yield first
    for number in count(2):
        yield first and first.with_name(f"{first.name}.{number}")


def _door(options: Options, source: EngineSource) -> "Door | None":
    """The gRPC server, if one was asked for: else its library is not even loaded."""
    if not options.grpc:
        return None
    from fairlead.api.rpc.door import Door
    from fairlead.api.rpc.plugin import EXTERNAL_PLUGIN, ExternalPlugin

    services = {EXTERNAL_PLUGIN: ExternalPlugin(source.jgf, source).methods()}
    return Door(services, listen(options.grpc, options.grpc_allow_remote, "--grpc-allow-remote"))


def _on_signal(number: signal.Signals, react: Callable[[], object]) -> None:
    with suppress(ValueError, NotImplementedError):  # not in the main thread: a test
        asyncio.get_running_loop().add_signal_handler(number, react)


def _spare_the_collector() -> None:
    gc.unfreeze()
    gc.collect()  # nothing is urgent now, and an old engine may be large
    gc.freeze()  # what start-up made lives as long as the process: it need not be walked again
    gc.set_threshold(20_000, 20, 50)  # cycles are rare here; walking the heap for them should be too
