"""The feed: what comes together is written together, and where there is no room nothing is lost."""

from collections.abc import Callable

import pytest

from fairlead.model.event import Listed
from fairlead.model.record import Loaded, Part
from fairlead.recorder import feed as feeds
from fairlead.recorder.book import Book, Mark
from fairlead.recorder.feed import Feed
from fairlead.wire.life import GoneFact, PodFact


def pod(number: int, version: int, node: str = "") -> PodFact:
    return PodFact(f"u{number}", version, "n", f"p{number}", created=1000, node=node)


class Sink:
    """A ledger in memory with room for so many parts."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.parts: list[Part] = []

    def __call__(self, part: Part) -> bool:
        if len(self.parts) >= self.room:
            return False
        self.parts.append(part)
        return True

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(change.uid, change.event) for part in self.parts for change in part.changes]

    @property
    def loaded(self) -> Loaded:
        pods = {life.uid: life for part in self.parts for life in part.pods}
        marks: dict[str, int] = {}
        for part in self.parts:
            marks |= part.marks
        return Loaded({uid: life for uid, life in pods.items() if not life.deleted}, {}, marks)


class Now:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now() -> Now:
    return Now()


def made(sink: Sink, now: Callable[[], int]) -> Feed:
    return Feed(Book(sink.loaded), sink, now)


def test_what_a_chunk_told_is_one_part_with_its_mark(now: Now) -> None:
    sink = Sink()
    feed = made(sink, now)
    feed.put([pod(1, 5), pod(2, 6), pod(1, 7, node="x"), GoneFact("u2", 8, "Pod"), Mark("Pod", 8)])
    (part,) = sink.parts
    assert [(c.uid, c.event) for c in part.changes] == [
        ("u1", "Created"), ("u1", "Queued"), ("u2", "Created"), ("u2", "Queued"), ("u1", "Bound"),
        ("u2", "Deleted"),
    ]  # fmt: skip
    assert part.marks == {"Pod": 8} and sorted(life.uid for life in part.pods) == ["u1", "u2"]


def test_a_list_is_written_in_pieces_and_marked_by_the_last(
    now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PIECE", 2)
    sink = Sink()
    feed = made(sink, now)
    feed.put([*(pod(n, n) for n in range(1, 6)), Listed("Pod", ("u1", "u2", "u3", "u4", "u5"), 9)])
    assert [part.marks for part in sink.parts] == [{}, {}, {"Pod": 9}]
    assert feed.listed == {"Pod"}


@pytest.mark.parametrize("room", range(5))
def test_RB5_where_there_is_no_room_all_is_told_later(
    room: int, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed stops at the first refusal; one that goes on from what was taken completes it."""
    monkeypatch.setattr(feeds, "PIECE", 1)
    chunks = [
        [pod(1, 1), pod(2, 2), Listed("Pod", ("u1", "u2"), 2)],
        [pod(1, 3, node="x"), Mark("Pod", 3)],
        [GoneFact("u2", 4, "Pod"), Mark("Pod", 4)],
    ]
    whole = Sink()
    plenty = made(whole, now)
    for chunk in chunks:
        plenty.put(chunk)
    sink = Sink(room)
    feed = made(sink, now)
    for chunk in chunks:
        feed.put(chunk)
    assert feed.full.is_set() and len(sink.parts) == room
    sink.room = 1000
    mark = sink.loaded.marks.get("Pod", 0)
    after = made(sink, now)
    for chunk in chunks[0 if mark < 2 else mark - 1 :]:
        after.put(chunk)
    assert sorted(sink.said) == sorted(whole.said)


def test_a_mark_alone_is_written_now_and_then(now: Now) -> None:
    sink = Sink()
    feed = made(sink, now)
    for version in range(1, 100):
        now.ms += 1000
        feed.put([Mark("Node", version)])
    assert 15 <= len(sink.parts) <= 20 and sink.loaded.marks["Node"] > 90


def test_a_mistake_over_one_fact_is_a_gap_and_no_end(now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink()
    feed = made(sink, now)
    observe = feed.book.observe

    def trips(fact: object, seen: int) -> Part:
        if fact == bad:
            raise RuntimeError("no such thing")
        return observe(fact, seen)  # pyright: ignore

    bad = pod(1, 5)
    monkeypatch.setattr(feed.book, "observe", trips)
    feed.put([bad, pod(2, 6), Mark("Pod", 6)])
    assert sink.said == [("", "Gap"), ("u2", "Created"), ("u2", "Queued")] and feed.mistakes == 1
    assert sink.parts[0].changes[0].extra == {"kind": "PodFact", "uid": "u1"}
