"""Node files: Node manifests, or a CSV of machines. What they say of each node, checked.

Called by the local cluster and by the simulator. It returns manifests as the file has them (a CSV's rows made
into such) and must not talk to a server.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from fairlead.wire import files
from fairlead.wire.files import Fields as Manifest
from fairlead.wire.files import FileError

GPU_MODEL = "fairlead.dev/gpu-model"
GPU = "nvidia.com/gpu"
COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def read(path: Path) -> list[Manifest]:
    """The nodes of a file; what it is, its name says: .csv, .yaml, .yml or .json, each also as .gz or .xz."""
    kind = files.ending(path)
    if kind not in (".csv", ".yaml", ".yml", ".json"):
        raise FileError(f"{path}: give a .csv, .yaml or .json file (also .gz or .xz)")
    text = files.text(path)
    nodes = list(_csv_nodes(path, text) if kind == ".csv" else _manifest_nodes(path, text))
    if not nodes:
        raise FileError(f"{path}: no node in it")
    check_names(path, nodes)
    return nodes


def _csv_nodes(path: Path, text: str) -> Iterator[Manifest]:
    reader = csv.DictReader(io.StringIO(text))
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or [])]
    if missing:
        raise FileError(f"{path}: line 1: no column {', '.join(missing)}; it needs {','.join(COLUMNS)}")
    for row in reader:
        where = f"{path}: line {reader.line_num}"
        if any(row[column] is None for column in COLUMNS) or None in row:
            raise FileError(f"{where}: needs as many fields as the {len(reader.fieldnames or [])} columns")
        yield _machine(where, row)


def _machine(where: str, row: dict[str, str]) -> Manifest:
    numbers = {column: _number(where, column, row[column]) for column in ("cpu_milli", "memory_mib", "gpu")}
    capacity = {
        "cpu": f"{numbers['cpu_milli']}m",
        "memory": f"{numbers['memory_mib']}Mi",
    }
    labels: dict[str, str] = {}
    if numbers["gpu"]:
        capacity[GPU] = str(numbers["gpu"])
    if model := row["model"].strip():
        if not LABEL_VALUE.fullmatch(model):
            raise FileError(f"{where}: model {model!r} cannot be the value of a label")
        labels[GPU_MODEL] = model
    return {"metadata": {"name": row["sn"].strip(), "labels": labels}, "status": {"capacity": capacity}}


def _number(where: str, column: str, value: str) -> int:
    text = (value or "").strip() or "0"
    if not (text.isascii() and text.isdigit()):
        raise FileError(f"{where}: {column} is {value!r}; give a whole number, 0 or more")
    return int(text)


def _manifest_nodes(path: Path, text: str) -> Iterator[Manifest]:
    for where, fields in files.objects(path, text):
        kind = fields.get("kind")
        # Items of a NodeList have no kind of their own.
        if kind not in ("Node", None):
            raise FileError(f"{path}: {where}: kind is {kind!r}, only Node is possible")
        check(path, where, fields)
        yield fields


def check(path: Path, where: str, fields: Manifest) -> None:
    """Raise FileError unless the maps of a Node manifest are maps and it has a name."""
    metadata = fields.get("metadata")
    if not isinstance(metadata, dict) or not cast("Manifest", metadata).get("name"):
        raise FileError(f"{path}: {where}: no metadata.name")
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
            raise FileError(f"{path}: {where}: {name} is no map but {value!r:.60}")


def check_names(path: Path, nodes: list[Manifest]) -> None:
    """Raise FileError unless names are those of nodes, each only once."""
    seen: set[str] = set()
    for number, node in enumerate(nodes, 1):
        name: object = node["metadata"]["name"]
        if not isinstance(name, str) or len(name) > 253 or not DNS_NAME.fullmatch(name):
            raise FileError(
                f"{path}: node {number}: name {name!r}: use a-z, 0-9, '-' and '.', at most 253 characters"
            )
        if name in seen:
            raise FileError(f"{path}: node {number}: name {name!r} occurs twice")
        seen.add(name)
