"""Filter cases: files of one cluster and one pod per line, as plain Kubernetes objects without kind.

Called by `cli.filter`. All it raises for a file's fault is FileError.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from fairlead.model.node import Node
from fairlead.model.pod import Pod
from fairlead.model.storage import Storage
from fairlead.wire import files, objects
from fairlead.wire.files import FileError
from fairlead.wire.pod import UNREADABLE, pod
from fairlead.wire.preferences import preferences
from fairlead.wire.storage import StorageObjects, storage
from fairlead.wire.structs import MetadataOnly, ObjectMeta, WireNode, WirePod


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] = {}


class Service(Struct, frozen=True):
    metadata: ObjectMeta
    spec: ServiceSpec = ServiceSpec()


class Objects(StorageObjects, frozen=True, rename="camel", kw_only=True):
    """A line as it is written; what is said of it beyond that (`expect`) is left alone."""

    id: str
    pod: WirePod
    nodes: list[WireNode]
    pods: list[WirePod] = msgspec.field(default_factory=list[WirePod])
    namespaces: list[MetadataOnly] = msgspec.field(default_factory=list[MetadataOnly])
    services: list[Service] = msgspec.field(default_factory=list[Service])


class Case(NamedTuple):
    """A pod to be placed, and the cluster it is placed in."""

    id: str
    pod: Pod
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    namespaces: dict[str, dict[str, str]]
    storage: Storage
    gates: tuple[str, ...]
    """The pod's scheduling gates."""
    images: dict[str, tuple[tuple[str, int], ...]]
    """Node -> (name, bytes) of the images there."""
    services: tuple[tuple[str, dict[str, str]], ...]
    """(Namespace, selector)."""


_decode = msgspec.json.Decoder(Objects).decode


def read(path: Path) -> Iterator[Case]:
    """The cases of a JSONL file, which may be packed (.xz, .gz), one after the other."""
    if files.ending(path) != ".jsonl":
        raise FileError(f"{path}: give a .jsonl file (also .gz or .xz) with one case per line")
    for number, line in enumerate(files.text(path).splitlines(), 1):
        if line.strip():
            try:
                yield case(line)
            except (msgspec.MsgspecError, ValueError) as error:
                raise FileError(f"{path}:{number}: {error}") from None


def case(line: str | bytes) -> Case:
    """One line; raises ValueError (msgspec.MsgspecError is one) for what cannot be read."""
    wire = _decode(line)
    return Case(
        wire.id,
        _readable(wire.pod),
        tuple(objects.node(each) for each in wire.nodes),
        tuple(_readable(each) for each in wire.pods),
        {each.metadata.name: each.metadata.labels for each in wire.namespaces},
        storage(wire),
        tuple(each.name for each in wire.pod.spec.scheduling_gates),
        {each.metadata.name: _images(each) for each in wire.nodes},
        tuple((each.metadata.namespace, each.spec.selector) for each in wire.services),
    )


def _images(node: WireNode) -> tuple[tuple[str, int], ...]:
    return tuple((name, each.size_bytes) for each in node.status.images for name in each.names)


def _readable(wire: WirePod) -> Pod:
    """The pod; what the scheduler would let wait because it cannot read it is an error here."""
    found = pod(wire)
    for text in found.shape.unsupported:
        if text.startswith(UNREADABLE):
            raise ValueError(f"pod {found.namespace}/{found.name}: {text}")
    return structs.replace(found, wishes=preferences(wire))
