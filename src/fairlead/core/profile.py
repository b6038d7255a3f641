"""Free amounts over future time: what releases when, and what is promised when. One for every policy.

Made and asked by `core.backfill` within one cycle; made anew in the next. A step function per node and
resource: the free amounts of now, and events that change them later: releases of running work with a known
end, starts and ends of promises. Time is in integer milliseconds and intervals are half open, so what is
released at t is free at t, and a length of 0 is one without end.

`candidates` answers "from when on?" for all instants in one sweep over all events, never instant by instant:
each node's events become the number of copies that fit there, that becomes its minimum over the window that
begins at each instant, and the sum over nodes is one bincount. Choosing nodes is not done here; so this file
knows nothing of groups, masks' meaning or match policies, and must not.

Limits: 2^19 nodes, and 2^43 ms (278 years) ahead; later counts as never. A take costs as much as all events
when the next question is asked, so takes in a row are cheap and takes and questions in turns are not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.inventory import Ints, Vector

_BITS = 44
_MASK = (1 << _BITS) - 1
_NEVER = 1 << (_BITS - 1)
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]


class Share(NamedTuple):
    """`times[i]` copies of one request on node row `rows[i]`; each row once."""

    vector: Vector
    rows: Ints
    times: Ints


class Release(NamedTuple):
    """A share that is in use now and comes free at `until`."""

    until: int
    share: Share


class Want(NamedTuple):
    """Room for `copies` copies of a request, on nodes that the mask allows."""

    vector: Vector
    mask: Bools
    copies: int


class Mark(NamedTuple):
    """A profile as it was; what it refers to is never written to again."""

    base: Ints
    keys: Ints
    deltas: Ints
    instants: Ints


class _Steps(NamedTuple):
    """The events, ordered by node and time, as levels."""

    row: Ints
    time: Ints
    level: Ints
    """[resource, event] what is free on the event's node from it on."""
    first: Indices
    """[node] index of the node's first event, or of where it would be."""
    falls: Bools
    """[event] whether anything gets less."""
    rank: Indices
    """[event] index of its time among all instants."""


