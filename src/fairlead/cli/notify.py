"""`fairlead notify`: tell the recorder that a container has come to some stage, as the sniffer's notifier.

Registered by `cli.main`; run by the hooks of containers, so a recorder that is away must cost them nothing:
what goes wrong on the way is said on stderr, and the exit code is 0 all the same. Must stay cheap to import.
"""

import os
import socket
import time
from typing import Annotated, Any

import typer

EPILOG = "Example: fairlead notify --address 10.28.2.3:4242 --stage postStart --event postStart"
_METHOD = "/api.SnifferService/Send"


def notify(
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the recorder listens.")] = "",
    stage: Annotated[str, typer.Option(help="Where it is noticed: postStart, preStop …")] = "preStop",
    event: Annotated[str, typer.Option(help="What happened.")] = "preStop",
    timeout: Annotated[float, typer.Option(help="Seconds that it may take.", min=0.1, max=60)] = 5.0,
) -> None:
    """Tell that this container has come to a stage; for hooks. Exits with 0 whatever becomes of it.

    The pod's name is $SNIFFER_POD_NAME, else the host's name; its node is $SNIFFER_NODE_NAME.
    """
    at = time.time_ns()
    pod = os.environ.get("SNIFFER_POD_NAME") or socket.gethostname()
    told = {"endpoint": stage, "pod": pod, "node": os.environ.get("SNIFFER_NODE_NAME", ""), "event": event}
    problem = _send(address, told, at, timeout) if address else "no --address HOST:PORT was given"
    if problem:
        typer.echo(f"fairlead: nobody was told: {problem}", err=True)


def _send(address: str, told: dict[str, str], at: int, timeout: float) -> str:
    """Why it could not be sent; empty when it was taken."""
    # gRPC takes a while to import, and writes lines of its own on stderr unless told not to.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc

    from fairlead.recorder import gotime
    from fairlead.recorder.pb import sniffer_pb2 as wire

    try:
        data = wire.SendRequest(**told, timestamp=gotime.written(at)).SerializeToString()
        channel: Any
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            channel.unary_unary(_METHOD)(data, timeout=timeout)
    except grpc.RpcError as error:
        # What a stub raises is an error and the call in one.
        details: Any = getattr(error, "details", str)
        return f"{address}: {' '.join(details().split()) or type(error).__name__}"
    except ValueError as error:
        return f"{address}: {error}"
    return ""
