"""The audit looks at what external schedulers are about, too: what the watch lost is named and put right."""

from collections.abc import Callable

import pytest
from msgspec import structs

from auditing import Audited, listings
from esi_yard import LABEL, bed, comes, invariants, queue, settled, spark, state_of, yard
from fairlead.core.esi.table import Esi
from fairlead.core.tombstones import bury
from fairlead.model import esi as nouns
from fairlead.model import event as ev
from fairlead.model.application import tag_of
from fairlead.model.audit import Listing
from fairlead.sim.esi_world import SURROUNDINGS, EsiWorld


def lists(world: EsiWorld) -> list[Listing]:
    """What the API server would list at this instant, kinds of external schedulers included."""
    told = world.listing(SURROUNDINGS)
    seen = [event for event in told if isinstance(event, ev.EsiSeen)]
    ends = [event for event in told if isinstance(event, ev.Listed)]
    return [
        *listings(world),
        *(
            Listing(end.kind, end.version, tuple(each for each in seen if tag_of(each.thing) == end.kind))
            for end in ends
        ),
    ]


def audited(**options: float) -> Audited:
    """A Testbed of four slots; j1 runs on two of them for a Scheduling, the others wait for nobody."""
    world = yard(j1=600)
    queue(world, "s", "j1 j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.run(1_000)
    found = Audited(world, **options)
    found.lists = lambda: lists(world)
    return found


def silently(world: EsiWorld, change: Callable[[EsiWorld], None]) -> None:
    """Do something to the cluster of which the watch never tells."""
    tell, world._tell_watch = world._tell_watch, lambda _: None  # pyright: ignore
    try:
        change(world)
    finally:
        world._tell_watch = tell  # pyright: ignore


async def test_D5_external_schedulers_objects_are_part_of_the_picture():
    found = audited()
    report = await found.audit()
    assert (report.result, report.differences) == ("clean", ())
    assert report.digest_incremental == report.digest_rebuilt
    silently(found.world, lambda w: w.put(spark("new")))
    assert (await found.audit(repair=False)).digest_rebuilt != report.digest_rebuilt


LOST: dict[str, tuple[Callable[[EsiWorld], None], str]] = {
    "esi-missing": (lambda w: w.put(spark("new")), "BatchJob default/new: Fairlead has nothing"),
    "esi-surplus": (lambda w: w.delete("BatchJob", "j3"), "the cluster nothing"),
    "esi-spec": (lambda w: w.put(bed(slots=1)), "with other slotsPerNode"),
    "esi-state": (
        lambda w: w.edit("BatchJob", "j2", {"status": {"state": "CompletedState"}}, sub="status"),
        "BatchJob default/j2: Fairlead has ReadyState, version ",
    ),
    "esi-older": (
        lambda w: w.edit("BatchJob", "j2", {"metadata": {"annotations": {"fairlead.dev/reset": "1"}}}),
        "with other annotations",
    ),
}
"""What the watch fails to tell, by the kind of difference, and a piece of its words."""


@pytest.mark.parametrize("kind", list(LOST))
async def test_D1_D5_a_lost_event_of_theirs_is_named_and_repaired(kind: str):
    found = audited()
    change, words = LOST[kind]
    silently(found.world, change)
    before = await found.audit(repair=False)
    assert [(each.kind, each.repaired) for each in before.differences] == [(kind, False)]
    report = await found.audit()
    assert [(each.kind, each.repaired) for each in report.differences] == [(kind, True)]
    assert words in report.differences[0].text
    assert report.digest_incremental != report.digest_rebuilt
    found.world.run(30_000)
    after = await found.audit()
    assert (after.result, after.digest_incremental) == ("clean", after.digest_rebuilt)
    invariants(found.world)
    settled(found.world)


async def test_what_was_lost_has_its_consequences_once_it_is_repaired():
    """A Scheduling that nobody told of runs, and a node of which nobody told brings its slots."""
    found = audited()
    world = found.world
    silently(world, lambda w: queue(w, "unheard", "j2"))
    silently(world, lambda w: w.node("n2", {LABEL: "2"}))
    world.run(60_000)
    assert state_of(world, "Scheduling", "unheard") == "InitialState"
    report = await found.audit()
    assert sorted(each.kind for each in report.differences) == ["esi-missing", "node-missing"]
    comes(world, "Scheduling", "unheard", "CompletedState")
    assert len(world.testbed("tb").slots) == 6
    assert world.job("j1").state == "RunningState"


def _spec(esi: Esi) -> None:
    """As if the Testbed had been read wrong once: then its slots are laid out by that."""
    (bed,) = esi.testbeds.values()
    wrong = nouns.TestbedSpec(LABEL, 1, {"cpu": "1", "memory": "1Gi"})
    esi.testbeds[bed.uid] = structs.replace(bed, spec=wrong)
    esi.stale[bed.uid] = None


def _status(esi: Esi) -> None:
    (scheduling,) = esi.schedulings.values()
    status = structs.replace(scheduling.status, state="FailedState", reason="never so")
    esi.schedulings[scheduling.uid] = structs.replace(scheduling, status=status)


def _application(esi: Esi) -> None:
    (app,) = esi.apps.values()
    esi.apps[app.uid] = structs.replace(app, text="never said")


SPOILT: list[tuple[Callable[[Esi], None], str]] = [
    (_spec, "esi-spec"),
    (_status, "esi-state"),
    (_application, "esi-other"),
]


@pytest.mark.parametrize(("spoil", "kind"), SPOILT)
async def test_D5_what_is_wrong_in_memory_is_named_and_repaired(spoil: Callable[[Esi], None], kind: str):
    found = audited()
    assert (await found.audit()).result == "clean"
    spoil(found.state.esi)
    found.learn([ev.Tick(found.world.now)])
    report = await found.audit()
    assert [(each.kind, each.repaired) for each in report.differences] == [(kind, True)]
    found.world.run(30_000)
    after = await found.audit()
    assert (after.result, len(found.world.testbed("tb").slots)) == ("clean", 4)
    assert after.digest_rebuilt == after.digest_incremental
    assert state_of(found.world, "BatchJob", "j1") == "RunningState"


async def test_one_that_was_taken_for_gone_comes_back():
    found = audited()
    world, esi = found.world, found.state.esi
    uid = world.uid("BatchJob", "j2")
    world.now += 5
    found.learn([ev.Tick(world.now), ev.EsiGone(uid, 1)])
    assert uid not in esi.jobs
    world.run(1_000)
    report = await found.audit()
    assert [(each.kind, each.repaired) for each in report.differences] == [("esi-missing", True)]
    assert uid in esi.jobs


async def test_news_that_came_after_the_list_is_no_difference_and_stays():
    found = audited(grace=5.0)
    world = found.world
    old, asked = lists(world), found.state.now

    def then() -> list[Listing]:
        world.run(5)
        world.put(bed(slots=3))
        world.delete("BatchJob", "j3")
        world.put(spark("new"))
        world.run(100)
        return old

    found.lists = then
    report = await found.audit()
    assert (report.result, report.differences) == ("clean", ())
    assert report.moved >= 3
    items = tuple(item for listing in old for item in listing.items)
    found.learn([ev.Repaired(asked, items, recount=True)])
    found.lists = lambda: lists(world)
    world.run(10_000)
    assert (await found.audit()).result == "clean"
    assert len(world.testbed("tb").slots) == 6
    assert found.state.esi.find("BatchJob", world.thing("BatchJob", "new").ref)


async def test_a_repair_that_is_told_twice_changes_nothing():
    found = audited()
    world = found.world
    uid = world.uid("BatchJob", "j3")
    bury(found.state, uid)
    before = found.state.esi.things()
    items = tuple(item for listing in lists(world) for item in listing.items)
    for _ in range(2):
        found.learn([ev.Repaired(found.state.now, items, recount=False)])
    assert found.state.esi.things() == before
    assert uid not in found.state.tombstones
