"""Several processes on one database, one of them elected: who stands by, who takes over, who is fenced."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psycopg
import pytest
from store_support import Events, group, record, rows, running, until

from fairlead.model.command import SaveGroups
from fairlead.model.event import (
    AllocationsRecorded,
    AllocationsRefused,
    GrantRestored,
    GroupRestored,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.store.postgres import PostgresStore

NOW = 1_700_000_100_000


class Replica:
    """A store whose process is elected when the test says so."""

    def __init__(self, url: str, **options: int) -> None:
        self.lease = asyncio.Event()
        self.store = PostgresStore(url=url, now=lambda: NOW, flush_every=1, elected=self._elected, **options)

    async def _elected(self) -> None:
        await self.lease.wait()

    @contextlib.asynccontextmanager
    async def running(self, leads: bool) -> AsyncIterator[Events]:
        if leads:
            self.lease.set()
        async with running(self.store, wait=leads) as inbox:
            yield inbox


def sessions(url: str) -> int:
    """Connections of schedulers to that database."""
    with psycopg.connect(url) as conn:
        name = "application_name ~ '^fairlead [0-9]' AND datname = current_database()"
        row = conn.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {name}".encode()).fetchone()
    return row[0] if row else 0


async def test_RA3_a_standby_is_not_even_connected(database: str) -> None:
    standby = Replica(database)
    async with Replica(database).running(True) as leading, standby.running(False) as waiting:
        assert leading.of(StoreReady) == [StoreReady(1)]
        assert sessions(database) == 2  # the leader's own
        assert waiting.all == [] and standby.store.epoch == 0
    assert waiting.all == []


async def test_RA3_a_standby_that_is_elected_takes_over_from_one_that_never_lets_go(database: str) -> None:
    """The old one is alive and holds lock and sessions, as one that is stopped or cut off would."""
    old, new = Replica(database), Replica(database)
    async with old.running(True) as before, new.running(False) as after:
        old.store.perform([record("p1", 1, [1]), SaveGroups((group(7),))])
        await before.first(AllocationsRecorded)
        await until(lambda: rows(new.store, "SELECT 1 FROM group_record WHERE name = 'g7'"))
        old.lease.clear()  # it does not come back before it knows better
        new.lease.set()
        await after.first(Synced)
        assert after.of(StoreReady) == [StoreReady(2)]
        assert [event.grant.plan for event in after.of(GrantRestored)] == ["p1"]
        # What the old one may have sent must have come to its end before it is sent again.
        assert {event.not_before for event in after.of(GrantRestored)} == {NOW + 10_000}
        assert [event.record.name for event in after.of(GroupRestored)] == ["g1", "g7"]
        await before.first(StoreLost)
        await until(lambda: sessions(database) == 2)
        assert not old.store.fenced.is_set()  # it knows only that its connection ended
        new.store.perform([record("p2", 2, [2])])
        await after.first(AllocationsRecorded)


async def test_RA3_the_old_leader_is_fenced_and_its_plan_refused(database: str) -> None:
    """Woken up, it believes for a moment that it leads: its plan comes to nothing, for good."""
    old, new = Replica(database), Replica(database)
    async with old.running(True) as before, new.running(False) as after:
        new.lease.set()
        await after.first(Synced)
        old.store.perform([record("p1", 1, [1])])
        refused = await before.first(AllocationsRefused)
        assert (refused.plan, refused.reason) == ("p1", "fenced by epoch 2")
        assert old.store.fenced.is_set()
        new.store.perform([record("p2", 2, [2])])
        await after.first(AllocationsRecorded)
        assert rows(new.store, "SELECT id FROM plan_record") == [("p2",)]
        assert after.of(StoreLost) == []  # it was never pushed out itself


async def test_RA3_a_transaction_that_the_old_leader_left_open_does_not_hold_up_the_new_one(
    database: str,
) -> None:
    """Stopped between BEGIN and COMMIT, the old one would keep the leader's row for ever."""
    old, new = Replica(database), Replica(database)
    async with old.running(True), new.running(False) as after:
        stopped = await psycopg.AsyncConnection.connect(database)
        await stopped.execute(b"SELECT fairlead.fence(1, 1)")
        old.lease.clear()
        new.lease.set()
        await after.first(Synced)
        assert after.of(StoreReady) == [StoreReady(2)]
        with pytest.raises(psycopg.OperationalError):
            await stopped.execute(b"SELECT 1")


async def test_RA3_a_plan_on_its_way_at_the_takeover_comes_to_nothing_and_is_told(database: str) -> None:
    """Its fate is unknown to the old one until it can ask; the new one does not wait for it."""
    old, new = Replica(database), Replica(database)
    async with old.running(True) as before, new.running(False) as after:
        with psycopg.connect(database) as other:
            other.execute(b"SELECT * FROM fairlead.leader FOR UPDATE")
            old.store.perform([record("p1", 1, [1])])
            blocked = (
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fence%'"
            )
            await until(lambda: rows(old.store, blocked))
            old.lease.clear()
            new.lease.set()
            await before.first(StoreLost)  # its sessions are ended while the commit is on its way
            other.rollback()
        await after.first(Synced)
        assert after.of(GrantRestored) == []
        old.lease.set()
        refused = await before.first(AllocationsRefused)
        assert (refused.plan, refused.reason) == ("p1", "fenced by epoch 2")
        assert before.of(AllocationsRecorded) == []


async def test_RA3_one_that_led_does_not_end_the_sessions_of_its_successor(database: str) -> None:
    """Two that both believe in their lease (a wrong set-up) do not throw each other out for ever."""
    old, new = Replica(database), Replica(database)
    async with old.running(True) as before, new.running(False) as after:
        new.lease.set()
        await after.first(Synced)
        assert (await before.first(StoreLost)).error
        await before.wait(old.store.fenced.is_set)
        assert after.of(StoreReady) == [StoreReady(2)] and after.of(StoreLost) == []


async def test_RA3_without_election_nobody_is_pushed_out(database: str) -> None:
    first, second = PostgresStore(url=database), PostgresStore(url=database)
    async with running(first) as leading, running(second, wait=False) as waiting:
        assert "another scheduler writes" in (await waiting.first(StoreLost)).error
        first.perform([record("p1", first.epoch, [1])])
        await leading.first(AllocationsRecorded)
        assert not leading.of(StoreLost) and not waiting.of(StoreReady)
