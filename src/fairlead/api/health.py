"""The recorder's HTTP application: health, readiness, metrics, and the routes of whoever else is given.

Composed by `app_recorder`, served by `api.server.HttpServer`. It must not change anything.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from fairlead.api.server import FAILURES, HEADERS, Guard, reply
from fairlead.model.view import Health
from fairlead.runtime.metrics import CONTENT_TYPE


class Pulse(Protocol):
    """Who is asked how it is."""

    def health(self) -> Health:
        """Ready, or what for not."""
        ...

    def metrics(self) -> bytes:
        """In Prometheus' text form."""
        ...


def create_app(pulse: Pulse, more: Sequence[Route], host: str) -> ASGIApp:
    """`host` is what it is served on: it decides which Host headers are right."""

    async def healthz(_: Request) -> Response:
        """Alive: this very answer proves that the loop turns."""
        return reply(Health(True, ()))

    async def readyz(_: Request) -> Response:
        health = pulse.health()
        return reply(health, 200 if health.ready else 503)

    async def metrics(_: Request) -> Response:
        return Response(pulse.metrics(), 200, {**HEADERS, "Content-Type": CONTENT_TYPE})

    table: dict[str, Any] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}
    routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in table.items()]
    return Guard(Starlette(routes=[*routes, *more], exception_handlers=FAILURES), host)
