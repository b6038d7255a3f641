"""The extender in observing mode: what kube-scheduler asks becomes rows, and every answer changes nothing."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
import yaml

from fairlead.api import tap
from fairlead.model.record import Change, Part, Source
from fairlead.recorder.extender import MOST_NAMES, Extender, NotUnderstood
from fairlead.recorder.outlet import Outlet


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        self.now += 5
        return self.now


class Ledger:
    """Takes parts while there is room."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.room = True

    def __call__(self, part: Part) -> bool:
        if self.room:
            self.parts.append(part)
        return self.room

    @property
    def changes(self) -> list[Change]:
        return [change for part in self.parts for change in part.changes]


def pod(name: str = "train-0", **more: Any) -> dict[str, Any]:
    """As Go writes a pod, with much that nobody reads here."""
    meta = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "77"}
    return {
        "metadata": {
            **meta,
            "creationTimestamp": "2026-11-21T09:59:17Z",
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "none"}]},
        "status": {"phase": "Pending", "qosClass": "BestEffort", **more},
    }


def asked(*nodes: str, of: dict[str, Any] | None = None) -> bytes:
    return json.dumps({"Pod": of or pod(), "Nodes": None, "NodeNames": nodes}).encode()


@pytest.fixture
def rows() -> list[Change]:
    return []


@pytest.fixture
def extender(rows: list[Change]) -> Extender:
    return Extender(rows.extend, Clock())


# -- rows and answers ----------------------------------------------------------------------------------


def test_RB8_candidates_of_kube_scheduler_are_a_row_and_come_back_as_they_were(
    extender: Extender, rows: list[Change]
):
    answer = json.loads(extender.filter(asked("n1", "n2", "n3")))
    assert answer == {"NodeNames": ["n1", "n2", "n3"], "FailedNodes": {}, "Error": ""}
    assert rows == [
        Change(
            "Pod",
            "Filter",
            1_005,
            1_005,
            Source.EXTENDER,
            uid="uid-train-0",
            namespace="team-a",
            name="train-0",
            scheduler="default-scheduler",
            version=77,
            extra={"count": 3, "candidates": ["n1", "n2", "n3"], "attempt": 1},
        )
    ]


def test_RB8_nobody_is_scored(extender: Extender, rows: list[Change]):
    extender.filter(asked("n1", "n2"))
    assert json.loads(extender.prioritize(asked("n1", "n2"))) == []
    assert (rows[1].event, rows[1].extra) == ("Prioritize", {"count": 2, "attempt": 1, "after": 5})


def test_RB8_what_another_extender_took_away_is_seen(extender: Extender, rows: list[Change]):
    extender.filter(asked("n1", "n2"))
    extender.prioritize(asked("n2"))
    assert rows[1].extra == {"count": 1, "candidates": ["n2"], "attempt": 1, "after": 5}


def test_RB8_scores_asked_for_a_pod_not_seen_before(extender: Extender, rows: list[Change]):
    extender.prioritize(asked("n2"))
    assert rows[0].extra == {"count": 1, "candidates": ["n2"]}


def test_RB8_of_many_candidates_some_are_named_and_all_are_counted(extender: Extender, rows: list[Change]):
    names = [f"node-{i}" for i in range(5_000)]
    assert json.loads(extender.filter(asked(*names)))["NodeNames"] == names
    assert rows[0].extra == {"count": 5_000, "sample": names[:MOST_NAMES], "attempt": 1}
    extender.filter(asked(*names[:MOST_NAMES]))
    assert rows[1].extra == {"count": MOST_NAMES, "candidates": names[:MOST_NAMES], "attempt": 2}


def test_RB8_no_candidate_left_is_an_answer_too(extender: Extender, rows: list[Change]):
    assert json.loads(extender.filter(asked()))["NodeNames"] == []
    assert rows[0].extra == {"count": 0, "candidates": [], "attempt": 1}


def test_RB8_whole_nodes_are_accepted_and_come_back_whole(extender: Extender, rows: list[Change]):
    nodes = {"metadata": {}, "items": [{"metadata": {"name": "n1", "labels": {"a": "b"}}, "spec": {"x": 1}}]}
    answer = json.loads(extender.filter(json.dumps({"Pod": pod(), "Nodes": nodes}).encode()))
    assert answer == {"Nodes": nodes, "FailedNodes": {}, "Error": ""}
    assert rows[0].extra == {"count": 1, "candidates": ["n1"], "attempt": 1}


def test_RB8_a_nominated_node_is_told(extender: Extender, rows: list[Change]):
    extender.filter(asked("n1", of=pod(nominatedNodeName="n1")))
    assert rows[0].extra is not None and rows[0].extra["nominated"] == "n1"


def test_RB9_attempts_are_counted_by_pod(extender: Extender, rows: list[Change]):
    for name in ("a", "b", "a", "a"):
        extender.filter(asked("n1", of=pod(name)))
    assert [(row.name, (row.extra or {})["attempt"]) for row in rows] == [
        ("a", 1), ("b", 1), ("a", 2), ("a", 3),
    ]  # fmt: skip


