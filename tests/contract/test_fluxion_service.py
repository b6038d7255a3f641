"""`fairlead fluxion-service` as a process: it answers, ends when told to, and says what it cannot do."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from fairlead.api.rpc.pb import fluxion_pb2 as fluxion

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
ROOT = Path(__file__).resolve().parent.parent.parent
GRAPH = str(ROOT / "tests" / "data" / "tree" / "two-racks.graphml")


@contextmanager
def running(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address."""
    command = [FAIRLEAD, "fluxion-service", *options, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (127\.0\.0\.1:\d+)\n", line)
        assert found is not None, line + process.stdout.read()
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def failure(*options: str) -> str:
    """The one line of a start that fails."""
    done = subprocess.run(
        [FAIRLEAD, "fluxion-service", *options], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("fairlead: ").rstrip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_matches_until_it_is_told_to_end(number: int):
    with running("--graph", GRAPH, "-f", "grug", "-P", "lonode") as (process, address):
        with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            match = channel.unary_unary(
                "/fluxion.FluxionService/Match",
                request_serializer=fluxion.MatchRequest.SerializeToString,
                response_deserializer=fluxion.MatchResponse.FromString,
            )
            pods = fluxion.MatchRequest(podspec=fluxion.PodSpec(cpu=3), count=2)
            answer = match(pods, timeout=60)
        assert [(each.nodeID, each.tasks) for each in answer.nodelist] == [("host0", 1), ("host1", 1)]
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_it_says_what_it_cannot_do(tmp_path: Path):
    assert failure() == "fluxnetes' messages have no way to bring a graph: give one with --graph FILE"
    assert failure("--messages", "flux") == "--messages 'flux' is not known: choose fluxnetes or fluxion"
    assert failure("-L", GRAPH).startswith(f"{GRAPH}: JGF: not JSON: ")
    assert failure("-L", str(tmp_path / "x.json")) == f"{tmp_path / 'x.json'}: No such file or directory"
    assert failure("-L", GRAPH, "-f", "grug", "-P", "lowest").startswith(
        "unknown match policy 'lowest'; known: "
    )
    told = failure("-L", GRAPH, "-f", "grug", "--listen", "0.0.0.0:4242")
    assert told.endswith("add --allow-remote to listen on it all the same")


def test_a_port_in_use_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = failure("-L", GRAPH, "-f", "grug", "--listen", f"127.0.0.1:{port}")
    assert told.startswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another")


def test_the_example_of_the_documentation_runs():
    text = (ROOT / "docs" / "grpc.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with running("--graph", GRAPH, "-f", "grug", "-P", "lonode") as (_, address):
        assert "127.0.0.1:4242" in example
        script = example.replace("127.0.0.1:4242", address)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("1 True {'host0': 1, 'host1': 1}\ngranted\n", "")
