"""Why no rack, block or zone could ever hold members that must share one, or too few are there for members
that must not. Sound bounds only.

Called by `core.explain` once the nodes as a whole have been found large enough. Must not look at what
is free.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.core import topology
from fairlead.core.columns import Codes, Mask, matches
from fairlead.core.inventory import Ints, how_many
from fairlead.core.snapshot import Request, Snapshot, Task
from fairlead.core.tenancy import PLACES
from fairlead.model import quantity


def too_wide(
    snapshot: Snapshot, request: Request, masks: Sequence[Mask], describe: Callable[[Task], str]
) -> str:
    """Why no single domain of the required level could hold the request if it were empty; "" if one might.

    `masks` are the nodes that each task may use, `describe` what people call a task.
    """
    level = request.layout.required
    levels = topology.of(snapshot.classes, snapshot.settings.topology)
    codes, count = levels.codes(level)
    if not count:
        return f"needs all its members in one {level}, no node has such a label"
    possible = np.ones(count, dtype=bool)
    for task, mask in zip(request.tasks, masks, strict=True):
        wanted = len(task.uids)
        room = np.minimum(how_many(snapshot.capacity, snapshot.vectors[task.shape.requests]), wanted) * mask
        holds = _sums(codes, count, room)
        if int(holds.max()) < wanted:
            largest = f"the largest holds {int(holds.max())} ({levels.names(level)[int(holds.argmax())]})"
            return f"needs {describe(task)} in one {level}, {largest}"
        possible &= holds >= wanted
    if not possible.any():
        return f"needs all its members in one {level}, none has room for each kind of them"
    return _too_much(snapshot, request, masks, codes, possible)


def too_apart(snapshot: Snapshot, task: Task, mask: Mask, describe: Callable[[Task], str]) -> str:
    """Why there are too few domains for members that allow each other none of their own; "" if not.

    `mask` are the nodes that they may use. On nodes outside all domains nothing keeps them apart.
    """
    like = task.like
    if like is None:
        return ""
    for term in like.shape.rules.anti_affinity:
        here = term.namespace_selector is None and like.namespace in (term.namespaces or (like.namespace,))
        if not ((here or term.namespace_selector == ()) and matches(term.selector, like.labels)):
            continue
        codes, _ = snapshot.classes.columns.column(term.topology)
        room = np.minimum(how_many(snapshot.capacity, snapshot.vectors[task.shape.requests]), len(task.uids))
        room = room * mask
        apart = len(np.unique(codes[(codes >= 0) & (room > 0)]))
        if apart + int(room[codes < 0].sum()) < len(task.uids):
            return f"needs {describe(task)}, each in another {term.topology}, and {apart} have room for one"
    return ""


def _too_much(
    snapshot: Snapshot, request: Request, masks: Sequence[Mask], codes: Codes, possible: NDArray[np.bool_]
) -> str:
    """Why all tasks together are more than any of the possible domains has in sum; "" if they are not."""
    level, names = request.layout.required, list(snapshot.resources)
    total = np.zeros(len(snapshot.capacity), dtype=np.int64)
    for task in request.tasks:
        vector = snapshot.vectors[task.shape.requests]
        total[vector.rows] += vector.amounts * len(task.uids)
    union = np.logical_or.reduce(masks)
    for row in np.flatnonzero(total):
        has = _sums(codes, len(possible), snapshot.capacity[row] * union)
        if int(has[possible].max()) < total[row]:
            if names[row] == PLACES:
                return f"needs more nodes for itself than any {level} has"
            most, need = (quantity.show(names[row], int(n)) for n in (has[possible].max(), total[row]))
            return f"needs {names[row]}={need} in all in one {level}, the largest has {most}"
        possible = possible & (has >= total[row])
        if not possible.any():
            return f"needs all its members in one {level}, none has enough of everything"
    return ""


def _sums(codes: Codes, count: int, each: Ints) -> Ints:
    """[domain] the sum over its nodes, exact also for bytes."""
    sums = np.zeros(count + 1, dtype=np.int64)
    np.add.at(sums, codes + 1, each)
    return sums[1:]
