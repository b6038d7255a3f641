"""One queue within a cycle: its policy's numbers, who holds others up, and how much of its depth is used.

Made and kept by `core.cycle`, one per queue of the settings. Knows nothing of nodes and time.
"""

from collections.abc import Container

from fairlead.core.policy import lookahead
from fairlead.core.snapshot import Order, Request, Snapshot
from fairlead.model.settings import QueueSettings


class Lane:
    """`closed` means that nobody behind may start; `head` is the first group that cannot."""

    __slots__ = (
        "_head_order", "closed", "depth", "head", "keep", "looked", "looks", "name", "overtake", "promised"
    )  # fmt: skip

    def __init__(self, queue: QueueSettings) -> None:
        self.name, self.looks = queue.name, queue.looks
        self.overtake, self.depth, self.keep = lookahead(queue)
        self.closed = False
        self.head = ""
        self.promised = 0
        self.looked = 0
        self._head_order: Order | None = None

    def stands(self, snapshot: Snapshot) -> bool:
        """Whether promises of earlier plans stand: they are kept, or nothing has become free."""
        return self.keep or not snapshot.freed

    def skips(self, request: Request, failed: Container[int]) -> bool:
        """Whether there is nothing to decide: it would wait like others before it, without a promise."""
        if self.looks and self.looked >= self.looks:
            return True
        return bool(self.head) and self.promised >= self.depth and request.kind in failed

    def stop(self, request: Request) -> None:
        """The request cannot start, and others wait behind it."""
        if self._head_order is None or request.order < self._head_order:
            if not self.head or self._head_order is not None:
                self.head = request.group
            self._head_order = request.order
        self.closed = not self.overtake


def lanes(snapshot: Snapshot) -> dict[str, Lane]:
    """All queues, as the last plan left them if nothing has become free since."""
    found = {queue.name: Lane(queue) for queue in snapshot.settings.queues}
    if not snapshot.freed:
        for name, waits, promised in snapshot.depths:
            if name in found:
                found[name].looked, found[name].promised = waits, promised
        for name, head in snapshot.heads:
            lane = found.get(name)
            if lane is not None and not lane.keep:
                lane.head, lane.closed = head, not lane.overtake
    return found
