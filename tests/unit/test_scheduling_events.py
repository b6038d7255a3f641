"""Kubernetes Events as rows: times, counts, who said it, and why a pod was not placed."""

import json
from typing import Any

import msgspec
import pytest

from fairlead.model.record import Change, Source
from fairlead.recorder.scheduling_events import SchedulingEvents, change, refusal
from fairlead.wire.happening import EventFact, happening
from fairlead.wire.pod import millis

SEEN = millis("2026-11-22T02:40:00Z")
NOTE = (
    "0/8 nodes are available: 1 node(s) had untolerated taint(s) {dedicated: batch}, 3 Insufficient cpu, "
    "4 Insufficient nvidia.com/gpu. preemption: 0/8 nodes are available: "
    "2 Preemption is not helpful for scheduling, 6 No preemption victims found for incoming pod."
)
REASONS = {
    "node(s) had untolerated taint(s) {dedicated: batch}": 1,
    "Insufficient cpu": 3,
    "Insufficient nvidia.com/gpu": 4,
}
PREEMPTION = {
    "Preemption is not helpful for scheduling": 2,
    "No preemption victims found for incoming pod": 6,
}


def written(**more: Any) -> bytes:
    """An Event as kube-scheduler writes it and the API server gives it."""
    event = {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {
            "name": "train-0.18b2",
            "namespace": "team-a",
            "uid": "event-1",
            "resourceVersion": "500",
            "creationTimestamp": "2026-11-22T02:30:01Z",
        },
        "eventTime": "2026-11-22T02:30:00.123456Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "team-a",
            "name": "train-0",
            "uid": "pod-1",
            "apiVersion": "v1",
            "resourceVersion": "499",
        },
        "note": NOTE,
        "type": "Warning",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    return json.dumps({**event, **more}).encode()


def read(**more: Any) -> EventFact:
    return happening(written(**more))


def series(count: int, at: str = "2026-11-22T02:35:00.5Z", version: str = "501") -> EventFact:
    meta = {"uid": "event-1", "resourceVersion": version, "creationTimestamp": "2026-11-22T02:30:01Z"}
    return read(series={"count": count, "lastObservedTime": at}, metadata=meta)


# -- rows ----------------------------------------------------------------------------------------------


def test_RB9_a_refused_attempt_with_its_reasons():
    assert change(read(), SEEN) == Change(
        "Pod",
        "FailedScheduling",
        millis("2026-11-22T02:30:00.123Z"),
        SEEN,
        Source.EVENTS,
        uid="pod-1",
        namespace="team-a",
        name="train-0",
        scheduler="default-scheduler",
        version=500,
        reason="Insufficient nvidia.com/gpu",
        message=NOTE,
        extra={"warning": True, "nodes": 8, "reasons": REASONS, "preemption": PREEMPTION},
    )


def test_RB8_where_a_pod_was_placed():
    row = change(
        read(
            reason="Scheduled",
            type="Normal",
            action="Binding",
            note="Successfully assigned team-a/train-0 to node-7.example.com",
        ),
        SEEN,
    )
    assert (row.event, row.node, row.scheduler) == ("Scheduled", "node-7.example.com", "default-scheduler")
    assert (row.reason, row.extra) == ("", None)


def test_RB8_who_was_preempted_by_whom_and_where():
    by = {"kind": "Pod", "namespace": "team-b", "name": "urgent", "uid": "pod-2"}
    note = "Preempted by pod pod-2 on node node-3"
    row = change(read(reason="Preempted", type="Normal", note=note), SEEN)
    assert (row.node, row.extra) == ("node-3", {"by": "pod-2"})
    row = change(read(reason="Preempted", note=f"{note} (in kube-scheduler memory).", related=by), SEEN)
    assert (row.node, row.extra) == ("node-3", {"warning": True, "related": by, "by": "pod-2"})
    row = change(read(reason="Preempted", type="Normal", note="Preempted by somebody"), SEEN)
    assert (row.node, row.extra) == ("", None)


def test_a_kubelet_of_the_old_kind():
    """Written through core/v1: times of a second, a count, and the source that is called deprecated."""
    fact = read(
        reason="Evicted",
        note="The node was low on resource: memory.",
        eventTime=None,
        reportingController="",
        reportingInstance="",
        deprecatedSource={"component": "kubelet", "host": "node-3"},
        deprecatedFirstTimestamp="2026-11-22T02:31:00Z",
        deprecatedLastTimestamp="2026-11-22T02:33:00Z",
        deprecatedCount=4,
    )
    row = change(fact, SEEN)
    first, last = millis("2026-11-22T02:31:00Z"), millis("2026-11-22T02:33:00Z")
    assert (row.event, row.at, row.node, row.scheduler) == ("Evicted", last, "node-3", "")
    assert row.extra == {"controller": "kubelet", "count": 4, "first": first, "warning": True}


