"""VolumeRestrictions and VolumeZone: disks that only one may use, and zones of volumes.

Called by `core.filters.run`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from fairlead.core.columns import Mask
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.model.pod import Pod
from fairlead.model.rules import CLAIM, EPHEMERAL, Volume
from fairlead.model.storage import Claim, PersistentVolume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_KEYS = MappingProxyType(
    {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": REGION}
)
"""Former names of the zone labels, which volumes may still have."""


def claim_not_found(name: str) -> str:
    """As the API server words it."""
    return f'persistentvolumeclaim "{name}" not found'


def claim_name(pod: Pod, volume: Volume) -> str:
    """The claim that stands behind a claim volume or an ephemeral one."""
    return f"{pod.name}-{volume.id}" if volume.kind == EPHEMERAL else volume.id


def not_its_owner(pod: Pod, claim: Claim) -> str:
    """The reason when an ephemeral volume's claim is somebody else's."""
    return (
        f"PVC {claim.namespace}/{claim.name} was not created for pod {pod.namespace}/{pod.name}"
        " (pod is not owner)"
    )


# -- disks -------------------------------------------------------------------------------------------


def _both_write(a: Volume, b: Volume) -> bool:
    return not (a.read_only and b.read_only)


_CONFLICTS: Mapping[str, Callable[[Volume, Volume], bool]] = MappingProxyType(
    {
        "gcePersistentDisk": lambda a, b: a.id == b.id and _both_write(a, b),
        "awsElasticBlockStore": lambda a, b: a.id == b.id,
        "iscsi": lambda a, b: a.id == b.id and _both_write(a, b),
        "rbd": lambda a, b: (
            (a.pool, a.id) == (b.pool, b.id)
            and any(monitor in b.monitors for monitor in a.monitors)
            and _both_write(a, b)
        ),
    }
)


def volume_restrictions(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Inline disks that a pod on the node uses, and claims that only one pod may use anywhere."""
    alone = False
    for volume in pod.shape.rules.volumes:
        if volume.kind != CLAIM:
            continue
        claim = cluster.storage.claims.get((pod.namespace, volume.id))
        if claim is None:
            return [Rejection(cluster.everywhere(), Code.UNRESOLVABLE, claim_not_found(volume.id))]
        users = cluster.pods.rows_of(cluster.pods.claims.get((pod.namespace, volume.id), {}))
        if "ReadWriteOncePod" in claim.access and cluster.classes.present[users].any():
            alone = True
    taken = cluster.nothing()
    for volume in pod.shape.rules.volumes:
        conflict = _CONFLICTS.get(volume.kind)
        if conflict is not None:
            rows = [row for row, other in cluster.pods.volumes(volume.kind) if conflict(volume, other)]
            taken[rows] = True
    in_use = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by"
        " another pod"
    )
    return [
        Rejection(taken, Code.UNSCHEDULABLE, "node(s) had no available disk"),
        Rejection(~taken if alone else cluster.nothing(), Code.UNSCHEDULABLE, in_use),
    ]


# -- zones -------------------------------------------------------------------------------------------


def volume_zone(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Zone and region labels of bound volumes; nodes without any such label will do."""
    zones: list[tuple[str, frozenset[str]]] = []
    for volume in pod.shape.rules.volumes:
        if volume.kind != CLAIM:
            continue
        found = _volume_of(cluster, pod.namespace, volume.id)
        if isinstance(found, str):
            return [Rejection(cluster.everywhere(), Code.UNRESOLVABLE, found)]
        if found is not None:
            zones += _zones(found)
    if not zones:
        return []
    columns = cluster.classes.columns
    keys = (*OLD_KEYS, ZONE, REGION)
    zoned = np.logical_or.reduce([columns.column(key)[0] >= 0 for key in keys])
    wrong = cluster.nothing()
    for key, values in zones:
        wrong |= ~_inside(cluster, key, values)
    return [Rejection(wrong & zoned, Code.UNRESOLVABLE, "node(s) had no available volume zone")]


def _volume_of(cluster: Cluster, namespace: str, name: str) -> PersistentVolume | str | None:
    """The claim's volume; None while it waits for its first consumer; or what is wrong with it."""
    if not name:
        return "PersistentVolumeClaim had no name"
    storage = cluster.storage
    claim = storage.claims.get((namespace, name))
    if claim is None:
        return claim_not_found(name)
    if claim.volume:
        return storage.volumes.get(claim.volume) or f'persistentvolume "{claim.volume}" not found'
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    kind = storage.classes.get(claim.storage_class)
    if kind is None:
        return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
    if kind.delayed is None:
        return f'VolumeBindingMode not set for StorageClass "{kind.name}"'
    return None if kind.delayed else "PersistentVolume had no name"


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for key in (*OLD_KEYS, ZONE, REGION):
        if key in volume.labels:
            values = [each.strip() for each in volume.labels[key].split("__")]
            if all(values):  # one that cannot be read is ignored
                yield key, frozenset(values)


def _inside(cluster: Cluster, key: str, values: frozenset[str]) -> Mask:
    """Nodes whose label, under this name or else under its present one, is among the values."""
    result = cluster.nothing()
    undecided = cluster.everywhere()
    for name in dict.fromkeys((key, OLD_KEYS.get(key, key))):
        codes, words = cluster.classes.columns.column(name)
        hits = [i for i, word in enumerate(words) if word in values]
        result |= undecided & np.isin(codes, np.array(hits, dtype=np.int32))
        undecided &= codes < 0
    return result
