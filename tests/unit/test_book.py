"""The recorder's book on one pod and one node: which changes a fact makes, when they were, and said once."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.core.grouping import DURATION
from fairlead.model.event import Listed, Rewound
from fairlead.model.record import Change, Loaded, Part, PodLife, Source
from fairlead.recorder.book import Book, Heard, Mark
from fairlead.wire import life
from fairlead.wire.life import GoneFact, NodeFact, PodFact

NOON = life.time_of("2026-11-22T12:00:00Z")


def stamp(second: int) -> str:
    return f"2026-11-22T12:00:{second:02d}Z"


def at(second: int) -> int:
    return NOON + second * 1000


def condition(type: str, status: str, second: int, **more: str) -> dict[str, str]:
    return {"type": type, "status": status, "lastTransitionTime": stamp(second), **more}


def running(second: int, restarts: int = 0, last: dict[str, Any] | None = None) -> dict[str, Any]:
    state = {"running": {"startedAt": stamp(second)}}
    return {
        "name": "main",
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }


def terminated(started: int, finished: int, code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    return {
        "startedAt": stamp(started),
        "finishedAt": stamp(finished),
        "exitCode": code,
        "reason": reason,
    }


def ended(started: int, finished: int, code: int = 0, **more: Any) -> dict[str, Any]:
    state = {"terminated": terminated(started, finished, code, **more)}
    return {"name": "main", "restartCount": 0, "state": state}


def pod(version: int, *, meta: Any = None, spec: Any = None, status: Any = None) -> PodFact:
    thing = {
        "metadata": {
            "name": "p", "namespace": "team", "uid": "u", "resourceVersion": str(version),
            "creationTimestamp": stamp(1), **(meta or {}),
        },
        "spec": {
            "schedulerName": "other",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
            **(spec or {}),
        },
        "status": status or {"phase": "Pending"},
    }  # fmt: skip
    return life.pod(json.dumps(thing).encode())


def node(version: int, *, meta: Any = None, spec: Any = None, **status: Any) -> NodeFact:
    thing = {
        "metadata": {
            "name": "n", "uid": "n-uid", "resourceVersion": str(version), "creationTimestamp": stamp(1),
            **(meta or {}),
        },
        "spec": spec or {},
        "status": {
            "capacity": {"cpu": "8", "memory": "1Gi"}, "allocatable": {"cpu": "7500m", "memory": "1Gi"},
            "conditions": [condition("Ready", "True", 2)], **status,
        },
    }  # fmt: skip
    return life.node(json.dumps(thing).encode())


class Ledger:
    """What the book's parts leave behind."""

    def __init__(self, loaded: Loaded | None = None) -> None:
        self.book = Book(loaded or Loaded())
        self.changes: list[Change] = []
        self.lives: dict[str, PodLife] = {}
        self.nodes: dict[tuple[str, int], Any] = {}
        self.marks: dict[str, int] = {}

    def hear(self, *facts: Heard, seen: int = at(30)) -> list[str]:
        """The events of the changes that these facts make."""
        before = len(self.changes)
        for fact in facts:
            self.take(self.book.observe(fact, seen))
        return [each.event for each in self.changes[before:]]

    def take(self, part: Part) -> None:
        self.changes += part.changes
        self.lives |= {each.uid: each for each in part.pods}
        self.nodes |= {(each.uid, each.since): each for each in part.nodes}
        self.marks |= part.marks

    def restarted(self) -> "Ledger":
        other = Ledger(
            Loaded(
                {uid: each for uid, each in self.lives.items() if not each.deleted},
                {each.uid: each for each in self.nodes.values() if not each.until},
                dict(self.marks),
            )
        )
        other.changes, other.lives, other.nodes = self.changes, self.lives, self.nodes
        other.marks = self.marks
        return other

    def last(self, event: str) -> Change:
        return next(each for each in reversed(self.changes) if each.event == event)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


BOUND = {"nodeName": "n"}
SCHEDULED = condition("PodScheduled", "True", 3)
STARTED = {
    "phase": "Running",
    "conditions": [SCHEDULED, condition("Initialized", "True", 4), condition("Ready", "True", 6)],
    "containerStatuses": [running(5)],
}
DONE = {
    "phase": "Succeeded",
    "conditions": [
        SCHEDULED, condition("Initialized", "True", 4), condition("Ready", "False", 9, reason="PodCompleted"),
    ],
    "containerStatuses": [ended(5, 9)],
}  # fmt: skip


