"""`api.SnifferService`: what the sniffer's scheduler and its notifier send, each call a row.

Composed by `app_recorder`, which gives it the sink and puts it behind a door. A call is answered at once,
whether or not the sink has room: who calls is a scheduler in its cycle. Must not know `api`: a method is
bytes in, bytes out.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from fairlead.model.record import Change, Source
from fairlead.recorder import gotime
from fairlead.recorder.datum import extras
from fairlead.recorder.outlet import Outlet, Sink
from fairlead.recorder.pb import sniffer_pb2 as wire

SERVICE = "api.SnifferService"
Method = Callable[[bytes, Any], Awaitable[bytes]]

_read = wire.SendRequest.FromString
_EMPTY = wire.SendResponse().SerializeToString()
_MILLISECOND = 1_000_000


class SnifferService:
    """The service; one for all clients. `outlet` counts what was taken and what was refused."""

    def __init__(self, sink: Sink, now: Callable[[], int]) -> None:
        """`now` gives milliseconds since the epoch."""
        self.outlet = Outlet(sink, "sniffer", now)

    def methods(self) -> dict[str, Method]:
        """Methods by name."""
        return {"Send": self.send}

    async def send(self, data: bytes, context: "grpc.aio.ServicerContext[Any, Any]") -> bytes:
        """Keep one event. The answer tells nothing: no client of the sniffer's would read it."""
        try:
            request = _read(data)
        except DecodeError:
            text = "the request is not a SendRequest message"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        self.outlet.put((change(request, self.outlet.now()),), len(data))
        return _EMPTY


def change(request: wire.SendRequest, seen: int) -> Change:
    """An event as a row, under the name that the client gave it."""
    timestamp = request.timestamp
    told = gotime.nanoseconds(timestamp)
    extra = extras(request.endpoint, timestamp, told)
    if payload := request.payload:
        extra = {**(extra or {}), "payload": payload}
    return Change(
        "Pod",
        request.event,
        at=seen if told is None else told // _MILLISECOND,
        seen=seen,
        source=Source.SNIFFER,
        name=request.pod,
        node=request.node,
        extra=extra,
    )
