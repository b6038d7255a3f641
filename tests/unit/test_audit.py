"""The audit: a healthy state is clean, what is broken is named, counted and repaired, a burst is no fault."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from asking_support import START, amounts, busy, gang, node
from msgspec import structs

from auditing import Audited, differences, listings, look
from fairlead.core.state import Poison
from fairlead.core.tombstones import LIFE, bury
from fairlead.model import event as ev
from fairlead.model.audit import Listing
from fairlead.model.event import Event
from fairlead.model.node import Taint
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.thing import Namespace
from fairlead.runtime import slices
from fairlead.runtime.record import Recorder
from fairlead.runtime.replay import replay_file
from fairlead.sim.world import World

FOREIGN = Pod("f", "other", "web", 0, Shape(amounts(cpu=1)), node="n1", phase=PodPhase.RUNNING)


def yard(**options: float) -> Audited:
    """A running gang on n0 and n1, a service of another scheduler on n2, one group that waits."""
    world = World()
    world.now = START
    world.run(1)
    for i in range(4):
        world.node(node(f"n{i}"))
    world.pod(Pod("svc", "other", "svc", 0, Shape(amounts(cpu=2)), node="n2", phase=PodPhase.RUNNING))
    world.owner(Owner("job-1", "Job", "team-a", "report", 0, size=2))
    gang(world, "training", 2, cpu=6)
    world.run(1000)
    gang(world, "wide", 3, cpu=8)
    world.run(1000)
    return Audited(world, **options)


def silently(world: World, change: Callable[[], None]) -> None:
    """Do something to the cluster of which the watch never tells."""
    tell, world._tell_watch = world._tell_watch, lambda _: None  # pyright: ignore
    try:
        change()
    finally:
        world._tell_watch = tell  # pyright: ignore


# -- equal -------------------------------------------------------------------------------------------


async def test_D5_a_healthy_state_is_equal_to_the_rebuilt_one():
    world = busy()
    report = await Audited(world).audit()
    assert (report.result, report.differences, report.moved) == ("clean", (), 0)
    assert report.digest_incremental == report.digest_rebuilt != ""
    assert (report.nodes, report.pods) == (len(world.nodes), len(world.pods))
    assert all(row.equal and row.here == row.there for row in report.rows)


async def test_D5_rows_tell_what_each_side_counts():
    found = yard()
    report = await found.audit()
    rows = {row.name: row for row in report.rows}
    cpu = {name: next(r for r in row.there.resources if r.name == "cpu") for name, row in rows.items()}
    assert [(name, use.capacity, use.used, use.free) for name, use in cpu.items()] == [
        ("n0", 8000, 6000, 2000), ("n1", 8000, 6000, 2000), ("n2", 8000, 2000, 6000), ("n3", 8000, 0, 8000),
    ]  # fmt: skip
    assert [(row.there.ours, row.there.others) for row in report.rows] == [(1, 0), (1, 0), (0, 1), (0, 0)]


async def test_two_audits_of_one_state_have_the_same_digest():
    found = yard()
    first, second = await asyncio.gather(found.audit(), found.audit())
    assert first.digest_rebuilt == second.digest_rebuilt
    silently(found.world, lambda: found.world.pod(FOREIGN))
    assert (await found.audit(repair=False)).digest_rebuilt != first.digest_rebuilt


# -- faults ------------------------------------------------------------------------------------------

LOST: dict[str, Callable[[World], None]] = {
    "pod-missing": lambda w: w.pod(FOREIGN),
    "pod-surplus": lambda w: w.pod_gone("svc"),
    "pod-node": lambda w: w.change("wide-0", node="n3"),
    "pod-ended": lambda w: w.change("training-0", phase=PodPhase.SUCCEEDED),
    "pod-requests": lambda w: w.change("svc", shape=Shape(amounts(cpu=3))),
    "pod-older": lambda w: w.change("svc", labels={"app": "web"}),
    "node-missing": lambda w: w.node(node("n9")),
    "node-surplus": lambda w: w.node_gone("n3"),
    "node-capacity": lambda w: w.node(structs.replace(w.nodes["n3"], allocatable=amounts(cpu=4))),
    "node-labels": lambda w: w.node(structs.replace(w.nodes["n3"], labels={"zone": "b"})),
    "node-taints": lambda w: w.node(structs.replace(w.nodes["n3"], taints=(Taint("dedicated", "x"),))),
    "node-readiness": lambda w: w.node(structs.replace(w.nodes["n3"], ready=False)),
    "node-older": lambda w: w.node(structs.replace(w.nodes["n3"], images=(("image", 5),))),
    "owner-missing": lambda w: w.owner(Owner("job-2", "Job", "team-a", "again", 0)),
    "owner-surplus": lambda w: w.owner_gone("job-1"),
    "owner-older": lambda w: w.owner(structs.replace(w.owners["job-1"], suspended=True)),
}
"""What the watch fails to tell, by the kind of difference that it leads to."""


@pytest.mark.parametrize("kind", list(LOST))
async def test_D1_D5_a_lost_event_is_named_counted_and_repaired(kind: str):
    found = yard()
    silently(found.world, lambda: LOST[kind](found.world))
    report = await found.audit()
    assert [(each.kind, each.repaired) for each in report.differences] == [(kind, True)]
    assert report.result == "differences"
    assert report.repaired == 1
    assert report.digest_incremental != report.digest_rebuilt
    assert found.counted("fairlead_audit_differences_total", kind=kind) == 1
    assert found.counted("fairlead_audits_total", result="differences") == 1
    after = await found.audit()
    assert after.result == "clean"
    assert after.digest_incremental == after.digest_rebuilt == report.digest_rebuilt


@pytest.mark.parametrize("kind", list(LOST))
async def test_looking_only_changes_nothing(kind: str):
    found = yard()
    silently(found.world, lambda: LOST[kind](found.world))
    report = await found.audit(repair=False)
    assert [(each.kind, each.repaired) for each in report.differences] == [(kind, False)]
    assert report.repaired == 0
    # What was put in are only marks, which tell when all that came before is learned.
    assert {(event.items, event.recount) for event in found.put_in if isinstance(event, ev.Repaired)} == {
        ((), False)
    }
    assert (await found.audit(repair=False)).differences == report.differences


def _spoil_pod(found: Audited) -> None:
    found.state.pods["svc"] = structs.replace(found.state.pods["svc"], labels={"never": "seen"})


def _drop_pod(found: Audited) -> None:
    del found.state.pods["svc"]
    found.state.inventory.release("svc")


def _bury_pod(found: Audited) -> None:
    _drop_pod(found)
    bury(found.state, "svc")


def _drop_and_keep_its_place(found: Audited) -> None:
    del found.state.pods["svc"]


def _drop_node(found: Audited) -> None:
    found.learn([ev.NodeGone(found.world.nodes["n3"].uid, 1 << 40)])


def _spoil_node(found: Audited) -> None:
    inventory = found.state.inventory
    row = inventory.rows["n3"]
    inventory.nodes[row] = structs.replace(found.world.nodes["n3"], unschedulable=True)


def _spoil_owner(found: Audited) -> None:
    found.state.owners["job-1"] = structs.replace(found.state.owners["job-1"], size=77)


def _spoil_free(found: Audited) -> None:
    found.state.inventory.free[found.state.inventory.resources["cpu"], 3] -= 500


def _spoil_capacity(found: Audited) -> None:
    found.state.inventory.capacity[found.state.inventory.resources["memory"], 3] *= 2


def _spoil_held(found: Audited) -> None:
    del found.state.inventory.held["svc"]


def _spoil_amounts(found: Audited) -> None:
    found.state.inventory.hold("svc", "n2", amounts(cpu=5))


def _spoil_place(found: Audited) -> None:
    found.state.inventory.hold("svc", "n3", amounts(cpu=2))


def _spoil_group(found: Audited) -> None:
    found.state.group_of["svc"] = "nobody"


SPOILT: list[tuple[Callable[[Audited], None], dict[str, bool]]] = [
    (_drop_pod, {"pod-missing": True}),
    (_drop_and_keep_its_place, {"pod-missing": True, "columns": True}),
    (_spoil_pod, {"pod-other": True}),
    (_bury_pod, {"pod-missing": True}),
    (_drop_node, {"node-missing": True}),
    (_spoil_node, {"node-taints": True}),
    (_spoil_owner, {"owner-other": True}),
    (_spoil_free, {"columns": True}),
    (_spoil_capacity, {"columns": True}),
    (_spoil_held, {"columns": True}),
    (_spoil_amounts, {"columns": True}),
    (_spoil_place, {"columns": True}),
    (_spoil_group, {"invariant": False}),
]
"""What is done to the live state, what is named, and whether a repair helps."""


@pytest.mark.parametrize(("spoil", "expected"), SPOILT)
async def test_D5_a_corrupted_state_is_named_and_repaired(
    spoil: Callable[[Audited], None], expected: dict[str, bool]
):
    found = yard()
    right = (await found.audit()).digest_rebuilt
    found.world.now += 5
    found.learn([ev.Tick(found.world.now)])
    spoil(found)
    report = await found.audit()
    assert {each.kind: each.repaired for each in report.differences} == expected
    after = await found.audit()
    assert (after.result == "clean") == all(expected.values())
    assert after.digest_rebuilt == after.digest_incremental == right


async def test_an_audit_whose_list_is_older_than_what_is_remembered_of_the_gone_is_given_up():
    found = yard()

    def slowly() -> list[Listing]:
        old = listings(found.world)
        found.world.pod_gone("svc")
        found.world.run(LIFE)
        return old

    found.lists = slowly
    report = await found.audit()
    assert report.result == "failed" and "list is 180 s old" in report.error
    assert "svc" not in found.state.pods


async def test_a_repair_frees_what_was_held_too_long_and_whoever_waited_starts():
    found = yard()
    world = found.world
    for uid in ("svc", "training-0", "training-1"):
        silently(world, lambda uid=uid: world.pod_gone(uid))
    world.run(1000)
    assert not world.pods["wide-0"].node
    report = await found.audit()
    assert {each.kind for each in report.differences} == {"pod-surplus"}
    world.run(5000)
    assert {world.pods[f"wide-{i}"].node for i in range(3)} == {"n0", "n1", "n2"}


async def test_things_are_audited_too():
    found = yard()
    mine = Namespace("team-a", {"tier": "gold"})
    other = Namespace("team-b")
    listed = [
        Listing("Namespace", 50, (ev.ThingSeen("u1", 40, mine), ev.ThingSeen("u2", 41, other)), ("u4",)),
    ]
    found.lists = lambda: [*listings(found.world), *listed]
    found.learn([ev.ThingSeen("u1", 30, Namespace("team-a")), ev.ThingSeen("u3", 44, Namespace("team-c"))])
    found.learn([ev.ThingSeen("u4", 31, Namespace("cannot-be-read"))])
    report = await found.audit()
    kinds = sorted((each.kind, each.name, each.repaired) for each in report.differences)
    assert kinds == [
        ("object-missing", "team-b", True),
        ("object-older", "team-a", True),
        ("object-surplus", "team-c", True),
    ]
    assert found.state.surroundings.namespaces["team-a"] == {"tier": "gold"}
    assert "cannot-be-read" in found.state.surroundings.namespaces
    found.learn([ev.ThingSeen("u2", 41, other)])
    spoilt = found.state.surroundings._seen["Namespace"]  # pyright: ignore
    spoilt["", "team-b"] = Namespace("team-b", {"never": "seen"})
    report = await found.audit()
    assert [(each.kind, each.repaired) for each in report.differences] == [("object-other", True)]


# -- bursts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(LOST))
async def test_I2_what_the_watch_tells_within_the_grace_is_no_difference(kind: str):
    found = yard(grace=30.0)
    late: list[Event] = []
    found.world._tell_watch = late.append  # pyright: ignore
    LOST[kind](found.world)
    asyncio.get_running_loop().call_later(0.05, found.learn, late)
    report = await found.audit()
    assert (report.result, report.differences) == ("clean", ())


@pytest.mark.parametrize("kind", list(LOST))
async def test_I2_what_changed_after_the_list_is_no_difference(kind: str):
    found = yard(grace=30.0)
    old = listings(found.world)

    def then() -> list[Listing]:
        late: list[Event] = []
        found.world._tell_watch = late.append  # pyright: ignore
        found.world.now += 5
        LOST[kind](found.world)
        found.learn([ev.Tick(found.world.now), *late])
        return old

    found.lists = then
    report = await found.audit()
    assert (report.result, report.differences, report.moved) == ("clean", (), 1)
    assert report.digest_incremental == report.digest_rebuilt


async def test_a_repair_never_undoes_later_news():
    found = yard()
    world = found.world
    lists = listings(world)
    state = found.state
    for kind in ("pod-surplus", "pod-older", "node-readiness", "owner-surplus"):
        LOST[kind](world)
        world.run(10)
    items = tuple(item for listing in lists for item in listing.items)
    gone = (ev.PodGone("training-0", 1), ev.NodeGone(world.nodes["n3"].uid, 1), ev.OwnerGone("job-1", 1))
    found.learn([ev.Repaired(START, (*gone, *items), recount=True)])
    assert differences(state, listings(world)) == []


async def test_pods_that_were_set_aside_are_as_they_are_kept():
    found = yard()
    state = found.state
    state.pods["svc"] = structs.replace(state.pods["svc"], scheduler="", labels={})
    assert look(state, listings(found.world))[0].found
    state.poisoned["svc"] = Poison("Pod", "other/svc", "KeyError", START, 1)
    assert (await found.audit()).result == "clean"


# -- failures ----------------------------------------------------------------------------------------


async def test_an_audit_that_cannot_be_made_says_why_and_the_next_one_is():
    found = yard()

    def away() -> list[Listing]:
        raise ConnectionError("no answer from the API server")

    lists, found.lists = found.lists, away
    report = await found.audit()
    assert (report.result, report.error) == ("failed", "no answer from the API server")
    assert found.counted("fairlead_audits_total", result="failed") == 1
    found.lists = lists
    assert (await found.audit()).result == "clean"


async def test_nothing_is_said_of_a_state_that_is_not_in_sync():
    found = yard()
    found.state.missing["store"] = None
    assert (await found.audit()).result == "clean"  # a standby
    found.state.missing["pods"] = None
    report = await found.audit()
    assert report.result == "failed"
    assert "not in yet" in report.error


async def test_audits_come_by_themselves():
    found = yard()
    found.auditor._interval, found.auditor._first = 0.01, 0.0  # pyright: ignore
    running = asyncio.create_task(found.auditor.run(found))
    try:
        async with asyncio.timeout(60):
            while found.counted("fairlead_audits_total", result="clean") < 3:
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
    assert found.counted("fairlead_audit_duration_seconds_count") >= 3


async def test_others_have_their_turn_while_an_audit_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slices, "SLICE", 0.0)
    found = yard()
    for i in range(2000):
        found.world.pod(Pod(f"x{i}", "other", f"x{i}", 0, Shape(amounts()), node=f"n{i % 4}"))
    found.world.check_always = False
    found.world.run(10)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await asyncio.sleep(0)
    before = turns
    report = await found.audit()
    running.cancel()
    assert report.result == "clean"
    assert turns - before > 30


async def test_a_recording_with_a_repair_replays_to_the_bit(tmp_path: Path):
    found = yard()
    world = found.world
    gang(world, "likewise", 1, cpu=8)
    for uid in ("svc", "training-0", "training-1"):
        silently(world, lambda uid=uid: world.pod_gone(uid))
    silently(world, lambda: gang(world, "unheard-of", 1, cpu=8))  # met in the repair alone
    report = await found.audit()
    assert {each.kind for each in report.differences} == {"pod-surplus", "pod-missing"}
    world.run(5000)
    assert world.pods["unheard-of-0"].node or world.pods["likewise-0"].node
    recorder = Recorder(tmp_path / "run.jsonl", world.settings)
    for batch in world.batches:
        recorder.batch(batch)
    recorder.close()
    assert any(isinstance(event, ev.Repaired) for batch in world.batches for event in batch)
    outcome = replay_file(tmp_path / "run.jsonl")
    assert outcome.plans > 2
    assert outcome.differences == []


def test_a_repair_has_a_form_for_the_ledger():
    found = yard()
    items = (*listings(found.world)[0].items, ev.NodeGone("uid-n0", 7))
    event = ev.Repaired(5, items, recount=True)
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


async def test_words_say_in_what_an_older_object_differs():
    found = yard()
    silently(found.world, lambda: LOST["pod-older"](found.world))
    silently(found.world, lambda: LOST["owner-older"](found.world))
    texts = {each.kind: each.text for each in (await found.audit()).differences}
    assert texts["pod-older"].endswith(" with other labels")
    assert texts["owner-older"].endswith(" with other suspended")
