"""The small client of the local cluster, on a server of the test's own."""

import http.server
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.localcluster import client as clients
from fairlead.localcluster import pki
from fairlead.localcluster.client import Client


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = str(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """Of a server that answers with the port that it was asked from."""
    pki.create(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    made = Client(server.server_address[1], tmp_path)
    try:
        yield made
    finally:
        made.close()
        server.shutdown()
        serving.join()
        server.server_close()


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(clients.time, "monotonic", lambda: now)
    first = client.post("/", {}).body
    now += clients.IDLE - 1
    assert client.post("/", {}).body == first
    now += clients.IDLE - 1
    assert client.post("/", {}).body == first
    now += clients.IDLE + 1
    assert client.post("/", {}).body != first
