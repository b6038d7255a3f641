"""PodTopologySpread: how evenly the pods of a selector lie over the domains of a topology key.

Called by `core.filters.run`. A domain's count is one `bincount`; the only loop is
over constraints. The cluster's default constraints never reject (they are ScheduleAnyway), so only the pod's
own ones are looked at. The counts can follow pods that are placed one by one.
"""

from typing import NamedTuple

import numpy as np

from fairlead.core.columns import Codes, Mask, matches
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import Spread

MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SKEWED = "node(s) didn't match pod topology spread constraints"


class Crowd(NamedTuple):
    """One constraint and how many pods count in each domain."""

    rule: Spread
    codes: Codes
    """[node] its domain, -1 for none."""
    counted: Mask
    """[node] whether it counts at all."""
    counts: Ints
    """[domain]"""
    present: Mask
    """[domain] whether it has a node that counts."""
    own: int
    """1 if the pod itself matches."""

    def too_full(self) -> Mask:
        """Nodes with the label whose domain would hold too many more than the emptiest one."""
        if not len(self.counts):
            return np.zeros(len(self.codes), dtype=bool)
        enough = int(self.present.sum()) >= max(self.rule.domains, 1)
        least = int(self.counts[self.present].min()) if enough else 0
        return (self.codes >= 0) & (self.counts + (self.own - least) > self.rule.skew)[self.codes]


def pod_topology_spread(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """The first constraint that a node violates gives the reason there."""
    return SpreadCounts(cluster, pod).rejections()


class SpreadCounts:
    """The counters behind a pod's constraints."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._cluster, self._pod = cluster, pod
        spread = pod.shape.rules.spread
        labelled = cluster.everywhere()
        for each in spread:
            labelled &= cluster.domains(each.topology)[0] >= 0
        self._crowds = [self._crowd(each, labelled) for each in spread]

    def place(self, other: Pod, row: int, times: int = 1) -> None:
        """Count a pod that is now on the node, too; with -1 it is gone again."""
        if other.namespace != self._pod.namespace or other.deleting:
            return
        for crowd in self._crowds:
            if crowd.counted[row] and crowd.rule.selector and matches(crowd.rule.selector, other.labels):
                crowd.counts[crowd.codes[row]] += times

    def rejections(self) -> list[Rejection]:
        """What the counts say now."""
        missing, skewed = self._cluster.nothing(), self._cluster.nothing()
        for crowd in self._crowds:
            missing |= (crowd.codes < 0) & ~skewed
            skewed |= crowd.too_full() & ~missing
        return [
            Rejection(missing, Code.UNRESOLVABLE, MISSING),
            Rejection(skewed, Code.UNSCHEDULABLE, SKEWED),
        ]

    def _crowd(self, each: Spread, labelled: Mask) -> Crowd:
        cluster = self._cluster
        codes, size = cluster.domains(each.topology)
        counted = labelled & honoured(cluster, self._pod, each)
        counts = np.zeros(size, dtype=np.int64)
        if each.selector:  # an empty selector counts nobody, though it matches the pod itself
            pods = cluster.pods.matching(each.selector, (self._pod.namespace,), living=True)
            counts = cluster.per_domain(each.topology, cluster.pods.per_node(pods) * counted)
        present = np.bincount(codes[counted], minlength=size) > 0
        own = 1 if matches(each.selector, self._pod.labels) else 0
        return Crowd(each, codes, counted, counts, present, own)


def honoured(cluster: Cluster, pod: Pod, each: Spread) -> Mask:
    """Nodes that count at all, by the constraint's node policies."""
    mask = cluster.classes.present.copy()
    if each.honor_affinity:
        mask &= cluster.classes.selected(pod.shape.selector, pod.shape.affinity)
    if each.honor_taints:
        mask &= ~cluster.classes.tainted(pod.shape.tolerations)
    return mask
