"""`fairlead state dump | show`, /api/v1/state and the picture behind them.

FAIRLEAD_UPDATE_GOLDEN=1 writes the golden files anew; look at the difference before you commit it.
"""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asking_support import amounts, busy, gang, node, promising, state_of
from msgspec import structs
from test_cli_app import failing, run, serving

import fairlead
from fairlead.cli.state import summary
from fairlead.core.dump import dump
from fairlead.core.engine import Engine
from fairlead.core.moment import picturing, take
from fairlead.core.state import State
from fairlead.core.steps import now
from fairlead.model import event as ev
from fairlead.model.dump import Holds, LastAudit, StateDump
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import Settings
from fairlead.sim.world import World

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
STATE = state_of(busy())


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """UTC, and nobody to ask but whom the test starts."""
    monkeypatch.delenv("FAIRLEAD_SERVER", raising=False)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("fairlead.store.folder.default_data_dir", lambda: tmp_path / "nobody")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(STATE) as url:
        yield url


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("FAIRLEAD_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def picture(state: State) -> StateDump:
    return dump(state, state.now, "1.0")


def of(found: tuple[Any, ...], **wanted: object) -> Any:
    """The one entry with these fields."""
    (one,) = (each for each in found if all(getattr(each, key) == value for key, value in wanted.items()))
    return one


# -- what is in it -----------------------------------------------------------------------------------


def test_D13_every_node_tells_who_holds_what():
    found = picture(STATE)
    assert [each.name for each in found.nodes] == ["n0", "n1", "n2", "n3", "n4"]
    for each in found.nodes:
        held = {use.name: 0 for use in each.resources}
        for pod in each.held:
            for name, amount in pod.amounts.items():
                held[name] += amount
        assert held == {use.name: use.used for use in each.resources}
        assert all(use.free + use.used == use.capacity for use in each.resources)
    dns = of(of(found.nodes, name="n3").held, name="dns")
    assert (dns.namespace, dns.group, dns.why) == ("kube-system", "", Holds.BOUND)
    assert of(found.nodes, name="n4").unschedulable
    training = of(of(found.nodes, name="n0").held, group="label:team-a/training#0")
    assert training.amounts == {"cpu": 6000, "memory": 8 << 30, "pods": 1}


def test_L4_pods_groups_and_what_they_wait_for():
    found = picture(STATE)
    assert (found.ready, found.missing, found.epoch) == (True, (), 1)
    big = next(each for each in found.groups if each.record.name == "big")
    assert big.members == ("big-0", "big-1", "big-2")
    (wanted,) = big.wants
    assert (wanted.pods, wanted.growth, wanted.amounts["cpu"]) == (big.members, False, 8000)
    report = of(found.pods, uid="report-1")
    assert (report.owner, report.group, report.node) == ("Job/report", "job:job-1#0", "")
    assert {each.record.phase.value for each in found.groups} == {"held", "queued", "running", "ended"}
    assert found.counts["pods"] == len(found.pods) == len(STATE.pods)


def test_D13_promises_are_told():
    found = picture(state_of(promising()))
    assert found.promises
    wide = next(each for each in found.groups if each.record.name == "wide")
    assert {each.group: each.start for each in found.promises}[wide.record.id] == wide.estimate > found.as_of


def granted() -> World:
    """A gang of two is granted its places; nothing is written or bound yet."""
    world = World()
    world.node(node("n0"))
    gang(world, "new", 2)
    world.run(1)
    return world


def test_D13_an_intent_is_told_with_its_flags_and_its_grant():
    found = picture(state_of(granted()))
    assert [(each.pod, each.node, each.durable) for each in found.intents] == [
        ("new-0", "n0", False), ("new-1", "n0", False),
    ]  # fmt: skip
    (grant,) = found.grants
    assert (grant.pods, grant.recording) == (("new-0", "new-1"), True)
    assert [each.why for each in found.nodes[0].held] == [Holds.INTENT] * 2
    assert of(found.nodes[0].resources, name="cpu").used == 2000


def test_D13_what_was_set_aside_is_told(monkeypatch: pytest.MonkeyPatch):
    def trip(state: State, uid: str) -> None:
        if uid == "odd":
            raise ArithmeticError("odd amounts")
        recount(state, uid)

    recount = State.recount
    world = granted()
    world.run(100)
    world.check_always = False
    monkeypatch.setattr(State, "recount", trip)
    world.pod(Pod("odd", "ns", "odd", 0, Shape(amounts(cpu=1)), node="n0"))
    world.run(100)
    found = picture(state_of(world))
    (odd,) = found.set_aside
    assert (odd.id, odd.kind, odd.name, odd.version) == ("odd", "Pod", "ns/odd", world.pods["odd"].version)
    assert "odd amounts" in odd.text
    assert any(line.startswith("SET ASIDE Pod ns/odd: ") for line in summary(found))


def test_D13_a_node_that_is_gone_and_room_on_one_that_never_was():
    world = granted()
    world.run(100)
    world.node_gone("n0")
    world.pod(Pod("lost", "ns", "lost", 0, Shape(amounts(cpu=1)), node="nowhere"))
    world.run(100)
    found = picture(state_of(world))
    assert (found.nodes[0].gone_at, len(found.nodes[0].held)) == (world.now - 100, 2)
    (stray,) = found.strays
    assert (stray.name, stray.held[0].name) == ("nowhere", "lost")


def test_D13_before_anything_is_known():
    found = picture(Engine(Settings()).state)
    assert (found.ready, found.missing) == (False, ("pods", "nodes", "owners", "store"))
    assert found.store_error
    assert found.nodes == found.pods == found.groups == ()


def test_D13_equal_states_are_equal_texts_in_whatever_order_things_were_heard_of():
    world = busy()
    pods = [structs.replace(pod, scheduler="other") for pod in world.pods.values()]
    events: list[ev.Event] = [ev.NodeSeen(each) for each in world.nodes.values()]
    events += [ev.PodSeen(each) for each in pods if each.phase is not PodPhase.SUCCEEDED]
    texts: set[bytes] = set()
    for seed in range(5):
        engine = Engine(Settings())
        random.Random(seed).shuffle(events)
        engine.learn(events)
        texts.add(msgspec.json.encode(picture(engine.state)))
    assert len(texts) == 1


# -- the command -------------------------------------------------------------------------------------


def test_D13_dump_golden():
    with serving(state_of(promising())) as small:
        result = run("state", "dump", "--server", small)
    assert (result.exit_code, result.stderr) == (0, "")
    golden("state-dump.json", re.sub(r'"digest": "[0-9a-f]{32}"', '"digest": "of 32 digits"', result.stdout))


def test_D13_dump_is_what_the_server_says_and_a_node_is_a_line(server: str):
    text = run("state", "dump", "--server", server).stdout
    found = msgspec.json.decode(text, type=StateDump)
    told = msgspec.json.decode(
        msgspec.json.encode(dump(STATE, STATE.now, fairlead.__version__)), type=StateDump
    )
    assert found == structs.replace(told, digest=now(picturing(take(STATE))).digest)
    (line,) = (line for line in text.splitlines() if '"name": "n3"' in line)
    assert json.loads(line.strip().rstrip(","))["held"][0]["name"] == "dns"


def test_D13_dump_as_a_graph_is_what_graph_writes(server: str):
    words = ("--server", server)
    result = run("state", "dump", "--format", "jgf", *words)
    assert result.stdout == run("graph", "-o", "jgf", *words).stdout
    vertices = [vertex["metadata"] for vertex in json.loads(result.stdout)["graph"]["nodes"]]
    names = [vertex["name"] for vertex in vertices if vertex["type"] == "node"]
    assert names == ["n0", "n1", "n2", "n3", "n4"]


def test_L4_show_golden(server: str):
    result = run("state", "show", "--server", server)
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    golden("state-show.txt", result.stdout)


def test_L4_show_of_a_scheduler_that_has_heard_nothing():
    with serving(Engine(Settings()).state) as url:
        result = run("state", "show", "--server", url)
    assert result.stdout.startswith("NOT READY as of -: ")
    assert "nothing is started: waiting for the list of nodes" in result.stdout


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (LastAudit(60_000, "clean", 0, 0), "audit   clean, 2m00s ago"),
        (LastAudit(60_000, "differences", 1, 1), "audit   1 difference, 1 repaired, 2m00s ago"),
        (LastAudit(60_000, "differences", 3, 0), "audit   3 differences, 0 repaired, 2m00s ago"),
        (LastAudit(60_000, "failed", 0, 0), "audit   failed, 2m00s ago"),
        (None, "audit   none yet: `fairlead audit` makes one"),
    ],
)
def test_L4_show_tells_the_last_audit(last: LastAudit | None, told: str):
    assert told in summary(structs.replace(picture(STATE), as_of=180_000, audit=last))


@pytest.mark.parametrize("command", ["dump", "show"])
def test_D13_nobody_answers_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str):
    line = failing(capsys, "state", command, "--data-dir", str(tmp_path))
    assert line.startswith("fairlead: nobody answers: no scheduler has left its address in ")
    assert "the database does not know" in line and "Start `fairlead scheduler`" in line
    assert line.endswith("where to ask with --server or --data-dir") and "\n" not in line
