"""Slots side by side: all of them together, one kind after the other in what the ones before have left.

Called by `core.tree.graph` for requests such as a leader and its workers. The harder kind is placed first and
held on trial; if a later one finds no place all is given up and the other order tried. Below a named vertex
that is done in each such vertex, in the order in which the policy likes them for the hardest kind, until
there are enough. So it is greedy: to find nothing does not mean that nothing is there; `core.tree.bound` says
what can never be. Must leave nothing on trial behind.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from fairlead.core.tree.admission import Allowed, Only
from fairlead.core.tree.bookings import Bookings, Held, Job, Span, holding
from fairlead.core.tree.columns import Mask, Tree, TreeError
from fairlead.core.tree.counts import largest, taken, together
from fairlead.core.tree.matchpolicy import NODE
from fairlead.core.tree.room import demands
from fairlead.model.jobspec import SLOT, Count, Resource

Select = Callable[[Sequence[Resource], Allowed | None], dict[int, Held] | None]
"""The best match of a request without slots side by side, within what is allowed."""
Part = tuple[Resource, ...]
"""Resources of one level that are placed at once."""

_ONE = Count(1, 1)
_FIRST = -(1 << 60)
"""Numbers of trials, from here down: no job has them."""
_SHARE = 1 << 40


class Trials:
    """What is held on trial, as if by jobs."""

    def __init__(self, bookings: Bookings, changed: dict[int, None], span: Span) -> None:
        """`changed` collects the numbers of all that come or go."""
        self._bookings, self._changed, self._span = bookings, changed, span
        self._held: dict[int, dict[int, Held]] = {}

    def hold(self, held: dict[int, Held]) -> int:
        """Hold these vertices; the number of the trial."""
        id_ = _FIRST - len(self._held)
        while id_ in self._held:
            id_ -= 1
        self._held[id_] = held
        self._bookings.add(Job(id_, *self._span, False, held, counts=False))
        self._changed[id_] = None
        return id_

    def drop(self, ids: Iterable[int]) -> None:
        """Give these back."""
        for id_ in list(ids):
            del self._held[id_]
            self._bookings.remove(id_)
            self._changed[id_] = None

    def clear(self) -> dict[int, Held]:
        """Give all back; what it was."""
        held = list(self._held.values())
        self.drop(self._held)
        return held[0] if len(held) == 1 else merged(held)


class Together:
    """The match of one request at one span of time."""

    def __init__(
        self, tree: Tree, select: Select, trials: Trials, whole: Callable[[str], int], allowed: Allowed | None
    ) -> None:
        """`whole` says how much of a type there is in the tree."""
        self.tree, self.trials, self.allowed = tree, trials, allowed
        self._select, self._whole = select, whole

    def select(self, resources: Sequence[Resource]) -> dict[int, Held] | None:
        """All that the match takes, children before their parent; None if nothing was found."""
        try:
            placed = self._place(resources, None)
        finally:
            held = self.trials.clear()
        return None if placed is None else ordered(self.tree, held)

    def _place(self, wants: Sequence[Resource], inside: tuple[Resource, int] | None) -> list[int] | None:
        """The trials that hold all the resources, below a chosen vertex if there is one."""
        parts = parts_of(wants, self._whole)
        for order in (parts, parts[::-1]) if len(parts) > 1 else (parts,):
            placed: list[int] = []
            for part in order:
                more = self._part(part, inside)
                if more is None:
                    self.trials.drop(placed)
                    break
                placed += more
            else:
                return placed
        return None

    def _part(self, part: Part, inside: tuple[Resource, int] | None) -> list[int] | None:
        if together(part[0].children):
            return self._choose(part[0], inside)
        allowed = self.allowed
        if inside is not None:
            outer, v = inside
            here = self.tree.of_type(outer.type) == v
            allowed = Only(allowed, self.tree, outer.type, here)
            part = (replace(outer, count=_ONE, exclusive=None, children=part),)
        held = self._select(part, allowed)
        return None if held is None else [self.trials.hold(held)]

    def _choose(self, wanted: Resource, inside: tuple[Resource, int] | None) -> list[int] | None:
        """Vertices, as many as wanted, of which each holds everything that is asked below it."""
        tree = self.tree
        vertices = tree.of_type(wanted.type)
        left: Mask = np.ones(len(vertices), dtype=np.bool_)
        if inside is not None:
            left = tree.parent[vertices] == inside[1]
        sketch = replace(_sketch(wanted, self._whole), count=_ONE)
        chosen: list[tuple[int, list[int]]] = []
        got = 0
        while got < largest(wanted.count) and (v := self._best(sketch, left)) is not None:
            left[np.searchsorted(vertices, v)] = False
            placed = self._place(wanted.children, (wanted, v))
            if placed is not None:
                chosen.append((tree.sizes[v], self._alone(v, placed) if wanted.exclusive else placed))
                got += tree.sizes[v]
        number = taken(wanted.count, got)
        while chosen and (number == 0 or got - chosen[-1][0] >= number):
            size, more = chosen.pop()
            self.trials.drop(more)
            got -= size
        return [id_ for _, placed in chosen for id_ in placed] or None

    def _best(self, sketch: Resource, left: Mask) -> int | None:
        """The best of these vertices for what is hardest to place below it."""
        held = self._select((sketch,), Only(self.allowed, self.tree, sketch.type, left))
        if held is None:
            return None
        return next(v for v in reversed(held) if self.tree.type[v] == sketch.type)

    def _alone(self, v: int, placed: list[int]) -> list[int]:
        """Hold a vertex with all below it instead of what was placed there."""
        self.trials.drop(placed)
        return [self.trials.hold(closure(self.tree, below(self.tree, [v])))]


# -- requests ----------------------------------------------------------------------------------------


def check(resources: Sequence[Resource], in_slot: bool = False) -> None:
    """Raises TreeError if slots stand side by side within a slot."""
    if in_slot and sum(each.type == SLOT for each in resources) > 1:
        raise TreeError("the jobspec has several slots side by side within a slot; name them one level up")
    for each in resources:
        check(each.children, in_slot or each.type == SLOT)


def parts_of(wants: Sequence[Resource], whole: Callable[[str], int]) -> list[Part]:
    """What is placed apart, the hardest first: that of which one takes the largest share of the tree."""
    slots = sum(each.type == SLOT for each in wants) > 1
    parts: list[Part] = []
    rest: list[Resource] = []
    for each in wants:
        if (slots and each.type == SLOT) or together(each.children):
            parts.append((each,))
        else:
            rest.append(each)
    if rest:
        parts.append(tuple(rest))
    return sorted(parts, key=lambda part: -_share(part, whole))


def _share(part: Part, whole: Callable[[str], int]) -> int:
    asked = demands([replace(each, count=_ONE) for each in part])
    return max((amount * _SHARE // max(whole(type_), 1) for type_, amount in asked.items()), default=0)


def _sketch(wanted: Resource, whole: Callable[[str], int]) -> Resource:
    """The resource with only what is hardest to place of everything side by side below it."""
    if not together(wanted.children):
        return wanted
    hardest = parts_of(wanted.children, whole)[0]
    return replace(wanted, children=tuple(_sketch(each, whole) for each in hardest))


# -- what is held ------------------------------------------------------------------------------------


def closure(tree: Tree, vertices: Iterable[int]) -> dict[int, Held]:
    """These vertices exclusively and all above them shared, children before their parents."""
    chosen = set(vertices)
    all_ = chosen | {above for v in chosen for above in tree.ancestors(v)}
    return ordered(tree, {v: holding(tree.sizes[v], v in chosen) for v in all_})


def below(tree: Tree, vertices: Iterable[int]) -> Iterator[int]:
    """These vertices and all below them."""
    for v in vertices:
        yield from range(v, int(tree.end[v]))


def with_whole_nodes(
    tree: Tree, held: dict[int, Held], idle: Callable[[int], bool]
) -> dict[int, Held] | None:
    """The same with all of each node; None if one of them is not `idle`, for somebody has a part of it."""
    nodes = [v for v in held if tree.type[v] == NODE]
    if not all(map(idle, nodes)):
        return None
    return ordered(tree, merged([held, closure(tree, below(tree, nodes))])) if nodes else held


def merged(all_: Iterable[dict[int, Held]]) -> dict[int, Held]:
    """What all of these hold."""
    found: dict[int, Held] = {}
    for held in all_:
        for v, each in held.items():
            other = found.get(v, each)
            found[v] = holding(max(each.needs, other.needs), each.exclusive or other.exclusive)
    return found


def ordered(tree: Tree, held: dict[int, Held]) -> dict[int, Held]:
    """Children before their parent."""
    return {v: held[v] for v in sorted(held, key=lambda v: (int(tree.end[v]), -v))}
