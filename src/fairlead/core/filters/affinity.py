"""InterPodAffinity: what the pod asks of pods near it, what it forbids there, and what those there forbid.

Called by `core.filters.run`. Pods are found by selector in the index, counted per node and then per domain;
the only loops are over terms.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.core.columns import Mask, matches
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.model.pod import Pod
from fairlead.model.rules import PodTerm


def inter_pod_affinity(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """The first of three checks that fails on a node gives the reason there."""
    wrong = _unwanted(cluster, pod)
    own = _forbidden_by_it(cluster, pod) & ~wrong
    others = _forbidden_to_it(cluster, pod) & ~wrong & ~own
    rules = "node(s) didn't match pod affinity rules"
    anti = "node(s) didn't match pod anti-affinity rules"
    existing = "node(s) didn't satisfy existing pods anti-affinity rules"
    return [
        Rejection(wrong, Code.UNRESOLVABLE, rules),
        Rejection(own, Code.UNSCHEDULABLE, anti),
        Rejection(others, Code.UNSCHEDULABLE, existing),
    ]


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
    """Whether a term of a pod in namespace `own` matches `pod`, whose namespace has these labels."""
    names = term.namespaces or ((own,) if term.namespace_selector is None else ())
    near = pod.namespace in names or matches(term.namespace_selector, labels)
    return near and matches(term.selector, pod.labels)


def _near(cluster: Cluster, term: PodTerm, pods: Mask) -> Mask:
    """Nodes in whose domain one of these pods ([slot]) sits."""
    codes, size = cluster.domains(term.topology)
    if not size:
        return cluster.nothing()
    per_domain = cluster.per_domain(term.topology, cluster.pods.per_node(pods))
    return (codes >= 0) & (per_domain[codes] > 0)


def _selected(cluster: Cluster, term: PodTerm, own: str) -> Mask:
    names = namespaces_of(term, own, cluster.namespaces)
    return cluster.pods.matching(term.selector, names)


def _unwanted(cluster: Cluster, pod: Pod) -> Mask:
    """Nodes that do not satisfy the pod's affinity: one pod must match all terms, in the domain of each."""
    terms = pod.shape.rules.affinity
    if not terms:
        return cluster.nothing()
    all_of_them = np.logical_and.reduce([_selected(cluster, term, pod.namespace) for term in terms])
    labelled, near, anywhere = cluster.everywhere(), cluster.everywhere(), False
    for term in terms:
        here = _near(cluster, term, all_of_them)
        labelled &= cluster.domains(term.topology)[0] >= 0
        near &= here
        anywhere = anywhere or bool(here.any())
    if not anywhere and _matches_itself(cluster, pod):  # the first of a series that wants to be together
        return ~labelled
    return ~near


def _matches_itself(cluster: Cluster, pod: Pod) -> bool:
    for term in pod.shape.rules.affinity:
        names = namespaces_of(term, pod.namespace, cluster.namespaces)
        if names is not None and pod.namespace not in names:
            return False
        if not matches(term.selector, pod.labels):
            return False
    return True


def _forbidden_by_it(cluster: Cluster, pod: Pod) -> Mask:
    """Nodes near a pod that matches one of the pod's anti-affinity terms."""
    mask = cluster.nothing()
    for term in pod.shape.rules.anti_affinity:
        mask |= _near(cluster, term, _selected(cluster, term, pod.namespace))
    return mask


def _forbidden_to_it(cluster: Cluster, pod: Pod) -> Mask:
    """Nodes near a pod one of whose anti-affinity terms matches the pod."""
    labels = cluster.namespaces.get(pod.namespace, {})
    rows: dict[str, list[int]] = {}
    for (own, term), slots in cluster.pods.forbidding.items():
        if speaks_of(term, own, pod, labels):
            rows.setdefault(term.topology, []).extend(cluster.pods.rows_of(slots))
    mask = cluster.nothing()
    for key, found in rows.items():
        codes, _ = cluster.domains(key)
        hit = codes[found]
        mask |= np.isin(codes, hit[hit >= 0])
    return mask
