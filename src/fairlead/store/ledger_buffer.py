"""What waits to be written to the ledger: bounded by rows, given out in the order in which it came.

Filled by `Ledger.put`, emptied by its writer. Parts that only add changes may be written by anybody; those
that carry pods, nodes or marks only by the recorder whose turn it is, so they wait apart.
Must not do I/O.
"""

from collections import deque
from collections.abc import Iterable

from msgspec import Struct

from fairlead.model.record import Part

MOST_BYTES = 256 << 20
"""What was told at doors may be few rows and much text."""


def size(part: Part) -> int:
    """Rows; a part that only moves a mark is one too."""
    return len(part.changes) + len(part.pods) + len(part.nodes) or 1


def has_state(part: Part) -> bool:
    return bool(part.pods or part.nodes or part.marks)


class Batch(Struct):
    """What one transaction writes, under a number by which its fate can be asked. `state`: as `has_state`."""

    number: int
    parts: list[Part]
    state: bool
    rows: int


class Buffer:
    """`limit` in rows, `most_bytes` by the weights of the parts; what is being written included."""

    def __init__(self, limit: int, most_bytes: int = MOST_BYTES) -> None:
        self.rows = 0
        """All that is not yet durable."""
        self._limit, self._most_bytes = limit, most_bytes
        self._bytes = 0
        self._state: deque[Part] = deque()
        self._plain: deque[Part] = deque()

    def put(self, part: Part) -> bool:
        """False when there is no room. A part larger than the limit is taken when nothing else waits."""
        rows = size(part)
        if self.rows and (self.rows + rows > self._limit or self._bytes + part.weight > self._most_bytes):
            return False
        self.rows += rows
        self._bytes += part.weight
        (self._state if has_state(part) else self._plain).append(part)
        return True

    @property
    def has_state(self) -> bool:
        """Pods, nodes or marks wait."""
        return bool(self._state)

    def waiting(self, state: bool) -> bool:
        """Something can be taken."""
        return bool(self._plain or (state and self._state))

    def take(self, number: int, rows: int, state: bool, most: int = 0) -> Batch | None:
        """About so many rows, at least one part, and at most `most` parts if that is not 0."""
        parts: list[Part] = []
        found = 0
        for queue in (self._state, self._plain) if state else (self._plain,):
            while queue and found < rows and (not most or len(parts) < most):
                part = queue.popleft()
                parts.append(part)
                found += size(part)
        return Batch(number, parts, any(map(has_state, parts)), found) if parts else None

    def give_back(self, parts: Iterable[Part]) -> None:
        """Parts that were not written after all: they come first again."""
        for part in reversed(list(parts)):
            (self._state if has_state(part) else self._plain).appendleft(part)

    def done(self, batch: Batch) -> None:
        """It is durable, or given up."""
        self.rows -= batch.rows
        self._bytes -= sum(part.weight for part in batch.parts)

    def drop_state(self) -> int:
        """Forget what only the recorder whose turn it is may write; how many rows that was."""
        rows = sum(map(size, self._state))
        self._state.clear()
        self.rows -= rows
        return rows
