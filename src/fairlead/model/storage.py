"""Claims, volumes and storage classes as the volume filters see them. Made by `wire.storage`.

Each is tagged with its Kubernetes kind (`model.thing`). Sizes are in thousandths of a byte, so that comparing
them is as exact as the quantities are.
"""

from msgspec import Struct

from fairlead.model.selector import Expression, Selector


class Claim(Struct, frozen=True, gc=False, omit_defaults=True, tag="PersistentVolumeClaim"):
    """core/v1 PersistentVolumeClaim. `bound` is true when its binding is complete on both sides."""

    namespace: str
    name: str
    uid: str = ""
    storage_class: str = ""
    volume: str = ""
    bound: bool = False
    lost: bool = False
    deleting: bool = False
    owner: str = ""
    """The uid of the controlling owner: the pod of an ephemeral volume."""
    size: int | None = None
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    selector: Selector = ()
    selected_node: str | None = None
    attributes: str = ""
    """The name of its VolumeAttributesClass."""


class PersistentVolume(Struct, frozen=True, gc=False, omit_defaults=True, tag="PersistentVolume"):
    """core/v1 PersistentVolume. `affinity` is None where any node will do."""

    name: str
    labels: dict[str, str] = {}
    storage_class: str = ""
    size: int = 0
    access: tuple[str, ...] = ()
    mode: str = "Filesystem"
    available: bool = False
    deleting: bool = False
    claim: tuple[str, str, str] | None = None
    """Namespace, name and uid ("" if any) of the claim it is meant for."""
    affinity: tuple[tuple[Expression, ...], ...] | None = None
    driver: str = ""
    """Of a CSI volume; "" for all others."""
    handle: str = ""
    disk: tuple[str, str] | None = None
    """Kind and id of a disk that a CSI driver has taken over."""
    driver_affinity: tuple[tuple[Expression, ...], ...] | None = None
    """Such a disk's affinity in the driver's words, for nodes where the driver has taken over."""
    driver_error: str = ""
    """Why it cannot be put into the driver's words."""
    attributes: str = ""


class StorageClass(Struct, frozen=True, gc=False, omit_defaults=True, tag="StorageClass"):
    """storage.k8s.io/v1 StorageClass. `delayed` is None where the binding mode is not set."""

    name: str
    provisioner: str = ""
    delayed: bool | None = False
    topologies: tuple[tuple[Expression, ...], ...] = ()


class CsiNode(Struct, frozen=True, gc=False, omit_defaults=True, tag="CSINode"):
    """How many volumes of a driver the node can attach; drivers without a limit are left out."""

    name: str
    limits: tuple[tuple[str, int], ...] = ()
    migrated: tuple[str, ...] = ()
    """Former provisioners whose disks a CSI driver serves on this node."""


class CsiDriver(Struct, frozen=True, gc=False, omit_defaults=True, tag="CSIDriver"):
    """storage.k8s.io/v1 CSIDriver. `tracked` is true where its CSIStorageCapacities count."""

    name: str
    tracked: bool = False


class Capacity(Struct, frozen=True, gc=False, omit_defaults=True, tag="CSIStorageCapacity"):
    """storage.k8s.io/v1 CSIStorageCapacity: the largest volume in whole bytes; None where nothing is said."""

    storage_class: str
    largest: int | None = None
    topology: Selector = None


class Attachment(Struct, frozen=True, gc=False, omit_defaults=True, tag="VolumeAttachment"):
    """storage.k8s.io/v1 VolumeAttachment of a persistent volume."""

    node: str
    driver: str
    volume: str


class Storage(Struct, frozen=True):
    """All of a cluster's storage objects by name; claims by namespace and name. Not changed once made."""

    claims: dict[tuple[str, str], Claim] = {}
    volumes: dict[str, PersistentVolume] = {}
    classes: dict[str, StorageClass] = {}
    csi_nodes: dict[str, CsiNode] = {}
    tracked: tuple[str, ...] = ()
    """CSI drivers whose capacity counts."""
    capacities: tuple[Capacity, ...] = ()
    attachments: tuple[Attachment, ...] = ()
