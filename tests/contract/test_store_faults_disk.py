"""A store that answers but cannot write: a full disk, a read-only database, a schema of another version.

The full disk is a small tmpfs of the test's own; only root may make one.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from store_support import (
    Events,
    TcpServer,
    fill,
    forbid,
    group,
    impatient,
    mount,
    record,
    rows,
    running,
    settled,
)

from fairlead.model.command import SaveGroups
from fairlead.model.event import AllocationsRecorded, StoreLost, StoreReady, Synced
from fairlead.store import schema
from fairlead.store.embedded import EmbeddedServer
from fairlead.store.errors import StoreError
from fairlead.store.postgres import PostgresStore
from fairlead.store.schema import Migration


def many(text: str) -> SaveGroups:
    return SaveGroups(tuple(group(n, broken=text * 40) for n in range(2000)))


# -- a full disk -------------------------------------------------------------------------------------


async def test_F5_a_disk_that_fills_up_stops_starts_until_there_is_room(small_disk: Path) -> None:
    store = PostgresStore(data=small_disk / "data")
    async with running(store) as inbox:
        store.perform([record("p1", store.epoch, [1])])
        await inbox.first(AllocationsRecorded)
        ballast = fill(small_disk)
        store.perform([many("full"), record("p2", store.epoch, [2])])
        await inbox.first(StoreLost)
        await inbox.wait(lambda: "No space left" in store.error)
        store.perform([record("p3", store.epoch, [3])])
        for _ in range(3):  # it connects again and again, and is called ready no more than it can write
            error = store.error
            store.error = ""
            await inbox.wait(lambda before=error: store.error and before)
        assert [e.plan for e in inbox.of(AllocationsRecorded)] == ["p1"] and len(inbox.of(StoreReady)) == 1
        ballast.unlink()
        await inbox.first(AllocationsRecorded, 3)
        assert [e.plan for e in inbox.of(AllocationsRecorded)] == ["p1", "p2", "p3"]
        assert rows(store, "SELECT id FROM plan_record ORDER BY id") == [("p1",), ("p2",), ("p3",)]
        await inbox.wait(lambda: rows(store, "SELECT 1 FROM group_record WHERE name = 'g1999'"))
        assert store.error == "" and len(inbox.of(StoreReady)) == 2


async def test_F5_a_full_disk_at_the_start_is_said_and_waited_out(small_disk: Path) -> None:
    first = PostgresStore(data=small_disk / "data")
    async with running(first) as inbox:
        first.perform([record("p1", first.epoch, [1])])
        await inbox.first(AllocationsRecorded)
    ballast = fill(small_disk)
    async with running(PostgresStore(data=small_disk / "data"), wait=False) as inbox:
        lost = await inbox.first(StoreLost)
        assert "No space left" in lost.error or "space" in lost.error, lost
        assert not inbox.of(StoreReady)
        ballast.unlink()
        await inbox.first(Synced)


async def test_F5_a_disk_that_is_full_before_there_is_a_database(small_disk: Path) -> None:
    ballast = fill(small_disk)
    async with running(PostgresStore(data=small_disk / "data"), wait=False) as inbox:
        lost = await inbox.first(StoreLost)
        assert "No space left" in lost.error and str(small_disk / "data") in lost.error
        ballast.unlink()
        await inbox.first(Synced)


# -- read-only ---------------------------------------------------------------------------------------


async def test_F5_a_database_that_is_read_only_at_the_start(database: str) -> None:
    async with running(PostgresStore(url=database)):
        pass
    forbid(database, True)
    async with running(PostgresStore(url=database), wait=False) as inbox:
        assert "read-only" in (await inbox.first(StoreLost)).error
        assert not inbox.of(StoreReady)
        forbid(database, False)
        await inbox.first(Synced)
    forbid(database, False)


async def test_F5_a_database_that_becomes_read_only_is_not_ready_until_it_takes_the_write(
    database: str,
) -> None:
    """It answers all the while: were that called ready, it would be so twenty times a second."""
    store = PostgresStore(url=database)
    async with running(store) as inbox:
        forbid(database, True)
        store.perform([record("p1", store.epoch, [1])])
        await inbox.wait(lambda: "read-only" in store.error)
        before = len(inbox.of(StoreReady))
        assert before <= 2  # it may have come back once before the write failed
        await inbox.wait(lambda: "read-only" in store.error and len(inbox.of(StoreLost)) == before)
        forbid(database, False)
        assert await inbox.first(AllocationsRecorded) == AllocationsRecorded("p1")
        assert len(inbox.of(StoreReady)) == before + 1
        assert rows(store, "SELECT count(*) FROM grant_record") == [(1,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_data_folder_on_a_read_only_file_system_is_refused_in_words(small_disk: Path) -> None:
    mount(small_disk, "-o", "remount,ro")
    with pytest.raises(StoreError, match=r"cannot be written \(Read-only file system\): choose another"):
        EmbeddedServer(small_disk / "data").check()


# -- a schema of another version ---------------------------------------------------------------------


def all_rows(url: str) -> list[Any]:
    with psycopg.connect(url) as conn:
        tables = conn.execute(
            "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'fairlead'"
            " AND table_type = 'BASE TABLE' ORDER BY 1"
        ).fetchall()
        return [
            (name, conn.execute(b"SELECT * FROM fairlead." + name.encode() + b" ORDER BY 1").fetchall())
            for (name,) in tables
        ]


async def test_a_newer_schema_is_not_written_to(database: str) -> None:
    async with running(PostgresStore(url=database)):
        pass
    newer = len(schema.migrations()) + 1
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO fairlead.schema_version (version, name) VALUES (%s, 'x')", [newer])
    before = all_rows(database)
    store = PostgresStore(url=database)
    async with running(store, wait=False) as inbox:
        store.perform([SaveGroups((group(1),))])
        assert f"schema version {newer}" in (await inbox.first(StoreLost)).error
    assert all_rows(database) == before


async def test_a_newer_schema_that_comes_in_the_middle_is_seen_when_connecting_again(database: str) -> None:
    store = PostgresStore(url=database)
    async with running(store) as inbox:
        newer = len(schema.migrations()) + 1
        with psycopg.connect(database) as conn:
            conn.execute("INSERT INTO fairlead.schema_version (version, name) VALUES (%s, 'x')", [newer])
        forbid(database, False)
        await inbox.wait(lambda: f"schema version {newer}" in store.error)
        assert len(inbox.of(StoreReady)) == 1


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What this program knows of migrations, from the outside."""
    real = schema.migrations()

    def know(upto: int, *more: Migration) -> None:
        monkeypatch.setattr(schema, "migrations", lambda: (*real[:upto], *more))

    return know


