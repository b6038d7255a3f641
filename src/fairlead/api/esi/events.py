"""What changes, told to whoever listens: changes with sequence numbers, and a buffer to resume from.

Fed by the loop (`batch`, an observer of it) with what clients see; read by `api.esi.sse` and `api.esi.stomp`.
One feed per process: it outlives the lives of the engine, to whose states it is turned. Nobody is waited
for: a listener that does not keep up is dropped, and told so. It must not change the state.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairlead.api.esi.picture import Change, Picture, Shown, Table
from fairlead.core.state import State
from fairlead.model.command import Command
from fairlead.model.esi import Ref
from fairlead.model.event import Event

KEPT = 10_000
KEPT_BYTES = 32 << 20
"""Changes that can be resumed from: as many as both allow."""
PENDING = 1_000
PENDING_BYTES = 8 << 20
"""What may wait for one listener, however large; one that falls behind further is dropped."""


class Numbered(NamedTuple):
    seq: int
    change: Change


class Wanted(NamedTuple):
    """What a listener asked for: `table` "" is all three, `name` "" is all of them."""

    namespace: str
    table: str = ""
    name: str = ""

    def takes(self, table: Table, ref: Ref) -> bool:
        return (
            ref.namespace == self.namespace
            and (not self.table or self.table == table)
            and (not self.name or self.name == ref.name)
        )


class Listener:
    """One client's share of the changes, from when it began to listen. Leave it with `Feed.leave`."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.dropped = self.over = False
        """It did not keep up; the feed has ended."""
        self.reset = False
        """What it missed is not known any more: it has to begin with what there is."""
        self._pending: deque[Numbered] = deque()
        self._bytes = 0
        self._news = asyncio.Event()

    def put(self, each: Numbered) -> None:
        self._pending.append(each)
        self._bytes += len(each.change.body)
        if len(self._pending) > PENDING or (self._bytes > PENDING_BYTES and len(self._pending) > 1):
            self.dropped = True
            self._pending.clear()
        self._news.set()

    def end(self) -> None:
        self.over = True
        self._news.set()

    async def take(self, seconds: float) -> list[Numbered]:
        """What has come, at the latest after so many seconds; nothing when dropped or over."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return []
        self._news.clear()
        found = list(self._pending)
        self._pending.clear()
        self._bytes = 0
        return found


class Feed:
    """`first` is the number before the first: greater than any that was given out before this process."""

    def __init__(self, picture: Picture, first: int) -> None:
        self.picture = picture
        self.seq = first
        self._state: State | None = None
        self._kept: deque[Numbered] = deque()
        self._kept_bytes = 0
        self._from = first
        """What came after this number is in the buffer."""
        self._listeners: dict[Listener, None] = {}
        self._waiters: dict[asyncio.Future[bool], Callable[[], bool]] = {}

    def turn_to(self, state: State) -> None:
        """From now on tell of this state: the scheduler has begun anew. Nothing, before its lists are in."""
        self._state = state

    @property
    def state(self) -> State | None:
        """The state that is shown; None while it does not know yet what there is."""
        state = self._state
        return None if state is None or any(source != "store" for source in state.missing) else state

    def batch(self, events: Sequence[Event], commands: Sequence[Command], taken: float) -> None:  # noqa: ARG002
        """An observer of the loop: look at what a batch has changed."""
        self.look()

    def look(self) -> None:
        """Tell what has changed since the last look."""
        state = self.state
        if state is None:
            return
        for change in self.picture.look(state):
            self.seq += 1
            self._tell(Numbered(self.seq, change))
        for future in [future for future, done in self._waiters.items() if done()]:
            del self._waiters[future]
            if not future.done():
                future.set_result(True)

    def _tell(self, each: Numbered) -> None:
        self._kept.append(each)
        self._kept_bytes += len(each.change.body)
        while len(self._kept) > KEPT or self._kept_bytes > KEPT_BYTES:
            lost = self._kept.popleft()
            self._kept_bytes -= len(lost.change.body)
            self._from = lost.seq
        for listener in list(self._listeners):
            if listener.wanted.takes(each.change.table, each.change.ref):
                listener.put(each)
                if listener.dropped:
                    self.leave(listener)

    def listen(self, wanted: Wanted, after: int | None) -> Listener:
        """Everything after this number. `reset` for None, for one that is not in the buffer any more, and
        where more was missed than may wait: else whoever was dropped for that would be so for ever."""
        self.look()
        listener = Listener(wanted)
        if after is None or not self._from <= after <= self.seq:
            listener.reset = True
        else:
            for each in self._kept:
                if each.seq > after and wanted.takes(each.change.table, each.change.ref):
                    listener.put(each)
            if listener.dropped:
                listener = Listener(wanted)
                listener.reset = True
        self._listeners[listener] = None
        return listener

    def leave(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    def present(self, wanted: Wanted) -> list[tuple[Table, Shown]]:
        """All that there is now of what is wanted."""
        self.look()
        tables: tuple[Table, ...] = ("testbeds", "jobs", "schedulings")
        return [
            (table, shown)
            for table in tables
            for shown in self.picture.all(table, wanted.namespace)
            if wanted.takes(table, shown.thing.ref)
        ]

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Whether the state came to show this within so many seconds."""
        self.look()
        if done():
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters[future] = done
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(future, None)

    def close(self) -> None:
        """Every listener is told that this is the end."""
        for listener in list(self._listeners):
            listener.end()
        self._listeners.clear()
