"""A real gRPC server on loopback and a client to it, for the tests of the gRPC doors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from fairlead.api.listen import Listen
from fairlead.api.rpc.call import VERDICT, Service
from fairlead.api.rpc.door import Door

T = TypeVar("T", bound=Message)
DIRECT = (("grpc.enable_http_proxy", 0),)


class Client:
    """Calls methods by their full name, as any client in any language does."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=DIRECT)

    async def ask(self, method: str, request: Message, answer: type[T]) -> T:
        return (await self.told(method, request, answer))[0]

    async def told(self, method: str, request: Message, answer: type[T]) -> tuple[T, str]:
        """The answer and the verdict that comes with it."""
        call = self._channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(request, timeout=60)
        found = await call
        return found, dict(await call.trailing_metadata()).get(VERDICT, "")

    async def raw(self, method: str, request: bytes) -> bytes:
        """Bytes as they go over the wire."""
        return await self._channel.unary_unary(f"/{method}")(request, timeout=60)

    async def refused(self, method: str, request: Message | bytes) -> tuple[grpc.StatusCode, str]:
        """The status and the sentence of a call that must not succeed."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        try:
            found: Any = await self.raw(method, data)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
        raise AssertionError(f"{method} answered {found!r}")

    async def close(self) -> None:
        await self._channel.close()


@asynccontextmanager
async def served(services: dict[str, Service], clients: int = 1) -> AsyncIterator[list[Client]]:
    """The services on a free port, and clients with a connection each."""
    door = Door(services, Listen("127.0.0.1", 0))
    await door.start()
    found = [Client(door.address) for _ in range(clients)]
    try:
        yield found
    finally:
        for client in found:
            await client.close()
        await door.stop()
