"""Where the domain constraints of a kind of pod allow another one, while pods are being placed.

For whoever places several pods together: one Domains per kind of pod, told of every pod that is placed, of
its own kind or another. A step costs a few additions; nothing is counted anew. Undo by telling of the same
with -1.
"""

from fairlead.core.columns import Mask
from fairlead.core.filters.affinity import AffinityCounts
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.spread import SpreadCounts
from fairlead.model.pod import Pod


class Domains:
    """InterPodAffinity and PodTopologySpread for pods like `pod`: same shape, labels and namespace."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._cluster = cluster
        self._parts = (AffinityCounts(cluster, pod), SpreadCounts(cluster, pod))

    def place(self, other: Pod, row: int, times: int = 1) -> None:
        """`times` pods like `other` are on the node now; negative if they are gone again."""
        for part in self._parts:
            part.place(other, row, times)

    def allowed(self) -> Mask:
        """[node] where one more may go, as far as these constraints are concerned."""
        mask = self._cluster.everywhere()
        for part in self._parts:
            for rejection in part.rejections():
                mask &= ~rejection.mask
        return mask
