"""Starts that cannot work: one clear line, an exit code that is not 0, and never a traceback."""

import base64
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from line import Line

from fairlead.localcluster import Cluster
from live import FAIRLEAD, Scheduler, data_folder, until

pytestmark = pytest.mark.e2e
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def data() -> Iterator[Path]:
    with data_folder() as folder:
        yield folder


def refused(*options: str, **environment: str) -> str:
    """What a scheduler says that does not even start; a clear line, and nothing else."""
    run = subprocess.run(
        [FAIRLEAD, "scheduler", *options],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "400", **environment},
    )
    output = run.stdout + run.stderr
    assert run.returncode not in (0, 130, 143, -9), output
    assert "Traceback" not in output
    said = [line for line in run.stderr.splitlines() if line.startswith("fairlead: ")]
    assert len(said) == 1, output
    return said[0]


def changed(cluster: Cluster, folder: Path, change: Change) -> str:
    """The path of a kubeconfig like the cluster's own but for one change."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    change(config)
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def with_token(token: str) -> Change:
    def change(config: dict[str, Any]) -> None:
        config["users"][0]["user"] = {"token": token}

    return change


def test_no_kubeconfig(tmp_path: Path, data: Path) -> None:
    environment = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
    assert "kubeconfig" in refused("--data-dir", str(data), **environment)


def test_kubeconfig_that_is_not_there(tmp_path: Path, data: Path) -> None:
    missing = str(tmp_path / "nowhere")
    assert missing in refused("--data-dir", str(data), "--kubeconfig", missing)


def test_L1_a_scheduler_that_is_started_first_waits_for_the_api_server(
    cluster: Cluster, tmp_path: Path, data: Path
) -> None:
    """It says so at once, in case the address is wrong; in any order, everything comes up by itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = f"https://127.0.0.1:{port}"

    def change(config: dict[str, Any]) -> None:
        config["clusters"][0]["cluster"]["server"] = server

    scheduler = Scheduler(changed(cluster, tmp_path, change), data)
    scheduler.start()
    try:
        until(lambda: "no API server answers" in scheduler.log, "it to say that nobody answers")
        assert server in scheduler.log and "Traceback" not in scheduler.log
        until(lambda: scheduler.get("/readyz")[0] == 503, "it to be not ready")
        assert scheduler.running
        with Line.to(cluster.state.ports.apiserver, at=port):
            scheduler.wait_ready()
            scheduler.stop()
    finally:
        if scheduler.running:
            scheduler.kill()


def test_token_that_nobody_issued(cluster: Cluster, tmp_path: Path, data: Path) -> None:
    kubeconfig = changed(cluster, tmp_path, with_token("nonsense"))
    said = refused("--data-dir", str(data), "--kubeconfig", kubeconfig)
    assert "401" in said or "nauthorized" in said or "credentials" in said


def test_token_that_has_expired(cluster: Cluster, tmp_path: Path, data: Path) -> None:
    kubeconfig = changed(cluster, tmp_path, with_token(expired_token(cluster)))
    said = refused("--data-dir", str(data), "--kubeconfig", kubeconfig)
    assert "401" in said or "nauthorized" in said or "credentials" in said


def expired_token(cluster: Cluster) -> str:
    """A token of the default service account, rightly signed, whose time is over."""
    key = serialization.load_pem_private_key((cluster.files.pki / "service-account.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    account = cluster.client.get("/api/v1/namespaces/default/serviceaccounts/default").json()["metadata"]
    now, issuer = int(time.time()), "https://kubernetes.default.svc.cluster.local"
    claims = {
        "iss": issuer,
        "aud": [issuer],
        "sub": "system:serviceaccount:default:default",
        "iat": now - 7200,
        "nbf": now - 7200,
        "exp": now - 3600,
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "default", "uid": account["uid"]},
        },
    }

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    text = f"{part(json.dumps({'alg': 'ES256', 'typ': 'JWT'}).encode())}.{part(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{part(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def test_account_without_rights(cluster: Cluster, tmp_path: Path, data: Path) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = cluster.client.post(path, {"spec": {}}).json()["status"]["token"]
    said = refused("--data-dir", str(data), "--kubeconfig", changed(cluster, tmp_path, with_token(token)))
    assert "list pods" in said or "bind" in said or "forbidden" in said.lower()


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [("--policy", "fastest", "fcfs"), ("--match", "best", "pack"), ("--log-format", "xml", "json")],
)
def test_words_that_are_not_known(option: str, value: str, known: str, cluster: Cluster, data: Path) -> None:
    kubeconfig = str(cluster.kubeconfig)
    said = refused("--data-dir", str(data), "--kubeconfig", kubeconfig, option, value)
    assert option in said and value in said and known in said


def test_occupied_port(cluster: Cluster, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused("--data-dir", str(data), "--kubeconfig", str(cluster.kubeconfig), "--port", port)
    assert port in said and "--port" in said


@pytest.mark.parametrize("place", ["/proc/fairlead", "/dev/null/fairlead"])
def test_data_folder_that_cannot_be_written(place: str, cluster: Cluster) -> None:
    said = refused("--data-dir", place, "--kubeconfig", str(cluster.kubeconfig))
    assert place in said and "--data-dir" in said


def test_record_file_that_cannot_be_written(cluster: Cluster, data: Path) -> None:
    wrong = "/proc/fairlead.jsonl"
    said = refused("--data-dir", str(data), "--kubeconfig", str(cluster.kubeconfig), "--record", wrong)
    assert wrong in said


def test_database_url_that_cannot_be_read(cluster: Cluster, data: Path) -> None:
    kubeconfig = str(cluster.kubeconfig)
    said = refused("--data-dir", str(data), "--kubeconfig", kubeconfig, "--database-url", "postgres://[")
    assert "database" in said.lower()


@pytest.mark.slow
def test_second_scheduler_on_the_same_data_folder(cluster: Cluster, data: Path) -> None:
    with Scheduler(cluster.kubeconfig, data, "--scheduler-name", "first-of-two") as first:
        said = refused("--data-dir", str(data), "--kubeconfig", str(cluster.kubeconfig))
        assert str(data) in said and "another" in said.lower()
        assert first.ready()


def test_replay_of_what_is_no_recording(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"format": "other"}\n')
    for path, told in ((wrong, "wrong.jsonl"), (tmp_path / "none", "not a file")):
        run = subprocess.run([FAIRLEAD, "replay", str(path)], capture_output=True, text=True, check=False)
        assert run.returncode == 1 and told in run.stderr and "Traceback" not in run.stderr
