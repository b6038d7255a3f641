"""Pods that mind other pods: where they may go while others are being placed around them.

A Crowd is taken with a snapshot (`core.picture`) if anybody who waits minds other pods or has volumes; a
Company is what `core.match` asks and tells while it places pods: counters per domain that follow each step
and each rewind. Semantics are those of `core.filters`, of which this is the incremental use. Holds no
amounts; knows nothing of queues and time, but for the pods that will be gone at a later instant.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from msgspec import structs

from fairlead.core.columns import Mask
from fairlead.core.filters import binding, limits, static, volumes
from fairlead.core.filters.affinity import speaks_of
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.pods import PodIndex
from fairlead.core.filters.run import Domains
from fairlead.core.filters.terms import Terms
from fairlead.core.filters.verdict import Rejection
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import PodTerm
from fairlead.model.storage import Storage

_ON_VOLUMES = (
    volumes.volume_restrictions,
    limits.node_volume_limits,
    binding.volume_binding,
    volumes.volume_zone,
)
Leaving = tuple[int, Pod]
"""(When it is expected to be gone, a pod on a node)."""


SOMETIME = 1 << 60
"""When pods are gone of which it is known that they end, but not when."""


def demanding(pod: Pod) -> bool:
    """Whether it asks for something that depends on other pods, on volumes or on features of the node."""
    rules = pod.shape.rules
    return bool(rules.affinity or rules.anti_affinity or rules.spread or rules.volumes or rules.features)


class Crowd:
    """The pods on nodes, namespaces and storage, as they are while a plan is made."""

    def __init__(self, cluster: Cluster, waiting: Sequence[Pod], leaving: Sequence[Leaving] = ()) -> None:
        """`waiting` is everybody who waits, each kind once; `leaving` is in order of time."""
        self.cluster, self.leaving = cluster, leaving
        self._terms = Terms()
        """Of those who wait."""
        for pod in waiting:
            for term in pod.shape.rules.anti_affinity:
                self._terms.add((pod.namespace, term))
        self._concerned: dict[int, tuple[Pod, bool]] = {}

    def concerns(self, like: Pod | None) -> bool:
        """Whether other pods or volumes may forbid such a pod a node."""
        if like is None:
            return False
        known = self._concerned.get(id(like))
        if known is None:
            labels = self.cluster.namespaces.get(like.namespace, {})
            terms = chain(self.cluster.pods.terms.about(like.labels), self._terms.about(like.labels))
            found = demanding(like) or any(speaks_of(term, own, like, labels) for own, term in terms)
            known = self._concerned[id(like)] = (like, found)
        return known[1]

    def rekey(self) -> None:
        """What is kept under identities is found under those of this process (`core.rekey`)."""
        self._concerned = {id(like): (like, found) for like, found in self._concerned.values()}


class Company:
    """What is being placed, and what that leaves for others; `at` is the instant it is about (0: now)."""

    def __init__(self, crowd: Crowd, at: int = 0) -> None:
        self.crowd = crowd
        self._at = at
        self._log: list[tuple[Pod, int, int]] = []
        self._rewound = 0
        self._domains: dict[int, tuple[Pod, Domains]] = {}
        self._followed: dict[int, int] = {}
        self._masks: dict[int, tuple[tuple[int, int], Mask]] = {}
        self._fixed: dict[int, tuple[tuple[int, int], Mask]] = {}
        self._mounts: Cluster | None = None
        self._mounted = 0
        self._given: list[tuple[int, Storage]] = []
        """Steps that took free volumes, and the storage before each."""

    def allowed(self, like: Pod) -> Mask:
        """[node] where one more such pod may go; amounts, labels and taints of nodes are not looked at."""
        stamp = (len(self._log), self._rewound)
        known = self._masks.get(id(like))
        if known is None or known[0] != stamp:
            known = self._masks[id(like)] = (stamp, self._follow(like).allowed() & self.fixed(like))
        return known[1]

    def fixed(self, like: Pod) -> Mask:
        """[node] the part of it that other pods decide only by the volumes they use."""
        stamp = (self._mounted, self._rewound)
        known = self._fixed.get(id(like))
        if known is None or known[0] != stamp:
            mask = np.ones(len(self.crowd.cluster), dtype=bool)
            for rejection in self._on_volumes(like):
                mask &= ~rejection.mask
            known = self._fixed[id(like)] = (stamp, mask)
        return known[1]

    def indifferent(self, like: Pod) -> bool:
        """Whether a pod like it, once placed, changes nothing for the next one like it."""
        rules = like.shape.rules
        own = self._about_itself(like, (*rules.affinity, *rules.anti_affinity))
        return not (own or rules.spread or rules.volumes)

    def once_each(self, like: Pod) -> bool:
        """Whether all that pods like it want of each other is a node each."""
        rules = like.shape.rules
        if rules.spread or rules.volumes or self._about_itself(like, rules.affinity):
            return False
        own = self._about_itself(like, rules.anti_affinity)
        return bool(own) and all(self._single(term.topology) for term in own)

    def one_per_domain(self, like: Pod, counts: Ints) -> Ints:
        """[node] how many of those that fit may go there, if each wants a node; any number outside them."""
        for term in self._about_itself(like, like.shape.rules.anti_affinity):
            codes, _ = self.crowd.cluster.domains(term.topology)
            counts = np.where(codes >= 0, np.minimum(counts, 1), counts)
        return counts

    def together(self, like: Pod) -> str:
        """The topology key within a domain of which pods like it must all be; "" if there is none."""
        own = self._about_itself(like, like.shape.rules.affinity)
        keys = [term.topology for term in own]
        return max(keys, key=lambda key: self.crowd.cluster.domains(key)[1], default="")

    def take(self, like: Pod, row: int, times: int = 1) -> None:
        """So many such pods are on that node row now."""
        self._log.append((like, row, times))
        if like.shape.rules.volumes:
            self._mount(len(self._log), like, row)

    def mark(self) -> int:
        """Where to rewind to."""
        return len(self._log)

    def rewind(self, mark: int) -> None:
        """They are not there after all."""
        if mark == len(self._log):
            return
        for key, upto in self._followed.items():
            domains = self._domains[key][1]
            for other, row, times in reversed(self._log[mark:upto]):
                domains.place(other, row, -times)
            self._followed[key] = min(upto, mark)
        mounts = self._mounts
        if mounts is not None and self._mounted:
            for number, (like, _, _) in enumerate(self._log[mark:], mark + 1):
                mounts.pods.remove(like.uid or f"placed {number}")
            while self._given and self._given[-1][0] > mark:
                mounts = structs.replace(mounts, storage=self._given.pop()[1])
            self._mounts = mounts
        del self._log[mark:]
        self._rewound += 1

    def lack(self, like: Pod, among: Mask) -> str:
        """What keeps such a pod off these nodes, and how many, in kube-scheduler's words; "" if nothing."""
        found: dict[str, int] = {}
        left = among & self.crowd.cluster.classes.present
        for rejection in (*self._on_volumes(like), *self._follow(like).rejections()):
            count = int((rejection.mask & left).sum())
            if count:
                found[rejection.reason] = found.get(rejection.reason, 0) + count
                left &= ~rejection.mask
        return ", ".join(
            f"{count} {reason}" if reason.startswith("node(s)") else reason for reason, count in found.items()
        )

    # -- inside --------------------------------------------------------------------------------------

    def _follow(self, like: Pod) -> Domains:
        """The counters for such pods, up to date with what was placed."""
        known = self._domains.get(id(like))
        if known is None:
            known = self._domains[id(like)] = (like, Domains(self.crowd.cluster, like))
            self._followed[id(like)] = 0
            for pod, row in self._left():
                known[1].place(pod, row, -1)
        domains = known[1]
        for other, row, times in self._log[self._followed[id(like)] :]:
            domains.place(other, row, times)
        self._followed[id(like)] = len(self._log)
        return domains

    def _left(self) -> Iterator[tuple[Pod, int]]:
        """Pods that are there now and gone at the instant this is about."""
        pods = self.crowd.cluster.pods
        for until, pod in self.crowd.leaving if self._at else ():
            if until > self._at:
                return
            row = pods.row_of(pod.uid)
            if row is not None:
                yield pod, row

    def _on_volumes(self, like: Pod) -> list[Rejection]:
        found = list(static.node_declared_features(self.crowd.cluster, like))
        if like.shape.rules.volumes:
            for plugin in _ON_VOLUMES:
                found += plugin(self._with_volumes(), like)
        return found

    def _with_volumes(self) -> Cluster:
        """The pods that have volumes, those that are being placed among them."""
        if self._mounts is None:
            cluster = self.crowd.cluster
            index = PodIndex(cluster.inventory.rows)
            gone = {pod.uid: None for pod, _ in self._left()}
            for _, pod in cluster.pods.everyone():
                if pod.shape.rules.volumes and pod.uid not in gone:
                    index.add(pod)
            self._mounts = structs.replace(cluster, pods=index)
            for number, (like, row, _) in enumerate(self._log, 1):
                if like.shape.rules.volumes:
                    self._mount(number, like, row)
        return self._mounts

    def _mount(self, number: int, like: Pod, row: int) -> None:
        self._mounted += 1
        if self._mounts is not None:
            node = self.crowd.cluster.classes.names[row]
            uid = like.uid or f"placed {number}"  # a volume of the pod's own hangs on its uid
            self._mounts.pods.add(structs.replace(like, uid=uid, node=node))
            self._mounts = self._without_its_volumes(self._mounts, number, like, row)

    def _without_its_volumes(self, mounts: Cluster, number: int, like: Pod, row: int) -> Cluster:
        """The free volumes that its claims get on that node are free for nobody else."""
        found = binding.decide(mounts, like, row)
        taken = {
            volume.name: structs.replace(volume, claim=(claim.namespace, claim.name, claim.uid))
            for claim, volume in (found if not isinstance(found, str) else ())
            if volume is not None
        }
        if not taken:
            return mounts
        self._given.append((number, mounts.storage))
        storage = structs.replace(mounts.storage, volumes={**mounts.storage.volumes, **taken})
        return structs.replace(mounts, storage=storage)

    def _about_itself(self, like: Pod, terms: Sequence[PodTerm]) -> list[PodTerm]:
        """Those of its own terms that match it, too."""
        labels = self.crowd.cluster.namespaces.get(like.namespace, {})
        return [term for term in terms if speaks_of(term, like.namespace, like, labels)]

    def _single(self, key: str) -> bool:
        """Whether each of its domains is one node."""
        codes, size = self.crowd.cluster.domains(key)
        return int(np.count_nonzero(codes >= 0)) == size
