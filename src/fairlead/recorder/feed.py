"""What the watches tell, through the book into the ledger.

Made by `app_recorder` for each life of its watches, which put events here as they would into an engine's
inbox. What is put at once is written at once or not at all. It never waits: when there is no room, `full` is
set and nothing more is taken; a new feed goes on from what is durable. Must not know the database.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from fairlead.model.event import Listed
from fairlead.model.record import Change, Part, Source
from fairlead.recorder.book import NOTHING, Book, Heard, joined
from fairlead.recorder.outlet import Sink

PIECE = 1000
"""Facts of a list that are written together. Half a list does no harm: its mark comes with its end."""
MARK_EVERY = 5_000
"""Milliseconds between two marks that come without news: heartbeats of nodes are many."""
_log = structlog.get_logger("recorder")


class Feed:
    """`now` gives milliseconds since the epoch. `listed` are the kinds that are in."""

    def __init__(self, book: Book, sink: Sink, now: Callable[[], int]) -> None:
        self.book = book
        self.full = asyncio.Event()
        self.listed: set[str] = set()
        self.mistakes = 0
        """Facts that the book tripped over."""
        self._sink, self._now = sink, now
        self._marked: dict[str, int] = {}

    def put(self, events: Sequence[Any]) -> None:
        """All that a chunk of a watch, or a list, has told."""
        step = PIECE if any(isinstance(each, Listed) for each in events) else max(len(events), 1)
        for at in range(0, len(events), step):
            if self.full.is_set():
                return
            self._write(joined([self._observe(each) for each in events[at : at + step]]))
        self.listed |= {each.kind for each in events if isinstance(each, Listed)}

    def _observe(self, fact: Heard) -> Part:
        """A mistake over one object must not keep all the others from being recorded."""
        try:
            return self.book.observe(fact, self._now())
        except Exception as error:
            self.mistakes += 1
            _log.exception("a fact is left out", kind=type(fact).__name__)
            at, extra = self._now(), {"kind": type(fact).__name__, "uid": getattr(fact, "uid", "")}
            gap = Change(
                "Recorder", "Gap", at=at, seen=at, source=Source.RECORDER, reason="Mistake",
                message=str(error), extra=extra,
            )  # fmt: skip
            return Part((gap,))

    def _write(self, part: Part) -> None:
        if part == NOTHING or self._can_wait(part):
            return
        if not self._sink(part):
            self.full.set()
            return
        self._marked |= dict.fromkeys(part.marks, self._now())

    def _can_wait(self, part: Part) -> bool:
        """A mark alone is only where to go on; the next one is as good."""
        if part.changes or part.pods or part.nodes:
            return False
        return all(self._now() - self._marked.get(kind, 0) < MARK_EVERY for kind in part.marks)
