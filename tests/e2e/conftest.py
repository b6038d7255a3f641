"""Real control planes for end-to-end tests, ended whatever happens.

`cluster` is shared by the whole run: tests keep out of each other's way by namespace. A test that kills parts
or needs special options takes `make_cluster`.
"""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up

MakeCluster = Callable[..., Cluster]


def unique_name() -> str:
    """A name that no other run on this machine uses at the same time."""
    return f"e2e-{secrets.token_hex(4)}"


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
