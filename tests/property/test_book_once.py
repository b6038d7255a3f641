"""Each thing is said exactly once: whatever is repeated, late, listed anew or told to a recorder that begins
again, the changes are those of one clean pass."""

import json
from collections import Counter
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.event import Listed
from fairlead.model.record import Change, Loaded, PodLife
from fairlead.recorder.book import Book, Heard, Mark, joined
from fairlead.wire import life
from fairlead.wire.life import GoneFact, PodFact

Said = tuple[str, str, str]
FLEETING = ("Ready", "NotReady", "Relabelled")
"""What a later object does not tell any more."""


def stamp(second: int) -> str:
    return f"2026-11-22T12:{second // 60:02d}:{second % 60:02d}Z"


class Told(NamedTuple):
    """What the API server tells: an object, or that it is gone (with the last of it)."""

    uid: str
    version: int
    fact: PodFact | GoneFact


@st.composite
def histories(draw: st.DrawFn) -> list[Told]:
    """Pods from creation to deletion, or not so far, in one order of versions."""
    lives = [draw(_stages(f"u{number}")) for number in range(draw(st.integers(1, 4)))]
    told: list[Told] = []
    version = 10
    while any(lives):
        stages = draw(st.sampled_from([each for each in lives if each]))
        version += draw(st.integers(1, 3))
        uid, what, thing = stages.pop(0)
        thing["metadata"]["resourceVersion"] = str(version)
        fact = life.pod(json.dumps(thing).encode())
        told.append(Told(uid, version, GoneFact(uid, version, "Pod", fact) if what == "DELETED" else fact))
    return told


@st.composite
def _stages(draw: st.DrawFn, uid: str) -> list[tuple[str, str, dict[str, Any]]]:
    second = draw(st.integers(0, 100))

    def later() -> str:
        nonlocal second
        second += draw(st.integers(0, 2))
        return stamp(second)

    meta: dict[str, Any] = {
        "uid": uid, "name": uid, "namespace": "n", "creationTimestamp": later(), "labels": {}
    }  # fmt: skip
    spec: dict[str, Any] = {"schedulerName": "any", "containers": [{"name": "c"}]}
    status: dict[str, Any] = {"phase": "Pending", "conditions": []}
    found: list[tuple[str, str, dict[str, Any]]] = []

    def write(what: str = "MODIFIED") -> None:
        found.append((uid, what, json.loads(json.dumps({"metadata": meta, "spec": spec, "status": status}))))

    def condition(type: str, value: str) -> None:
        status["conditions"] = [each for each in status["conditions"] if each["type"] != type] + [
            {"type": type, "status": value, "lastTransitionTime": later()}
        ]

    if draw(st.booleans()):
        spec["schedulingGates"] = [{"name": "g"}]
        write()
        del spec["schedulingGates"]
    write("ADDED")
    spec["nodeName"] = "node"
    condition("PodScheduled", "True")
    write()
    condition("Initialized", "True")
    last: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 3))):
        container: dict[str, Any] = {"name": "c", "restartCount": number, "lastState": last}
        started = later()
        container["state"] = {"running": {"startedAt": started}}
        status |= {"phase": "Running", "containerStatuses": [container]}
        condition("Ready", "True")
        write()
        if draw(st.booleans()):
            meta["labels"]["turn"] = str(number)
            write()
        last = {"terminated": {"startedAt": started, "finishedAt": later(), "exitCode": number % 2}}
        container["state"] = last
        condition("Ready", "False")
        write()
    status["phase"] = draw(st.sampled_from(["Succeeded", "Failed"]))
    write()
    if draw(st.booleans()):
        meta |= {"deletionTimestamp": later(), "deletionGracePeriodSeconds": 0}
        write()
    write("DELETED")
    return found[: draw(st.integers(1, len(found)))]


