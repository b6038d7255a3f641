"""Shortest first, and nobody starves: who has waited an hour holds a reservation.

An example of a policy function, see docs/policies.md:

    fairlead simulate tests/data/sim/busy.swf --policy-function examples/policies/shortest.py:shortest
"""

from collections.abc import Iterator

import numpy as np

from fairlead.model.outside import Decision, Reserve, Start, View, Waiting

PATIENCE = 3_600_000
"""Milliseconds."""
NEVER = 1 << 62


def shortest(view: View) -> Iterator[Decision]:
    """Who asks for the least time starts first; not past the date of one who has lost patience."""
    order = sorted(view.waiting, key=lambda g: (not g.joins, g.walltime or NEVER, g.submitted))
    tired = min(
        (g for g in order if view.now - g.submitted > PATIENCE), key=lambda g: g.submitted, default=None
    )
    date = NEVER
    if tired is not None:
        date = earliest(view, tired)
        if date <= view.now:
            yield Start(tired.id, optional=True)
        else:
            yield Reserve(
                tired.id, date if date < NEVER else 0, text="waited for an hour: now it is its turn"
            )
    for group in order:
        ends = view.now + group.walltime if group.walltime else NEVER
        if group is not tired and (date <= view.now or ends <= date):
            yield Start(group.id, optional=True)


def earliest(view: View, group: Waiting) -> int:
    """When it fits if everybody runs to his walltime; NEVER if there is work without one in its way."""
    free = view.free.copy()
    if fits(view, free, group):
        return view.now
    for running in sorted(view.running, key=lambda r: r.until or NEVER):
        if not running.until:
            break
        for held in running.held:
            np.add.at(free.T, list(held.nodes), np.array(held.amounts))
        if fits(view, free, group):
            return running.until
    return NEVER


def fits(view: View, free: np.ndarray, group: Waiting) -> bool:
    """Whether there is room for each of its tasks alone, which is close enough for a date."""
    for task in group.tasks:
        asks = [(row, amount) for row, amount in enumerate(task.amounts) if amount]
        room = np.min([free[row] // amount for row, amount in asks], axis=0)
        if np.maximum(room, 0)[view.feasible[task.feasible]].sum() < task.count:
            return False
    return True
