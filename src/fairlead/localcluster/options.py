"""What can be chosen when a local cluster is brought up.

Filled by the command line and by tests, read by every step of `up`, and kept in the cluster's state file, so
that a restart of a component uses the same. It must hold plain values only.
"""

from __future__ import annotations

import msgspec

from fairlead.localcluster.errors import ClusterError


class NodeShape(msgspec.Struct, frozen=True):
    """The size of every generated node, as Kubernetes quantities."""

    cpu: str = "32"
    memory: str = "128Gi"
    pods: int = 110
    zones: int = 3


class UpOptions(msgspec.Struct, frozen=True):
    """All that `up` is told; `node_file` (a path) takes the place of `nodes`.

    `scheduler_config` is the path of a KubeSchedulerConfiguration for kube-scheduler; how it reaches the API
    server is the cluster's own, whatever the file says.
    """

    name: str = "default"
    nodes: int = 10
    node_file: str | None = None
    shape: NodeShape = NodeShape()
    kube_scheduler: bool = False
    scheduler_config: str | None = None
    feature_gates: str = ""
    runtime_config: str = ""
    kubeconfig: str | None = None
    timeout: float = 120.0

    def check(self) -> None:
        """Refuse values that would fail only later, and less clearly."""
        if not 0 <= self.nodes <= 50_000:
            raise ClusterError(f"--nodes {self.nodes}: give a number from 0 to 50000")
        if self.shape.zones < 1:
            raise ClusterError(f"--zones {self.shape.zones}: give at least 1")
        if self.scheduler_config is not None and not self.kube_scheduler:
            raise ClusterError("--scheduler-config is for kube-scheduler: give --kube-scheduler too")
        if self.shape.pods < 1:
            raise ClusterError(f"--node-pods {self.shape.pods}: give at least 1")
