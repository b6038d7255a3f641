"""A real kube-scheduler with the recorder's plugin: it tells every step, and places as one without it.

It runs with deploy/kube-scheduler-sniffer-config.yaml, of which only the address is replaced, beside the
stock kube-scheduler of the control plane.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import plugin_build, unique_name
from fairlead.api.listen import Listen
from fairlead.api.rpc.door import Door
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.localcluster.progress import Progress
from fairlead.model.record import Change, Part
from fairlead.recorder.stream import SERVICE, RecorderService
from fairlead.store.reader import open_reader
from live import DIRECT, FAIRLEAD, Kubectl, emptied, placed, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "deploy" / "kube-scheduler-sniffer-config.yaml"
HOST = "127.0.0.1"
CPUS = {"a": 15, "b": 19, "c": 24, "d": 27}
"""Nodes with 4Gi per cpu, as each pod asks for: of the pods below none finds two best nodes of one score."""
PODS = 20
TRACE = ["Queued", "Dequeued", "Filter", "Score", "Reserve", "Bind", "PostBind"]


def binaries() -> dict[str, str]:
    return plugin_build().built(Progress())


def node(name: str, cpu: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": status}


def pod(name: str, cpu: int = 1, scheduler: str = "sniffer", **spec: Any) -> dict[str, Any]:
    """One that runs for ever."""
    requests = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    wanted = {"containers": [container], "restartPolicy": "Never", "schedulerName": scheduler, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": wanted}


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


class Recorder:
    """The recorder's side: rows in memory, a server on a port that it keeps."""

    def __init__(self) -> None:
        self.rows: list[Change] = []
        self.port = free_port()
        self.service = RecorderService(self._take, lambda: time.time_ns() // 1_000_000)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._door: Door | None = None

    def _take(self, part: Part) -> bool:
        self.rows.extend(part.changes)
        return True

    def start(self) -> None:
        self._door = Door({}, Listen(HOST, self.port), {SERVICE: self.service.streams()})
        asyncio.run_coroutine_threadsafe(self._door.start(), self._loop).result(60)

    def stop(self) -> None:
        if self._door is not None:
            asyncio.run_coroutine_threadsafe(self._door.stop(), self._loop).result(60)
        self._door = None

    def of(self, name: str, *events: str) -> list[Change]:
        found = [row for row in list(self.rows) if row.name == name]
        return [row for row in found if row.event in events] if events else found


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    found = Recorder()
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = tmp_path_factory.mktemp("nodes") / "nodes.json"
    items = [node(name, cpu) for name, cpu in CPUS.items()]
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, node_file=str(nodes), kube_scheduler=True))
    finally:
        bring_down(name)


