"""Where a door puts what it is told: into a sink that may be full, without ever waiting for it.

Used by the doors (`stream`, the sniffer's). What the sink has no room for is counted, and told as one gap as
soon as there is room again. Reads no clock: `now` is given. Must not know who told.
"""

from collections.abc import Callable, Sequence

from fairlead.model.record import Change, Part, Source

Sink = Callable[[Part], bool]
"""Takes a part whole, or has no room and takes nothing of it."""
_GAP = "Gap"


class Outlet:
    """One door's way to the sink. `kind` names the door in the gaps that it tells."""

    def __init__(self, sink: Sink, kind: str, now: Callable[[], int]) -> None:
        """`now` gives milliseconds since the epoch."""
        self._sink, self._kind, self.now = sink, kind, now
        self.taken = 0
        """Changes that the sink took."""
        self.refused = 0
        """Changes that it had no room for."""
        self._missing = 0
        self._since = 0
        self._why = ""

    def put(self, changes: Sequence[Change], weight: int = 0) -> bool:
        """Hand them on, all or none; False when they are lost. `weight`: bytes that they were told in."""
        if not changes:
            return True
        gap = (self._gap(),) if self._missing else ()
        if not self._sink(Part((*gap, *changes), weight=weight)):
            self.refused += len(changes)
            self.miss(len(changes), changes[0].seen, "no room")
            return False
        self.taken += len(changes)
        if gap:
            self._missing = 0
        return True

    def miss(self, count: int, since: int, why: str) -> None:
        """So many are lost, from `since` on; told with the next that are put."""
        if not self._missing:
            self._since, self._why = since, why
        self._missing += count

    def _gap(self) -> Change:
        at = self.now()
        extra = {"kind": self._kind, "from": self._since, "to": at, "lost": self._missing}
        return Change("Recorder", _GAP, at=at, seen=at, source=Source.RECORDER, reason=self._why, extra=extra)
