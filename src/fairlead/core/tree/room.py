"""How much of each type is held over time in the whole tree: at which instants a request could fit at all.

Owned by `core.tree.bookings`. It only rules instants out, by amounts: whether a request does fit is for the
match to say. Times are whole seconds. Must not know where anything is.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fairlead.core.tree.columns import Ints
from fairlead.model.jobspec import SLOT, Resource


class Room:
    """Steps in time: from times[i] on, so much more (or less) of a type is held than before."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._jobs: list[int] = []
        """How many jobs start or end at each time; those without any are dropped."""
        self._steps: dict[str, list[int]] = {}

    def change(self, start: int, end: int, amounts: Mapping[str, int], by: int) -> None:
        """A job holds these amounts from start to end (1), or no longer (-1)."""
        for type_ in amounts:
            if type_ not in self._steps:
                self._steps[type_] = [0] * len(self._times)
        for time, sign in ((start, by), (end, -by)):
            at = bisect_left(self._times, time)
            if at == len(self._times) or self._times[at] != time:
                self._times.insert(at, time)
                self._jobs.insert(at, 0)
                for steps in self._steps.values():
                    steps.insert(at, 0)
            self._jobs[at] += by
            for type_, amount in amounts.items():
                self._steps[type_][at] += sign * amount
            if self._jobs[at] == 0:
                del self._times[at], self._jobs[at]
                for steps in self._steps.values():
                    del steps[at]

    def instants(self, after: int, seconds: int, spare: Mapping[str, int]) -> Iterator[int]:
        """Times later than `after` from which for so long no more of each type is held than `spare` says."""
        times = list(self._times)
        held: list[tuple[Ints, int]] = [
            (np.cumsum(np.array(self._steps[type_])), most)
            for type_, most in spare.items()
            if type_ in self._steps
        ]
        for at in range(bisect_right(times, after), len(times)):
            last = bisect_left(times, times[at] + seconds, at)
            if all(int(amounts[at:last].max()) <= most for amounts, most in held):
                yield times[at]


def demands(resources: Sequence[Resource], times: int = 1) -> dict[str, int]:
    """The least of each type that a request takes."""
    found: dict[str, int] = {}
    for each in resources:
        number = times * each.count.min
        if each.type != SLOT:
            found[each.type] = found.get(each.type, 0) + number
        for type_, amount in demands(each.children, number).items():
            found[type_] = found.get(type_, 0) + amount
    return found
