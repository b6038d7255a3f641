"""The composition root of the scheduler: options become ports, an engine and a loop.

Called by `fairlead scheduler` (cli) and by tests that want a scheduler in their own process. The only
module besides `cli` that knows every package. Must not decide anything about groups.
"""

import asyncio
import fcntl
import gc
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import structlog
from msgspec import Struct, structs

from fairlead.api.server import Server
from fairlead.api.source import EngineSource
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.kube.config import load
from fairlead.kube.port import KubePort
from fairlead.kube.things import SOURCE
from fairlead.model.group import GroupRecord
from fairlead.model.settings import Settings
from fairlead.runtime import address, config, eventloop, logs
from fairlead.runtime.clock import Clock
from fairlead.runtime.config import Given, Reloading
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.loop import Loop
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.planner import Planner
from fairlead.runtime.record import Recorder
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
        )


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


class DataFolder:
    """The data folder, locked: one scheduler process each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: BinaryIO | None = None

    def __enter__(self) -> "DataFolder":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a+b")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.path}: another fairlead scheduler uses this data folder; stop it or give --data-dir"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be used as the data folder ({error.strerror}); give another --data-dir"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def run(options: Options) -> None:
    """Run a scheduler until SIGINT or SIGTERM. Raises KubeError, StoreError or ConfigError for people."""
    logs.configure(options.log_format)
    settings = config.settings(options.given)
    folder = DataFolder(options.data_dir or default_data_dir())
    with folder, suppress(KeyboardInterrupt, asyncio.CancelledError):
        eventloop.run(serve(options, settings, folder.path))


async def serve(options: Options, settings: Settings, data: Path) -> None:
    """Compose everything and run it until cancelled or signalled."""
    metrics = Metrics()
    engine = Engine(structs.replace(settings, sources=(*settings.sources, SOURCE)), RECONCILERS)
    reports = Reports(engine, metrics)
    kube = KubePort(
        load(options.kubeconfig, options.context or None),
        scheduler=settings.scheduler,
        bind_parallelism=options.bind_parallelism,
        request_timeout=settings.request_timeout / 1000,
        pod_events=options.pod_events,
        registry=metrics.registry,
    )
    store = PostgresStore(
        data=None if options.database_url else data,
        url=options.database_url,
        request_timeout=settings.request_timeout,
        retention=settings.retention,
    )
    history = StoreHistory(data, options.database_url)
    source = EngineSource(engine.state, metrics, history)
    server = Server(source, host=options.host, port=options.port)
    door = _door(options, source)
    try:
        await asyncio.to_thread(store.check)
        await kube.check_access()
        recorder = Recorder(options.record, engine.state.settings) if options.record else None
        loop = Loop(engine, (store, kube, Planner(reports.cycle)), Clock(), recorder, (reports.batch,))
        await server.start()
        address.write(data, server.url)
        if door is not None:
            await door.start()
            _log.info("gRPC server started", address=door.address)
            if door.warning:
                _log.warning(door.warning, address=door.address)
        queues = {queue.name: queue.policy for queue in settings.queues}
        started = {"scheduler": settings.scheduler, "api": server.url, "data": str(data), "queues": queues}
        _log.info("scheduler started", **started)
        if options.config is not None:
            _on_hangup(Reloading(options.given, settings, loop.inbox))
        await _until_signalled(loop, reports)
    finally:
        if door is not None:
            await door.stop()
        await server.stop()
        await kube.close()
        address.remove(data)


def _door(options: Options, source: EngineSource) -> "Door | None":
    """The gRPC server, if one was asked for: else its library is not even loaded."""
    if not options.grpc:
        return None
    from fairlead.api.rpc.door import Door, listen
    from fairlead.api.rpc.plugin import EXTERNAL_PLUGIN, ExternalPlugin

    services = {EXTERNAL_PLUGIN: ExternalPlugin(source.jgf, source).methods()}
    return Door(services, listen(options.grpc, options.grpc_allow_remote, "--grpc-allow-remote"))


def _on_hangup(reload: Reloading) -> None:
    with suppress(ValueError, NotImplementedError):  # not in the main thread: a test
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


async def _until_signalled(loop: Loop, reports: Reports) -> None:
    running = asyncio.create_task(loop.run(), name="scheduler")
    beating = asyncio.create_task(reports.beat(), name="heartbeat")
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError, NotImplementedError):  # not in the main thread: a test
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    gc.freeze()  # what start-up made lives as long as the process: it need not be walked again
    gc.set_threshold(20_000, 20, 50)  # cycles are rare here; walking the heap for them should be too
    try:
        await running
    except asyncio.CancelledError:
        _log.info("scheduler stopped")
    finally:
        beating.cancel()
