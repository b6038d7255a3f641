"""`fairlead db`: what people type to get at the database, run as they would run it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from store_support import folder, group, running

from fairlead.cli.db import socket_url
from fairlead.model.command import SaveGroups
from fairlead.store.embedded import running_postmaster
from fairlead.store.postgres import PostgresStore


@pytest.fixture
def data() -> Iterator[Path]:
    with folder() as path:
        yield path / "data"


def db(*words: str | Path, say: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from fairlead.cli.db import app; app()", *map(str, words)]
    environment = os.environ | {"PAGER": "cat", "NO_COLOR": "1"}
    return subprocess.run(command, input=say, capture_output=True, text=True, env=environment)


async def test_url_works_while_the_scheduler_runs_and_shell_also_after(data: Path) -> None:
    store = PostgresStore(data=data)
    async with running(store) as inbox:
        store.perform([SaveGroups((group(1),))])
        await inbox.wait(lambda: store.transactions)
        told = db("url", "--data-dir", data)
        assert (told.returncode, told.stdout.strip()) == (0, socket_url(data))
        with psycopg.connect(told.stdout.strip()) as conn:
            assert conn.execute("SELECT name FROM queue").fetchall() == [("g1",)]
        assert "g1" in db("shell", "--data-dir", data, say="TABLE queue;").stdout
    assert running_postmaster(data) is None
    assert db("url", "--data-dir", data).returncode == 1
    assert "g1" in db("shell", "--data-dir", data, say="TABLE queue;").stdout
    assert running_postmaster(data) is None


def test_where_there_is_no_database_both_say_so(data: Path) -> None:
    for verb in ("url", "shell"):
        told = db(verb, "--data-dir", data)
        assert told.returncode == 1
        assert str(data) in told.stderr
        assert "Traceback" not in told.stderr
    assert not data.exists()


def test_a_given_url_gets_the_schema_in_its_path() -> None:
    told = db("url", "--database-url", "postgresql://u@h/d?sslmode=require").stdout.strip()
    assert psycopg.conninfo.conninfo_to_dict(told)["options"] == "-csearch_path=fairlead,public"
    assert db("url", "--database-url", "host=h dbname=d").stdout.strip() == "host=h dbname=d"
