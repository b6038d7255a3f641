"""What filters look at: nodes, pods on them, namespaces and storage, each indexed once.

Built by whoever asks for verdicts. Nodes and amounts are those of a `core.inventory.Inventory`, whose rows
are the rows here; what sits on a row whose node is gone does not count. The parts know nothing of each
other, so each is replaced or updated on its own.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from fairlead.core.columns import Codes, Mask
from fairlead.core.filters.pods import PodIndex
from fairlead.core.inventory import Ints, Inventory
from fairlead.core.labels import NodeClasses
from fairlead.model.pod import Pod
from fairlead.model.storage import Storage


class Cluster(Struct, frozen=True):
    """A view of the cluster that filters can be asked about."""

    inventory: Inventory
    pods: PodIndex
    namespaces: Mapping[str, Mapping[str, str]] = {}
    """Name -> labels."""
    storage: Storage = Storage()
    frozen: NodeClasses | None = None
    """The nodes' metadata at an earlier moment, for whom nodes must not change; None for what it is now."""

    def __len__(self) -> int:
        return len(self.classes.present)

    @property
    def classes(self) -> NodeClasses:
        """Masks over the nodes' metadata."""
        return self.frozen if self.frozen is not None else self.inventory.classes()

    def row(self, name: str) -> int | None:
        """The row of the node of this name; None if there is none, or was none then."""
        row = self.inventory.rows.get(name)
        return row if row is not None and row < len(self) else None

    def nothing(self) -> Mask:
        """A fresh mask without any node."""
        return np.zeros(len(self), dtype=bool)

    def everywhere(self) -> Mask:
        """A fresh mask of all nodes."""
        return np.ones(len(self), dtype=bool)

    def rows(self, nodes: Iterable[int]) -> Mask:
        """A mask of these node rows."""
        mask = self.nothing()
        mask[list(nodes)] = True
        return mask

    def domains(self, key: str) -> tuple[Codes, int]:
        """[node] its domain under a topology key, -1 without the label; and how many domains there are."""
        codes, words = self.classes.columns.column(key)
        return codes, len(words)

    def per_domain(self, key: str, per_node: Ints) -> Ints:
        """[domain] the sum over the domain's nodes that are there."""
        codes, size = self.domains(key)
        has = (codes >= 0) & self.classes.present
        return np.bincount(codes[has], weights=per_node[has], minlength=size).astype(np.int64)


def cluster_of(
    inventory: Inventory,
    pods: Iterable[Pod],
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    storage: Storage | None = None,
) -> Cluster:
    """A cluster of these nodes; pods on one of them that have not ended hold what they request."""
    index = PodIndex(inventory.rows)
    for pod in pods:
        if index.add(pod):
            inventory.hold(pod.uid, pod.node, pod.shape.requests)
    return Cluster(inventory, index, namespaces or {}, storage or Storage())
