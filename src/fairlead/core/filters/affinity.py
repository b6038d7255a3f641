"""InterPodAffinity: what the pod asks of pods near it, what it forbids there, and what those there forbid.

Called by `core.filters.run`. Pods are found by selector in the index, counted per
node and then per domain; the only loops are over terms. The counts can follow pods that are placed one by
one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairlead.core.columns import Codes, Mask, matches
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import PodTerm

RULES = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


class Counter(NamedTuple):
    """How many pods that matter sit in each domain of a topology key."""

    codes: Codes
    """[node] its domain, -1 for none."""
    counts: Ints
    """[domain], with one more that stays 0: where -1 points to."""

    def near(self) -> Mask:
        """Nodes in whose domain such a pod sits."""
        return (self.counts > 0)[self.codes]

    def add_all(self, rows: Sequence[int]) -> None:
        """One more for each of these nodes."""
        domains = self.codes[rows]
        np.add.at(self.counts, domains[domains >= 0], 1)

    def add(self, row: int, times: int) -> None:
        """So many more such pods on this node."""
        if self.codes[row] >= 0:
            self.counts[self.codes[row]] += times


def inter_pod_affinity(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """The first of three checks that fails on a node gives the reason there."""
    return AffinityCounts(cluster, pod).rejections()


class AffinityCounts:
    """Everything near the pod's nodes that decides its affinity, as counters per domain."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        rules, pods = pod.shape.rules, cluster.pods
        self._cluster, self._pod = cluster, pod
        self._labels = cluster.namespaces.get(pod.namespace, {})
        wanted = [pods.matching(t.selector, self._names(t)) for t in rules.affinity]
        all_of_them = np.logical_and.reduce(wanted) if wanted else None
        self._wanted = [self._counter(t, all_of_them) for t in rules.affinity]
        self._wants_itself = self._means_all(pod)
        self._unwanted = [
            self._counter(t, pods.matching(t.selector, self._names(t))) for t in rules.anti_affinity
        ]
        self._forbidding: dict[str, Counter] = {}
        for own, term in pods.terms.about(pod.labels):
            if speaks_of(term, own, pod, self._labels):
                slots = pods.forbidding[own, term]
                rows = [row for row in pods.rows_of(slots) if cluster.classes.present[row]]
                self._forbidden(term.topology).add_all(rows)

    def place(self, other: Pod, row: int, times: int = 1) -> None:
        """Count a pod that is now on the node, too; with -1 it is gone again."""
        rules = self._pod.shape.rules
        if self._means_all(other):
            for counter in self._wanted:
                counter.add(row, times)
        for term, counter in zip(rules.anti_affinity, self._unwanted, strict=True):
            if self._means(term, other):
                counter.add(row, times)
        for term in other.shape.rules.anti_affinity:
            if speaks_of(term, other.namespace, self._pod, self._labels):
                self._forbidden(term.topology).add(row, times)

    def rejections(self) -> list[Rejection]:
        """What the counts say now."""
        wrong, own, others = (self._cluster.nothing() for _ in range(3))
        # The first of a series that wants to be together finds nobody yet.
        first = self._wants_itself and not any(counter.counts.any() for counter in self._wanted)
        for counter in self._wanted:
            wrong |= (counter.codes < 0) if first else ~counter.near()
        for counter in self._unwanted:
            own |= counter.near()
        for counter in self._forbidding.values():
            others |= counter.near()
        return [
            Rejection(wrong, Code.UNRESOLVABLE, RULES),
            Rejection(own & ~wrong, Code.UNSCHEDULABLE, ANTI),
            Rejection(others & ~wrong & ~own, Code.UNSCHEDULABLE, EXISTING),
        ]

    def _counter(self, term: PodTerm, pods: Mask | None) -> Counter:
        codes, size = self._cluster.domains(term.topology)
        counts = np.zeros(size + 1, dtype=np.int64)
        if pods is not None:
            counts[:size] = self._cluster.per_domain(term.topology, self._cluster.pods.per_node(pods))
        return Counter(codes, counts)

    def _forbidden(self, key: str) -> Counter:
        found = self._forbidding.get(key)
        if found is None:
            found = self._forbidding[key] = self._counter(PodTerm(key), None)
        return found

    def _names(self, term: PodTerm) -> Sequence[str] | None:
        return namespaces_of(term, self._pod.namespace, self._cluster.namespaces)

    def _means(self, term: PodTerm, other: Pod) -> bool:
        names = self._names(term)
        return (names is None or other.namespace in names) and matches(term.selector, other.labels)

    def _means_all(self, other: Pod) -> bool:
        terms = self._pod.shape.rules.affinity
        return bool(terms) and all(self._means(term, other) for term in terms)


def namespaces_of(
    term: PodTerm, own: str, namespaces: Mapping[str, Mapping[str, str]]
) -> Sequence[str] | None:
    """The namespaces that a term of a pod to be placed in `own` speaks of; None for all, listed or not.

    A selector that is satisfied without any label (DoesNotExist, NotIn) speaks of all namespaces: 1.36 lists
    those that it selects, but goes on to show it other pods' namespaces as if they had no labels.
    """
    if term.namespace_selector is None:
        return term.namespaces or (own,)
    if matches(term.namespace_selector, {}):
        return None
    chosen = [name for name, labels in namespaces.items() if matches(term.namespace_selector, labels)]
    return [*term.namespaces, *chosen]


def speaks_of(term: PodTerm, own: str, pod: Pod, labels: Mapping[str, str]) -> bool:
    """Whether a term of a pod on a node, in namespace `own`, matches `pod`; `labels` of its namespace."""
    names = term.namespaces or ((own,) if term.namespace_selector is None else ())
    near = pod.namespace in names or matches(term.namespace_selector, labels)
    return near and matches(term.selector, pod.labels)
