"""What slots side by side can never have, whatever is chosen: the "never" of a request matched greedily.

Called by `core.tree.graph`. Each question is one that every true match answers with yes: whether there is so
much of each type at all, whether each kind of slot fits alone, and whether as many slots as all kinds have
together fit if each asks only for the least that any kind asks for. Yes to all is not yet a match.
Must not change anything.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from fairlead.core.tree.admission import Allowed
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.counts import together
from fairlead.core.tree.room import demands
from fairlead.core.tree.together import Part, Select, parts_of
from fairlead.model.jobspec import SLOT, Count, Resource

_ANY = Count(1, (1 << 32) - 1)


class Bound:
    """One request; `select` matches against the tree with everything free and up."""

    def __init__(
        self, tree: Tree, select: Select, whole: Callable[[str], int], allowed: Allowed | None
    ) -> None:
        """`whole` says how much of a type there is in the tree."""
        self.tree, self._select, self._whole, self._allowed = tree, select, whole, allowed

    def possible(self, resources: Sequence[Resource]) -> bool:
        """Whether nothing shows that the request can never be met."""
        wants = [_least(each) for each in resources]
        if any(amount > self._whole(type_) for type_, amount in demands(wants).items()):
            return False
        for each in wants:
            if together(each.children):
                able = self._able(each)
                if sum(self.tree.sizes[v] for v in able) < each.count.min:
                    return False
        return all(self._select(part, self._allowed) is not None for part in self._weaker(wants))

    def _able(self, wanted: Resource) -> set[int]:
        """The vertices of a type below which nothing of what is asked is impossible."""
        tree = self.tree
        able: set[int] = set(tree.of_type(wanted.type).tolist())
        for each in wanted.children:
            if together(each.children):
                amounts: dict[int, int] = {}
                for v in self._able(each):
                    amounts[tree.parents[v]] = amounts.get(tree.parents[v], 0) + tree.sizes[v]
                able = {v for v in able if amounts.get(v, 0) >= each.count.min}
        for part in self._weaker(wanted.children):
            asked = replace(wanted, count=_ANY, exclusive=None, children=part)
            able &= (self._select((asked,), self._allowed) or {}).keys()
        return able

    def _weaker(self, wants: Sequence[Resource]) -> Iterator[Part]:
        """Requests that fit wherever all of one level does, and of which the match is certain."""
        slots: list[Resource] = []
        for part in parts_of(wants, self._whole):
            if together(part[0].children):
                continue
            if part[0].type == SLOT and len(part) == 1:
                slots.append(part[0])
                if not any(_has_slot(each) for each in part[0].children):
                    yield (replace(part[0], count=Count(1, 1)),)
            elif all(map(self._even, part)):
                yield part
        yield from ((each,) for each in slots if self._even(each))
        for number in range(2, len(slots) + 1):
            least = self._common(slots[:number])
            if least is not None:
                yield (least,)

    def _common(self, slots: Sequence[Resource]) -> Resource | None:
        """As many slots as these are, each of the least that all of them ask for; None if that is nothing."""
        parts = [
            {each.type: each for each in slot.children if not each.children and each.exclusive is None}
            for slot in slots
        ]
        types = [type_ for type_ in parts[0] if all(type_ in each for each in parts)]
        children = [
            replace(parts[0][type_], count=_exactly(min(each[type_].count.min for each in parts)))
            for type_ in types
            if self._even(parts[0][type_])
        ]
        every = [part.type for slot in slots for part in slot.children]
        if not children or not self._beside(every):
            return None
        return replace(
            slots[0], count=_exactly(sum(each.count.min for each in slots)), children=tuple(children)
        )

    def _even(self, wanted: Resource) -> bool:
        """Whether all vertices of each type are of one size: else how they make up an amount is a choice."""
        sizes = self.tree.size[self.tree.of_type(wanted.type)]
        even = wanted.type == SLOT or not len(sizes) or int(np.ptp(sizes)) == 0
        return even and all(map(self._even, wanted.children))

    def _beside(self, types: Sequence[str]) -> bool:
        """Whether these types lie only in vertices of one type, and none of those in another.

        Then a slot of some of them is looked for in the same vertices as one of all of them.
        """
        tree = self.tree
        parents = np.concatenate([tree.parent[tree.of_type(type_)] for type_ in dict.fromkeys(types)])
        if not len(parents) or int(parents.min()) < 0 or len(np.unique(tree.kind[parents])) != 1:
            return False
        above = np.unique(parents)
        return bool((tree.end[above[:-1]] <= above[1:]).all())


def _has_slot(wanted: Resource) -> bool:
    return wanted.type == SLOT or any(map(_has_slot, wanted.children))


def _least(wanted: Resource) -> Resource:
    """The resource with the least of every count."""
    return replace(wanted, count=_exactly(wanted.count.min), children=tuple(map(_least, wanted.children)))


def _exactly(number: int) -> Count:
    return Count(number, number)
