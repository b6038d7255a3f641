"""Slots: sets of children of one vertex that are taken together; and when enough has been found.

Called by `core.tree.walk`. Everything in a slot is exclusive. A vertex is never split between slots: one that
asks for 40 GB where vertices have 32 takes two. Must not know policies beyond which way they rank.
"""

from collections.abc import Sequence
from typing import Protocol

from fairlead.core.tree.counts import largest, taken
from fairlead.core.tree.matchpolicy import MatchPolicy
from fairlead.core.tree.near import Near
from fairlead.core.tree.ranking import Findings, Group, Pick
from fairlead.model.jobspec import SLOT, Resource


class Explorer(Protocol):
    """The part of the walk that slots need."""

    policy: MatchPolicy
    near: Near | None

    def explore(
        self, v: int, wants: Sequence[Resource], pristine: bool, exclusive: bool, found: Findings, times: int
    ) -> None:
        """Find candidates among the children."""


def fill(walk: Explorer, v: int, kinds: tuple[Resource, ...], found: Findings) -> None:
    """Add to `found` all slots that the children of the vertex can make."""
    parts: dict[str, Resource] = {}
    for slot in kinds:
        for part in slot.children:
            if part.type not in parts or largest(part.count) > largest(parts[part.type].count):
                parts[part.type] = part
    inside = Findings()
    walk.explore(v, tuple(parts.values()), False, True, inside, largest(kinds[-1].count))
    for type_ in list(inside.groups):
        inside.choose(type_, inside.there[type_], walk.policy.high)
        if walk.near is not None:
            inside.groups[type_].sort(key=lambda group: group.span)
    pattern = [0] * _fit(kinds[0], inside) if len(kinds) == 1 else _mixture(kinds, inside.there)
    supply = {type_: iter(groups) for type_, groups in inside.groups.items()}
    made: list[Group] = []
    for number in pattern:
        score, span = 1, 0
        picks: list[Pick] = []
        for part in kinds[number].children:
            count, got = taken(part.count, inside.there[part.type]), 0
            while got < count:
                group = next(supply[part.type], None)
                if group is None:
                    return  # the parts do not divide as counted: no slot here at all
                score += group.score
                span += group.span
                got += group.size
                picks.append(Pick(group.picks[0].vertex, group.size, True))
        made.append(Group(score, 1, tuple(picks), span=span))
    for group in made:
        found.add(SLOT, group)


def _fit(slot: Resource, inside: Findings) -> int:
    """How many slots of one kind whole vertices make up."""
    fits: list[int] = []
    for part in slot.children:
        count = taken(part.count, inside.there.get(part.type, 0))
        if count == 0:
            return 0
        share = Share(count)
        for group in inside.groups[part.type]:
            share.add(group.size)
        fits.append(share.full)
    return min(fits, default=0)


def _mixture(kinds: tuple[Resource, ...], there: dict[str, int]) -> list[int]:
    """Which kinds of slots, in which order, give the most slots out of these amounts."""
    types = sorted(there)
    known: dict[tuple[int, ...], tuple[int, int, tuple[int, ...]]] = {}

    def best(left: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        if left in known:
            return known[left]
        result: tuple[int, int, tuple[int, ...]] = (0, -1, ())
        most = -1
        for number, slot in enumerate(kinds):
            rest = list(left)
            for part in slot.children:
                at = types.index(part.type) if part.type in there else -1
                count = taken(part.count, rest[at]) if at >= 0 else 0
                if count == 0:
                    break
                rest[at] -= count
            else:
                following = tuple(rest)
                slots = best(following)[0]
                if slots > most:
                    most = slots
                    result = (slots + 1, number, following)
        known[left] = result
        return result

    pattern: list[int] = []
    state = tuple(there[type_] for type_ in types)
    while (step := best(state))[1] >= 0:
        pattern.append(step[1])
        state = step[2]
    return pattern


class Share:
    """Counts how often a number is reached by adding whole amounts."""

    def __init__(self, each: int) -> None:
        self.each, self.full, self._part = each, 0, 0

    def add(self, amount: int) -> None:
        """One more whole amount; what exceeds the number is lost."""
        self._part += amount
        if self._part >= self.each:
            self.full += 1
            self._part = 0


class Enough:
    """For policies that stop early: of which types enough has been found, and whether of all."""

    def __init__(self, wants: Sequence[Resource], times: int) -> None:
        self.types: set[str] = set()
        self._times = times
        self._shares = {each.type: Share(max(largest(each.count), 1)) for each in wants}
        self._before = dict.fromkeys(self._shares, 0)

    def after(self, found: Findings) -> bool:
        """Count what the last child brought; whether that is enough of everything."""
        for type_, share in self._shares.items():
            total = found.there.get(type_, 0)
            if total > self._before[type_]:
                share.add(total - self._before[type_])
                self._before[type_] = total
            if share.full >= self._times:
                self.types.add(type_)
        return len(self.types) == len(self._shares)
