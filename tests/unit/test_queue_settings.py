"""Which queues there are, asked of the state, over HTTP and as a table; and a recording that has several."""

from pathlib import Path

import httpx2 as httpx
import msgspec
import pytest
from asking_support import START, gang, node

from fairlead.api.server import create_app
from fairlead.api.source import EngineSource
from fairlead.cli import ask, commands, tables
from fairlead.cli.errors import CliError
from fairlead.core import views
from fairlead.model.event import Configured, Event, Tick
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import PartitionSettings, QueueSettings, Settings
from fairlead.model.view import QueuesPage
from fairlead.runtime.record import Header, Recorder, read
from fairlead.runtime.replay import replay_file
from fairlead.sim.world import World

HOUR = 3_600_000
QUEUES = (
    QueueSettings("short", "easy", order="shortest", walltime=HOUR // 4, longest=HOUR, looks=500),
    QueueSettings("default"),
    QueueSettings(
        "a-queue-with-quite-a-long-name", "hybrid", depth=0, partition="the-nodes-with-accelerators"
    ),
    QueueSettings("bulk", "conservative"),
)
PARTITIONS = (
    PartitionSettings("the-nodes-with-accelerators", (Expression("pool", Operator.IN, ("gpu", "tpu")),)),
)
SETTINGS = Settings(queues=QUEUES, partitions=PARTITIONS, match="pack", pace=0)


def several(settings: Settings = SETTINGS) -> World:
    """One node; in `default` a group runs and two wait, in `bulk` one assembles, one names no queue."""
    world = World(settings)
    world.now = START
    world.run(1)
    world.node(node("n0"))
    gang(world, "runs", 1, cpu=8)
    world.run(1000)
    for name in ("first", "second"):
        gang(world, name, 2, cpu=4)
    gang(world, "half", 2, have=1, annotations={"fairlead.dev/queue": "bulk"})
    gang(world, "lost", 1, annotations={"fairlead.dev/queue": "nowhere"})
    world.run(1000)
    return world


@pytest.fixture(scope="module")
def page() -> QueuesPage:
    state = several().engine.state
    return views.queues_page(state, state.now)


def test_queues_with_policy_and_counts(page: QueuesPage):
    assert [(queue.name, queue.policy, queue.counts) for queue in page.queues] == [
        ("short", "easy", {}),
        ("default", "fcfs", {"running": 1, "waiting": 2}),
        ("a-queue-with-quite-a-long-name", "hybrid", {}),
        ("bulk", "conservative", {"assembling": 1}),
    ]
    assert [queue.depth for queue in page.queues] == [1, -1, 0, 1000]
    short = page.queues[0]
    assert (short.order, short.walltime, short.longest, short.looks) == ("shortest", HOUR // 4, HOUR, 500)
    assert page.warnings == ("no queue is called 'nowhere', but groups name it: 1",)


async def test_queues_over_http():
    state = several().engine.state
    source = EngineSource(state, clock=lambda: state.now)
    transport = httpx.ASGITransport(app=create_app(source))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http:
        answer = await http.get("/api/v1/queues")
        found = msgspec.json.decode(answer.content, type=QueuesPage)
        assert found == views.queues_page(state, state.now)
        paths = (await http.get("/openapi.json")).json()["paths"]
        assert "/api/v1/queues" in paths


def shown(page: QueuesPage, wide: bool) -> list[str]:
    out = tables.console(wide)
    if not wide:
        out.width = 100  # whatever COLUMNS says where the tests run
    with out.capture() as text:
        out.print(tables.queues(page, wide, 100))
    return [line.rstrip() for line in text.get().splitlines()]


def test_the_table_fits_100_columns(page: QueuesPage):
    lines = shown(page, wide=False)
    assert all(len(line) <= 100 for line in lines)
    assert [" ".join(line.split()) for line in lines] == [
        "QUEUE POLICY WALLTIME MAX PARTITION HELD WAITING PROMISED RUNNING",
        "short easy 15m 1h00m - 0 0 0 0",
        "default fcfs - - - 0 2 0 1",
        "a-queue-wi…-long-name hybrid(all) - - the-no…ators 0 0 0 0",
        "bulk conservative - - - 1 0 0 0",
    ]


def test_the_wide_table_cuts_nothing_and_has_every_state(page: QueuesPage):
    rows = [line.split() for line in shown(page, wide=True)]
    assert rows[0][6:] == ["QUEUE-DEPTH", "PROMISED", "ASSEMBLING", "WAITING", "RUNNING"]
    assert rows[3][:6] == [QUEUES[2].name, "hybrid(all)", "-", "-", PARTITIONS[0].name, "priority"]
    assert rows[2][6:] == ["all", "0", "0", "2", "1"]


def test_command_prints_table_and_json(
    page: QueuesPage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(ask, "queues", lambda _: page)
    commands.queues(ask.Where(), output="json")
    assert msgspec.json.decode(capsys.readouterr().out, type=QueuesPage) == page
    commands.queues(ask.Where(), output="table")
    said = capsys.readouterr()
    assert said.out.splitlines()[0].startswith("QUEUE ")
    assert said.err == "no queue is called 'nowhere', but groups name it: 1\n"


def test_only_a_scheduler_knows_its_queues(tmp_path: Path):
    with pytest.raises(CliError, match="the database does not know the configuration of queues"):
        ask.queues(ask.Where(data_dir=tmp_path))


# -- recordings --------------------------------------------------------------------------------------


def recorded(world: World, path: Path) -> Path:
    """The world's batches as the loop of a scheduler writes them."""
    recorder = Recorder(path, world.settings)
    for batch in world.batches:
        recorder.batch(batch)
    recorder.close()
    return path


def configured(world: World, policy: str) -> None:
    """The file was read again: the default queue has another policy."""
    queues = tuple(
        msgspec.structs.replace(queue, policy=policy) if queue.name == "default" else queue
        for queue in QUEUES
    )
    world.tell(Configured(msgspec.structs.replace(SETTINGS, queues=queues)))
    world.run(1000)


def test_settings_and_what_became_of_them_are_in_a_recording(tmp_path: Path):
    world = several()
    configured(world, "easy")
    header, *batches = read(recorded(world, tmp_path / "run.jsonl"))
    assert isinstance(header, Header) and header.settings == SETTINGS
    events: list[Event] = [event for batch in batches if isinstance(batch, list) for event in batch]
    (change,) = [event for event in events if isinstance(event, Configured)]
    assert [queue.policy for queue in change.settings.queues] == ["easy", "easy", "hybrid", "conservative"]
    assert isinstance(events[0], Tick)


def test_a_recording_with_queues_replays(tmp_path: Path):
    world = several()
    configured(world, "easy")
    gang(world, "late", 1, cpu=1, annotations={"fairlead.dev/queue": "short"})
    world.run(1000)
    configured(world, "conservative")
    for uid in ("runs-0", "first-0", "first-1"):
        world.pod_gone(uid)
        world.run(1000)
    found = replay_file(recorded(world, tmp_path / "run.jsonl"))
    assert found.differences == [] and found.plans >= 3


# -- changed while it runs ---------------------------------------------------------------------------


def crowded(policy: str) -> World:
    """Half of the node is taken for an hour; the first that waits wants all of it, the second a little."""
    world = World(Settings(queues=(QueueSettings(policy=policy),), pace=0))
    world.now = START
    world.run(1)
    world.node(node("n0"))
    hour = {"fairlead.dev/duration": "1h"}
    gang(world, "runs", 1, cpu=4, run_time=HOUR, annotations=hour)
    world.run(1000)
    gang(world, "whole", 1, cpu=8, annotations=hour)
    world.run(1000)
    gang(world, "little", 1, cpu=2, annotations={"fairlead.dev/duration": "10m"})
    world.run(1000)
    return world


def bound(world: World) -> list[str]:
    return [pod.name for pod in world.pods.values() if pod.node]


def test_F9_a_policy_changes_without_losing_the_queue():
    world = crowded("fcfs")
    assert bound(world) == ["runs-0"]
    places = {g.name: (g.seq, g.first_seen) for g in world.engine.state.groups.values()}
    world.tell(Configured(Settings(queues=(QueueSettings(policy="easy"),), pace=0)))
    world.run(1000)
    assert bound(world) == ["runs-0", "little-0"]
    assert {g.name: (g.seq, g.first_seen) for g in world.engine.state.groups.values()} == places
    whole = world.engine.state.groups["label:team-a/whole#0"]
    assert whole.estimate > world.now  # promised, where fcfs promises nothing


def test_F9_a_change_back_takes_promises_away_and_starts_nobody():
    world = crowded("easy")
    assert bound(world) == ["runs-0", "little-0"]
    world.tell(Configured(Settings(queues=(QueueSettings(policy="fcfs"),), pace=0)))
    world.run(1000)
    assert world.engine.state.groups["label:team-a/whole#0"].estimate == 0
    gang(world, "tiny", 1, cpu=1, annotations={"fairlead.dev/duration": "1m"})
    world.run(1000)
    assert bound(world) == ["runs-0", "little-0"]  # nobody is evicted, nobody overtakes


def promised(world: World) -> dict[str, int]:
    """Minutes from the beginning of the test to the promised starts."""
    groups = world.engine.state.groups.values()
    return {group.name: (group.estimate - START) // 60_000 for group in groups if group.estimate}


def test_fewer_are_promised_a_start_under_easy_and_all_again_under_conservative():
    world = crowded("conservative")
    gang(world, "next", 1, cpu=8, annotations={"fairlead.dev/duration": "1h"})
    world.run(1000)
    assert promised(world) == {"whole": 60, "next": 120}
    for policy, found in (("easy", {"whole": 60}), ("conservative", {"whole": 60, "next": 120})):
        world.tell(Configured(Settings(queues=(QueueSettings(policy=policy),), pace=0)))
        world.run(1000)
        assert promised(world) == found
    assert bound(world) == ["runs-0", "little-0"]


def test_F9_the_queue_outlives_a_restart_under_another_policy():
    world = crowded("fcfs")
    places = {g.name: (g.seq, g.first_seen) for g in world.engine.state.groups.values()}
    world.crash()
    world.settings = Settings(queues=(QueueSettings(policy="easy"),), pace=0)
    world.start()
    world.run(30_000)
    assert {g.name: (g.seq, g.first_seen) for g in world.engine.state.groups.values()} == places
    assert bound(world) == ["runs-0", "little-0"]


@pytest.mark.parametrize(("depth", "promised"), [(-1, 0), (1, 1), (2, 2), (0, 3)])
def test_F25_so_many_waiting_groups_are_promised_a_start(depth: int, promised: int):
    world = World(Settings(queues=(QueueSettings(policy="hybrid", depth=depth),), pace=0))
    world.now = START
    world.run(1)
    world.node(node("n0"))
    for i in range(4):
        gang(world, f"g{i}", 1, cpu=8, run_time=HOUR, annotations={"fairlead.dev/duration": "1h"})
        world.run(1000)
    state = world.engine.state
    assert bound(world) == ["g0-0"]
    page = views.queues_page(state, state.now)
    assert page.queues[0].promised == promised
    assert page.queues[0].depth == depth


def in_zone(zone: str) -> Settings:
    """One queue, on the nodes of this zone."""
    nodes = PartitionSettings("here", (Expression("zone", Operator.IN, (zone,)),))
    return Settings(queues=(QueueSettings(partition="here"),), partitions=(nodes,), pace=0)


def test_a_partition_changes_for_those_who_wait():
    world = World(in_zone("a"))
    world.now = START
    world.run(1)
    world.node(node("n0"))
    world.node(msgspec.structs.replace(node("n1"), labels={"zone": "b"}))
    for name in ("first", "second"):
        gang(world, name, 1, cpu=8)
        world.run(1000)
    assert {pod.name: pod.node for pod in world.pods.values()} == {"first-0": "n0", "second-0": ""}
    world.tell(Configured(in_zone("b")))
    world.run(1000)
    assert {pod.name: pod.node for pod in world.pods.values()} == {"first-0": "n0", "second-0": "n1"}
