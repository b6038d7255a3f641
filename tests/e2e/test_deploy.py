"""deploy/: Fairlead with an ordinary account, as deploy/README.md says, from the first line to the last."""

import contextlib
import http.client
import json
import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube.access import NEEDED
from fairlead.localcluster import Cluster
from live import FAIRLEAD, Kubectl, Scheduler, data_folder, job, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ACCOUNT = "system:serviceaccount:fairlead:fairlead"


class Admin:
    """An administrator's shell: kubectl on the PATH, $KUBECONFIG set, in a folder of its own."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.kubectl)
        (folder / "deploy").symlink_to(DEPLOY)
        self.environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "KUBECONFIG": str(cluster.kubeconfig),
        }

    def __call__(self, script: str, answer: str = "") -> str:
        run = subprocess.run(
            ["bash", "-euc", script], cwd=self.folder, env=self.environment, input=answer,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        return run.stdout

    def chapter(self, title: str) -> str:
        """The commands under a heading of deploy/README.md."""
        text = (DEPLOY / "README.md").read_text(encoding="utf-8")
        (found,) = re.findall(rf"^## {re.escape(title)}\n.*?```sh\n(.*?)```", text, re.DOTALL | re.MULTILINE)
        return found

    def may(self, verb: str, resource: str, sub: str = "") -> bool:
        question = f"kubectl auth can-i {verb} {resource} -A --as {ACCOUNT}"
        return self(f"{question} {f'--subresource={sub}' if sub else ''} || true").strip() == "yes"


@pytest.fixture
def admin(make_cluster: Any, tmp_path: Path) -> Iterator[Admin]:
    yield Admin(make_cluster(nodes=2), tmp_path)


def flow_of(cluster: Cluster, token: str) -> str:
    """The uid of the FlowSchema by which the API server sorts in the account's requests."""
    tls = ssl.create_default_context(cafile=str(cluster.files.pki / "ca.crt"))
    connection = http.client.HTTPSConnection(
        "127.0.0.1", cluster.state.ports.apiserver, timeout=10, context=tls
    )
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/nodes?limit=1", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().getheader("X-Kubernetes-PF-FlowSchema-UID", "")


def labelled(admin: Admin) -> list[str]:
    kinds = "clusterroles,clusterrolebindings,roles,rolebindings,flowschemas,prioritylevelconfigurations"
    kinds += ",serviceaccounts"
    return admin(f"kubectl get {kinds} -A -l app.kubernetes.io/name=fairlead -o name").split()


def test_an_ordinary_account_will_do(admin: Admin) -> None:
    namespace, apply = admin.chapter("Apply").splitlines()
    admin(namespace)
    assert admin(f"{apply} --dry-run=server").count("(server dry run)") == 7
    assert labelled(admin) == []
    admin(apply)
    assert len(labelled(admin)) == 7

    admin(admin.chapter("A kubeconfig for the account"))
    kubeconfig = admin.folder / "fairlead.kubeconfig"
    assert kubeconfig.stat().st_mode & 0o077 == 0
    who = admin(
        "kubectl --kubeconfig fairlead.kubeconfig auth whoami -o jsonpath='{.status.userInfo.username}'"
    )
    assert who == ACCOUNT
    until(lambda: admin.may("create", "pods", "binding"), "the rights to be known")

    a_gang_runs(admin, kubeconfig)
    its_requests_take_their_own_flow(admin)

    admin("kubectl delete namespace work --wait=false")
    admin(admin.chapter("Remove"))
    assert labelled(admin) == []
    assert "fairlead" not in admin("kubectl get namespaces -o name")
    until(lambda: not admin.may("list", "pods"), "the rights to be gone")


def a_gang_runs(admin: Admin, kubeconfig: Path) -> None:
    admin("kubectl create namespace work")
    kubectl = Kubectl(admin.cluster, "work")
    with data_folder() as data, Scheduler(kubeconfig, data) as scheduler:
        kubectl.create(job("gang", pods=4, run="600s"), job("waits", pods=4, cpu="30", run="1s"))
        assert scheduler.wait_state("work", "gang", "running")["seen"] == 4
        pods = [pod for pod in kubectl.get("pods") if pod["metadata"]["name"].startswith("gang")]
        assert all(pod["spec"]["nodeName"] for pod in pods) and len(pods) == 4
        # Everything the account writes: bindings, Events, conditions.
        kubectl.wait_event("Pod", "gang", "Scheduled")
        kubectl.wait_event("Job", "waits", "Unschedulable")
        until(lambda: any(_reason(pod) == "Unschedulable" for pod in kubectl.get("pods")), "a condition")
        assert "forbidden" not in scheduler.log.lower()


def _reason(pod: dict[str, Any]) -> str:
    conditions = pod["status"].get("conditions", [])
    return next((each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), "")


def its_requests_take_their_own_flow(admin: Admin) -> None:
    uid = admin("kubectl get flowschema fairlead -o jsonpath='{.metadata.uid}'")
    token = (admin.folder / "fairlead.token").read_text().strip()
    until(lambda: flow_of(admin.cluster, token) == uid, "the API server to use the FlowSchema")
    dangling = (
        "kubectl get flowschema fairlead -o jsonpath='{.status.conditions[?(@.type==\"Dangling\")].status}'"
    )
    assert admin(dangling) == "False"


def test_a_missing_right_is_named(admin: Admin) -> None:
    admin(admin.chapter("Apply"))
    admin(admin.chapter("A kubeconfig for the account"))
    kubeconfig = admin.folder / "fairlead.kubeconfig"
    role = next(
        each
        for each in yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text(encoding="utf-8"))
        if each["kind"] == "ClusterRole"
    )
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    admin("kubectl apply -f -", json.dumps(role))
    until(lambda: admin.may("list", "pods") and not admin.may("create", "pods", "binding"), "the other role")
    with data_folder() as data:
        run = subprocess.run(
            [FAIRLEAD, "scheduler", "--kubeconfig", str(kubeconfig), "--data-dir", str(data)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert run.returncode == 1
    line, *more = run.stderr.splitlines()
    assert line.startswith(f"fairlead: forbidden: the account of {kubeconfig} may not create pods/binding in")
    assert sum(str(right) in line for right in NEEDED) == 1
    assert more == []
