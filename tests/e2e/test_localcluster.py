"""The local control plane itself: it comes up, behaves, survives kills, and leaves nothing behind."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.localcluster import Cluster, ClusterError, UpOptions, bring_down, bring_up, find_cluster
from fairlead.localcluster.paths import layout

pytestmark = pytest.mark.e2e
MakeCluster = Callable[..., Cluster]
PODS = "/api/v1/namespaces/default/pods"


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairlead.cli.cluster", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a cluster that a test brings up through the command line."""
    name = f"e2e-{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        bring_down(name)


def until(done: Callable[[], Any], timeout: float = 200.0) -> Any:
    deadline = time.monotonic() + timeout
    while not (result := done()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return result


def run_pod(cluster: Cluster, name: str, node: str = "node-0000", **annotations: str) -> None:
    """Create a pod of no scheduler of ours and bind it by hand."""
    notes = {f"fairlead.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    pod = {
        "metadata": {"name": name, "annotations": notes},
        "spec": {
            "schedulerName": "by-hand",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    assert cluster.client.post(PODS, pod).status == 201
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    assert cluster.client.post(f"{PODS}/{name}/binding", binding).status == 201


def pod_status(cluster: Cluster, name: str) -> dict[str, Any]:
    answer = cluster.client.get(f"{PODS}/{name}")
    return answer.json()["status"] if answer.ok else {"phase": f"HTTP {answer.status}"}


def until_phase(cluster: Cluster, name: str, phase: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = pod_status(cluster, name)
        return status if status["phase"] == phase else None

    return until(look)


def test_bound_pod_runs_for_its_annotated_time(cluster: Cluster) -> None:
    begun = time.monotonic()  # not when it is seen to run: that may be late
    run_pod(cluster, "timed", run_time="3s")
    until_phase(cluster, "timed", "Running")
    # A change of the pod while it runs must not move its end.
    time.sleep(1.5)
    note = {"metadata": {"annotations": {"touched": "yes"}}}
    assert cluster.client.request("PATCH", f"{PODS}/timed", note, "application/merge-patch+json").ok
    ended = until_phase(cluster, "timed", "Succeeded")
    assert time.monotonic() - begun > 2.5
    state = ended["containerStatuses"][0]["state"]["terminated"]
    took = datetime.fromisoformat(state["finishedAt"]) - datetime.fromisoformat(state["startedAt"])
    assert state["exitCode"] == 0
    assert took.total_seconds() >= 2


def test_outcomes_by_annotation(cluster: Cluster) -> None:
    run_pod(cluster, "fails", run_time="100ms", run_outcome="Failed")
    run_pod(cluster, "refused", run_outcome="Rejected")
    run_pod(cluster, "nonsense", run_time="soon")
    state = until_phase(cluster, "fails", "Failed")["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 1
    assert until_phase(cluster, "refused", "Failed")["reason"] == "OutOfcpu"
    assert until_phase(cluster, "nonsense", "Failed")["reason"] == "BadRunTime"


def test_deleted_pod_goes_after_its_stop_time(cluster: Cluster) -> None:
    run_pod(cluster, "lingers", stop_time="1500ms")
    until_phase(cluster, "lingers", "Running")
    begun = time.monotonic()
    assert cluster.client.request("DELETE", f"{PODS}/lingers").ok
    until(lambda: pod_status(cluster, "lingers")["phase"] == "HTTP 404")
    assert time.monotonic() - begun > 1.0


def test_service_account_is_subject_to_rbac(cluster: Cluster) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = cluster.client.post(path, {"spec": {}}).json()["status"]["token"]
    allowed = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    base = [cluster.kubectl, f"--server={cluster.server}", f"--token={token}", "--kubeconfig=/dev/null"]
    base.append(f"--certificate-authority={cluster.files.pki / 'ca.crt'}")

    def kubectl(*arguments: str, body: str = "") -> subprocess.CompletedProcess[str]:
        command = [*base, *arguments]
        return subprocess.run(command, input=body, capture_output=True, text=True, check=False)

    review = '{"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}'
    who = kubectl("create", "--raw", allowed, "-f", "-", body=review)
    assert json.loads(who.stdout)["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert "forbidden" in kubectl("get", "nodes").stderr.lower()


@pytest.mark.slow
def test_D12_up_twice_status_and_down_twice(name: str, tmp_path: Path) -> None:
    out = tmp_path / "kubeconfig"
    first = cli("up", "--name", name, "--nodes", "2", "--kube-scheduler", "--kubeconfig", str(out))
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == str(out)
    assert out.stat().st_mode & 0o777 == 0o600
    pids = find_or_fail(name).state.processes
    second = cli("up", "--name", name, "--nodes", "2", "--kube-scheduler", "--kubeconfig", str(out))
    assert second.stdout == first.stdout
    assert "already running" in second.stderr
    assert find_or_fail(name).state.processes == pids

    status = json.loads(cli("status", "--name", name, "-o", "json").stdout)[0]
    assert (status["state"], status["nodes"], len(status["components"])) == ("running", 2, 5)
    assert name in cli("status").stdout

    instance = find_or_fail(name)
    assert len(instance.processes()) == 5
    assert cli("down", "--name", name).returncode == 0
    assert instance.processes() == []
    assert not out.exists()
    assert not layout(name).folder.exists()
    assert cli("down", "--name", name).returncode == 0


def find_or_fail(name: str) -> Cluster:
    found = find_cluster(name)
    assert found is not None
    return found


@pytest.mark.slow
def test_two_clusters_side_by_side(cluster: Cluster, make_cluster: MakeCluster) -> None:
    other = make_cluster(nodes=1)
    assert other.server != cluster.server
    run_pod(other, "only-there")
    until_phase(other, "only-there", "Running")
    assert cluster.client.get(f"{PODS}/only-there").status == 404
    bring_down(other.name)
    assert cluster.running()


@pytest.mark.slow
def test_killed_components_come_back_with_their_data(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=2)
    run_pod(cluster, "survivor", run_time="12s")
    until_phase(cluster, "survivor", "Running")
    for component in ("kube-apiserver", "etcd", "kwok"):
        before = cluster.pid(component)
        cluster.kill(component)
        assert not cluster.alive(component)
        cluster.start(component)
        assert cluster.pid(component) != before
    cluster.wait_healthy("kube-apiserver", 30)
    until_phase(cluster, "survivor", "Succeeded")
    run_pod(cluster, "later", run_time="100ms")
    until_phase(cluster, "later", "Succeeded")


@pytest.mark.slow
def test_up_revives_what_had_ended(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=1)
    cluster.kill("kwok")
    again = bring_up(UpOptions(name=cluster.name, nodes=1))
    assert again.running()


def test_failing_start_names_the_component_and_leaves_nothing(name: str) -> None:
    result = cli("up", "--name", name, "--nodes", "1", "--feature-gates", "NoSuchGate=true")
    assert result.returncode == 1
    assert "error: kube-apiserver" in result.stderr
    assert "NoSuchGate" in result.stderr
    assert "Traceback" not in result.stderr
    assert no_process_below(layout(name).folder)
    assert not layout(name).folder.exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_start_leaves_nothing(name: str, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "fairlead.cli.cluster", "up", "--name", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        until(lambda: not no_process_below(layout(name).folder), 100)
        started.send_signal(number)
        _, complaints = started.communicate(timeout=60)
    assert started.returncode == 128 + number
    assert "Traceback" not in complaints
    assert no_process_below(layout(name).folder)
    assert not layout(name).folder.exists()


@pytest.mark.slow
def test_start_cut_off_by_sigkill_is_cleaned_up_by_the_next(name: str) -> None:
    command = [sys.executable, "-m", "fairlead.cli.cluster", "up", "--name", name, "--nodes", "1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        until(lambda: not no_process_below(layout(name).folder), 100)
        started.kill()
    assert not no_process_below(layout(name).folder)
    result = cli("up", "--name", name, "--nodes", "1")
    assert result.returncode == 0, result.stderr
    assert len(find_or_fail(name).processes()) == 4


def no_process_below(folder: Path) -> bool:
    """Whether no process has this cluster's folder on its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{folder}/".encode() in (entry / "cmdline").read_bytes():
                    return False
            except OSError:
                continue
    return True


def test_nodes_of_a_file(make_cluster: MakeCluster) -> None:
    file = Path(__file__).parent.parent / "data" / "machines.csv"
    cluster = make_cluster(node_file=str(file))
    node = cluster.client.get("/api/v1/nodes/rack1-b").json()
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    assert node["status"]["allocatable"]["cpu"] == "96"
    assert node["metadata"]["labels"]["fairlead.dev/gpu-model"] == "V100M32"


def test_bad_input_is_one_clear_line(name: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("sn,cpu_milli,memory_mib,gpu,model\na,many,1,0,\n", encoding="utf-8")
    foreign = tmp_path / "config"
    foreign.write_text(yaml.safe_dump({"current-context": "work"}), encoding="utf-8")
    for arguments, complaint in (
        (["--node-file", str(bad)], "line 2: cpu_milli is 'many'"),
        (["--kubeconfig", str(foreign)], "is not of cluster"),
        (["--nodes", "-1"], "give a number"),
        (["--name", "No Name"], "use 1 to 40"),
    ):
        result = cli("up", "--name", name, *arguments)
        assert result.returncode == 1
        assert result.stderr.startswith("error: ")
        assert complaint in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert yaml.safe_load(foreign.read_text(encoding="utf-8")) == {"current-context": "work"}


def test_unknown_component_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="no component 'kube-scheduler'"):
        cluster.kill("kube-scheduler")
