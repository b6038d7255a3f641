"""The pods on nodes, indexed for filters: by label, by what they forbid, by port and by volume.

Part of a `core.filters.cluster.Cluster`. A pod costs a few dictionary entries to add or to remove, so the
index is kept up to date rather than made anew. Pods that are not bound, have ended or sit on no known node
do not count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead.core.columns import Mask, inside
from fairlead.core.filters.terms import Forbidding, Terms
from fairlead.core.inventory import Ints
from fairlead.model.pod import Pod
from fairlead.model.rules import CLAIM, PodTerm, Volume
from fairlead.model.selector import Expression, Operator, Selector

Slots = dict[int, None]
"""An ordered set of pod slots."""


class PodIndex:
    """Each pod has a slot; a slot that was given up is used again."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = rows
        self.size = len(rows)
        """Of how many node rows it tells; only whoever adds pods on later ones moves it."""
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._pods: list[Pod | None] = []
        self._node: NDArray[np.int32] = np.full(64, -1, dtype=np.int32)
        self._deleting: Mask = np.zeros(64, dtype=bool)
        self._labels: dict[str, dict[str, Slots]] = {}
        self._spaces: dict[str, Slots] = {}
        self._volumes: dict[str, Slots] = {}
        """Node -> the pods on it that have volumes."""
        self.terms = Terms()
        """The keys of `forbidding`."""
        self.forbidding: dict[Forbidding, Slots] = {}
        """(The pods' namespace, a required anti-affinity term) -> the pods that have it."""
        self.wanting: dict[tuple[str, int, PodTerm, int], Slots] = {}
        """(The pods' namespace, weight, a term, how often before it in the pod) -> the pods that want such
        pods near, or with a weight below 0 far; what is required counts as a wish of weight 1."""
        self.ports: dict[tuple[str, int], dict[str, Slots]] = {}
        """(Protocol, port) -> address -> the pods that use it."""
        self.claims: dict[tuple[str, str], Slots] = {}
        """(Namespace, claim) -> the pods that mount it by name."""
        self.disks: dict[str, Slots] = {}
        """Kind of an inline volume -> the pods that have one."""

    # -- reading -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._slots)

    def row(self, slot: int) -> int:
        """The node row that the pod sits on."""
        return int(self._node[slot])

    def row_of(self, uid: str) -> int | None:
        """The node row of the pod of this uid; None if it does not count."""
        slot = self._slots.get(uid)
        return None if slot is None else self.row(slot)

    def known(self, uid: str) -> Pod | None:
        """The pod as it was added; None if it does not count."""
        slot = self._slots.get(uid)
        return None if slot is None else self.pod(slot)

    def rows_of(self, slots: Slots) -> list[int]:
        """The node rows of these pods, a row for each pod."""
        return self._node[list(slots)].tolist()

    def pod(self, slot: int) -> Pod:
        """The pod in this slot."""
        pod = self._pods[slot]
        assert pod is not None
        return pod

    def volumes(self, kind: str) -> Iterator[tuple[int, Volume]]:
        """(Node row, volume) of every inline volume of this kind."""
        for slot in self.disks.get(kind, {}):
            for volume in self.pod(slot).shape.rules.volumes:
                if volume.kind == kind:
                    yield self.row(slot), volume

    def everyone(self) -> Iterator[tuple[int, Pod]]:
        """(Node row, pod) of all."""
        for slot in self._slots.values():
            yield self.row(slot), self.pod(slot)

    def with_volumes(self, node: str) -> Iterator[Pod]:
        """The pods on this node that have volumes."""
        for slot in self._volumes.get(node, {}):
            yield self.pod(slot)

    def matching(self, selector: Selector, namespaces: Sequence[str] | None, living: bool = False) -> Mask:
        """[slot] pods that a label selector selects in these namespaces (None: in all).

        `living` leaves out those that are being deleted.
        """
        size = len(self._pods)
        mask = self._node[:size] >= 0
        if selector is None:
            return np.zeros(size, dtype=bool)
        if namespaces is not None:
            mask &= self._of([self._spaces.get(name, {}) for name in namespaces])
        if living:
            mask &= ~self._deleting[:size]
        for expression in selector:
            mask &= self._one(expression)
        return mask

    def per_node(self, mask: Mask) -> Ints:
        """[node] how many of these pods sit on it."""
        return np.bincount(self._node[: len(mask)][mask], minlength=self.size).astype(np.int64)

    def _one(self, e: Expression) -> Mask:
        words = self._labels.get(e.key, {})
        if e.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            hits = self._of(list(words.values()))
            return hits if e.operator == Operator.EXISTS else ~hits
        if e.operator in (Operator.IN, Operator.NOT_IN):
            hits = self._of([words.get(value, {}) for value in e.values])
            return hits if e.operator == Operator.IN else ~hits
        return self._of([slots for word, slots in words.items() if inside(e, word)])

    def _of(self, postings: Sequence[Slots]) -> Mask:
        mask = np.zeros(len(self._pods), dtype=bool)
        for slots in postings:
            mask[list(slots)] = True
        return mask

    # -- changing ------------------------------------------------------------------------------------

    def add(self, pod: Pod) -> bool:
        """Take the pod in, or anew if it is known. Returns whether it counts."""
        self.remove(pod.uid)
        row = self._rows.get(pod.node)
        if row is None or pod.ended:
            return False
        self.size = max(self.size, row + 1)
        slot = self._free.pop() if self._free else self._new_slot()
        self._slots[pod.uid] = slot
        self._pods[slot], self._node[slot], self._deleting[slot] = pod, row, pod.deleting
        for postings, key in self._postings(pod):
            postings.setdefault(key, {})[slot] = None
        for term in pod.shape.rules.anti_affinity:
            self.terms.add((pod.namespace, term))
        return True

    def remove(self, uid: str) -> None:
        """Forget the pod if it is known."""
        slot = self._slots.pop(uid, None)
        if slot is None:
            return
        for postings, key in self._postings(self.pod(slot)):
            slots = postings.get(key, {})
            slots.pop(slot, None)
            if not slots:
                postings.pop(key, None)
        pod = self.pod(slot)
        for term in pod.shape.rules.anti_affinity:
            if (pod.namespace, term) not in self.forbidding:
                self.terms.discard((pod.namespace, term))
        self._pods[slot], self._node[slot] = None, -1
        self._free.append(slot)

    def _new_slot(self) -> int:
        slot = len(self._pods)
        self._pods.append(None)
        if slot == len(self._node):
            self._node = np.concatenate([self._node, np.full(slot, -1, dtype=np.int32)])
            self._deleting = np.concatenate([self._deleting, np.zeros(slot, dtype=bool)])
        return slot

    def _postings(self, pod: Pod) -> Iterator[tuple[dict[Any, Slots], object]]:
        """Every place, and the key there, under which the pod is found."""
        rules = pod.shape.rules
        yield self._spaces, pod.namespace
        for key, value in pod.labels.items():
            yield self._labels.setdefault(key, {}), value
        for term in rules.anti_affinity:
            yield self.forbidding, (pod.namespace, term)
        for wish in _wishes(pod):
            yield self.wanting, wish
        for port in rules.ports:
            yield self.ports.setdefault((port.protocol, port.port), {}), port.ip
        if rules.volumes:
            yield self._volumes, pod.node
        for volume in rules.volumes:
            if volume.kind == CLAIM:
                yield self.claims, (pod.namespace, volume.id)
            else:
                yield self.disks, volume.kind


def _wishes(pod: Pod) -> Iterator[tuple[str, int, PodTerm, int]]:
    wishes = pod.wishes
    if not (wishes.affinity or wishes.anti_affinity or pod.shape.rules.affinity):
        return
    required = [(1, term) for term in pod.shape.rules.affinity]
    against = [(-weight, term) for weight, term in wishes.anti_affinity]
    seen: Counter[tuple[int, PodTerm]] = Counter()
    for wish in (*required, *wishes.affinity, *against):
        yield pod.namespace, *wish, seen[wish]
        seen[wish] += 1
