"""A local Kubernetes control plane out of real parts, for demos, tests and benchmarks.

Called by `fairlead.cli.cluster`, the end-to-end tests and the benchmarks. A leaf: it imports no other
package of Fairlead, and nothing here may be needed to run the scheduler itself.
"""

from fairlead.localcluster.cluster import Cluster, find_cluster, list_clusters
from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.options import NodeShape, UpOptions
from fairlead.localcluster.up import bring_down, bring_up

__all__ = [
    "Cluster",
    "ClusterError",
    "NodeShape",
    "UpOptions",
    "bring_down",
    "bring_up",
    "find_cluster",
    "list_clusters",
]
