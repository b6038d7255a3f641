"""Nodes for a local cluster: generated ones, or those of a file (Node manifests, or a CSV of machines).

Called by `up` before anything is started, so that a bad file costs nothing. It returns manifests and must not
talk to a server.
"""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import yaml

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.options import NodeShape

Manifest = dict[str, Any]

FAKE = {"kwok.x-k8s.io/node": "fake"}
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GPU_MODEL = "fairlead.dev/gpu-model"
GPU = "nvidia.com/gpu"
COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
CSV_PODS = "110"
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def generate(count: int, shape: NodeShape) -> list[Manifest]:
    """`count` equal nodes, named node-0000 on, spread over the zones in turn."""
    digits = max(4, len(str(max(count - 1, 0))))
    capacity = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods)}
    return [
        _node(f"node-{index:0{digits}}", capacity, {ZONE: f"zone-{index % shape.zones}"})
        for index in range(count)
    ]


def read(path: Path) -> list[Manifest]:
    """The nodes of a file; what it is, its name says: .csv, .yaml, .yml or .json, each also as .gz or .xz."""
    text = _text(path)
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    kind = suffixes[-1].lower() if suffixes else ""
    if kind == ".csv":
        nodes = list(_csv_nodes(path, text))
    elif kind in (".yaml", ".yml", ".json"):
        nodes = list(_manifest_nodes(path, text))
    else:
        raise ClusterError(f"node file {path}: give a .csv, .yaml or .json file (also .gz or .xz)")
    if not nodes:
        raise ClusterError(f"node file {path}: no node in it")
    _check_names(path, nodes)
    return nodes


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        elif path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ClusterError(f"node file {path}: {error.strerror or error}") from None
    except (lzma.LZMAError, EOFError):
        raise ClusterError(f"node file {path}: not a whole {path.suffix} file") from None
    except UnicodeDecodeError:
        raise ClusterError(f"node file {path}: not UTF-8 text") from None


def _csv_nodes(path: Path, text: str) -> Iterator[Manifest]:
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or [])]
    if missing:
        raise ClusterError(
            f"node file {path}: line 1: no column {', '.join(missing)}; it needs {','.join(COLUMNS)}"
        )
    for row in reader:
        where = f"node file {path}: line {reader.line_num}"
        if any(row[column] is None for column in COLUMNS) or None in row:
            raise ClusterError(f"{where}: needs as many fields as the {len(reader.fieldnames or [])} columns")
        yield _machine(where, row)


def _machine(where: str, row: dict[str, str]) -> Manifest:
    numbers = {column: _number(where, column, row[column]) for column in ("cpu_milli", "memory_mib", "gpu")}
    capacity = {
        "cpu": f"{numbers['cpu_milli']}m",
        "memory": f"{numbers['memory_mib']}Mi",
        "pods": CSV_PODS,
    }
    labels: dict[str, str] = {}
    if numbers["gpu"]:
        capacity[GPU] = str(numbers["gpu"])
    if model := row["model"].strip():
        if not LABEL_VALUE.fullmatch(model):
            raise ClusterError(f"{where}: model {model!r} cannot be the value of a label")
        labels[GPU_MODEL] = model
    return _node(row["sn"].strip(), capacity, labels)


def _number(where: str, column: str, value: str) -> int:
    text = (value or "").strip() or "0"
    if not (text.isascii() and text.isdigit()):
        raise ClusterError(f"{where}: {column} is {value!r}; give a whole number, 0 or more")
    return int(text)


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


def _manifest_nodes(path: Path, text: str) -> Iterator[Manifest]:
    try:
        documents: list[object] = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ClusterError(f"node file {path}: not YAML or JSON: {problem}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _objects(path, f"document {number}", document)


def _objects(path: Path, where: str, document: object) -> Iterator[Manifest]:
    """A document is a Node, a List of them, or a plain sequence of them."""
    if isinstance(document, list):
        for number, item in enumerate(cast("list[object]", document), 1):
            yield from _objects(path, f"{where}, item {number}", item)
        return
    if not isinstance(document, dict):
        raise ClusterError(f"node file {path}: {where}: not a Node manifest but {document!r:.60}")
    fields = cast("Manifest", document)
    kind = fields.get("kind")
    if kind in ("List", "NodeList"):
        yield from _objects(path, where, fields.get("items") or [])
        return
    # Items of a NodeList have no kind of their own.
    if kind not in ("Node", None):
        raise ClusterError(f"node file {path}: {where}: kind is {kind!r}, only Node is possible")
    _check_shape(path, where, fields)
    yield _completed(fields)


def _check_shape(path: Path, where: str, fields: Manifest) -> None:
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict) or not cast("Manifest", metadata).get("name"):
        raise ClusterError(f"node file {path}: {where}: no metadata.name")
    maps = {
        "metadata.labels": cast("Manifest", metadata).get("labels"),
        "metadata.annotations": cast("Manifest", metadata).get("annotations"),
        "spec": fields.get("spec"),
        "status": fields.get("status"),
    }
    status: object = fields.get("status")
    if isinstance(status, dict):
        values = cast("Manifest", status)
        maps |= {f"status.{key}": values.get(key) for key in ("capacity", "allocatable")}
    for name, value in maps.items():
        if value is not None and not isinstance(value, dict):
            raise ClusterError(f"node file {path}: {where}: {name} is no map but {value!r:.60}")


def _check_names(path: Path, nodes: list[Manifest]) -> None:
    seen: set[str] = set()
    for number, node in enumerate(nodes, 1):
        name: object = node["metadata"]["name"]
        if not isinstance(name, str) or len(name) > 253 or not DNS_NAME.fullmatch(name):
            raise ClusterError(
                f"node file {path}: node {number}: name {name!r}: "
                "use a-z, 0-9, '-' and '.', at most 253 characters"
            )
        if name in seen:
            raise ClusterError(f"node file {path}: node {number}: name {name!r} occurs twice")
        seen.add(name)


# libyaml where PyYAML was built with it: 5,000 manifests take seconds, not a minute.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
