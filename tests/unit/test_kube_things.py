"""Namespaces, storage objects and device classes as a server writes them become what filters see."""

import json
from typing import Any

import pytest

from fairlead.kube.things import THINGS
from fairlead.model.event import ThingGone, ThingSeen
from fairlead.model.selector import Expression, Operator
from fairlead.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    StorageClass,
)
from fairlead.model.thing import DeviceClass, Namespace, Thing

KINDS = {kind.name: kind for kind in THINGS}
ZONE = "topology.kubernetes.io/zone"


def read(kind: str, thing: dict[str, Any], counted: list[str] | None = None) -> Any:
    meta = {"uid": "u", "resourceVersion": "7"} | thing.pop("metadata", {})
    raw = json.dumps({"metadata": meta, **thing}).encode()
    return KINDS[kind].seen(raw, ([] if counted is None else counted).append)


@pytest.mark.parametrize(
    ("kind", "wire", "expected"),
    [
        ("Namespace", {"metadata": {"name": "a", "labels": {"x": "y"}}}, Namespace("a", {"x": "y"})),
        (
            "PersistentVolumeClaim",
            {
                "metadata": {
                    "name": "data",
                    "namespace": "a",
                    "annotations": {"volume.kubernetes.io/selected-node": "n0"},
                },
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "fast",
                    "volumeMode": "Filesystem",
                    "resources": {"requests": {"storage": "1Ki"}},
                },
                "status": {"phase": "Pending"},
            },
            Claim(
                "a", "data", "u", storage_class="fast", size=1024_000, access=("ReadWriteOnce",),
                selected_node="n0",
            ),
        ),
        (
            "PersistentVolume",
            {
                "metadata": {"name": "pv"},
                "spec": {
                    "capacity": {"storage": "1Ki"},
                    "storageClassName": "fast",
                    "claimRef": {"namespace": "a", "name": "data", "uid": "c"},
                },
                "status": {"phase": "Bound"},
            },
            PersistentVolume("pv", storage_class="fast", size=1024_000, claim=("a", "data", "c")),
        ),
        (
            "StorageClass",
            {"metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"},
            StorageClass("s", "p", delayed=True),
        ),
        (
            "CSINode",
            {
                "metadata": {"name": "n0"},
                "spec": {"drivers": [{"name": "d", "nodeID": "n0", "allocatable": {"count": 3}}]},
            },
            CsiNode("n0", (("d", 3),)),
        ),
        ("CSIDriver", {"metadata": {"name": "d"}, "spec": {"storageCapacity": True}}, CsiDriver("d", True)),
        (
            "CSIStorageCapacity",
            {
                "metadata": {"name": "c", "namespace": "kube-system"},
                "storageClassName": "s",
                "capacity": "2Ki",
                "nodeTopology": {"matchLabels": {ZONE: "a"}},
            },
            Capacity("s", 2048, (Expression(ZONE, Operator.IN, ("a",)),)),
        ),
        (
            "VolumeAttachment",
            {
                "metadata": {"name": "v"},
                "spec": {"nodeName": "n0", "attacher": "d", "source": {"persistentVolumeName": "pv"}},
            },
            Attachment("n0", "d", "pv"),
        ),
        (
            "DeviceClass",
            {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}},
            DeviceClass("gpu", "example.com/gpu"),
        ),
    ],
)  # fmt: skip
def test_each_kind_is_read(kind: str, wire: dict[str, Any], expected: Thing) -> None:
    assert read(kind, wire) == ThingSeen("u", 7, expected)
    assert KINDS[kind].gone("u", 8) == ThingGone("u", 8)


def test_a_capacity_that_cannot_be_read_counts_as_none() -> None:
    counted: list[str] = []
    assert read("CSIStorageCapacity", {"metadata": {"name": "c"}, "capacity": "much"}, counted) is None
    assert counted == ["unreadable"]


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'{"metadata":{"name":1}}', b'{"spec":{}}', b"\xff"])
def test_what_is_no_object_is_nothing(raw: bytes) -> None:
    counted: list[str] = []
    for kind in THINGS:
        assert kind.seen(raw, counted.append) is None
    assert len(counted) == len(THINGS)
