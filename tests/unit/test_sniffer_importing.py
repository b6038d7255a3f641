"""A log of the sniffer's becomes rows: exact counts, pods and nodes with their times, nothing twice."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import sniffer_log as made
from fairlead.model.record import Change, NodeLife, Part, PodLife, Source
from fairlead.recorder.datum import Datum, datum, line
from fairlead.recorder.imported import job_of
from fairlead.recorder.importing import MOST_BYTES, Latency, Problem, Reading, Summary, parts

SMALL = Path(__file__).resolve().parent.parent / "data" / "sniffer" / "small.log"
SEEN = 1_800_000_000_000
BEGIN = int(made.BEGIN.timestamp()) * 1000


def ends(lines: Iterable[str]) -> list[bytes]:
    return [f"{each}\n".encode() for each in lines]


def read(lines: Iterable[bytes], marks: dict[str, int] | None = None) -> tuple[Summary, list[Part], Reading]:
    reading = Reading(SEEN)
    found = list(parts(lines, reading, marks or {}))
    return reading.summary(), found, reading


def changes(found: list[Part]) -> list[Change]:
    return [change for part in found for change in part.changes]


def pods(found: list[Part]) -> dict[str, PodLife]:
    return {pod.uid.partition(":")[2].partition(":")[2]: pod for part in found for pod in part.pods}


def nodes(found: list[Part]) -> list[NodeLife]:
    return [node for part in found for node in part.nodes]


def one(*lines: str) -> PodLife:
    (pod,) = pods(read(ends(lines))[1]).values()
    return pod


# -- the whole ---------------------------------------------------------------------------------------


def test_RB1_a_log_as_large_as_the_originals_gives_its_counts():
    """The numbers that are known of the log in the sniffer's repository, from one of ours made after it."""
    log = made.golden()
    assert Counter(json.loads(each)["endpoint"] for each in log) == made.ENDPOINTS
    summary, found, _ = read(ends(log))
    assert (summary.lines, summary.unique, summary.bad) == (made.LINES, made.UNIQUE, 0)
    assert summary.duplicates == made.LINES - made.UNIQUE
    by_endpoint: Counter[str] = Counter()
    for count in summary.events:
        by_endpoint[count.endpoint] += count.lines
    assert by_endpoint == made.ENDPOINTS
    by_event = {count.event: count.unique for count in summary.events if count.endpoint != "podUpdate"}
    told = ("ScheduleSuccess", "BindingSuccess", "postStart", "preStop")
    assert [by_event[event] for event in told] == [92, 90, 89, 89]
    assert (summary.pods_complete, summary.jobs, summary.pods_moved) == (made.COMPLETE, made.JOBS, 0)
    assert summary.latencies == {
        "ScheduleSuccess to BindingSuccess": Latency(90, 17, 253, 3550),
        "BindingSuccess to postStart": Latency(88, 510, 1070, 2670),
        "postStart to preStop": Latency(89, 9950, 9970, 9990),
    }
    assert len(changes(found)) == made.UNIQUE


def test_every_line_comes_out_again_as_it_went_in():
    log = made.golden()
    _, found, _ = read(ends(log))
    unique = list(dict.fromkeys(log))
    assert [line(datum(change)).decode().rstrip("\n") for change in changes(found)] == unique


def test_RB10_pods_without_an_end_are_kept_open():
    summary, found, _ = read(ends(made.golden()))
    lives = pods(found)
    assert len(lives) == summary.pods == 103
    unbound, failed, silent, untold = [lives[pod] for job in made.jobs() for pod in job][:4]
    assert (unbound.node, unbound.bound, unbound.finished) == ("", 0, 0)
    assert unbound.scheduled > 0
    assert (failed.phase, failed.started > 0, failed.finished > 0) == ("Failed", False, True)
    assert (silent.bound > 0, silent.started, silent.finished, silent.deleted) == (True, 0, 0, 0)
    # The tap lost its binding: the watcher's second stands in.
    assert (untold.bound % 1000, untold.node, untold.phase) == (0, made.NODES[3], "Succeeded")
    assert untold.bound and untold.finished


