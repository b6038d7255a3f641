"""Filters that look at nothing but the node's metadata: masks, cached as long as that stays.

NodeName, NodeUnschedulable, NodeAffinity, TaintToleration and NodeDeclaredFeatures. Called by
`core.filters.run`.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.labels import UNSCHEDULABLE, tolerates
from fairlead.model.pod import Pod
from fairlead.model.selector import Expression, Operator


def node_name(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """spec.nodeName, where somebody has set it before scheduling."""
    if not pod.node:
        return []
    mask = cluster.everywhere()
    row = cluster.row(pod.node)
    if row is not None:
        mask[row] = False
    return [Rejection(mask, Code.UNRESOLVABLE, "node(s) didn't match the requested node name")]


def node_unschedulable(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Cordoned nodes; tolerating the taint of that name tolerates the cordon itself."""
    if tolerates(pod.shape.tolerations, UNSCHEDULABLE):
        return []
    return [Rejection(cluster.classes.cordoned, Code.UNRESOLVABLE, "node(s) were unschedulable")]


def node_affinity(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """nodeSelector and required node affinity."""
    shape = pod.shape
    if not shape.selector and not shape.affinity:
        return []
    if shape.affinity and all(_contradicts_itself(term) for term in shape.affinity):
        return [Rejection(cluster.everywhere(), Code.UNRESOLVABLE, "pod affinity terms conflict")]
    mask = ~cluster.classes.selected(shape.selector, shape.affinity)
    return [Rejection(mask, Code.UNRESOLVABLE, "node(s) didn't match Pod's node affinity/selector")]


def _contradicts_itself(term: Sequence[Expression]) -> bool:
    """Whether the term names nodes, but no node satisfies all the names."""
    names = [set(e.values) for e in term if e.field and e.operator == Operator.IN]
    return bool(names) and not set.intersection(*names)


def taint_toleration(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Taints with NoSchedule or NoExecute."""
    mask = cluster.classes.tainted(pod.shape.tolerations)
    return [Rejection(mask, Code.UNRESOLVABLE, "node(s) had untolerated taint(s)")]


def node_declared_features(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Features that the pod needs and the node's kubelet does not declare."""
    needed = pod.shape.rules.features
    if not needed:
        return []
    nodes = cluster.classes.nodes
    lacks = [node is None or not all(name in node.features for name in needed) for node in nodes]
    mask = np.array(lacks, dtype=bool)
    return [Rejection(mask, Code.UNRESOLVABLE, "node(s) didn't match Pod's required features")]