def test_RB5_RB6_a_life_from_its_creation_to_its_end(ledger: Ledger) -> None:
    assert ledger.hear(pod(1)) == ["Created", "Queued"]
    assert ledger.hear(pod(2, spec=BOUND, status={"conditions": [SCHEDULED]})) == ["Scheduled", "Bound"]
    assert ledger.hear(pod(3, spec=BOUND, status=STARTED)) == ["Initialized", "ContainerStarted", "Ready"]
    assert ledger.hear(pod(4, spec=BOUND, status=DONE)) == ["ContainerFinished", "Finished"]
    asked = {"deletionTimestamp": stamp(50), "deletionGracePeriodSeconds": 30}
    assert ledger.hear(pod(5, meta=asked, spec=BOUND, status=DONE)) == ["Deleting"]
    assert ledger.hear(GoneFact("u", 6, "Pod"), seen=at(21)) == ["Deleted"]
    found = ledger.lives["u"]
    times = (found.created, found.queued, found.scheduled, found.bound, found.started, found.ready)
    assert times == (at(1), at(1), at(3), at(3), at(5), at(6))
    assert (found.finished, found.deleting, found.deleted) == (at(9), at(20), at(21))
    assert (found.exit_code, found.phase, found.node, found.lost) == (0, "Succeeded", "n", False)
    assert ledger.last("ContainerFinished").extra == {"container": "main", "exitCode": 0}
    assert ledger.last("Finished").reason == "Succeeded"
    assert ledger.book.pods == 0


def test_RB2_RB7_where_a_pod_is_and_whose_it_is(ledger: Ledger) -> None:
    owner = {"kind": "Job", "name": "train", "uid": "job-uid", "controller": True}
    meta = {
        "ownerReferences": [owner], "labels": {"app": "x"}, "annotations": {"fairlead.dev/duration": "2h"},
    }  # fmt: skip
    ledger.hear(pod(2, meta=meta, spec={**BOUND, "priority": 7}, status={"conditions": [SCHEDULED]}))
    found = ledger.lives["u"]
    assert (found.namespace, found.name, found.node, found.scheduler) == ("team", "p", "n", "other")
    assert (found.owner_kind, found.owner_name, found.owner_uid) == ("Job", "train", "job-uid")
    assert (found.group, found.walltime, found.priority) == ("train", 7_200_000, 7)
    assert found.requests == {"cpu": 2000} and found.labels == {"app": "x"}
    assert found.first_seen == at(30)
    bound = ledger.last("Bound")
    assert (bound.node, bound.at, bound.seen, bound.source) == ("n", at(3), at(30), Source.WATCH)


def test_a_group_is_named_by_its_label_first(ledger: Ledger) -> None:
    ledger.hear(pod(1, meta={"labels": {"fluxnetes.group-name": "gang"}}))
    assert ledger.lives["u"].group == "gang"


def test_all_at_once_is_told_in_the_order_in_which_it_happened(ledger: Ledger) -> None:
    assert ledger.hear(pod(9, spec=BOUND, status=DONE)) == [
        "Created", "Queued", "Scheduled", "Bound", "Initialized", "ContainerStarted", "ContainerFinished",
        "Finished",
    ]  # fmt: skip


def test_a_gated_pod_is_queued_when_its_last_gate_goes(ledger: Ledger) -> None:
    assert ledger.hear(pod(1, spec={"schedulingGates": [{"name": "quota"}]})) == ["Created"]
    assert ledger.hear(pod(2), seen=at(12)) == ["Queued"]
    assert ledger.lives["u"].queued == at(12)


def test_a_pod_that_was_made_for_its_node_was_bound_from_the_start(ledger: Ledger) -> None:
    assert ledger.hear(pod(1, spec=BOUND)) == ["Created", "Queued", "Bound"]
    assert ledger.lives["u"].bound == at(1)


