"""Real control planes for end-to-end tests, ended whatever happens.

`cluster` is shared by the whole run: tests keep out of each other's way by namespace. A test that kills parts
or needs special options takes `make_cluster`.
"""

import importlib.util
import secrets
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from chaos import SEED

from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from fairlead.localcluster.components import PORT_RANGE
from live import Kubectl, data_folder

MakeCluster = Callable[..., Cluster]
_numbers = count(1)


def pytest_report_header() -> str:
    """What the chaos tests draw in this run; the same again with this in the environment."""
    return f"FAIRLEAD_CHAOS_SEED={SEED}"


def unique_name() -> str:
    """A name that no other run on this machine uses at the same time."""
    return f"e2e-{secrets.token_hex(4)}"


def free_port() -> int:
    """A port on loopback for a server that starts later, or again: the system gives none of these to outgoing
    connections meanwhile."""
    for port in secrets.SystemRandom().sample(PORT_RANGE, 200):
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port on loopback")


def plugin_build() -> Any:
    """plugins/build.py, which is in no package."""
    path = Path(__file__).resolve().parents[2] / "plugins" / "build.py"
    spec = importlib.util.spec_from_file_location("plugin_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A control plane with ten nodes of 32 cpu, without kube-scheduler."""
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, nodes=10))
    finally:
        bring_down(name)


@pytest.fixture
def make_cluster() -> Iterator[MakeCluster]:
    """Gives control planes of the test's own: `make_cluster(nodes=3, kube_scheduler=True)`."""
    names: list[str] = []

    def make(**options: Any) -> Cluster:
        options.setdefault("name", unique_name())
        names.append(options["name"])
        return bring_up(UpOptions(**options))

    try:
        yield make
    finally:
        for name in names:
            bring_down(name)


@pytest.fixture(scope="module")
def small_cluster() -> Iterator[Cluster]:
    """A control plane of a module's own, with four nodes of 8 cpu: small enough to be contended for."""
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, nodes=4, shape=NodeShape(cpu="8")))
    finally:
        bring_down(name)


@pytest.fixture
def data() -> Iterator[Path]:
    """The data folder of a scheduler of the test's own; what is left running in it is ended."""
    with data_folder() as folder:
        yield folder


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, small_cluster: Cluster) -> Iterator[Kubectl]:
    """A namespace of the test's own; in the end its pods are gone, so that the nodes are empty."""
    name = f"{request.module.__name__.removeprefix('test_').replace('_', '-')}-{next(_numbers)}"
    Kubectl(small_cluster, "default")("create", "namespace", name)
    yield Kubectl(small_cluster, name)
    kinds = "jobs,deployments,statefulsets,pods"
    Kubectl(small_cluster, name)("delete", kinds, "--all", "--cascade=foreground", "--timeout=100s")
