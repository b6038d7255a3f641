"""A cluster with every kind of node for tests of placement, and short ways to write pods that constrain it.

24 nodes in three zones of two racks; in each rack a small, a medium, a gpu and a large node. Some are
tainted, one is cordoned, one takes three pods only. Used by test_judge.py and test_matching_live.py.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up

Object = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
DISK = "example.com/disk"
AGE = "example.com/age"
GPU = "nvidia.com/gpu"
HUGE = "hugepages-2Mi"
EPHEMERAL = "ephemeral-storage"
ZONES, RACKS = "abc", 2
SIZES = (("small", 4, "8Gi"), ("medium", 8, "32Gi"), ("gpu", 16, "64Gi"), ("large", 32, "128Gi"))
BATCH = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
CORDONED = "b1-large"
FEW_PODS = "c1-small"
TAINTED = ("a0-large", "b0-large")
NODES = tuple(f"{zone}{rack}-{size[0]}" for zone in ZONES for rack in range(RACKS) for size in SIZES)


def node(name: str) -> Object:
    rack, kind = name.split("-")
    _, cpu, memory = next(size for size in SIZES if size[0] == kind)
    amounts = {
        "cpu": str(cpu), "memory": memory, "pods": "3" if name == FEW_PODS else "30", EPHEMERAL: "100Gi",
        **({GPU: "4", HUGE: "1Gi"} if kind == "gpu" else {}),
    }  # fmt: skip
    labels = {ZONE: rack[0], RACK: rack, DISK: "ssd" if kind in ("gpu", "large") else "hdd"}
    if kind != "medium":  # so there is a label that some nodes do not have
        labels[AGE] = str(1 + ZONES.index(rack[0]) * 2 + int(rack[1]))
    spec: Object = {"unschedulable": True} if name == CORDONED else {}
    if name in TAINTED:
        spec["taints"] = [BATCH]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


@contextlib.contextmanager
def control_plane(**options: Any) -> Iterator[Cluster]:
    """A control plane that is gone afterwards."""
    name = f"e2e-{secrets.token_hex(4)}"
    try:
        yield bring_up(UpOptions(name=name, **options))
    finally:
        bring_down(name)


@contextlib.contextmanager
def built(folder: Path, kube_scheduler: bool = False) -> Iterator[Cluster]:
    """The cluster, with Ready nodes."""
    file = folder / "nodes.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node(name) for name in NODES]}))
    with control_plane(node_file=str(file), kube_scheduler=kube_scheduler) as cluster:
        yield cluster


# -- pods --------------------------------------------------------------------------------------------


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A bare pod of Fairlead's that runs for ever; `requests` and `ports` are its container's, the rest is of
    the spec, in Kubernetes' own names."""
    main: Object = {"name": "main", "image": "none"}
    main["resources"] = resources(spec.pop("requests", {"cpu": "100m"}))
    if ports := spec.pop("ports", None):
        main["ports"] = ports
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, "annotations": {}},
        "spec": {"schedulerName": "fairlead", "restartPolicy": "Never", "containers": [main], **spec},
    }


def resources(requests: dict[str, str]) -> Object:
    """Requests; what cannot be overcommitted is its own limit."""
    fixed = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages")}
    return {"requests": requests, **({"limits": fixed} if fixed else {})}


def gang(name: str, size: int, labels: dict[str, str] | None = None, **spec: Any) -> list[Object]:
    """Equal pods of one group."""
    mine = {**(labels or {}), "fairlead.dev/group": name, "fairlead.dev/group-size": str(size)}
    return [pod(f"{name}-{i}", mine, **spec) for i in range(size)]


def of_group(name: str, *pods: Object) -> list[Object]:
    """Unlike pods made members of one group."""
    for each in pods:
        each["metadata"]["labels"] |= {"fairlead.dev/group": name, "fairlead.dev/group-size": str(len(pods))}
    return list(pods)


def to_nodes(*expressions: tuple[str, str, list[str]], fields: str = "") -> Object:
    """spec.affinity with one required term for nodes; `fields`: a node's name."""
    term: Object = {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in expressions]}
    if fields:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [fields]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def on(name: str) -> Object:
    """spec.affinity for exactly this node."""
    return to_nodes(fields=name)


def term(key: str, **more: Any) -> Object:
    """A required term of pod affinity: labels as words, else the field's own names."""
    return {"topologyKey": key, **more}


def labelled(**labels: str) -> Object:
    return {"labelSelector": {"matchLabels": labels}}


def near(*terms: Object) -> Object:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(key: str, skew: int = 1, **more: Any) -> Object:
    """One constraint of spec.topologySpreadConstraints."""
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}


def tolerating(taint: Object) -> list[Object]:
    return [{"key": taint["key"], "operator": "Equal", "value": taint["value"], "effect": taint["effect"]}]


def host_port(number: int, address: str = "", protocol: str = "TCP") -> Object:
    port: Object = {"containerPort": 80, "hostPort": number, "protocol": protocol}
    return {**port, "hostIP": address} if address else port


# -- volumes -----------------------------------------------------------------------------------------


def storage_class(name: str, mode: str = "WaitForFirstConsumer") -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


def volume(
    name: str, kind: str, size: str = "10Gi", zone: str = "", host: str = "", mode: str = ""
) -> Object:
    """A PersistentVolume of a class, in a zone (by label and node affinity) or on a node."""
    key, value = (ZONE, zone) if zone else (HOST, host)
    expression = {"key": key, "operator": "In", "values": [value]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {ZONE: zone} if zone else {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": [mode or "ReadWriteOnce"],
            "storageClassName": kind,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/none"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


def claim(name: str, kind: str, size: str = "10Gi", to: str = "", mode: str = "ReadWriteOnce") -> Object:
    """A PersistentVolumeClaim; `to` names the volume it wants."""
    spec = {"storageClassName": kind, "accessModes": [mode], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {**spec, **({"volumeName": to} if to else {})},
    }


def mounted(*claims: str) -> list[Object]:
    """spec.volumes of these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