def test_RB9_who_was_asked_about_longest_ago_is_forgotten(rows: list[Change]):
    extender = Extender(rows.extend, Clock(), most_pods=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        extender.filter(asked("n1", of=pod(name)))
    assert [(row.extra or {})["attempt"] for row in rows] == [1, 1, 2, 1, 3, 1]


@pytest.mark.parametrize("version", ["", "²", "-1", "9" * 5_000])
def test_a_version_that_is_no_number_counts_as_none(extender: Extender, rows: list[Change], version: str):
    found = pod()
    found["metadata"]["resourceVersion"] = version
    extender.filter(asked("n1", of=found))
    assert rows[0].version == 0


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "not the ExtenderArgs"),
        (b"\xff\xfe", "not the ExtenderArgs"),
        (b"[]", "not the ExtenderArgs"),
        (b"{}", "missing required field `Pod`"),
        (b'{"Pod":null,"NodeNames":["a"]}', "$.Pod"),
        (b'{"Pod":{"metadata":{}},"NodeNames":[1]}', "Expected `str`, got `int`"),
        (b'{"Pod":{"metadata":{}},"NodeNames":null}', "neither NodeNames nor Nodes"),
        (b'{"Pod":{"metadata":{}},"Nodes":{"items":[{}]}}', "missing required field `metadata`"),
    ],
)
def test_what_is_no_question_is_no_row(extender: Extender, rows: list[Change], body: bytes, complaint: str):
    for ask in (extender.filter, extender.prioritize):
        with pytest.raises(NotUnderstood) as caught:
            ask(body)
        assert complaint in str(caught.value)
    assert rows == []


# -- a full ledger -------------------------------------------------------------------------------------


def test_RB9_what_finds_no_room_is_counted_and_told_once():
    ledger = Ledger()
    clock = Clock()
    outlet = Outlet(ledger, "extender", clock)
    extender = Extender(outlet.put, clock)
    ledger.room = False
    for _ in range(3):
        assert json.loads(extender.filter(asked("n1")))["NodeNames"] == ["n1"]
    assert (outlet.refused, outlet.taken) == (3, 0)
    ledger.room = True
    extender.filter(asked("n1"))
    extender.filter(asked("n1"))
    assert [change.event for change in ledger.changes] == ["Gap", "Filter", "Filter"]
    gap = ledger.changes[0]
    assert (gap.object, gap.source) == ("Recorder", Source.RECORDER)
    assert gap.extra is not None
    assert (gap.extra["kind"], gap.extra["from"], gap.extra["lost"]) == ("extender", 1_005, 3)
    assert (outlet.refused, outlet.taken) == (3, 2)


# -- over HTTP -----------------------------------------------------------------------------------------


def client(rows: list[Change], base: str = "http://127.0.0.1:8080") -> httpx.AsyncClient:
    app = tap.create_app(Extender(rows.extend, Clock()))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base)


@pytest.fixture
async def http(rows: list[Change]) -> AsyncIterator[httpx.AsyncClient]:
    async with client(rows) as found:
        yield found


async def test_RB8_tap_over_http(http: httpx.AsyncClient, rows: list[Change]):
    filtered = await http.post("/extender/observe/filter", content=asked("n1", "n2"))
    assert (filtered.status_code, filtered.json()["NodeNames"]) == (200, ["n1", "n2"])
    assert filtered.headers["content-type"] == "application/json"
    scored = await http.post("/extender/observe/prioritize", content=asked("n1", "n2"))
    assert (scored.status_code, scored.json()) == (200, [])
    assert [row.event for row in rows] == ["Filter", "Prioritize"]


async def test_wrong_body_is_refused_with_a_sentence(http: httpx.AsyncClient, rows: list[Change]):
    answer = await http.post("/extender/observe/filter", content=b"{")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("not the ExtenderArgs of a scheduler")
    assert rows == []


async def test_too_large_a_body_is_refused(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tap, "LARGEST", 100)
    answer = await http.post("/extender/observe/filter", content=asked("n1"))
    assert (answer.status_code, "too large" in answer.json()["error"]) == (400, True)


async def test_it_does_not_bind_nor_answer_web_pages(http: httpx.AsyncClient, rows: list[Change]):
    assert (await http.post("/extender/observe/bind", content=b"{}")).status_code == 404
    assert (await http.get("/extender/observe/filter")).status_code == 405
    async with client(rows, "http://evil.example") as stranger:
        answer = await stranger.post("/extender/observe/filter", content=asked("n1"))
    assert answer.status_code == 403
    assert rows == []


def test_RB8_the_ready_configuration_asks_for_these_routes_and_can_be_done_without(rows: list[Change]):
    file = Path(__file__).resolve().parents[2] / "deploy" / "kube-scheduler-config.yaml"
    (told,) = yaml.safe_load(file.read_text(encoding="utf-8"))["extenders"]
    prefix = urlsplit(told["urlPrefix"]).path
    asked_for = [f"{prefix}/{told[verb]}" for verb in ("filterVerb", "prioritizeVerb")]
    assert asked_for == [each.path for each in tap.routes(Extender(rows.extend, Clock()))]
    assert (told["ignorable"], told["nodeCacheCapable"]) == (True, True)
    assert told["weight"] > 0, "kube-scheduler refuses a prioritizer without weight"
    assert not {"bindVerb", "preemptVerb", "managedResources"} & set(told)
