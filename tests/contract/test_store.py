"""One suite for every store: what the engine may rely on, whichever stands behind the port."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_support import (
    fresh_database,
    grants,
    group,
    record,
    rows,
    running,
)

from fairlead.model.command import RecordAllocations, SaveGroups, SettleGrants
from fairlead.model.event import (
    AllocationsRecorded,
    AllocationsRefused,
    GrantRestored,
    GroupRestored,
    ReservationRestored,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.plan import Grant, Placement, Reserve
from fairlead.store import reader
from fairlead.store.batch import CHUNK
from fairlead.store.memory import Disk, MemoryStore
from fairlead.store.postgres import PostgresStore

NOW = 1_700_000_100_000
Make = Callable[[], Any]


@pytest.fixture(params=["memory", "embedded", "real"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes stores that follow each other on the same data, as processes do."""
    if request.param == "memory":
        disk = Disk()
        yield lambda: MemoryStore(disk, now=lambda: NOW)
        return
    with fresh_database(request.getfixturevalue(f"{request.param}_url")) as url:
        yield lambda: PostgresStore(url=url, now=lambda: NOW, flush_every=5)


@pytest.fixture(params=["embedded", "real"])
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    with fresh_database(request.getfixturevalue(f"{request.param}_url")) as url:
        yield url


async def test_an_empty_store_is_ready_and_synced(make: Make) -> None:
    async with running(make()) as inbox:
        assert inbox.all == [StoreReady(1), Synced("store")]


async def test_every_life_has_a_higher_epoch(make: Make) -> None:
    for epoch in (1, 2, 3):
        async with running(make()) as inbox:
            assert inbox.of(StoreReady) == [StoreReady(epoch)]


