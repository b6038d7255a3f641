"""Processes that outlive the command which starts them: spawn, look, end.

Called by `Cluster`. A process is known by its id together with its start time; nothing here may look a
process up by its name or signal one whose start time differs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.state import ProcessRecord

# In the environment of every component, with the cluster's instance as its value: so `down` finds even the
# process whose starter was killed before it could write down the id.
MARK = "FAIRLEAD_CLUSTER_INSTANCE"


def spawn(arguments: list[str], log: Path, instance: str) -> ProcessRecord:
    """Start a process in a session of its own, so that Ctrl-C in the terminal does not reach it."""
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(log.parent.parent),
        "LC_ALL": "C.UTF-8",
        MARK: instance,
    }
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            arguments[0],
            arguments,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            # A parent that ignores or blocks signals must not make its children deaf to them.
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
    except OSError as error:
        raise ClusterError(f"cannot start {arguments[0]}: {error.strerror}") from None
    return ProcessRecord(pid, start_time(pid) or 0)


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None if it does not run (any more)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    # The command in parentheses may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    # After a kill the first thread is a zombie while others still hold the process's ports: it runs until
    # the last of them has gone.
    return None if state in "ZX" and threads <= 1 else started


def alive(record: ProcessRecord) -> bool:
    """Whether that very process still runs; an ended child of ours is reaped on the way."""
    if start_time(record.pid) == record.started:
        return True
    with contextlib.suppress(OSError):
        os.waitpid(record.pid, os.WNOHANG)
    return False


def send(record: ProcessRecord, number: int) -> bool:
    """Signal the process if it still is the one recorded."""
    if not alive(record):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, number)
        return True
    return False


def end(records: Iterable[ProcessRecord], grace: float) -> None:
    """Ask all to end, wait up to `grace` seconds for all together, then kill what is left."""
    running = [record for record in records if send(record, signal.SIGTERM)]
    if not wait_gone(running, grace):
        for record in running:
            send(record, signal.SIGKILL)
        if not wait_gone(running, 10.0):
            left = ", ".join(str(record.pid) for record in running if alive(record))
            raise ClusterError(f"process {left} does not end even on SIGKILL; look at it with ps")


def wait_gone(records: Iterable[ProcessRecord], timeout: float) -> bool:
    """Wait until none of them runs; False if some still do when the time is over."""
    deadline = time.monotonic() + timeout
    left = [record for record in records if alive(record)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [record for record in left if alive(record)]
    return not left


def marked(instance: str) -> list[ProcessRecord]:
    """All processes of one cluster, found by the mark in their environment."""
    wanted = f"{MARK}={instance}".encode()
    found: list[ProcessRecord] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            ours = wanted in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(entry.name)
        if ours and (started := start_time(pid)) is not None:
            found.append(ProcessRecord(pid, started))
    return found
