"""Groups that fail as a whole, with a real API server and Job controller, and the stages of their starts."""

from itertools import pairwise
from pathlib import Path

import pytest

from fairlead.localcluster import Cluster
from live import Kubectl, Scheduler, job, pod, until

pytestmark = pytest.mark.e2e
FAIL_ALL = {"fairlead.dev/on-member-failure": "fail-all"}
STAGES = ["seen", "complete", "planned", "recorded", "bound", "started"]


def failed(kubectl: Kubectl, name: str) -> bool:
    """Whether the Job controller says so."""
    (found,) = kubectl.get("job", name)
    true = [each for each in found["status"].get("conditions", []) if each["status"] == "True"]
    return any(each["type"] == "Failed" for each in true)


def names(kubectl: Kubectl) -> list[str]:
    return sorted(each["metadata"]["name"] for each in kubectl.get("pods"))


def test_L12_a_job_fails_as_a_whole_when_a_member_fails_or_is_deleted(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        for name, lose in (("fails", True), ("loses", False)):
            kubectl.create(job(name, pods=3, cpu="8", run="1h", annotations=FAIL_ALL))
            scheduler.wait_state(kubectl.namespace, name, "running")
            until(lambda name=name: scheduler.groups(kubectl.namespace)[name]["started_at"], "all to run")
            victim = next(each for each in names(kubectl) if each.startswith(name))
            if lose:
                path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{victim}/status"
                body = {"status": {"phase": "Failed", "reason": "OutOfcpu"}}
                merge = "application/merge-patch+json"
                assert small_cluster.client.request("PATCH", path, body, merge).ok
            else:  # its Job brings another at once, which must not hide the loss
                kubectl("delete", "pod", victim, "--wait=false")
            row = scheduler.wait_state(kubectl.namespace, name, "failed")
            assert f"member {victim}" in row["text"]
            until(lambda name=name: failed(kubectl, name), "the Job to have failed")
            (kept,) = kubectl.get("job", name)
            assert kept["metadata"]["annotations"]["fairlead.dev/ended"].startswith(
                f"Failed: member {victim}"
            )
            kubectl.wait_event("Job", name, "Failed")
            _, page = scheduler.get(f"/api/v1/groups/{kubectl.namespace}/{name}")
            stages = page["groups"][0]["stages"]
            assert [stage["name"] for stage in stages] == [*STAGES, "ended"]
            assert all(b["took"] == b["at"] - a["at"] for a, b in pairwise(stages))


def test_L12_bare_members_of_a_gang_go_with_the_one_that_is_deleted(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    gang = {"fairlead.dev/group": "gang", "fairlead.dev/group-size": "3"}
    with Scheduler(small_cluster.kubeconfig, data) as scheduler:
        kubectl.create(pod("stays", run="1h"))
        kubectl.create(*(pod(f"gang-{i}", run="1h", labels=gang, annotations=FAIL_ALL) for i in range(3)))
        scheduler.wait_state(kubectl.namespace, "gang", "running")
        scheduler.wait_state(kubectl.namespace, "stays", "running")
        kubectl("delete", "pod", "gang-1", "--wait=false")
        row = scheduler.wait_state(kubectl.namespace, "gang", "failed")
        assert "member gang-1" in row["text"]
        until(lambda: names(kubectl) == ["stays"], "the others to be gone")
