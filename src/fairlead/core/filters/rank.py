"""All default scores of one pod: per plugin and in total, with kube-scheduler's weights.

Called by whoever ranks feasible nodes as kube-scheduler would.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from fairlead.core.columns import Mask
from fairlead.core.filters import near, scores
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.scores import Question, Score, Wishes
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod

PLUGINS: Mapping[str, tuple[Callable[[Question], Score], int]] = MappingProxyType(
    {
        "TaintToleration": (scores.taint_toleration, 3),
        "NodeAffinity": (scores.node_affinity, 2),
        "PodTopologySpread": (near.pod_topology_spread, 2),
        "InterPodAffinity": (near.inter_pod_affinity, 2),
        "NodeResourcesFit": (scores.least_allocated, 1),
        "NodeResourcesBalancedAllocation": (scores.balanced_allocation, 1),
        "ImageLocality": (scores.image_locality, 1),
    }
)
"""Plugin -> its function, its weight."""


class ScoreError(Exception):
    """Scoring fails as a whole; the text is kube-scheduler's."""


def rank(cluster: Cluster, wishes: Wishes, pod: Pod, feasible: Mask) -> dict[str, Ints]:
    """Plugin -> [feasible node] its score times its weight; `total` is their sum. Raises ScoreError.

    A plugin that has nothing to say of this pod is left out.
    """
    question = Question(cluster, wishes, pod, np.flatnonzero(feasible))
    if question.own.error:
        raise ScoreError(question.own.error)
    found: dict[str, Ints] = {}
    for name, (plugin, weight) in PLUGINS.items():
        share = plugin(question)
        if share is not None:
            found[name] = share * weight
    total = np.zeros(len(question.rows), dtype=np.int64)
    for score in found.values():
        total += score
    return found | {"total": total}
