"""HOST:PORT as people write it, for doors that ask nobody who they are.

Used by the composition roots for gRPC (`api.rpc.door`), for the recorder and for kube-scheduler's extenders
(`api.apart`). Must not open anything.
"""

from typing import NamedTuple

from fairlead.api.server import ServerError, is_loopback


class Listen(NamedTuple):
    """An address; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def listen(text: str, remote: bool, flag: str) -> Listen:
    """Read HOST:PORT. Raises ServerError; `flag` is what lets an address be one that others can reach."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise ServerError(f"{text!r} is not HOST:PORT; write for example 127.0.0.1:4242")
    if not remote and not is_loopback(host):
        raise ServerError(
            f"{text} can be reached from other machines, and nobody is asked who they are there;"
            f" add {flag} to listen on it all the same"
        )
    return Listen(host, int(port))
