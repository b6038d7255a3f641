"""A small client of the cluster's own API server and of its components' health checks.

Called by `up`, `status` and the tests of this package. It must not grow into a general client: the scheduler
has its own.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairlead.localcluster.errors import ClusterError

CONNECTIONS = 16
IDLE = 45.0
"""Seconds after which a connection is not used again: the API server drops idle ones after 90, in mid-request
if need be, and a POST must not be repeated."""


@dataclass(frozen=True)
class Answer:
    """Status 0 means that nobody answered; the body then says why."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def reason(self) -> str:
        """What the server says was wrong, on one line."""
        try:
            text = str(self.json()["message"])
        except (msgspec.DecodeError, KeyError, TypeError):
            text = self.body.decode("utf-8", errors="replace")
        return f"{self.status or 'no answer'}: {' '.join(text.split()):.300}"


class Client:
    """Talks to 127.0.0.1 as one of the cluster's users; safe to use from several threads."""

    def __init__(self, port: int, pki: Path, user: str = "admin", timeout: float = 10.0) -> None:
        self._port = port
        self._timeout = timeout
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")
        self._local = threading.local()

    def request(
        self, method: str, path: str, body: object = None, content: str = "application/json"
    ) -> Answer:
        """One request on this thread's connection; a connection that was dropped meanwhile is renewed."""
        if time.monotonic() - getattr(self._local, "used", 0.0) > IDLE:
            self.close()
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content, "Accept": "application/json"}
        reused = getattr(self._local, "connection", None) is not None
        try:
            return self._send(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # Only what changes nothing is safe to repeat: the first may have arrived.
            if not reused or method != "GET":
                return Answer(0, str(error).encode())
        try:
            return self._send(method, path, data, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return Answer(0, str(error).encode())

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: object) -> Answer:
        return self.request("POST", path, body)

    def close(self) -> None:
        """Drop this thread's connection."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection:
            connection.close()

    def _send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self._port, timeout=self._timeout, context=self._tls
            )
            self._local.connection = connection
        connection.request(method, path, body=data, headers=headers)
        response = connection.getresponse()
        answer = Answer(response.status, response.read())
        self._local.used = time.monotonic()
        return answer

    def create_all(self, path: str, manifests: Iterable[Any], done: Callable[[int], None]) -> None:
        """Create many objects at once over several connections; one that exists is left as it is."""
        count = 0
        lock = threading.Lock()

        def create(manifest: Any) -> None:
            nonlocal count
            answer = self.post(path, manifest)
            if not answer.ok and answer.status != 409:
                kind, name = manifest["kind"], manifest["metadata"]["name"]
                raise ClusterError(f"cannot create {kind} {name}: {answer.reason()}")
            with lock:
                count += 1
                done(count)

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            futures = [pool.submit(create, manifest) for manifest in manifests]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def plain_get(port: int, path: str) -> Answer:
    """A GET without TLS on loopback, for KWOK's health check."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, str(error).encode())
    finally:
        connection.close()