def test_a_container_that_restarts_is_told_each_time(ledger: Ledger) -> None:
    ledger.hear(pod(3, spec=BOUND, status=STARTED))
    again = {
        **STARTED,
        "containerStatuses": [running(8, restarts=1, last=terminated(5, 7, 137, "OOMKilled"))],
    }
    assert ledger.hear(pod(4, spec=BOUND, status=again)) == ["ContainerFinished", "ContainerStarted"]
    assert ledger.last("ContainerFinished").reason == "OOMKilled"
    assert ledger.hear(pod(5, meta={"labels": {"a": "b"}}, spec=BOUND, status=again)) == ["Relabelled"]
    found = ledger.lives["u"]
    assert (found.started, found.exit_code, found.restarts) == (at(5), 137, 1)


def test_restarts_within_one_second_are_told_apart(ledger: Ledger) -> None:
    ledger.hear(pod(3, spec=BOUND, status=STARTED))
    for restarts in (1, 2):
        status = {**STARTED, "containerStatuses": [running(5, restarts, terminated(5, 5, 1))]}
        assert ledger.hear(pod(3 + restarts, spec=BOUND, status=status)) == [
            "ContainerFinished",
            "ContainerStarted",
        ]


def test_a_node_that_forgot_its_restarts_begins_to_count_anew(ledger: Ledger) -> None:
    status = {**STARTED, "containerStatuses": [running(5, 4)]}
    ledger.hear(pod(3, spec=BOUND, status=status))
    assert ledger.hear(
        pod(4, spec=BOUND, status={**STARTED, "containerStatuses": [running(20, restarts=0)]})
    ) == ["ContainerStarted"]


def test_an_end_without_times_is_told_once(ledger: Ledger) -> None:
    lost = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
    status = {"phase": "Failed", "containerStatuses": [lost]}
    ledger.hear(pod(2, spec=BOUND, status=STARTED))
    assert ledger.hear(pod(3, spec=BOUND, status=status), seen=at(40)) == ["ContainerFinished", "Finished"]
    assert ledger.last("ContainerFinished").at == ledger.lives["u"].finished == at(40)
    assert ledger.hear(pod(4, meta={"labels": {"a": "b"}}, spec=BOUND, status=status)) == ["Relabelled"]


def test_readiness_is_told_when_it_turns(ledger: Ledger) -> None:
    ledger.hear(pod(2, spec=BOUND, status={"conditions": [condition("Ready", "False", 2)]}))
    ledger.hear(pod(3, spec=BOUND, status=STARTED))
    off = {**STARTED, "conditions": [condition("Ready", "False", 8)]}
    assert ledger.hear(pod(4, spec=BOUND, status=off)) == ["NotReady"]
    on = {**STARTED, "conditions": [condition("Ready", "True", 8)]}
    assert ledger.hear(pod(5, spec=BOUND, status=on)) == ["Ready"]
    missed = {**STARTED, "conditions": [condition("Ready", "True", 15)]}
    assert ledger.hear(pod(6, spec=BOUND, status=missed)) == ["Ready"]
    assert ledger.lives["u"].ready == at(6)
    assert [each.event for each in ledger.changes].count("NotReady") == 1


def test_labels_and_requests_are_told_by_what_changed(ledger: Ledger) -> None:
    ledger.hear(pod(1, meta={"labels": {"a": "1", "b": "2"}}))
    assert ledger.hear(pod(2, meta={"labels": {"a": "1", "b": "3", "c": "4"}})) == ["Relabelled"]
    assert ledger.last("Relabelled").extra == {"labels": {"b": ["2", "3"], "c": [None, "4"]}}
    more = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}
    assert "Resized" in ledger.hear(pod(3, spec=more))
    assert ledger.last("Resized").extra == {"requests": {"cpu": [2000, 3000]}}


def test_the_zone_that_comes_with_the_node_is_no_relabelling(ledger: Ledger) -> None:
    ledger.hear(pod(1, meta={"labels": {"a": "1"}}))
    zone = {"labels": {"a": "1", "topology.kubernetes.io/zone": "z"}}
    assert ledger.hear(pod(2, meta=zone, spec=BOUND)) == ["Bound"]
    assert ledger.lives["u"].labels == zone["labels"]
    assert ledger.hear(pod(3, spec=BOUND)) == ["Relabelled"]


