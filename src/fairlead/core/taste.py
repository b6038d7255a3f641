"""Which of the nodes that fit members would rather have: kube-scheduler's scores but for those of amounts.

A Taste is taken with a snapshot (`core.picture`) if anybody who waits has wishes, or nodes have taints or
images that make a difference. `core.match` asks it once per kind of member and cycle, and lets it decide
where its policy sees no difference. Other pods are seen as they were when the cycle began. Decides nothing by
itself.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fairlead.core.columns import Mask
from fairlead.core.filters import near, scores
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.scores import Question, Wishes
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.preferences import Preferences

if TYPE_CHECKING:
    from fairlead.core.snapshot import Task

_PLUGINS = MappingProxyType(
    {
        scores.taint_toleration: 3,
        scores.node_affinity: 2,
        scores.image_locality: 1,
        near.pod_topology_spread: 2,
        near.inter_pod_affinity: 2,
    }
)
"""With the weights that kube-scheduler gives them."""
MOST = 1_000
"""The sum of all weights times the best score."""


def of_others(wishes: Preferences) -> bool:
    """Whether they are about other pods."""
    return bool(wishes.affinity or wishes.anti_affinity or wishes.spread)


class Taste:
    """What members like, on one frozen state of nodes and pods."""

    def __init__(self, cluster: Cluster, wishes: Wishes) -> None:
        self._cluster, self._wishes = cluster, wishes

    def _matters(self, own: Preferences) -> bool:
        """Whether anything speaks for some nodes rather than others; most pods' images are nowhere."""
        if own.nodes or of_others(own) or self._cluster.classes.disliked:
            return True
        return any(image in self._wishes.images for image in own.images)

    def of(self, task: "Task", mask: Mask) -> Ints | None:
        """[node] how well it is liked, 0..MOST, among those of the mask; None if all are liked the same."""
        if not self._matters(task.wishes):
            return None
        rows = np.flatnonzero(mask)
        like = task.like
        pod = Pod(
            uid="",
            namespace=like.namespace if like is not None else "",
            name="",
            version=0,
            shape=task.shape,
            labels=like.labels if like is not None else {},
            wishes=task.wishes,
        )
        question = Question(self._cluster, self._wishes, pod, rows)
        total = np.zeros(len(rows), dtype=np.int64)
        for plugin, weight in _PLUGINS.items():
            share = plugin(question)
            if share is not None:
                total += share * weight
        if not len(rows) or int(total.min()) == int(total.max()):
            return None
        result = np.zeros(len(mask), dtype=np.int64)
        result[rows] = total
        return result
