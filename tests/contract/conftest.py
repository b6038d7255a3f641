"""Servers and folders for the tests of the store under fire, ended whatever happens."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_support import DEBIAN, SIZE, TcpServer, folder, free_port, fresh_database, mount

from fairlead.store import binaries
from fairlead.store.embedded import EmbeddedServer


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


@pytest.fixture(scope="session")
def embedded_url() -> Iterator[str]:
    with folder() as top:
        server = EmbeddedServer(top / "data")
        server.ensure()
        yield server.url
        server.stop()


@pytest.fixture(scope="session")
def real_url() -> Iterator[str]:
    given_url = os.environ.get("FAIRLEAD_TEST_POSTGRES", "")
    if given_url:
        yield given_url
        return
    if not (DEBIAN / "postgres").exists():
        text = f"no real PostgreSQL: set FAIRLEAD_TEST_POSTGRES to a URL, or install PostgreSQL in {DEBIAN}"
        if os.environ.get("FAIRLEAD_REQUIRE_DATA", "") not in ("", "0"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with folder() as top:
        server = TcpServer(DEBIAN, top, free_port())
        server.create()
        server.start()
        yield server.url
        server.stop()


@pytest.fixture(params=["embedded", "real"])
def either(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database on the embedded server, and on one that a user would bring."""
    with fresh_database(request.getfixturevalue(f"{request.param}_url")) as url:
        yield url


@pytest.fixture
def small_disk(top: Path) -> Iterator[Path]:
    """A folder on a file system of its own that is soon full."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    path = top / "disk"
    path.mkdir(mode=0o711)
    mount(path, "-t", "tmpfs", "-o", f"size={SIZE}m,mode=0711", "tmpfs")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
