"""Which jobs count at a span of time: kept up by what changed, and the same as looking at all of them."""

import random

import pytest

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.spans import Spans, Times


class Both:
    """Jobs told to the columns, the names that these count, and what looking at every job says."""

    def __init__(self, now: bool) -> None:
        self.now, self.jobs = now, dict[int, Job]()
        self.spans: Spans[str] = Spans()
        self.times = Times(now)
        self.counted: list[str] = []

    def come(self, id_: int, start: int, end: int, reserved: bool = True) -> None:
        self.jobs[id_] = Job(id_, start, end, reserved, {})
        self.times.note(self.spans.add(id_, self.jobs[id_], str(id_)))

    def go(self, id_: int) -> None:
        del self.jobs[id_]
        gone = self.spans.drop(id_)
        assert gone is not None and gone.what == str(id_)
        if self.times.forget(gone.slot):
            self.counted.remove(str(id_))

    def move(self, start: int, end: int) -> list[str]:
        left, come = self.times.move(self.spans, (start, end))
        for each in left:
            self.counted.remove(each)
        self.counted += come
        wanted = [
            str(job.id)
            for job in self.jobs.values()
            if (self.now and not job.reserved) or (job.start < end and start < job.end)
        ]
        assert sorted(self.counted) == sorted(wanted), (start, end)
        return sorted(self.counted, key=int)


def test_a_move_leaves_what_is_over_and_takes_what_begins() -> None:
    both = Both(now=False)
    for id_, span in enumerate([(0, 10), (10, 20), (5, 15), (30, 40)]):
        both.come(id_, *span)
    assert both.move(0, 10) == ["0", "2"]
    assert both.move(10, 15) == ["1", "2"], "spans are half-open"
    assert both.move(15, 30) == ["1"]
    assert both.move(20, 30) == []
    assert both.move(9, 31) == ["0", "1", "2", "3"]
    assert both.move(0, 10) == ["0", "2"], "back again"


def test_what_comes_and_goes_between_moves_counts_once() -> None:
    both = Both(now=False)
    both.come(1, 0, 10)
    assert both.move(0, 5) == ["1"]
    assert both.move(0, 5) == ["1"]
    both.come(2, 4, 8)
    both.come(3, 5, 8)
    assert both.move(0, 5) == ["1", "2"]
    both.go(1)
    both.come(4, 50, 60)  # in the place of the one that is gone
    assert both.move(0, 5) == ["2"]
    assert both.move(50, 51) == ["4"]
    both.come(5, 50, 60)
    both.go(5)
    assert both.move(50, 51) == ["4"]
    both.come(6, 50, 60)
    both.go(6)
    both.come(7, 50, 60)
    assert both.move(50, 51) == ["4", "7"]


def test_an_allocation_counts_now_until_it_is_cancelled() -> None:
    for now, expected in ((True, ["1"]), (False, [])):
        both = Both(now)
        both.come(1, 0, 10, reserved=False)
        both.come(2, 0, 10)
        assert both.move(0, 5) == ["1", "2"]
        assert both.move(20, 25) == expected
        both.come(3, 0, 10, reserved=False)
        assert both.move(20, 25) == expected + (["3"] if now else [])


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_any_history_is_what_looking_at_all_says(seed: int, now: bool) -> None:
    chance, both = random.Random(seed), Both(now)
    for step in range(1, 200):
        for each in range(chance.choice([0, 1, 1, 2, 3, 80])):  # many at once need more columns
            start = chance.randrange(60)
            both.come(1000 * step + each, start, start + chance.randrange(1, 20), chance.random() < 0.7)
        for id_ in chance.sample(sorted(both.jobs), min(len(both.jobs), chance.choice([0, 1, 5, 40]))):
            both.go(id_)
        for _ in range(chance.choice([0, 1, 1, 2])):
            start = chance.choice([0, 0, 20, chance.randrange(60)])
            both.move(start, start + 10)
