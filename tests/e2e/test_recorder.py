"""The recorder on a real API server: nothing lost, nothing twice, whoever schedules and whoever is killed."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from bench.recorded import Hands, Recording, SecondWatch, come_and_go, names_of

from fairlead.localcluster import Cluster
from live import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

PODS = 500
BATCH = 50
SCHEDULERS = ("default-scheduler", "volcano", "somebody", "fairlead")
_numbers = count(1)


@pytest.fixture
def hands(small_cluster: Cluster) -> Iterator[Hands]:
    with Hands(small_cluster, f"recorded-{next(_numbers)}") as found:
        yield found


@pytest.fixture
def recorder(small_cluster: Cluster, data: Path) -> Iterator[Recording]:
    with Recording(small_cluster.kubeconfig, data) as found:
        yield found


def lives(recorder: Recording, namespace: str, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Columns of each pod's row, by its name."""
    query = f"SELECT name, {', '.join(columns)} FROM pod_life WHERE namespace = %s"
    return {name: tuple(rest) for name, *rest in recorder.rows(query, namespace)}


def wait_all_said(recorder: Recording, watch: SecondWatch, namespace: str) -> None:
    def differ() -> str:
        said, expected = recorder.said(namespace), watch.expected(namespace)
        return f"missing {expected - said}, too often {said - expected}" if said != expected else ""

    try:
        until(lambda: not differ(), "the ledger to have what the second watch has", pause=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}: {differ()[:3000]}") from None


def test_RB2_RB5_RB6_RB7_nothing_is_lost_however_often_it_is_killed(
    small_cluster: Cluster, hands: Hands, recorder: Recording
) -> None:
    names, nodes = [f"p{number}" for number in range(PODS)], names_of(small_cluster)
    with SecondWatch(small_cluster) as watch, ThreadPoolExecutor(1) as aside:
        working = aside.submit(come_and_go, hands, names, nodes, watch, SCHEDULERS, BATCH)
        for number in range(1, 5):
            until(lambda n=number: working.done() or watch.count(hands.namespace, "Created") > n * 90)
            recorder.kill()
            recorder.start()
            if number % 2:  # the others are killed while they start
                recorder.wait_ready()
        working.result()
        recorder.wait_ready()
        wait_all_said(recorder, watch, hands.namespace)
        assert recorder.rows("SELECT count(*) FROM change WHERE event = 'Gap'") == [(0,)]
        bound = dict(watch.nodes)
    found = lives(recorder, hands.namespace, "node", "scheduler", "phase", "exit_code", "uid")
    assert all(bound[row[4]] == row[0] for row in found.values()) and len(found) == PODS
    assert {row[1] for row in found.values()} == set(SCHEDULERS)
    assert {row[2:4] for row in found.values()} == {("Succeeded", 0)}
    stages = "created", "queued", "scheduled", "bound", "started", "finished"
    assert all(
        row[0] > 0 and list(row) == sorted(row) for row in lives(recorder, hands.namespace, *stages).values()
    )
    open_ = [name for name, (gone,) in lives(recorder, hands.namespace, "deleted").items() if not gone]
    assert len(open_) == len(names) - watch.count(hands.namespace, "Deleted") and open_


def test_RB2_a_gap_is_told_and_what_went_in_it_has_vanished(
    hands: Hands, recorder: Recording, small_cluster: Cluster
) -> None:
    node = names_of(small_cluster)[0]
    for name in ("goes", "stays"):
        hands.create(name, run="")
        hands.bind(name, node)
    until(
        lambda: (
            len(recorder.rows("SELECT 1 FROM pod_life WHERE started > 0 AND namespace = %s", hands.namespace))
            == 2
        )
    )
    recorder.kill()
    hands.delete("goes")
    small_cluster.kill("kube-apiserver")  # it does not remember after a restart what happened before
    small_cluster.start("kube-apiserver")
    small_cluster.wait_healthy("kube-apiserver", 60)
    small_cluster.client.close()
    recorder.start()
    recorder.wait_ready()
    until(lambda: lives(recorder, hands.namespace, "lost")["goes"] == (True,), "the pod to be missed")
    (gap,) = recorder.rows(
        "SELECT source, reason, (extra->>'from')::bigint < (extra->>'to')::bigint FROM change"
        " WHERE object = 'Recorder' AND event = 'Gap' AND extra->>'kind' = 'Pod'"
    )
    assert gap == ("recorder", "Expired", True)
    found = recorder.rows(
        "SELECT name, event FROM change WHERE namespace = %s AND event IN ('Vanished', 'Created', 'Bound')",
        hands.namespace,
    )
    assert Counter(found) == {
        ("goes", "Created"): 1, ("goes", "Bound"): 1, ("goes", "Vanished"): 1,
        ("stays", "Created"): 1, ("stays", "Bound"): 1,
    }  # fmt: skip
    assert lives(recorder, hands.namespace, "deleted", "lost")["stays"] == (0, False)


