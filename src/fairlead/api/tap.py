"""HTTP for kube-scheduler's extender in observing mode: routes that record and change nothing.

Part of the recorder's HTTP server, composed by `app_recorder`; `recorder.extender` gives the answers. A
wrong body is answered 400, over which a scheduler goes on if the extender is `ignorable`. Must not wait for
anything but the body: kube-scheduler decides on one pod at a time and waits for the answer.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from fairlead.api.server import Guard, reply
from fairlead.model.view import Failure

PREFIX = "/extender/observe"
"""`urlPrefix` of the extender in the KubeSchedulerConfiguration, behind the server's address."""
LARGEST = 64 << 20
"""Bytes of a body: 5,000 whole nodes, with room to spare. Their names alone are some 100 KB."""


class Observer(Protocol):
    """Gives the answer to a body. Raises ValueError, whose text says what is wrong with it."""

    def filter(self, body: bytes) -> bytes: ...

    def prioritize(self, body: bytes) -> bytes: ...


def routes(observer: Observer) -> list[Route]:
    verbs = {"filter": observer.filter, "prioritize": observer.prioritize}
    return [Route(f"{PREFIX}/{verb}", _endpoint(answer), methods=["POST"]) for verb, answer in verbs.items()]


def create_app(observer: Observer, host: str = "127.0.0.1") -> ASGIApp:
    """The tap on its own, served on `host`."""
    return Guard(Starlette(routes=routes(observer)), host)


def _endpoint(answer: Callable[[bytes], bytes]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return Response(answer(await _body(request)), media_type="application/json")
        except ValueError as error:
            return reply(Failure(str(error)), 400)
        except ClientDisconnect:
            return reply(Failure("the caller went away before its body was whole"), 400)

    return endpoint


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST:
            raise ValueError("the body is too large; nodeCacheCapable: true has only names sent")
    return bytes(body)
