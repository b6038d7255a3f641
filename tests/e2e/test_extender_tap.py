"""The real kube-scheduler asks the observing extender: candidates are recorded, placements stay as they are.

It runs with deploy/kube-scheduler-config.yaml, of which only the address is replaced; and, where what is told
is looked at, with all the time that a busy machine may need.
"""

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import uvicorn
import yaml

from conftest import free_port, unique_name
from fairlead.api import tap
from fairlead.api.server import listening
from fairlead.localcluster import Cluster, ClusterError, UpOptions, bring_down, bring_up, components
from fairlead.model.record import Change, Part
from fairlead.recorder.extender import Extender
from fairlead.recorder.outlet import Outlet
from fairlead.recorder.scheduling_events import SchedulingEvents
from fairlead.store.reader import open_reader
from fairlead.wire.happening import happening
from live import DIRECT, FAIRLEAD, Kubectl, emptied, placed, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "kube-scheduler-config.yaml"
HOST = "127.0.0.1"
CPUS = {"a": 15, "b": 19, "c": 24, "d": 27}
"""Nodes with 4Gi per cpu, as each pod asks for: of 20 pods none finds two nodes of the same score."""
PODS, FEW = 12, 5


def now() -> int:
    return time.time_ns() // 1_000_000


def node(name: str, cpu: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": status}


def pod(name: str, cpu: int = 1, **spec: Any) -> dict[str, Any]:
    """One of kube-scheduler's that runs for ever."""
    requests = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


def expected(pods: int) -> list[str]:
    """Where kube-scheduler puts them one by one: to the node of which the largest share is left."""
    taken = dict.fromkeys(CPUS, 0)
    for _ in range(pods):
        left = {name: 100 * (cpu - taken[name] - 1) // cpu for name, cpu in CPUS.items()}
        best = [name for name in CPUS if left[name] == max(left.values())]
        assert len(best) == 1, "equal scores: the order of equal nodes is not told"
        taken[best[0]] += 1
    return sorted(name for name, count in taken.items() for _ in range(count))


class Tap:
    """The recorder's side: rows in memory, the server on a port that it keeps."""

    def __init__(self) -> None:
        self.rows: list[Change] = []
        self.port = free_port()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def _take(self, part: Part) -> bool:
        self.rows.extend(part.changes)
        return True

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        listener = listening(HOST, self.port, "")
        extender = Extender(Outlet(self._take, "extender", now).put, now)
        config = uvicorn.Config(tap.create_app(extender, HOST), lifespan="off", log_config=None)
        self._server = server = uvicorn.Server(config)
        self._thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        self._thread.start()
        until(lambda: server.started, "the tap to listen")

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = self._server.force_exit = True
            self._thread.join(30)
            assert not self._thread.is_alive()
        self._server = self._thread = None

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """In its place somebody who takes every connection and never answers."""
        with socket.create_server((HOST, self.port)):
            yield

    def of(self, name: str, event: str = "Filter") -> list[Change]:
        return [row for row in list(self.rows) if (row.name, row.event) == (name, event)]


@pytest.fixture(scope="module")
def observed() -> Iterator[Tap]:
    found = Tap()
    found.start()
    try:
        yield found
    finally:
        found.stop()


def told_to(folder: Path, url: str, **changes: Any) -> Path:
    """The file that users are given, with this address and these changes of the extender."""
    told = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
    (extender,) = told["extenders"]
    extender |= {"urlPrefix": f"{url}{urlsplit(extender['urlPrefix']).path}", **changes}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(told), encoding="utf-8")
    return file


PATIENT = {"httpTimeout": "60s"}
"""A tenth of a second is easily over on a busy machine, and then a pod is placed without being told of."""


@pytest.fixture(scope="module")
def configuration(observed: Tap, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return told_to(tmp_path_factory.mktemp("scheduler"), observed.url, **PATIENT)


@pytest.fixture(scope="module")
def plane(configuration: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = tmp_path_factory.mktemp("nodes") / "nodes.json"
    items = [node(name, cpu) for name, cpu in CPUS.items()]
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    name = unique_name()
    options = UpOptions(
        name=name, node_file=str(nodes), kube_scheduler=True, scheduler_config=str(configuration)
    )
    try:
        yield bring_up(options)
    finally:
        bring_down(name)


@pytest.fixture
def kubectl(plane: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """A namespace of the test's own, and nodes that are empty again afterwards."""
    name = request.node.name.lower().replace("_", "-")[:60].rstrip("-")
    Kubectl(plane, "default")("create", "namespace", name)
    yield Kubectl(plane, name)
    emptied(Kubectl(plane, name))


def one_by_one(kubectl: Kubectl, prefix: str, pods: int = PODS) -> list[str]:
    """Where kube-scheduler puts pods of which each comes when the one before it is bound."""
    nodes: list[str] = []
    for number in range(pods):
        kubectl.create(pod(f"{prefix}-{number}"))
        nodes.append(placed(kubectl, f"{prefix}-{number}"))
    emptied(kubectl)
    return nodes


def restarted(plane: Cluster, configuration: Path | None) -> None:
    """kube-scheduler with another configuration; None: its own defaults."""
    file = None if configuration is None else str(configuration)
    plane.state.options = msgspec.structs.replace(plane.state.options, scheduler_config=file)
    components.write_files(plane.files, plane.state)
    plane.stop("kube-scheduler")
    plane.start("kube-scheduler")


def told(kubectl: Kubectl) -> list[Change]:
    """The Events of the namespace as rows."""
    path = f"/apis/events.k8s.io/v1/namespaces/{kubectl.namespace}/events"
    events = SchedulingEvents()
    facts = [happening(json.dumps(each)) for each in kubectl.cluster.client.get(path).json()["items"]]
    return [row for fact in facts if (row := events.learn(fact, now())) is not None]


def test_RB8_candidates_after_kube_schedulers_own_filters(observed: Tap, kubectl: Kubectl) -> None:
    kubectl.create(pod("anywhere"), pod("large", cpu=20), pod("there", nodeName="a"))
    kubectl.create(pod("chosen", nodeSelector={"kubernetes.io/hostname": "b"}))
    uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in kubectl.get("pods")}
    for name, candidates in (("anywhere", "abcd"), ("large", "cd"), ("chosen", "b")):
        where = placed(kubectl, name)
        (row,) = observed.of(name)
        assert row.extra is not None
        assert sorted(row.extra["candidates"]) == list(candidates)
        assert (row.extra["count"], row.extra["attempt"]) == (len(candidates), 1)
        assert where in candidates
        assert (row.uid, row.namespace) == (uids[name], kubectl.namespace)
        assert (row.scheduler, row.version > 0) == ("default-scheduler", True)
        # A single candidate needs no score.
        assert len(observed.of(name, "Prioritize")) == (len(candidates) > 1)
    assert observed.of("there") == [], "a pod that comes with its node is nobody's decision"

    def scheduled() -> dict[str, Change] | None:
        found = {row.name: row for row in told(kubectl) if row.event == "Scheduled"}
        return found if len(found) == 3 else None

    for name, row in until(scheduled, "three Events Scheduled").items():
        assert (row.uid, row.node) == (uids[name], placed(kubectl, name))
        assert observed.of(name)[0].at <= row.at <= now()


def test_RB9_a_refused_pod_has_no_candidates_but_reasons(observed: Tap, kubectl: Kubectl) -> None:
    kubectl.create(pod("huge", cpu=20, nodeSelector={"kubernetes.io/hostname": "a"}))

    def refused() -> Change | None:
        rows = [row for row in told(kubectl) if (row.name, row.event) == ("huge", "FailedScheduling")]
        return rows[0] if rows else None

    row = until(refused, "an Event FailedScheduling")
    assert row.extra is not None
    assert row.extra["nodes"] == len(CPUS)
    assert row.extra["reasons"] == {
        "Insufficient cpu": 1,
        "Insufficient memory": 1,
        "node(s) didn't match Pod's node affinity/selector": 3,
    }
    assert sum(row.extra["preemption"].values()) == len(CPUS)
    assert row.reason == "node(s) didn't match Pod's node affinity/selector"
    assert (row.scheduler, row.uid) == (
        "default-scheduler",
        kubectl.get("pod", "huge")[0]["metadata"]["uid"],
    )
    assert observed.of("huge") == []


def test_RB8_who_gives_way_to_whom(observed: Tap, kubectl: Kubectl) -> None:
    level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    kubectl.create({**level, "metadata": {"name": "urgent"}})
    there = {"kubernetes.io/hostname": "b"}
    kubectl.create(pod("modest", cpu=CPUS["b"], nodeSelector=there))
    assert placed(kubectl, "modest") == "b"
    kubectl.create(pod("urgent", cpu=CPUS["b"], nodeSelector=there, priorityClassName="urgent"))
    assert placed(kubectl, "urgent") == "b"
    (row,) = observed.of("urgent")
    assert row.extra == {"count": 1, "candidates": ["b"], "attempt": 1, "nominated": "b"}

    def told_of() -> dict[tuple[str, str], Change] | None:
        found = {(row.name, row.event): row for row in told(kubectl)}
        wanted = {("modest", "Preempted"), ("urgent", "FailedScheduling"), ("urgent", "Scheduled")}
        return found if wanted <= set(found) else None

    found = until(told_of, "the Events of a preemption")
    preempted = found["modest", "Preempted"]
    uid = kubectl.get("pod", "urgent")[0]["metadata"]["uid"]
    assert (preempted.node, preempted.scheduler) == ("b", "default-scheduler")
    assert preempted.extra == {"by": uid}
    # It evicts in the background: that may be told before the failure or after it.
    assert found["urgent", "FailedScheduling"].at <= row.at <= found["urgent", "Scheduled"].at
    assert preempted.at <= found["urgent", "Scheduled"].at


def test_RB8_placements_are_the_same_observed_or_not(
    plane: Cluster, observed: Tap, kubectl: Kubectl, configuration: Path, tmp_path: Path
) -> None:
    """Alone, observed, with the tap down, observed again, and with one that hangs."""
    restarted(plane, None)
    alone = one_by_one(kubectl, "alone")
    assert sorted(alone) == expected(PODS)
    assert not any(row.name.startswith("alone") for row in observed.rows)
    restarted(plane, configuration)
    assert one_by_one(kubectl, "observed") == alone
    assert [len(observed.of(f"observed-{number}")) for number in range(PODS)] == [1] * PODS
    try:
        observed.stop()
        assert one_by_one(kubectl, "down", FEW) == alone[:FEW]
    finally:
        observed.start()
    assert one_by_one(kubectl, "again", FEW) == alone[:FEW]
    assert [len(observed.of(f"again-{number}")) for number in range(FEW)] == [1] * FEW
    restarted(plane, told_to(tmp_path, observed.url))
    try:
        observed.stop()
        with observed.silent():
            assert one_by_one(kubectl, "hanging", FEW) == alone[:FEW]
    finally:
        observed.start()
        restarted(plane, configuration)
    assert not any(row.name.startswith(("down", "hanging")) for row in observed.rows)


@contextlib.contextmanager
def recorder(plane: Cluster, data: Path, port: int) -> Iterator[None]:
    """`fairlead recorder` as a user starts it, ready when this begins."""
    log = data.with_name("recorder.log")
    command = [FAIRLEAD, "recorder", "--kubeconfig", str(plane.kubeconfig), "--data-dir", str(data)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--http", f"{HOST}:{port}", "--grpc", ""], stdout=out, stderr=out
        )

    def ready() -> bool:
        assert process.poll() is None, f"the recorder ended:\n{log.read_text(errors='replace')[-3000:]}"
        with contextlib.suppress(OSError):
            return DIRECT.open(f"http://{HOST}:{port}/readyz", timeout=10).status == 200
        return False

    try:
        until(ready, "the recorder to be ready")
        yield
    finally:
        process.terminate()
        process.wait(60)


def ledger(data: Path, namespace: str) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """By pod: source and event of each change that a scheduler made or met, and what it says of it."""

    async def rows() -> list[tuple[Any, ...]]:
        async with open_reader(data=data) as conn:
            found = await conn.execute(
                "SELECT name, source, event, node, extra FROM changes WHERE namespace = %s AND event IN "
                "('Filter', 'Prioritize', 'Bound', 'Scheduled', 'FailedScheduling') ORDER BY at, seq",
                [namespace],
            )
            return await found.fetchall()

    told: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for name, source, event, where, extra in asyncio.run(rows()):
        told.setdefault(name, []).append((source, event, {**(extra or {}), "node": where}))
    return told


def test_RB8_RB9_a_decision_is_whole_in_the_ledger(
    plane: Cluster, kubectl: Kubectl, configuration: Path, data: Path, tmp_path: Path
) -> None:
    """The recorder as users run it: candidates, choice, bind, and why another pod was not placed."""
    port = free_port()
    config = told_to(tmp_path, f"http://{HOST}:{port}", **PATIENT)
    with recorder(plane, data, port):
        restarted(plane, config)
        try:
            kubectl.create(pod("fits", cpu=20), pod("huge", cpu=100))
            where = placed(kubectl, "fits")

            def whole() -> dict[str, list[tuple[str, str, dict[str, Any]]]] | None:
                found = ledger(data, kubectl.namespace)
                done = {event for _, event, _ in found.get("fits", ())}
                wanted = {"Filter", "Prioritize", "Scheduled", "Bound"}
                return found if wanted <= done and "huge" in found else None

            told = until(whole, "the decision in the ledger", pause=0.5)
        finally:
            restarted(plane, configuration)
    fits = {(source, event): extra for source, event, extra in told["fits"]}
    assert sorted(fits["extender", "Filter"]["candidates"]) == ["c", "d"]
    assert fits["extender", "Prioritize"]["count"] == 2
    assert fits["watch", "Bound"]["node"] == fits["events", "Scheduled"]["node"] == where
    assert [event for source, event, _ in told["fits"] if source == "extender"] == ["Filter", "Prioritize"]
    (refused,) = [extra for _, event, extra in told["huge"] if event == "FailedScheduling"]
    assert refused["reasons"] == {"Insufficient cpu": 4, "Insufficient memory": 4}
    assert not any(source == "extender" for source, _, _ in told["huge"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "No such file"), ("kind: Pod", "not of kind KubeSchedulerConfiguration"), ("{", "line 1")],
)
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, text: str | None, complaint: str) -> None:
    file = tmp_path / "config.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    name = unique_name()
    with pytest.raises(ClusterError, match=complaint):
        bring_up(UpOptions(name=name, nodes=0, kube_scheduler=True, scheduler_config=str(file)))
    assert not bring_down(name)


def test_a_configuration_needs_a_scheduler(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="give --kube-scheduler too"):
        bring_up(UpOptions(name=unique_name(), scheduler_config=str(tmp_path / "config.yaml")))
