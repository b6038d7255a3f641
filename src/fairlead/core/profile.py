"""Free amounts over future time: what releases when, and what is promised when. One for every policy.

Made and asked by `core.backfill` within one cycle; made anew in the next. A step function per node and
resource: the free amounts of now, and events that change them later: releases of running work with a known
end, starts and ends of promises. Time is in integer milliseconds and intervals are half open, so what is
released at t is free at t, and a length of 0 is one without end.

`candidates` answers "from when on?" for all instants in one sweep over all events, never instant by instant:
each node's events become the number of copies that fit there, that becomes its minimum over the window that
begins at each instant, and the sum over nodes is one bincount. For one copy `gap` needs no sums: it looks for
a stretch of steps on one node that is long enough. Choosing nodes is not done here; so this file knows
nothing of groups, masks' meaning or match policies, and must not.

Limits: 2^19 nodes, and 2^43 ms (278 years) ahead; later counts as never. Many takes in a row are brought in
by one sort, a few by changing the levels where they are.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.inventory import Ints, Vector

_BITS = 44
_MASK = (1 << _BITS) - 1
_NEVER = 1 << (_BITS - 1)
_FEW = 32
"""Nodes up to which changing the levels where they are is cheaper than a sort."""
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


class _Change(NamedTuple):
    """`sign` times the share from `start` until `end`, in milliseconds from now; `_NEVER`: for ever."""

    start: int
    end: int
    share: Share
    sign: int


class Profile:
    """Steps are kept as keys (node row, time) in order, each pair once, and what is free from each on.

    Each node has a step at time 0.
    """

    def __init__(self, free: Ints, now: int, releases: Sequence[Release] = ()) -> None:
        self.now = now
        self._keys: Ints = np.arange(free.shape[1], dtype=np.int64) << _BITS
        self._levels = free.copy()
        """[resource, step]"""
        self._instants: Ints = np.zeros(0, dtype=np.int64)
        """All times of steps but 0, in order."""
        self._pending: list[_Change] = []
        self._rows: Ints | None = None
        self._times: Ints | None = None
        self._falls: Bools | None = None
        for release in releases:
            self._change(release.until, 0, release.share, 1)

    # -- changing ------------------------------------------------------------------------------------

    def take(self, shares: Sequence[Share], start: int, until: int) -> None:
        """Let the shares be used from `start` to `until` (0: for ever)."""
        for share in shares:
            self._change(start, until, share, -1)

    def give(self, shares: Sequence[Share], start: int, until: int) -> None:
        """Undo exactly such a take, however many came after it."""
        for share in shares:
            self._change(start, until, share, 1)

    # -- asking --------------------------------------------------------------------------------------

    def at(self, time: int) -> Ints:
        """[resource, node] what is free at that instant."""
        self._merge()
        return self._at(self._relative(time))

    def window(self, start: int, length: int) -> Ints:
        """[resource, node] the least that is free at any instant of [start, start + length)."""
        self._merge()
        begin = self._relative(start)
        end = min(begin + length, _NEVER) if length else _NEVER
        low = self._at(begin)
        row, time = self._steps()
        chosen = np.flatnonzero((time > begin) & (time < end))
        if len(chosen):
            rows = row[chosen]
            heads = _heads(rows)
            least = np.minimum.reduceat(self._levels[:, chosen], heads, axis=1)
            low[:, rows[heads]] = np.minimum(low[:, rows[heads]], least)
        return low

    def gap(self, want: Want, length: int, not_before: int, before: int = 0) -> int | None:
        """The first instant from which one copy has room on one node for the whole length.

        None if there is none, or (unless `before` is 0) none before that time.
        """
        self._merge()
        row, time = self._steps()
        fits = want.mask[row]
        for resource, amount in want.vector.pairs:
            fits &= self._levels[resource] >= amount
        heads = time == 0
        opens, closes = fits.copy(), fits.copy()
        opens[1:] &= ~fits[:-1] | heads[1:]
        closes[:-1] &= ~fits[1:] | heads[1:]
        first, last = np.flatnonzero(opens), np.flatnonzero(closes)
        if not len(first):
            return None
        after = np.append(time, 0)[last + 1]
        end = np.where(after == 0, _NEVER, after)  # behind a node's last step comes another's first
        begin = np.maximum(time[first], self._relative(not_before))
        good = begin[end >= (begin + length if length else _NEVER)]
        found = int(good.min(initial=_NEVER))
        return None if found == _NEVER or (before and self.now + found >= before) else self.now + found

    def candidates(
        self, wants: Sequence[Want], length: int, not_before: int, before: int = 0
    ) -> Iterator[int]:
        """The instants from which each want by itself has room for the whole length, in order.

        Room only ever appears when something is released, so `not_before` and the instants of events are
        all that need be looked at, and (unless it is 0) only those before `before`. For one want the first
        answer is the earliest possible start; several wants may get in each other's way, so that the caller
        must try.
        """
        self._merge()
        begin = self._relative(not_before)
        skipped = int(self._instants.searchsorted(begin, side="right"))
        upto = int(self._instants.searchsorted(self._relative(before))) if before else len(self._instants)
        times = np.concatenate([np.array([begin], dtype=np.int64), self._instants[skipped:upto]])
        good = np.ones(len(times), dtype=bool)
        for want in wants:
            good &= self._room(want, length, times) >= want.copies
        return (self.now + int(times[i]) for i in np.flatnonzero(good))

    # -- inside: the sweep ---------------------------------------------------------------------------

    def _room(self, want: Want, length: int, times: Ints) -> Ints:
        """[instant] how many copies have room for the length from then on; per node at most the wanted."""
        begin, end = int(times[0]), int(times[-1])
        row, time = self._steps()
        at_first = _copies(self._at(begin), want) * want.mask
        later = (time > begin) & want.mask[row]
        if length:
            later &= time < end + length  # what comes behind the last window does not matter
        dented = np.zeros(len(want.mask), dtype=bool)
        dented[row[later & self._falling()]] = True
        gains = np.zeros(len(times), dtype=np.int64)
        gains[0] = at_first[~dented].sum()
        # Where nothing falls, the minimum of a window is its beginning.
        chosen = np.flatnonzero(later & ~dented[row] & (time <= end))
        if len(chosen):
            gain = _differences(row[chosen], _copies(self._levels.take(chosen, axis=1), want), at_first)
            np.add.at(gains, times.searchsorted(time[chosen]), gain)
        chosen = np.flatnonzero(later & dented[row])
        if len(chosen):
            self._dented(chosen, at_first, want, length, times, gains)
        return np.cumsum(gains)

    def _dented(
        self, chosen: Indices, at_first: Ints, want: Want, length: int, times: Ints, gains: Ints
    ) -> None:
        """Add to `gains` what nodes with promises on them have room for.

        A node's minimum over a sliding window rises only where an event is left behind, and falls only
        where a fall comes into sight, `length` before it: it is looked at there and nowhere else.
        """
        rows = self._keys[chosen] >> _BITS
        nodes = rows[_heads(rows)]
        keys = np.concatenate([(nodes << _BITS) | times[0], self._keys[chosen]])
        counts = np.concatenate([at_first[nodes], _copies(self._levels.take(chosen, axis=1), want)])
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
        looks = keys
        if length:
            falls = self._keys[chosen[self._falling()[chosen]]]
            seen = (falls & _MASK) - length + 1
            ahead = seen > times[0]
            looks = np.unique(np.concatenate([keys, (falls[ahead] & ~_MASK) | seen[ahead]]))
        row, time = looks >> _BITS, looks & _MASK
        ends = (row << _BITS) | (np.minimum(time + length, _NEVER) if length else np.int64(_NEVER))
        lows = _minima(
            counts, np.searchsorted(keys, looks, side="right") - 1, np.searchsorted(keys, ends, side="left")
        )
        places = np.searchsorted(times, time, side="left")
        gain = _differences(row, lows, np.zeros_like(at_first))
        inside = places < len(times)
        np.add.at(gains, places[inside], gain[inside])

    # -- inside: the steps ---------------------------------------------------------------------------

    def _relative(self, time: int) -> int:
        return min(max(time - self.now, 0), _NEVER)

    def _steps(self) -> tuple[Ints, Ints]:
        """(row, time) of each step."""
        if self._rows is None or self._times is None:
            self._rows, self._times = self._keys >> _BITS, self._keys & _MASK
        return self._rows, self._times

    def _falling(self) -> Bools:
        """[step] whether anything is less from it on than before, on the same node."""
        if self._falls is None:
            levels, (_, time) = self._levels, self._steps()
            self._falls = np.zeros(len(time), dtype=bool)
            np.any(levels[:, 1:] < levels[:, :-1], axis=0, out=self._falls[1:])
            self._falls &= time > 0
        return self._falls

    def _at(self, after: int) -> Ints:
        _, time = self._steps()
        if not after:
            return self._levels[:, time == 0]
        nodes = self._keys[time == 0]
        return self._levels[:, self._keys.searchsorted(nodes | after, side="right") - 1]

    def _change(self, start: int, until: int, share: Share, sign: int) -> None:
        begin = self._relative(start)
        end = self._relative(until) if until else _NEVER
        if begin < end:
            self._pending.append(_Change(begin, end, share, sign))

    def _merge(self) -> None:
        """Bring what is pending into the levels."""
        if not self._pending:
            return
        pending, self._pending, self._falls = self._pending, [], None
        if sum([len(change.share.rows) for change in pending]) > _FEW:
            self._sort_in(pending)
            return
        for start, end, (vector, rows, times), sign in pending:
            for row, copies in zip(rows.tolist(), times.tolist(), strict=True):
                first, last = self._cut(row, start), self._cut(row, end)
                for resource, amount in vector.pairs:
                    self._levels[resource, first:last] += sign * amount * copies

    def _cut(self, row: int, time: int) -> int:
        """Index of the node's step at that time, which is made if need be; _NEVER: of the next node."""
        key = (row << _BITS) | time
        i = int(self._keys.searchsorted(key))
        if time == _NEVER or (i < len(self._keys) and self._keys[i] == key):
            return i
        self._keys = _inserted(self._keys, i, key)
        self._levels = np.concatenate([self._levels[:, :i], self._levels[:, i - 1 :]], axis=1)
        self._rows = self._times = None
        j = int(self._instants.searchsorted(time))
        if j == len(self._instants) or self._instants[j] != time:
            self._instants = _inserted(self._instants, j, time)
        return i

    def _sort_in(self, pending: Sequence[_Change]) -> None:
        """The same for many changes at once."""
        events = [(change.start, change.share, change.sign) for change in pending]
        events += [(change.end, change.share, -change.sign) for change in pending if change.end < _NEVER]
        after, keys, deltas = _columns(events, len(self._levels))
        heads = self._steps()[1] == 0
        before = np.diff(self._levels, axis=1, prepend=0)
        before[:, heads] = self._levels[:, heads]
        keys = np.concatenate([self._keys, keys])
        order = np.argsort(keys, kind="stable")  # two ordered runs: about linear
        keys = keys[order]
        deltas = np.concatenate([before, deltas], axis=1).take(order, axis=1)
        each = _heads(keys)
        self._keys = keys[each]
        upto = np.cumsum(np.add.reduceat(deltas, each, axis=1), axis=1)
        self._rows = self._times = None
        row, time = self._steps()
        first = np.flatnonzero(time == 0)
        begun = np.concatenate([np.zeros_like(upto[:, :1]), upto[:, first[1:] - 1]], axis=1)
        self._levels = upto - begun.take(row, axis=1)
        self._instants = np.union1d(self._instants, after[after > 0])


def _inserted(values: Ints, i: int, value: int) -> Ints:
    result = np.empty(len(values) + 1, dtype=np.int64)
    result[:i], result[i], result[i + 1 :] = values[:i], value, values[i:]
    return result


def _columns(events: Sequence[tuple[int, Share, int]], resources: int) -> tuple[Ints, Ints, Ints]:
    """(times of the events, and in the order of their keys: keys, deltas [resource, event])."""
    after = np.array([time for time, _, _ in events], dtype=np.int64)
    wide = [len(share.vector.rows) for _, share, _ in events]
    where = np.concatenate([share.vector.rows for _, share, _ in events])
    amounts = np.concatenate([share.vector.amounts for _, share, _ in events])
    each = np.zeros((resources, len(events)), dtype=np.int64)
    each[where, np.repeat(np.arange(len(events)), wide)] = amounts
    which = np.repeat(np.arange(len(events)), [len(share.rows) for _, share, _ in events])
    signs = np.array([sign for _, _, sign in events], dtype=np.int64)
    times = np.concatenate([share.times for _, share, _ in events]) * signs[which]
    keys = (np.concatenate([share.rows for _, share, _ in events]) << _BITS) | after[which]
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