async def test_a_recorded_plan_is_there_after_a_restart_in_order_of_arrival(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        store.perform([SaveGroups((group(9),)), record("p1", store.epoch, [3, 1, 2])])
        assert await inbox.first(AllocationsRecorded) == AllocationsRecorded("p1")
    async with running(make()) as inbox:
        restored = [event.record for event in inbox.of(GroupRestored)]
        assert restored == [group(number, phase=Phase.STARTING) for number in (1, 2, 3)] + [group(9)]
        found = inbox.of(GrantRestored)
        assert [event.grant for event in found] == list(grants("p1", 1, [1, 2, 3]))
        assert {event.not_before for event in found} == {NOW + 10_000}
        kinds = [type(event) for event in inbox.all]
        assert kinds == [GroupRestored] * 4 + [GrantRestored] * 3 + [StoreReady, Synced]


async def test_B7_settled_grants_do_not_come_back(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        plan = record("p1", store.epoch, [1, 2])
        store.perform([plan])
        await inbox.first(AllocationsRecorded)
        store.perform([SettleGrants((plan.grants[0].id,))])
    async with running(make()) as inbox:
        assert [event.grant for event in inbox.of(GrantRestored)] == [plan.grants[1]]


async def test_a_plan_performed_twice_is_recorded_once(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        plan = record("p1", store.epoch, [1])
        store.perform([plan])
        await inbox.first(AllocationsRecorded)
        store.perform([SettleGrants((plan.grants[0].id,))])
        store.perform([plan])
        assert await inbox.first(AllocationsRecorded, 2) == AllocationsRecorded("p1")
    async with running(make()) as inbox:
        assert inbox.of(GrantRestored) == []


async def test_a_plan_of_another_epoch_is_refused(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        store.perform([record("old", store.epoch - 1, [1])])
        store.perform([record("new", store.epoch, [2])])
        await inbox.first(AllocationsRecorded)
        assert [event.plan for event in inbox.of(AllocationsRefused)] == ["old"]
        assert inbox.of(AllocationsRecorded) == [AllocationsRecorded("new")]
    async with running(make()) as inbox:
        assert [event.grant.plan for event in inbox.of(GrantRestored)] == ["new"]


async def test_a_newer_epoch_fences_for_good(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        store.perform([record("p1", store.epoch, [1])])
        await inbox.first(AllocationsRecorded)
        take_over(store)
        store.perform([record("p2", store.epoch, [2])])
        assert (await inbox.first(AllocationsRefused)).plan == "p2"
        assert inbox.of(StoreLost) == [StoreLost("fenced by epoch 2")]
        store.perform([record("p3", store.epoch, [3]), SaveGroups((group(1, seen=99),))])
        assert (await inbox.first(AllocationsRefused, 2)).plan == "p3"
        assert inbox.of(AllocationsRecorded) == [AllocationsRecorded("p1")]
    async with running(make()) as inbox:
        assert [event.grant.plan for event in inbox.of(GrantRestored)] == ["p1"]
        assert [event.record.seen for event in inbox.of(GroupRestored)] == [0]


def take_over(store: Any) -> None:
    """Another scheduler has become leader behind the store's back."""
    if isinstance(store, MemoryStore):
        store.disk.epoch += 1
        return
    with psycopg.connect(store.url) as conn:
        conn.execute("UPDATE fairlead.leader SET epoch = epoch + 1")


async def test_F6_saved_groups_are_whole_and_the_latest_wins(make: Make) -> None:
    full = GroupRecord(
        "job:4711#2", "job:4711", 2, "ns", "job", 7, 1_700_000_000_123, "Job", 4, 3, -5, "long", 3_600_000,
        1_700_000_500_000, Phase.RUNNING, Outcome.NONE, Reason(Why.RESOURCES, "needs 4"), "broken: 'x'",
        ("n1", "n2"), 1, 2, 3, 4, 0, 1_700_000_400_000, 1_700_000_450_000,
    )  # fmt: skip
    store = make()
    async with running(store):
        store.perform([SaveGroups((group(1, seen=seen),)) for seen in range(50)])
        store.perform([SaveGroups((full,)), SaveGroups((group(2, nodes=()), group(1, seen=51)))])
    async with running(make()) as inbox:
        assert [event.record for event in inbox.of(GroupRestored)] == [group(1, seen=51), group(2), full]


async def test_of_ended_groups_only_the_newest_incarnation_of_a_label_comes_back(make: Make) -> None:
    label = [
        group(1, id=f"label:ns/g1#{n}", incarnation=n, seq=n + 1, phase=Phase.ENDED, ended_at=NOW)
        for n in (0, 2, 10)
    ]
    pod = group(20, id="pod:u#0", key="pod:u", phase=Phase.ENDED, ended_at=NOW, outcome=Outcome.COMPLETED)
    job = group(21, id="job:u#0", key="job:u", phase=Phase.RUNNING)
    store = make()
    async with running(store):
        store.perform([SaveGroups((*label, pod, job))])
    async with running(make()) as inbox:
        assert [event.record for event in inbox.of(GroupRestored)] == [label[2], job]


async def test_a_rejected_group_comes_back_to_be_looked_at_again(make: Make) -> None:
    rejected = group(5, phase=Phase.ENDED, ended_at=NOW, outcome=Outcome.REJECTED)
    store = make()
    async with running(store):
        store.perform([SaveGroups((rejected,))])
    async with running(make()) as inbox:
        assert [event.record for event in inbox.of(GroupRestored)] == [rejected]


def promise(number: int, start: int = NOW + 60_000, nodes: tuple[str, ...] = ("n1", "n2")) -> Reserve:
    return Reserve(group(number).id, start, nodes, Reason(Why.RESOURCES, f"needs {number} more"))


async def test_B10_promises_come_back_after_the_grants_and_before_the_end(make: Make) -> None:
    store = make()
    waiting = (group(7, promised=NOW + 50_000), group(8, phase=Phase.HELD))
    late, early = promise(7, NOW + 60_000), promise(8, NOW + 30_000, ())
    async with running(store) as inbox:
        store.perform([SaveGroups(waiting), record("p1", store.epoch, [1], 2, late, early)])
        await inbox.first(AllocationsRecorded)
    async with running(make()) as inbox:
        kinds = [type(event) for event in inbox.all]
        assert kinds == [GroupRestored] * 3 + [GrantRestored] + [ReservationRestored] * 2 + [
            StoreReady,
            Synced,
        ]
        assert [event.reserve for event in inbox.of(ReservationRestored)] == [early, late]


async def test_F11_B10_the_store_holds_the_promises_of_the_last_plan_and_no_others(make: Make) -> None:
    plans = [
        (promise(5), promise(6), promise(7)),
        (promise(6, NOW + 90_000, ("n3",)), promise(7)),
        (promise(7), promise(8)),
        (),
        (promise(8, NOW + 5_000),),
    ]
    store = make()
    async with running(store) as inbox:
        store.perform([SaveGroups(tuple(group(number) for number in range(5, 9)))])
        for number, promised in enumerate(plans, 1):
            store.perform([RecordAllocations(f"p{number}", store.epoch, NOW, (), promised)])
            await inbox.first(AllocationsRecorded, number)
            assert await stored(store) == set(promised)
    async with running(make()) as inbox:
        assert [event.reserve for event in inbox.of(ReservationRestored)] == list(plans[-1])


async def stored(store: Any) -> set[Reserve]:
    """The promises as somebody else reads them."""
    if isinstance(store, MemoryStore):
        return set(store.disk.reservations)
    async with store.reading() as conn:
        return set((await reader.reservations(conn)).values())


async def test_F11_B10_a_promise_whose_group_waits_no_more_is_dropped_at_the_start(make: Make) -> None:
    """The process died after the group had started, ended or gone and before the next plan."""
    store = make()
    gone = {
        1: group(1, phase=Phase.STARTING),
        2: group(2, phase=Phase.RUNNING),
        3: group(3, phase=Phase.ENDED, ended_at=NOW, outcome=Outcome.CANCELLED),
        4: group(4, phase=Phase.ENDED, ended_at=NOW, outcome=Outcome.REJECTED),
    }
    promised = tuple(promise(number) for number in range(1, 7))  # of the sixth there is no record at all
    async with running(store) as inbox:
        store.perform([SaveGroups((group(5),)), RecordAllocations("p1", store.epoch, NOW, (), promised)])
        await inbox.first(AllocationsRecorded)
        store.perform([SaveGroups(tuple(gone.values()))])
    store = make()
    async with running(store) as inbox:
        assert [event.reserve for event in inbox.of(ReservationRestored)] == [promise(5)]
        assert await stored(store) == {promise(5)}


async def test_records_of_a_plan_are_written_with_it_and_later_ones_after(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        plan = record("p1", store.epoch, [1])
        store.perform([SaveGroups((group(1),)), plan, SaveGroups((group(1, phase=Phase.RUNNING),))])
        await inbox.first(AllocationsRecorded)
    async with running(make()) as inbox:
        assert [event.record.phase for event in inbox.of(GroupRestored)] == [Phase.RUNNING]


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
) | st.sampled_from(
    ["'", '"; DROP TABLE group_record; --', "\\", "%s %(x)s", "{a,b}", "NULL", "\\u0000", "ä€𝄞", "a\nb\tc"]
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(NAMES, NAMES, NAMES, st.lists(NAMES, max_size=4))
async def test_F23_any_text_comes_back_as_it_was(
    make: Make, name: str, text: str, pod: str, nodes: list[str]
) -> None:
    store = make()
    saved = group(1, id=f"label:{name}#0", key=f"label:{name}", name=name, broken=text, nodes=tuple(nodes))
    async with running(store) as inbox:
        plan = f"p{text}{store.epoch}"
        grant = Grant(
            f"{plan}/{name}", plan, saved.id, store.epoch, 5, tuple(Placement(pod, n) for n in nodes)
        )
        promised = (Reserve(saved.id, 9, tuple(nodes), Reason(Why.QUEUED, text)),)
        store.perform([RecordAllocations(plan, store.epoch, 5, (grant,), promised, (saved,))])
        await inbox.first(AllocationsRecorded)
    async with running(make()) as inbox:
        assert saved in [event.record for event in inbox.of(GroupRestored)]
        assert grant in [event.grant for event in inbox.of(GrantRestored)]
        assert promised[0] in [event.reserve for event in inbox.of(ReservationRestored)]


async def test_F23_text_that_no_database_can_hold_does_not_stop_the_store(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        store.perform([SaveGroups((group(1, broken="a\0b\ud800c"),)), record("p1", store.epoch, [2])])
        await inbox.first(AllocationsRecorded)
        assert inbox.of(StoreLost) == []


async def test_F23_absurd_numbers_stop_neither_the_store_nor_its_views(make: Make) -> None:
    store = make()
    async with running(store) as inbox:
        absurd = group(1, size=10**30, duration=2**63, begin=10**17, priority=-(10**20), started_at=NOW)
        store.perform([SaveGroups((absurd,)), record("p1", store.epoch, [2])])
        await inbox.first(AllocationsRecorded)
        assert inbox.of(StoreLost) == []
        if isinstance(store, PostgresStore):
            for view in (
                "groups",
                "queue",
                "allocations",
                "reservations",
                "pods_provisional",
                "pending_queue",
            ):
                rows(store, f"SELECT * FROM (SELECT * FROM {view}) v, pg_sleep(0)")


# -- only where there is a database --------------------------------------------------------------------


async def test_F4_statements_per_batch_do_not_depend_on_its_size(database: str) -> None:
    store = PostgresStore(url=database)
    async with running(store) as inbox:
        store.perform([record("first", store.epoch, [1])])  # also clears what an earlier life had promised
        await inbox.first(AllocationsRecorded)
        counts: list[tuple[int, int]] = []
        for plan, (groups, pods) in enumerate([(1, 10), (100, 10), (1000, 1), (1, 1000)], 2):
            before = store.statements, store.transactions
            store.perform([record(f"p{plan}", store.epoch, range(1, groups + 1), pods)])
            await inbox.first(AllocationsRecorded, plan)
            counts.append((store.statements - before[0], store.transactions - before[1]))
        assert counts == [(5, 1)] * 4  # BEGIN, fence, plan with grants, groups, COMMIT


async def test_F4_a_burst_of_saves_is_a_handful_of_transactions(database: str) -> None:
    store = PostgresStore(url=database, flush_every=50)
    async with running(store) as inbox:
        store.perform([SaveGroups((group(n, seen=seen),)) for seen in range(20) for n in range(CHUNK * 2)])
        await inbox.wait(lambda: store.transactions == 2)
        assert rows(store, "SELECT count(*), min(seen) FROM group_record") == [(CHUNK * 2, 19)]
    assert (store.transactions, store.statements) == (2, 8)


async def test_F4_unchanged_reservations_are_not_written_again(database: str) -> None:
    store = PostgresStore(url=database)
    promise = Reserve(group(9).id, 1_700_000_900_000, ("n1", "n2"), Reason(Why.RESOURCES, "needs more"))
    async with running(store) as inbox:
        store.perform([SaveGroups((group(9),)), record("p1", store.epoch, [1], 2, promise)])
        await inbox.first(AllocationsRecorded)
        assert rows(store, "SELECT group_id, nodes, why FROM reservations") == [
            (group(9).id, ["n1", "n2"], "Unschedulable")
        ]
        before = store.statements
        store.perform([record("p2", store.epoch, [2], 2, promise)])
        await inbox.first(AllocationsRecorded, 2)
        assert store.statements - before == 5
        store.perform([record("p3", store.epoch, [3])])
        await inbox.first(AllocationsRecorded, 3)
        assert rows(store, "SELECT count(*) FROM reservations") == [(0,)]


async def test_B10_the_views_tell_what_is_queued_placed_and_promised(database: str) -> None:
    store = PostgresStore(url=database)
    async with running(store) as inbox:
        held = group(5, phase=Phase.HELD, size=4, seen=3, duration=90_000)
        waiting = (group(6, priority=1), group(7, priority=9), group(8, priority=1))
        store.perform([SaveGroups((held, *waiting)), record("p1", store.epoch, [1])])
        await inbox.first(AllocationsRecorded)
        order = "SELECT position, name FROM queue ORDER BY position"
        assert rows(store, order) == [(1, "g7"), (2, "g6"), (3, "g8"), (None, "g5")]
        promised = RecordAllocations("p2", store.epoch, NOW, (), (promise(7, NOW),))
        store.perform([promised])
        await inbox.first(AllocationsRecorded, 2)
        estimates = "SELECT name, extract(epoch FROM estimate)::bigint FROM queue WHERE estimate IS NOT NULL"
        assert rows(store, estimates) == [("g7", NOW // 1000)]
        assert rows(store, "SELECT name, pod, node, phase FROM allocations ORDER BY pod") == [
            ("g1", "uid-p1-1-0", "node-0", "starting"),
            ("g1", "uid-p1-1-1", "node-1", "starting"),
        ]
        assert rows(store, "SELECT group_name, namespace, name, duration, podspec FROM pods_provisional") == [
            ("g5", "ns", "g5", 90, None)
        ]
        sizes = "SELECT group_name, group_size, current_size FROM groups_provisional"
        assert rows(store, sizes) == [("g5", 4, 3)]
        pending = "SELECT group_name, flux_id FROM pending_queue ORDER BY group_name"
        assert rows(store, pending) == [("g1", 1), ("g6", None), ("g7", None), ("g8", None)]
        store.perform([SaveGroups((group(1, phase=Phase.ENDED, ended_at=NOW),))])
        await inbox.wait(lambda: rows(store, "SELECT 1 FROM groups WHERE name = 'g1' AND phase = 'ended'"))
        assert rows(store, "SELECT count(*) FROM pending_queue WHERE group_name = 'g1'") == [(0,)]


async def test_B10_promises_that_cannot_be_read_are_not_taken_for_none(database: str) -> None:
    """Nothing is planned as if nobody had been promised anything: the store says what is wrong, and waits."""
    rename = b"ALTER TABLE fairlead.reservation_record RENAME COLUMN %b TO %b"
    first, second = PostgresStore(url=database), PostgresStore(url=database)
    async with running(first) as inbox:
        first.perform([SaveGroups((group(7),)), record("p1", first.epoch, [1], 2, promise(7))])
        await inbox.first(AllocationsRecorded)
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(rename % (b"nodes", b"spots"))
        async with running(second, wait=False) as inbox:
            assert "nodes" in (await inbox.first(StoreLost)).error
            assert not inbox.of(StoreReady) + inbox.of(Synced) + inbox.of(GroupRestored)
            conn.execute(rename % (b"spots", b"nodes"))
            await inbox.first(Synced)
            assert [event.reserve for event in inbox.of(ReservationRestored)] == [promise(7)]


async def test_the_error_of_a_forecast_is_a_column_of_the_groups(database: str) -> None:
    store = PostgresStore(url=database)
    started = group(1, phase=Phase.RUNNING, granted_at=NOW, promised=NOW + 3_000, promised_last=NOW - 1_500)
    async with running(store):
        store.perform([SaveGroups((started, group(2, promised=NOW), group(3, granted_at=NOW)))])
        await store.close()
    late = "extract(epoch FROM late)::float, extract(epoch FROM late_last)::float"
    with psycopg.connect(database, options="-csearch_path=fairlead") as conn:
        found = conn.execute(f"SELECT name, {late} FROM groups ORDER BY name".encode()).fetchall()
    assert found == [("g1", -3.0, 1.5), ("g2", None, None), ("g3", None, None)]


async def test_D7_the_stages_of_a_start_are_columns_and_come_back(database: str) -> None:
    first, second = PostgresStore(url=database), PostgresStore(url=database)
    started = group(1, phase=Phase.RUNNING, planned_at=NOW + 1, granted_at=NOW + 2, recorded_at=NOW + 3)
    async with running(first):
        first.perform([SaveGroups((started, group(2)))])
        await first.close()
    ask = "SELECT name, planned_at, recorded_at FROM groups ORDER BY name"
    with psycopg.connect(database, options="-csearch_path=fairlead -ctimezone=UTC") as conn:
        (_, planned, recorded), waiting = conn.execute(ask.encode()).fetchall()
    assert [round(at.timestamp() * 1000) for at in (planned, recorded)] == [NOW + 1, NOW + 3]
    assert waiting == ("g2", None, None)
    async with running(second) as inbox:
        assert [event.record for event in inbox.of(GroupRestored)] == [started, group(2)]


async def test_every_view_and_table_is_documented(database: str) -> None:
    store = PostgresStore(url=database)
    async with running(store):
        bare = """SELECT relname FROM pg_class WHERE relnamespace = 'fairlead'::regnamespace
                  AND relkind IN ('r', 'v') AND relname <> 'schema_version'
                  AND obj_description(oid, 'pg_class') IS NULL"""
        assert rows(store, bare) == []


async def test_F15_the_reader_sees_what_was_saved_and_no_pod_specs(database: str) -> None:
    store = PostgresStore(url=database, now=lambda: NOW)
    async with running(store) as inbox:
        ended = group(2, phase=Phase.ENDED, ended_at=NOW, outcome=Outcome.FAILED)
        other = group(3, id="label:b/g3#0", key="label:b/g3", namespace="b", name="g1")
        store.perform([SaveGroups((ended, other)), record("p1", store.epoch, [1])])
        await inbox.first(AllocationsRecorded)
        async with reader.open_reader(url=database) as conn:
            assert [r.id for r in await reader.groups(conn)] == [group(1).id, other.id]
            assert [r.id for r in await reader.groups(conn, ended=True)][-1] == ended.id
            assert len(await reader.groups(conn, ended=True, limit=2)) == 2
            assert {r.id for r in await reader.find(conn, "g1")} == {group(1).id, other.id}
            assert await reader.find(conn, "b/g1") == await reader.find(conn, other.id) == [other]
            assert await reader.find(conn, "nobody's") == []
            assert await reader.as_of(conn) > 0
            assert len(await reader.allocations(conn, group(1).id)) == 2
        async with store.reading() as conn:
            assert len(await reader.groups(conn)) == 2
        columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'fairlead'"
        tables = columns + " AND table_name LIKE '%%_record'"
        assert not {name for (name,) in rows(store, tables)} & {"spec", "podspec", "pod_spec"}


async def test_B7_ended_groups_and_their_grants_are_forgotten_after_retention(database: str) -> None:
    first = PostgresStore(url=database, now=lambda: NOW)
    old = group(1, phase=Phase.ENDED, ended_at=NOW)
    late = group(2, phase=Phase.ENDED, ended_at=NOW + 5000)
    async with running(first) as inbox:
        plan = record("p1", first.epoch, [1, 3])
        first.perform([plan])
        await inbox.first(AllocationsRecorded)
        first.perform([SettleGrants((plan.grants[0].id,)), SaveGroups((old, late))])
    second = PostgresStore(url=database, now=lambda: NOW + 3000, retention=1000)
    async with running(second) as inbox:
        second.perform([record("p2", second.epoch, [4])])
        await inbox.first(AllocationsRecorded)
        await inbox.wait(
            lambda: rows(second, "SELECT count(*) FROM group_record WHERE name = 'g1'") == [(0,)]
        )
        names = "SELECT name FROM group_record ORDER BY name"
        assert rows(second, names) == [("g2",), ("g3",), ("g4",)]
        assert rows(second, "SELECT count(*) FROM grant_record WHERE state = 'open'") == [(2,)]
        # p1 is kept whole while one of its groups lives
        assert rows(second, "SELECT count(*) FROM plan_record") == [(2,)]


async def test_a_second_scheduler_on_the_database_waits_and_says_why(database: str) -> None:
    first, second = PostgresStore(url=database), PostgresStore(url=database)
    async with running(first) as leading, running(second, wait=False) as waiting:
        assert "another scheduler writes" in (await waiting.first(StoreLost)).error
        first.perform([record("p1", first.epoch, [1])])
        await leading.first(AllocationsRecorded)
        assert not waiting.of(StoreReady)
        await first.close()
        await waiting.first(Synced)
        assert waiting.of(StoreReady) == [StoreReady(2)]
        assert [event.grant.plan for event in waiting.of(GrantRestored)] == ["p1"]
        assert not leading.of(StoreLost)


async def test_no_tables_yet_is_said_to_a_reader(database: str) -> None:
    with pytest.raises(reader.StoreError, match="no Fairlead tables"):
        async with reader.open_reader(url=database):
            pass


def test_a_folder_without_a_database_is_said_to_a_reader(tmp_path: Path) -> None:
    with pytest.raises(reader.StoreError, match="there is no database"), reader.served(tmp_path):
        pass
