"""Nodes that refuse pods as a kubelet does: capacity comes back, and what was refused gets another place.

The test node agent plays kubelet (agent.py). Something hidden on a node, which the API server does not show,
makes it refuse what fits by all that a scheduler can know.
"""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from agent import Agent
from checker import moved, overcommitted
from checker_watch import Recorder

from conftest import unique_name
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from live import Kubectl, Scheduler, data_folder, finish, job, pod, succeeded, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
NODES = {"left": "8", "right": "8"}
_numbers = count(1)


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """A control plane without a fake kubelet."""
    name = unique_name()
    try:
        cluster = bring_up(UpOptions(name=name, nodes=0))
        cluster.stop("kwok")
        yield cluster
    finally:
        bring_down(name)


@pytest.fixture(scope="module")
def agent(plane: Cluster) -> Iterator[Agent]:
    with Agent(plane, NODES) as running:
        yield running


@pytest.fixture(scope="module")
def scheduler(plane: Cluster, agent: Agent) -> Iterator[Scheduler]:
    del agent
    with data_folder() as data, Scheduler(plane.kubeconfig, data) as running:
        yield running


@pytest.fixture
def kubectl(plane: Cluster, agent: Agent, scheduler: Scheduler) -> Iterator[Kubectl]:
    """A namespace of the test's own; in the end its pods and what was hidden are gone."""
    name = f"agent-{next(_numbers)}"
    Kubectl(plane, "default")("create", "namespace", name)
    with Recorder(plane.state.ports.apiserver, plane.files.pki) as recorder:
        yield Kubectl(plane, name)
        recorder.catch_up()
        history = recorder.history
    for node in NODES:
        agent.vacate(node)
    Kubectl(plane, name)("delete", "jobs,pods", "--all", "--cascade=foreground", "--timeout=100s")
    until(lambda: used_cpu(scheduler) == 0, "the nodes to be empty")
    ours = [each for each in history if each.kind == "Node" or each.scheduler == "fairlead"]
    assert overcommitted(ours) == []
    assert moved(ours) == []


def used_cpu(scheduler: Scheduler, node: str = "") -> int:
    """Milli-cores that Fairlead thinks are taken, on this node or on all."""
    status, page = scheduler.get("/api/v1/nodes")
    assert status == 200
    return sum(
        use["used"]
        for each in page["nodes"]
        if node in ("", each["name"])
        for use in each["resources"]
        if use["name"] == "cpu"
    )


def phases(kubectl: Kubectl, label: str) -> list[str]:
    pods = json.loads(kubectl("get", "pods", "-l", label, "-o", "json"))["items"]
    return sorted(each["status"]["phase"] for each in pods)


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def test_the_agent_runs_pods_in_order_and_refuses_the_rest(agent: Agent, kubectl: Kubectl) -> None:
    """Bound by hand, so that no scheduler is in the way: two of 3 cpu fit on 8, the third is refused."""
    for i in range(3):
        bound = pod(f"p{i}", cpu="3", run="", spec={"nodeName": "left", "schedulerName": "nobody"})
        kubectl.create(bound)
    until(lambda: phases(kubectl, "") == ["Failed", "Running", "Running"], "two to run and one to be refused")
    refused = next(each for each in kubectl.get("pods") if each["status"]["phase"] == "Failed")
    assert refused["metadata"]["name"] == "p2" == agent.refused[-1]
    assert refused["status"]["reason"] == "OutOfcpu"
    kubectl("delete", "pods", "--all", "--wait=true")


def test_I1_B8_what_a_refused_pod_held_is_free_and_its_replacement_runs(
    agent: Agent, scheduler: Scheduler, kubectl: Kubectl
) -> None:
    agent.occupy("left", "6")
    kubectl.create(job("refused", cpu="4", run="1s", spec=on("left")))
    until(lambda: [name for name in agent.refused if name.startswith("refused-")], "a refusal")
    # It holds nothing: as much as that runs beside whatever comes in its place.
    until(lambda: used_cpu(scheduler, "left") == 0, "its room to be free")
    agent.vacate("left")
    until(lambda: succeeded(kubectl, "refused"), "the replacement to run", 300)
    row = scheduler.wait_state(kubectl.namespace, "refused", "completed")
    assert row["nodes"] == ["left"]


