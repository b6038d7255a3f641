"""How much of each type is held over time in the whole tree: at which instants a request could fit at all.

Owned by `core.tree.bookings`. It only rules instants out, by amounts: whether a request does fit is for the
match to say. Times are whole seconds. Must not know where anything is.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.core.tree.columns import Ints, Mask
from fairlead.model.jobspec import SLOT, Resource

_NO_INTS: Ints = np.zeros(0, dtype=np.int64)


class Room:
    """Columns over the instants at which jobs start or end; from each on, so much of a type is held."""

    def __init__(self) -> None:
        self._times = _NO_INTS
        self._jobs = _NO_INTS
        """How many jobs start or end at each time; those without any are dropped."""
        self._held: dict[str, Ints] = {}

    def change(self, start: int, end: int, amounts: Mapping[str, int], by: int) -> None:
        """A job holds these amounts from start to end (1), or no longer (-1)."""
        for type_ in amounts:
            if type_ not in self._held:
                self._held[type_] = np.zeros(len(self._times), dtype=np.int64)
        first, last = self._place(start), self._place(end)
        for type_, amount in amounts.items():
            self._held[type_][first:last] += by * amount
        for at in (last, first):
            self._jobs[at] += by
            if self._jobs[at] == 0:
                self._drop(at)

    def instants(self, after: int, seconds: int, spare: Mapping[str, int]) -> list[int]:
        """Times later than `after` from which for so long no more of each type is held than `spare` says."""
        first = int(np.searchsorted(self._times, after, side="right"))
        times = self._times[first:]
        full = self._full(first, spare)
        if full is None:
            return times.tolist()
        last = np.searchsorted(times, times + seconds)
        # From each time on, the place of the first at which there is too little.
        short = np.where(full, np.arange(len(times)), len(times))
        short = np.minimum.accumulate(short[::-1])[::-1]
        return times[short >= last].tolist()

    def possible(self, start: int, end: int, spare: Mapping[str, int]) -> bool:
        """Whether from start to end no more of each type is held than `spare` says."""
        first = max(int(np.searchsorted(self._times, start, side="right")) - 1, 0)
        full = self._full(first, spare)
        return full is None or not full[: int(np.searchsorted(self._times, end)) - first].any()

    def _full(self, first: int, spare: Mapping[str, int]) -> Mask | None:
        """[time from `first` on] whether there is too little of something; None if never."""
        full: Mask | None = None
        for type_, most in spare.items():
            held = self._held.get(type_)
            if held is not None:
                here = held[first:] > most
                full = here if full is None else full | here
        return full

    def _place(self, time: int) -> int:
        """Where a time stands, put in if it is not there."""
        at = int(np.searchsorted(self._times, time))
        if at == len(self._times) or self._times[at] != time:
            self._times = np.insert(self._times, at, time)
            self._jobs = np.insert(self._jobs, at, 0)
            for type_, held in self._held.items():
                self._held[type_] = np.insert(held, at, held[at - 1] if at else 0)
        return at

    def _drop(self, at: int) -> None:
        self._times = np.delete(self._times, at)
        self._jobs = np.delete(self._jobs, at)
        for type_, held in self._held.items():
            self._held[type_] = np.delete(held, at)


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