def test_our_small_log():
    summary, found, reading = read(SMALL.read_bytes().splitlines(keepends=True))
    assert (summary.lines, summary.unique, summary.duplicates, summary.bad) == (34, 26, 5, 3)
    assert (summary.pods, summary.pods_complete, summary.pods_open, summary.jobs) == (4, 2, 2, 2)
    assert [problem.line for problem in summary.problems] == [10, 19, 22, 34]
    assert summary.unreadable_times == 1
    assert reading.whole == 33
    train = pods(found)["train-0-x7k2p"]
    assert train == PodLife(
        uid=train.uid,
        namespace="",
        name="train-0-x7k2p",
        version=29,
        owner_kind="Job",
        owner_name="train",
        node="node-a",
        phase="Succeeded",
        reason="PodCompleted",
        exit_code=0,
        scheduled=BEGIN,
        bound=BEGIN + 17,
        started=BEGIN + 1087,
        ready=BEGIN + 2000,
        finished=BEGIN + 11_050,
        deleted=BEGIN + 11_050,
        first_seen=BEGIN,
        last_seen=SEEN,
        source=Source.IMPORT,
    )
    told = changes(found)[4]
    assert told == Change(
        "Pod",
        "ScheduleSuccess",
        at=BEGIN,
        seen=SEEN,
        source=Source.IMPORT,
        uid=train.uid,
        name="train-0-x7k2p",
        node="node-a",
        extra={
            "endpoint": "schedulePod",
            "timestamp": "2024-04-23 19:51:07.000887638 +0000 UTC m=+82.830000001",
            "nanoseconds": 887_638,
        },
    )


# -- bad lines ---------------------------------------------------------------------------------------

GOOD = made.send("schedulePod", "a", "n", "ScheduleSuccess", made.stamp(0))
BAD: dict[str, str] = {
    "not json": "not JSON: JSON is malformed: invalid character (byte 4): not json",
    "[1, 2]": "none of the sniffer's: Expected `object`, got `array`: [1, 2]",
    '{"object":"Pod"}': "none of the sniffer's: Object missing required field `name`: ",
    '{"object":"Pod","name":7}': "none of the sniffer's: Expected `str`, got `int` - at `$.name`: ",
    '{"object":"Pod","name":"a","extra":[]}': "none of the sniffer's: Expected `object | null`, got `array`",
    '{"object":"Job","name":"a"}': "object 'Job' is neither Pod nor Node: ",
    GOOD[:50]: "not JSON: Input data was truncated: ",
    '{"object":"Pod","name":"a","extra":' + '{"a":' * 5000: "nested too deeply: ",
    '{"object":"Pod","name":"' + "a" * MOST_BYTES + '"}': "longer than 1 MiB: ",
}


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named_and_stops_nothing(bad: str):
    after = made.send("bindingCycle", "a", "n", "BindingSuccess", made.stamp(5))
    summary, found, _ = read(ends([GOOD, bad, after]))
    assert (summary.lines, summary.unique, summary.bad) == (3, 2, 1)
    ((number, why),) = summary.problems
    assert number == 2
    assert why.startswith(BAD[bad])
    assert len(why) < 200
    assert [change.event for change in changes(found)] == ["ScheduleSuccess", "BindingSuccess"]


def test_only_the_first_bad_lines_are_named():
    summary, _, _ = read([b"\xff\xfe\n"] * 1000)
    assert summary.bad == 1000
    assert [problem.line for problem in summary.problems] == [1, 2, 3, 4, 5]
    assert isinstance(summary.problems[0], Problem)


def test_blank_lines_and_other_ends_of_lines_do_not_matter():
    summary, _, _ = read([b"\n", f"{GOOD}\r\n".encode(), b"  \n", f"{GOOD}\n".encode(), GOOD.encode()])
    assert (summary.lines, summary.unique, summary.duplicates, summary.bad) == (3, 1, 2, 0)


def test_an_empty_log_is_no_mistake():
    summary, found, _ = read([])
    assert (summary.lines, summary.pods, found) == (0, 0, [])


# -- times -------------------------------------------------------------------------------------------


def test_a_line_without_a_time_is_as_old_as_the_latest_before_it():
    lines = [
        made.seen("podAdd", "old", "n", "Running"),
        made.seen("podAdd", "old", "n", "Ready", made.BEGIN - timedelta(hours=1)),
        made.send("schedulePod", "a", "n", "ScheduleSuccess", made.stamp(1500)),
        made.seen("podUpdate", "old", "n", "Ready", made.BEGIN),
        made.seen("podUpdate", "a", "n", "Running"),
    ]
    found = changes(read(ends(lines))[1])
    assert [change.at - BEGIN for change in found] == [-3_600_000, -3_600_000, 1500, 0, 1500]
    assert "timestamp" not in (found[4].extra or {})


