"""The way to the database is cut, delayed and held up: what became of a commit is found out; it counts once.

A proxy of the test's own stands before a real PostgreSQL.
"""

import asyncio

import pytest
from store_support import Events, Proxy, group, record, rows, running, settled, until

from fairlead.model.command import SaveGroups
from fairlead.model.event import AllocationsRecorded, AllocationsRefused, StoreLost, StoreReady
from fairlead.store.postgres import PostgresStore


async def once(inbox: Events, store: PostgresStore, before: int = 2) -> None:
    """p1 is recorded, told once, and its two pods are granted once; nothing was refused."""
    assert await inbox.first(AllocationsRecorded, before + 1) == AllocationsRecorded("p1")
    assert rows(store, "SELECT count(*) FROM plan_record WHERE id = 'p1'") == [(1,)]
    assert rows(store, "SELECT id, cardinality(pods) FROM grant_record WHERE plan = 'p1'") == [
        ("p1/label:ns/g1#0", 2)
    ]
    await inbox.wait(lambda: len(inbox.of(StoreReady)) == len(inbox.of(StoreLost)) + 1)
    assert [event.plan for event in inbox.of(AllocationsRecorded)].count("p1") == 1
    assert not inbox.of(AllocationsRefused)


async def test_a_commit_that_never_arrived_is_sent_again(database: str) -> None:
    """Cut after it was sent, before the server had it: not durable."""
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, direct = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox:
            await settled(inbox, store)
            proxy.deaf = True
            store.perform([record("p1", store.epoch, [1])])
            await until(lambda: proxy.held)
            assert rows(direct, "SELECT 1 FROM plan_record WHERE id = 'p1'") == []
            proxy.held.clear()
            proxy.deaf = False
            proxy.cut()
            await once(inbox, direct)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_a_commit_that_arrives_when_its_sender_has_given_it_up_counts_once(
    database: str, late: bool
) -> None:
    """The server hears of it before, or after, the store has connected again and written it anew."""
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, direct = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox:
            await settled(inbox, store)
            proxy.deaf = True
            store.perform([record("p1", store.epoch, [1])])
            await until(lambda: proxy.held)
            if late:
                held, proxy.held, proxy.deaf = proxy.held, [], False
                proxy.hang_up()
                await inbox.first(AllocationsRecorded, 3)
                for writer, data in held:
                    writer.write(data)
                await asyncio.sleep(0)
            else:
                proxy.hang_up()
                proxy.let_through()
            await once(inbox, direct)


async def test_a_commit_cut_at_any_of_its_bytes_counts_once(database: str) -> None:
    """Each transaction is cut after another number of its chunks, on the way there or on the way back."""
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, direct = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox:
            await settled(inbox, store)
            for number in range(12):
                proxy.delay = 0.001 * (number % 4)
                store.perform([record(f"c{number}", store.epoch, [10 + number])])
                for _ in range(number):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.002 * (number % 3))
                proxy.cut()
            proxy.delay = 0.0
            await inbox.first(AllocationsRecorded, 14)
            plans = [event.plan for event in inbox.of(AllocationsRecorded)]
            assert sorted(plans) == sorted({"a", "b", *(f"c{number}" for number in range(12))})
            assert rows(direct, "SELECT count(*), count(DISTINCT id) FROM grant_record") == [(14, 14)]


async def test_F5_a_connection_that_is_cut_again_and_again_loses_nothing(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, direct = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox:
            for round_ in range(8):
                store.perform([SaveGroups(tuple(group(n, seen=round_) for n in range(50)))])
                store.perform([record(f"p{round_}", store.epoch, [100 + round_])])
                await asyncio.sleep(0.02)
                proxy.cut()
            await inbox.first(AllocationsRecorded, 8)
            wanted = "SELECT count(*) FROM group_record WHERE seen = 7"
            await inbox.wait(lambda: rows(direct, wanted) == [(50,)])
            assert [e.plan for e in inbox.of(AllocationsRecorded)] == [f"p{n}" for n in range(8)]


async def test_F5_a_slow_server_is_not_a_lost_one(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store = PostgresStore(url=url)
        proxy.delay = 0.1
        async with running(store) as inbox:
            store.perform([record("p1", store.epoch, range(1, 200))])
            await inbox.first(AllocationsRecorded)
            assert not inbox.of(StoreLost)
            proxy.delay = 0.0
