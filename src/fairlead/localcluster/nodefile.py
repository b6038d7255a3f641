"""Nodes for a local cluster: generated ones, or those of a file (Node manifests, or a CSV of machines).

Called by `up` before anything is started, so that a bad file costs nothing. It returns manifests and must not
talk to a server. What a file may hold is read by `wire.nodefile`.
"""

from __future__ import annotations

from pathlib import Path

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.options import NodeShape
from fairlead.wire import nodefile
from fairlead.wire.files import Fields as Manifest
from fairlead.wire.files import FileError

FAKE = {"kwok.x-k8s.io/node": "fake"}
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CSV_PODS = "110"


def generate(count: int, shape: NodeShape) -> list[Manifest]:
    """`count` equal nodes, named node-0000 on, spread over the zones in turn."""
    digits = max(4, len(str(max(count - 1, 0))))
    capacity = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods)}
    return [
        _node(f"node-{index:0{digits}}", capacity, {ZONE: f"zone-{index % shape.zones}"})
        for index in range(count)
    ]


def read(path: Path) -> list[Manifest]:
    """The nodes of a file as this cluster's fake nodes; raises ClusterError."""
    try:
        return [_completed(manifest) for manifest in nodefile.read(path)]
    except FileError as error:
        raise ClusterError(f"node file {error}") from None


def _node(name: str, capacity: dict[str, str], labels: dict[str, str]) -> Manifest:
    return _completed(
        {
            "metadata": {"name": name, "labels": labels},
            "status": {"capacity": capacity, "allocatable": dict(capacity)},
        }
    )


def _completed(manifest: Manifest) -> Manifest:
    """Add what every node of ours has; what the file says stands."""
    metadata: Manifest = {**manifest["metadata"]}
    name = metadata["name"]
    usual = {HOSTNAME: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    metadata["labels"] = {**usual, **(metadata.get("labels") or {})}
    metadata["annotations"] = {**FAKE, **(metadata.get("annotations") or {})}
    # A manifest taken from a live cluster carries these; a server refuses or ignores them on creation.
    for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"):
        metadata.pop(field, None)
    status: Manifest = {**(manifest.get("status") or {})}
    capacity: Manifest = {
        "pods": CSV_PODS,
        **(status.get("capacity") or status.get("allocatable") or {}),
    }
    status = {
        **{key: value for key, value in status.items() if key == "nodeInfo"},
        "capacity": {key: str(value) for key, value in capacity.items()},
        "allocatable": {key: str(value) for key, value in (status.get("allocatable") or capacity).items()},
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": manifest.get("spec") or {},
        "status": status,
    }
