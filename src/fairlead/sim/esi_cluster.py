"""ESI's doors on a simulated cluster: reads and writes of custom resources as a real API server answers them.

The shape that `api.esi.cluster.EsiCluster` asks for, over a `sim.esi_world.EsiWorld`; composed by
`cli.esi_simulate` and by tests of the doors. Everything happens in the thread of the event loop, between two
steps of the world. Schemas are held only as far as `wire.esi` reads them.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from fairlead.model.caller import Caller
from fairlead.model.esi import Ref
from fairlead.runtime.errors import ClusterError
from fairlead.sim.esi_objects import Manifest, Refused
from fairlead.sim.esi_world import EsiWorld
from fairlead.wire import esi as wire

Allows = Callable[[Caller, str, str, str, str], bool]
_READERS: dict[str, Callable[[bytes], Any]] = {
    "Testbed": wire.testbed,
    "BatchJob": wire.batch_job,
    "Scheduling": wire.scheduling,
}


def _everything(caller: Caller, verb: str, group: str, resource: str, namespace: str) -> bool:  # noqa: ARG001
    return True


class SimulatedCluster:
    """`callers`: token -> whose it is. `allows` (caller, verb, group, resource, namespace): their rights."""

    def __init__(
        self, world: EsiWorld, callers: Mapping[str, Caller] | None = None, allows: Allows = _everything
    ) -> None:
        self.world = world
        self._callers, self._allows = callers or {}, allows

    async def get(self, kind: str, ref: Ref) -> Manifest:
        return self._answer(lambda: self.world.objects.get(kind, ref))

    async def create(self, kind: str, ref: Ref, manifest: Manifest) -> Manifest:
        meta = {**manifest.get("metadata", {}), "namespace": ref.namespace, "name": ref.name}
        raw: Manifest = {**manifest, "kind": kind, "metadata": meta}
        self._check(kind, raw)
        return self._answer(lambda: self.world.objects.create(raw))

    async def replace(self, kind: str, ref: Ref, manifest: Manifest) -> Manifest:
        self._check(kind, manifest)
        return self._answer(lambda: self.world.objects.replace(self._uid(kind, ref), manifest))

    async def patch(self, kind: str, ref: Ref, changes: Manifest) -> Manifest:
        return self._answer(lambda: self.world.objects.patch(self._uid(kind, ref), changes))

    async def delete(self, kind: str, ref: Ref, version: str = "") -> None:
        self._answer(lambda: self.world.objects.delete(self._uid(kind, ref), version))

    async def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        if name not in self.world.nodes:
            raise ClusterError(f'nodes "{name}" not found', 404)
        self._answer(lambda: self.world.label_node(name, labels))

    async def token_review(self, token: str) -> Caller | None:
        return self._callers.get(token)

    async def access_review(
        self,
        caller: Caller,
        verb: str,
        group: str,
        resource: str,
        namespace: str,
        name: str,  # noqa: ARG002
    ) -> bool:
        return self._allows(caller, verb, group, resource, namespace)

    # -- inside --------------------------------------------------------------------------------------

    def _uid(self, kind: str, ref: Ref) -> str:
        return self.world.uid(kind, ref.name, ref.namespace)

    def _check(self, kind: str, raw: Manifest) -> None:
        """What the schema of the custom resource would refuse."""
        whole = {**raw, "metadata": {"uid": "unborn", **raw.get("metadata", {})}}
        problem: str = _READERS[kind](json.dumps(whole).encode()).problem
        if problem:
            raise ClusterError(f"{kind} is invalid: {problem}", 422)

    def _answer(self, action: Callable[[], Any]) -> Any:
        """Done at once, and heard by the engine at once."""
        try:
            found = action()
        except Refused as error:
            raise ClusterError(str(error), error.status) from error
        self.world.run(0)
        return found