def test_a_log_without_any_time_is_as_old_as_its_import():
    _, found, _ = read(
        ends([made.seen("podAdd", "a", "n", "Running"), made.capacity("nodeAdd", "n", ("cpu",))])
    )
    assert [change.at for change in changes(found)] == [SEEN, SEEN]
    assert (nodes(found)[0].since, nodes(found)[0].until) == (SEEN, SEEN)


def test_a_hook_that_told_no_time_is_no_complete_pod():
    lines = [
        made.send("bindingCycle", "a", "n", "BindingSuccess", made.stamp(0)),
        made.send("preStop", "a", "n", "preStop", ""),
    ]
    summary, found, _ = read(ends(lines))
    assert (summary.pods_complete, summary.pods_open) == (0, 0)
    assert pods(found)["a"].finished == BEGIN
    assert (
        read(ends([*lines, made.send("preStop", "a", "n", "preStop", made.stamp(9))]))[0].pods_complete == 1
    )


# -- pods and nodes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "job"),
    [
        ("job-0-4-size-6-4-b69br", "job-0-4-size-6"),
        ("train-12-x7k2p", "train"),
        ("train-x7k2p", "train"),
        ("web-0", "web"),
        ("sniffer-6f5fc4c879-kdfxw", "sniffer-6f5fc4c879"),
        ("alone", "alone"),
        ("not-random-aeiou", "not-random-aeiou"),
        ("", ""),
    ],
)
def test_jobs_are_read_from_names(pod: str, job: str):
    assert job_of(pod) == job


def test_RB6_a_log_without_hooks_gives_starts_and_ends():
    second = timedelta(seconds=1)
    lines = [
        made.seen("podUpdate", "a", "n", "PodScheduled", made.BEGIN),
        made.seen("podUpdate", "a", "n", "Running"),
        made.seen("podUpdate", "a", "n", "ContainersReady", made.BEGIN + second),
        made.seen("podUpdate", "b", "n", "Ready", made.BEGIN + 9 * second),
        made.seen("podUpdate", "a", "n", "Succeeded"),
    ]
    pod = pods(read(ends(lines))[1])["a"]
    assert (pod.scheduled, pod.bound, pod.started) == (BEGIN, BEGIN, BEGIN + 1000)
    assert (pod.finished, pod.phase, pod.exit_code) == (BEGIN + 9000, "Succeeded", 0)


def test_a_scheduler_may_try_again_until_it_is_bound():
    pod = one(
        made.send("schedulePod", "a", "n1", "ScheduleSuccess", made.stamp(0)),
        made.send("schedulePod", "a", "n2", "ScheduleSuccess", made.stamp(500)),
        made.send("bindingCycle", "a", "n2", "BindingSuccess", made.stamp(700)),
    )
    assert (pod.scheduled, pod.bound, pod.node) == (BEGIN + 500, BEGIN + 700, "n2")


def test_a_name_that_comes_again_after_an_end_is_another_pod():
    lines = [
        made.send("schedulePod", "web-0", "n1", "ScheduleSuccess", made.stamp(0)),
        made.send("bindingCycle", "web-0", "n1", "BindingSuccess", made.stamp(10)),
        made.seen("podDelete", "web-0", "n1", "Running"),
        made.send("schedulePod", "web-0", "n2", "ScheduleSuccess", made.stamp(5000)),
        made.send("bindingCycle", "web-0", "n2", "BindingSuccess", made.stamp(5010)),
    ]
    summary, found, reading = read(ends(lines))
    first, second = pods(found).values()
    assert (first.node, first.deleted, second.node, second.bound) == ("n1", BEGIN + 10, "n2", BEGIN + 5010)
    assert second.uid == f"{reading.key}:web-0#2"
    assert (summary.pods, summary.pods_moved, summary.jobs) == (2, 0, 1)


def test_two_pods_of_one_name_at_once_are_counted():
    lines = [
        made.send("bindingCycle", "a", "n1", "BindingSuccess", made.stamp(0)),
        made.send("postStart", "a", "n2", "postStart", made.stamp(10)),
    ]
    summary, found, _ = read(ends(lines))
    assert (summary.pods_moved, pods(found)["a"].node) == (1, "n1")


