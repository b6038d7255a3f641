"""Free amounts over future time where it does not matter which node: a step function per resource.

Made and asked by `core.pool`, for machines on which sums decide: one node, or slots that are all alike. The
same questions as `core.profile` answers for many unlike nodes, at a hundredth of the cost for the few dozen
steps that such a machine has, because plain lists are walked rather than arrays made. Knows no groups and
must not. Times are integer milliseconds, intervals half open, a length of 0 is without end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Need = tuple[tuple[int, int], ...]
"""(index of a resource, amount) pairs; an empty one always fits."""
_FOREVER = 1 << 62


class Outline:
    """`times[i]` is when `levels[k][i]` begins to be free of resource k; the last one lasts for ever."""

    __slots__ = ("levels", "times")

    def __init__(self, now: int, free: Sequence[int], releases: Iterable[tuple[int, Need]]) -> None:
        """`releases` in order of time; those not after now count as free now."""
        self.times = [now]
        self.levels = [[amount] for amount in free]
        if len(self.levels) == 1:
            self._only(releases)
            return
        for until, need in releases:
            if until > self.times[-1]:
                self.times.append(until)
                for level in self.levels:
                    level.append(level[-1])
            for k, amount in need:
                self.levels[k][-1] += amount

    def _only(self, releases: Iterable[tuple[int, Need]]) -> None:
        """The same for a single resource: as one loop over numbers."""
        times, level = self.times, self.levels[0]
        last, amount = times[0], level[0]
        for until, need in releases:
            if until > last:
                times.append(until)
                level.append(amount)
                last = until
            if need:
                level[-1] = amount = amount + need[0][1]

    def now(self, need: Need) -> bool:
        """Whether that much is free at this very moment."""
        levels = self.levels
        for k, amount in need:  # noqa: SIM110 - a generator in all() costs three times as much
            if levels[k][0] < amount:
                return False
        return True

    def fits(self, need: Need, start: int, length: int) -> bool:
        """Whether that much is free all through [start, start + length)."""
        times = self.times
        first = max(bisect_right(times, start) - 1, 0)
        last = bisect_left(times, start + length, first) if length else len(times)
        last = max(last, first + 1)
        return all(min(self.levels[k][first:last]) >= amount for k, amount in need)

    def peaks(self, need: Need, before: int) -> bool:
        """Whether each resource by itself has that much free at some moment before this one."""
        upto = bisect_left(self.times, before)
        return all(max(self.levels[k][:upto], default=amount) >= amount for k, amount in need)

    def earliest(self, need: Need, length: int, not_before: int) -> int | None:
        """The first start from which that much is free for the whole length; None if there is none."""
        if len(need) == 1:
            return self._earliest(self.levels[need[0][0]], need[0][1], length, not_before)
        start = max(not_before, self.times[0])
        while True:
            begun = start
            for k, amount in need:
                later = self._earliest(self.levels[k], amount, length, start)
                if later is None:
                    return None
                start = later
            if start == begun:
                return start

    def take(self, need: Need, start: int, length: int, sign: int = 1) -> None:
        """Use that much from then on; `sign` -1 gives back exactly such a take."""
        if not need:
            return
        first = self._cut(start)
        last = self._cut(start + length) if length else len(self.times)
        for k, amount in need:
            level = self.levels[k]
            amount *= sign
            level[first:last] = [had - amount for had in level[first:last]]

    def _earliest(self, level: list[int], amount: int, length: int, not_before: int) -> int | None:
        """The same for one resource: each step is looked at once."""
        times = self.times
        count = len(times)
        i = max(bisect_right(times, not_before) - 1, 0)
        begin = max(not_before, times[0])
        while True:
            while level[i] < amount:
                i += 1
                if i == count:
                    return None
                begin = times[i]
            end = begin + length if length else _FOREVER
            i += 1
            while i < count and times[i] < end and level[i] >= amount:
                i += 1
            if i == count or times[i] >= end:
                return begin
            # here level[i] is too low: look for the next beginning behind it

    def _cut(self, time: int) -> int:
        """Index of the step that begins at this time; it is made if there is none. Past times are now."""
        times = self.times
        if time <= times[0]:
            return 0
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            for level in self.levels:
                level.insert(i, level[i - 1])
        return i
