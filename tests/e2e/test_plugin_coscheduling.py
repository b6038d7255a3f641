"""kube-scheduler 1.34 with scheduler-plugins' coscheduling and the recorder's plugin, in one binary.

It runs with deploy/kube-scheduler-coscheduling-config.yaml, against the API server of the control plane, with
the module's own PodGroup. What was told is read in the ledger.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_plugin import HOST, ROOT, Sniffing, fairlead_recorder, free_port, node, pass_go_tests, pod

from conftest import plugin_build, unique_name
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.localcluster.progress import Progress
from fairlead.store.reader import open_reader
from live import Kubectl, emptied, placed, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGURATION = ROOT / "deploy" / "kube-scheduler-coscheduling-config.yaml"
KINDS = "podgroups.scheduling.x-k8s.io"
WAITING = ["Dequeued", "Filter", "Score", "Reserve", "Permit", "Permitted", "Bind", "PostBind"]
STEPS = {0: WAITING, 1: WAITING, 2: ["Dequeued", "Filter", "Reserve", "Permit", "Bind", "PostBind"]}
"""Of the attempt that puts a member on its node; for the last one only one node fits."""


def binaries() -> dict[str, str]:
    return plugin_build().coscheduling(Progress())


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane that knows PodGroups, and lets kube-scheduler read them."""
    nodes = tmp_path_factory.mktemp("nodes") / "nodes.yaml"
    items = [node(name, 8) for name in "abc"]
    nodes.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    name = unique_name()
    try:
        found = bring_up(UpOptions(name=name, node_file=str(nodes), kube_scheduler=True))
        kubectl = Kubectl(found, "default")
        kubectl("create", *[f"--filename={path}" for path in plugin_build().coscheduling_crds()])
        kubectl("wait", "--for=condition=Established", f"crd/{KINDS}", "--timeout=100s")
        kubectl("create", "clusterrole", "podgroups", "--verb=get,list,watch", f"--resource={KINDS}")
        bound = ["--clusterrole=podgroups", "--user=system:kube-scheduler"]
        kubectl("create", "clusterrolebinding", "podgroups", *bound)
        yield found
    finally:
        bring_down(name)


@pytest.fixture
def kubectl(plane: Cluster) -> Iterator[Kubectl]:
    found = Kubectl(plane, "gangs")
    found("create", "namespace", "gangs")
    yield found
    emptied(found)


@dataclass(frozen=True)
class Row:
    """What the plugin told of a pod."""

    event: str
    reason: str
    message: str
    node: str
    scheduler: str
    extra: dict[str, Any]


class Ledger:
    """The rows of the plugin's, in their order."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def of(self, name: str, *events: str) -> list[Row]:
        async def rows() -> list[tuple[Any, ...]]:
            async with open_reader(data=self._data) as conn:
                found = await conn.execute(
                    "SELECT event, reason, coalesce(message, ''), coalesce(node, ''), scheduler, extra "
                    "FROM changes WHERE name = %s AND source = 'plugin' ORDER BY seq",
                    [name],
                )
                return await found.fetchall()

        found = [Row(*row) for row in asyncio.run(rows())]
        return [row for row in found if row.event in events] if events else found


@contextlib.contextmanager
def scheduling(plane: Cluster, folder: Path, port: int) -> Iterator[None]:
    """The scheduler of that configuration, as a process."""
    (profile,) = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["profiles"]
    args = {each["name"]: each["args"] for each in profile["pluginConfig"]}
    args["Sniffer"]["address"] = f"{HOST}:{port}"
    # A member that finds no node does not send the others back.
    args["Coscheduling"]["podGroupRejectPercentage"] = 100
    scheduler = Sniffing(plane, folder, port, binaries()["kube-scheduler-sniffer-coscheduling"])
    scheduler.configure(profile)
    scheduler.start()
    try:
        yield
        assert scheduler.process is not None
        assert scheduler.process.poll() is None, "the scheduler ended before the test did"
    finally:
        scheduler.stop()
        print(scheduler.log.read_text(encoding="utf-8", errors="replace")[-5000:])


def group(name: str) -> dict[str, Any]:
    """One of three that waits longer than any test does."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 3600},
    }


def member(number: int, **spec: Any) -> dict[str, Any]:
    found = pod(f"trio-{number}", scheduler="gangs", **spec)
    found["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "trio"}
    return found


def test_RB8_the_plugins_own_tests_with_kubernetes_134() -> None:
    """Of the same package, compiled for the older one."""
    pass_go_tests(binaries()["sniffer-134.test"])


def test_RB8_a_pod_group_waits_at_permit_and_starts_with_its_last_member(
    plane: Cluster, kubectl: Kubectl, data: Path, tmp_path: Path
) -> None:
    port, told = free_port(), Ledger(data)
    with fairlead_recorder(plane, data, port), scheduling(plane, tmp_path, port):
        kubectl.create(group("trio"))
        kubectl.create(member(0), member(2, nodeSelector={"example.com/later": "yes"}))
        for name in ("trio-0", "trio-2"):
            rows = until(lambda name=name: told.of(name, "Unschedulable"), f"{name} to be refused", pause=0.5)
            assert "cannot find enough sibling pods" in rows[0].message
            assert told.of(name, "PreFilter")[0].extra["plugin"] == "Coscheduling"

        kubectl.create(member(1))
        for name in ("trio-0", "trio-1"):
            rows = until(lambda name=name: told.of(name, "Permit"), f"{name} to wait", pause=0.5)
            assert [(row.reason, row.extra["plugin"]) for row in rows] == [("Wait", "Coscheduling")]
        until(lambda: told.of("trio-2", "Filter"), "the third to find no node", pause=0.5)
        for number in range(3):
            assert told.of(f"trio-{number}", "Permitted", "Bind") == []
        assert not any(each["spec"].get("nodeName") for each in kubectl.get("pods"))

        kubectl("label", "node", "b", "example.com/later=yes")
        for number in range(3):
            where = placed(kubectl, f"trio-{number}")
            until(lambda name=f"trio-{number}": told.of(name, "PostBind"), "the last fact", pause=0.5)
            rows = told.of(f"trio-{number}")
            attempts = [at for at, row in enumerate(rows) if row.event == "Dequeued"]
            last = rows[attempts[-1] :]
            assert [row.event for row in last] == STEPS[number]
            assert last[0].extra["attempt"] == last[1].extra["attempt"] == len(attempts)
            assert {row.node for row in last if row.event not in ("Dequeued", "Filter")} == {where}
            assert {row.scheduler for row in rows} == {"gangs"}
        assert [row.reason for row in told.of("trio-2", "Permit")] == ["Success"]
        for name in ("trio-0", "trio-1"):
            assert [row.reason for row in told.of(name, "Permitted")] == ["Success"]
