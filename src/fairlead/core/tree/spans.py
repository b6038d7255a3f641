"""Which jobs overlap a span of time: columns of starts and ends, and what changed since the last question.

Owned by `core.tree.levels`. Each job has a slot while it is there; slots are used again.
Times are whole seconds, spans are half-open. Must not know what jobs hold.
"""

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from fairlead.core.tree.bookings import Job, Span
from fairlead.core.tree.columns import Mask

What = TypeVar("What")
_FEW = 64


class Dropped(NamedTuple, Generic[What]):
    """A job that is gone: its slot, and what it had."""

    slot: int
    what: What


class Spans(Generic[What]):
    """Jobs by slot, with something kept for each."""

    def __init__(self) -> None:
        self.start = np.zeros(_FEW, dtype=np.int64)
        self.end = np.zeros(_FEW, dtype=np.int64)
        self.allocated: Mask = np.zeros(_FEW, dtype=np.bool_)
        """Whether it is an allocation: those hold what they have until they are cancelled."""
        self.what: list[What | None] = [None] * _FEW
        self._slots: dict[int, int] = {}
        self._free = list(range(_FEW - 1, -1, -1))

    def add(self, id_: int, job: Job, what: What) -> int:
        """A job that came; its slot."""
        if not self._free:
            self._grow()
        slot = self._slots[id_] = self._free.pop()
        self.start[slot], self.end[slot], self.allocated[slot] = job.start, job.end, not job.reserved
        self.what[slot] = what
        return slot

    def drop(self, id_: int) -> Dropped[What] | None:
        """A job that went; None if it was not there."""
        slot = self._slots.pop(id_, None)
        what = None if slot is None else self.what[slot]
        if slot is None or what is None:
            return None
        self.start[slot] = self.end[slot] = 0
        self.allocated[slot], self.what[slot] = False, None
        self._free.append(slot)
        return Dropped(slot, what)

    def overlaps(self, slot: int, span: Span) -> bool:
        """Whether one job is there in the span."""
        return bool(self.start[slot] < span[1] and span[0] < self.end[slot])

    def overlapping(self, span: Span) -> Mask:
        """[slot] the same of all."""
        return (self.start < span[1]) & (self.end > span[0])

    def _grow(self) -> None:
        count = len(self.what)
        self._free = list(range(2 * count - 1, count - 1, -1))
        self.start = np.concatenate((self.start, np.zeros(count, dtype=np.int64)))
        self.end = np.concatenate((self.end, np.zeros(count, dtype=np.int64)))
        self.allocated = np.concatenate((self.allocated, np.zeros(count, dtype=np.bool_)))
        self.what += [None] * count


class Times:
    """The span last asked for, and the jobs that are counted for it."""

    def __init__(self, now: bool) -> None:
        """`now`: allocations count whenever they should have ended."""
        self._now = now
        self._span: Span | None = None
        self._counted: Mask = np.zeros(0, dtype=np.bool_)
        self._new: list[int] = []

    def forget(self, slot: int) -> bool:
        """A job is gone; whether it was counted."""
        if slot in self._new:
            self._new.remove(slot)
        if slot >= len(self._counted) or not self._counted[slot]:
            return False
        self._counted[slot] = False
        return True

    def note(self, slot: int) -> None:
        """A job is new."""
        self._new.append(slot)
        if len(self._new) > _FEW:  # then looking at all is quicker
            self._span = None
            self._new.clear()

    def move(self, spans: Spans[What], span: Span) -> tuple[list[What], list[What]]:
        """What is to be counted no longer, and what newly, so that it is that of this span."""
        count = len(spans.what)
        if len(self._counted) < count:
            self._counted = np.concatenate(
                (self._counted, np.zeros(count - len(self._counted), dtype=np.bool_))
            )
        if span == self._span:
            left, come = list[int](), [slot for slot in self._new if self._counts(spans, slot, span)]
        else:
            wanted = spans.overlapping(span)
            if self._now:
                wanted |= spans.allocated
            left = np.flatnonzero(self._counted & ~wanted).tolist()
            come = np.flatnonzero(wanted & ~self._counted).tolist()
        self._counted[left] = False
        self._counted[come] = True
        self._span = span
        self._new.clear()
        return _those(spans, left), _those(spans, come)

    def _counts(self, spans: Spans[What], slot: int, span: Span) -> bool:
        return bool(self._now and spans.allocated[slot]) or spans.overlaps(slot, span)


def _those(spans: Spans[What], slots: list[int]) -> list[What]:
    return [what for slot in slots if (what := spans.what[slot]) is not None]
