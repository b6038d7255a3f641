"""The ledger under fire: servers killed, frozen, full or read-only, connections cut in mid-commit.

Whatever happens, each change is in the ledger once. Only servers of the tests' own are harmed.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg
import pytest
from ledger_support import NOON, asked, change, changes, numbers, pod, writing
from store_support import Proxy, TcpServer, fill, forbid, impatient, until

from fairlead.model.record import Part
from fairlead.store import schema
from fairlead.store.embedded import running_postmaster
from fairlead.store.ledger import Ledger
from fairlead.store.postgres import PostgresStore


def fast(url: str, **values: float) -> Ledger:
    return Ledger(url=url, now=lambda: NOON, flush_every=5, **values)


# -- a commit of unknown fate --------------------------------------------------------------------------


async def test_a_transaction_that_is_cut_before_its_end_is_written_again(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url, writing(fast(url)) as door:
        door.put(changes(0, 1))
        await door.drained()
        proxy.mute = True
        door.put(changes(1, 500))
        await until(lambda: asked(database, "SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in%'"))
        proxy.mute = False
        proxy.cut()
        await door.drained()
        assert numbers(database) == list(range(500))


async def lost(proxy: Proxy, door: Ledger, database: str) -> None:
    """It has arrived, and the answer does not come back."""
    proxy.mute = True
    proxy.let_through()
    await until(lambda: numbers(database))
    assert door.waiting == 3
    proxy.mute = False
    proxy.cut()


async def never(proxy: Proxy, _: Ledger, database: str) -> None:
    """It is lost on the way there."""
    proxy.held.clear()
    proxy.deaf = False
    proxy.cut()
    assert numbers(database) == []


async def before(proxy: Proxy, *_: object) -> None:
    """It arrives when the ledger has hung up, at the time at which that connects again."""
    proxy.hang_up()
    proxy.let_through()


async def after(proxy: Proxy, door: Ledger, _: str) -> None:
    """It arrives when the ledger has connected again and written everything anew."""
    held, proxy.held, proxy.deaf = proxy.held, [], False
    proxy.hang_up()
    await door.drained()
    for writer, data in held:
        writer.write(data)
    await asyncio.sleep(0)


@pytest.mark.parametrize("fate", [lost, never, before, after])
async def test_a_commit_of_unknown_fate_counts_once(
    database: str, fate: Callable[[Proxy, Ledger, str], Awaitable[None]]
) -> None:
    """A lock of the test's holds the last statement up, so that the proxy then stops just the COMMIT."""
    proxy = Proxy(database)
    async with proxy.serve() as url, writing(fast(url)) as door:
        await door.load()
        waiting = """SELECT 1 FROM pg_stat_activity
                     WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO watch_mark%'"""
        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE fairlead.watch_mark IN EXCLUSIVE MODE")
            door.put(Part((change(0), change(1)), (pod(1),), marks={"pods": 1}))
            await until(lambda: asked(database, waiting))
            proxy.deaf = True
        await until(lambda: any(b"COMMIT" in data for _, data in proxy.held))
        await fate(proxy, door, database)
        await door.drained()
        door.put(changes(2, 3))
        await door.drained()
        assert numbers(database) == [0, 1, 2]
        assert asked(database, "SELECT version FROM watch_mark") == [(1,)]


async def test_RB1_a_connection_that_is_cut_at_any_byte_loses_and_doubles_nothing(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url, writing(fast(url)) as door:
        await door.load()
        for number in range(24):
            proxy.delay = 0.001 * (number % 4)
            first = number * 100
            rows = tuple(change(n) for n in range(first, first + 100))
            assert door.put(Part(rows, (pod(1, number), pod(number)), marks={"pods": number}))
            for _ in range(number):
                await asyncio.sleep(0)
            await asyncio.sleep(0.003 * (number % 5))
            proxy.cut()
        proxy.delay = 0.0
        await door.drained()
        assert numbers(database) == list(range(2400))
        assert asked(database, "SELECT version FROM watch_mark") == [(23,)]
        assert asked(database, "SELECT count(*) FROM pod_life") == [(24,)]


# -- the server dies, freezes, or is not there -----------------------------------------------------------


async def test_the_database_is_not_there_yet(tcp: TcpServer) -> None:
    async with writing(fast(tcp.url), wait=False) as door:
        await until(lambda: "refused" in door.error)
        assert door.put(changes(0, 10)) and door.waiting == 10
        await asyncio.to_thread(tcp.start)
        await door.drained()
        assert numbers(tcp.url) == list(range(10)) and door.error == ""


async def test_a_server_that_is_killed_while_it_writes(tcp: TcpServer) -> None:
    await asyncio.to_thread(tcp.start)
    async with writing(fast(tcp.url)) as door:
        for number in range(5):
            for first in range(number * 5000, (number + 1) * 5000, 100):
                assert door.put(changes(first, first + 100))
            await until(lambda before=number * 5000: door.written > before)
            tcp.kill()
            await until(lambda: door.error)
            await asyncio.to_thread(tcp.start)
        await door.drained()
        assert numbers(tcp.url) == list(range(25_000))


async def test_an_idle_ledger_notices_that_its_server_died_and_starts_it_again(top: Path) -> None:
    async with writing(Ledger(data=top / "data", now=lambda: NOON)) as door:
        assert door.server is not None and door.server.pid is not None
        first = door.server.pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: door.server and door.server.pid not in (None, first) and not door.error)
        door.put(changes(0, 1))
        await door.drained()
    assert running_postmaster(top / "data") is None


