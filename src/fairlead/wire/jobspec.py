"""Canonical jobspecs (Flux RFC 14 and 25, constraints RFC 31): a YAML or JSON text as a request.

Called by `cli.resource_query`. All errors are JobspecErrors that name the place, for example
`resources[0].with[1].count.max`. Must not know whether any tree could serve the request.
"""

import math
import re
from collections.abc import Collection
from typing import Any, cast

import yaml

from fairlead.model.idset import hostlist, idset
from fairlead.model.jobspec import SLOT, XOR_SLOT, Constraint, Count, Jobspec, Resource
from fairlead.wire.bounded import Excess, load

UNBOUNDED = (1 << 32) - 1
"""The max of a count that gives none."""
STANDARD_TYPES = frozenset({SLOT, XOR_SLOT, "cluster", "rack", "node", "core", "gpu"})
"""Types one may ask for whether or not the graph has any."""

_RESOURCE_KEYS = frozenset({"type", "count", "unit", "exclusive", "with", "label", "id"})
_TASK_KEYS = frozenset({"command", "slot", "count", "distribution", "attributes"})
_COUNT_KEYS = frozenset({"min", "max", "operator", "operand"})
_LEAST_OPERAND = {"+": 1, "*": 2, "^": 2}
_RANGE = re.compile(r"(\d+)(?:(\+)|-(\d+)(?::(\d+)(?::([+*^]))?)?)?")

Fields = dict[str, Any]
_COMPOUND: tuple[type, ...] = (dict, list)


class JobspecError(Exception):
    """A jobspec that cannot be used: `PLACE: what is wrong`."""


class UnknownType(JobspecError):
    """It asks for a type that no vertex of the graph has."""