def test_a_node_is_a_row_per_capacity_and_ends_with_the_log():
    two = made.capacity("nodeUpdate", "n", ("cpu", "pods")).replace('"4"', '"2"')
    lines = [
        made.capacity("nodeAdd", "n", ("cpu", "pods")),
        made.send("schedulePod", "a", "n", "ScheduleSuccess", made.stamp(0)),
        made.capacity("nodeUpdate", "n", ("pods", "cpu")),
        made.send("bindingCycle", "a", "n", "BindingSuccess", made.stamp(1000)),
        two,
        made.capacity("nodeAdd", "m", ("cpu",)),
        made.send("preStop", "a", "n", "preStop", made.stamp(2000)),
        made.capacity("nodeDeleted", "m", ("cpu",)),
        made.send("preStop", "b", "n", "preStop", made.stamp(3000)),
    ]
    summary, found, reading = read(ends(lines))
    rows = [(row.name, row.since - BEGIN, row.until - BEGIN, row.lost) for row in nodes(found)]
    assert rows == [("n", 0, 1000, False), ("n", 1000, 3000, True), ("m", 1000, 2000, False)]
    assert nodes(found)[0].capacity == {"cpu": 4000, "pods": 110}
    assert nodes(found)[1].capacity == {"cpu": 2000, "pods": 110}
    assert nodes(found)[0].allocatable == {"cpu": 3920}
    assert summary.nodes == 2
    assert {row.uid for row in nodes(found)} == {f"{reading.key}:n", f"{reading.key}:m"}


def test_quantities_that_nobody_can_read_are_left_out():
    text = '{"object":"Node","name":"n","extra":{"capacity-cpu":"four","capacity-pods":7,"other":"1"}}'
    assert nodes(read([text.encode()])[1])[0].capacity == {}


# -- once --------------------------------------------------------------------------------------------


def marked(found: list[Part], marks: dict[str, int] | None = None) -> dict[str, int]:
    """The marks after these parts, as a database has them."""
    marks = dict(marks or {})
    for part in found:
        marks |= part.marks
    return marks


def test_importing_twice_adds_nothing():
    log = ends(made.golden())
    _, first, _ = read(log)
    summary, again, _ = read(log, marked(first))
    assert again == []
    assert summary.lines == made.LINES


def test_a_log_that_has_grown_adds_what_is_new():
    log = ends(made.golden())
    text = b"".join(log)
    for cut in (len(b"".join(log[:75])), len(text) // 2, len(text) - 1):
        begun = text[:cut].splitlines(keepends=True)
        _, first, one_reading = read(begun)
        _, second, other = read(log, marked(first))
        assert one_reading.key == other.key
        assert changes(first) + changes(second) == changes(read(log)[1])
        assert {**pods(first), **pods(second)} == pods(read(log)[1])


@pytest.mark.parametrize("stopped", range(4))
def test_an_import_that_was_stopped_goes_on(stopped: int):
    log = ends(made.golden())
    whole = read(log)[1]
    assert len(whole) == 3
    done = whole[:stopped]
    rest = read(log, marked(done))[1]
    assert changes(done) + changes(rest) == changes(whole)
    assert {**pods(done), **pods(rest)} == pods(whole)


def test_another_log_of_the_same_cluster_is_another_one():
    nodes_first = [made.capacity("nodeAdd", "n", ("cpu",)), made.ready("nodeAdd", "n", made.BEGIN)]
    keys = set()
    for milliseconds in (0, 1):
        sent = made.send("schedulePod", "a", "n", "ScheduleSuccess", made.stamp(milliseconds))
        keys.add(read(ends([*nodes_first, sent]))[2].key)
    assert len(keys) == 2


def test_rows_are_written_a_thousand_at_a_time():
    log = ends(made.send("schedulePod", f"p{n}", "n", "ScheduleSuccess", made.stamp(n)) for n in range(5000))
    _, found, _ = read(log)
    assert max(len(part.changes) + len(part.pods) for part in found) <= 1001
    assert len(changes(found)) == len(pods(found)) == 5000


def test_a_datum_has_no_other_keys():
    given: dict[str, Any] = json.loads(SMALL.read_text(encoding="utf-8").splitlines()[0])
    assert set(given) <= set(made.KEYS) == set(Datum.__struct_fields__)