async def test_a_frozen_server_counts_as_lost_and_comes_back(tcp: TcpServer) -> None:
    await asyncio.to_thread(tcp.start)
    async with writing(fast(tcp.url)) as door:
        with impatient(door), tcp.frozen():
            door.put(changes(0, 10))
            await until(lambda: "has not answered for 1 s" in door.error)
            assert door.waiting == 10
        await door.drained()
        assert numbers(tcp.url) == list(range(10))


async def test_a_server_that_is_slow_but_goes_on_is_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.store.ledger_session._MANY", 10)
    async with writing(fast(database, patience=3)) as door:
        await door.load()
        with psycopg.connect(database, options="-csearch_path=fairlead") as conn:
            body = "'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END'"
            conn.execute(f"CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS {body}".encode())
            conn.execute("CREATE TRIGGER doze AFTER INSERT ON pod_life EXECUTE FUNCTION doze()")
        assert door.put(Part(pods=tuple(pod(number) for number in range(400))))
        await door.drained()
        assert asked(database, "SELECT number, (SELECT count(*) FROM pod_life) FROM ledger_writer") == [
            (1, 400)
        ]
        assert door.error == ""


async def test_what_is_left_is_written_at_the_end(database: str) -> None:
    slow = Ledger(url=database, now=lambda: NOON, flush_every=600_000)
    async with writing(slow) as door:
        await door.load()
        door.put(Part((change(0),), (pod(1),), marks={"pods": 3}))
        door.put(changes(1, 1500))
    assert numbers(database) == list(range(1500)) and slow.waiting == 0
    assert asked(database, "SELECT version FROM watch_mark") == [(3,)]


async def test_closing_without_a_database_ends_all_the_same(tcp: TcpServer) -> None:
    async with writing(fast(tcp.url), wait=False) as door:
        door.put(changes(0, 10))
        await until(lambda: "refused" in door.error)
    assert door.waiting == 10


# -- a database that answers but does not write ----------------------------------------------------------


async def test_RB1_a_full_disk_is_waited_out_and_what_finds_no_room_is_refused(small_disk: Path) -> None:
    wide = [
        Part(tuple(change(n, message="x" * 500) for n in range(k, k + 1000))) for k in range(0, 30_000, 1000)
    ]
    async with writing(Ledger(data=small_disk / "data", limit=20_000, now=lambda: NOON)) as door:
        assert door.put(wide[0])
        await door.drained()
        ballast = fill(small_disk)
        taken = [door.put(part) for part in wide[1:]]
        assert taken == [True] * 20 + [False] * 9
        await until(lambda: "No space left" in door.error)
        ballast.unlink()
        await door.drained()
        assert door.error == "" and numbers(door.url) == list(range(21_000))


async def test_a_database_that_becomes_read_only(database: str) -> None:
    async with writing(fast(database)) as door:
        forbid(database, True)
        door.put(changes(0, 10))
        await until(lambda: "read-only" in door.error)
        for _ in range(100):  # it connects again, and is not called ready for that
            await asyncio.sleep(0)
            assert door.error
        forbid(database, False)
        await door.drained()
        assert numbers(database) == list(range(10)) and door.error == ""


async def test_a_newer_schema_is_not_written_to(database: str) -> None:
    async with writing(fast(database)):
        pass
    newer = len(schema.migrations()) + 1
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO fairlead.schema_version (version, name) VALUES (%s, 'x')", [newer])
    async with writing(fast(database), wait=False) as door:
        door.put(changes(0, 10))
        await until(lambda: f"schema version {newer}" in door.error)
    assert numbers(database) == [] and door.waiting == 10


# -- one folder, several processes -----------------------------------------------------------------------


async def until_ready(store: PostgresStore) -> None:
    await until(lambda: not store.error, lambda: store.error)


class Nobody:
    """An inbox whose owner is not interested."""

    def put(self, events: object) -> None:
        """Forget it."""


@pytest.mark.parametrize("first", ["ledger", "store"])
async def test_scheduler_and_recorder_share_the_server_of_a_folder(top: Path, first: str) -> None:
    data = top / "data"
    door, store = Ledger(data=data, now=lambda: NOON, flush_every=5), PostgresStore(data=data)
    lives = {"ledger": lambda: door.run(), "store": lambda: store.run(Nobody())}
    tasks = {first: asyncio.create_task(lives.pop(first)())}
    await (until(lambda: not door.error) if first == "ledger" else until_ready(store))
    server = running_postmaster(data)
    for name, life in lives.items():
        tasks[name] = asyncio.create_task(life())
    await until(lambda: not door.error, lambda: door.error)
    await until_ready(store)
    assert running_postmaster(data) == server
    door.put(changes(0, 10))
    await door.drained()
    # The one that has the server ends: the other starts one of its own, and goes on.
    if first == "ledger":
        await asyncio.gather(door.close(), tasks["ledger"])
        await until(lambda: running_postmaster(data) not in (None, server))
        await until_ready(store)
        await store.close()
    else:
        await asyncio.gather(store.close(), tasks["store"])
        await until(lambda: running_postmaster(data) not in (None, server))
        door.put(changes(10, 20))
        await door.drained()
        assert numbers(door.url) == list(range(20))
        await door.close()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert running_postmaster(data) is None


async def test_who_joined_a_server_does_not_end_it(top: Path) -> None:
    data = top / "data"
    async with writing(Ledger(data=data, now=lambda: NOON)) as first:
        async with writing(Ledger(data=data, now=lambda: NOON, role="decisions")) as second:
            second.put(changes(0, 1))
        assert numbers(first.url) == [0] and first.error == ""
