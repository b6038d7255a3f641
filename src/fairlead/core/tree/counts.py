"""Counts of jobspecs: how many of what is there a request takes. Called by all that match."""

from collections.abc import Sequence

from fairlead.core.tree.matchpolicy import NODE
from fairlead.model.jobspec import Count, Resource


def taken(count: Count, there: int) -> int:
    """The largest number the count allows that is there; 0 if there is not even its min."""
    if count.min > count.max or count.min > there:
        return 0
    most = min(there, count.max)
    if count.operator == "+":
        if count.operand < 1:
            return count.min
        return count.min + (most - count.min) // count.operand * count.operand
    number = count.min
    while (following := _next(count, number)) <= most and following > number:
        number = following
    return number


def largest(count: Count) -> int:
    """The largest number the count allows at all."""
    return taken(count, count.max)


def nodes_asked(resources: Sequence[Resource]) -> int:
    """How many nodes the least that a request takes is made of."""
    return sum(
        each.count.min * (1 if each.type == NODE else nodes_asked(each.children)) for each in resources
    )


def _next(count: Count, number: int) -> int:
    return number * count.operand if count.operator == "*" else number**count.operand
