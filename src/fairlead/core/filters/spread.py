"""PodTopologySpread: how evenly the pods of a selector lie over the domains of a topology key.

Called by `core.filters.run`. A domain's count is one `bincount`; the only loop is over constraints. The
cluster's default constraints never reject (they are ScheduleAnyway), so only the pod's own ones are looked
at.
"""

import numpy as np

from fairlead.core.columns import Mask, matches
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import Spread

MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"


def pod_topology_spread(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """The first constraint that a node violates gives the reason there."""
    spread = pod.shape.rules.spread
    if not spread:
        return []
    unlabelled = [cluster.domains(each.topology)[0] < 0 for each in spread]
    labelled = ~np.logical_or.reduce(unlabelled)
    missing, skewed = cluster.nothing(), cluster.nothing()
    for each, without in zip(spread, unlabelled, strict=True):
        missing |= without & ~skewed
        skewed |= _too_full(cluster, pod, each, labelled) & ~missing
    return [Rejection(missing, Code.UNRESOLVABLE, MISSING), Rejection(skewed, Code.UNSCHEDULABLE, SKEWED)]


def _too_full(cluster: Cluster, pod: Pod, each: Spread, labelled: Mask) -> Mask:
    """Nodes with the label whose domain would hold too many more than the emptiest one."""
    codes, _ = cluster.domains(each.topology)
    counted = labelled & honoured(cluster, pod, each)
    counts, present = _counts(cluster, pod, each, counted)
    least = int(counts[present].min()) if int(present.sum()) >= max(each.domains, 1) else 0
    own = 1 if matches(each.selector, pod.labels) else 0
    full = counts + (own - least) > each.skew
    return (codes >= 0) & full[codes] if len(full) else cluster.nothing()


def honoured(cluster: Cluster, pod: Pod, each: Spread) -> Mask:
    """Nodes that count at all, by the constraint's node policies."""
    mask = cluster.everywhere()
    if each.honor_affinity:
        mask &= cluster.classes.selected(pod.shape.selector, pod.shape.affinity)
    if each.honor_taints:
        mask &= ~cluster.classes.tainted(pod.shape.tolerations)
    return mask


def _counts(cluster: Cluster, pod: Pod, each: Spread, counted: Mask) -> tuple[Ints, Mask]:
    """[domain] matching pods on nodes that count, and whether the domain has such a node."""
    codes, size = cluster.domains(each.topology)
    present = np.bincount(codes[counted], minlength=size) > 0
    if not each.selector:  # an empty selector counts nobody, though it matches the pod itself
        return np.zeros(size, dtype=np.int64), present
    pods = cluster.pods.matching(each.selector, (pod.namespace,), living=True)
    return cluster.per_domain(each.topology, cluster.pods.per_node(pods) * counted), present