class Sniffing:
    """The scheduler with the plugin, as a process."""

    def __init__(self, plane: Cluster, folder: Path, port: int, program: str = "") -> None:
        self.program = program or binaries()["kube-scheduler-sniffer"]
        told = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))
        told["clientConnection"] = {
            "kubeconfig": str(plane.files.conf / "scheduler.kubeconfig"),
            "qps": 5000,
            "burst": 10000,
        }
        (plugin,) = told["profiles"][0]["pluginConfig"]
        plugin["args"]["address"] = f"{HOST}:{port}"
        self.file, self.log = folder / "config.yaml", folder / "scheduler.log"
        self.file.write_text(yaml.safe_dump(told), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, profile: dict[str, Any]) -> None:
        """Change the only profile."""
        told = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        told["profiles"][0] |= profile
        self.file.write_text(yaml.safe_dump(told), encoding="utf-8")

    def start(self) -> None:
        command = [self.program, f"--config={self.file}", "--secure-port=0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture(scope="module")
def sniffing(
    plane: Cluster, recorder: Recorder, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sniffing]:
    found = Sniffing(plane, tmp_path_factory.mktemp("sniffing"), recorder.port)
    found.start()
    try:
        yield found
    finally:
        found.stop()
        with contextlib.suppress(OSError):
            print(found.log.read_text(encoding="utf-8", errors="replace")[-5000:])


@pytest.fixture
def kubectl(plane: Cluster, sniffing: Sniffing, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """A namespace of the test's own, and nodes that are empty again afterwards."""
    assert sniffing.process is not None
    assert sniffing.process.poll() is None, sniffing.log.read_text(encoding="utf-8")[-3000:]
    name = request.node.name.lower().replace("_", "-")[:60].rstrip("-")
    Kubectl(plane, "default")("create", "namespace", name)
    yield Kubectl(plane, name)
    emptied(Kubectl(plane, name))


def one_by_one(kubectl: Kubectl, prefix: str, scheduler: str) -> list[str]:
    """Where pods are put of which each comes when the one before it is bound."""
    nodes: list[str] = []
    for number in range(PODS):
        kubectl.create(pod(f"{prefix}-{number}", scheduler=scheduler))
        nodes.append(placed(kubectl, f"{prefix}-{number}"))
    emptied(kubectl)
    return nodes


def extra(row: Change) -> dict[str, Any]:
    assert row.extra is not None
    return row.extra


def pass_go_tests(program: str) -> None:
    """Go's own tests as a program: what is passed on, counted, sent, sent again and thrown away."""
    run = subprocess.run(
        [program, "-test.v", "-test.timeout=120s"],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "GRPC_GO_LOG_SEVERITY_LEVEL": "error"},
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-3000:]
    assert run.stdout.count("--- PASS") >= 13


def test_RB8_the_plugins_own_tests() -> None:
    pass_go_tests(binaries()["sniffer.test"])


def test_RB8_each_step_of_a_pod_is_told(recorder: Recorder, kubectl: Kubectl) -> None:
    kubectl.create(pod("told"))
    where = placed(kubectl, "told")
    until(lambda: recorder.of("told", "PostBind"), "the last fact")
    rows = recorder.of("told")
    assert [row.event for row in rows] == TRACE
    uid = kubectl.get("pod", "told")[0]["metadata"]["uid"]
    assert {(row.uid, row.namespace, row.scheduler) for row in rows} == {(uid, kubectl.namespace, "sniffer")}
    assert [row.at for row in rows] == sorted(row.at for row in rows)
    found = {row.event: row for row in rows}
    assert {found[event].node for event in ("Score", "Reserve", "Bind", "PostBind")} == {where}
    assert {found[event].reason for event in TRACE[2:]} == {"Success"}
    assert extra(found["Dequeued"])["attempt"] == 1
    filtered = extra(found["Filter"])
    assert (filtered["candidates"], filtered["feasible"], filtered.get("refused")) == (4, 4, None)


def test_RB8_scores_are_told_by_plugin_and_the_best_is_chosen(recorder: Recorder, kubectl: Kubectl) -> None:
    kubectl.create(pod("scored"))
    where = placed(kubectl, "scored")
    (row,) = until(lambda: recorder.of("scored", "Score"), "the scores")
    scores = extra(row)["scores"]
    assert scores[0]["node"] == where == "d"
    assert sorted(each["node"] for each in scores) == list(CPUS)
    totals = [each["total"] for each in scores]
    assert totals == sorted(totals, reverse=True)
    for each in scores:
        assert sum(each["plugins"].values()) == each["total"]
        assert "NodeResourcesFit" in each["plugins"]


def test_RB9_a_refused_pod_is_told_with_reasons_by_plugin(recorder: Recorder, kubectl: Kubectl) -> None:
    kubectl("taint", "node", "a", "kept=apart:NoSchedule")
    try:
        kubectl.create(pod("huge", cpu=26, nodeSelector={"kubernetes.io/os": "linux"}))
        placed(kubectl, "huge")
        kubectl.create(pod("huger", cpu=26))
        rows = until(lambda: recorder.of("huger", "Unschedulable"), "the refusal")
    finally:
        kubectl("taint", "node", "a", "kept-")
    (fitted,) = recorder.of("huge", "Filter")
    assert (extra(fitted)["candidates"], extra(fitted)["feasible"]) == (4, 1)
    row = rows[0]
    assert row.reason == "Unschedulable"
    assert row.message.startswith("0/4 nodes are available: ")
    assert "1 node(s) had untolerated taint(s)" in row.message
    refused = {(each["plugin"], tuple(each["examples"])): each["nodes"] for each in extra(row)["refused"]}
    assert refused == {("NodeResourcesFit", ("b", "c", "d")): 3, ("TaintToleration", ("a",)): 1}
    assert extra(row)["attempt"] == 1
    before = [each.event for each in recorder.of("huger")]
    assert before[:5] == ["Queued", "Dequeued", "Filter", "Preempt", "Unschedulable"]
    assert recorder.of("huger", "Bind") == []
    # The taint is gone, the node is still too small: tried again, told again, with the next number.
    again = until(lambda: recorder.of("huger", "Unschedulable")[1:], "the second attempt")
    assert extra(again[0])["attempt"] == 2


def test_RB8_preemption_is_told_with_the_node(recorder: Recorder, kubectl: Kubectl) -> None:
    level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    kubectl.create({**level, "metadata": {"name": "urgent"}})
    there = {"kubernetes.io/hostname": "b"}
    kubectl.create(pod("modest", cpu=CPUS["b"], nodeSelector=there))
    assert placed(kubectl, "modest") == "b"
    kubectl.create(pod("urgent", cpu=CPUS["b"], nodeSelector=there, priorityClassName="urgent"))
    assert placed(kubectl, "urgent") == "b"
    until(lambda: recorder.of("urgent", "PostBind"), "the last fact")
    first = recorder.of("urgent", "Preempt")[0]
    assert (first.node, first.reason) == ("b", "Success")
    narrowed = recorder.of("urgent", "PreFilter")
    assert {extra(row).get("plugin") for row in narrowed} <= {"NodeAffinity"}


def test_RB8_a_gated_pod_enters_the_queue_when_its_gates_are_gone(
    recorder: Recorder, kubectl: Kubectl
) -> None:
    kubectl.create(pod("gated", schedulingGates=[{"name": "example.com/later"}]), pod("free"))
    placed(kubectl, "free")
    until(lambda: recorder.of("free", "PostBind"), "the free one's facts")
    assert recorder.of("gated") == []
    kubectl("patch", "pod", "gated", "--type=json", '-p=[{"op":"remove","path":"/spec/schedulingGates"}]')
    placed(kubectl, "gated")
    until(lambda: recorder.of("gated", "PostBind"), "the gated one's facts")
    assert [row.event for row in recorder.of("gated")] == TRACE


def test_RB8_placements_equal_the_stock_schedulers_and_a_recorder_away_stops_nothing(
    recorder: Recorder, kubectl: Kubectl
) -> None:
    stock = one_by_one(kubectl, "stock", "default-scheduler")
    assert set(stock) == set(CPUS), "an input that tells apart"
    assert one_by_one(kubectl, "same", "sniffer") == stock
    for number in range(PODS):
        (row,) = until(lambda name=f"same-{number}": recorder.of(name, "Score"), "the scores")
        first, second = (each["total"] for each in extra(row)["scores"][:2])
        assert first > second, "equal best scores are drawn by lot: the input proves nothing"
    assert not any(row.name.startswith("stock") for row in recorder.rows)

    recorder.stop()
    try:
        assert one_by_one(kubectl, "away", "sniffer") == stock
        assert not any(row.name.startswith("away") for row in recorder.rows)
    finally:
        recorder.start()
    # What waited comes when it is back, each fact once.
    for number in range(PODS):
        until(lambda name=f"away-{number}": recorder.of(name, "PostBind"), "what was kept")
        assert [row.event for row in recorder.of(f"away-{number}")] == TRACE
    assert recorder.service.dropped == 0


def test_RB8_the_last_facts_are_sent_when_the_scheduler_ends(
    recorder: Recorder, kubectl: Kubectl, sniffing: Sniffing
) -> None:
    kubectl.create(pod("last"))
    placed(kubectl, "last")
    sniffing.stop()
    assert sniffing.process is not None
    until(lambda: recorder.of("last", "PostBind"), "the last fact")
    sniffing.start()
    kubectl.create(pod("next"))
    placed(kubectl, "next")
    until(lambda: recorder.of("next", "PostBind"), "facts of the new process")
    assert [row.event for row in recorder.of("next")] == TRACE


def test_RB8_a_scheduler_with_plugins_of_its_own_is_told_of_too(
    plane: Cluster, recorder: Recorder, kubectl: Kubectl, tmp_path: Path
) -> None:
    other = Sniffing(plane, tmp_path, recorder.port, binaries()["kube-scheduler-sniffer-gang"])
    enabled = {"preEnqueue": {"enabled": [{"name": "Sniffer"}]}, "permit": {"enabled": [{"name": "Gang"}]}}
    other.configure({"schedulerName": "gangs", "plugins": enabled})
    other.start()
    try:
        members = [pod(f"member-{number}", scheduler="gangs") for number in range(3)]
        for member in members:
            member["metadata"]["labels"] = {"gang.example.com/name": "trio", "gang.example.com/size": "3"}
        kubectl.create(*members[:2])
        for name in ("member-0", "member-1"):
            (row,) = until(lambda name=name: recorder.of(name, "Permit"), "a member to wait")
            assert (row.reason, extra(row)["plugin"], extra(row)["tookNs"]) == ("Wait", "Gang", 60 * 10**9)
            assert row.message.startswith("waits for the rest of trio; ")
            assert recorder.of(name, "Bind") == []
        kubectl.create(members[2])
        for name in ("member-0", "member-1", "member-2"):
            where = placed(kubectl, name)
            until(lambda name=name: recorder.of(name, "PostBind"), "the last fact")
            assert {row.node for row in recorder.of(name, "Permit", "Permitted", "Bind")} == {where}
            assert {row.scheduler for row in recorder.of(name)} == {"gangs"}
        assert [row.reason for row in recorder.of("member-2", "Permit")] == ["Success"]
        assert [len(recorder.of(f"member-{number}", "Permitted")) for number in range(3)] == [1, 1, 0]
    finally:
        other.stop()


@contextlib.contextmanager
def fairlead_recorder(plane: Cluster, data: Path, grpc: int) -> Iterator[None]:
    """`fairlead recorder` as a user starts it, ready when this begins."""
    log, http = data.with_name("recorder.log"), free_port()
    command = [FAIRLEAD, "recorder", "--kubeconfig", str(plane.kubeconfig), "--data-dir", str(data)]
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*command, "--http", f"{HOST}:{http}", "--grpc", f"{HOST}:{grpc}"], stdout=out, stderr=out
        )

    def ready() -> bool:
        assert process.poll() is None, f"the recorder ended:\n{log.read_text(errors='replace')[-3000:]}"
        with contextlib.suppress(OSError):
            return DIRECT.open(f"http://{HOST}:{http}/readyz", timeout=10).status == 200
        return False

    try:
        until(ready, "the recorder to be ready")
        yield
    finally:
        process.terminate()
        process.wait(60)


