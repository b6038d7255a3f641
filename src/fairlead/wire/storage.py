"""Storage objects on the wire -> those that the volume filters see. Pure.

Called by `wire.cases` and by `kube.things`. Raises ValueError for a quantity or an operator that cannot be
read.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from fairlead.model.quantity import milli, whole
from fairlead.model.selector import Expression, Operator
from fairlead.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    Storage,
    StorageClass,
)
from fairlead.wire.rules import node_term, selector, source_id
from fairlead.wire.structs import LabelSelector, NodeSelector, ObjectMeta, Quantities, Resources, VolumeSource

OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
BOUND = "pv.kubernetes.io/bind-completed"
NO_REGION = "could not translate pv: failed to get region from zones"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
REGION = "topology.kubernetes.io/region"
DRIVER_KEYS = (
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "topology.cinder.csi.openstack.org/zone",
)
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
ZONE = "topology.kubernetes.io/zone"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimSpec(Struct, frozen=True, rename="camel"):
    access_modes: list[str] = []
    resources: Resources = Resources()
    storage_class_name: str = ""
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    volume_attributes_class_name: str = ""


class Phase(Struct, frozen=True):
    phase: str = ""


class WireClaim(Struct, frozen=True):
    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()


class CsiSource(Struct, frozen=True, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class ClaimRef(Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class VolumeSpec(Struct, frozen=True, rename="camel"):
    access_modes: list[str] = []
    capacity: Quantities = {}
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    claim_ref: ClaimRef | None = None
    node_affinity: VolumeAffinity | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: VolumeSource | None = None
    azure_disk: VolumeSource | None = None
    cinder: VolumeSource | None = None
    gce_persistent_disk: VolumeSource | None = None
    portworx_volume: VolumeSource | None = None


class WirePersistentVolume(Struct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeSpec = VolumeSpec()
    status: Phase = Phase()


class TopologyRequirement(Struct, frozen=True):
    key: str
    values: list[str] = []


class TopologyTerm(Struct, frozen=True, rename="camel"):
    match_label_expressions: list[TopologyRequirement] = []


class WireStorageClass(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] = []


class Count(Struct, frozen=True):
    count: int | None = None


class NodeDriver(Struct, frozen=True):
    name: str
    allocatable: Count | None = None


class CsiNodeSpec(Struct, frozen=True):
    drivers: list[NodeDriver] = []


class WireCsiNode(Struct, frozen=True):
    metadata: ObjectMeta
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Struct, frozen=True, rename="camel"):
    storage_capacity: bool = False


class WireCsiDriver(Struct, frozen=True):
    metadata: ObjectMeta
    spec: CsiDriverSpec = CsiDriverSpec()


class WireCapacity(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta = ObjectMeta()
    storage_class_name: str = ""
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
    node_topology: LabelSelector | None = None


class AttachmentSource(Struct, frozen=True, rename="camel"):
    persistent_volume_name: str = ""


class AttachmentSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    attacher: str = ""
    source: AttachmentSource = AttachmentSource()


class WireAttachment(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()


class StorageObjects(Struct, frozen=True, rename="camel"):
    """All storage objects of a cluster, by kind."""

    pvcs: list[WireClaim] = []
    pvs: list[WirePersistentVolume] = []
    storage_classes: list[WireStorageClass] = []
    csi_nodes: list[WireCsiNode] = []
    csi_drivers: list[WireCsiDriver] = []
    csi_storage_capacities: list[WireCapacity] = []
    volume_attachments: list[WireAttachment] = []


def storage(wire: StorageObjects) -> Storage:
    claims = [claim(each) for each in wire.pvcs]
    volumes = [volume(each) for each in wire.pvs]
    classes = [storage_class(each) for each in wire.storage_classes]
    csi_nodes = [csi_node(each) for each in wire.csi_nodes]
    return Storage(
        claims={(each.namespace, each.name): each for each in claims},
        volumes={each.name: each for each in volumes},
        classes={each.name: each for each in classes},
        csi_nodes={each.name: each for each in csi_nodes},
        tracked=tuple(each.name for each in map(csi_driver, wire.csi_drivers) if each.tracked),
        capacities=tuple(capacity(each) for each in wire.csi_storage_capacities),
        attachments=tuple(attachment(each) for each in wire.volume_attachments),
    )


def claim(wire: WireClaim) -> Claim:
    meta, spec = wire.metadata, wire.spec
    size = spec.resources.requests.get("storage")
    owners = [each.uid for each in meta.owner_references if each.controller]
    return Claim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        storage_class=meta.annotations.get(OLD_CLASS, spec.storage_class_name),
        volume=spec.volume_name,
        bound=BOUND in meta.annotations,
        lost=wire.status.phase == "Lost",
        deleting=meta.deletion_timestamp is not None,
        owner=owners[0] if owners else "",
        size=None if size is None else milli(size),
        access=tuple(spec.access_modes),
        mode=spec.volume_mode,
        selector=() if spec.selector is None else selector(spec.selector),
        selected_node=meta.annotations.get(SELECTED_NODE),
        attributes=spec.volume_attributes_class_name,
    )


def volume(wire: WirePersistentVolume) -> PersistentVolume:
    meta, spec = wire.metadata, wire.spec
    ref = spec.claim_ref
    place, error = _google_place(spec, meta.labels)
    return PersistentVolume(
        name=meta.name,
        labels=meta.labels,
        storage_class=meta.annotations.get(OLD_CLASS, spec.storage_class_name),
        size=milli(spec.capacity.get("storage", 0)),
        access=tuple(spec.access_modes),
        mode=spec.volume_mode,
        available=wire.status.phase == "Available",
        deleting=meta.deletion_timestamp is not None,
        claim=ref and (ref.namespace, ref.name, ref.uid),
        affinity=_affinity(spec.node_affinity and spec.node_affinity.required),
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else "",
        disk=_disk(spec, place),
        driver_error=error,
        driver_affinity=_driver_affinity(spec, meta.labels),
        attributes=spec.volume_attributes_class_name,
    )


def _affinity(wire: NodeSelector | None) -> tuple[tuple[Expression, ...], ...] | None:
    """kube-scheduler shows a volume's affinity a node without a name: there matchFields match anything."""
    if wire is None:
        return None
    terms = wire.node_selector_terms
    if any(each.match_fields and not each.match_expressions for each in terms):
        return None
    return tuple(tuple(e for e in node_term(each) if not e.field) for each in terms)


