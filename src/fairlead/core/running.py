"""What running groups will give back, and when they are expected to.

Called by `core.picture` when a snapshot is taken for a policy that looks ahead; never for `fcfs`. A group
without a walltime never gives anything back, nor do pods that are no group's of ours.
"""

from operator import itemgetter

import numpy as np

from fairlead.core.ends import End, Load
from fairlead.core.live import Group
from fairlead.core.profile import Release, Share
from fairlead.core.state import State
from fairlead.model.pod import Amounts

_MOMENT, _LINGERS = 5_000, 30_000
_LEAST_OVERRUN = 60_000


def releases(state: State) -> tuple[Release, ...]:
    """The shares of started groups with a known end, in the order in which the groups started."""
    found: list[Release] = []
    for gid in state.started:
        group = state.groups[gid]
        if group.duration:
            until = expected_end(began(group), group.duration, state.now)
            found += [Release(until, share) for share in shares(state, group)]
    return tuple(found)


def shares(state: State, group: Group) -> tuple[Share, ...]:
    """What the group's pods hold; counted anew only after it was touched."""
    if group.shares is None:
        group.shares = _shares(state, group)
    return group.shares


def ends(state: State, *, all_of_them: bool = True) -> list[tuple[int, Load]] | None:
    """(expected end, what is given back in sum) of started groups, in order of time.

    None if anything has no known end, be it a pod that is no group's of ours; with `all_of_them` False such
    things are left out.
    """
    known, now = state.ends, state.now
    for gid in state.unsettled:
        group = state.groups.get(gid)
        if group is None or gid not in state.started:
            known.drop(gid)
        else:
            until = began(group) + group.duration if group.duration else 0
            known.put(End(until, gid, _load(state, group)))
    state.unsettled.clear()
    if all_of_them and (known.endless or known.pods < len(state.inventory.held)):
        return None
    found = [(end.until, end.load) for end in known.in_order]
    if found and found[0][0] <= now:
        found = [(end.until if end.until > now else _overdue(state, end), end.load) for end in known.in_order]
        found.sort(key=_UNTIL)
    return found


def _overdue(state: State, end: End) -> int:
    duration = state.groups[end.group].duration
    return expected_end(end.until - duration, duration, state.now)


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


def began(group: Group) -> int:
    """When the clock of a started group began: when all its members ran; until then it is about to."""
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