def test_a_kubelet_of_the_new_kind_and_a_node():
    about = {"kind": "Node", "name": "node-3", "uid": "node-3"}
    fact = read(reason="Rebooted", reportingController="kubelet", reportingInstance="node-3", regarding=about)
    row = change(fact, SEEN)
    assert (row.object, row.name, row.node) == ("Node", "node-3", "node-3")
    assert row.uid == "", "a name is no uid"
    killing = read(reason="Killing", reportingController="kubelet", reportingInstance="node-3")
    assert change(killing, SEEN).node == "node-3"


def test_an_event_without_any_time_of_its_own():
    created = read(eventTime=None)
    assert created.at == millis("2026-11-22T02:30:01Z")
    never = read(eventTime="soon", metadata={"uid": "event-1", "resourceVersion": "5"})
    assert (never.at, change(never, SEEN).at) == (0, SEEN)


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"metadata":{"uid":1}}', written(regarding=[])])
def test_what_is_no_event(raw: bytes):
    with pytest.raises(msgspec.MsgspecError):
        happening(raw)


# -- once ----------------------------------------------------------------------------------------------


def test_RB9_each_count_of_a_series_is_said_once():
    events = SchedulingEvents()
    counts = [
        row and (row.extra or {}).get("count", 1)
        for row in (
            events.learn(each, SEEN)
            for each in (
                read(),
                read(),
                series(2),
                series(2, version="502"),
                series(9, at="2026-11-22T02:39:00Z", version="503"),
                series(9, version="504"),
            )
        )
    ]
    assert counts == [1, None, 2, None, 9, None]


def test_RB9_a_repeat_has_its_own_time():
    row = SchedulingEvents().learn(series(7), SEEN)
    assert row is not None and row.extra is not None
    assert row.at == millis("2026-11-22T02:35:00.5Z")
    assert (row.extra["count"], row.extra["first"]) == (7, millis("2026-11-22T02:30:00.123Z"))


def test_few_events_are_remembered():
    events = SchedulingEvents(most=2)

    def said(uid: str) -> bool:
        return events.learn(read(metadata={"uid": uid, "resourceVersion": "5"}), SEEN) is not None

    assert [said(uid) for uid in ("a", "b", "a", "c", "a", "b")] == [True, True, False, True, False, True]


def test_events_about_other_things_are_left_out():
    events = SchedulingEvents()
    for kind, recorded in (("Pod", True), ("Node", True), ("Job", True), ("Service", False), ("", False)):
        fact = read(regarding={"kind": kind, "name": "x", "uid": "u"}, metadata={"uid": f"event-{kind}"})
        assert (events.learn(fact, SEEN) is not None) is recorded, kind


# -- notes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "found"),
    [
        (NOTE, {"nodes": 8, "reasons": REASONS, "preemption": PREEMPTION}),
        ("no nodes available to schedule pods", {"nodes": 0, "reasons": {}}),
        ("skip schedule deleting pod: team-a/train-0", {}),
        ("", {}),
        ("0/2 nodes are available:", {"nodes": 2, "reasons": {}}),
        ("0/2 nodes are available: 2 Too many pods.", {"nodes": 2, "reasons": {"Too many pods": 2}}),
        (
            "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling..",
            {
                "nodes": 1,
                "reasons": {"node(s) were unschedulable": 1},
                "preemption": {"Preemption is not helpful for scheduling": 1},
            },
        ),
        (
            "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: "
            "not eligible due to preemptionPolicy=Never.",
            {
                "nodes": 5,
                "reasons": {"pod has unbound immediate PersistentVolumeClaims": 5},
                "preemption": {"not eligible due to preemptionPolicy=Never": 5},
            },
        ),
        (
            "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            {
                "nodes": 3,
                "reasons": {"cannot allocate all claims": 3},
                "preemption": {"Preemption is not helpful for scheduling": 3},
            },
        ),
        (
            "0/9000 nodes are available: 4000 Insufficient cpu, 5000 node(s) didn't match Pod's node aff ...",
            {
                "nodes": 9000,
                "reasons": {"Insufficient cpu": 4000, "node(s) didn't match Pod's node aff": 5000},
                "cut": True,
            },
        ),
    ],
)
def test_RB9_reasons_by_how_many_nodes_gave_them(note: str, found: dict[str, Any]):
    assert refusal(note) == found


def test_no_number_is_too_long():
    """A number of thousands of digits cannot be read at all."""
    digits = "9" * 5000
    assert refusal(f"0/{digits} nodes are available: 1 Insufficient cpu.") == {}
    assert refusal(f"0/2 nodes are available: {digits} x.") == {"nodes": 2, "reasons": {f"{digits} x": 2}}
