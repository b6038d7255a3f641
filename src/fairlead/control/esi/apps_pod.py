"""What each pod of an application gets so that it goes into one of its slots: labels, the annotation, where.

Used by `apps` and its four builders. All merge into what the user wrote, on copies: labels, annotations and
affinity are added to, the scheduler and the priority are replaced, resources are cut to the slot where they
ask for more. Pure. Must not raise for anything that a spec may hold.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from fairlead.core.esi.table import Slot
from fairlead.model.esi import (
    GHOST_LABEL,
    IDS_LABEL,
    LONGEST_LABEL,
    PRIORITY,
    SCHEDULER,
    SLOTS,
    TESTBED_LABEL,
    Testbed,
)
from fairlead.model.quantity import QuantityError, amount, show

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"
NAME = "metadata.name"
_LABELS, _FIELDS = "matchExpressions", "matchFields"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Pods(NamedTuple):
    """`where`: node selector terms, any of which is right. `slot`: what one slot has, cpu in milli-cores, the
    rest whole."""

    number: int
    labels: dict[str, str]
    annotations: dict[str, str]
    where: list[Object]
    slot: dict[str, int]
    texts: dict[str, str]
    """The same as the Testbed writes it."""


def pods(testbed: Testbed, slots: Sequence[Slot]) -> Pods:
    """For these slots of the Testbed, in the order of their numbers."""
    order = sorted(slots, key=lambda slot: (slot.position, slot.key))
    labels = {TESTBED_LABEL: testbed.name, GHOST_LABEL: "false"}
    numbers = "_".join(str(slot.position) for slot in order)
    if len(numbers) <= LONGEST_LABEL:
        labels[IDS_LABEL] = numbers
    written = testbed.spec.resources_per_slot if testbed.spec is not None else {}
    texts = {name: str(value) for name, value in written.items()}
    return Pods(
        number=len(order),
        labels=labels,
        annotations={SLOTS: ",".join(slot.key for slot in order)},
        where=_where(testbed, order),
        slot=amounts(written),
        texts=texts,
    )


def _where(testbed: Testbed, slots: Sequence[Slot]) -> list[Object]:
    """By the member label where it numbers the nodes (so does ESI), else by their host names. A node's name
    may be too long to be a label's value: then by the names themselves, of which a term takes one."""
    nodes = list(dict.fromkeys(slot.node for slot in slots))
    if testbed.spec is not None and all(slot.node_id >= 0 for slot in slots):
        values = list(dict.fromkeys(str(slot.node_id) for slot in slots))
        return [{_LABELS: [_in(testbed.spec.node_label, values)]}]
    if any(len(node) > LONGEST_LABEL for node in nodes):
        return [{_FIELDS: [_in(NAME, [node])]} for node in nodes]
    return [{_LABELS: [_in(HOST, nodes)]}]


def _in(key: str, values: list[str]) -> Object:
    return {"key": key, "operator": "In", "values": values}


def amounts(written: Mapping[str, Any]) -> dict[str, int]:
    """Those of the amounts that can be read."""
    found = {name: readable(name, value) for name, value in written.items()}
    return {name: value for name, value in found.items() if value is not None}


def readable(resource: str, value: object) -> int | None:
    """An amount in Fairlead's units; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return amount(resource, value)
    except QuantityError:
        return None


# -- pieces of what users write ----------------------------------------------------------------------


def part(of: Object, key: str) -> Object:
    """A copy of the object under this key; an empty one where there is none."""
    found = of.get(key)
    return dict(cast("Object", found)) if isinstance(found, dict) else {}


def parts(of: Object, key: str) -> list[Object]:
    """Copies of the objects in the list under this key."""
    found = of.get(key)
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [dict(cast("Object", each)) for each in listed if isinstance(each, dict)]


def word(of: Object, *path: str) -> str:
    """The text at the end of this path; "" where there is none."""
    for key in path[:-1]:
        of = part(of, key)
    found = of.get(path[-1])
    return found if isinstance(found, str) else ""


# -- where, by whom ----------------------------------------------------------------------------------


def template(found: Object, pods: Pods) -> Object:
    """A pod template with the labels, the annotation and the place."""
    meta = part(found, "metadata")
    meta["labels"] = part(meta, "labels") | pods.labels
    meta["annotations"] = part(meta, "annotations") | pods.annotations
    return {**found, "metadata": meta, "spec": placed(part(found, "spec"), pods)}


def placed(spec: Object, pods: Pods) -> Object:
    """A pod spec with scheduler, priority and affinity. What a class decides must not stand beside it."""
    kept = {key: value for key, value in spec.items() if key not in ("priority", "preemptionPolicy")}
    return kept | {
        "schedulerName": SCHEDULER,
        "priorityClassName": PRIORITY,
        "affinity": affinity(part(spec, "affinity"), pods),
    }


def affinity(found: Object, pods: Pods) -> Object:
    """Node terms are alternatives, so ours are added to each; one that is empty never matches and stays so.
    All of the user's come with the first of ours in their own order: Flink's operator merges by place."""
    nodes = part(found, "nodeAffinity")
    required = part(nodes, _REQUIRED)
    own = parts(required, "nodeSelectorTerms")
    required["nodeSelectorTerms"] = [_narrowed(each, where) for where in pods.where for each in own] or [
        dict(where) for where in pods.where
    ]
    return {**found, "nodeAffinity": {**nodes, _REQUIRED: required}}


def _narrowed(term: Object, where: Object) -> Object:
    if not parts(term, _LABELS) and not term.get(_FIELDS):
        return term
    return term | {key: [*parts(term, key), *added] for key, added in where.items()}


# -- how much ----------------------------------------------------------------------------------------


def fitted(spec: Object, pods: Pods) -> Object:
    """A pod spec that asks for one slot at most. The first container gets what the others leave, unless it
    asks for less; it is the one that is cut, for the others only serve it."""
    containers, inits = parts(spec, "containers"), parts(spec, "initContainers")
    if not containers:
        return spec
    for name, most in pods.slot.items():
        room = most - beside(spec, name)
        if room > 0:
            wanted = asked(containers[0], name)
            containers[0] = _asking(containers[0], name, room if wanted is None else min(wanted, room))
        inits = [_asking(each, name, most) if (asked(each, name) or 0) > most else each for each in inits]
    return {**spec, "containers": containers, **({"initContainers": inits} if inits else {})}


def beside(spec: Object, resource: str) -> int:
    """What the containers beside the first one, and sidecars, ask for."""
    helpers = [each for each in parts(spec, "initContainers") if each.get("restartPolicy") == "Always"]
    return sum(asked(each, resource) or 0 for each in [*parts(spec, "containers")[1:], *helpers])


def asked(container: Object, resource: str) -> int | None:
    """A limit without a request is a request, too."""
    resources = part(container, "resources")
    for kind in ("requests", "limits"):
        value = part(resources, kind).get(resource)
        if value is not None:
            return readable(resource, value)
    return None


def _asking(container: Object, resource: str, value: int) -> Object:
    resources = part(container, "resources")
    requests, limits = part(resources, "requests"), part(resources, "limits")
    if readable(resource, requests.get(resource)) != value:
        requests[resource] = show(resource, value)
    # What cannot be overcommitted must have a limit that equals the request.
    if "/" in resource or resource.startswith("hugepages-"):
        limits[resource] = requests[resource]
    resources["requests"] = requests
    return {**container, "resources": {**resources, **({"limits": limits} if limits else {})}}
