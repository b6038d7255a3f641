"""Times as people type them, ticks of the calendar, and pods side by side in a figure."""

import re
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli import when
from fairlead.cli.errors import CliError
from fairlead.draw.clock import Clock
from fairlead.model.history import PodHistory
from fairlead.recorder import figures

NOON = 1_795_348_800_000
"""2026-11-22 12:00 UTC."""
HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two hours ahead of UTC."""
    monkeypatch.setenv("TZ", "XYZ-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", 0),
        ("now", NOON),
        ("2h", NOON - 2 * HOUR),
        ("90s ago", NOON - 90_000),
        ("1h30m", NOON - 90 * 60_000),
        ("10:30", NOON - 3 * HOUR - HOUR // 2),
        ("2026-11-22", NOON - 14 * HOUR),
        ("2026-11-22T10:00", NOON - 4 * HOUR),
        ("2026-11-22T10:00Z", NOON - 2 * HOUR),
        ("2026-11-22 10:00:00.250+01:00", NOON - 3 * HOUR + 250),
    ],
)
def test_RB10_times_are_read_as_people_type_them(text: str, expected: int):
    assert when.moment("--since", text, NOON) == expected


@pytest.mark.parametrize("text", ["yesterday", "25:00", "2026-13-01", "-1h", "0s"])
def test_what_is_no_time_is_refused_by_name(text: str):
    with pytest.raises(CliError, match=re.escape(f"--since {text}: give a time")):
        when.moment("--since", text, NOON)


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 20 * 365 * DAY))
def test_ticks_are_few_even_and_at_round_local_times(first: int, span: int):
    clock = Clock(first, first + span)
    ticks = clock.ticks()
    assert len(ticks) <= 11 and all(first <= tick <= first + span for tick in ticks)
    assert {after - before for before, after in pairwise(ticks)} <= {clock.step()}
    assert all((tick + 2 * HOUR) % min(clock.step(), DAY) == 0 for tick in ticks)


_pods = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 50), st.integers(0, 20)), max_size=25)


@given(_pods)
def test_RB2_pods_of_a_node_lie_side_by_side_in_as_few_lanes_as_there_can_be(
    drawn: list[tuple[str, int, int]],
):
    pods = [
        PodHistory(f"u{n}", "ns", f"p{n}", "", "", "", "", node, "", "", "", -1, since,
                   since + length if length else 0, *[0] * 8, {}, {})
        for n, (node, since, length) in enumerate(drawn)
    ]  # fmt: skip
    bars, nodes = figures.lanes(pods, 100)
    assert sorted(bar.pod.uid for bar in bars) == sorted(pod.uid for pod in pods)
    for bar in bars:
        first, used = nodes[bar.pod.node]
        assert first <= bar.lane < first + used
        others = [o for o in bars if o.lane == bar.lane and o is not bar]
        assert all(o.until <= bar.pod.since or bar.until <= o.pod.since for o in others)
    for name, (_, used) in nodes.items():
        mine = [bar for bar in bars if bar.pod.node == name]
        assert used == max(sum(b.pod.since <= t < b.until for b in mine) for t in range(101))


def test_RB2_a_pod_that_came_after_the_time_asked_about_takes_no_room():
    def on_a(name: str, since: int) -> PodHistory:
        return PodHistory(
            name, "ns", name, "", "", "", "", "a", "", "", "", -1, since, since + 50, *[0] * 8, {}, {}
        )

    clock = Clock(NOON, NOON + 100)
    alone = figures.gantt([on_a("p", NOON)], clock, [], lambda pod: pod.name)
    later = [on_a(f"q{n}", NOON + 100 + n) for n in range(9)]
    assert figures.gantt([on_a("p", NOON), *later], clock, [], lambda pod: pod.name) == alone


def test_the_words_of_a_tick_at_the_right_edge_stay_in_the_drawing():
    drawn = Clock(NOON, NOON + HOUR).axis(200)
    assert re.search(r'text-anchor="end"[^>]*>15:00<', drawn)
