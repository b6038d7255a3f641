"""Counts of jobspecs: how many of what is there a request takes. Called by all that match."""

from collections.abc import Iterator, Sequence
from itertools import islice, product

from msgspec.structs import replace

from fairlead.core.tree.matchpolicy import NODE
from fairlead.model.jobspec import SLOT, XOR_SLOT, Count, Resource

MOST_ALTERNATIVES = 1000
"""How many combinations of xor_slots are tried."""


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
    """How many nodes the least that a request takes is made of; sibling slots may be alternatives."""
    asked = [
        (each.type, each.count.min * (1 if each.type == NODE else nodes_asked(each.children)))
        for each in resources
    ]
    slots = [n for type_, n in asked if type_ == SLOT]
    return sum(n for type_, n in asked if type_ != SLOT) + min(slots, default=0)


def together(resources: Sequence[Resource]) -> bool:
    """Whether several slots stand side by side at some level."""
    slots = 0
    for each in resources:
        slots += each.type == SLOT
        if slots > 1 or (each.children and together(each.children)):
            return True
    return False


def alternatives(resources: tuple[Resource, ...]) -> Iterator[tuple[Resource, ...]]:
    """Every request that results from taking one of each set of sibling xor_slots, in order, as a slot."""
    yield from islice(_alternatives(resources), MOST_ALTERNATIVES)


def _alternatives(resources: tuple[Resource, ...]) -> Iterator[tuple[Resource, ...]]:
    choices = [each for each in resources if each.type == XOR_SLOT]
    rest = [each for each in resources if each.type != XOR_SLOT]
    for chosen in choices or [None]:
        each = rest if chosen is None else [*rest, replace(chosen, type=SLOT)]
        below = [[replace(one, children=kids) for kids in _alternatives(one.children)] for one in each]
        yield from product(*below)


def _next(count: Count, number: int) -> int:
    return number * count.operand if count.operator == "*" else number**count.operand
