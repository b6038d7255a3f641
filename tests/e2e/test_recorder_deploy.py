"""deploy/recorder.yaml: the recorder with the account that the file makes, which may look, no more."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench.recorded import Hands, Recording, SecondWatch

from fairlead.kube.access import NEEDED, Right
from fairlead.kube.observe import needed
from fairlead.localcluster import Cluster
from live import PATIENCE, Kubectl, data_folder, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FILE = Path(__file__).resolve().parents[2] / "deploy" / "recorder.yaml"
NAMESPACE = ACCOUNT = "fairlead-recorder"
SUBJECT = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


@pytest.fixture
def plane(make_cluster: Any) -> Iterator[Cluster]:
    yield make_cluster(nodes=2)


def may(kubectl: Kubectl, verb: str, resource: str) -> bool:
    command = [
        kubectl.cluster.kubectl,
        "--kubeconfig",
        str(kubectl.cluster.kubeconfig),
        "auth",
        "can-i",
        verb,
    ]
    run = subprocess.run(
        [*command, resource, "-A", "--as", SUBJECT], capture_output=True, text=True, timeout=60, check=False
    )
    return run.stdout.strip() == "yes"


def full_name(right: Right) -> str:
    """As `kubectl auth can-i` takes it."""
    resource = f"{right.resource}.{right.group}" if right.group else right.resource
    return f"{resource}/{right.sub}" if right.sub else resource


def account(kubectl: Kubectl, folder: Path) -> Path:
    """A kubeconfig with nothing but a token of the ServiceAccount."""
    token = kubectl("create", "token", ACCOUNT).strip()
    admin = yaml.safe_load(kubectl.cluster.kubeconfig.read_text(encoding="utf-8"))
    for user in admin["users"]:
        user["user"] = {"token": token}
    path = folder / "recorder.kubeconfig"
    path.write_text(yaml.safe_dump(admin), encoding="utf-8")
    return path


def test_RB7_an_account_that_may_only_look_will_do(plane: Cluster, tmp_path: Path) -> None:
    kubectl = Kubectl(plane, NAMESPACE)
    kubectl("apply", "-f", str(FILE))
    until(lambda: may(kubectl, "list", "pods"), "the rights to be known")
    granted = {(right.verb, full_name(right)) for right in needed(events=True)}
    assert all(may(kubectl, verb, resource) for verb, resource in granted)
    for right in NEEDED:
        if (right.verb, full_name(right)) not in granted:
            assert not may(kubectl, right.verb, full_name(right)), right
    assert not may(kubectl, "list", "secrets")
    kubeconfig = account(kubectl, tmp_path)
    with data_folder() as data, Recording(kubeconfig, data) as recorder, SecondWatch(plane) as watch:
        with Hands(plane, "seen") as hands:
            hands.at_once(hands.create, [f"p{number}" for number in range(5)])
            hands.at_once(hands.bind, [f"p{number}" for number in range(5)], ["node-0000"] * 5)
        until(lambda: watch.count("seen", "Finished") == 5)
        until(lambda: recorder.said("seen") == watch.expected("seen"), "all of it to be recorded")
        told = "SELECT count(*) FROM change WHERE source = 'watch' AND object = 'Node' AND event = 'Added'"
        until(lambda: recorder.rows(told) == [(2,)], "the nodes to be recorded")
        assert "forbidden" not in recorder.log.lower()


def test_a_missing_right_is_named(plane: Cluster, tmp_path: Path) -> None:
    kubectl = Kubectl(plane, NAMESPACE)
    kubectl("apply", "-f", str(FILE))
    rules = '[{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]'
    kubectl("patch", "clusterrole", ACCOUNT, "--type=merge", "-p", f'{{"rules": {rules}}}')
    until(lambda: may(kubectl, "list", "pods") and not may(kubectl, "list", "nodes"), "the other rights")
    with data_folder() as data:
        recorder = Recording(account(kubectl, tmp_path), data)
        recorder.start()
        assert recorder.process is not None and recorder.process.wait(PATIENCE) == 1
        last = recorder.log.strip().splitlines()[-1]
        assert (
            "may not list nodes, watch nodes, list events.events.k8s.io, watch events.events.k8s.io" in last
        )
        assert last.startswith("fairlead: forbidden: the account of") and "Traceback" not in recorder.log
