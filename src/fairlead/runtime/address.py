"""The address file: how the command line finds the running scheduler.

Written by the composition root once its HTTP server listens, read by `cli.ask`. It lies in the data
folder as `server.json` with mode 0600, is replaced in one step, and is removed by the process that wrote
it. A file left behind by a killed process is harmless: nobody answers there.
"""

import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

FILE = "server.json"


class Address(Struct, frozen=True):
    """Where a scheduler listens, and which process it is."""

    url: str
    pid: int


def write(data: Path, url: str) -> Path:
    """Tell where this process listens. Raises OSError when the folder cannot be written."""
    path = data / FILE
    temporary = data / f".{FILE}.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(Address(url, os.getpid())) + b"\n")
    temporary.replace(path)
    return path


def read(data: Path) -> Address | None:
    """What the file says; None when there is none that can be read."""
    try:
        return msgspec.json.decode((data / FILE).read_bytes(), type=Address)
    except (OSError, msgspec.DecodeError):
        return None


def remove(data: Path) -> None:
    """Take the file away, if it is still ours."""
    address = read(data)
    if address is not None and address.pid == os.getpid():
        with contextlib.suppress(OSError):
            (data / FILE).unlink()


def alive(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
