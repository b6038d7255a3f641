"""Where the API server has the kinds that Fairlead writes.

Used by the writers (`kube.patches`, `kube.objects`, `kube.announce`), by `kube.esi_kinds` and
`kube.esi_cluster`. Must not know what is written.
"""

from typing import NamedTuple

from fairlead.kube.client import segment
from fairlead.wire.esi import API_VERSION


class Home(NamedTuple):
    """A kind's apiVersion and its resource (plural)."""

    version: str
    resource: str

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """Of all of its objects, in all namespaces."""
        return f"/{'apis' if self.group else 'api'}/{self.version}/{self.resource}"

    def of(self, namespace: str, name: str = "") -> str:
        """Of the objects of a namespace, or of one of them."""
        root = f"/{'apis' if self.group else 'api'}/{self.version}"
        path = f"{root}/namespaces/{segment(namespace)}/{self.resource}"
        return f"{path}/{segment(name)}" if name else path


HOMES = {
    "Pod": Home("v1", "pods"),
    "Job": Home("batch/v1", "jobs"),
    "Testbed": Home(API_VERSION, "testbeds"),
    "BatchJob": Home(API_VERSION, "batchjobs"),
    "Scheduling": Home(API_VERSION, "schedulings"),
    "SparkApplication": Home("sparkoperator.k8s.io/v1beta2", "sparkapplications"),
    "FlinkDeployment": Home("flink.apache.org/v1beta1", "flinkdeployments"),
    "FlinkCluster": Home("flinkoperator.k8s.io/v1beta1", "flinkclusters"),
    "JobSet": Home("jobset.x-k8s.io/v1alpha2", "jobsets"),
}
"""All are namespaced."""
