"""Replicas: what the engine of a standby does, who owns the data folder, whose address stands in it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from test_engine import node, one, pod, starting

from fairlead import app
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import Grant, Placement
from fairlead.model.pod import PodPhase
from fairlead.model.settings import Settings
from fairlead.runtime import address
from fairlead.runtime.errors import ConfigError

# -- the engine of a standby -----------------------------------------------------------------------------


@pytest.fixture
def standby() -> Engine:
    """It has heard of the cluster all there is, and nothing of the store."""
    made = Engine(Settings(pace=0), RECONCILERS)
    heard = [ev.Tick(1_000), ev.NodeSeen(node("n0", cpu=8)), ev.NodeSeen(node("n1", cpu=8))]
    synced = [ev.Synced(source) for source in made.state.settings.sources if source != "store"]
    assert made.learn([*heard, *synced]) == []
    return made


def record(name: str, seq: int, phase: Phase, size: int = 1) -> GroupRecord:
    key = f"label:default/{name}"
    return GroupRecord(f"{key}#0", key, 0, "default", name, seq, 500 + seq, phase=phase, size=size)


def test_RA3_a_standby_learns_and_commands_nothing_however_long(standby: Engine) -> None:
    said: list[cmd.Command] = []
    for number in range(200):
        name = f"p{number}"
        said += standby.learn([ev.Tick(2_000 + number), ev.PodSeen(pod(name, 10 * number + 1))])
        bound = pod(name, 10 * number + 2, node="n0")
        said += standby.learn(
            [ev.PodSeen(bound), ev.PodSeen(structs.replace(bound, version=10 * number + 3))]
        )
        ended = structs.replace(bound, version=10 * number + 4, phase=PodPhase.SUCCEEDED)
        said += standby.learn([ev.PodSeen(ended), ev.PodGone(name, 10 * number + 5)])
    assert [each for each in said if not isinstance(each, cmd.WakeAt)] == []
    assert not standby.state.pods and not standby.state.groups and not standby.state.early
    assert "store" in standby.state.missing and not standby.state.ready


def test_RA3_F6_at_the_takeover_it_has_the_old_leaders_groups_in_their_order(standby: Engine) -> None:
    """Pods that it saw long before it was told of their groups are members of those, not of new ones."""
    standby.learn([ev.PodSeen(pod("b-0", 5, cpu=8, group="b", size=1))])
    standby.learn([ev.Tick(9_000), ev.PodSeen(pod("a-0", 6, cpu=8, group="a", size=1))])
    standby.learn([ev.PodSeen(pod("c-0", 7, cpu=8, group="c", size=1))])
    restored = [
        ev.GroupRestored(record("a", 1, Phase.QUEUED)),
        ev.GroupRestored(record("b", 2, Phase.QUEUED)),
    ]
    commands = standby.learn([ev.Tick(20_000), *restored, ev.StoreReady(7), ev.Synced("store")])
    assert standby.state.ready
    groups = sorted(standby.state.groups.values(), key=lambda group: group.seq)
    assert [(group.name, group.first_seen) for group in groups] == [("a", 501), ("b", 502), ("c", 9_000)]
    recorded = one(standby.learn([starting(commands)]), cmd.RecordAllocations)
    assert isinstance(recorded, cmd.RecordAllocations)
    assert recorded.epoch == 7
    assert [grant.group for grant in recorded.grants][:1] == ["label:default/a#0"]


def test_RA3_an_adopted_start_is_sent_when_nothing_of_the_old_leader_can_be_on_its_way(
    standby: Engine,
) -> None:
    standby.learn(
        [ev.PodSeen(pod("a-0", 5, group="a", size=2)), ev.PodSeen(pod("a-1", 6, group="a", size=2))]
    )
    places = (Placement("a-0", "n0"), Placement("a-1", "n1"))
    grant = Grant("p/a", "p", "label:default/a#0", 3, 900, places)
    told = [
        ev.GroupRestored(record("a", 1, Phase.STARTING, 2)),
        ev.GrantRestored(grant, 30_000),
    ]
    # One of the two was bound by the old leader; the standby saw it on the watch.
    standby.learn([ev.PodSeen(pod("a-1", 8, group="a", size=2, node="n1"))])
    commands = standby.learn([ev.Tick(20_000), *told, ev.StoreReady(4), ev.Synced("store")])
    assert not [each for each in commands if isinstance(each, cmd.Bind)]
    assert standby.state.intents.keys() == {"a-0"}
    bind = one(standby.learn([ev.Tick(30_000)]), cmd.Bind)
    assert isinstance(bind, cmd.Bind) and (bind.pod, bind.node) == ("a-0", "n0")


# -- one machine -----------------------------------------------------------------------------------------


def test_RA3_replicas_share_a_data_folder_and_nobody_else_does(tmp_path: Path) -> None:
    def refused(shared: bool) -> bool:
        try:
            with app.DataFolder(tmp_path, shared=shared):
                return False
        except ConfigError as error:
            return "another fairlead scheduler" in str(error)

    with app.DataFolder(tmp_path, shared=True):
        assert (refused(True), refused(False)) == (False, True)
    with app.DataFolder(tmp_path):
        assert (refused(True), refused(False)) == (True, True)
    assert (refused(True), refused(False)) == (False, False)


@pytest.fixture
def other() -> Iterator[int]:
    """The id of a process that lives."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def test_RA3_the_address_is_that_of_the_leader(
    tmp_path: Path, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> str:
        found = address.read(tmp_path)
        assert found is not None
        return found.url

    app.tell_address(tmp_path, "http://mine", leads=False)
    assert told() == "http://mine"  # better than none
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: other)
        app.tell_address(tmp_path, "http://others", leads=True)
    app.tell_address(tmp_path, "http://mine", leads=False)
    assert told() == "http://others"
    app.tell_address(tmp_path, "http://mine", leads=True)
    assert told() == "http://mine"


def test_RA3_a_recording_for_each_life(tmp_path: Path) -> None:
    files = app.recordings(tmp_path / "r.jsonl")
    assert [next(files).name for _ in range(3)] == ["r.jsonl", "r.jsonl.2", "r.jsonl.3"]  # type: ignore[union-attr]
    assert next(app.recordings(None)) is None


def test_RA3_replicas_without_a_database_of_yours_are_refused() -> None:
    with pytest.raises(ConfigError, match="--leader-elect needs --database-url"):
        app.run(app.Options(leader_elect=True))
