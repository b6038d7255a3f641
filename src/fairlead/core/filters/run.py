"""All filters on one pod: the verdict of each plugin, and which nodes are feasible.

Called by whoever wants to know where a pod may go. Each plugin is asked on its own and about every node,
also where another has rejected it already, so that all reasons can be told.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fairlead.core.columns import Mask
from fairlead.core.filters import affinity, binding, limits, resources, spread, static, volumes
from fairlead.core.filters.affinity import AffinityCounts
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.spread import SpreadCounts
from fairlead.core.filters.verdict import Rejection, Verdict
from fairlead.model.pod import Pod

PLUGINS: Mapping[str, Callable[[Cluster, Pod], list[Rejection]]] = MappingProxyType(
    {
        "NodeUnschedulable": static.node_unschedulable,
        "NodeName": static.node_name,
        "TaintToleration": static.taint_toleration,
        "NodeAffinity": static.node_affinity,
        "NodePorts": resources.node_ports,
        "NodeResourcesFit": resources.node_resources_fit,
        "VolumeRestrictions": volumes.volume_restrictions,
        "NodeVolumeLimits": limits.node_volume_limits,
        "VolumeBinding": binding.volume_binding,
        "VolumeZone": volumes.volume_zone,
        "PodTopologySpread": spread.pod_topology_spread,
        "InterPodAffinity": affinity.inter_pod_affinity,
        "NodeDeclaredFeatures": static.node_declared_features,
    }
)
"""In the order in which kube-scheduler asks them."""


def verdicts(cluster: Cluster, pod: Pod) -> dict[str, Verdict]:
    """Plugin -> its verdict on every node row of the cluster."""
    size = len(cluster)
    return {name: Verdict(size, plugin(cluster, pod)) for name, plugin in PLUGINS.items()}


def feasible(cluster: Cluster, found: Mapping[str, Verdict]) -> Mask:
    """[node] whether it is there and no plugin rejects it."""
    mask = cluster.classes.present.copy()
    for verdict in found.values():
        for rejection in verdict.rejections:
            mask &= ~rejection.mask
    return mask


class Domains:
    """InterPodAffinity and PodTopologySpread for pods like `pod` while pods are being placed.

    For whoever places several together: one Domains per kind of pod (shape, labels, namespace), told of every
    pod that is placed, of its own kind or another. A step costs a few additions; nothing is counted anew.
    Good as long as no node changes.
    """

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._cluster = cluster
        self._parts = (SpreadCounts(cluster, pod), AffinityCounts(cluster, pod))

    def place(self, other: Pod, row: int, times: int = 1) -> None:
        """`times` pods like `other` are on the node now; negative if they are gone again."""
        for part in self._parts:
            part.place(other, row, times)

    def allowed(self) -> Mask:
        """[node] where one more may go, as far as these constraints are concerned."""
        mask = self._cluster.classes.present.copy()
        for rejection in self.rejections():
            mask &= ~rejection.mask
        return mask

    def rejections(self) -> list[Rejection]:
        """Which nodes are forbidden, and why."""
        return [rejection for part in self._parts for rejection in part.rejections()]
