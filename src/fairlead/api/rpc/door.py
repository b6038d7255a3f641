"""The gRPC server: services by name on one address.

Started inside the running event loop by the composition root and by `fairlead fluxion-service`. Loopback
unless told otherwise: it asks nobody who they are. Must not know any service.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import grpc.aio

from fairlead.api.listen import Listen
from fairlead.api.rpc.call import Service, Streams
from fairlead.api.server import ServerError, is_loopback, listening

MOST_BYTES = 1 << 29
"""The largest request: a graph of tens of thousands of nodes."""


class Door:
    """The server in the running event loop."""

    def __init__(
        self,
        services: Mapping[str, Service],
        at: Listen,
        streams: Mapping[str, Streams] | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Methods by name, by service: those of one question and one answer, and those of many.

        gRPC itself turns away requests of more than `most_bytes`.
        """
        self._services, self._streams, self._at = services, streams or {}, at
        self._options = (("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", most_bytes))
        self._server: grpc.aio.Server | None = None
        self.address = ""
        """Where it listens; "" before the start."""
        self.warning = "" if is_loopback(at.host) else "whoever reaches this address is served: no login"
        """What to tell when it starts; "" on loopback."""

    async def start(self) -> None:
        """Listening when it returns. Raises ServerError, for example when the port is occupied."""
        # gRPC alone would not say why it cannot listen, and would write lines of its own.
        listening(*self._at, "choose another address (port 0 takes a free one)").close()
        server = grpc.aio.server(options=self._options)
        for name, handlers in self._handlers():
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        try:
            port = server.add_insecure_port(str(self._at))
        except RuntimeError as error:
            raise ServerError(f"cannot listen on {self._at}: {error}") from None
        await server.start()
        self._server = server
        self.address = str(self._at._replace(port=port))

    def _handlers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, methods in self._services.items():
            yield name, {each: grpc.unary_unary_rpc_method_handler(run) for each, run in methods.items()}
        for name, methods in self._streams.items():
            yield name, {each: grpc.stream_stream_rpc_method_handler(run) for each, run in methods.items()}

    async def stop(self) -> None:
        """Finish the answers that are being given, at most for a second."""
        if self._server is not None:
            await self._server.stop(1)
        self._server = None
        self.address = ""
