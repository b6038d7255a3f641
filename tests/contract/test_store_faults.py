"""The store under fire: servers really killed, connections really cut, folders that cannot serve.

Everything here ends only processes that it started itself, by their id.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from store_support import (
    NOBODY,
    Events,
    Proxy,
    TcpServer,
    group,
    impatient,
    record,
    rows,
    running,
    settled,
    until,
)

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
from fairlead.store import binaries, reader, schema
from fairlead.store.embedded import EmbeddedServer, running_postmaster
from fairlead.store.errors import StoreError
from fairlead.store.postgres import PostgresStore

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has the powers that this is about")


# -- the server dies ------------------------------------------------------------------------------------


async def test_killed_postmaster_is_started_again_and_the_pending_plan_recorded_once(top: Path) -> None:
    store = PostgresStore(data=top / "data")
    assert store.server is not None
    async with running(store) as inbox:
        store.perform([record("p1", store.epoch, [1])])
        await inbox.first(AllocationsRecorded)
        first = store.server.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        store.perform([SaveGroups((group(7),)), record("p2", store.epoch, [2])])
        await inbox.first(StoreReady, 2)
        await inbox.first(AllocationsRecorded, 2)
        assert store.server.pid not in (None, first)
        assert inbox.of(StoreReady) == [StoreReady(1)] * 2
        assert len(inbox.of(StoreLost)) == 1
        assert len(inbox.of(Synced)) == 1
        assert [event.plan for event in inbox.of(AllocationsRecorded)] == ["p1", "p2"]
        assert rows(store, "SELECT id FROM plan_record ORDER BY id") == [("p1",), ("p2",)]
        await inbox.wait(lambda: rows(store, "SELECT name FROM group_record WHERE name = 'g7'"))


async def test_a_postmaster_that_dies_while_idle_is_noticed(top: Path) -> None:
    store = PostgresStore(data=top / "data")
    assert store.server is not None
    async with running(store) as inbox:
        pid = store.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await inbox.first(StoreReady, 2)
        kinds = [type(event) for event in inbox.all]
        assert kinds == [StoreReady, Synced, StoreLost, StoreReady]


def _start_and_kill_scheduler(data: Path) -> int:
    """The process that still serves the folder when its scheduler was killed."""
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom fairlead.store.embedded import EmbeddedServer\n"
        "server = EmbeddedServer(Path(sys.argv[1]))\nserver.ensure()\n"
        "print('serves', server.pid, flush=True)\ntime.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = next(line for line in child.stdout if line.startswith("serves"))
        child.kill()
    return int(said.split()[1])


async def test_a_server_left_behind_by_a_killed_scheduler_is_ended_and_replaced(top: Path) -> None:
    orphan = await asyncio.to_thread(_start_and_kill_scheduler, top / "data")
    assert running_postmaster(top / "data") == orphan
    store = PostgresStore(data=top / "data")
    assert store.server is not None
    async with running(store):
        assert running_postmaster(top / "data") == store.server.pid != orphan
    assert running_postmaster(top / "data") is None


# -- the connection is lost -----------------------------------------------------------------------------


async def test_F5_store_down_at_start_recovers(tcp: TcpServer) -> None:
    store = PostgresStore(url=tcp.url)
    async with running(store, wait=False) as inbox:
        lost = await inbox.first(StoreLost)
        assert "refused" in lost.error
        assert store.error == lost.error
        store.perform([SaveGroups((group(1),))])
        await asyncio.to_thread(tcp.start)
        await inbox.first(Synced)
        assert [type(event) for event in inbox.all] == [StoreLost, StoreReady, Synced]
        assert store.error == ""
        await inbox.wait(lambda: rows(store, "SELECT 1 FROM group_record"))


async def test_F5_store_away_for_a_while_loses_nothing(tcp: TcpServer) -> None:
    await asyncio.to_thread(tcp.start)
    store = PostgresStore(url=tcp.url)
    async with running(store) as inbox:
        store.perform([SaveGroups((group(1), group(2)))])
        await asyncio.to_thread(tcp.stop)
        await inbox.first(StoreLost)
        for seen in range(50):
            store.perform([SaveGroups((group(1, seen=seen), group(3, seen=seen)))])
        store.perform([record("p1", store.epoch, [4])])
        assert not inbox.of(AllocationsRecorded)
        await asyncio.to_thread(tcp.start)
        await inbox.first(AllocationsRecorded)
        wanted = [("g1", 49), ("g2", 0), ("g3", 49), ("g4", 0)]
        await inbox.wait(lambda: rows(store, "SELECT name, seen FROM group_record ORDER BY name") == wanted)
        assert len(inbox.of(StoreLost)) == 1
        assert inbox.of(StoreReady) == [StoreReady(1)] * 2


async def test_backend_terminated_before_its_commit_writes_again(database: str) -> None:
    store = PostgresStore(url=database)
    async with running(store) as inbox:
        with psycopg.connect(database) as other:
            other.execute("SELECT * FROM fairlead.leader FOR UPDATE")
            store.perform([record("p1", store.epoch, [1])])
            blocked = (
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fence%'"
            )
            await until(lambda: rows(store, blocked))
            assert rows(store, f"SELECT pg_terminate_backend(({blocked}))") == [(True,)]
            await inbox.first(StoreLost)
            other.rollback()
        await inbox.first(AllocationsRecorded)
        assert rows(store, "SELECT id FROM plan_record") == [("p1",)]
        assert rows(store, "SELECT count(*) FROM grant_record") == [(1,)]
        assert [type(e) for e in inbox.all[2:]] == [StoreLost, StoreReady, AllocationsRecorded]


async def test_a_commit_whose_answer_is_lost_is_found_and_not_repeated(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, direct = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox:
            await settled(inbox, store)
            proxy.mute = True
            store.perform([record("p1", store.epoch, [1])])
            await until(lambda: rows(direct, "SELECT 1 FROM plan_record WHERE id = 'p1'"))
            assert len(inbox.of(AllocationsRecorded)) == 2
            proxy.mute = False
            proxy.cut()
            assert await inbox.first(AllocationsRecorded, 3) == AllocationsRecorded("p1")
            assert rows(direct, "SELECT count(*) FROM grant_record") == [(3,)]
            assert [type(e) for e in inbox.all[4:]] == [StoreLost, StoreReady, AllocationsRecorded]


async def test_F4_a_batch_is_one_round_trip(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store = PostgresStore(url=url)
        async with running(store) as inbox:
            await settled(inbox, store)
            before = proxy.answers
            store.perform([record("p1", store.epoch, range(100), 10)])
            await inbox.first(AllocationsRecorded, 3)
            assert proxy.answers - before == 1


async def test_a_frozen_server_counts_as_lost_and_comes_back(top: Path) -> None:
    store = PostgresStore(data=top / "data")
    writers = f"SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'fairlead {os.getpid()}%'"
    async with running(store) as inbox:
        await settled(inbox, store)
        frozen = [pid for (pid,) in rows(store, writers)]
        with impatient(store):
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                store.perform([record("p1", store.epoch, [1])])
                assert "has not answered for 1 s" in (await inbox.first(StoreLost)).error
            finally:
                for pid in frozen:
                    os.kill(pid, signal.SIGCONT)
        assert await inbox.first(AllocationsRecorded, 3) == AllocationsRecorded("p1")
        assert rows(store, "SELECT count(*) FROM grant_record") == [(3,)]
        assert len(inbox.of(StoreLost)) == 1


async def test_taken_over_while_away_refuses_what_is_not_durable(database: str) -> None:
    proxy = Proxy(database)
    async with proxy.serve() as url:
        store, next_one = PostgresStore(url=url), PostgresStore(url=database)
        async with running(store) as inbox, running(next_one, wait=False) as successor:
            await successor.first(StoreLost)
            proxy.mute = True
            store.perform([record("p1", store.epoch, [1])])
            await until(lambda: rows(next_one, "SELECT 1 FROM plan_record WHERE id = 'p1'"))
            proxy.cut()
            store.perform([record("p2", store.epoch, [2])])
            await successor.first(Synced)
            proxy.mute = False
            proxy.cut()
            refused = await inbox.first(AllocationsRefused)
            assert (refused.plan, refused.reason) == ("p2", "fenced by epoch 2")
            assert inbox.of(AllocationsRecorded) == []  # p1 is durable: it is the successor's now
            assert [event.grant.plan for event in successor.of(GrantRestored)] == ["p1"]


async def test_close_in_the_middle_of_a_write_still_saves_all(database: str) -> None:
    store = PostgresStore(url=database, flush_every=1)
    async with running(store):
        store.perform([SaveGroups(tuple(group(n) for n in range(3000)))])
        await asyncio.sleep(0.01)
    async with running(PostgresStore(url=database)) as inbox:
        assert len(inbox.of(GroupRestored)) == 3000


@pytest.mark.parametrize("pause", [0.0, 0.005, 0.02])
async def test_cancelled_first_and_closed_then_saves_all_too(database: str, pause: float) -> None:
    store, inbox = PostgresStore(url=database, flush_every=1), Events()
    task = asyncio.create_task(store.run(inbox))
    await inbox.first(Synced)
    store.perform([SaveGroups(tuple(group(n) for n in range(2000)))])
    await asyncio.sleep(pause)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.close()
    assert rows(PostgresStore(url=database), "SELECT count(*) FROM group_record") == [(2000,)]


# -- what is not ours to use ----------------------------------------------------------------------------


async def test_a_newer_schema_is_refused_in_words(database: str) -> None:
    async with running(PostgresStore(url=database)):
        pass
    newer = len(schema.migrations()) + 7
    with psycopg.connect(database) as conn:
        conn.execute("INSERT INTO fairlead.schema_version (version, name) VALUES (%s, 'x')", [newer])
    async with running(PostgresStore(url=database), wait=False) as inbox:
        assert f"schema version {newer}" in (await inbox.first(StoreLost)).error
        assert not inbox.of(StoreReady)
    with pytest.raises(StoreError, match="use the newer Fairlead"):
        async with reader.open_reader(url=database):
            pass


async def test_a_url_that_cannot_be_read_is_said() -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        PostgresStore(url="postgres//nonsense").check()
    async with running(PostgresStore(url="postgres//nonsense"), wait=False) as inbox:
        assert "cannot be read" in (await inbox.first(StoreLost)).error


def test_a_second_start_on_the_same_folder_is_refused(top: Path) -> None:
    first, second = EmbeddedServer(top / "data"), EmbeddedServer(top / "data")
    try:
        first.ensure()
        with pytest.raises(StoreError, match=f"in use by another Fairlead .process {os.getpid()}."):
            second.ensure()
        second.stop()
        first.ensure()
        assert running_postmaster(top / "data") == first.pid
    finally:
        first.stop()


def test_a_folder_of_another_major_version_is_refused(top: Path) -> None:
    server = EmbeddedServer(top / "data")
    server.ensure()
    server.stop()
    (server.cluster / "PG_VERSION").write_text("13\n")
    again = EmbeddedServer(top / "data")
    with pytest.raises(StoreError, match="made by PostgreSQL 13, this Fairlead carries"):
        again.check()
    with pytest.raises(StoreError, match="pg_dump"):
        again.ensure()
    again.stop()


def test_a_stale_pid_file_and_a_half_made_cluster_do_not_matter(top: Path) -> None:
    server = EmbeddedServer(top / "data")
    server.ensure()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    assert (server.cluster / "postmaster.pid").exists()
    (top / "data" / "pg" / "data.new").mkdir()
    again = EmbeddedServer(top / "data")
    again.ensure()
    again.stop()


@pytest.mark.parametrize("path", ["/proc/fairlead", "/dev/null/fairlead"])
def test_a_folder_that_cannot_be_written_is_said(path: str) -> None:
    with pytest.raises(StoreError, match=r"cannot be written .*choose another --data-dir"):
        EmbeddedServer(Path(path)).check()


def test_a_path_too_long_for_a_socket_is_said(top: Path) -> None:
    with pytest.raises(StoreError, match="too long"):
        EmbeddedServer(top / ("x" * 100)).check()


@needs_root
def test_root_refuses_a_folder_below_a_private_one_and_opens_nothing(top: Path) -> None:
    private = top / "home"
    private.mkdir(mode=0o700)
    with pytest.raises(StoreError, match=f"below {private}, which only its owner may enter"):
        EmbeddedServer(private / "data").ensure()
    assert private.stat().st_mode & 0o777 == 0o700
    assert list(private.iterdir()) == []


@needs_root
def test_root_leaves_parents_and_users_as_they_were(top: Path) -> None:
    watched = [top, *top.parents, *binaries.bundled().parents]
    users = [Path("/etc/passwd"), Path("/etc/group")]
    before = [path.stat().st_mode for path in watched], [path.read_bytes() for path in users]
    server = EmbeddedServer(top / "data")
    server.ensure()
    try:
        assert ([path.stat().st_mode for path in watched], [path.read_bytes() for path in users]) == before
        data = top / "data"
        assert {path.name: path.stat().st_uid for path in data.iterdir()} == {
            "pg": NOBODY, "pg.lock": 0, "pg_hba.conf": 0, "pg_ident.conf": 0, "postgres.log": 0,
        }  # fmt: skip
        assert (data / "pg").stat().st_mode & 0o777 == 0o700
        assert Path(f"/proc/{server.pid}").stat().st_uid == NOBODY
    finally:
        server.stop()


@needs_root
def test_even_nobody_is_not_let_in(top: Path) -> None:
    server = EmbeddedServer(top / "data")
    server.ensure()
    try:
        psql = [str(binaries.bundled() / "psql"), server.url, "-c", "SELECT 1"]
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        refused = subprocess.run(psql, capture_output=True, text=True, **as_nobody)
        assert "Peer authentication failed" in refused.stderr
        assert subprocess.run(psql, capture_output=True).returncode == 0
    finally:
        server.stop()


@needs_root
def test_binaries_in_a_private_place_are_copied_for_the_server(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_readable", lambda _: False)
    for _ in range(2):
        server = EmbeddedServer(top / "data")
        server.ensure()
        try:
            program = Path(f"/proc/{server.pid}/exe").resolve()
            assert program.is_relative_to(top / "data" / "pg-bin")
            assert program.stat().st_uid == 0
        finally:
            server.stop()


@needs_root
def test_somebody_else_gets_a_server_of_their_own(top: Path) -> None:
    """The whole way without root: a process that gives its power away before it starts anything."""
    home = top / "mine"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom fairlead.store.embedded import EmbeddedServer\n"
        "os.setgroups([]), os.setgid(65534), os.setuid(65534)\n"
        "server = EmbeddedServer(Path(sys.argv[1]))\nserver.ensure()\n"
        "print(os.getuid(), os.stat(sys.argv[1]).st_mode & 0o777)\nserver.stop()"
    )
    command = [sys.executable, "-c", script, str(home / "data")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout.splitlines()[-1:] == [f"{NOBODY} {0o700}"], run.stderr
    with pytest.raises(StoreError, match="only its owner may enter"):
        EmbeddedServer(home / "data").ensure()


@needs_root
def test_a_server_folder_of_somebody_else_is_refused(top: Path) -> None:
    (top / "data" / "pg").mkdir(parents=True)
    with pytest.raises(
        StoreError, match="belongs to user id 0, but the embedded PostgreSQL would run as 65534"
    ):
        EmbeddedServer(top / "data").ensure()