class Recorder:
    """A book and the ledger that its parts are written to; both begin anew at `restart`."""

    def __init__(self) -> None:
        self.pods: dict[str, PodLife] = {}
        self.marks: dict[str, int] = {}
        self.changes: list[Change] = []
        self.clock = life.time_of(stamp(0))
        self.restart()

    def restart(self) -> int:
        """Where its watch goes on."""
        there = {uid: each for uid, each in self.pods.items() if not each.deleted}
        self.book = Book(Loaded(there, {}, dict(self.marks)))
        return self.marks.get("Pod", 0)

    def hear(self, *facts: Heard, lost: bool = False) -> None:
        """What comes together is written together; `lost`: there was no room for it, or it was killed."""
        self.clock += 7
        part = joined([self.book.observe(fact, self.clock) for fact in facts])
        if not lost:
            self.changes += part.changes
            self.pods |= {each.uid: each for each in part.pods}
            self.marks |= part.marks

    def said(self) -> Counter[Said]:
        return Counter(
            (each.uid, each.event, json.dumps([each.at if "Container" in each.event else 0, each.extra]))
            for each in self.changes
            if each.object == "Pod"
        )


def clean(history: list[Told]) -> Counter[Said]:
    recorder = Recorder()
    recorder.hear(Listed("Pod", (), 5))
    for told in history:
        recorder.hear(told.fact, Mark("Pod", told.version))
    return recorder.said()


def listing(history: list[Told]) -> list[Heard]:
    """What a list tells after all of this."""
    present = {told.uid: told.fact for told in history}
    items = [fact for fact in present.values() if isinstance(fact, PodFact)]
    version = history[-1].version if history else 5
    return [*sorted(items, key=lambda fact: fact.uid), Listed("Pod", tuple(f.uid for f in items), version)]


@given(histories(), st.data())
def test_RB5_nothing_is_said_twice_and_nothing_is_left_out(history: list[Told], data: st.DataObject) -> None:
    recorder, at = Recorder(), 0
    recorder.hear(Listed("Pod", (), 5))
    while at < len(history):
        told = history[at]
        match data.draw(st.sampled_from(["on", "twice", "late", "restart", "list", "lost"])):
            case "on":
                recorder.hear(told.fact, Mark("Pod", told.version))
                at += 1
            case "twice":
                recorder.hear(told.fact, told.fact, Mark("Pod", told.version), told.fact)
                at += 1
            case "late":
                recorder.hear(data.draw(st.sampled_from(history[:at])).fact if at else Mark("Pod", 5))
            case "list":  # nothing was missed
                recorder.hear(*listing(history[:at]))
            case "lost":  # some that came together are not written: it begins anew from the mark
                more = history[at : at + data.draw(st.integers(1, 3))]
                recorder.hear(*(each.fact for each in more), Mark("Pod", more[-1].version), lost=True)
                mark = recorder.restart()
                assert at == sum(each.version <= mark for each in history)
            case _:
                recorder.restart()
    assert recorder.said() == clean(history)
    assert recorder.book.pods == sum(isinstance(fact, PodFact) for fact in listing(history))


@given(histories(), st.data())
def test_RB5_after_a_gap_each_stage_is_there_once(history: list[Told], data: st.DataObject) -> None:
    """What happened unseen is told as far as the objects still tell it, and never twice."""
    recorder, at = Recorder(), 0
    recorder.hear(Listed("Pod", (), 5))
    while at < len(history):
        step = data.draw(st.integers(0, 4))
        at = min(at + step, len(history))
        recorder.restart()
        recorder.hear(*listing(history[:at]))
        for told in history[at : at + 1]:
            recorder.hear(told.fact, Mark("Pod", told.version))
        at += 1
    said, expected = recorder.said(), clean(history)
    gone = {told.uid for told in history if isinstance(told.fact, GoneFact)}
    for key, count in said.items():
        uid, event, _ = key
        assert count <= expected[key] or event in ("Vanished", "Relabelled"), key
    assert {uid for uid, event, _ in said if event in ("Deleted", "Vanished")} <= gone
    for key in expected - said:
        uid, event, _ = key
        assert event in (*FLEETING, "ContainerStarted", "ContainerFinished") or uid in gone, key
    assert all(recorder.pods[told.uid].deleted == 0 for told in history if told.uid not in gone)