async def test_an_older_schema_is_brought_up_with_what_is_in_it(
    database: str, known: Callable[..., None]
) -> None:
    newest = len(schema.migrations())
    known(newest)
    async with running(PostgresStore(url=database)) as inbox:
        assert inbox.of(StoreReady) == [StoreReady(1)]
    added = Migration(newest + 1, "more", b"ALTER TABLE leader ADD COLUMN more integer NOT NULL DEFAULT 7")
    known(newest, added)
    async with running(PostgresStore(url=database)) as inbox:
        assert inbox.of(StoreReady) == [StoreReady(2)]
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT more FROM fairlead.leader").fetchall() == [(7,)]
        assert conn.execute("SELECT max(version) FROM fairlead.schema_version").fetchone() == (newest + 1,)


async def test_a_migration_that_fails_leaves_everything_as_it_was(
    database: str, known: Callable[..., None]
) -> None:
    async with running(PostgresStore(url=database)):
        pass
    newest = len(schema.migrations())
    before = all_rows(database)
    broken = b"CREATE TABLE half (a integer); UPDATE leader SET holder = 'half'; SELECT 1 / 0"
    known(newest, Migration(newest + 1, "broken", broken))
    store = PostgresStore(url=database)
    async with running(store, wait=False) as inbox:
        assert "division by zero" in (await inbox.first(StoreLost)).error
        assert all_rows(database) == before
        known(newest)
        await inbox.first(Synced)


# -- the whole server --------------------------------------------------------------------------------


async def _again(inbox: Events, store: PostgresStore) -> None:
    store.perform([record("p1", store.epoch, [1])])
    await inbox.first(AllocationsRecorded)


async def test_F5_a_server_that_is_killed_and_started_again(tcp: TcpServer) -> None:
    await asyncio.to_thread(tcp.start)
    store = PostgresStore(url=tcp.url)
    async with running(store) as inbox:
        await _again(inbox, store)
        tcp.kill()
        await inbox.first(StoreLost)
        store.perform([record("p2", store.epoch, [2]), SaveGroups((group(3),))])
        await asyncio.to_thread(tcp.start)
        assert await inbox.first(AllocationsRecorded, 2) == AllocationsRecorded("p2")
        assert rows(store, "SELECT id FROM plan_record ORDER BY id") == [("p1",), ("p2",)]
        assert inbox.of(StoreReady) == [StoreReady(1)] * 2


async def test_F5_a_server_that_is_frozen_as_a_whole(tcp: TcpServer) -> None:
    """Not even a new connection is answered."""
    await asyncio.to_thread(tcp.start)
    store = PostgresStore(url=tcp.url)
    async with running(store) as inbox:
        await settled(inbox, store)
        with impatient(store), tcp.frozen():
            store.perform([record("p1", store.epoch, [1])])
            assert "has not answered for 1 s" in (await inbox.first(StoreLost)).error
            first = store.error
            await inbox.wait(lambda: store.error != first or "not answered" in store.error)
            assert len(inbox.of(AllocationsRecorded)) == 2
        assert await inbox.first(AllocationsRecorded, 3) == AllocationsRecorded("p1")
        assert rows(store, "SELECT count(*) FROM grant_record") == [(3,)]
        assert len(inbox.of(StoreLost)) == 1
