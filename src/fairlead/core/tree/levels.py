"""What is free, by type: a level of the tree is one row of arrays, kept up to date with every booking.

Owned by `core.tree.graph`; read by `core.tree.vector`. A level is all vertices of one type; all arrays hold
one level after the other. Counts of holders are per vertex; of leaves each parent knows how many are free.
What is below a vertex that a job holds exclusively cannot be reached, so it is not counted, unless the policy
ranks by how full subtrees are. Must not choose anything.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Ints, Tree
from fairlead.core.tree.matchpolicy import NODE, MatchPolicy
from fairlead.core.tree.spans import Spans, Times

if TYPE_CHECKING:
    from fairlead.core.tree.load import LevelLoad

Counts = NDArray[np.int32]
NODE_WEIGHT = 10_000
_MOST_TYPES = 62


class Level(NamedTuple):
    """What never changes about the vertices of one type."""

    vertices: Ints
    here: slice
    """Where the level is in arrays over all vertices."""
    above: str
    """The type of all their parents; empty if they differ, or for the root."""
    parent: Ints
    """[vertex] position of its parent in the level above."""
    first: Ints
    """[position above, and one more] where its children begin in this level."""
    size: int
    """Of each; 0 if they differ."""
    below: frozenset[str] | None
    """The types of the children of each; None if they differ."""
    leaf: bool
    score: Ints
    distinct: bool
    """Whether no two scores are equal."""
    rising: bool
    """Whether each score is higher than the one before."""
    siblings_rise: bool
    """The same among the children of one vertex."""


class Delta(NamedTuple):
    """Places, in arrays over all vertices, that a job holds."""

    exclusive: Ints
    any: Ints


class State:
    """How much is held at one span of time."""

    def __init__(self, levels: "Levels", ever: bool = False) -> None:
        """Nobody holds anything; `ever`: what is down counts as up, too."""
        self.levels = levels
        count = len(levels.vertices)
        self._exclusive: Counts = np.zeros(count, dtype=np.int32)
        self._any: Counts = np.zeros(count, dtype=np.int32)
        self._up = np.ones(count, dtype=np.bool_) if ever else levels.tree.up[levels.vertices]
        self._open, self._idle = self._up.copy(), np.ones(count, dtype=np.bool_)
        there = levels.counter[self._up]
        self._free: Ints = np.bincount(there[there >= 0], minlength=levels.counters)
        here = {type_: level.here for type_, level in levels.of.items()}
        self.open = {type_: self._open[at] for type_, at in here.items()}
        """Type -> [position] whether it is up and nobody's exclusively."""
        self.idle = {type_: self._idle[at] for type_, at in here.items()}
        """Type -> [position] whether nobody holds it, or anything below it that counts."""
        self.leaves = {type_: self._free[at] for type_, at in levels.counts_of.items()}
        """Type of leaves -> [position in the level above] how many of them are free and up."""

    def change(self, deltas: list[Delta], by: int) -> None:
        """Jobs come (1) or go (-1), all at once."""
        if not deltas:
            return
        if len(deltas) == 1:  # no place stands twice
            exclusive, held = deltas[0]
            self._exclusive[exclusive] += by
            self._any[held] += by
        else:
            exclusive = np.concatenate([delta.exclusive for delta in deltas])
            held = np.concatenate([delta.any for delta in deltas])
            np.add.at(self._exclusive, exclusive, by)
            np.add.at(self._any, held, by)
        self._open[exclusive] = self._up[exclusive] & (self._exclusive[exclusive] == 0)
        idle = self._any[held] == 0
        turned = held[idle != self._idle[held]]
        if not len(turned):
            return
        if len(deltas) > 1:
            turned = np.unique(turned)
        self._idle[turned] = by < 0
        counter = self.levels.counter[turned[self._up[turned]]]
        np.subtract.at(self._free, counter[counter >= 0], by)

    def set_up(self, place: int, up: bool) -> None:
        """One vertex comes up or goes down."""
        if self._up[place] == up:
            return
        self._up[place] = up
        self._open[place] = up and self._exclusive[place] == 0
        counter = int(self.levels.counter[place])
        if counter >= 0 and self._idle[place]:
            self._free[counter] += 1 if up else -1


class Moment:
    """A state and the span of time that is counted in it."""

    def __init__(self, state: State, now: bool) -> None:
        self.state, self.times = state, Times(now)


