"""One gRPC method: bytes to a message, the answer to bytes, and what goes wrong to a status with a sentence.

Used by the services beside it and by `api.rpc.door`. A caller's mistake is one line that names the place;
anything else is INTERNAL and logged here. Must not know any service.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError, Message

from fairlead.api.rpc.matcher import Unknown, Unloaded
from fairlead.core.tree.columns import TreeError
from fairlead.wire.jobspec import JobspecError

VERDICT = "fairlead-verdict"
"""Trailing metadata of a match: granted, busy (not now) or never (not even with everything free)."""
_log = structlog.get_logger("grpc")

Request = TypeVar("Request", bound=Message)


class Answer(NamedTuple):
    """What a method answers; `verdict` goes beside the message, whose fields others have laid down."""

    message: Message
    verdict: str = ""


class Refusal(Exception):
    """A request that cannot be answered; the text is for the caller."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


Handler = Callable[[bytes, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[bytes]]
Service = dict[str, Handler]
"""Methods by name."""
StreamHandler = Callable[[AsyncIterator[bytes], "grpc.aio.ServicerContext[Any, Any]"], AsyncIterator[bytes]]
Streams = dict[str, StreamHandler]
"""Methods by name that take and give any number of messages."""

_CODES: dict[type[Exception], grpc.StatusCode] = {
    JobspecError: grpc.StatusCode.INVALID_ARGUMENT,
    TreeError: grpc.StatusCode.INVALID_ARGUMENT,
    Unknown: grpc.StatusCode.NOT_FOUND,
    Unloaded: grpc.StatusCode.FAILED_PRECONDITION,
}


def unary(run: Callable[[Request], Awaitable[Answer]], request: type[Request]) -> Handler:
    """The method that takes one message and gives one."""

    async def handler(data: bytes, context: "grpc.aio.ServicerContext[Any, Any]") -> bytes:
        try:
            answer = await run(_read(data, request))
        except Exception as error:
            refusal = _refusal(error)
            await context.abort(refusal.code, str(refusal))
        if answer.verdict:
            context.set_trailing_metadata(((VERDICT, answer.verdict),))
        return answer.message.SerializeToString()

    return handler


def _read(data: bytes, request: type[Request]) -> Request:
    try:
        return request.FromString(data)
    except DecodeError:
        name = request.DESCRIPTOR.name
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, f"the request is not a {name} message") from None


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    for known, code in _CODES.items():
        if isinstance(error, known):
            return Refusal(code, str(error))
    if isinstance(error, RecursionError):
        return Refusal(grpc.StatusCode.INVALID_ARGUMENT, "the request is nested too deeply")
    _log.error("a call failed", exc_info=error)
    return Refusal(grpc.StatusCode.INTERNAL, f"internal error: {type(error).__name__}")