def read(text: str, types: Collection[str] | None = None) -> Jobspec:
    """The request. `types` are those of the graph; others than these and the standard ones are errors."""
    try:
        top = load(text)
    except Excess as error:
        raise JobspecError(f"jobspec: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark is not None else "jobspec"
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise JobspecError(f"{place}: not YAML or JSON: {problem}") from None
    fields = _mapping(top, "jobspec")
    for key in ("version", "resources", "tasks", "attributes"):
        if key not in fields:
            raise JobspecError(f"jobspec: the key {key!r} is missing")
    _only(fields, {"version", "resources", "tasks", "attributes"}, "jobspec")
    version = fields["version"]
    if type(version) is not int or not 1 <= version <= 9999:
        raise JobspecError(f"version: is {_shown(version)}, but must be a whole number from 1 to 9999")
    for number, task in enumerate(_list(fields["tasks"], "tasks")):
        _check_task(task, f"tasks[{number}]")
    known = None if types is None else STANDARD_TYPES | set(types)
    resources = _resources(fields["resources"], "resources", known)
    duration, queue, constraint = _attributes(fields["attributes"])
    return Jobspec(resources, duration, queue, constraint)


# -- resources ---------------------------------------------------------------------------------------


def _resources(value: object, place: str, known: Collection[str] | None) -> tuple[Resource, ...]:
    items = _list(value, place)
    return tuple(_resource(item, f"{place}[{number}]", known) for number, item in enumerate(items))


def _resource(value: object, place: str, known: Collection[str] | None) -> Resource:
    fields = _mapping(value, place)
    for key in ("type", "count"):
        if key not in fields:
            raise JobspecError(f"{place}: the key {key!r} is missing")
    _only(fields, _RESOURCE_KEYS, place)
    type_ = _scalar(fields["type"], f"{place}.type")
    if known is not None and type_ not in known:
        raise UnknownType(f"{place}.type: {type_!r} is not a resource type of this graph")
    if type_ in (SLOT, XOR_SLOT) and "label" not in fields:
        raise JobspecError(f"{place}: a slot needs a label, which its tasks name")
    if "id" in fields:
        _scalar(fields["id"], f"{place}.id")
    resource = _built(type_, fields, place, known)
    _check_pool(resource, place)
    _check_children(resource, place)
    return resource


def _built(type_: str, fields: Fields, place: str, known: Collection[str] | None) -> Resource:
    return Resource(
        type_,
        _count(fields["count"], f"{place}.count"),
        _scalar(fields.get("unit", ""), f"{place}.unit"),
        _exclusive(fields.get("exclusive"), f"{place}.exclusive") if "exclusive" in fields else None,
        _scalar(fields.get("label", ""), f"{place}.label"),
        _resources(fields["with"], f"{place}.with", known) if "with" in fields else (),
    )


def _check_pool(resource: Resource, place: str) -> None:
    """A shared part of a pool, with a unit, is a fixed amount: nobody could say how much a range took."""
    count = resource.count
    if resource.unit and resource.exclusive is False and count.min != count.max:
        raise JobspecError(f"{place}.count: is a range, but a shared resource with a unit needs one number")


def _check_children(resource: Resource, place: str) -> None:
    """What stands below a resource must not contradict it, nor stand below a slot twice."""
    seen: dict[str, int] = {}
    for number, child in enumerate(resource.children):
        below = f"{place}.with[{number}]"
        if resource.exclusive and child.exclusive is False:
            raise JobspecError(f"{below}.exclusive: is false, but what it is part of has exclusive: true")
        if resource.type not in (SLOT, XOR_SLOT) or child.type in (SLOT, XOR_SLOT):
            continue
        if child.type in seen:
            first = f"with[{seen[child.type]}]"
            raise JobspecError(f"{below}.type: {child.type!r} stands in this slot twice; add it to {first}")
        seen[child.type] = number


def _exclusive(value: object, place: str) -> bool:
    if value not in (True, False, "true", "false") or not isinstance(value, bool | str):
        raise JobspecError(f"{place}: is {_shown(value)}, but must be true or false")
    return value in (True, "true")


def _count(value: object, place: str) -> Count:
    if isinstance(value, str):
        return _range(value, place)
    if not isinstance(value, dict):
        number = _whole(value, place, 0)
        return Count(number, number)
    fields = _mapping(cast("object", value), place)
    _only(fields, _COUNT_KEYS, place)
    if "min" not in fields:
        raise JobspecError(f"{place}: the key 'min' is missing")
    least = _whole(fields["min"], f"{place}.min", 1)
    if "max" not in fields:
        if len(fields) > 1:
            raise JobspecError(f"{place}: the key 'max' is missing; operator and operand need it")
        return Count(least, UNBOUNDED)
    if "operator" in fields and "operand" not in fields:
        raise JobspecError(f"{place}: the key 'operand' is missing; an operator needs it")
    most = _whole(fields["max"], f"{place}.max", 1)
    operator = _scalar(fields.get("operator", "+"), f"{place}.operator")
    return _checked(least, most, operator, _whole(fields.get("operand", 1), f"{place}.operand", 0), place)


def _checked(least: int, most: int, operator: str, operand: int, place: str) -> Count:
    if most < least:
        raise JobspecError(f"{place}.max: is {most}, less than min, which is {least}")
    if operator not in _LEAST_OPERAND:
        raise JobspecError(f"{place}.operator: is {operator!r}, but must be one of + * ^")
    if operand < _LEAST_OPERAND[operator]:
        need = _LEAST_OPERAND[operator]
        raise JobspecError(f"{place}.operand: is {operand}, but must be at least {need} for {operator!r}")
    if operator == "^" and least < 2:
        raise JobspecError(f"{place}.min: is {least}, but must be at least 2 for '^'")
    return Count(least, most, operator, operand)


def _range(text: str, place: str) -> Count:
    """ "4", "2+" (two or more), "2-8", "2-8:2" (in steps), "2-8:2:*"."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise JobspecError(f"{place}: is {text!r:.60}, but must be a number, or a range such as 2-8:2")
    least = int(match[1])
    if match[2]:
        return Count(least, UNBOUNDED)
    if match[3] is None:
        return Count(least, least)
    return _checked(least, int(match[3]), match[5] or "+", int(match[4] or 1), place)


# -- tasks and attributes ----------------------------------------------------------------------------


def _check_task(value: object, place: str) -> None:
    fields = _mapping(value, place)
    for key in ("command", "slot", "count"):
        if key not in fields:
            raise JobspecError(f"{place}: the key {key!r} is missing")
    _only(fields, _TASK_KEYS, place)
    for number, word in enumerate(_list(fields["command"], f"{place}.command")):
        _scalar(word, f"{place}.command[{number}]")
    _scalar(fields["slot"], f"{place}.slot")
    count = _mapping(fields["count"], f"{place}.count")
    if len(count) != 1 or not set(count) <= {"per_slot", "per_resource", "total"}:
        raise JobspecError(f"{place}.count: must have one key, per_slot or total")
    if "distribution" in fields:
        _scalar(fields["distribution"], f"{place}.distribution")
    if "attributes" in fields:
        _mapping(fields["attributes"], f"{place}.attributes")


def _attributes(value: object) -> tuple[int, str, Constraint | None]:
    """Duration in whole seconds, rounded up; queue; constraint."""
    if value is None:
        return 0, "", None
    fields = _mapping(value, "attributes")
    _only(fields, {"user", "system"}, "attributes")
    if fields.get("system") is None:
        return 0, "", None
    system = _mapping(fields["system"], "attributes.system")
    try:
        duration = float(system.get("duration", 0))
    except (TypeError, ValueError):
        duration = -1.0
    if not 0 <= duration < 1 << 62:
        shown = _shown(system["duration"])
        raise JobspecError(f"attributes.system.duration: is {shown}, but must be a number of seconds")
    if "environment" in system:
        _mapping(system["environment"], "attributes.system.environment")
    queue = _scalar(system.get("queue", ""), "attributes.system.queue")
    found = system.get("constraints")
    constraint = None if found is None else _constraint(found, "attributes.system.constraints")
    return math.ceil(duration), queue, constraint


def _constraint(value: object, place: str) -> Constraint:
    """One operator with its operands; several mean all of them, none means no constraint."""
    fields = _mapping(value, place)
    parts = [_operation(key, each, f"{place}.{key}") for key, each in fields.items()]
    return parts[0] if len(parts) == 1 else Constraint("and", tuple(parts))


def _operation(key: str, value: object, place: str) -> Constraint:
    items = _list(value, place)
    if key in ("and", "or", "not"):
        parts = tuple(_constraint(item, f"{place}[{number}]") for number, item in enumerate(items))
        return Constraint(key, parts)
    if key not in ("properties", "hostlist", "ranks"):
        known = "and, or, not, properties, hostlist, ranks"
        raise JobspecError(f"{place}: unknown operator {key!r}; known: {known}")
    words = tuple(_scalar(item, f"{place}[{number}]") for number, item in enumerate(items))
    for number, word in enumerate(words):
        _check_word(key, word, f"{place}[{number}]")
    return Constraint(key, (), words)


def _check_word(key: str, word: str, place: str) -> None:
    if key == "properties":
        bad = [letter for letter in "!&'\"`|()^" if letter in word.removeprefix("^")]
        if bad or word in ("", "^"):
            raise JobspecError(
                f"{place}: {word!r} is not a property (^ may stand in front, none of !&'\"`|())"
            )
        return
    try:
        (idset if key == "ranks" else hostlist)(word)
    except ValueError as error:
        raise JobspecError(f"{place}: {error}") from None


# -- values ------------------------------------------------------------------------------------------


def _mapping(value: object, place: str) -> Fields:
    if not isinstance(value, dict):
        raise JobspecError(f"{place}: is {_shown(value)}, but must be keys with values")
    return {str(key): each for key, each in cast("dict[object, Any]", value).items()}


def _list(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise JobspecError(f"{place}: is {_shown(value)}, but must be a list")
    return cast("list[object]", value)


def _scalar(value: object, place: str) -> str:
    if value is None or isinstance(value, _COMPOUND):
        raise JobspecError(f"{place}: is {_shown(value)}, but must be one value")
    return str(value)


def _whole(value: object, place: str, least: int) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    number = int(text) if re.fullmatch(r"-?\d{1,18}", text) else least - 1
    if number < least:
        raise JobspecError(f"{place}: is {_shown(value)}, but must be a whole number, at least {least}")
    return number


def _only(fields: Fields, known: Collection[str], place: str) -> None:
    for key in fields:
        if key not in known:
            raise JobspecError(f"{place}: unknown key {key!r}; known here: {', '.join(sorted(known))}")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, list):
        return "a list"
    return "empty" if value is None else f"{value!r:.60}"
