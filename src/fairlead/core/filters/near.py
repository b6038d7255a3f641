"""Scores by the pods near a node: PodTopologySpread and InterPodAffinity.

Called by `core.filters.rank`. Counts are made as the filters make them, one `bincount` per term or
constraint.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairlead.core.columns import Mask
from fairlead.core.filters.affinity import namespaces_of, speaks_of
from fairlead.core.filters.scores import BEST, Question, Score
from fairlead.core.filters.spread import honoured
from fairlead.core.inventory import Ints
from fairlead.model.rules import Spread
from fairlead.model.selector import Expression, Operator, Selector

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFAULT_SKEWS = ((HOSTNAME, 3), (ZONE, 5))
"""Constraints of pods that have none of their own, if a service selects them."""
Weights = dict[str, Ints]
"""Topology key -> [domain] weight."""


# -- spread ------------------------------------------------------------------------------------------


def pod_topology_spread(q: Question) -> Score:
    """The fewer matching pods in the node's domains the better; small domains do not drown in large ones."""
    strict = q.own.spread is not None
    constraints = q.own.spread if q.own.spread is not None else _defaults(q)
    if not constraints:
        return None
    labelled = q.cluster.everywhere()
    if strict:
        labelled = np.logical_and.reduce([q.cluster.domains(c.topology)[0] >= 0 for c in constraints])
    score = np.zeros(len(q.cluster), dtype=np.float64)
    for each in constraints:
        score += _crowd(q, each, labelled)
    rounded = np.floor(score + 0.5).astype(np.int64)[q.rows]
    scored = labelled[q.rows]
    most = int(rounded[scored].max(initial=0))
    if not most:
        return np.where(scored, BEST, 0)
    least = int(rounded[scored].min())
    return np.where(scored, BEST * (most + least - rounded) // most, 0)


def _defaults(q: Question) -> tuple[Spread, ...]:
    selector = _service_selector(q)
    return tuple(Spread(key, selector, skew) for key, skew in DEFAULT_SKEWS) if selector else ()


def _service_selector(q: Question) -> Selector:
    """All labels that a service of the pod's namespace selects it by."""
    merged: dict[str, str] = {}
    for namespace, selector in q.wishes.services:
        if namespace == q.pod.namespace and all(q.pod.labels.get(k) == v for k, v in selector.items()):
            merged.update(selector)
    return tuple(Expression(key, Operator.IN, (value,)) for key, value in sorted(merged.items()))


def _crowd(q: Question, each: Spread, labelled: Mask) -> NDArray[np.float64]:
    """[node] what the constraint counts against it; nothing where it lacks the label."""
    cluster = q.cluster
    codes, words = cluster.classes.columns.column(each.topology)
    per_node = np.zeros(len(cluster), dtype=np.int64)
    if each.selector:
        pods = cluster.pods.matching(each.selector, (q.pod.namespace,), living=True)
        per_node = cluster.pods.per_node(pods)
    scored = q.rows[labelled[q.rows]]
    if each.topology == HOSTNAME:
        counts, size = per_node, len(scored)
    else:
        # Without the label is a domain, too: the one of the empty value.
        none = words.index("") if "" in words else len(words)
        domains = np.where(codes < 0, none, codes)
        counted = per_node * (labelled & honoured(cluster, q.pod, each))
        counts = np.bincount(domains, weights=counted, minlength=none + 1).astype(np.int64)[domains]
        size = len(np.unique(domains[scored]))
    return np.where(codes >= 0, counts * math.log(size + 2) + (each.skew - 1), 0.0)


# -- affinity ----------------------------------------------------------------------------------------


def inter_pod_affinity(q: Question) -> Score:
    """Weights of preferred terms, its own and those of others about it, summed over the node's domains."""
    weights: Weights = {}
    touched = False
    for key, per_node in (*_own(q), *_others(q)):
        codes, size = q.cluster.domains(key)
        here = (codes >= 0) & (per_node[0] > 0) & q.cluster.classes.present
        if here.any():
            touched = True
            total = weights.setdefault(key, np.zeros(size, dtype=np.int64))
            total += np.bincount(codes[here], weights=per_node[1][here], minlength=size).astype(np.int64)
    if not touched:
        return None
    score = np.zeros(len(q.cluster), dtype=np.int64)
    for key, total in weights.items():
        codes, _ = q.cluster.domains(key)
        score += np.where(codes >= 0, total[codes], 0)
    found = score[q.rows]
    least, most = int(found.min(initial=1 << 62)), int(found.max(initial=-(1 << 62)))
    if most <= least:
        return np.zeros_like(found)
    return (BEST * ((found - least) / (most - least))).astype(np.int64)


def _own(q: Question) -> Iterator[tuple[str, tuple[Ints, Ints]]]:
    """(Topology key, pods per node, weight per node) of each term of the pod itself."""
    for sign, terms in ((1, q.own.affinity), (-1, q.own.anti_affinity)):
        for weight, term in terms:
            names = namespaces_of(term, q.pod.namespace, q.cluster.namespaces)
            counts = q.cluster.pods.per_node(q.cluster.pods.matching(term.selector, names))
            yield term.topology, (counts, counts * (sign * weight))


def _others(q: Question) -> Iterator[tuple[str, tuple[Ints, Ints]]]:
    """The same for terms of pods on nodes; required affinity counts as a wish of weight 1."""
    labels = q.cluster.namespaces.get(q.pod.namespace, {})
    for (namespace, weight, term, _), slots in q.cluster.pods.wanting.items():
        if speaks_of(term, namespace, q.pod, labels):
            rows = np.array(q.cluster.pods.rows_of(slots), dtype=np.intp)
            counts = np.bincount(rows, minlength=len(q.cluster)).astype(np.int64)
            yield term.topology, (counts, counts * weight)
