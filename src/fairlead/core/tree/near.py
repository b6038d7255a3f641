"""Few vertices: which candidates lie close together, for the policy locality.

Called by `core.tree.walk`. The span of a choice is how many racks it touches, then how many nodes, then how
many sockets, and so on: one number, in which a vertex of a wider level outweighs all below it. Candidates
that lie in one subtree are taken from the subtree where the span is least, of equals from the one that they
fill best; where no subtree has enough, the largest is taken whole. No choice by ids alone spans less.
"""

from collections.abc import Iterable, Sequence

from fairlead.core.tree.columns import Tree
from fairlead.core.tree.ranking import Group

_BITS = 24
"""No level has more than 2 to the power of this many vertices."""
_DEEPEST = 16


class Near:
    """Choices below the vertices of one tree."""

    def __init__(self, tree: Tree, leaves: Iterable[str]) -> None:
        """`leaves` are the types that have nothing below them: they do not count."""
        self._tree, self._leaves = tree, frozenset(leaves)
        self._weights: dict[int, int] = {}

    def weight(self, v: int) -> int:
        """What touching one vertex adds to a span."""
        found = self._weights.get(v)
        if found is None:
            depth = len(self._tree.ancestors(v))
            leaf = self._tree.type[v] in self._leaves
            found = self._weights[v] = 0 if leaf else 1 << _BITS * max(_DEEPEST - depth, 0)
        return found

    def choose(self, v: int, groups: Sequence[Group], count: int) -> tuple[list[Group], int]:
        """Groups below `v` that make up the count, and what they span together."""
        between = {id(group): self._between(v, group) for group in groups}
        ascending = sorted(groups, key=lambda group: group.score)
        choices = [self._closest(ascending, count, 0, between)]
        choices += [_front(order, count) for order in (ascending, list(reversed(ascending)))]
        spans = [self._span(chosen, between) for chosen in choices]
        least = min(spans)
        return choices[spans.index(least)], least

    def _between(self, v: int, group: Group) -> tuple[int, ...]:
        """The vertices below `v` and above the group, from the top."""
        found: list[int] = []
        above = self._tree.parents[group.picks[0].vertex]
        while above not in (v, -1):
            found.append(above)
            above = self._tree.parents[above]
        return tuple(reversed(found))

    def _span(self, chosen: Sequence[Group], between: dict[int, tuple[int, ...]]) -> int:
        touched = {v for group in chosen for v in between[id(group)]}
        return sum(map(self.weight, touched)) + sum(group.span for group in chosen)

    def _closest(
        self, groups: Sequence[Group], count: int, depth: int, between: dict[int, tuple[int, ...]]
    ) -> list[Group]:
        """The choice among these, which share what is above them up to `depth`."""
        here = [group for group in groups if len(between[id(group)]) == depth]
        below: dict[int, list[Group]] = {}
        for group in groups:
            if len(between[id(group)]) > depth:
                below.setdefault(between[id(group)][depth], []).append(group)
        if not below:
            return _front(sorted(here, key=lambda group: (group.span, group.score)), count)
        chosen: list[Group] = []
        while count > 0 and below:
            enough = [v for v, inside in below.items() if _size(inside) >= count]
            if enough:
                options = [(v, self._closest(below[v], count, depth + 1, between)) for v in enough]
                best = min(options, key=lambda each: (self._span(each[1], between), _size(below[each[0]])))
                return chosen + best[1]
            largest = max(below, key=lambda v: _size(below[v]))
            inside = below.pop(largest)
            chosen += inside
            count -= _size(inside)
        return chosen + _front(here, count)


def _size(groups: Iterable[Group]) -> int:
    return sum(group.size for group in groups)


def _front(groups: Sequence[Group], count: int) -> list[Group]:
    """As many from the front as make up the count."""
    chosen: list[Group] = []
    for group in groups:
        if count <= 0:
            break
        chosen.append(group)
        count -= group.size
    return chosen