def test_RB5_RB6_what_kubelets_report_is_recorded(
    hands: Hands, recorder: Recording, small_cluster: Cluster
) -> None:
    """Patched into the status as a kubelet would: a restart with its exit code."""
    hands.create("restarts", run="")
    hands.bind("restarts", names_of(small_cluster)[0])
    until(lambda: lives(recorder, hands.namespace, "started").get("restarts", (0,))[0], "the pod to run")
    last = {
        "exitCode": 42, "reason": "Error", "message": "no luck",
        "startedAt": "2026-11-22T01:00:00Z", "finishedAt": "2030-01-01T00:00:00Z",
    }  # fmt: skip
    state = {"running": {"startedAt": "2030-01-01T00:00:07Z"}}
    container = {
        "name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 1,
        "lastState": {"terminated": last}, "state": state,
    }  # fmt: skip
    hands.patch(hands.path("restarts", "status"), {"status": {"containerStatuses": [container]}})

    def told() -> list[Any]:
        return recorder.rows(
            "SELECT event, at, reason, message, extra FROM change WHERE namespace = %s"
            " AND event LIKE 'Container%%' AND at >= 1893456000000 ORDER BY seq",
            hands.namespace,
        )

    until(lambda: len(told()) == 2, "the restart to be told")
    assert told() == [
        ("ContainerFinished", 1893456000000, "Error", "no luck", {"container": "main", "exitCode": 42}),
        ("ContainerStarted", 1893456007000, "", "", {"container": "main", "restart": 1}),
    ]
    assert lives(recorder, hands.namespace, "exit_code", "restarts") == {"restarts": (42, 1)}


def test_RB2_nodes_are_recorded_from_state_to_state(
    hands: Hands, recorder: Recording, small_cluster: Cluster
) -> None:
    name = names_of(small_cluster)[1]
    path = f"/api/v1/nodes/{name}"
    hands.patch(path, {"metadata": {"labels": {"rack": "r7"}}})
    hands.patch(
        f"{path}/status",
        {"status": {"capacity": {"example.com/gpu": "4"}, "allocatable": {"example.com/gpu": "3"}}},
    )
    hands.patch(path, {"spec": {"unschedulable": True}})
    until(  # two states of the same millisecond would be one
        lambda: ("Cordoned",) in recorder.rows("SELECT event FROM change WHERE name = %s", name),
        "the node to be cordoned",
    )
    hands.patch(path, {"spec": {"unschedulable": False}, "metadata": {"labels": {"rack": None}}})
    until(
        lambda: ("Uncordoned",) in recorder.rows("SELECT event FROM change WHERE name = %s", name),
        "all of it",
    )
    told = recorder.rows(
        "SELECT event, extra FROM change WHERE name = %s AND event NOT IN ('Condition') ORDER BY seq", name
    )
    assert told[0][0] == "Added" and told[1:5] == [
        ("Changed", {"labels": {"rack": [None, "r7"]}}),
        (
            "Changed",
            {"capacity": {"example.com/gpu": [None, 4]}, "allocatable": {"example.com/gpu": [None, 3]}},
        ),
        ("Cordoned", None),
        ("Changed", {"labels": {"rack": ["r7", None]}}),
    ]
    rows = recorder.rows(
        "SELECT since, until, capacity->>'cpu', unschedulable FROM node_life WHERE name = %s ORDER BY since",
        name,
    )
    assert all(one[1] == other[0] for one, other in pairwise(rows)) and rows[-1][1] == 0
    assert {row[2] for row in rows} == {"8000"} and [row[3] for row in rows].count(True) >= 1


def test_RB7_a_second_recorder_stands_by_and_takes_over(
    hands: Hands, recorder: Recording, small_cluster: Cluster
) -> None:
    second = Recording(small_cluster.kubeconfig, recorder.data, log="second.log")
    with SecondWatch(small_cluster) as watch:
        second.start()
        try:
            until(lambda: "stands by" in second.get("/readyz")[1], "the second one to stand by")
            hands.at_once(hands.create, [f"a{n}" for n in range(20)])
            recorder.kill()
            hands.at_once(hands.create, [f"b{n}" for n in range(20)])
            until(second.ready, "the second one to take over")
            hands.at_once(hands.create, [f"c{n}" for n in range(20)])
            until(lambda: watch.count(hands.namespace, "Created") == 60)
            wait_all_said(second, watch, hands.namespace)
        finally:
            second.stop()