class Profile:
    """Events are kept as keys (node row, time) in order, each pair once, and as deltas [resource, event]."""

    def __init__(self, free: Ints, now: int, releases: Sequence[Release] = ()) -> None:
        self.now = now
        self._base = free.copy()
        self._keys: Ints = np.zeros(0, dtype=np.int64)
        self._deltas: Ints = np.zeros((len(free), 0), dtype=np.int64)
        self._instants: Ints = np.zeros(0, dtype=np.int64)
        self._shared = False
        """True when a Mark refers to the base, which must then be copied before it changes."""
        self._pending: list[tuple[int, Share, int]] = []
        """Events not yet in the columns: time from now, share, +1 or -1."""
        self._cached: _Steps | None = None
        for release in releases:
            self._event(release.until, release.share, 1)

    # -- changing ------------------------------------------------------------------------------------

    def take(self, shares: Sequence[Share], start: int, until: int, sign: int = 1) -> None:
        """Let the shares be used from `start` to `until` (0: for ever)."""
        for share in shares:
            self._event(start, share, -sign)
            if until:
                self._event(until, share, sign)

    def give(self, shares: Sequence[Share], start: int, until: int) -> None:
        """Undo exactly such a take, however many came after it."""
        self.take(shares, start, until, -1)

    def mark(self) -> Mark:
        """Remember the profile as it is now. Costs nothing until it is changed."""
        self._merge()
        self._shared = True
        return Mark(self._base, self._keys, self._deltas, self._instants)

    def rewind(self, mark: Mark) -> None:
        """Be again as at the mark, which stays good."""
        self._base, self._keys, self._deltas, self._instants = mark
        self._pending, self._cached, self._shared = [], None, True

    # -- asking --------------------------------------------------------------------------------------

    def at(self, time: int) -> Ints:
        """[resource, node] what is free at that instant."""
        return self._at(self._relative(time))

    def window(self, start: int, length: int) -> Ints:
        """[resource, node] the least that is free at any instant of [start, start + length)."""
        begin = self._relative(start)
        end = _end(begin, length)
        low = self._at(begin)
        steps = self._steps()
        inside = (steps.time > begin) & (steps.time < end)
        dented = np.zeros(low.shape[1], dtype=bool)
        dented[steps.row[inside & steps.falls]] = True
        chosen = np.flatnonzero(inside & dented[steps.row])
        if len(chosen):
            rows = steps.row[chosen]
            heads = _heads(rows)
            least = np.minimum.reduceat(steps.level[:, chosen], heads, axis=1)
            low[:, rows[heads]] = np.minimum(low[:, rows[heads]], least)
        return low

    def drops(self) -> list[int]:
        """The instants after now, in order, at which something gets less: starts of promises."""
        steps = self._steps()
        return [self.now + int(t) for t in np.unique(steps.time[steps.falls])]

    def candidates(self, wants: Sequence[Want], length: int, not_before: int) -> list[int]:
        """The instants from which each want by itself has room for the whole length, in order.

        Room only ever appears when something is released, so `not_before` and the instants of events are
        all that need be looked at. For one want the first answer is the earliest possible start; several
        wants may get in each other's way, so that the caller must try.
        """
        steps = self._steps()
        begin = self._relative(not_before)
        skipped = int(np.searchsorted(self._instants, begin, side="right"))
        times = np.concatenate([np.array([begin], dtype=np.int64), self._instants[skipped:]])
        good = np.ones(len(times), dtype=bool)
        for want in wants:
            good &= self._room(steps, want, length, times, skipped) >= want.copies
        return [self.now + int(t) for t in times[good]]

    # -- inside: the sweep ---------------------------------------------------------------------------

    def _room(self, steps: _Steps, want: Want, length: int, times: Ints, skipped: int) -> Ints:
        """[instant] how many copies have room for the length from then on; per node at most the wanted."""
        begin = int(times[0])
        at_first = _copies(self._at(begin), want) * want.mask
        later = (steps.time > begin) & want.mask[steps.row]
        dented = np.zeros(len(want.mask), dtype=bool)
        dented[steps.row[later & steps.falls]] = True
        gains = np.zeros(len(times), dtype=np.int64)
        gains[0] = at_first[~dented].sum()
        # Where nothing falls, the minimum of a window is its beginning.
        chosen = np.flatnonzero(later & ~dented[steps.row])
        if len(chosen):
            rows, counts = steps.row[chosen], _copies(steps.level.take(chosen, axis=1), want)
            gain = _differences(rows, counts, at_first)
            np.add.at(gains, steps.rank[chosen] - skipped + 1, gain)
        chosen = np.flatnonzero(later & dented[steps.row])
        if len(chosen):
            self._dented(steps, chosen, at_first, want, length, times, gains)
        return np.cumsum(gains)

    def _dented(
        self,
        steps: _Steps,
        chosen: Indices,
        at_first: Ints,
        want: Want,
        length: int,
        times: Ints,
        gains: Ints,
    ) -> None:
        """Add to `gains` what nodes with promises on them have room for.

        A node's minimum over a sliding window rises only where an event is left behind, and falls only
        where a fall comes into sight, `length` before it: it is looked at there and nowhere else.
        """
        rows = steps.row[chosen]
        nodes = rows[_heads(rows)]
        keys = np.concatenate([(nodes << _BITS) | times[0], self._keys[chosen]])
        counts = np.concatenate([at_first[nodes], _copies(steps.level[:, chosen], want)])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        looks = keys
        if length:
            falls = chosen[steps.falls[chosen]]
            seen = steps.time[falls] - length + 1
            ahead = seen > times[0]
            looks = np.unique(np.concatenate([keys, (steps.row[falls][ahead] << _BITS) | seen[ahead]]))
        row, time = looks >> _BITS, looks & _MASK
        ends = (row << _BITS) | (np.minimum(time + length, _NEVER) if length else np.int64(_NEVER))
        lows = _minima(
            counts, np.searchsorted(keys, looks, side="right") - 1, np.searchsorted(keys, ends, side="left")
        )
        places = np.searchsorted(times, time, side="left")
        gain = _differences(row, lows, np.zeros_like(at_first))
        inside = places < len(times)
        np.add.at(gains, places[inside], gain[inside])

    # -- inside: the columns -------------------------------------------------------------------------

    def _relative(self, time: int) -> int:
        return min(max(time - self.now, 0), _NEVER)

    def _event(self, time: int, share: Share, sign: int) -> None:
        """Add `sign` times the share from this time on. What is past or present changes the base."""
        after = time - self.now
        if after <= 0:
            if self._shared:
                self._base, self._shared = self._base.copy(), False
            vector, rows, times = share
            self._base[vector.rows[:, None], rows] += sign * vector.amounts[:, None] * times
            self._cached = None
        elif after < _NEVER:
            self._pending.append((after, share, sign))

    def _merge(self) -> None:
        """Bring the pending events into the columns: one per node and time, none that changes nothing."""
        if not self._pending:
            return
        pending, self._pending, self._cached = self._pending, [], None
        after, keys, deltas = _columns(pending, len(self._base))
        if len(self._keys):
            keys = np.concatenate([self._keys, keys])
            order = np.argsort(keys, kind="stable")  # two ordered runs: about linear
            keys = keys[order]
            deltas = np.concatenate([self._deltas, deltas], axis=1).take(order, axis=1)
        heads = _heads(keys)
        if len(heads) < len(keys):
            keys, deltas = keys[heads], np.add.reduceat(deltas, heads, axis=1)
            real = deltas.any(axis=0)
            keys, deltas = keys[real], deltas[:, real]
        self._keys, self._deltas = keys, deltas
        self._instants = np.union1d(self._instants, after)

    def _steps(self) -> _Steps:
        self._merge()
        if self._cached is None:
            row, time = self._keys >> _BITS, self._keys & _MASK
            first = np.searchsorted(self._keys, np.arange(self._base.shape[1], dtype=np.int64) << _BITS)
            upto = np.cumsum(self._deltas, axis=1)
            shift = self._base.copy()
            begun = first > 0
            if len(self._keys):
                shift[:, begun] -= upto[:, first[begun] - 1]
            rank = np.searchsorted(self._instants, time)
            falls: Bools = np.any(self._deltas < 0, axis=0)
            level = upto + shift.take(row, axis=1)
            self._cached = _Steps(row, time, level, first, falls, rank)
        return self._cached

    def _at(self, after: int) -> Ints:
        steps = self._steps()
        nodes = np.arange(self._base.shape[1], dtype=np.int64)
        last = np.searchsorted(self._keys, (nodes << _BITS) | after, side="right") - 1
        moved = np.flatnonzero(last >= steps.first)
        result = self._base.copy()
        result[:, moved] = steps.level[:, last[moved]]
        return result


