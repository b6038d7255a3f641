"""The ranked policies over whole levels at once: the same choice as `core.tree.walk`, with little walking.

Called by `core.tree.graph` for requests of the common forms; others go to the walk. Bottom up, which vertices
of each level could serve their part of the request; then top down, the best of them by score; only below the
chosen ones does the walk descend. Must not change anything.
"""

import numpy as np

from fairlead.core.tree.admission import NODES
from fairlead.core.tree.bookings import Held
from fairlead.core.tree.columns import Ints, Mask
from fairlead.core.tree.counts import taken
from fairlead.core.tree.levels import Level, State
from fairlead.core.tree.load import LevelLoad, weights
from fairlead.core.tree.ranking import FEW, Group, Pick, ranked
from fairlead.core.tree.walk import Walk
from fairlead.model.jobspec import SLOT, XOR_SLOT, Resource

_FAR = 1 << 62
"""Beyond every score."""


class Unusual(Exception):
    """A request, or a tree, of a form that only the walk can match."""


class Vector:
    """One match; `walk` has the span of time, the policy and the constraint."""

    def __init__(self, walk: Walk, state: State) -> None:
        self.walk, self.state, self.levels = walk, state, state.levels
        self._masks: dict[int, Mask] = {}
        self._weights: dict[str, int] = {}
        self._added: dict[str, Ints] = {}
        """Type -> what vertices of a level add to their scores by how full they are."""

    def select(self, resources: tuple[Resource, ...]) -> dict[int, Held] | None:
        """As Walk.select. Raises Unusual, before anything is marked, if the walk has to do it."""
        if len(resources) != 1:
            raise Unusual
        policy = self.walk.policy
        if policy.load:
            self.walk.weigh(resources)
            self._weights = weights(policy.load, resources, self.walk.order, self.walk.tree)
        wanted, slot = resources[0], resources[0].type == SLOT
        count = wanted.count
        if slot:
            wanted = _only_part(wanted)
        level = self._level(wanted.type)
        if slot and (not level.above or not (level.distinct or len(level.vertices) <= FEW)):
            raise Unusual
        mask = self._mask(wanted, slot) & self._reached(level)
        if policy.load:
            self._weigh(wanted)
        size = 1 if slot else level.size
        number = taken(count, int(np.count_nonzero(mask)) * size)
        if number == 0:
            return None
        whole = slot or bool(wanted.exclusive)
        for at in self._best(level, mask, -(-number // size)):
            self._take(level, at, wanted, whole)
        return self.walk.held(resources)

    # -- bottom up -----------------------------------------------------------------------------------

    def _mask(self, wanted: Resource, exclusive: bool) -> Mask:
        """[position] which vertices of its level could serve a resource."""
        if exclusive and wanted.exclusive is False:
            raise Unusual
        level = self._level(wanted.type)
        exclusive = exclusive or bool(wanted.exclusive)
        mask = self._open(wanted.type)
        if exclusive:
            mask = mask & self.state.idle[wanted.type]
        slot = [each for each in wanted.children if each.type == SLOT]
        if slot and len(wanted.children) > 1:
            raise Unusual
        for child in wanted.children:
            least = max(child.count.min, 1)
            if child.type == SLOT:
                mask = mask & self._slots(wanted.type, level, child, least)
            else:
                mask = mask & (self._sum(wanted.type, child, exclusive) >= least)
        if any(each.count.min > each.count.max for each in wanted.children):
            raise Unusual
        self._masks[id(wanted)] = mask
        return mask

    def _open(self, type_: str) -> Mask:
        """[position] up, held by nobody exclusively, admitted."""
        mask, allowed = self.state.open[type_], self.walk.allowed
        return mask & allowed.level(type_) if allowed is not None and type_ in allowed.types else mask

    def _sum(self, above: str, child: Resource, exclusive: bool) -> Ints:
        """[position above] how much its children have that could serve a resource."""
        return self._whole(above, child, exclusive) * self._level(child.type).size

    def _whole(self, above: str, child: Resource, exclusive: bool) -> Ints:
        """[position above] how many of its children could serve a resource."""
        level = self._level(child.type)
        if level.above != above:
            raise Unusual
        if _plain(level, child):
            return self.state.leaves[child.type]
        mask = self._mask(child, exclusive)
        return np.bincount(level.parent[mask], minlength=len(self.levels.of[above].vertices))

    def _slots(self, type_: str, level: Level, slot: Resource, least: int) -> Mask:
        """[position] whether each vertex has so many slots, itself or in children that have the parts."""
        parts = {part.type for part in slot.children}
        if level.below is None:
            raise Unusual
        if parts <= level.below:
            each = [there >= least * number for there, number in self._parts(type_, slot)]
            return np.logical_and.reduce(each) if len(each) > 1 else each[0]
        below = {each: self.levels.of[each].below for each in level.below}
        inner = [each for each, types in below.items() if types is not None and parts <= types]
        if len(inner) != 1 or any(types is None for types in below.values()):
            raise Unusual
        within = self.levels.of[inner[0]]
        fits = np.minimum.reduce([there // number for there, number in self._parts(inner[0], slot)])
        fits = np.where(self._open(inner[0]), fits, 0)
        return np.bincount(within.parent, weights=fits, minlength=len(level.vertices)) >= least

    def _parts(self, type_: str, slot: Resource) -> list[tuple[Ints, int]]:
        """For each part of a slot: [position] how many whole children serve it, and how many a slot takes."""
        result: list[tuple[Ints, int]] = []
        if len({part.type for part in slot.children}) < len(slot.children):
            raise Unusual
        for part in slot.children:
            if part.count.min != part.count.max or part.count.min < 1 or part.type == SLOT:
                raise Unusual
            result.append((self._whole(type_, part, True), -(-part.count.min // self._level(part.type).size)))
        if not result:
            raise Unusual
        return result

    def _reached(self, level: Level) -> Mask:
        """[position] whether nothing above is down or held exclusively."""
        if not level.above:
            return np.ones(len(level.vertices), dtype=np.bool_)
        upper = self.levels.of[level.above]
        mask = self._open(level.above) & self._reached(upper)
        return mask[level.parent] if not mask.all() else np.ones(len(level.vertices), dtype=np.bool_)

    def _level(self, type_: str) -> Level:
        level = self.levels.of.get(type_)
        if type_ in (SLOT, XOR_SLOT) or level is None or not level.size:
            raise Unusual
        if not level.above and level.vertices[0] != 0:
            raise Unusual
        return level

    # -- top down ------------------------------------------------------------------------------------

    def _best(self, level: Level, mask: Mask, number: int, first: int = 0) -> list[int]:
        """The best of the mask's places, which begins at `first`, in the walk's order of equal scores."""
        if number == 1 and level.rising and not self.walk.policy.load:
            return [len(mask) - 1 - int(mask[::-1].argmax()) if self.walk.policy.high else int(mask.argmax())]
        here, high = slice(first, first + len(mask)), self.walk.policy.high
        scores = level.score[here]
        if self.walk.policy.load:
            scores = scores + self._added[self.walk.tree.type[int(level.vertices[0])]][here]
        if level.distinct and number == 1:
            return [
                int(np.where(mask, scores, -_FAR).argmax() if high else np.where(mask, scores, _FAR).argmin())
            ]
        found = np.flatnonzero(mask)
        scores = scores[found]
        if number == len(found):
            return found.tolist()
        if level.distinct:
            keys = -scores if high else scores
            return found[np.argpartition(keys, number - 1)[:number]].tolist()
        groups = [
            Group(score, 1, (Pick(at, 1, False),))
            for at, score in zip(found.tolist(), scores.tolist(), strict=True)
        ]
        return [group.picks[0].vertex for group in ranked(groups, high)[:number]]

    def _weigh(self, wanted: Resource) -> None:
        """Fill `_added` for all levels that the descent will come to. Raises Unusual."""
        if self.levels.load is None:
            self.levels.load = LevelLoad(self.walk.policy.load, self.levels, self.walk.order)
        added = self.levels.load.scores(wanted.type, self.state, self._weights)
        if added is None:
            raise Unusual
        self._added[wanted.type] = added
        if all(id(child) in self._masks for child in wanted.children):
            for child in wanted.children:
                self._weigh(child)

    def _take(self, level: Level, at: int, wanted: Resource, exclusive: bool) -> None:
        """Mark a chosen vertex, what is above it, and the best below it."""
        walk, v = self.walk, int(level.vertices[at])
        walk.mark(v, exclusive)
        if not wanted.children or self._take_slots(at, wanted):
            return
        if any(id(each) not in self._masks for each in wanted.children):
            walk.within(v, wanted, exclusive)
            return
        for child in wanted.children:
            lower = self.levels.of[child.type]
            first, last = int(lower.first[at]), int(lower.first[at + 1])
            mask = self._masks[id(child)][first:last]
            number = -(-taken(child.count, int(np.count_nonzero(mask)) * lower.size) // lower.size)
            for place in self._best(lower, mask, number, first):
                self._take(lower, first + place, child, exclusive or bool(child.exclusive))

    def _take_slots(self, at: int, wanted: Resource) -> bool:
        """Mark the best slots below a vertex if their parts are plain leaves of it; whether they are."""
        slot = wanted.children[0]
        if slot.type != SLOT or not all(self._simple(part, wanted.type) for part in slot.children):
            return False
        free: list[tuple[list[int], int]] = []
        for part in slot.children:
            leaves = self.levels.of[part.type]
            here = slice(int(leaves.first[at]), int(leaves.first[at + 1]))
            there = np.flatnonzero(self.state.open[part.type][here] & self.state.idle[part.type][here])
            best = leaves.vertices[here][there[::-1] if self.walk.policy.high else there]
            free.append((best.tolist(), -(-part.count.min // leaves.size)))
        slots = taken(slot.count, min(len(best) // each for best, each in free))
        for best, each in free:
            for v in best[: slots * each]:
                self.walk.mark(v, True)
        return True

    def _simple(self, part: Resource, above: str) -> bool:
        """Whether the best leaves for a part are those with the lowest, or highest, numbers."""
        level = self.levels.of[part.type]
        return level.above == above and level.siblings_rise and _plain(level, part)


def _plain(level: Level, wanted: Resource) -> bool:
    """Whether every leaf that is free and up serves."""
    leaf = level.leaf and not wanted.children
    return leaf and wanted.exclusive is not False and wanted.type not in NODES


def _only_part(slot: Resource) -> Resource:
    """The part of a slot that is exactly one vertex of size one."""
    if len(slot.children) != 1:
        raise Unusual
    part = slot.children[0]
    if part.type == SLOT or part.count.min != 1 or part.count.max != 1:
        raise Unusual
    return part
