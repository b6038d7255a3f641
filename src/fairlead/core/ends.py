"""What started groups give back in sum, in order of their ends; kept from plan to plan.

Held by `core.state`, kept and read by `core.running`: a plan finds it as the last one left it but for the
groups that have been looked at since. Knows nothing of walltimes that are over, and must not.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

Load = tuple[tuple[int, int], ...]
"""(resource row, amount) pairs, and in the last place (-1, number of pods)."""


class End(NamedTuple):
    """When the group's walltime is over (0: never), and what it gives back then."""

    until: int
    group: str
    load: Load


class Ends:
    """The ends of groups, each once."""

    def __init__(self) -> None:
        self.in_order: list[End] = []
        """Those that end, in order."""
        self.pods = 0
        """How many pods all of them have, also those that never end."""
        self.endless: dict[str, None] = {}
        self._known: dict[str, End] = {}

    def __len__(self) -> int:
        return len(self._known)

    def put(self, end: End) -> None:
        """Note a group's end in place of what was known of it."""
        self.drop(end.group)
        self._known[end.group] = end
        self.pods += end.load[-1][1]
        if end.until:
            insort(self.in_order, end)
        else:
            self.endless[end.group] = None

    def drop(self, group: str) -> None:
        """The group is not started any more."""
        end = self._known.pop(group, None)
        if end is None:
            return
        self.pods -= end.load[-1][1]
        if end.until:
            del self.in_order[bisect_left(self.in_order, end)]
        else:
            del self.endless[group]