def _columns(pending: Sequence[tuple[int, Share, int]], resources: int) -> tuple[Ints, Ints, Ints]:
    """(times of the events, and in the order of their keys: keys, deltas [resource, event])."""
    after = np.array([time for time, _, _ in pending], dtype=np.int64)
    wide = [len(share.vector.rows) for _, share, _ in pending]
    where = np.concatenate([share.vector.rows for _, share, _ in pending])
    amounts = np.concatenate([share.vector.amounts for _, share, _ in pending])
    each = np.zeros((resources, len(pending)), dtype=np.int64)
    each[where, np.repeat(np.arange(len(pending)), wide)] = amounts
    which = np.repeat(np.arange(len(pending)), [len(share.rows) for _, share, _ in pending])
    signs = np.array([sign for _, _, sign in pending], dtype=np.int64)
    times = np.concatenate([share.times for _, share, _ in pending]) * signs[which]
    keys = (np.concatenate([share.rows for _, share, _ in pending]) << _BITS) | after[which]
    order = np.argsort(keys, kind="stable")
    return after, keys[order], each.take(which[order], axis=1) * times[order]


def shares(log: Sequence[tuple[Vector, int, int]]) -> list[Share]:
    """Takings of a Draft (request, node row, how many) summed up by request and node."""
    found: dict[int, tuple[Vector, dict[int, int]]] = {}
    for vector, row, times in log:
        _, rows = found.setdefault(id(vector), (vector, {}))
        rows[row] = rows.get(row, 0) + times
    return [
        Share(vector, np.array(list(rows), dtype=np.int64), np.array(list(rows.values()), dtype=np.int64))
        for vector, rows in found.values()
    ]


def _end(begin: int, length: int) -> int:
    return min(begin + length, _NEVER) if length else _NEVER


def _heads(ordered: Ints) -> Indices:
    """Where each run of equal values begins."""
    if not len(ordered):
        return np.zeros(0, dtype=np.intp)
    return np.concatenate([np.zeros(1, dtype=np.intp), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])


def _copies(level: Ints, want: Want) -> Ints:
    """How many copies of the request fit into each column, from 0 to what is wanted."""
    result = np.full(level.shape[1], want.copies, dtype=np.int64)
    for resource, amount in zip(want.vector.rows, want.vector.amounts, strict=True):
        here = level[resource] if amount == 1 else level[resource] // amount
        np.minimum(result, here, out=result)
    return np.maximum(result, 0, out=result)


def _differences(rows: Ints, values: Ints, before: Ints) -> Ints:
    """Each value less the one before it on the same node, the first less `before[node]`."""
    result = values.copy()
    result[1:] -= values[:-1]
    heads = _heads(rows)
    result[heads] = values[heads] - before[rows[heads]]
    return result


def _minima(values: Ints, low: Indices, high: Indices) -> Ints:
    """min(values[low:high]) for each pair, low < high: two overlapping blocks of a power of two each."""
    widths = high - low
    power = np.zeros(len(widths), dtype=np.intp)
    table = [values]
    step = 1
    while 2 * step <= int(widths.max(initial=1)):
        last = table[-1].copy()
        np.minimum(last[:-step], table[-1][step:], out=last[:-step])
        table.append(last)
        step *= 2
        power[widths >= step] += 1
    blocks = np.stack(table)
    return np.minimum(blocks[power, low], blocks[power, high - (1 << power)])
