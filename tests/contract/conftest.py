"""Servers and folders for the tests of the store under fire, ended whatever happens."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from store_support import TcpServer, folder, free_port, fresh_database

from fairlead.store import binaries


@pytest.fixture
def top() -> Iterator[Path]:
    with folder() as path:
        yield path


@pytest.fixture
def tcp(top: Path) -> Iterator[TcpServer]:
    """Made, not started."""
    server = TcpServer(binaries.bundled(), top, free_port())
    server.create()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def tcp_url() -> Iterator[str]:
    with folder() as path:
        server = TcpServer(binaries.bundled(), path, free_port())
        server.create()
        server.start()
        yield server.url
        server.stop()


@pytest.fixture
def database(tcp_url: str) -> Iterator[str]:
    """An empty one behind a port, on a server that stays."""
    with fresh_database(tcp_url) as url:
        yield url