def test_what_is_older_than_known_changes_nothing(ledger: Ledger) -> None:
    ledger.hear(pod(5, spec=BOUND, status=STARTED))
    assert ledger.book.observe(pod(5, status=DONE), at(31)) == Part()
    assert ledger.book.observe(pod(4), at(31)) == Part()
    assert ledger.book.observe(GoneFact("u", 4, "Pod"), at(31)) == Part()
    assert ledger.book.pods == 1


def test_a_version_without_news_is_no_write(ledger: Ledger) -> None:
    ledger.hear(pod(5))
    assert ledger.book.observe(pod(6, meta={"annotations": {"x": "y"}}), at(31)) == Part()


def test_what_is_gone_stays_gone_whatever_comes_late(ledger: Ledger) -> None:
    ledger.hear(pod(5), GoneFact("u", 8, "Pod"))
    assert ledger.hear(pod(7, spec=BOUND), pod(5), GoneFact("u", 8, "Pod")) == []
    after = ledger.restarted()
    after.hear(Mark("Pod", 8))
    assert after.restarted().hear(pod(7, spec=BOUND), GoneFact("u", 8, "Pod")) == []


def test_the_last_object_tells_what_the_watch_did_not(ledger: Ledger) -> None:
    ledger.hear(pod(1))
    last = pod(9, spec=BOUND, status=DONE)
    assert ledger.hear(GoneFact("u", 9, "Pod", last))[-2:] == ["Finished", "Deleted"]
    assert ledger.lives["u"].finished == at(9)


def test_a_first_list_is_no_gap_and_an_unfinished_pod_is_kept(ledger: Ledger) -> None:
    assert ledger.hear(pod(5), Listed("Pod", ("u",), 9)) == ["Created", "Queued"]
    assert ledger.marks == {"Pod": 9}
    assert ledger.book.pods == 1


def test_a_list_after_a_gap_closes_what_is_gone(ledger: Ledger) -> None:
    ledger.hear(pod(5), Listed("Pod", ("u",), 9))
    after = ledger.restarted()
    assert after.hear(Listed("Pod", (), 90), seen=at(40)) == ["Gap", "Vanished"]
    gap = after.last("Gap")
    assert (gap.object, gap.source) == ("Recorder", Source.RECORDER)
    assert gap.extra == {"kind": "Pod", "from": 9, "to": 90}
    assert after.lives["u"].lost and after.lives["u"].deleted == at(40)


def test_a_list_that_missed_nothing_is_no_gap(ledger: Ledger) -> None:
    ledger.hear(pod(5), Listed("Pod", ("u",), 9))
    assert ledger.hear(pod(5), Listed("Pod", ("u",), 9)) == []


def test_pods_of_an_imported_log_do_not_vanish() -> None:
    ledger = Ledger(Loaded(pods={"i": PodLife("i", "team", "old", source=Source.IMPORT)}, marks={"Pod": 3}))
    assert ledger.hear(Listed("Pod", (), 9)) == ["Gap"]


def test_after_versions_went_back_nothing_is_taken_for_old(ledger: Ledger) -> None:
    ledger.hear(pod(90, spec=BOUND, status=STARTED), Listed("Pod", ("u",), 99))
    assert ledger.hear(Rewound("Pod"), pod(30), pod(31, spec=BOUND, status=DONE)) == [
        "ContainerFinished", "Finished",
    ]  # fmt: skip
    assert ledger.hear(Listed("Pod", ("u",), 35)) == ["Gap"]
    assert ledger.last("Gap").reason == "Rewound" and ledger.marks == {"Pod": 35}


