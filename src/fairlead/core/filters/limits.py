"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach. Called by `core.filters.run`.

Volumes are told apart by driver and handle, so one that several pods use counts once. Disks of kinds that CSI
drivers have taken over count as theirs.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.filters.volumes import claim_name, claim_not_found, not_its_owner
from fairlead.model.pod import Pod
from fairlead.model.rules import CLAIM, EPHEMERAL, Volume
from fairlead.model.storage import Claim

MIGRATED = MappingProxyType(
    {
        "awsElasticBlockStore": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        "gcePersistentDisk": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        "azureDisk": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
        "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
        "portworxVolume": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    }
)
"""Kind of disk -> name of its former provisioner, name of the driver that took over."""
_PROVISIONERS = MappingProxyType(dict(MIGRATED.values()))
_NEVER_COUNTED = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")

Used = dict[tuple[str, str], None]
"""(Driver, handle) of volumes."""


_GCE = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{}"


class _ClaimError(Exception):
    """A claim that makes it impossible to count; the text is the reason."""

    def __init__(self, text: str, code: Code = Code.ERROR) -> None:
        super().__init__(text)
        self.code = code


def node_volume_limits(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Nodes where the pod's new volumes are more than some driver has room for."""
    try:
        wanted = _used_by(cluster, pod, new=True)
    except _ClaimError as error:
        return [Rejection(cluster.everywhere(), error.code, str(error))]
    if not wanted:
        return []
    full, broken = cluster.nothing(), dict[str, list[int]]()
    for name, csi_node in cluster.storage.csi_nodes.items():
        row = cluster.row(name)
        if row is None or not csi_node.limits:
            continue
        try:
            full[row] = _too_many(cluster, name, wanted, dict(csi_node.limits))
        except _ClaimError as error:
            broken.setdefault(str(error), []).append(row)
    return [
        Rejection(full, Code.UNSCHEDULABLE, "node(s) exceed max volume count"),
        *(Rejection(cluster.rows(rows), Code.ERROR, reason) for reason, rows in broken.items()),
    ]


def _too_many(cluster: Cluster, node: str, wanted: Used, limits: Mapping[str, int]) -> bool:
    mounted: Used = {}
    for pod in cluster.pods.with_volumes(node):
        mounted |= _used_by(cluster, pod, new=False)
    present = Counter(driver for driver, _ in mounted | _attached(cluster, node))
    more = Counter(driver for driver, handle in wanted if (driver, handle) not in mounted)
    return any(driver in limits and present[driver] + n > limits[driver] for driver, n in more.items())


def _attached(cluster: Cluster, node: str) -> Used:
    """Volumes that are attached to the node, whether or not a pod there still uses them."""
    found: Used = {}
    for each in cluster.storage.attachments:
        volume = cluster.storage.volumes.get(each.volume)
        if each.node == node and each.driver and volume is not None and volume.driver:
            found[each.driver, volume.handle] = None
    return found


def _used_by(cluster: Cluster, pod: Pod, new: bool) -> Used:
    """The pod's volumes that count. A new pod's claims must exist; raises _ClaimError."""
    found: Used = {}
    for volume in pod.shape.rules.volumes:
        if volume.kind in (CLAIM, EPHEMERAL):
            claim = _claim(cluster, pod, volume, new)
            name = claim and _of_claim(cluster, claim)
        else:
            name = _of_disk(volume.kind, volume.id)
        if name:
            found[name] = None
    return found


def _claim(cluster: Cluster, pod: Pod, volume: Volume, new: bool) -> Claim | None:
    name = claim_name(pod, volume)
    if not name:
        raise _ClaimError("PersistentVolumeClaim had no name")
    claim = cluster.storage.claims.get((pod.namespace, name))
    if claim is None:
        if new:
            text = f"looking up PVC {pod.namespace}/{name}: {claim_not_found(name)}"
            raise _ClaimError(text, Code.UNRESOLVABLE)
        return None
    if volume.kind == EPHEMERAL and claim.owner != pod.uid:
        raise _ClaimError(not_its_owner(pod, claim))
    return claim


def _of_claim(cluster: Cluster, claim: Claim) -> tuple[str, str] | None:
    volume = cluster.storage.volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        if not volume.driver:
            return None if volume.driver_error else volume.disk and _of_disk(*volume.disk)
        return (volume.driver, volume.handle) if volume.handle else None
    kind = cluster.storage.classes.get(claim.storage_class) if claim.storage_class else None
    if kind is None or kind.provisioner in _NEVER_COUNTED:
        return None
    # No volume yet: a name that no volume can have.
    driver = _PROVISIONERS.get(kind.provisioner, kind.provisioner)
    return (driver, f"unprovisioned {claim.namespace}/{claim.name}") if driver else None


def _of_disk(kind: str, name: str) -> tuple[str, str] | None:
    """An in-tree disk under the name that its CSI driver gives it."""
    if kind not in MIGRATED:
        return None
    if kind == "gcePersistentDisk":
        name = name if name.startswith("projects/") else _GCE.format(name)
    elif kind == "awsElasticBlockStore" and name.startswith("aws://"):
        name = name.removeprefix("aws://").partition("/")[2].strip("/")
    return MIGRATED[kind][1], name
