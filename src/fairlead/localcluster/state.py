"""What is remembered of a cluster between commands: ports, options and the processes started.

Written by `up` and by starting or ending a component, before anything else happens; read by all commands.
It must be enough to end every process even if the one that started them was killed.
"""

from __future__ import annotations

import msgspec

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.options import UpOptions
from fairlead.localcluster.paths import Layout, write_private


class ProcessRecord(msgspec.Struct):
    """A process by its id and its start time in clock ticks since boot, so that a reused id is noticed."""

    pid: int
    started: int


class Ports(msgspec.Struct, frozen=True):
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int


class State(msgspec.Struct):
    """The state file. `ready` turns true at the end of a complete `up` and never back."""

    instance: str
    options: UpOptions
    ports: Ports
    binaries: dict[str, str]
    ready: bool = False
    processes: dict[str, ProcessRecord] = {}

    def save(self, layout: Layout) -> None:
        write_private(layout.state, msgspec.json.format(msgspec.json.encode(self)))


def load(layout: Layout) -> State | None:
    """The state of a cluster, or None where there is none."""
    try:
        data = layout.state.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ClusterError(f"cannot read {layout.state}: {error.strerror}") from None
    try:
        return msgspec.json.decode(data, type=State)
    except msgspec.DecodeError as error:
        raise ClusterError(
            f"{layout.state} is damaged ({error}); end the processes it names and remove {layout.folder}"
        ) from None
