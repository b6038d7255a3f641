"""`fairlead recorder` started wrongly: one line says what to do; and without a database or an API server."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
NOBODY = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Of an API server that does not answer."""
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def said(kubeconfig: Path, *options: str) -> str:
    """The one line that it ends with."""
    command = [FAIRLEAD, "recorder", "--kubeconfig", str(kubeconfig), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    *log, last = run.stderr.strip().splitlines()
    assert all(line.startswith("20") for line in log), run.stderr
    return last


FREE = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--database-url", NOBODY)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--retention", "soon"), "--retention 'soon' is no duration above zero such as 30d or 12h"),
        (("--log-format", "xml"), "--log-format 'xml' is not known: choose text or json"),
        (("--http", "here"), "'here' is not HOST:PORT; write for example 127.0.0.1:4242"),
        (("--http", "0.0.0.0:0"), "add --allow-remote to listen on it all the same"),
        (("--grpc", "0.0.0.0:0"), "add --allow-remote to listen on it all the same"),
        (("--extender", "0.0.0.0:0"), "add --extender-tls FOLDER, or --allow-remote to listen on it"),
        (("--extender-tls", "/x"), "--extender-tls needs an address of its own, --extender HOST:PORT"),
        (("--extender", "0.0.0.0:0", "--extender-tls", "/x"), "tls.crt and tls.key in /x cannot be used"),
        (("--database-url", "postgres://%zz"), "the database URL cannot be read"),
        (("--database-url", "", "--data-dir", "/dev/null/x"), "choose another --data-dir"),
        (("--jsonl", "/"), "--jsonl /: Is a directory; name a file that can be written"),
        (("--kubeconfig", "/nowhere"), "kubeconfig /nowhere does not exist"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(kubeconfig: Path, options: tuple[str, ...], line: str) -> None:
    last = said(kubeconfig, *FREE, *options)
    assert last.startswith("fairlead: ") and line in last


@pytest.mark.parametrize(
    ("door", "advice"), [("--http", "choose another --http"), ("--grpc", "choose another address")]
)
def test_an_occupied_port_is_named(kubeconfig: Path, taken: str, door: str, advice: str) -> None:
    last = said(kubeconfig, *FREE, door, taken)
    assert f"cannot listen on 127.0.0.1 port {taken.rpartition(':')[2]}: Address already in use" in last
    assert advice in last


def test_without_database_and_api_server_it_waits_and_says_for_what(kubeconfig: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        command = [FAIRLEAD, "recorder", "run", "--kubeconfig", str(kubeconfig), *FREE]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 200
        wanted = ("nothing is recorded: no API server answers; trying again", "ledger lost")
        while not all(text in log.read_text() for text in wanted):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        found = re.search(r"http=(http://\S+)", log.read_text())
        assert found is not None
        with pytest.raises(urllib.error.HTTPError) as refused:
            DIRECT.open(f"{found[1]}/readyz", timeout=10)
        reasons = json.loads(refused.value.read())["reasons"]
        assert refused.value.code == 503 and len(reasons) == 2
        assert reasons[0].startswith("the database: ")
        assert reasons[1] == "the API server has not answered yet"
        with DIRECT.open(f"{found[1]}/metrics", timeout=10) as answer:
            assert b"\nfairlead_ready 0.0\n" in answer.read()
        with DIRECT.open(f"{found[1]}/healthz", timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 0
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()
