"""Custom resources and applications of a simulated cluster, whole JSON objects as an API server keeps them.

Used by `sim.esi_world` (for commands of the engine and for tests) and by `sim.esi_cluster` (for the doors).
Knows versions, generations, the status subresource, preconditions and owner references; no schemas, and
nothing of what objects mean. Every change is told to `changed`. Deterministic: uids are counted.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from fairlead.core.durations import rfc3339
from fairlead.model.application import APP_KINDS
from fairlead.model.batchjob import AppKind
from fairlead.model.esi import GROUP, VERSION, Ref

Manifest = dict[str, Any]
ESI_KINDS = ("Testbed", "BatchJob", "Scheduling")
API = {
    **dict.fromkeys(ESI_KINDS, f"{GROUP}/{VERSION}"),
    AppKind.SPARK.value: "sparkoperator.k8s.io/v1beta2",
    AppKind.FLINK.value: "flink.apache.org/v1beta1",
    AppKind.FLINK_CLUSTER.value: "flinkoperator.k8s.io/v1beta1",
    AppKind.JOB.value: "batch/v1",
    AppKind.JOB_SET.value: "jobset.x-k8s.io/v1alpha2",
}
KINDS = (*ESI_KINDS, *(kind.value for kind in APP_KINDS.values()))


class Refused(Exception):
    """The API server says no. `status` is its HTTP code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def merge(into: Manifest, patch: Manifest) -> Manifest:
    """A JSON merge patch (RFC 7386) done; neither argument changes."""
    result = dict(into)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            below = result.get(key)
            base = cast("Manifest", below) if isinstance(below, dict) else {}
            result[key] = merge(base, cast("Manifest", value))
        else:
            result[key] = value
    return result


def part(raw: Manifest, key: str) -> Manifest:
    """The object under this key; empty where there is none."""
    value = raw.get(key)
    return cast("Manifest", value) if isinstance(value, dict) else {}


def ref_of(raw: Manifest) -> Ref:
    """The object's name."""
    meta = raw["metadata"]
    return Ref(meta.get("namespace", "default"), meta["name"])


def owner_of(raw: Manifest) -> str:
    """The uid of its controller, "" without one."""
    refs = cast("list[Manifest]", raw["metadata"].get("ownerReferences") or [])
    return next((str(ref["uid"]) for ref in refs if ref.get("controller")), "")


class Objects:
    """Objects by uid. What is stored is never changed in place, so one that was given out stays as it was."""

    def __init__(
        self,
        version: Callable[[], int],
        now: Callable[[], int],
        changed: Callable[[Manifest | None, Manifest | None], None],
    ) -> None:
        """`version`: the next resourceVersion. `changed(old, new)`: None for one that was not, or is gone."""
        self._version, self._now, self._changed = version, now, changed
        self._stored: dict[str, Manifest] = {}
        self._names: dict[tuple[str, Ref], str] = {}
        self._count = 0

    def all(self, kind: str = "") -> Iterator[Manifest]:
        """In the order of their creation."""
        return (raw for raw in list(self._stored.values()) if not kind or raw["kind"] == kind)

    def by_uid(self, uid: str) -> Manifest | None:
        return self._stored.get(uid)

    def find(self, kind: str, ref: Ref) -> Manifest | None:
        return self._stored.get(self._names.get((kind, ref), ""))

    def get(self, kind: str, ref: Ref) -> Manifest:
        """Raises Refused 404."""
        found = self.find(kind, ref)
        if found is None:
            raise Refused(404, f'{kind} "{ref.name}" not found')
        return found

    # -- writing -------------------------------------------------------------------------------------

    def create(self, raw: Manifest) -> Manifest:
        """Raises Refused 409 if there is one of this name."""
        kind, ref = str(raw["kind"]), ref_of(raw)
        if (kind, ref) in self._names:
            raise Refused(409, f'{kind} "{ref.name}" already exists')
        self._count += 1
        uid = f"{kind.lower()}-{ref.name}-{self._count}"
        meta = {key: value for key, value in raw["metadata"].items() if key != "resourceVersion"}
        meta |= {"namespace": ref.namespace, "uid": uid, "generation": 1}
        meta["creationTimestamp"] = rfc3339(self._now())
        whole = {**raw, "apiVersion": raw.get("apiVersion") or API[kind], "metadata": meta}
        if kind in ESI_KINDS:
            whole.pop("status", None)  # a subresource: not taken from whoever creates it
        self._names[kind, ref] = uid
        return self._keep(None, whole)

    def replace(self, uid: str, raw: Manifest) -> Manifest:
        """PUT: all but status and what the server says. Raises Refused 404 and 409."""
        old = self._found(uid, raw["metadata"].get("resourceVersion", ""))
        meta = {**old["metadata"]}
        for key in ("labels", "annotations", "ownerReferences", "finalizers"):
            meta.pop(key, None)
            if raw["metadata"].get(key):
                meta[key] = raw["metadata"][key]
        whole = {**raw, "apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": meta}
        whole.pop("status", None)
        if "status" in old:
            whole["status"] = old["status"]
        return self._keep(old, whole)

    def patch(self, uid: str, changes: Manifest, sub: str = "", version: str = "") -> Manifest:
        """A merge patch of all but status, or, `sub` "status", of that alone. Raises Refused 404 and 409."""
        named = part(changes, "metadata").get("resourceVersion", "")
        old = self._found(uid, version or named)
        if sub == "status":
            return self._keep(old, merge(old, {"status": changes.get("status")}))
        return self._keep(old, merge(old, {key: value for key, value in changes.items() if key != "status"}))

    def delete(self, uid: str, version: str = "") -> None:
        """Gone at once, and what it owns after it. Raises Refused 404 and 409."""
        old = self._found(uid, version)
        del self._stored[uid]
        del self._names[old["kind"], ref_of(old)]
        self._changed(old, None)
        for raw in [raw for raw in self._stored.values() if owner_of(raw) == uid]:
            if raw["metadata"]["uid"] in self._stored:
                self.delete(raw["metadata"]["uid"])

    # -- inside --------------------------------------------------------------------------------------

    def _found(self, uid: str, version: str) -> Manifest:
        old = self._stored.get(uid)
        if old is None:
            raise Refused(404, f"no object with uid {uid}")
        if version and version != old["metadata"]["resourceVersion"]:
            raise Refused(409, f"the object has been modified; {version} is not its version any more")
        return old

    def _keep(self, old: Manifest | None, raw: Manifest) -> Manifest:
        raw = json.loads(json.dumps(raw))  # nobody outside holds a part of it
        meta, before = raw["metadata"], part(old or {}, "metadata")
        for key in ("uid", "namespace", "name", "creationTimestamp", "generation"):
            if key in before:
                meta[key] = before[key]
        if old is not None:
            meta["resourceVersion"] = before["resourceVersion"]
            if raw == old:
                return old  # as an API server does: nothing changed, nothing is told
            if raw.get("spec") != old.get("spec"):
                meta["generation"] = before["generation"] + 1
        meta["resourceVersion"] = str(self._version())
        self._stored[meta["uid"]] = raw
        self._changed(old, raw)
        return raw
