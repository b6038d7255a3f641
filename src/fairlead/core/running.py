"""What running groups will give back, and when they are expected to.

Called by `core.picture` when a snapshot is taken for a policy that looks ahead; never for `fcfs`. A group
without a walltime never gives anything back, nor do pods that are no group's of ours.
"""

from operator import itemgetter

import numpy as np

from fairlead.core.profile import Release, Share
from fairlead.core.state import Group, State
from fairlead.model.pod import Amounts

_MOMENT, _LINGERS = 5_000, 30_000
_LEAST_OVERRUN = 60_000
Load = tuple[tuple[int, int], ...]
"""(resource row, amount) pairs, and in the last place (-1, number of pods)."""


def releases(state: State) -> tuple[Release, ...]:
    """The shares of started groups with a known end, in the order in which the groups started."""
    found: list[Release] = []
    for gid in state.started:
        group = state.groups[gid]
        if group.duration:
            if group.shares is None:
                group.shares = _shares(state, group)
            until = expected_end(_began(group), group.duration, state.now)
            found += [Release(until, share) for share in group.shares]
    return tuple(found)


def ends(state: State, *, all_of_them: bool = True) -> list[tuple[int, Load]] | None:
    """(expected end, what is given back in sum) of started groups, in order of time.

    None if anything has no known end, be it a pod that is no group's of ours; with `all_of_them` False such
    things are left out.
    """
    found: list[tuple[int, Load]] = []
    now, counted = state.now, 0
    for gid in state.started:
        group = state.groups[gid]
        load = group.load
        if load is None:
            load = group.load = _load(state, group)
        counted += load[-1][1]
        if group.duration:
            until = _began(group) + group.duration
            found.append((until if until > now else expected_end(_began(group), group.duration, now), load))
        elif all_of_them:
            return None
    if all_of_them and counted < len(state.inventory.held):
        return None
    found.sort(key=_UNTIL)
    return found


_UNTIL = itemgetter(0)


def _load(state: State, group: Group) -> Load:
    inventory = state.inventory
    total: dict[int, int] = {}
    pods = 0
    for uid in group.pods:
        held = inventory.held.get(uid)
        if held is not None:
            pods += 1
            for row, amount in inventory.vector(held[1]).pairs:
                total[row] = total.get(row, 0) + amount
    return (*total.items(), (-1, pods))


def expected_end(began: int, duration: int, now: int) -> int:
    """When it will be over: at its walltime; past that in max(60 s, 10 %) more, doubled at each expiry.

    Whoever is ended at its walltime is gone some seconds later (its pods' grace, the way of the news), so at
    first it is expected at any moment: a minute more would invite others to fill that minute, and delay those
    who wait for the end. Always later than now: while something is not seen to have ended, nobody can have
    its place.
    """
    until = began + duration
    over = now - until
    if 0 < over < _LINGERS:
        return until + (over // _MOMENT + 1) * _MOMENT
    more = max(_LEAST_OVERRUN, duration // 10)
    while until < now:
        until, more = until + more, 2 * more
    return max(until, now + 1)


def _began(group: Group) -> int:
    """The clock of a group starts when all its members run; until then it is about to."""
    return group.started_at or group.granted_at or group.bound_at or group.since


def _shares(state: State, group: Group) -> tuple[Share, ...]:
    inventory = state.inventory
    rows_of: dict[Amounts, dict[int, int]] = {}
    for uid in group.pods:
        held = inventory.held.get(uid)
        row = None if held is None else inventory.rows.get(held[0])
        if held is not None and row is not None:
            rows = rows_of.setdefault(held[1], {})
            rows[row] = rows.get(row, 0) + 1
    return tuple(
        Share(
            inventory.vector(amounts),
            np.array(list(rows), dtype=np.int64),
            np.array(list(rows.values()), dtype=np.int64),
        )
        for amounts, rows in rows_of.items()
    )