def ledger(data: Path, namespace: str) -> dict[str, list[str]]:
    """By pod: what the plugin told, in the order of the ledger."""

    async def rows() -> list[tuple[Any, ...]]:
        async with open_reader(data=data) as conn:
            found = await conn.execute(
                "SELECT name, event FROM changes WHERE namespace = %s AND source = 'plugin' ORDER BY seq",
                [namespace],
            )
            return await found.fetchall()

    told: dict[str, list[str]] = {}
    for name, event in asyncio.run(rows()):
        told.setdefault(name, []).append(event)
    return told


def test_RB8_every_step_is_in_the_ledger_across_a_restart_of_the_recorder(
    plane: Cluster, kubectl: Kubectl, data: Path, tmp_path: Path
) -> None:
    port = free_port()
    other = Sniffing(plane, tmp_path, port)
    other.configure({"schedulerName": "ledger"})
    other.start()

    def scheduled(prefix: str) -> None:
        kubectl.create(*(pod(f"{prefix}-{number}", scheduler="ledger") for number in range(10)))
        for number in range(10):
            placed(kubectl, f"{prefix}-{number}")

    def whole(*prefixes: str) -> bool:
        told = ledger(data, kubectl.namespace)
        wanted = [f"{prefix}-{number}" for prefix in prefixes for number in range(10)]
        # A batch whose answer was cut off by the restart comes twice.
        return all(list(dict.fromkeys(told.get(name, ()))) == TRACE for name in wanted)

    try:
        with fairlead_recorder(plane, data, port):
            scheduled("before")
            until(lambda: whole("before"), "the first pods in the ledger", pause=0.5)
        scheduled("between")
        with fairlead_recorder(plane, data, port):
            scheduled("after")
            until(lambda: whole("before", "between", "after"), "all pods in the ledger", pause=0.5)
    finally:
        other.stop()
