"""Which volume each claim gets on which node: all nodes at once against one after the other."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.filters.binding import NO_VOLUME, decide, volume_binding
from fairlead.core.filters.cluster import Cluster, cluster_of
from fairlead.core.inventory import Inventory
from fairlead.model.node import Node
from fairlead.model.pod import Pod, Shape
from fairlead.model.rules import CLAIM, Rules, Volume
from fairlead.model.selector import Expression, Operator
from fairlead.model.storage import Claim, PersistentVolume, Storage, StorageClass

HOST = "kubernetes.io/hostname"
NODES = ("n0", "n1", "n2")
NAMES = ("a", "b", "c")
SIZES = st.integers(1, 3)
USES = st.sets(st.sampled_from(("once", "many"))).map(lambda found: tuple(sorted(found)))


@st.composite
def volumes(draw: Any, number: int) -> PersistentVolume:
    hosts = draw(st.sets(st.sampled_from(NODES)).map(sorted))
    meant = draw(st.sampled_from((None, None, None, *NAMES, "else")))
    return PersistentVolume(
        f"v{number}",
        labels={"tier": draw(st.sampled_from(("x", "y")))},
        storage_class=draw(st.sampled_from(("local", "local", "other"))),
        size=draw(SIZES),
        access=draw(USES),
        available=draw(st.integers(0, 5)) > 0,
        claim=None if meant is None else ("default", meant, draw(st.sampled_from(("", f"u-{meant}")))),
        affinity=((Expression(HOST, Operator.IN, tuple(hosts)),),) if hosts else None,
    )


@st.composite
def claims(draw: Any, name: str) -> Claim:
    tier = draw(st.sampled_from(((), (), (Expression("tier", Operator.IN, ("x",)),))))
    kind = draw(st.sampled_from(("local", "local", "other")))
    return Claim(
        "default", name, f"u-{name}", storage_class=kind, size=draw(SIZES), access=draw(USES), selector=tier
    )


def greedy(wanted: list[Claim], there: list[PersistentVolume], node: str) -> dict[str, str] | None:
    """Claim -> volume on one node; None if one gets none. As kube-scheduler's FindMatchingVolume does it."""
    given: dict[str, str] = {}
    for claim in sorted(wanted, key=lambda each: each.size or 0):
        fitting = [
            each
            for each in there
            if each.name not in given.values()
            and each.storage_class == claim.storage_class
            and each.size >= (claim.size or 0)
            and (each.claim is None or (each.claim[1] == claim.name and each.claim[2] in ("", claim.uid)))
        ]
        meant = next((each for each in fitting if each.claim is not None), None)
        near = [each for each in fitting if each.affinity is None or node in each.affinity[0][0].values]
        if meant is not None:
            found = [meant] if meant in near else []
        else:
            found = [
                each
                for each in near
                if each.available
                and set(claim.access) <= set(each.access)
                and (not claim.selector or each.labels["tier"] == "x")
            ]
        if not found:
            return None
        given[claim.name] = min(found, key=lambda each: each.size).name
    return given


def cluster(wanted: list[Claim], there: list[PersistentVolume]) -> Cluster:
    inventory = Inventory()
    for name in NODES:
        inventory.put(Node(f"uid-{name}", name, 1, (("cpu", 1),), labels={HOST: name}))
    kinds = [StorageClass(name, "kubernetes.io/no-provisioner", delayed=True) for name in ("local", "other")]
    storage = Storage(
        claims={("default", each.name): each for each in wanted},
        volumes={each.name: each for each in there},
        classes={each.name: each for each in kinds},
    )
    return cluster_of(inventory, (), storage=storage)


@given(st.data())
def test_each_node_gives_what_it_would_alone(data: st.DataObject) -> None:
    wanted = [data.draw(claims(name)) for name in NAMES[: data.draw(st.integers(1, 3))]]
    there = [data.draw(volumes(number)) for number in range(data.draw(st.integers(0, 6)))]
    rules = Rules(volumes=tuple(Volume(CLAIM, each.name) for each in wanted))
    pod = Pod("p", "default", "p", 1, Shape((("cpu", 1),), rules=rules), "fairlead")
    around = cluster(wanted, there)
    rejected = [each.mask for each in volume_binding(around, pod) if each.reason == NO_VOLUME]
    for row, node in enumerate(NODES):
        expected = greedy(wanted, there, node)
        assert any(mask[row] for mask in rejected) == (expected is None)
        found = decide(around, pod, row)
        if expected is None:
            assert found == NO_VOLUME
        else:
            assert {each.claim.name: each.volume and each.volume.name for each in found} == expected
