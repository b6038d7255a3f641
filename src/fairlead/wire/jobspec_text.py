"""A group of pods as a canonical jobspec, version 1 (RFC 14 and 25, constraints RFC 31).

Called by `cli.jobspec`. Amounts are those that matching counts, of a pod as a whole. What a jobspec cannot
say comes back as remarks, never silently. Must not read files, nor know any tree.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.selector import Expression, Operator

Fields = dict[str, Any]

MEMORY_UNITS = {"MB": 1 << 20, "GB": 1 << 30}
"""What Fluxion's graphs of Kubernetes clusters mean by these words."""

_CORES = "cpu"
_GPU = "nvidia.com/gpu"
_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_COUNTED_APART = ("pods", "port:")
"""What nodes have, but no vertex of a tree."""


class Asked(NamedTuple):
    """A group: `duration` in milliseconds (0: none), `level` a type above the nodes that holds all of it."""

    name: str
    members: Sequence[Pod]
    size: int
    duration: int = 0
    queue: str = ""
    level: str = ""
    exclusive: bool = False


class Part(NamedTuple):
    """So much of one type for each member."""

    type: str
    amount: int
    unit: str = ""


class Written(NamedTuple):
    """The jobspec, and a remark for each wish that is not in it."""

    jobspec: Fields
    remarks: list[str]


def written(asked: Asked, unit: str = "MB") -> Written:
    """The jobspec of a group; `unit` is one of MEMORY_UNITS. It has at least one member."""
    roles = _roles(asked, unit)
    labels = _labels(roles)
    slots = [
        _slot(label, len(pods), parts, asked.exclusive)
        for label, (parts, pods) in zip(labels, roles.items(), strict=True)
    ]
    constraint, remarks = _constraint(asked.members)
    remarks = [f"not in the jobspec: {wish}" for wish in (*remarks, *_left_out(asked.members))]
    missing = asked.size - len(asked.members)
    if missing > 0:
        slots[-1]["count"] += missing
        remarks.append(
            f"{missing} of {asked.size} members are not in the file: taken to be like the last one"
        )
    system: Fields = {"duration": -(-asked.duration // 1000), "job": {"name": asked.name}}
    if asked.queue:
        system["queue"] = asked.queue
    if constraint:
        system["constraints"] = constraint
    tasks = [{"command": [asked.name], "slot": label, "count": {"per_slot": 1}} for label in labels]
    resources = [{"type": asked.level, "count": 1, "with": slots}] if asked.level else slots
    jobspec = {"version": 1, "resources": resources, "tasks": tasks, "attributes": {"system": system}}
    return Written(jobspec, remarks)


# -- resources ---------------------------------------------------------------------------------------


def parts(requests: Amounts, unit: str = "MB") -> tuple[Part, ...]:
    """What one pod takes: whole cores, rounded up and at least one; memory in the unit, rounded up."""
    amounts = dict(requests)
    found = [Part("core", max(-(-amounts.pop(_CORES, 0) // 1000), 1))]
    for name, amount in sorted(amounts.items()):
        if name == _GPU:
            found.insert(1, Part("gpu", amount))
        elif name.startswith(_BYTES):
            found.append(Part(name, -(-amount // MEMORY_UNITS[unit]), unit))
        elif not name.startswith(_COUNTED_APART):
            found.append(Part(name, amount))
    return tuple(found)


def _roles(asked: Asked, unit: str) -> dict[tuple[Part, ...], list[Pod]]:
    """Members that take the same, in the order of the first of each."""
    roles: dict[tuple[Part, ...], list[Pod]] = {}
    for pod in asked.members:
        roles.setdefault(parts(pod.shape.requests, unit), []).append(pod)
    return roles


def _labels(roles: dict[tuple[Part, ...], list[Pod]]) -> list[str]:
    """One per slot: `default` for the only one, else the name of its first member without its number."""
    if len(roles) == 1:
        return ["default"]
    found: list[str] = []
    for pods in roles.values():
        base = pods[0].name.rstrip("0123456789").rstrip("-") or "slot"
        found.append(f"{base}-{len(found)}" if base in found else base)
    return found


def _slot(label: str, count: int, asked: tuple[Part, ...], exclusive: bool) -> Fields:
    inside: list[Fields] = []
    for part in asked:
        inside.append({"type": part.type, "count": part.amount})
        if part.unit:
            inside[-1]["unit"] = part.unit
    if exclusive:  # each member has its node to itself
        inside = [{"type": "node", "count": 1, "exclusive": True, "with": inside}]
    return {"type": "slot", "count": count, "label": label, "with": inside}


# -- constraints -------------------------------------------------------------------------------------


def _constraint(members: Sequence[Pod]) -> tuple[Fields, list[str]]:
    """What the node selectors and the required affinity of all members say, and what of them cannot be said.

    A jobspec has one constraint for all, so members that are unlike in this have none.
    """
    first = members[0].shape
    if any((pod.shape.selector, pod.shape.affinity) != (first.selector, first.affinity) for pod in members):
        return {}, ["its members want unlike nodes and a jobspec has one constraint (nodeSelector, affinity)"]
    remarks: list[str] = []
    every = _all(first.selector, remarks)
    if first.affinity and not any(first.affinity):
        remarks.append("node affinity that no node meets")
    terms = [_all(term, remarks) for term in first.affinity if term]
    if terms and all(terms):  # a term of which nothing can be said would admit every node
        every.append({"or": [_and(term) for term in terms]} if len(terms) > 1 else _and(terms[0]))
    return (_and(every) if every else {}), remarks


def _and(conditions: list[Fields]) -> Fields:
    return conditions[0] if len(conditions) == 1 else {"and": conditions}


def _all(expressions: Sequence[Expression], remarks: list[str]) -> list[Fields]:
    found: list[Fields] = []
    for each in expressions:
        condition = _condition(each)
        if condition:
            found.append(condition)
        else:
            remarks.append(f"node affinity {each.key} {each.operator} {' '.join(each.values)}".rstrip())
    return found


def _condition(each: Expression) -> Fields:
    """One requirement; properties are `key` and `key=value` of a node's labels. Empty: it cannot be said."""
    words = [f"{each.key}={value}" for value in each.values]
    letters = "".join((each.key, *each.values))
    if not each.key or any(letter in letters for letter in "!&'\"`|()^[],"):
        return {}
    if each.field:
        hosts: Fields = {"hostlist": list(each.values)}
        return hosts if each.operator is Operator.IN else {"not": [hosts]}
    if each.operator is Operator.IN:
        one: list[Fields] = [{"properties": [word]} for word in words]
        return one[0] if len(one) == 1 else {"or": one}
    if each.operator is Operator.NOT_IN:
        return {"properties": [f"^{word}" for word in words]}
    if each.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return {"properties": [each.key if each.operator is Operator.EXISTS else f"^{each.key}"]}
    return {}


def _left_out(members: Sequence[Pod]) -> list[str]:
    """What else members ask for."""
    found: dict[str, None] = {}
    for shape in {id(pod.shape): pod.shape for pod in members}.values():
        found.update(dict.fromkeys(_wishes(shape)))
    return list(found)


def _wishes(shape: Shape) -> list[str]:
    rules = shape.rules
    there = {
        "host ports": rules.ports or any(name.startswith("port:") for name, _ in shape.requests),
        "pod affinity": rules.affinity,
        "pod anti-affinity": rules.anti_affinity,
        "topology spread": rules.spread,
        "volumes": rules.volumes,
        "resource claims": "spec.resourceClaims" in shape.unsupported,
    }
    return [name for name, asked in there.items() if asked]
