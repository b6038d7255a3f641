"""`--jsonl FILE`: the sniffer's keys in its order, its words, a line per change; and a disk that is full."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from fairlead.model.record import Change, Loaded, NodeLife, Part, PodLife, Source
from fairlead.recorder import jsonl_file
from fairlead.recorder.book import Book
from fairlead.recorder.datum import CAPACITY, Datum, change, datum, line
from fairlead.recorder.jsonl import Lines, quantity
from fairlead.recorder.jsonl_file import JsonLines
from fairlead.runtime.errors import ConfigError
from fairlead.wire.life import Condition, GoneFact, NodeFact, PodFact, Run

AT = 1_713_901_867_000
TIME = "2024-04-23 19:51:07 +0000 UTC"
KEYS = ("object", "name", "endpoint", "reason", "message", "node", "event", "extra", "timestamp")


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def pod(version: int, phase: str, *, node: str = "n1", true: tuple[str, ...] = (), **more: Any) -> PodFact:
    conditions = tuple(Condition(name, "True", AT) for name in true)
    where = {"uid": "u", "namespace": "default", "name": "p", "created": AT} | more
    return PodFact(version=version, phase=phase, node=node, conditions=conditions, **where)


def told(book: Book, lines: Lines, *facts: PodFact | NodeFact | GoneFact) -> list[dict[str, Any]]:
    text = b"".join(lines.of(book.observe(fact, AT)) for fact in facts)
    return [json.loads(each) for each in text.splitlines()]


def short(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["endpoint"], each.get("event", "")) for each in lines]


# -- a line, to the byte -----------------------------------------------------------------------------


def test_the_keys_come_in_the_sniffers_order_and_empty_ones_are_left_out():
    full = Datum("Node", "n1", "e", "r", "m", "n", "v", {"capacity-cpu": "4"}, "t")
    assert line(full) == (
        b'{"object":"Node","name":"n1","endpoint":"e","reason":"r","message":"m","node":"n","event":"v",'
        b'"extra":{"capacity-cpu":"4"},"timestamp":"t"}\n'
    )
    assert tuple(json.loads(line(full))) == KEYS
    assert line(Datum("", "")) == b'{"object":"","name":""}\n'
    assert line(Datum("Pod", "a")) == b'{"object":"Pod","name":"a"}\n'


def test_a_line_is_escaped_as_go_does_it():
    text = line(Datum("Pod", 'a<b>&\u2028\u2029"\\\n\té'))
    assert text == b'{"object":"Pod","name":"a\\u003cb\\u003e\\u0026\\u2028\\u2029\\"\\\\\\n\\t\xc3\xa9"}\n'


@pytest.mark.parametrize(
    "given",
    [
        Datum("Pod", "a", "schedulePod", node="n", event="ScheduleSuccess", timestamp=TIME + " m=+1.5"),
        Datum("Pod", "a", "podUpdate", "PodCompleted", "done", "n", "Initialized", None, TIME),
        Datum("Pod", "a", "podUpdate", node="n", event="Running"),
        Datum("Node", "n", "nodeAdd", extra={"capacity-cpu": "4", "allocatable-cpu": "3920m"}),
        Datum("Node", "n", "nodeUpdate", "KubeletReady", "ok", event="Ready", timestamp="not a time"),
    ],
)
def test_a_row_gives_its_line_again(given: Datum):
    row = change(given, AT, AT, Source.IMPORT)
    assert datum(row) == given
    assert Lines().of(Part(changes=(row,))) == line(given)


def test_a_node_without_an_event_has_one_in_the_ledger():
    assert change(Datum("Node", "n", "nodeAdd", extra={}), AT, AT, Source.IMPORT).event == CAPACITY


# -- what the watch tells ----------------------------------------------------------------------------


def test_RB1_export_in_the_old_schema():
    """A pod's way, as the sniffer's watcher would tell it, but each thing once."""
    run = Run("main", 0, begun=True, started=AT)
    end = Run("main", 0, begun=True, started=AT, ended=True, finished=AT + 9000)
    facts = [
        pod(1, "Pending", node=""),
        pod(2, "Pending", true=("PodScheduled", "Initialized")),
        pod(3, "Running", true=("PodScheduled", "Initialized"), runs=(run,)),
        pod(4, "Running", true=("PodScheduled", "Initialized", "Ready"), runs=(run,)),
        pod(4, "Running", true=("PodScheduled", "Initialized", "Ready"), runs=(run,)),
        pod(5, "Succeeded", true=("PodScheduled", "Initialized"), runs=(end,)),
        GoneFact("u", 6, "Pod", pod(6, "Succeeded", true=("PodScheduled", "Initialized"), runs=(end,))),
    ]
    lines, book = Lines(), Book(Loaded())
    found = b"".join(lines.of(book.observe(fact, AT)) for fact in facts)
    pattern = '{"object":"Pod","name":"p","endpoint":"podUpdate","node":"n1","event":'
    assert found.decode().splitlines() == [
        pattern + f'"PodScheduled","timestamp":"{TIME}"}}',
        pattern + f'"Initialized","timestamp":"{TIME}"}}',
        pattern + '"Running"}',
        pattern + f'"Ready","timestamp":"{TIME}"}}',
        pattern + '"Succeeded"}',
        pattern.replace("podUpdate", "podDelete") + '"Succeeded"}',
    ]


def test_a_pod_that_is_there_already_is_added():
    found = told(Book(Loaded()), Lines(), pod(7, "Running", true=("Ready",)))
    assert sorted(short(found)) == [("podAdd", "Ready"), ("podAdd", "Running")]


def test_a_restart_says_nothing_again():
    first, facts = Book(Loaded()), [pod(3, "Running", true=("Ready",), runs=(Run("c", 0, begun=True),))]
    life = first.observe(facts[0], AT).pods[0]
    again, lines = Book(Loaded(pods={"u": life})), Lines([life])
    assert told(again, lines, *facts) == []
    assert short(told(again, lines, pod(4, "Unknown", true=("Ready",)))) == [("podUpdate", "Unknown")]


def test_phases_may_come_again():
    phases = ("Running", "Unknown", "Running", "Failed")
    facts = [pod(number, phase) for number, phase in enumerate(phases, 1)]
    found = told(Book(Loaded()), Lines(), *facts)
    assert [each["event"] for each in found] == list(phases)


def test_what_the_sniffer_leaves_out_is_left_out():
    hidden = pod(1, "Running", true=("Ready",), namespace="kube-system")
    gated = pod(1, "Pending", uid="v", node="", true=())
    gone = GoneFact("v", 2, "Pod", pod(2, "Pending", uid="v", node=""))
    assert told(Book(Loaded()), Lines(), hidden, gated, gone, GoneFact("u", 3, "Pod")) == []
    others = [
        Change("Group", "Planned", AT, AT, Source.FAIRLEAD),
        Change("Recorder", "Gap", AT, AT, Source.RECORDER),
        Change("Pod", "FailedScheduling", AT, AT, Source.EVENTS, name="p"),
        Change("Pod", "Filter", AT, AT, Source.PLUGIN, name="p"),
    ]
    assert Lines().of(Part(changes=tuple(others))) == b""


def test_a_nodes_way():
    ready = Condition("Ready", "True", AT, "KubeletReady", "kubelet is posting ready status")
    full = Condition("DiskPressure", "True", AT + 5000, "Full", "")
    has = {"capacity": {"memory": 32_877_056 << 10, "cpu": 4000}, "allocatable": {"cpu": 3920}}
    facts = [
        NodeFact("n", 1, "n1", created=AT, **has, conditions=(ready,)),
        NodeFact("n", 2, "n1", created=AT, **has, conditions=(ready,), labels={"a": "b"}),
        NodeFact("n", 3, "n1", created=AT, **has | {"allocatable": {"cpu": 2000}}, conditions=(ready, full)),
        GoneFact("n", 4, "Node"),
    ]
    lines, book = Lines(), Book(Loaded())
    found = b"".join(lines.of(book.observe(fact, AT + 9000)) for fact in facts).decode().splitlines()
    start = '{"object":"Node","name":"n1","endpoint":'
    capacity = '"extra":{"capacity-cpu":"4","capacity-memory":"32877056Ki","allocatable-cpu":'
    assert found == [
        start + '"nodeAdd",' + capacity + '"3920m"}}',
        start + '"nodeAdd","reason":"KubeletReady","message":"kubelet is posting ready status",'
        f'"event":"Ready","timestamp":"{TIME}"}}',
        start + '"nodeUpdate",' + capacity + '"2"}}',
        start
        + '"nodeUpdate","reason":"Full","event":"DiskPressure","timestamp":"2024-04-23 19:51:12 +0000 UTC"}',
        start + '"nodeDeleted",' + capacity + '"2"}}',
    ]


def test_the_plugins_word_stands_for_the_patched_schedulers():
    names = {"uid": "u", "namespace": "default", "name": "p", "node": "n1"}
    rows = [Change("Pod", event, AT, AT, Source.PLUGIN, **names) for event in ("Reserve", "Bind", "PostBind")]
    found = [json.loads(each) for each in Lines().of(Part(changes=tuple(rows))).splitlines()]
    assert short(found) == [("schedulePod", "ScheduleSuccess"), ("bindingCycle", "BindingSuccess")]
    assert {each["timestamp"] for each in found} == {TIME}


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 4000, "4"),
        ("cpu", 3920, "3920m"),
        ("memory", 32_877_056 << 10, "32877056Ki"),
        ("memory", 8 << 30, "8Gi"),
        ("ephemeral-storage", 47_060_071_478, "47060071478"),
        ("hugepages-2Mi", 0, "0"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_quantities_are_exact(resource: str, value: int, text: str):
    assert quantity(resource, value) == text


# -- the file ----------------------------------------------------------------------------------------


def part(name: str) -> Part:
    return Part(changes=(Change("Pod", "preStop", AT, AT, Source.SNIFFER, name=name),))


def names(path: Path) -> list[str]:
    return [json.loads(each)["name"] for each in path.read_bytes().splitlines()]


def test_lines_are_appended(tmp_path: Path):
    path = tmp_path / "sniffer.log"
    for name in ("a", "b"):
        file = JsonLines(path)
        assert file.put(part(name))
        assert file.put(Part())
        file.close()
        assert (file.written, file.lost) == (1, 0)
    assert names(path) == ["a", "b"]


def test_a_line_cut_off_by_a_kill_gets_its_end(tmp_path: Path):
    path = tmp_path / "sniffer.log"
    path.write_bytes(b'{"object":"Pod","na')
    file = JsonLines(path)
    file.put(part("a"))
    file.close()
    assert path.read_bytes().splitlines()[0] == b'{"object":"Pod","na'
    assert json.loads(path.read_bytes().splitlines()[1])["name"] == "a"


def test_a_full_disk_costs_lines_and_nothing_else():
    with capture_logs() as logs:
        file = JsonLines(Path("/dev/full"))
        for number in range(3):
            assert file.put(part(str(number)))
            until(lambda number=number: file.lost == number + 1)
        file.close()
    assert [entry["why"] for entry in logs if entry["log_level"] == "error"] == ["No space left on device"]


def test_what_was_written_in_part_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, write = tmp_path / "sniffer.log", os.write
    full = [False]

    def half(file: int, data: memoryview) -> int:
        if full[0] and len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(file, data[: len(data) // 2] if full[0] else data)

    monkeypatch.setattr(jsonl_file.os, "write", half)
    with capture_logs() as logs:
        file = JsonLines(path)
        file.put(part("a"))
        until(lambda: file.written == 1)
        full[0] = True
        file.put(part("b"))
        until(lambda: file.lost == 1)
        full[0] = False
        file.put(part("c"))
        file.close()
    assert names(path) == ["a", "c"]
    assert [(entry["log_level"], entry.get("missing")) for entry in logs] == [("error", None), ("warning", 1)]


def test_lines_that_wait_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stuck, write = [True], os.write

    def slow(file: int, data: memoryview) -> int:
        until(lambda: not stuck[0])
        return write(file, data)

    monkeypatch.setattr(jsonl_file.os, "write", slow)
    path = tmp_path / "sniffer.log"
    file = JsonLines(path, most_waiting=200)
    kept = [name for name in "abcdefghijklmnop" if file.put(part(name))]
    assert 2 <= len(kept) < 16
    stuck[0] = False
    file.close(60)
    assert names(path) == kept
    assert (file.written, file.lost) == (len(kept), 16 - len(kept))


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path):
    with pytest.raises(ConfigError) as told:
        JsonLines(tmp_path / "no" / "sniffer.log")
    assert str(told.value) == (
        f"--jsonl {tmp_path}/no/sniffer.log: No such file or directory; name a file that can be written"
    )


def test_rows_of_the_wrong_kind_do_no_harm():
    """Whatever makes a part: a change without its row, a row without a change."""
    rows = [Change("Pod", event, AT, AT, Source.WATCH, uid="x") for event in ("Finished", "Deleted", "Ready")]
    rows += [
        Change("Node", event, AT, AT, Source.WATCH, uid="y") for event in ("Added", "Condition", "Deleted")
    ]
    alone = Part(tuple(rows), (PodLife("z", "d", "z"),), (NodeLife("w", "w", AT),))
    assert short([json.loads(each) for each in Lines().of(alone).splitlines()]) == [("podUpdate", "Ready")]
