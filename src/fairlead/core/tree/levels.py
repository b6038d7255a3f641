"""What is free, by type: a level of the tree is one row of arrays, kept up to date with every booking.

Owned by `core.tree.graph`; read by `core.tree.vector`. A level is all vertices of one type. Counts of
holders are per vertex; of leaves each parent knows how many are free. Must not choose anything.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Ints, Mask, Tree
from fairlead.core.tree.matchpolicy import NODE, MatchPolicy

if TYPE_CHECKING:
    from fairlead.core.tree.load import LevelLoad

Counts = NDArray[np.int32]
NODE_WEIGHT = 10_000


class Level(NamedTuple):
    """What never changes about the vertices of one type."""

    vertices: Ints
    above: str
    """The type of all their parents; empty if they differ, or for the root."""
    parent: Ints
    """[vertex] position of its parent in the level above."""
    size: int
    """Of each; 0 if they differ."""
    below: frozenset[str] | None
    """The types of the children of each; None if they differ."""
    leaf: bool
    score: Ints
    distinct: bool
    """Whether no two scores are equal."""


class Use(NamedTuple):
    """Who holds the vertices of one level: how many jobs exclusively, how many at all."""

    exclusive: Counts
    any: Counts


class Delta(NamedTuple):
    """Positions in one level that a job holds."""

    type: str
    exclusive: Ints
    any: Ints


class State:
    """How much is held at one span of time."""

    def __init__(self, levels: "Levels", ever: bool = False) -> None:
        """Nobody holds anything; `ever`: what is down counts as up, too."""
        self.levels = levels
        sizes = {type_: len(level.vertices) for type_, level in levels.of.items()}
        self.use = {
            type_: Use(np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)) for type_, n in sizes.items()
        }
        up = levels.tree.up
        self.up: dict[str, Mask] = {
            type_: np.ones(sizes[type_], dtype=np.bool_) if ever else up[level.vertices]
            for type_, level in levels.of.items()
        }
        self.leaves: dict[str, Ints] = {}
        """Type of leaves -> [position in the level above] how many of them are free and up."""
        for type_, level in levels.of.items():
            if level.leaf and level.above:
                parents = level.parent[self.up[type_]]
                self.leaves[type_] = np.bincount(parents, minlength=sizes[level.above])

    def change(self, deltas: Iterable[Delta], by: int) -> None:
        """Jobs come (1) or go (-1), all at once."""
        merged: dict[str, list[Delta]] = {}
        for delta in deltas:
            merged.setdefault(delta.type, []).append(delta)
        for type_, all_ in merged.items():
            use = self.use[type_]
            np.add.at(use.exclusive, np.concatenate([delta.exclusive for delta in all_]), by)
            held = np.concatenate([delta.any for delta in all_])
            if type_ not in self.leaves:
                np.add.at(use.any, held, by)
                continue
            touched = np.unique(held) if len(all_) > 1 else held
            touched = touched[self.up[type_][touched]]
            before = use.any[touched] == 0
            np.add.at(use.any, held, by)
            turned = touched[before != (use.any[touched] == 0)]
            np.subtract.at(self.leaves[type_], self.levels.of[type_].parent[turned], by)


class Moment(NamedTuple):
    """A state and the jobs that are counted in it."""

    state: State
    jobs: dict[int, None]


class Levels:
    """The levels of a tree, and what jobs hold of them at the span of time last asked for."""

    def __init__(self, tree: Tree, policy: MatchPolicy) -> None:
        self.tree = tree
        self.of: dict[str, Level] = {}
        self.position = np.zeros(len(tree), dtype=np.int64)
        above = _node_scores(tree) if policy.node_centric else np.zeros(len(tree), dtype=np.int64)
        for type_ in tree.types:
            vertices = tree.of_type(type_)
            self.position[vertices] = np.arange(len(vertices))
        for type_ in tree.types:
            self.of[type_] = self._level(tree.of_type(type_), above)
        self._now, self._later = Moment(State(self), {}), Moment(State(self), {})
        self.ever = State(self, ever=True)
        self._jobs: dict[int, list[Delta]] = {}
        self.load: LevelLoad | None = None
        """What `core.tree.vector` keeps here for policies that rank by it."""

    def follow(self, jobs: dict[int, Job], changed: Iterable[int]) -> None:
        """Catch up with the jobs that came, went or changed."""
        for id_ in changed:
            old = self._jobs.pop(id_, None)
            for moment in (self._now, self._later):
                if old is not None and id_ in moment.jobs:
                    moment.state.change(old, -1)
                    del moment.jobs[id_]
            if id_ in jobs:
                self._jobs[id_] = self.deltas(jobs[id_])

    def at(self, jobs: dict[int, Job], ever: bool, now: bool, span: tuple[int, int]) -> State:
        """What is held at a span of time; the answer holds until the next question."""
        if ever:
            return self.ever
        moment = self._now if now else self._later
        start, end = span
        wanted = {
            id_: None
            for id_, job in jobs.items()
            if (now and not job.reserved) or (job.start < end and start < job.end)
        }
        left = [delta for id_ in moment.jobs if id_ not in wanted for delta in self._jobs[id_]]
        come = [delta for id_ in wanted if id_ not in moment.jobs for delta in self._jobs[id_]]
        moment.state.change(left, -1)
        moment.state.change(come, 1)
        self._now, self._later = (
            (Moment(moment.state, wanted), self._later) if now else (self._now, Moment(moment.state, wanted))
        )
        return moment.state

    def deltas(self, job: Job) -> list[Delta]:
        """What a job holds, by level."""
        any_: dict[str, list[int]] = {}
        exclusive: dict[str, list[int]] = {}
        types = self.tree.type
        for v, held in job.held.items():
            any_.setdefault(types[v], []).append(v)
            if held.exclusive:
                exclusive.setdefault(types[v], []).append(v)
        position, none = self.position, np.zeros(0, dtype=np.int64)
        return [
            Delta(type_, position[exclusive[type_]] if type_ in exclusive else none, position[all_])
            for type_, all_ in any_.items()
        ]

    def _level(self, vertices: Ints, above: Ints) -> Level:
        tree = self.tree
        parents = tree.parent[vertices]
        kinds: list[int] = np.unique(tree.kind[parents]).tolist() if parents[0] >= 0 else []
        sizes = np.unique(tree.size[vertices])
        here: list[int] = vertices.tolist()
        below = {frozenset(tree.type[child] for child in tree.children[v]) for v in here}
        score = above[vertices] + tree.id[vertices] + 2
        return Level(
            vertices,
            tree.types[kinds[0]] if len(kinds) == 1 else "",
            self.position[parents],
            int(sizes[0]) if len(sizes) == 1 else 0,
            below.pop() if len(below) == 1 else None,
            bool((tree.end[vertices] == vertices + 1).all()),
            score,
            len(np.unique(score)) == len(score),
        )


def _node_scores(tree: Tree) -> Ints:
    """[vertex] what the nodes above it add to its score."""
    added = np.zeros(len(tree) + 1, dtype=np.int64)
    for v in tree.of_type(NODE).tolist():
        factor = (int(tree.id[v]) + 2) * NODE_WEIGHT + abs(int(tree.uniq_id[v]) % NODE_WEIGHT - 1)
        added[v + 1] += factor
        added[tree.end[v]] -= factor
    return np.cumsum(added)[:-1]
