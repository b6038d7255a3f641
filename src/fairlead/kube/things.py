"""How namespaces, storage objects and device classes are listed and read.

The kinds of `kube.port` beside those of `kube.translate`. Pure but for a log line and a counter when an
object cannot be read: such a one counts as not there. Must not raise for anything a server may send.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from fairlead.kube.translate import KINDS, Body, Counter, Kind, complain
from fairlead.model.event import ThingGone, ThingSeen
from fairlead.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    StorageClass,
)
from fairlead.model.thing import DeviceClass, Namespace, Thing, kind_of
from fairlead.wire import storage as wire
from fairlead.wire.pod import version_of
from fairlead.wire.structs import MetadataOnly, ObjectMeta

SOURCE = "surroundings"


class _DeviceClassSpec(Struct, frozen=True, rename="camel"):
    extended_resource_name: str = ""


class _DeviceClass(Struct, frozen=True):
    metadata: ObjectMeta
    spec: _DeviceClassSpec = _DeviceClassSpec()


_Wire = TypeVar(
    "_Wire",
    MetadataOnly,
    wire.WireClaim,
    wire.WirePersistentVolume,
    wire.WireStorageClass,
    wire.WireCsiNode,
    wire.WireCsiDriver,
    wire.WireCapacity,
    wire.WireAttachment,
    _DeviceClass,
)


def _kind(
    kind: type[Thing], path: str, form: type[_Wire], read: Callable[[_Wire], Thing], *, optional: bool = False
) -> Kind:
    decode = msgspec.json.Decoder(form).decode
    name = kind_of(kind)

    def seen(raw: Body, count: Counter) -> ThingSeen | None:
        try:
            found = decode(raw)
            meta = found.metadata
            if not meta.uid:
                raise ValueError("it has no uid")
            return ThingSeen(meta.uid, version_of(meta.resource_version), read(found))
        except (msgspec.MsgspecError, ValueError) as error:
            complain(name, raw, error, count)
            return None

    return Kind(name, path, SOURCE, seen, ThingGone, optional)


def _namespace(found: MetadataOnly) -> Namespace:
    return Namespace(found.metadata.name, found.metadata.labels)


def _device_class(found: _DeviceClass) -> DeviceClass:
    return DeviceClass(found.metadata.name, found.spec.extended_resource_name)


_STORAGE = "/apis/storage.k8s.io/v1"
THINGS = (
    _kind(Namespace, "/api/v1/namespaces", MetadataOnly, _namespace),
    _kind(Claim, "/api/v1/persistentvolumeclaims", wire.WireClaim, wire.claim),
    _kind(PersistentVolume, "/api/v1/persistentvolumes", wire.WirePersistentVolume, wire.volume),
    _kind(StorageClass, f"{_STORAGE}/storageclasses", wire.WireStorageClass, wire.storage_class),
    _kind(CsiNode, f"{_STORAGE}/csinodes", wire.WireCsiNode, wire.csi_node),
    _kind(CsiDriver, f"{_STORAGE}/csidrivers", wire.WireCsiDriver, wire.csi_driver),
    _kind(Capacity, f"{_STORAGE}/csistoragecapacities", wire.WireCapacity, wire.capacity, optional=True),
    _kind(Attachment, f"{_STORAGE}/volumeattachments", wire.WireAttachment, wire.attachment),
    _kind(DeviceClass, "/apis/resource.k8s.io/v1/deviceclasses", _DeviceClass, _device_class, optional=True),
)
ALL_KINDS = (*KINDS, *THINGS)
