"""Which shapes fit on no node at all, found for all of them at once.

Called by `core.backfill` when so many groups of a cycle could not start that it pays to look at the rest of
the queue in one go. On a full cluster a handful of nodes has most to give; what does not fit under any of
their amounts fits nowhere. That is necessary and not sufficient: labels and taints are not looked at, and
members only one by one. So what is sifted out cannot start; what is left must be tried. Knows no groups and
must not.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.core.inventory import Ints, Vector
from fairlead.core.profile import Bools

_MOST = 64
"""Peaks that are told one by one; what is left then is summed up in one that is above them all."""
_AT_ONCE = 1_024
"""Requests that are compared in one step, so that the table stays in the cache."""


def peaks(free: Ints) -> Ints:
    """[resource, peak] amounts such that what fits on some node fits under at least one of them.

    `free` is [resource, node]. Nodes that have no more of anything than another one are left out.
    """
    scale = np.maximum(free.max(axis=1, initial=1), 1)[:, None]
    found: list[Ints] = []
    left = free
    while left.shape[1] and len(found) < _MOST:
        best = left[:, int((left / scale).sum(axis=0).argmax())]
        found.append(best)
        left = left[:, (left > best[:, None]).any(axis=0)]
    if left.shape[1]:
        found.append(left.max(axis=1))
    return np.stack(found, axis=1) if found else np.zeros((len(free), 0), dtype=np.int64)


def fitting(free: Ints, vectors: Sequence[Vector]) -> Bools:
    """[request] whether it may fit on some node; False is certain."""
    rows = np.unique(np.concatenate([vector.rows for vector in vectors]))
    place = {int(row): i for i, row in enumerate(rows)}
    needs = np.zeros((len(vectors), len(rows)), dtype=np.int64)
    for need, vector in zip(needs, vectors, strict=True):
        for resource, amount in vector.pairs:
            need[place[resource]] = amount
    tops = peaks(np.maximum(free[rows], 0))  # of what is overcommitted, nothing can still be asked for
    result = np.zeros(len(vectors), dtype=bool)
    for i in range(0, len(vectors), _AT_ONCE):
        some = needs[i : i + _AT_ONCE, :, None] <= tops
        result[i : i + _AT_ONCE] = np.any(np.all(some, axis=1), axis=1)
    return result
