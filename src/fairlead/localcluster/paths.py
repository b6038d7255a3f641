"""Where things lie: the folder of clusters, one cluster's files, the cache of binaries, and their locks.

Called by all modules of the package that touch files. It must not start processes, and it creates only the
folders it is asked for.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead.localcluster.errors import ClusterError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def clusters_root() -> Path:
    """The folder with one sub-folder per cluster: `$FAIRLEAD_CLUSTERS`, else the user's state folder."""
    if chosen := os.environ.get("FAIRLEAD_CLUSTERS"):
        return Path(chosen).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser().absolute() / "fairlead" / "clusters"


def cache_root() -> Path:
    """The folder of built binaries: `$FAIRLEAD_CACHE`, else `~/.cache/fairlead`."""
    if chosen := os.environ.get("FAIRLEAD_CACHE"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "fairlead"


@dataclass(frozen=True)
class Layout:
    """The files of one cluster."""

    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def etcd_data(self) -> Path:
        return self.folder / "etcd"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def create(self) -> None:
        """Make all folders, readable by the owner only: they hold keys."""
        try:
            for folder in (self.folder, self.pki, self.conf, self.logs, self.etcd_data):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"cannot create {error.filename}: {error.strerror}; set FAIRLEAD_CLUSTERS to a folder you own"
            ) from None


def layout(name: str) -> Layout:
    """The files of the cluster of that name; refuses names that are no safe folder name."""
    if not NAME.fullmatch(name):
        raise ClusterError(
            f"cluster name {name!r}: use 1 to 40 of a-z, 0-9 and '-', not starting or ending with '-'"
        )
    return Layout(clusters_root() / name)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only the owner may read, in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)


@contextmanager
def locked(
    path: Path, waiting: Callable[[], None] | None = None, timeout: float = 3600.0, what: str = ""
) -> Generator[None]:
    """Hold an exclusive lock on a file; `waiting` is called once if another process has it.

    The kernel drops the lock when its holder ends, however it ends, so it can never be left over.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ClusterError(f"cannot write in {path.parent}: {error.strerror}") from None
    try:
        _take(descriptor, path, waiting, timeout, what)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, waiting: Callable[[], None] | None, timeout: float, what: str) -> None:
    """Poll for the lock: a blocking flock could not be given up after a time."""
    deadline = time.monotonic() + timeout
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not told and waiting:
                waiting()
                told = True
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{what or path} is in use by another process (lock {path}); wait for it and try again"
                ) from None
            time.sleep(0.1)
