"""A thin HTTP client of the Kubernetes API: one session, typed errors, nothing decoded that is not asked for.

Used by `kube.watch`, `kube.bind` and the other writers. Must not retry a write by itself (the caller
knows what is safe) and must not know any kind of object. All answers are bytes; msgspec decodes them
where they are used.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from fairlead.kube.config import KubeAccess
from fairlead.kube.errors import ApiError, Silent, Unreachable, Untrusted
from fairlead.kube.structs import Status

JSON = "application/json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
"""A way that every kind knows."""
JSON_PATCH = "application/json-patch+json"
READ_BUFFER = 1 << 18
OPENING = 30.0
"""Seconds until a watch has to be answered; a busy server lets it queue for a while."""
IDLE_CONNECTION = 15.0
"""Seconds until a connection that is not used is closed, twice that at most. Each has buffers of a hundred
KiB, and a burst of binds opens dozens."""
ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""A machine that vanished without a word is noticed by the kernel in half a minute."""
# Requests are timed as a whole, credentials included, by ApiClient.request.
NO_TIMEOUT = aiohttp.ClientTimeout(total=None)
NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

_status = msgspec.json.Decoder(Status).decode


def segment(text: str) -> str:
    """A name as one segment of a path, whatever it holds (F23)."""
    return quote(text, safe="")


class ApiClient:
    """Must be made inside a running loop."""

    def __init__(
        self,
        access: KubeAccess,
        *,
        connections: int = 96,
        request_timeout: float = 10.0,
        user_agent: str = "fairlead",
    ) -> None:
        self.access = access
        self.request_timeout = request_timeout
        self._connections = connections
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                ssl=self.access.ssl or True,
                keepalive_timeout=IDLE_CONNECTION,
                socket_factory=_socket,
            )
            self._opened = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                json_serialize=json.dumps,
                read_bufsize=READ_BUFFER,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content: str = JSON,
        params: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """The body of a successful answer. ApiError for an error status, Unreachable for no answer."""
        limit = self.request_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(limit):
                return await self._once(method, path, body, content, params)
        except TimeoutError as error:
            raise Unreachable(f"{method} {path}: no answer within {limit:.1f} s") from error

    async def _once(
        self, method: str, path: str, body: bytes | None, content: str, params: Mapping[str, str] | None
    ) -> bytes:
        for second in (False, True):
            headers = await self._authorized(content if body is not None else None)
            try:
                async with self._session.request(
                    method,
                    self._url(path, params),
                    data=body,
                    headers=headers,
                    timeout=NO_TIMEOUT,
                    server_hostname=self.access.server_name,
                    proxy=self.access.proxy,
                ) as response:
                    answer = await response.read()
            except (aiohttp.ClientError, OSError) as error:
                raise unreachable(self.access, error) from error
            if response.status < 400:
                return answer
            # A rotated token is not an expired one: read it anew, once.
            if second or response.status != 401 or not self.access.auth.refused():
                raise api_error(self.access, method, path, response.status, response.headers, answer)
        raise AssertionError

    async def _authorized(self, content: str | None) -> dict[str, str]:
        headers: dict[str, str] = {}
        if value := await self.access.auth.header():
            headers["Authorization"] = value
        if content:
            headers["Content-Type"] = content
        return headers

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        url = self.access.server + path
        if params:
            url += "?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in params.items())
        return URL(url, encoded=True)

    async def get(self, path: str, **options: Any) -> bytes:
        """A read is safe to repeat: overload is waited out as the server asks, within the time-out."""
        limit: float = options.pop("timeout", None) or self.request_timeout
        deadline = time.monotonic() + limit
        while True:
            left = deadline - time.monotonic()
            try:
                return await self.request("GET", path, timeout=max(0.01, left), **options)
            except ApiError as error:
                pause = error.retry_after or 1.0
                if error.status not in (429, 503) or time.monotonic() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    async def post(self, path: str, body: bytes, *, timeout: float | None = None) -> bytes:
        return await self.request("POST", path, body, timeout=timeout)

    async def patch(
        self, path: str, body: bytes, *, content: str = STRATEGIC_MERGE, timeout: float | None = None
    ) -> bytes:
        return await self.request("PATCH", path, body, content=content, timeout=timeout)

    async def delete(self, path: str, body: bytes | None = None, *, timeout: float | None = None) -> bytes:
        return await self.request("DELETE", path, body, timeout=timeout)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], idle: float
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """The chunks of a watch as they arrive. Silence for `idle` seconds is Silent."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.request_timeout, sock_read=idle)
        try:
            async with asyncio.timeout(max(OPENING, self.request_timeout)):
                response = await self._session.request(
                    "GET",
                    self._url(path, params),
                    headers=await self._authorized(None),
                    timeout=timeout,
                    server_hostname=self.access.server_name,
                    proxy=self.access.proxy,
                )
            async with response:
                if response.status >= 400:
                    answer = await response.read()
                    if response.status == 401:
                        self.access.auth.refused()
                    raise api_error(self.access, "WATCH", path, response.status, response.headers, answer)
                yield self._chunks(response, idle)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise unreachable(self.access, error) from error

    async def _chunks(self, response: aiohttp.ClientResponse, idle: float) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except TimeoutError as error:
            text = f"the API server {self.access.server} has sent nothing for {idle:g} s"
            raise Silent(text) from error.with_traceback(None)  # its frames hold the reader that holds it
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(self.access, error) from error.with_traceback(None)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(address[0], address[1], address[2])
    if made.family in (socket.AF_INET, socket.AF_INET6):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in ALIVE.items():
            if (option := getattr(socket, name, None)) is not None:  # not on every system
                made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def unreachable(access: KubeAccess, error: Exception) -> Unreachable:
    sent = not isinstance(error, NEVER_SENT)
    cut = isinstance(error, ssl.SSLEOFError) or isinstance(error.__cause__, ssl.SSLEOFError)
    if cut:  # a server that ends while it is spoken to
        pass
    elif isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        cause = getattr(error, "certificate_error", None) or error
        text = (
            f"the certificate of {access.server} is not valid for this kubeconfig ({access.source}): {cause}"
        )
        return Untrusted(text, sent=False)
    elif isinstance(error, ssl.SSLError):
        return Untrusted(f"TLS with {access.server} failed ({access.source}): {error}", sent=sent)
    detail = str(error) or type(error).__name__
    return Unreachable(
        f"no answer from the API server {access.server} ({access.source}): {detail}", sent=sent
    )


def api_error(
    access: KubeAccess, verb: str, path: str, status: int, headers: Mapping[str, str], body: bytes
) -> ApiError:
    try:
        answer = _status(body)
    except msgspec.MsgspecError:
        answer = Status(message=body[:200].decode(errors="replace").strip())
    detail = answer.message[:1000] or answer.reason or f"status {status}"
    if status == 401:
        detail = (
            f"the API server {access.server} does not accept the credentials of {access.source}:"
            " the token or certificate is expired, revoked or of another cluster (401)"
        )
    elif status == 403:
        detail = f"forbidden: {detail}. Grant the missing verb by RBAC (a ClusterRole bound to this account)"
    text = detail if status in (401, 403) else f"{verb} {path}: {detail} ({status})"
    return ApiError(text, status=status, reason=answer.reason, retry_after=_retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float:
    value = headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0
