"""kube-scheduler's default scores (1.36) of the nodes that the filters left, times their weights.

Called by `core.filters.rank`. A plugin's scores depend on which nodes are feasible, for most are scaled to
the best of them. Pure, all nodes at once; `core.filters.near` scores by other pods.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from fairlead.core.columns import Mask
from fairlead.core.filters.cluster import Cluster
from fairlead.core.inventory import Ints
from fairlead.core.labels import ImageTable, tolerates
from fairlead.model.node import Taint
from fairlead.model.pod import Pod
from fairlead.model.preferences import Preferences

BEST = 100
_MB = 1 << 20
_SMALL, _LARGE = 23 * _MB, 1000 * _MB
"""Image sizes below the first count nothing, more than the second per container no more."""


class Wishes(Struct, frozen=True):
    """What is known of the cluster for scoring only."""

    images: ImageTable
    """Where which images are."""
    services: tuple[tuple[str, Mapping[str, str]], ...] = ()
    """(Namespace, selector)."""


class Question(NamedTuple):
    """One pod to be scored."""

    cluster: Cluster
    wishes: Wishes
    pod: Pod
    rows: NDArray[np.intp]
    """The feasible nodes."""

    @property
    def own(self) -> Preferences:
        """The pod's wishes."""
        return self.pod.wishes


Score = Ints | None
"""[feasible node] 0..100; None where the plugin has nothing to say."""


def scaled(counts: Ints, reverse: bool = False) -> Ints:
    """Counts as shares of the largest, in hundredths; reversed, the largest gets nothing."""
    most = int(counts.max(initial=0))
    shares = BEST * counts // most if most else np.zeros_like(counts)
    return BEST - shares if reverse else shares


def taint_toleration(q: Question) -> Score:
    """Fewer taints with PreferNoSchedule that the pod does not tolerate are better."""
    tolerations = [each for each in q.pod.shape.tolerations if each.effect in ("", "PreferNoSchedule")]
    known: dict[tuple[Taint, ...], int] = {}
    counts: list[int] = []
    for row in map(int, q.rows):
        node = q.cluster.classes.nodes[row]
        taints: tuple[Taint, ...] = node.taints if node else ()
        if taints not in known:
            wishes = [taint for taint in taints if taint.effect == "PreferNoSchedule"]
            known[taints] = sum(not tolerates(tolerations, taint) for taint in wishes)
        counts.append(known[taints])
    return scaled(np.array(counts, dtype=np.int64), reverse=True)


def node_affinity(q: Question) -> Score:
    """The sum of the weights of preferred terms that the node satisfies."""
    if q.own.nodes is None:
        return None
    total = np.zeros(len(q.cluster), dtype=np.int64)
    for weight, term in q.own.nodes:
        total += weight * q.cluster.classes.columns.any([term])
    return scaled(total[q.rows])


def least_allocated(q: Question) -> Score:
    """The share of CPU and memory that stays free, on average."""
    counts = np.zeros((2, len(q.cluster)), dtype=np.int64)
    for row, pod in q.cluster.pods.everyone():
        counts[:, row] += pod.wishes.counts
    score, weights = np.zeros(len(q.rows), dtype=np.int64), np.zeros(len(q.rows), dtype=np.int64)
    for used, ask, name in zip(counts, q.own.asks, ("cpu", "memory"), strict=True):
        capacity = _capacity(q, name)
        asked = used[q.rows] + ask
        free = np.where(asked > capacity, 0, (capacity - asked) * BEST // np.maximum(capacity, 1))
        score += np.where(capacity > 0, free, 0)
        weights += capacity > 0
    return score // np.maximum(weights, 1)


def balanced_allocation(q: Question) -> Score:
    """How much more even the pod makes the shares of CPU and memory in use."""
    asks = dict(q.pod.shape.requests)
    if not asks.get("cpu") and not asks.get("memory"):
        return None
    without = _balance(q, {"cpu": 0, "memory": 0})
    return BEST // 2 + (BEST // 2 + _balance(q, asks) - without) // 2


def _balance(q: Question, asks: Mapping[str, int]) -> Ints:
    shares: list[NDArray[np.float64]] = []
    known: list[Mask] = []
    for name in ("cpu", "memory"):
        capacity = _capacity(q, name)
        used = capacity - _column(q, q.cluster.inventory.free, name) + asks.get(name, 0)
        shares.append(np.minimum(used / np.maximum(capacity, 1), 1.0))
        known.append(capacity > 0)
    deviation = np.where(known[0] & known[1], np.abs((shares[0] - shares[1]) / 2), 0.0)
    return ((1 - deviation) * BEST).astype(np.int64)


def _capacity(q: Question, name: str) -> Ints:
    return _column(q, q.cluster.inventory.capacity, name)


def _column(q: Question, amounts: Ints, name: str) -> Ints:
    """[feasible node] the amounts of one resource."""
    ((resource, _),) = q.cluster.inventory.vector(((name, 1),)).pairs
    return amounts[resource, q.rows]


def image_locality(q: Question) -> Score:
    """Large images that the node has, less so where only few nodes have them."""
    total, present = np.zeros(len(q.cluster), dtype=np.int64), int(q.cluster.classes.present.sum())
    for image in q.own.images:
        size, rows = q.wishes.images.get(image, (0, ()))
        total[list(rows)] += int(size * (len(rows) / present))
    most = _LARGE * len(q.own.images)
    if most <= _SMALL:
        return np.zeros(len(q.rows), dtype=np.int64)
    return BEST * (np.clip(total[q.rows], _SMALL, most) - _SMALL) // (most - _SMALL)
