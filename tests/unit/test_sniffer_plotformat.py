"""The sniffer's plot files: its rule for what counts, held against the rule written out, and the bytes."""

import json
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fairlead.recorder.plotformat import Held, nodes_json, occupancy, pod_times_json

AT = 1_713_901_867_000


def by_the_rule(held: list[Held], intervals: int) -> list[tuple[int, int, int]]:
    """As the sniffer's script does it: each interval and each pod, in fractions of a millisecond."""
    began = [each for each in held if each.start]
    times = [time for each in began for time in (each.start, each.end) if time]
    if not times:
        return []
    names = sorted({each.node for each in began})
    begin, span = min(times), max(times) - min(times)
    found = []
    for index in range(intervals):
        for node, name in enumerate(names):
            count = 0
            for each in began:
                after = (each.start - begin) * intervals < span * index
                until = bool(each.end) and (each.end - begin) * intervals >= span * (index + 1)
                count += each.node == name and after and until
            if count:
                found.append((index, node, count))
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[Held]:
    held = []
    for number in range(draw(st.integers(0, 12))):
        start = draw(st.one_of(st.just(0), st.integers(AT, AT + 200)))
        end = draw(st.one_of(st.just(0), st.integers(start, start + 150) if start else st.just(0)))
        held.append(Held(f"p{number}", draw(st.sampled_from(["b", "a", "c"])), start, end))
    return held


@given(histories(), st.integers(1, 40))
def test_RB3_what_counts_is_what_the_rule_says(held: list[Held], intervals: int):
    assert occupancy(held, intervals) == by_the_rule(held, intervals)


def test_nodes_are_numbered_by_name_also_those_without_pods():
    held = [Held("p", "b", AT, AT + 100), Held("q", "d", AT + 10, AT + 40)]
    assert occupancy(held, 5, ["c", "a"]) == [(1, 1, 1), (1, 3, 1), (2, 1, 1), (3, 1, 1), (4, 1, 1)]


def test_RB10_what_has_not_ended_only_stretches_the_time():
    assert occupancy([Held("p", "n", AT, AT + 10), Held("q", "n", AT + 40, 0)], 4) == []
    assert occupancy([Held("p", "n", AT, AT + 20), Held("q", "n", AT + 40, 0)], 4) == [(1, 0, 1)]
    assert occupancy([], 4) == occupancy([Held("p", "n", AT, AT)], 4) == []


def test_the_files_are_those_that_the_sniffers_page_reads():
    held = [Held("p", "n2", AT, AT + 4000, AT + 1070, AT - 17), Held("q", "n1", AT + 250, AT + 3000)]
    assert nodes_json("gke-experiment", held, 4) == nodes_json("gke-experiment", reversed(held), 4)
    assert json.loads(nodes_json("gke-experiment", held, 4)) == [
        {
            "id": "gke-experiment",
            "title": "Experiment Gke Experiment",
            "data": {
                "chart_options": {},
                "values": {"data": [[1, 0, 1], [1, 1, 1], [2, 0, 1], [2, 1, 1], [3, 1, 1]]},
            },
        }
    ]
    assert json.loads(pod_times_json([*held, Held("open", "n", AT, 0)])) == {
        "p": {
            "start": "2024-04-23 19:51:07",
            "end": "2024-04-23 19:51:11",
            "post_start": "2024-04-23 19:51:08.070000",
            "schedule_time": "2024-04-23 19:51:06.983000",
        },
        "q": {
            "start": "2024-04-23 19:51:07.250000",
            "end": "2024-04-23 19:51:10",
            "post_start": "None",
            "schedule_time": "None",
        },
    }


@given(st.integers(0, 4_000_000_000_000))
def test_times_are_written_as_python_does(milliseconds: int):
    (times,) = json.loads(pod_times_json([Held("p", "n", milliseconds + 1, milliseconds + 1)])).values()
    assert times["start"] == str(datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds + 1))
