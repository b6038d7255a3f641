"""`fairlead notify`: what the hook of a container sends, and that it never costs the container anything."""

import asyncio
import socket
import time

import pytest
from typer.testing import CliRunner, Result

from fairlead.api.listen import listen
from fairlead.api.rpc.door import Door
from fairlead.cli.main import app
from fairlead.model.record import Change, Part
from fairlead.recorder.sniffer_service import SERVICE, SnifferService


def notify(*options: str) -> Result:
    return CliRunner().invoke(app, ["notify", *options])


async def told(*options: str) -> list[Change]:
    """What a recorder gets of one call."""
    got: list[Change] = []

    def sink(part: Part) -> bool:
        got.extend(part.changes)
        return True

    service = SnifferService(sink, lambda: 0)
    door = Door({SERVICE: service.methods()}, listen("127.0.0.1:0", False, "--x"))
    await door.start()
    try:
        done = await asyncio.to_thread(notify, "--address", door.address, "--timeout", "60", *options)
    finally:
        await door.stop()
    assert (done.exit_code, done.output) == (0, "")
    return got


async def test_RB6_a_hook_tells_what_the_sniffers_notifier_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SNIFFER_POD_NAME", "job-0-x7k2p")
    monkeypatch.setenv("SNIFFER_NODE_NAME", "node-1")
    before = time.time_ns() // 1_000_000
    (change,) = await told("--stage", "postStart", "--event", "started")
    assert (change.name, change.node, change.event) == ("job-0-x7k2p", "node-1", "started")
    assert change.extra is not None
    assert change.extra["endpoint"] == "postStart"
    assert before <= change.at <= time.time_ns() // 1_000_000
    assert change.extra["timestamp"].endswith(" +0000 UTC")


async def test_without_names_it_is_the_host_before_it_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SNIFFER_POD_NAME", raising=False)
    monkeypatch.delenv("SNIFFER_NODE_NAME", raising=False)
    (change,) = await told()
    assert (change.name, change.node, change.event) == (socket.gethostname(), "", "preStop")
    assert change.extra is not None
    assert change.extra["endpoint"] == "preStop"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nohost.invalid:4242", "x y", ":", ""])
def test_nobody_there_costs_nothing(address: str):
    done = notify("--address", address, "--timeout", "2")
    assert done.exit_code == 0
    (line,) = done.output.splitlines()
    assert line.startswith("fairlead: nobody was told: ")


def test_a_recorder_that_hangs_costs_its_time_out():
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = notify("--address", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "0.3")
    assert done.exit_code == 0
    assert "nobody was told" in done.output


def test_names_that_are_no_text_cost_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SNIFFER_POD_NAME", "a\udcff")
    done = notify("--address", "127.0.0.1:1")
    assert done.exit_code == 0
    assert "nobody was told" in done.output
