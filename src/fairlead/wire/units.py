"""Amounts of memory in the unit that a graph counts it in: 2 GB are 2048 where vertices are counted in MB.

Called by `cli.query_session` once a jobspec is read. Fluxion ignores units and compares the bare numbers.
Must not know a graph beyond the units of its types.
"""

import re
from collections.abc import Callable

from msgspec.structs import replace

from fairlead.model.jobspec import Count, Jobspec, Resource
from fairlead.wire.jobspec import UNBOUNDED, JobspecError

_UNIT = re.compile(r"([KMGTPE]?)(?:i?B|i)?", re.IGNORECASE)
_POWERS = " KMGTPE"


def bytes_of(unit: str) -> int:
    """How many bytes a unit is: B, KB, MB … with or without i or B, all of them by 1024; 0 for others."""
    match = _UNIT.fullmatch(unit)
    if match is None or not unit:
        return 0
    return 1 << 10 * _POWERS.index(match[1].upper() or " ")


def in_graph_units(job: Jobspec, unit_of: Callable[[str], str]) -> Jobspec:
    """The request in the units of the graph, rounded up; `unit_of` gives "" for a type without a unit.

    Raises JobspecError where they cannot be compared.
    """
    if not any(_has_unit(each) for each in job.resources):
        return job
    return replace(job, resources=_all(job.resources, unit_of, "resources"))


def _has_unit(resource: Resource) -> bool:
    return bool(resource.unit) or any(_has_unit(child) for child in resource.children)


def _all(resources: tuple[Resource, ...], unit_of: Callable[[str], str], place: str) -> tuple[Resource, ...]:
    return tuple(_one(each, unit_of, f"{place}[{number}]") for number, each in enumerate(resources))


def _one(resource: Resource, unit_of: Callable[[str], str], place: str) -> Resource:
    children = _all(resource.children, unit_of, f"{place}.with")
    theirs = unit_of(resource.type) if resource.unit else ""
    if not theirs or theirs == resource.unit:
        return replace(resource, children=children)
    here, there = bytes_of(resource.unit), bytes_of(theirs)
    if not here or not there:
        raise JobspecError(
            f"{place}.unit: is {resource.unit!r}, but this graph counts {resource.type} in {theirs}"
        )
    count = _converted(resource.count, here, there, f"{place}.count")
    return replace(resource, count=count, unit=theirs, children=children)


def _converted(count: Count, here: int, there: int, place: str) -> Count:
    if count.min == count.max:
        number = -(-count.min * here // there)
        return Count(number, number, count.operator, count.operand)
    if here % there or count.operator == "^":
        raise JobspecError(f"{place}: is a range in another unit than the graph's: give it in that one")
    times = here // there
    operand = count.operand * times if count.operator == "+" else count.operand
    most = count.max if count.max == UNBOUNDED else count.max * times
    return Count(count.min * times, most, count.operator, operand)
