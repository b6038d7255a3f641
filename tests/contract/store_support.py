"""What the store's tests share: an inbox that can be waited on, servers to test against, records to write.

Servers are real processes. They are started by `EmbeddedServer` or, for a server with a TCP port and a
password, by `TcpServer`; whoever makes one ends it. Waiting is by deadline, never by a measured duration.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fairlead.localcluster.components import free_ports
from fairlead.model.command import RecordAllocations
from fairlead.model.event import AllocationsRecorded, Event, Synced
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import Grant, Placement, Reserve
from fairlead.store.postgres import PostgresStore

DEADLINE = 60.0
DEBIAN = Path("/usr/lib/postgresql/15/bin")
NOBODY = 65534
SIZE = 96
"""Megabytes: what an empty database takes, and a third more."""


class Events:
    """An inbox that keeps everything."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def put(self, events: Sequence[Event]) -> None:
        self.all.extend(events)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]

    async def wait(self, wanted: Callable[[], object], what: str = "") -> None:
        await until(wanted, lambda: f"{what}; so far {self.all[-8:]}")

    async def first(self, kind: type, count: int = 1) -> Any:
        """The `count`-th event of the kind, waited for."""
        await self.wait(lambda: len(self.of(kind)) >= count, f"no {kind.__name__} number {count}")
        return self.of(kind)[count - 1]


async def until(wanted: Callable[[], object], what: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not wanted():
        assert time.monotonic() < deadline, f"waited in vain: {what()}"
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def running(store: Any, wait: bool = True) -> AsyncIterator[Events]:
    """The store's life around a test, ended the way the application ends it."""
    inbox = Events()
    task = asyncio.create_task(store.run(inbox))
    try:
        if wait:
            await inbox.first(Synced)
        yield inbox
    finally:
        await store.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that the embedded server may use also when the tests run as root: pytest's own are private."""
    path = Path(tempfile.mkdtemp(prefix="fl-"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def free_port() -> int:
    """One that the system gives to no outgoing connection while the server that is to have it is away."""
    return free_ports().apiserver


class TcpServer:
    """A PostgreSQL on a loopback port with a password, like one that a user would bring."""

    def __init__(self, bin_dir: Path, top: Path, port: int) -> None:
        self._bin, self._top, self._port = bin_dir, top, port
        self._password = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://tester:{self._password}@127.0.0.1:{self._port}/postgres"

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}}
        if os.geteuid() == 0:
            options |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        return options

    def create(self) -> None:
        home = self._top / "tcp"
        home.mkdir(mode=0o700)
        secret = home / "password"
        secret.write_text(self._password)
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
            os.chown(secret, NOBODY, NOBODY)
        command = [self._bin / "initdb", "-D", home / "data", "-U", "tester", "-A", "scram-sha-256"]
        command += ["--pwfile", secret, "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, **self._options())

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": "",
            "fsync": "off",
        }
        command = [str(self._bin / "postgres"), "-D", str(self._top / "tcp" / "data")]
        command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        deadline = time.monotonic() + DEADLINE
        while True:
            # A child of one that was killed keeps it out until it has noticed that it is an orphan.
            if self._process is None or self._process.poll() is not None:
                with (self._top / "tcp.log").open("ab") as log:
                    self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._options())
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self._top / "tcp.log").read_text()
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL for all of its processes."""
        assert self._process is not None
        for pid in self._session():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        self._process = None

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """None of its processes runs meanwhile; all connections stay open."""
        assert self._process is not None
        everybody = self._session()
        for pid in everybody:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(everybody):
                os.kill(pid, signal.SIGCONT)

    def _session(self) -> list[int]:
        """The postmaster first, then its children (each has a session of its own)."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        return [self._process.pid, *map(int, children)]

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(2)
            self._process.wait(30)
            self._process = None


