"""`fairlead recorder import` as a process, into a real database: exact counts, once, beside a recorder."""

import asyncio
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ledger_support import asked, writing

import sniffer_log as made
from fairlead.model.history import Asked
from fairlead.model.record import Change, Part, Source
from fairlead.recorder.importing import Reading, parts
from fairlead.store import history, ledger_house
from fairlead.store.errors import StoreError
from fairlead.store.ledger import Ledger
from fairlead.store.ledger_import import importing
from fairlead.store.reader import open_reader
from fairlead.store.session import connect

FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
SMALL = Path(__file__).resolve().parent.parent / "data" / "sniffer" / "small.log"
COUNTS = (
    "SELECT (SELECT count(*) FROM change), (SELECT count(*) FROM pod_life), (SELECT count(*) FROM node_life)"
)
NOW = time.time_ns() // 1_000_000


def run(*options: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    env = {**os.environ, "TZ": "UTC", "COLUMNS": "100"}
    return subprocess.run([FAIRLEAD, *options], input=data, capture_output=True, timeout=120, env=env)


def imported(url: str, file: Path | str, data: bytes = b"") -> dict[str, Any]:
    done = run("recorder", "import", str(file), "--database-url", url, "-o", "json", data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def failure(url: str, file: Path | str, data: bytes = b"") -> str:
    done = run("recorder", "import", str(file), "--database-url", url, data=data)
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("fairlead: ")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sniffer.log"
    path.write_text("".join(f"{line}\n" for line in made.golden()), encoding="utf-8")
    return path


def test_RB1_a_log_is_imported_once(either: str, log: Path):
    found = imported(either, log)
    assert (found["lines"], found["unique"], found["added"]) == (made.LINES, made.UNIQUE, made.UNIQUE)
    assert (found["pods_complete"], found["jobs"], found["bad"]) == (made.COMPLETE, made.JOBS, 0)
    nodes = 8
    assert asked(either, COUNTS) == [(made.UNIQUE, 103, nodes)]
    told = "SELECT event, count(*) FROM change WHERE event IN ('ScheduleSuccess', 'preStop') GROUP BY 1"
    assert sorted(asked(either, told)) == [("ScheduleSuccess", 92), ("preStop", 89)]
    again = imported(either, log)
    assert (again["lines"], again["added"]) == (made.LINES, 0)
    assert asked(either, COUNTS) == [(made.UNIQUE, 103, nodes)]


def test_RB2_what_is_imported_can_be_asked(database: str, log: Path):
    imported(database, log)

    async def ask() -> list[Any]:
        async with open_reader(url=database) as conn, history.at_once(conn):
            return [row async for row in history.pods(conn, Asked(owner="Job/job-0-0-size-5"))]

    rows = asyncio.run(ask())
    assert len(rows) == 5
    assert {row.ended for row in rows} == {"succeeded"}
    assert all(9_000 < row.until - row.since < 15_000 and row.node in made.NODES for row in rows)


def test_the_result_is_told(database: str):
    done = run("recorder", "import", str(SMALL), "--database-url", database)
    assert done.stderr == b""
    lines = done.stdout.decode().replace(str(SMALL), "small.log").splitlines()
    assert lines[:7] == [
        "small.log: 34 lines, 26 of them unique, 5 repeated, 3 bad",
        "4 pods (2 complete, 2 open) of 2 jobs, 2 nodes; 2024-04-23 19:50:57 to 2024-04-23 19:51:19",
        "new in the ledger: 26 changes",
        "line 10: not JSON: JSON is malformed: invalid character (byte 0): ADD STARTnode-a",
        'line 19: object \'Job\' is neither Pod nor Node: {"object":"Job","name":"train"}',
        "line 22: the time 'soon' cannot be read: it counts as not told",
        'line 34: not JSON: Input data was truncated: {"object":"Pod","name":"sweep-n5c8d","en',
    ]
    assert "Pod     podUpdate     Running              5       3" in lines
    assert "ScheduleSuccess to BindingSuccess     3   0 ms   17 ms  253 ms" in lines


def test_packed_and_piped_it_is_the_same_log(database: str, tmp_path: Path):
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(SMALL.read_bytes()))
    keys = {imported(database, packed)["key"], imported(database, "-", SMALL.read_bytes())["key"]}
    assert len(keys) == 1
    assert asked(database, COUNTS) == [(26, 4, 2)]


def test_what_is_no_log_is_one_line(database: str, tmp_path: Path):
    assert failure(database, tmp_path / "none.log") == f"{tmp_path}/none.log: No such file or directory"
    assert failure(database, tmp_path) == f"{tmp_path}: Is a directory"
    assert failure(database, "-", b"root:x:0:0\n").startswith(
        "stdin: no line is one of the sniffer's; line 1: not JSON: "
    )
    assert asked(database, COUNTS) == [(0, 0, 0)]
    assert asked(database, "SELECT * FROM watch_mark") == []
    cut = gzip.compress("".join(f"{line}\n" for line in made.golden()).encode())[:-2000]
    assert failure(database, "-", cut).startswith("stdin: not a whole .gz file; ")
    assert failure("postgresql://127.0.0.1:1/x", SMALL).startswith("the database does not answer: ")


async def test_an_import_that_was_stopped_goes_on(database: str, log: Path):
    lines = [f"{line}\n".encode() for line in made.golden()]
    async with importing(data=None, url=database, now=NOW) as ledger:
        await ledger.write(next(parts(lines, Reading(NOW), ledger.marks)))
    assert asked(database, COUNTS) == [(1000, 0, 0)]
    found = await asyncio.to_thread(imported, database, log)
    assert found["added"] == made.UNIQUE - 1000
    # A node's capacities in another order are another line, but not another value in a database.
    pods = "SELECT count(*), count(DISTINCT (name, event, extra)) FROM change WHERE object = 'Pod'"
    assert asked(database, pods) == [(made.UNIQUE - 284, made.UNIQUE - 284)]


async def test_a_recorder_goes_on_meanwhile(database: str):
    async with writing(Ledger(url=database, flush_every=5)) as recorder:
        await recorder.load()
        assert (await asyncio.to_thread(imported, database, SMALL))["added"] == 26
        assert recorder.put(Part((Change("Pod", "Bound", NOW, NOW, Source.WATCH),), marks={"Pod": 7}))
        await recorder.drained()
        assert not recorder.error
        loaded = await recorder.load()
    assert asked(database, COUNTS) == [(27, 4, 2)]
    assert (loaded.pods, loaded.nodes, loaded.marks["Pod"]) == ({}, {}, 7)


async def test_retention_counts_from_the_import(database: str):
    imported(database, SMALL)
    conn = await connect(database, "test")
    try:
        await ledger_house.forget(conn, "test", NOW - ledger_house.DAY)
        assert asked(database, COUNTS) == [(26, 4, 2)]
        await ledger_house.forget(conn, "test", NOW + 3 * ledger_house.DAY)
    finally:
        await conn.close()
    assert asked(database, COUNTS) == [(0, 0, 0)]
    assert imported(database, SMALL)["added"] == 26


async def test_two_imports_at_once_are_one_too_many(database: str):
    async with importing(data=None, url=database, now=NOW):
        with pytest.raises(StoreError) as told:
            async with importing(data=None, url=database, now=NOW):
                pass
    assert str(told.value) == "another import writes to this database: wait until it has ended"


async def test_a_database_that_goes_away_is_told(database: str):
    with pytest.raises(StoreError) as told:
        async with importing(data=None, url=database, now=NOW) as ledger:
            await asyncio.to_thread(_end_all, database)
            await ledger.write(Part(marks={"import:x": 1}))
    assert str(told.value).startswith("the database does not take it: ")


def _end_all(url: str) -> None:
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(ours, ["fairlead import"])
