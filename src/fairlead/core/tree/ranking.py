"""Candidates below one vertex, grouped by type, and the choice of the best of them.

Called by `core.tree.walk`. The order of equal scores is Fluxion's, which sorts with an unstable quicksort:
for few candidates that is stable, for more than sixteen `unstable` does the same exchanges.
Must not look at a tree.
"""

from collections.abc import Callable
from functools import cmp_to_key
from typing import NamedTuple

FEW = 16
"""Up to so many candidates equal scores keep their order."""


class Pick(NamedTuple):
    """A vertex to take: how much of it, and whether exclusively."""

    vertex: int
    needs: int
    exclusive: bool


class Group(NamedTuple):
    """Candidates that are taken together: one vertex, or all that makes up one slot."""

    score: int
    size: int
    """How much of the type it counts for."""
    picks: tuple[Pick, ...]
    root: bool = False
    span: int = 0
    """What it touches at and below its picks, for the policy locality: see `core.tree.near`."""


class Findings:
    """What was found below a vertex (or at a slot), by type."""

    def __init__(self) -> None:
        self.groups: dict[str, list[Group]] = {}
        self.there: dict[str, int] = {}
        """Type -> how many of it were found."""
        self.chosen: dict[str, int] = {}
        """Type -> how many groups of it, from the front, are taken."""
        self.score = 0
        self.span = 0
        """What is chosen so far spans, for the policy locality."""
        self.last_span = 0
        """The same of the vertex that was added last."""

    def add(self, type_: str, group: Group) -> None:
        """One more candidate."""
        self.groups.setdefault(type_, []).append(group)
        self.there[type_] = self.there.get(type_, 0) + group.size

    def merge(self, other: "Findings") -> None:
        """Take over the candidates of a vertex that the request does not name."""
        for type_, groups in other.groups.items():
            self.groups.setdefault(type_, []).extend(groups)
            self.there[type_] = self.there.get(type_, 0) + other.there[type_]

    def choose(self, type_: str, count: int, high: bool) -> None:
        """Take the best groups that make up this count."""
        groups = ranked(self.groups[type_], high)
        self.groups[type_] = groups
        left, taken = count, 0
        while left > 0:
            left -= groups[taken].size
            taken += 1
        self.chosen[type_] = taken

    def take(self, type_: str, groups: list[Group], span: int) -> None:
        """Take these groups, which somebody else chose; `span` is what they touch."""
        self.groups[type_], self.chosen[type_] = groups, len(groups)
        self.span += span

    def taken(self) -> list[Group]:
        """All groups that were chosen."""
        return [group for type_, k in self.chosen.items() for group in self.groups[type_][:k]]


def ranked(groups: list[Group], high: bool) -> list[Group]:
    """By score, the best first."""
    scores = {group.score for group in groups}
    if len(groups) <= FEW or len(scores) == len(groups):
        return sorted(groups, key=_score, reverse=high)
    if high:
        return unstable(groups, lambda a, b: a.score > b.score)
    return unstable(groups, lambda a, b: a.score < b.score)


def unstable(items: list[Group], before: Callable[[Group, Group], bool]) -> list[Group]:
    """Sorted by quicksort with the median of three down to runs of sixteen, the rest by insertion."""
    found = list(items)
    pending = [(0, len(found))]
    while pending:
        first, last = pending.pop()
        while last - first > FEW:
            cut = _split(found, first, last, before)
            pending.append((cut, last))
            last = cut
    # What is left is runs in order, so insertion never moves anything far; it is stable, as sorted() is.
    return sorted(found, key=cmp_to_key(lambda a, b: before(b, a) - before(a, b)))


def _split(a: list[Group], first: int, last: int, before: Callable[[Group, Group], bool]) -> int:
    """Partition around the median of the second, middle and last, which is moved to the front."""
    x, y, z = first + 1, first + (last - first) // 2, last - 1
    if before(a[x], a[y]):
        middle = y if before(a[y], a[z]) else z if before(a[x], a[z]) else x
    else:
        middle = x if before(a[x], a[z]) else z if before(a[y], a[z]) else y
    a[first], a[middle] = a[middle], a[first]
    pivot, low, high = a[first], first + 1, last
    while True:
        while before(a[low], pivot):
            low += 1
        high -= 1
        while before(pivot, a[high]):
            high -= 1
        if low >= high:
            return low
        a[low], a[high] = a[high], a[low]
        low += 1


def _score(group: Group) -> int:
    return group.score
