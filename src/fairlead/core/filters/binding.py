"""VolumeBinding: bound volumes that the node can reach, and volumes or provisioners for claims that still
wait.

Called by `core.filters.run`. Bound volumes are masks. Claims that wait for their first consumer are matched
once per kind of node: nodes that reach the same free volumes get the same answer. `decide`, called by
`core.assume`, says what is to become of them on one node.
"""

from collections.abc import Container, Iterator, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from fairlead.core.columns import Mask, matches
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.limits import MIGRATED
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.filters.volumes import claim_name, claim_not_found, not_its_owner
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import CLAIM, EPHEMERAL
from fairlead.model.storage import Claim, PersistentVolume, StorageClass

CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class _Claims(NamedTuple):
    bound: list[Claim]
    waiting: list[Claim]
    """For their first consumer."""
    immediate: list[Claim]
    """Not bound, though they should be."""


def volume_binding(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """What is wrong with a claim as such rejects all nodes; the other claims are looked at per node."""
    sorted_out = _all_of(cluster, pod)
    if isinstance(sorted_out, Rejection):
        return [sorted_out]
    bound, failed = _bound(cluster, sorted_out.bound)
    waiting = [
        Rejection(mask & ~failed, Code.UNRESOLVABLE, reason)
        for mask, reason in _waiting(cluster, sorted_out.waiting)
    ]
    return [*bound, *waiting]


def _all_of(cluster: Cluster, pod: Pod, settled: Container[tuple[str, str]] = ()) -> _Claims | Rejection:
    """The pod's claims but the settled ones, or what is wrong with one of them as such."""
    found: list[Claim] = []
    for volume in pod.shape.rules.volumes:
        if volume.kind in (CLAIM, EPHEMERAL) and (pod.namespace, claim_name(pod, volume)) not in settled:
            claim = _usable(cluster, pod, claim_name(pod, volume), volume.kind == EPHEMERAL)
            if isinstance(claim, str):
                return Rejection(cluster.everywhere(), Code.UNRESOLVABLE, claim)
            found.append(claim)
    sorted_out = _sort_out(cluster, found)
    if isinstance(sorted_out, str):
        return Rejection(cluster.everywhere(), Code.ERROR, sorted_out)
    if sorted_out.immediate:
        return Rejection(cluster.everywhere(), Code.UNRESOLVABLE, UNBOUND)
    return sorted_out


def _usable(cluster: Cluster, pod: Pod, name: str, ephemeral: bool) -> Claim | str:
    """The claim, or what makes it unusable."""
    claim = cluster.storage.claims.get((pod.namespace, name))
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return claim_not_found(name)
    if claim.lost:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return not_its_owner(pod, claim) if ephemeral and claim.owner != pod.uid else claim


def _sort_out(cluster: Cluster, claims: Sequence[Claim]) -> _Claims | str:
    result = _Claims([], [], [])
    for claim in claims:
        if claim.volume and claim.bound:
            result.bound.append(claim)
            continue
        kind = cluster.storage.classes.get(claim.storage_class) if claim.storage_class else None
        if kind is not None and kind.delayed is None:
            return f'VolumeBindingMode not set for StorageClass "{kind.name}"'
        delayed = kind is not None and kind.delayed and not claim.volume
        (result.waiting if delayed else result.immediate).append(claim)
    return result


def _reaches(cluster: Cluster, volume: PersistentVolume) -> Mask:
    """Nodes that the volume's node affinity allows; do not change the array."""
    columns, terms = cluster.classes.columns, volume.affinity
    if terms is None:
        return cluster.everywhere()
    if len(terms) == 1 and len(terms[0]) == 1:  # as of a disk in a node: there are many of these
        return columns.one(terms[0][0])
    return columns.any(terms)


def _served(cluster: Cluster, volume: PersistentVolume) -> Mask:
    """Nodes where a CSI driver has taken over the volume's kind of disk."""
    if volume.disk is None:
        return cluster.nothing()
    plugin, _ = MIGRATED[volume.disk[0]]
    names = [each.name for each in cluster.storage.csi_nodes.values() if plugin in each.migrated]
    return cluster.rows(row for name in names if (row := cluster.row(name)) is not None)


def _bound(cluster: Cluster, claims: Sequence[Claim]) -> tuple[list[Rejection], Mask]:
    """The first claim that is wrong for a node gives the reason there; and where asking as such fails."""
    conflict, missing, failed = (cluster.nothing() for _ in range(3))
    errors: list[Rejection] = []
    for claim in claims:
        volume = cluster.storage.volumes.get(claim.volume)
        if volume is None:
            missing |= ~conflict & ~failed
            continue
        served, reached = _served(cluster, volume), _reaches(cluster, volume)
        if volume.driver_error:
            wrong = served & ~conflict & ~missing & ~failed
            errors.append(Rejection(wrong, Code.ERROR, volume.driver_error))
            failed |= wrong
        elif volume.driver_affinity is not None:
            reached = np.where(served, cluster.classes.columns.any(volume.driver_affinity), reached)
        conflict |= ~reached & ~missing & ~failed
    found = [
        Rejection(conflict, Code.UNRESOLVABLE, CONFLICT),
        Rejection(missing, Code.UNRESOLVABLE, NOT_THERE),
    ]
    return [*found, *errors], failed


# -- claims that wait ------------------------------------------------------------------------------------


def _waiting(cluster: Cluster, claims: Sequence[Claim]) -> Iterator[tuple[Mask, str]]:
    none, full = cluster.nothing(), cluster.nothing()
    chosen = [claim for claim in claims if claim.selected_node is not None]
    for claim in chosen:
        row = cluster.row(claim.selected_node or "")
        none |= ~cluster.rows([] if row is None else [row])
    searching = _by_size(claims)
    for nodes, left in _matched(cluster, searching):
        no_volume, no_space = _provision(cluster, [*chosen, *left])
        full |= nodes & no_space & ~none
        none |= nodes & no_volume
    yield none, NO_VOLUME
    yield full & ~none, NO_SPACE


def _matched(cluster: Cluster, claims: Sequence[Claim]) -> Iterator[tuple[Mask, list[Claim]]]:
    """Kinds of nodes, each with the claims for which they reach no free volume."""
    volumes = _candidates(cluster, claims)
    missed = _give(claims, volumes, _reach(cluster, volumes)) < 0
    patterns, kind_of = np.unique(missed, axis=1, return_inverse=True)
    for kind in range(patterns.shape[1]):
        yield kind_of.reshape(-1) == kind, list(compress(claims, patterns[:, kind]))


def _by_size(claims: Sequence[Claim]) -> list[Claim]:
    """Those for which a volume may be looked for, the smallest first."""
    return sorted((c for c in claims if c.selected_node is None), key=lambda claim: claim.size or 0)


def _candidates(cluster: Cluster, claims: Sequence[Claim]) -> list[PersistentVolume]:
    """Volumes that may be one of the claims' on some node."""
    kinds = dict.fromkeys(claim.storage_class for claim in claims)
    volumes = [each for each in cluster.storage.volumes.values() if each.storage_class in kinds]
    return [each for each in volumes if any(_like(claim, each) for claim in claims)]


def _reach(cluster: Cluster, volumes: Sequence[PersistentVolume]) -> Mask:
    """[volume, node] `_reaches` of each."""
    reach = np.zeros((len(volumes), len(cluster)), dtype=bool)
    for i, volume in enumerate(volumes):
        reach[i] = _reaches(cluster, volume)
    return reach


def _give(claims: Sequence[Claim], volumes: Sequence[PersistentVolume], reach: Mask) -> Ints:
    """[claim, node] the volume that the claim gets there, -1 for none; `reach` is [volume, node].

    It is the one meant for the claim, else the smallest free one that satisfies it. One claim comes after the
    other, and each volume is given once; a claim that the pod mounts twice is two.
    """
    given = np.full((len(claims), reach.shape[1]), -1, dtype=np.int64)
    left = np.ones_like(reach)
    for i, claim in enumerate(claims):
        like = [v for v, volume in enumerate(volumes) if _like(claim, volume)]
        meant = [v for v in like if volumes[v].claim is not None]
        free = [v for v in like if volumes[v].claim is None and _satisfies(claim, volumes[v])]
        free.sort(key=lambda v: volumes[v].size)
        given[i] = _first(free, reach[free] & left[free])
        if meant:  # somebody made it for this claim: that or none
            own = _first(meant, left[meant])
            reached = np.take_along_axis(reach, np.maximum(own, 0)[None], axis=0)[0]
            given[i] = np.where(own < 0, given[i], np.where(reached, own, -1))
        nodes = np.flatnonzero(given[i] >= 0)
        left[given[i][nodes], nodes] = False
    return given


def _first(order: Sequence[int], good: Mask) -> Ints:
    """[node] the first in that order that is good there, -1 if none is; `good` is [position, node]."""
    best = np.full(good.shape[1], -1, dtype=np.int64)
    if order:
        found = np.flatnonzero(good.any(axis=0))
        best[found] = np.array(order, dtype=np.int64)[np.argmax(good, axis=0)[found]]
    return best


def _satisfies(claim: Claim, volume: PersistentVolume) -> bool:
    """Whether a free volume will do for the claim."""
    return (
        volume.available
        and matches(claim.selector, volume.labels)
        and all(mode in volume.access for mode in claim.access)
    )


def _like(claim: Claim, volume: PersistentVolume) -> bool:
    """Whether the volume may be the claim's, wherever it is."""
    if volume.claim is not None:
        namespace, name, uid = volume.claim
        if (namespace, name) != (claim.namespace, claim.name) or uid not in ("", claim.uid):
            return False
    return (
        volume.storage_class == claim.storage_class
        and volume.size >= (claim.size or 0)
        and volume.mode == claim.mode
        and volume.attributes == claim.attributes
        and not volume.deleting
    )


def _provision(cluster: Cluster, claims: Sequence[Claim]) -> tuple[Mask, Mask]:
    """Nodes where one of the claims can get no new volume, and those without the space for it."""
    no_volume, no_space = cluster.nothing(), cluster.nothing()
    for claim in claims:
        kind = cluster.storage.classes[claim.storage_class]
        if kind.provisioner in ("", NO_PROVISIONER):
            no_volume |= ~no_space
            continue
        if kind.topologies:
            no_volume |= ~cluster.classes.columns.any(kind.topologies) & ~no_space
        no_space |= ~_spacious(cluster, claim, kind) & ~no_volume
    return no_volume, no_space


def _spacious(cluster: Cluster, claim: Claim, kind: StorageClass) -> Mask:
    """Nodes where the driver says that there is space; all of them for a driver that says nothing."""
    if claim.size is None or kind.provisioner not in cluster.storage.tracked:
        return cluster.everywhere()
    mask, size = cluster.nothing(), -(-claim.size // 1000)
    for each in cluster.storage.capacities:
        enough = each.largest is not None and each.largest >= size
        if each.storage_class == kind.name and enough and each.topology is not None:
            mask |= cluster.classes.columns.all(each.topology)
    return mask


# -- what becomes of them --------------------------------------------------------------------------------


class Decision(NamedTuple):
    """A claim that waits, and the volume it gets; None where its provisioner is to make one."""

    claim: Claim
    volume: PersistentVolume | None


def decide(
    cluster: Cluster, pod: Pod, row: int, settled: Container[tuple[str, str]] = ()
) -> list[Decision] | str:
    """How the pod's claims are bound if it goes to this node, or why it may not go there.

    Claims that are `settled` (namespace, name) are not looked at.
    """
    found = _all_of(cluster, pod, settled)
    if isinstance(found, Rejection):
        return found.reason
    wrong = next((each.reason for each in _bound(cluster, found.bound)[0] if each.mask[row]), "")
    chosen = [claim for claim in found.waiting if claim.selected_node is not None]
    if wrong or any(cluster.row(claim.selected_node or "") != row for claim in chosen):
        return wrong or NO_VOLUME
    searching = _by_size(found.waiting)
    volumes = _candidates(cluster, searching)
    reach = np.array([[bool(_reaches(cluster, each)[row])] for each in volumes], dtype=bool).reshape(-1, 1)
    given = _give(searching, volumes, reach)[:, 0].tolist()
    new = [*chosen, *(claim for claim, v in zip(searching, given, strict=True) if v < 0)]
    no_volume, no_space = _provision(cluster, new)
    if no_volume[row] or no_space[row]:
        return NO_VOLUME if no_volume[row] else NO_SPACE
    matched = [Decision(claim, volumes[v]) for claim, v in zip(searching, given, strict=True) if v >= 0]
    return [*matched, *(Decision(claim, None) for claim in new)]