def _disk(spec: VolumeSpec, place: str) -> tuple[str, str] | None:
    kinds = {
        "awsElasticBlockStore": spec.aws_elastic_block_store,
        "azureDisk": spec.azure_disk,
        "cinder": spec.cinder,
        "gcePersistentDisk": spec.gce_persistent_disk,
        "portworxVolume": spec.portworx_volume,
    }
    for kind, source in kinds.items():
        if source is not None:
            return kind, f"{place}{source_id(kind, source)}"
    return None


def _google_place(spec: VolumeSpec, labels: Mapping[str, str]) -> tuple[str, str]:
    """Where Google's driver says that the disk is, before its name; and why it cannot say so."""
    if spec.gce_persistent_disk is None:
        return "", ""
    zones = (labels.get(OLD_ZONE) or labels.get(ZONE) or "UNSPECIFIED").split("__")
    if len(zones) == 1:
        return f"projects/UNSPECIFIED/zones/{zones[0]}/disks/", ""
    odd = next((zone for zone in zones if zone.count("-") != 2), None)
    if odd is not None:
        form = "{locale}-{region}-{zone}"
        return "", f"{NO_REGION}: zone in unexpected format, expected: {form}, got: {odd}"
    regions = sorted({zone.rpartition("-")[0] for zone in zones})
    if len(regions) > 1:
        listed = " ".join(f"{region}:{{}}" for region in regions)
        return "", f"{NO_REGION}: multiple or no regions gotten from zones, got: map[{listed}]"
    return f"projects/UNSPECIFIED/regions/{regions[0]}/disks/", ""


def _driver_affinity(
    spec: VolumeSpec, labels: Mapping[str, str]
) -> tuple[tuple[Expression, ...], ...] | None:
    """Zones under the driver's key: those of the affinity, else those of the volume's labels."""
    plain = _affinity(spec.node_affinity and spec.node_affinity.required)
    sources = (spec.aws_elastic_block_store, spec.gce_persistent_disk, spec.cinder)
    key = next((k for k, each in zip(DRIVER_KEYS, sources, strict=True) if each is not None), "")
    if not key:
        return plain
    terms = plain or ()
    keys = {e.key for term in terms for e in term}
    old = next((k for k in (ZONE, OLD_ZONE) if k in keys), "")
    old = old or next((k for k in (ZONE, OLD_ZONE) if k in labels), ZONE)
    if any(e.key == old and e.values for term in terms for e in term):
        renamed = {old: key} | ({OLD_REGION: REGION} if old == OLD_ZONE else {})
        return tuple(tuple(replace(e, key=renamed.get(e.key, e.key)) for e in term) for term in terms)
    zones = sorted({zone.strip() for zone in labels.get(old, "").split("__")} - {""})
    if not zones:
        return plain
    return tuple((*term, Expression(key, Operator.IN, tuple(zones))) for term in terms or ((),))


def storage_class(wire: WireStorageClass) -> StorageClass:
    mode = wire.volume_binding_mode
    topologies = [
        tuple(
            Expression(each.key, Operator.IN, tuple(sorted(each.values)))
            for each in topology.match_label_expressions
        )
        for topology in wire.allowed_topologies
    ]
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        delayed=None if mode is None else mode == "WaitForFirstConsumer",
        topologies=tuple(topologies),
    )


def csi_node(wire: WireCsiNode) -> CsiNode:
    limits = [
        (driver.name, driver.allocatable.count)
        for driver in wire.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    ]
    migrated = wire.metadata.annotations.get(MIGRATED, "")
    return CsiNode(wire.metadata.name, tuple(limits), tuple(filter(None, migrated.split(","))))


def csi_driver(wire: WireCsiDriver) -> CsiDriver:
    return CsiDriver(wire.metadata.name, wire.spec.storage_capacity)


def capacity(wire: WireCapacity) -> Capacity:
    largest = wire.capacity if wire.maximum_volume_size is None else wire.maximum_volume_size
    return Capacity(
        wire.storage_class_name, None if largest is None else whole(largest), selector(wire.node_topology)
    )


def attachment(wire: WireAttachment) -> Attachment:
    spec = wire.spec
    return Attachment(spec.node_name, spec.attacher, spec.source.persistent_volume_name)
