"""Logs of the sniffer with all its quirks, drawn: what is counted and kept is what their maker put in."""

import random
from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

import sniffer_log as made
from fairlead.model.record import Change, Part, PodLife
from fairlead.recorder.datum import datum, line
from fairlead.recorder.importing import Reading, parts

SEEN = 1_800_000_000_000
BEGIN = int(made.BEGIN.timestamp()) * 1000
EVENTS = {
    "ScheduleSuccess": ("schedulePod", "scheduled"),
    "BindingSuccess": ("bindingCycle", "bound"),
    "postStart": ("postStart", "started"),
    "preStop": ("preStop", "finished"),
}
BAD = ['{"object":"Pod","na', "ADD STARTnode-1", "{}", "[]", "7", '{"object":"Node","name":null}', "\ufffd{"]
NOTHING = ["", "0001-01-01 00:00:00 +0000 UTC", "soon", "2024-13-01 00:00:00 +0000 UTC"]


class Truth(NamedTuple):
    """What a log holds. `times` by pod and column, in milliseconds, of those that were told."""

    lines: list[str]
    unique: int
    bad: int
    events: Counter[str]
    times: dict[tuple[str, str], int]
    complete: int


@st.composite
def stamps(draw: st.DrawFn, milliseconds: int) -> tuple[str, int]:
    """A time so long after the beginning, in any of the forms, and what it tells (0: nothing)."""
    form = draw(st.sampled_from(["go", "go", "go", "plain", "second", "rfc", "zone", "none"]))
    at = made.BEGIN + timedelta(milliseconds=milliseconds)
    told = BEGIN + milliseconds
    fraction = f"{milliseconds % 1000:03d}" + draw(st.text("0123456789", max_size=6))
    match form:
        case "go":
            return made.go(at, fraction, f" m=+{draw(st.floats(0, 1e6)):.6f}"), told
        case "plain":
            return made.go(at, fraction[:3].rstrip("0"), ""), told
        case "second":
            return made.go(at, "", ""), told - told % 1000
        case "rfc":
            return f"{at:%Y-%m-%dT%H:%M:%S}.{fraction}Z", told
        case "zone":
            local = at + timedelta(hours=2)
            return f"{local:%Y-%m-%d %H:%M:%S}.{fraction} +0200 CEST m=+1.5", told
        case _:
            return draw(st.sampled_from(NOTHING)), 0


@st.composite
def logs(draw: st.DrawFn) -> Truth:
    """Pods that got to various stages, watched or not; lines repeated and spoiled."""
    lines: list[str] = []
    events: Counter[str] = Counter()
    times: dict[tuple[str, str], int] = {}
    complete = 0
    for number in range(draw(st.integers(0, 8))):
        pod, node = f"job-{number % 3}-{number}-x7k2p", made.NODES[number % 8]
        at, told = number * 700, set[str]()
        for event in draw(st.lists(st.sampled_from(list(EVENTS)), unique=True, max_size=4).map(_in_order)):
            at += draw(st.integers(1, 20_000))
            endpoint, column = EVENTS[event]
            text, when = draw(stamps(at))
            lines.append(made.send(endpoint, pod, node, event, text))
            events[event] += 1
            if when:
                times[pod, column] = when
                told.add(event)
        complete += told >= {"BindingSuccess", "preStop"}
        if draw(st.booleans()):
            watched = [made.seen("podUpdate", pod, node, "Running")]
            watched.append(made.seen("podUpdate", pod, node, "Ready", made.BEGIN))
            lines += watched
            events.update(["Running", "Ready"])
    unique = len(lines)
    assert unique == len(set(lines))
    for _ in range(draw(st.integers(0, 20)) if lines else 0):
        first = draw(st.integers(0, len(lines) - 1))
        lines.insert(draw(st.integers(first + 1, len(lines))), lines[first])
    spoiled = draw(st.lists(st.sampled_from(BAD), max_size=10))
    for bad in spoiled:
        lines.insert(draw(st.integers(0, len(lines))), bad)
    return Truth(lines, unique, len(spoiled), events, times, complete)


def _in_order(events: list[str]) -> list[str]:
    return [event for event in EVENTS if event in events]


def encoded(lines: list[str]) -> list[bytes]:
    return [f"{each}\n".encode() for each in lines]


def changes(found: list[Part]) -> list[Change]:
    return [change for part in found for change in part.changes]


def pods(found: list[Part]) -> dict[str, PodLife]:
    return {pod.name: pod for part in found for pod in part.pods}


@given(logs())
def test_RB1_counts_of_an_import_are_exact(truth: Truth):
    reading = Reading(SEEN)
    found = list(parts(encoded(truth.lines), reading, {}))
    summary = reading.summary()
    assert (summary.lines, summary.unique, summary.bad) == (len(truth.lines), truth.unique, truth.bad)
    assert summary.duplicates == len(truth.lines) - truth.unique - truth.bad
    by_event: Counter[str] = Counter()
    for count in summary.events:
        by_event[count.event] += count.unique
    assert by_event == truth.events
    assert summary.pods_complete == truth.complete
    rows = changes(found)
    assert Counter(change.event for change in rows) == truth.events
    assert sorted(line(datum(change)).decode()[:-1] for change in rows) == sorted(set(truth.lines) - set(BAD))


@given(logs())
def test_times_that_are_told_are_kept_to_the_millisecond(truth: Truth):
    lives = pods(list(parts(encoded(truth.lines), Reading(SEEN), {})))
    for (pod, column), at in truth.times.items():
        assert getattr(lives[pod], column) == at
    for pod in lives.values():
        assert pod.finished == 0 or (pod.name, "finished") in truth.times or "preStop" in truth.events


@given(logs(), st.randoms(use_true_random=False))
def test_whenever_an_import_is_stopped_and_the_log_grows_nothing_is_lost_or_doubled(
    truth: Truth, chance: random.Random
):
    text = b"".join(encoded(truth.lines))
    reading = Reading(SEEN)
    whole = list(parts(text.splitlines(keepends=True), reading, {}))
    begun = Reading(SEEN)
    some = list(parts(text[: chance.randrange(len(text) + 1)].splitlines(keepends=True), begun, {}))
    some = some[: chance.randrange(len(some) + 1)]
    if begun.key != reading.key:
        return  # too little of it to be known again
    marks: dict[str, int] = {}
    for part in some:
        marks |= part.marks
    rest = list(parts(text.splitlines(keepends=True), Reading(SEEN), marks))
    assert changes(some) + changes(rest) == changes(whole)
    assert {**pods(some), **pods(rest)} == pods(whole)


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_no_bytes_end_the_reading(lines: list[bytes]):
    reading = Reading(SEEN)
    list(parts(lines, reading, {}))
    summary = reading.summary()
    assert (
        summary.unique + summary.duplicates + summary.bad
        == summary.lines
        == sum(bool(b.strip()) for b in lines)
    )
