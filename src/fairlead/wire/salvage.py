"""What can be saved of an object that does not decode: whatever of it is as it should be counts, the rest is
as if it were not there.

Called by `kube.translate` and `wire.pod` when something could not be read, so speed does not matter. A pod
on a node must go on holding what it is known to hold. Raises ValueError (or msgspec's DecodeError) only where
not even the uid can be read.
"""

from typing import Any, cast

import msgspec

from fairlead.model.pod import Amounts
from fairlead.model.quantity import exact
from fairlead.wire import resources
from fairlead.wire.structs import Container, ContainerPort, ObjectMeta, OwnerReference, Quantities, Resources

Json = dict[str, Any]
_decode = msgspec.json.Decoder().decode


def tree(raw: bytes | msgspec.Raw) -> Json:
    """The object as plain values."""
    found = _decode(raw)
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return cast("Json", found)


def metadata(raw: bytes | msgspec.Raw) -> ObjectMeta:
    return metadata_of(tree(raw))


def metadata_of(thing: Json) -> ObjectMeta:
    meta = part(thing, "metadata")
    uid = text(meta, "uid")
    if not uid:
        raise ValueError("it has no uid")
    return ObjectMeta(
        name=text(meta, "name"),
        uid=uid,
        namespace=text(meta, "namespace"),
        resource_version=text(meta, "resourceVersion"),
        creation_timestamp=_time(meta, "creationTimestamp"),
        deletion_timestamp=_time(meta, "deletionTimestamp"),
        labels=_texts(meta, "labels"),
        annotations=_texts(meta, "annotations"),
        owner_references=[
            OwnerReference(
                text(ref, "kind"), text(ref, "name"), text(ref, "uid"), ref.get("controller") is True
            )
            for ref in _parts(meta, "ownerReferences")
        ],
    )


def amounts(spec: Json) -> Amounts:
    """What the pod takes from its node, by the requests that can be read."""
    containers = [_container(each) for each in _parts(spec, "containers")]
    inits = [_container(each) for each in _parts(spec, "initContainers")]
    sums = resources.container_sums(containers, inits, {}, False)
    resources.apply_pod_level(sums, _resources(spec), None, False)
    resources.add(sums, resources.read(_quantities(part(spec, "overhead"))))
    return resources.amounts(sums, resources.host_ports(containers, inits))


def part(thing: Json, name: str) -> Json:
    """The object of this name inside; an empty one where there is none."""
    found = thing.get(name)
    return cast("Json", found) if isinstance(found, dict) else {}


def text(thing: Json, name: str, default: str = "") -> str:
    found = thing.get(name)
    return found if isinstance(found, str) else default


def _parts(thing: Json, name: str) -> list[Json]:
    found = thing.get(name)
    if not isinstance(found, list):
        return []
    return [cast("Json", each) for each in cast("list[Any]", found) if isinstance(each, dict)]


def _texts(thing: Json, name: str) -> dict[str, str]:
    return {key: value for key, value in part(thing, name).items() if isinstance(value, str)}


def _time(meta: Json, name: str) -> str | None:
    return text(meta, name) or None


def _container(raw: Json) -> Container:
    ports = [
        ContainerPort(host_port=port, protocol=text(each, "protocol", "TCP"), host_ip=text(each, "hostIP"))
        for each in _parts(raw, "ports")
        if isinstance(port := each.get("hostPort"), int)
    ]
    return Container(
        name=text(raw, "name"),
        resources=_resources(raw) or Resources(),
        ports=ports,
        restart_policy=text(raw, "restartPolicy"),
    )


def _resources(thing: Json) -> Resources | None:
    found = part(thing, "resources")
    return Resources(_quantities(part(found, "requests"))) if found else None


def _quantities(found: Json) -> Quantities:
    return {name: value for name, value in found.items() if _readable(value)}


def _readable(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return False
    try:
        exact(value)
    except ValueError:
        return False
    return True