class Levels:
    """The levels of a tree, and what jobs hold of them at the spans of time last asked for."""

    def __init__(self, tree: Tree, policy: MatchPolicy) -> None:
        self.tree = tree
        self._all = bool(policy.load)
        by_type = [tree.of_type(type_) for type_ in tree.types]
        self.vertices = np.concatenate(by_type)
        """The vertices, one level after the other."""
        self.place = np.empty(len(tree), dtype=np.int64)
        """[vertex] its place in that order."""
        self.place[self.vertices] = np.arange(len(tree))
        self.counter = np.full(len(tree), -1, dtype=np.int64)
        """[place] of leaves: the count of free ones of their type that their parent has."""
        self.counters = 0
        self.counts_of: dict[str, slice] = {}
        self.of: dict[str, Level] = {}
        self._make(
            by_type, _node_scores(tree) if policy.node_centric else np.zeros(len(tree), dtype=np.int64)
        )
        self._spans: Spans[Delta] = Spans()
        self.load: LevelLoad | None = None
        """What `core.tree.vector` keeps here for policies that rank by it."""

    @cached_property
    def ever(self) -> State:
        """Nobody holds anything and everything is up."""
        return State(self, ever=True)

    @cached_property
    def _now(self) -> Moment:
        return Moment(State(self), now=True)

    @cached_property
    def _later(self) -> Moment:
        return Moment(State(self), now=False)

    def follow(self, jobs: dict[int, Job], changed: Iterable[int]) -> None:
        """Catch up with the jobs that came, went or changed."""
        for id_ in changed:
            old = self._spans.drop(id_)
            if old is not None:
                for moment in self._moments():
                    if moment.times.forget(old.slot):
                        moment.state.change([old.what], -1)
            job = jobs.get(id_)
            if job is not None:
                slot = self._spans.add(id_, job, self.delta(job))
                for moment in self._moments():
                    moment.times.note(slot)

    def at(self, ever: bool, now: bool, span: tuple[int, int]) -> State:
        """What is held at a span of time; the answer holds until the next question."""
        if ever:
            return self.ever
        moment = self._now if now else self._later
        left, come = moment.times.move(self._spans, span)
        moment.state.change(left, -1)
        moment.state.change(come, 1)
        return moment.state

    def set_up(self, v: int, up: bool) -> None:
        """One vertex comes up or goes down."""
        for moment in self._moments():
            moment.state.set_up(int(self.place[v]), up)

    def delta(self, job: Job) -> Delta:
        """What a job holds that others could reach."""
        parents, exclusive, shared = self.tree.parents, list[int](), list[int]()
        hidden: set[int] = set()
        for v in reversed(job.held):  # parents before their children
            inside = parents[v] in hidden
            if inside or job.held[v].exclusive:
                hidden.add(v)
            if inside and not self._all:
                continue
            if job.held[v].exclusive:
                exclusive.append(v)
                if self._all and not inside:  # full with all it has, named by the job or not
                    shared += [w for w in range(v + 1, int(self.tree.end[v])) if w not in job.held]
            else:
                shared.append(v)
        places = self.place[exclusive + shared]
        return Delta(places[: len(exclusive)], places)

    def _moments(self) -> list[Moment]:
        """The moments that somebody has asked for."""
        made = self.__dict__
        return [made[name] for name in ("_now", "_later") if name in made]

    def _make(self, by_type: list[Ints], above: Ints) -> None:
        """Fill `of`, `counts_of` and `counter`."""
        tree = self.tree
        contained = _contained(tree)
        starts = np.cumsum([0, *map(len, by_type)]).tolist()
        begins = dict(zip(tree.types, starts, strict=False))
        for type_, vertices in zip(tree.types, by_type, strict=True):
            here = slice(begins[type_], begins[type_] + len(vertices))
            parents = tree.parent[vertices]
            kinds = tree.kind[parents]
            named = bool(parents[0] >= 0 and (kinds == kinds[0]).all())
            upper = tree.types[int(kinds[0])] if named else ""
            parent = self.place[parents] - (begins[upper] if named else 0)
            length = len(tree.of_type(upper)) if named else 0
            level = _level(tree, vertices, here, upper, parent, length, above, contained)
            self.of[type_] = level
            if level.leaf and named:
                self.counter[here] = parent + self.counters
                self.counts_of[type_] = slice(self.counters, self.counters + length)
                self.counters += length


def _level(
    tree: Tree,
    vertices: Ints,
    here: slice,
    above: str,
    parent: Ints,
    length: int,
    added: Ints,
    contained: Ints | None,
) -> Level:
    """One level; `length` is that of the level above, `added` what nodes add to scores."""
    sizes, score = tree.size[vertices], added[vertices] + tree.id[vertices] + 2
    steps = np.diff(score) > 0
    rising = bool(steps.all())
    below: frozenset[str] | None = None
    if contained is not None and (contained[vertices] == contained[vertices[0]]).all():
        mask = int(contained[vertices[0]])
        below = frozenset(type_ for kind, type_ in enumerate(tree.types) if mask >> kind & 1)
    return Level(
        vertices,
        here,
        above,
        parent,
        np.searchsorted(parent, np.arange(length + 1)) if above else np.zeros(1, dtype=np.int64),
        int(sizes[0]) if (sizes == sizes[0]).all() else 0,
        below,
        bool((tree.end[vertices] == vertices + 1).all()),
        score,
        rising or (int(np.ptp(score)) >= len(score) - 1 and len(np.unique(score)) == len(score)),
        rising,
        bool((steps | (np.diff(tree.parent[vertices]) != 0)).all()),
    )


def _contained(tree: Tree) -> Ints | None:
    """[vertex] the types of its children as bits; None if there are too many types."""
    if len(tree.types) > _MOST_TYPES:
        return None
    found = np.zeros(len(tree), dtype=np.int64)
    for number, type_ in enumerate(tree.types):
        parents = tree.parent[tree.of_type(type_)]
        has = np.zeros(len(tree), dtype=np.bool_)
        has[parents[parents >= 0]] = True
        found[has] |= 1 << number
    return found


def _node_scores(tree: Tree) -> Ints:
    """[vertex] what the nodes above it add to its score."""
    added = np.zeros(len(tree) + 1, dtype=np.int64)
    nodes = tree.of_type(NODE)
    factor = (tree.id[nodes] + 2) * NODE_WEIGHT + np.abs(tree.uniq_id[nodes] % NODE_WEIGHT - 1)
    np.add.at(added, nodes + 1, factor)
    np.subtract.at(added, tree.end[nodes], factor)
    return np.cumsum(added)[:-1]
