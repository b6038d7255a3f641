"""The HTTP server: answers about the queue, groups and nodes, audits, health and metrics.

Started by the composition root inside the scheduler's event loop; asked by `cli.ask`, probes and
Prometheus. Loopback unless told otherwise. It must not change anything, know Kubernetes or the store, or
answer a web page: requests for foreign host names (DNS rebinding) and from other sites are refused.
"""

import asyncio
import contextlib
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any

import msgspec
import uvicorn
from msgspec import Struct, structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead import __version__
from fairlead.api import openapi
from fairlead.api.source import Source
from fairlead.model.view import Failure, Health, Version
from fairlead.runtime.metrics import CONTENT_TYPE

MOST_ROWS = 100_000
LARGEST_MESSAGE = 1 << 20
"""Bytes of a message over a WebSocket."""
_PROBES = ("/healthz", "/readyz", "/metrics")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ServerError(Exception):
    """The server cannot be started; the text says why and what to do."""


# -- answers -----------------------------------------------------------------------------------------


def reply(answer: Struct | dict[str, Any], status: int = 200) -> Response:
    body = msgspec.json.encode(answer)
    return Response(body + b"\n", status, HEADERS, media_type="application/json")


def number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
        raise HTTPException(400, f"{name} is {text!r}, not a whole number from 0 to {most}")
    return int(text)


def flag(request: Request, name: str, default: str = "false") -> bool:
    text = request.query_params.get(name, default).lower()
    if text not in ("true", "false", "1", "0", ""):
        raise HTTPException(400, f"{name} is {text!r}, neither true nor false")
    return text in ("true", "1", "")


