"""What ESI's doors need of a cluster: to write its custom resources, and to know who may.

Implemented by `kube.esi_cluster` (a real API server) and `sim.esi_cluster` (a simulated one), which do not
import it: the shape is all that counts. Reads come from the engine's state; `get` is for read-modify-write.
"""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from fairlead.model.caller import Caller
from fairlead.model.esi import Ref

Kind = Literal["BatchJob", "Scheduling", "Testbed"]
Manifest = dict[str, Any]
"""An object as JSON has it, with apiVersion, kind and metadata."""


class EsiCluster(Protocol):
    """Every method raises `runtime.errors.ClusterError`: `status` is the API server's (404 no such object,
    409 exists already, or its version or uid is another, 422 the schema refuses it, ...), 503 where nobody
    answered in time. No write is repeated by itself. Answers are the objects as they are afterwards."""

    async def get(self, kind: Kind, ref: Ref) -> Manifest: ...

    async def create(self, kind: Kind, ref: Ref, manifest: Manifest) -> Manifest:
        """409 if there is one of this name."""
        ...

    async def replace(self, kind: Kind, ref: Ref, manifest: Manifest) -> Manifest:
        """PUT. Where the manifest names a metadata.resourceVersion, 409 if that is not the present one."""
        ...

    async def patch(self, kind: Kind, ref: Ref, changes: Manifest) -> Manifest:
        """A merge patch (RFC 7386): null takes a field away. A resourceVersion in it is held as in PUT."""
        ...

    async def delete(self, kind: Kind, ref: Ref, version: str = "") -> None:
        """404 if there is none. `version`: 409 if its resourceVersion is another."""
        ...

    async def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Set these labels of a node; None takes one away. Others stay."""
        ...

    async def token_review(self, token: str) -> Caller | None:
        """Whose bearer token it is; None if the cluster does not accept it."""
        ...

    async def access_review(
        self, caller: Caller, verb: str, group: str, resource: str, namespace: str, name: str
    ) -> bool:
        """Whether RBAC lets them. `resource` is plural; `namespace` "" is all of them (or none, as for
        nodes); `name` "" is any."""
        ...