class Proxy:
    """Passes bytes between a client and the server, each chunk `delay` seconds late.

    While `mute`, nothing comes back from the server. While `deaf`, nothing gets to it: it is kept in `held`.
    """

    def __init__(self, url: str) -> None:
        self._to = psycopg.conninfo.conninfo_to_dict(url)
        self.mute = self.deaf = False
        self.delay = 0.0
        self.held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.answers = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield psycopg.conninfo.make_conninfo(**self._to | {"port": port})
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Both sides see the connection end."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    def hang_up(self) -> None:
        """Only the client sees its connections end; the server waits for what is held."""
        for writer in self._writers[::2]:
            writer.close()

    def let_through(self) -> None:
        """What was held arrives now."""
        self.deaf = False
        for writer, data in self.held:
            writer.write(data)
        self.held.clear()

    async def _client(self, source: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, target = await asyncio.open_connection(str(self._to["host"]), int(self._to["port"] or 0))
        self._writers += [back, target]
        for task in (self._pump(source, target, False), self._pump(answers, back, True)):
            self._tasks.add(asyncio.create_task(task))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, muted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                self.answers += muted
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.deaf and not muted:
                    self.held.append((sink, data))
                elif not (muted and self.mute):
                    sink.write(data)
                    await sink.drain()
        if not self.held:
            sink.close()


@contextlib.contextmanager
def impatient(store: Any) -> Iterator[None]:
    """A server that is silent for a second counts as lost meanwhile; on a slow machine any may be so long."""
    usual, store._patience = store._patience, 1
    try:
        yield
    finally:
        store._patience = usual


async def settled(inbox: Events, store: PostgresStore) -> None:
    """Two plans on, so that the housekeeping after the first write is behind us."""
    for number, plan in enumerate(("a", "b"), 1):
        store.perform([record(plan, store.epoch, [900 + number])])
        await inbox.first(AllocationsRecorded, number)


@contextlib.contextmanager
def fresh_database(url: str) -> Iterator[str]:
    """An empty database of its own on that server."""
    name = f"fairlead_test_{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield psycopg.conninfo.make_conninfo(url, dbname=name)
        finally:
            conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())


def group(number: int, **changes: Any) -> GroupRecord:
    """The group `g<number>`, the `number`-th to arrive."""
    key = f"label:ns/g{number}"
    values: dict[str, Any] = {
        "id": f"{key}#0",
        "key": key,
        "incarnation": 0,
        "namespace": "ns",
        "name": f"g{number}",
        "seq": number,
        "first_seen": 1_700_000_000_000 + number,
        "phase": Phase.QUEUED,
    }
    return GroupRecord(**values | changes)


def grants(plan: str, epoch: int, numbers: Sequence[int], pods: int = 2) -> tuple[Grant, ...]:
    """One grant per group, each of so many pods."""
    return tuple(
        Grant(
            f"{plan}/{group(number).id}",
            plan,
            group(number).id,
            epoch,
            1_700_000_001_000,
            tuple(Placement(f"uid-{plan}-{number}-{pod}", f"node-{pod}") for pod in range(pods)),
        )
        for number in numbers
    )


def record(
    plan: str, epoch: int, numbers: Sequence[int], pods: int = 2, *promised: Reserve
) -> RecordAllocations:
    """A plan that starts these groups."""
    records = tuple(group(number, phase=Phase.STARTING) for number in numbers)
    return RecordAllocations(
        plan, epoch, 1_700_000_001_000, grants(plan, epoch, numbers, pods), promised, records
    )


def rows(store: PostgresStore, statement: str) -> list[tuple[Any, ...]]:
    """What somebody else sees in the store's database."""
    with psycopg.connect(store.url, options="-csearch_path=fairlead") as conn:
        return conn.execute(statement.encode()).fetchall()


def mount(path: Path, *options: str) -> None:
    done = subprocess.run(["mount", *options, str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount is not permitted here: {done.stderr.strip()}")


def fill(path: Path) -> Path:
    """Take all the room there is."""
    ballast = path / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 10))
    return ballast


def forbid(url: str, on: bool) -> None:
    """No session of this database may write any more, those that are open neither; or they may again."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET default_transaction_read_only = off")
        name = conn.info.dbname.encode()
        word = b"on" if on else b"off"
        conn.execute(b"ALTER DATABASE " + name + b" SET default_transaction_read_only = " + word)
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