class Answers:
    """The routes; one object per source."""

    def __init__(self, source: Source, document: dict[str, Any] | None = None) -> None:
        """`document`: the OpenAPI document, where there are more routes than these."""
        self.source = source
        self._document = document or openapi.document()

    def routes(self) -> list[Route]:
        table: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/api/v1/queue": self.queue,
            "/api/v1/queues": self.queues,
            "/api/v1/groups/{name:path}": self.group,
            "/api/v1/nodes": self.nodes,
            "/api/v1/graph": self.graph,
            "/api/v1/state": self.state,
            "/api/v1/version": self.version,
            "/openapi.json": self.openapi,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in table.items()]
        return [*routes, Route("/api/v1/audit", self.audit, methods=["GET", "POST"])]

    async def queue(self, request: Request) -> Response:
        page = await self.source.queue(
            ended=flag(request, "all"),
            namespace=request.query_params.get("namespace", ""),
            limit=number(request, "limit", 100, MOST_ROWS),
            offset=number(request, "offset", 0, 10**8),
        )
        return reply(page)

    async def queues(self, _: Request) -> Response:
        return reply(self.source.queues())

    async def group(self, request: Request) -> Response:
        name = request.path_params["name"]
        page = await self.source.explain(name)
        if not page.groups:
            raise HTTPException(404, f"no group {name!r} is known")
        return reply(page)

    async def nodes(self, _: Request) -> Response:
        return reply(self.source.nodes())

    async def graph(self, _: Request) -> Response:
        return reply(await self.source.graph())

    async def state(self, _: Request) -> Response:
        return reply(await self.source.state())

    async def audit(self, request: Request) -> Response:
        """POST makes one, GET tells the last."""
        nodes, repair = flag(request, "nodes", "true"), flag(request, "repair", "true")
        if request.method == "POST":
            report = await self.source.audit(repair)
            if report is None:
                raise HTTPException(503, "there is no cluster that the state could be held against")
            if report.result == "failed":
                raise HTTPException(503, f"the audit could not be made: {report.error}")
        else:
            report = self.source.audited()
            if report is None:
                raise HTTPException(404, "no audit has been made yet: POST /api/v1/audit makes one")
        return reply(report if nodes else structs.replace(report, rows=()))

    async def version(self, _: Request) -> Response:
        return reply(Version("fairlead", __version__))

    async def openapi(self, _: Request) -> Response:
        return reply(self._document)

    async def healthz(self, _: Request) -> Response:
        """Alive: this very answer proves that the loop turns."""
        return reply(Health(True, ()))

    async def readyz(self, _: Request) -> Response:
        health = self.source.health()
        return reply(health, 200 if health.ready else 503)

    async def metrics(self, _: Request) -> Response:
        return Response(self.source.metrics(), 200, {**HEADERS, "Content-Type": CONTENT_TYPE})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = reply(Failure(error.detail), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _broken(_: Request, error: Exception) -> Response:
    return reply(Failure(f"internal error: {type(error).__name__}"), 500)


FAILURES: dict[Any, Any] = {HTTPException: _http_error, Exception: _broken}
"""What is answered where no answer can be given."""


def create_app(
    source: Source,
    host: str = "127.0.0.1",
    more: Sequence[BaseRoute] = (),
    document: dict[str, Any] | None = None,
) -> ASGIApp:
    """The whole application, with the routes of whoever else is given and a document that tells of them.
    `host` is what it is served on: it decides which Host headers are right."""
    routes = [*Answers(source, document).routes(), *more]
    return Guard(Starlette(routes=routes, exception_handlers=FAILURES), host)


# -- who may ask -------------------------------------------------------------------------------------


class Guard:
    """Lets through what was asked on purpose: by a program, or by a person at this very address.

    A web page can make a browser ask us, under its own name (rebinding) or ours (cross-site). The first
    is seen by the Host header, which must be an address and not a name; the second by what browsers add.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app, self.host = app, host.lower()
        self.open = not is_loopback(self.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        refusal = self._refusal(HTTPConnection(scope))
        if refusal and scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        if refusal:
            return await reply(Failure(refusal), 403)(scope, receive, send)
        return await self.app(scope, receive, send)

    def _refusal(self, request: HTTPConnection) -> str:
        name = _host_name(request.headers.get("host", ""))
        if not self._may_be_called(name) and not (self.open and request.url.path in _PROBES):
            return f"this server is not {name!r}: ask for it by its address or localhost"
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "requests from other sites are refused"
        origin = request.headers.get("origin")
        if origin is not None and origin.lower() != f"http://{request.headers.get('host', '').lower()}":
            return "requests from other origins are refused"
        return ""

    def _may_be_called(self, name: str) -> bool:
        if not self.open:
            return is_loopback(name)
        return name in (self.host, "localhost") or _address(name) is not None or _in_cluster(name)


def _in_cluster(name: str) -> bool:
    """A Service's name, as pods of a cluster call it. Nobody outside can own such a name and rebind it."""
    return bool(name) and ("." not in name or name.endswith((".svc", ".svc.cluster.local")))


def _host_name(header: str) -> str:
    """The Host header without its port and brackets."""
    if header.startswith("["):
        name, _, rest = header[1:].partition("]")
        return name.lower() if not rest or rest.startswith(":") else header.lower()
    return header.partition(":")[0].lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    """Whether only this machine can reach what listens there; a name other than localhost may be anything."""
    address = _address(name)
    return name == "localhost" if address is None else address.is_loopback


# -- serving -----------------------------------------------------------------------------------------


class _Uvicorn(uvicorn.Server):
    """Signals belong to the scheduler, not to its HTTP server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class HttpServer:
    """An application served in the running event loop. `port` 0 takes a free one; `also` are more of them."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        advice: str,
        also: Sequence[int] = (),
        sockets: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`advice` is what to do when it cannot listen there; `sockets`: WebSockets are spoken, too; `tls`:
        who may connect, and what is shown to them."""
        self._sockets, self._tls = sockets, tls
        self._app, self._host, self._ports, self._advice = app, host, (port, *also), advice
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None
        self.url = ""
        """Where it listens; "" before the start. A wildcard address is told as loopback."""

    async def start(self) -> None:
        """Listening when it returns. Raises ServerError, for example when the port is occupied."""
        listeners, tls = self._listeners(), self._tls
        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="wsproto" if self._sockets else "none",
            ws_max_size=LARGEST_MESSAGE,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            ssl_context_factory=partial(_given, tls) if tls is not None else None,
        )
        self._server = _Uvicorn(config)
        self._task = asyncio.create_task(self._server.serve(sockets=listeners), name="http server")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise ServerError("the HTTP server ended at once")
            await asyncio.sleep(0.005)
        self.url = _url(listeners[0], "https" if tls is not None else "http")

    def _listeners(self) -> list[socket.socket]:
        with contextlib.ExitStack() as undo:
            found = [undo.enter_context(listening(self._host, port, self._advice)) for port in self._ports]
            undo.pop_all()
        return found

    async def stop(self) -> None:
        """Finish the answers that are being given, at most for a second."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.wait({self._task})
        self._server = self._task = None
        self.url = ""


class Server(HttpServer):
    """The scheduler's server; `more` are routes beside its own."""

    def __init__(
        self,
        source: Source,
        host: str = "127.0.0.1",
        port: int = 0,
        also: Sequence[int] = (),
        more: Sequence[BaseRoute] = (),
        document: dict[str, Any] | None = None,
    ) -> None:
        advice = "choose another --port (0 takes a free one)" + (" or --also-listen" if also else "")
        app = create_app(source, host, more, document)
        super().__init__(app, host, port, advice, also, sockets=bool(more))


def listening(host: str, port: int, advice: str) -> socket.socket:
    """A socket at this address. Raises ServerError with the reason and the advice."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
        # Connections inherit it: else asyncio's own loop leaves the end of an answer waiting for 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number and number > 0 else str(error)
        raise ServerError(f"cannot listen on {host} port {port}: {reason}; {advice}") from error


def _given(tls: ssl.SSLContext, *_: object) -> ssl.SSLContext:
    return tls


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    if _address(host) in (ipaddress.ip_address("0.0.0.0"), ipaddress.ip_address("::")):
        host = "::1" if ":" in host else "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
