"""The independent checker on a real API server: it sees too much on a node, and what happened in a gap."""

import pytest
from checker import moved, overcommitted
from checker_watch import PATHS, Api, Follower, Recorder

from conftest import unique_name
from fairlead.localcluster import Cluster
from live import Kubectl, pod, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
NODE = "node-0000"


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    name = unique_name()
    Kubectl(cluster, "default")("create", "namespace", name)
    return Kubectl(cluster, name)


def forced(name: str, cpu: str, run: str = "") -> dict:
    """A pod that was put on its node by hand, whether it fits or not."""
    return pod(name, cpu=cpu, run=run, spec={"nodeName": NODE, "schedulerName": "nobody"})


def test_two_pods_that_do_not_fit_together_are_found(cluster: Cluster, kubectl: Kubectl) -> None:
    with Recorder(cluster.state.ports.apiserver, cluster.files.pki) as recorder:
        kubectl.create(forced("a", "20"), forced("b", "20"))
        kubectl("delete", "pod", "a", "--grace-period=0", "--force")
        recorder.catch_up()
        mine = [m for m in recorder.history if m.kind == "Node" or m.namespace == kubectl.namespace]
    (fault,) = overcommitted(mine)
    assert f"{NODE} holds 40 cpu of 32" in fault
    assert moved(mine) == []
    kubectl("delete", "pod", "b", "--grace-period=0", "--force")


def test_what_nobody_told_is_asked_for_version_by_version(cluster: Cluster, kubectl: Kubectl) -> None:
    """A follower that does not watch, while a pod comes, runs, ends, and goes: it finds every step of it."""
    follower = Follower(Api(cluster.state.ports.apiserver, cluster.files.pki), PATHS[1])
    kubectl.create(forced("short", "1", run="100ms"), forced("stays", "1", run="1h"))
    until(lambda: kubectl.get("pod", "short")[0]["status"]["phase"] == "Succeeded", "the short pod to end")
    kubectl("delete", "pod", "short", "--grace-period=0", "--force")
    follower._close_gap()
    mine = [m for m in follower.moments if m.namespace == kubectl.namespace]
    assert [m.version for m in mine] == sorted({m.version for m in mine})
    short = [(m.phase, m.gone) for m in mine if m.name == "short"]
    phases = list(dict.fromkeys(short))
    assert phases == [("Pending", False), ("Running", False), ("Succeeded", False), ("Succeeded", True)]
    assert follower.unseen == 0
    kubectl("delete", "pod", "stays", "--grace-period=0", "--force")