def test_nodes_are_rows_from_state_to_state(ledger: Ledger) -> None:
    assert ledger.hear(node(1)) == ["Added", "Condition"]
    assert ledger.last("Condition").reason == "Ready=True"
    assert ledger.hear(node(2, meta={"annotations": {"beat": "1"}}), seen=at(31)) == []
    assert ledger.hear(node(3, meta={"labels": {"zone": "a"}}), seen=at(32)) == ["Changed"]
    assert ledger.last("Changed").extra == {"labels": {"zone": [None, "a"]}}
    cordoned = {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    labels = {"labels": {"zone": "a"}}
    assert ledger.hear(node(4, meta=labels, spec=cordoned), seen=at(33)) == ["Changed", "Cordoned"]
    assert ledger.last("Changed").extra == {"taints": {"added": ["k=:NoSchedule"], "removed": []}}
    assert ledger.hear(GoneFact("n-uid", 5, "Node"), seen=at(34)) == ["Deleted"]
    rows = sorted(ledger.nodes.values(), key=lambda each: each.since)
    assert [(each.since, each.until) for each in rows] == [
        (at(1), at(32)), (at(32), at(33)), (at(33), at(34)),
    ]  # fmt: skip
    assert rows[0].capacity == {"cpu": 8000, "memory": 1 << 30} and rows[0].allocatable["cpu"] == 7500


def test_a_node_that_is_not_ready_has_a_row_and_says_why(ledger: Ledger) -> None:
    ledger.hear(node(1))
    bad = [condition("Ready", "Unknown", 8, reason="Lost"), condition("MemoryPressure", "True", 8)]
    assert ledger.hear(node(2, conditions=bad), seen=at(31)) == ["Condition", "Condition"]
    row = ledger.nodes["n-uid", at(31)]
    assert not row.ready and row.conditions == {"Ready": "Lost", "MemoryPressure": ""}
    better = [condition("Ready", "True", 9), condition("MemoryPressure", "False", 9)]
    assert ledger.hear(node(3, conditions=better), seen=at(32)) == ["Condition", "Condition"]
    assert ledger.restarted().hear(node(4, conditions=better)) == []


def test_a_condition_alone_writes_the_row_anew_and_begins_none(ledger: Ledger) -> None:
    ledger.hear(node(1))
    ready = condition("Ready", "True", 2)
    assert ledger.hear(node(2, conditions=[ready, condition("DiskPressure", "True", 5)])) == ["Condition"]
    assert len(ledger.nodes) == 1 and ledger.restarted().hear(
        node(3, conditions=[ready, condition("DiskPressure", "True", 5)])
    ) == []  # fmt: skip


def test_two_states_of_a_node_in_one_millisecond_are_one_row(ledger: Ledger) -> None:
    ledger.hear(node(1), node(2, meta={"labels": {"a": "1"}}), seen=at(1))
    assert list(ledger.nodes) == [("n-uid", at(1))]
    assert ledger.nodes["n-uid", at(1)].labels == {"a": "1"} and ledger.nodes["n-uid", at(1)].until == 0


def test_a_node_that_went_during_a_gap_has_vanished(ledger: Ledger) -> None:
    ledger.hear(node(1), Listed("Node", ("n-uid",), 5))
    assert ledger.hear(Listed("Node", (), 50), seen=at(40)) == ["Gap", "Vanished"]
    assert replace(ledger.nodes["n-uid", at(1)], told={}).lost


@pytest.mark.parametrize("quantity", ["lots", "1e99", ""])
def test_a_pod_whose_requests_cannot_be_read_is_recorded_all_the_same(quantity: str) -> None:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": quantity}}}]}
    assert pod(1, spec=spec).requests == {}


def test_what_users_write_stays_within_what_can_be_summed() -> None:
    amounts = {"cpu": "9E", "memory": "100E", "nvidia.com/gpu": "100E"}
    spec = {"containers": [{"name": "main", "resources": {"requests": amounts}}]}
    found = pod(1, spec=spec, meta={"annotations": {DURATION: "9" * 30 + "h"}})
    assert found.requests == dict.fromkeys(amounts, 2**53 - 1) and found.walltime == 2**53 - 1
    assert pod(1, spec={"activeDeadlineSeconds": 2**63 - 1}).walltime == 2**53 - 1
    assert node(1, capacity=amounts, allocatable=amounts).capacity == dict.fromkeys(amounts, 2**53 - 1)


def test_what_can_be_read_of_a_broken_pod_counts() -> None:
    thing = {
        "metadata": {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": "7"},
        "spec": {"nodeName": "n", "priority": "high"},
        "status": {"phase": "Running"},
    }
    found = life.salvaged_pod(json.dumps(thing).encode())
    assert (found.uid, found.version, found.node, found.phase) == ("u", 7, "n", "Running")