def test_I1_B12_a_gang_keeps_its_others_and_the_replacement_is_first_in_line(
    agent: Agent, scheduler: Scheduler, kubectl: Kubectl
) -> None:
    agent.occupy("right", "4")
    kubectl.create(job("gang", pods=2, cpu="8", run="1h"))
    until(lambda: [name for name in agent.refused if name.startswith("gang-")], "one to be refused")
    until(lambda: "Running" in phases(kubectl, "job-name=gang"), "the other to run")
    # Whoever comes later may use that room until the replacement is there: its Job waits before it makes one.
    kubectl.create(job("later", cpu="8", run="1s"))
    scheduler.wait_state(kubectl.namespace, "later", "waiting", "running", "completed", "failed")
    agent.vacate("right")
    until(lambda: phases(kubectl, "job-name=gang").count("Running") == 2, "both members to run", 300)
    finish(kubectl, "-ljob-name=gang", "--field-selector=status.phase=Running")
    scheduler.wait_state(kubectl.namespace, "gang", "completed", "failed")
    until(lambda: succeeded(kubectl, "gang", "later"), "both Jobs to complete", 300)


def test_I1_a_bare_pod_that_was_refused_is_told_and_its_room_is_free(
    agent: Agent, scheduler: Scheduler, kubectl: Kubectl
) -> None:
    agent.occupy("left", "6")
    kubectl.create(pod("bare", cpu="4", spec=on("left")))
    row = scheduler.wait_state(kubectl.namespace, "bare", "failed")
    assert row["text"] == "refused by the kubelet: bare on left"
    assert row["text"] in kubectl.wait_event("Pod", "bare", "Failed")["note"]
    until(lambda: used_cpu(scheduler) == 0, "its room to be free")
    agent.vacate("left")
    kubectl.create(pod("next", cpu="8", spec=on("left")))
    scheduler.wait_state(kubectl.namespace, "next", "completed")


def test_I1_B12_a_bare_gang_that_lost_one_to_its_node_goes_on_and_says_so(
    agent: Agent, scheduler: Scheduler, kubectl: Kubectl
) -> None:
    agent.occupy("right", "4")
    labels = {"fairlead.dev/group": "team", "fairlead.dev/group-size": "2"}
    kubectl.create(*(pod(f"m{i}", cpu="8", run="1h", labels=labels) for i in range(2)))
    until(lambda: agent.refused[-1:] in (["m0"], ["m1"]), "one to be refused")
    said = "refused by the kubelet, and nobody makes it anew"
    broken = lambda: scheduler.groups(kubectl.namespace).get("team", {}).get("broken", "")  # noqa: E731
    until(lambda: said in broken(), "the group to be broken")
    assert kubectl.wait_event("Pod", "m", "Broken")["type"] == "Warning"
    until(lambda: phases(kubectl, "fairlead.dev/group=team") == ["Failed", "Running"], "the other to run")
    finish(kubectl, "--field-selector=status.phase=Running")
    scheduler.wait_state(kubectl.namespace, "team", "failed")
    until(lambda: used_cpu(scheduler) == 0, "all room to be free")


def test_B8_a_running_job_that_is_deleted_gives_its_room_back(scheduler: Scheduler, kubectl: Kubectl) -> None:
    kubectl.create(job("endless", pods=2, cpu="8", run="1h"))
    scheduler.wait_state(kubectl.namespace, "endless", "running")
    assert used_cpu(scheduler) == 16_000
    kubectl("delete", "job", "endless")
    until(lambda: used_cpu(scheduler) == 0, "the room to be free")
    kubectl.create(job("next", pods=2, cpu="8"))
    scheduler.wait_state(kubectl.namespace, "next", "completed")
