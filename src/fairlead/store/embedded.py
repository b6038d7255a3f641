"""The embedded PostgreSQL: made, started, found again and stopped by our own subprocess calls.

Used by `store.postgres` (which calls `ensure` before every connection attempt, so a server that died is
started again), by `store.reader` for a look into a folder whose scheduler is not running, and by tests
with other binaries. Blocking: call it in a thread; `stop` may come meanwhile. Must not use the wheel's
Python code, listen on the network, or trust anybody: see docs/adr/0002-embedded-postgresql-as-root.md.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, Any

import psycopg
import structlog
from psycopg.conninfo import make_conninfo

from fairlead.store import binaries, folder
from fairlead.store.errors import StoreError
from fairlead.store.sql import SQL

_log = structlog.get_logger("store.embedded")
_LONGEST_LOG = 16 << 20
_SHARED = "shared"
DATABASE = ROLE = "fairlead"
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "20",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}
"""For one writer on a small machine, where every core belongs to the scheduler. Durability stays as it is."""


class EmbeddedServer:
    """One PostgreSQL in `data/pg`. With `shared`, who comes later may use it; who was first is used."""

    def __init__(
        self, data: Path, bin_dir: Path | None = None, patience: float = 60.0, shared: bool = False
    ) -> None:
        self._given_bin = bin_dir
        self._shared = shared
        self._data = data.absolute()
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None
        self._lock: IO[str] | None = None
        self._one_at_a_time = threading.Lock()
        self._stopping = False

    @property
    def url(self) -> str:
        """The libpq connection string; it works for the user who runs Fairlead, over the socket only."""
        return make_conninfo(host=str(self._data / "pg"), user=ROLE, dbname=DATABASE)

    @property
    def pid(self) -> int | None:
        """The postmaster that this object started, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log_file(self) -> Path:
        return self._data / "postgres.log"

    @property
    def cluster(self) -> Path:
        return self._data / "pg" / "data"

    def exists(self) -> bool:
        """A database was made here. Raises StoreError when this user may not even look."""
        try:
            return (self.cluster / "PG_VERSION").exists()
        except PermissionError as error:
            raise StoreError(f"{self._data} belongs to another user: ask as that one, or as root") from error

    def check(self) -> None:
        """Everything that can be wrong before a start; raises StoreError. Makes the data folder."""
        self._data = folder.prepare(self._data, folder.account())
        self._check_version(self._bin())

    def ensure(self) -> None:
        """Running and ready when it returns; starts what is not running. Raises StoreError.

        Another process's server is used if it is shared, or if this one would be: whose ends first, ends
        with it, and the next call starts one of our own.
        """
        with self._one_at_a_time:
            if self._stopping:
                raise StoreError(f"embedded PostgreSQL in {self._data} is being stopped")
            who = folder.account()
            self._data = folder.prepare(self._data, who)
            try:
                if not self._take_lock():
                    return
                if self.pid is None:
                    self._start(who)
            except (OSError, subprocess.SubprocessError) as error:
                raise StoreError(f"embedded PostgreSQL in {self._data} cannot start: {error}") from error
            self._wait_ready()

    def stop(self, timeout: float = 15.0) -> None:
        """End the server that this object started (a fast shutdown) and give the folder free, for good."""
        self._stopping = True
        with self._one_at_a_time:
            self._stop(timeout)

    def _stop(self, timeout: float) -> None:
        if self._process is not None and self._process.poll() is None:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                self._process.send_signal(number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout)
                    break
        self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _bin(self) -> Path:
        return self._given_bin or binaries.bundled()

    def _take_lock(self) -> bool:
        """The kernel frees the lock when its holder dies, so what still runs then is an orphan of ours.

        False when another process has it, and its server is there to be used.
        """
        if self._lock is not None:
            return True
        path = self._data / "pg.lock"
        handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder, _, shared = handle.read().strip().partition(" ")
            handle.close()
            if (self._shared or shared == _SHARED) and running_postmaster(self._data) is not None:
                return False
            raise StoreError(
                f"data folder {self._data} is in use by another Fairlead (process {holder or 'unknown'}): "
                "stop that one or choose another --data-dir"
            ) from error
        handle.truncate(0)
        handle.write(f"{os.getpid()} {_SHARED if self._shared else ''}\n")
        handle.flush()
        self._lock = handle
        return True

    def _start(self, who: folder.Account) -> None:
        bin_dir = binaries.usable(self._bin(), self._data, who)
        folder.prepare_server_folder(self._data, who)
        self._check_version(bin_dir)
        if not self.cluster.exists():
            self._create(bin_dir, who)
        self._stop_orphan()
        access = self._write_access(who)
        options = SETTINGS | access | {"unix_socket_directories": str(self._data / "pg")}
        arguments = [f"{key}={value}" for key, value in options.items()]
        command = [str(bin_dir / "postgres"), "-D", str(self.cluster)]
        command += [word for argument in arguments for word in ("-c", argument)]
        self._rotate_log()
        with self.log_file.open("ab") as log:
            process: subprocess.Popen[str] = subprocess.Popen(command, stdout=log, stderr=log, **_as(who))
        self._process = process
        _log.info("embedded PostgreSQL started", pid=process.pid, folder=str(self._data))

    def _check_version(self, bin_dir: Path) -> None:
        """A data folder is bound to one major version; there is no way to upgrade it in place."""
        try:
            found = (self.cluster / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return
        carried = binaries.major(bin_dir)
        if found != str(carried):
            raise StoreError(
                f"{self.cluster} was made by PostgreSQL {found}, this Fairlead carries {carried}: move it "
                f"with pg_dump of version {found}, or choose another --data-dir"
            )

    def _create(self, bin_dir: Path, who: folder.Account) -> None:
        """initdb into a folder beside, renamed when whole: a kill in the middle leaves nothing half made."""
        fresh = self._data / "pg" / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        command = [
            str(bin_dir / "initdb"),
            "-D",
            str(fresh),
            "-U",
            ROLE,
            "-A",
            "peer",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        run = subprocess.run(command, capture_output=True, text=True, **_as(who))
        if run.returncode != 0:
            reason = (run.stderr.strip() or run.stdout.strip()).replace("\n", "; ")
            raise StoreError(f"embedded PostgreSQL cannot be set up in {self._data}: {reason}")
        fresh.rename(self.cluster)

    def _write_access(self, who: folder.Account) -> dict[str, str]:
        """Only the user who runs Fairlead gets in: the kernel says who is at the other end of the socket.

        The files are the user's, not the server's: root never writes where `nobody` may put a link.
        """
        hba, ident = self._data / "pg_hba.conf", self._data / "pg_ident.conf"
        hba.write_text("local all all peer map=fl\n")
        ident.write_text(f'fl "{who.client}" {ROLE}\n')
        for path in (hba, ident):
            path.chmod(0o644)
        return {"hba_file": str(hba), "ident_file": str(ident)}

    def _rotate_log(self) -> None:
        if self.log_file.exists() and self.log_file.stat().st_size > _LONGEST_LOG:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))

    def _stop_orphan(self) -> None:
        """We hold the lock, so a server on this folder lost its scheduler: end it, then start our own."""
        pid = running_postmaster(self._data)
        if pid is None:
            return
        _log.warning("ending a PostgreSQL that an earlier process left behind", pid=pid)
        for number in (signal.SIGINT, signal.SIGQUIT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline:
                if running_postmaster(self._data) != pid:
                    return
                time.sleep(0.02)
        raise StoreError(
            f"PostgreSQL (process {pid}) still runs in {self._data} and does not end: end it by hand"
        )

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            if self.pid is None:
                raise StoreError(
                    f"embedded PostgreSQL does not start: {self._last_words()} (log: {self.log_file})"
                )
            try:
                return self._make_database()
            except psycopg.OperationalError as error:
                if self._stopping or time.monotonic() > deadline:
                    raise StoreError(f"embedded PostgreSQL is not ready yet: {error}") from error
            time.sleep(0.02)

    def _make_database(self) -> None:
        with psycopg.connect(self.url, dbname="postgres", autocommit=True, connect_timeout=5) as conn:
            if conn.execute(SQL["database_exists"], {"name": DATABASE}).fetchone() is None:
                conn.execute(SQL["create_database"])

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log_file.read_text(errors="replace").splitlines()[-40:]
            wanted = [line for line in lines if "FATAL" in line or "PANIC" in line] or lines
            if wanted:
                return wanted[-1]
        return "no reason given"


def _as(who: folder.Account) -> dict[str, Any]:
    """How every program of the server is run: as its account, without our environment, groups and session."""
    options: dict[str, Any] = {
        "umask": 0o077,
        "cwd": "/",
        "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        "stdin": subprocess.DEVNULL,
        "start_new_session": True,
    }
    if who.demoted:
        options |= {"user": who.uid, "group": who.gid, "extra_groups": []}
    return options


def running_postmaster(data: Path) -> int | None:
    """The process that serves `data/pg`, if any. A pid file may be stale: the working folder must agree."""
    cluster = data / "pg" / "data"
    try:
        pid = int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        return pid if Path(f"/proc/{pid}/cwd").resolve(strict=True) == cluster.resolve() else None
    except (OSError, ValueError):
        return None
