"""Static constraints as masks over nodes: selector, affinity, taints, readiness; and where which images are.

`core.inventory` owns one `NodeClasses` per state of the node metadata and hands it to snapshots;
`core.match` asks it for masks. One mask per distinct constraint, computed over interned label columns
and cached until any node's metadata changes. Semantics: k8s.io/component-helpers nodeaffinity and
tolerations (core/v1), as kube-scheduler's NodeAffinity, TaintToleration and NodeUnschedulable use them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairlead.core.columns import LabelColumns, Mask
from fairlead.model.node import Node, Taint
from fairlead.model.pod import Shape, Toleration
from fairlead.model.selector import Expression

if TYPE_CHECKING:
    from fairlead.core.topology import Topology

Constraints = tuple[tuple[Expression, ...], tuple[tuple[Expression, ...], ...], tuple[Toleration, ...]]

TEMPORARY = "node.kubernetes.io/"
"""Taints under this prefix tell of a node's present condition, not of what it is meant for."""
_NOT_READY = Taint("node.kubernetes.io/not-ready")
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")
"""A cordon counts as this taint."""


ImageTable = Mapping[str, tuple[int, Sequence[int]]]
"""Image name -> its bytes, and the rows of the nodes that have it."""


def image_table(nodes: Iterable[tuple[int, Sequence[tuple[str, int]]]]) -> ImageTable:
    """From (row, (name, bytes) of its images) of each node; of sizes that differ the first one counts."""
    found: dict[str, tuple[int, dict[int, None]]] = {}
    for row, images in nodes:
        for name, size in images:
            found.setdefault(name, (size, {}))[1][row] = None
    return {name: (size, tuple(rows)) for name, (size, rows) in found.items()}


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True if any toleration matches the taint (core/v1 Toleration.ToleratesTaint)."""
    return any(
        (not t.effect or t.effect == taint.effect)
        and (t.key == taint.key if t.key else t.operator == "Exists")
        and (t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value))
        for t in tolerations
    )


def constraints(shape: Shape) -> Constraints:
    """The part of a shape that decides its masks."""
    return shape.selector, shape.affinity, shape.tolerations


class NodeClasses:
    """Masks over one frozen state of all nodes' metadata. Row i is `nodes[i]`; None is a free row.

    Never changed after it is made, but for its caches, so snapshots may share it.
    """

    def __init__(self, nodes: Sequence[Node | None], gone: Sequence[bool]) -> None:
        self.nodes = list(nodes)
        self.names = tuple(node.name if node else "" for node in nodes)
        self.present = np.array(
            [n is not None and not g for n, g in zip(nodes, gone, strict=True)], dtype=bool
        )
        self._known = np.array([n is not None for n in nodes], dtype=bool)
        self.columns = LabelColumns(self.names, [node.labels if node else {} for node in nodes])
        self.cordoned = np.array([node is not None and node.unschedulable for node in nodes], dtype=bool)
        self._taints = [node.taints if node else () for node in nodes]
        self.disliked = any(t.effect == "PreferNoSchedule" for taints in self._taints for t in taints)
        """Whether any node has a taint that makes it less liked."""
        self._tainted: dict[tuple[Toleration, ...], Mask] = {}
        self._now: dict[Constraints, Mask] = {}
        self._nominal: dict[Constraints, Mask] = {}
        self.topologies: dict[tuple[str, ...], Topology] = {}
        """Label keys of the levels -> domains; filled by `core.topology.of`."""

    def now(self, c: Constraints) -> Mask:
        """Nodes that may be used at present: present, ready, not cordoned, labels and taints right."""
        mask = self._now.get(c)
        if mask is None:
            mask = self._now[c] = (
                self.selected(c[0], c[1]) & self.present & self._tolerated(c[2], nominal=False)
            )
        return mask

    def nominal(self, c: Constraints) -> Mask:
        """Nodes that could be used if all were up: also those gone, cordoned or not ready."""
        mask = self._nominal.get(c)
        if mask is None:
            mask = self._nominal[c] = (
                self.selected(c[0], c[1]) & self._known & self._tolerated(c[2], nominal=True)
            )
        return mask

    def selected(self, selector: Sequence[Expression], affinity: Sequence[Sequence[Expression]] = ()) -> Mask:
        """Nodes whose labels and name satisfy a node selector and a required node affinity (() if none)."""
        mask = self.columns.all(selector)
        return mask & self.columns.any(affinity) if affinity else mask

    def tainted(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """Nodes with a taint that keeps the pod away; readiness and cordons count only as taints."""
        mask = self._tainted.get(tolerations)
        if mask is None:
            verdicts: dict[tuple[Taint, ...], bool] = {}
            for taints in self._taints:
                if taints not in verdicts:
                    verdicts[taints] = not _tolerates_all(tolerations, taints)
            mask = np.array([verdicts[taints] for taints in self._taints], dtype=bool)
            self._tainted[tolerations] = mask
        return mask

    def _tolerated(self, tolerations: Sequence[Toleration], *, nominal: bool) -> Mask:
        verdicts: dict[tuple[tuple[Taint, ...], bool, bool, bool], bool] = {}
        mask = np.zeros(len(self.nodes), dtype=bool)
        for i, node in enumerate(self.nodes):
            if node is None:
                continue
            key = (node.taints, node.ready, node.unschedulable, node.deleting)
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = verdicts[key] = _accepts(node, tolerations, nominal)
            mask[i] = verdict
        return mask


def _tolerates_all(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> bool:
    return all(t.effect == "PreferNoSchedule" or tolerates(tolerations, t) for t in taints)


def _accepts(node: Node, tolerations: Sequence[Toleration], nominal: bool) -> bool:
    taints = [t for t in node.taints if not (nominal and t.key.startswith(TEMPORARY))]
    if not nominal:
        if node.deleting:
            return False
        if not node.ready:
            taints.append(_NOT_READY)
        if node.unschedulable:
            taints.append(UNSCHEDULABLE)
    return _tolerates_all(tolerations, taints)
