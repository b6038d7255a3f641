"""Partitions of the ledger by the day of recording, and what is dropped when its time is over."""

import asyncio
from typing import Any

import psycopg
import pytest
from ledger_support import NOON, asked, change, node, pod, writing
from store_support import until

from fairlead.model.record import Part, Source
from fairlead.store import ledger_house
from fairlead.store.ledger import Ledger
from fairlead.store.ledger_house import DAY
from fairlead.store.session import connect

PARTS = """SELECT c.relname::text, (SELECT count(*) FROM change r WHERE r.tableoid = c.oid)
           FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = 'change'::regclass ORDER BY 1"""


def ledger(url: str, day: int = 0, **values: Any) -> Ledger:
    return Ledger(url=url, now=lambda: NOON + day * DAY, flush_every=5, **values)


def on(day: int, number: int = 0) -> Part:
    """A change of another day."""
    return Part((change(number, seen=NOON + day * DAY),))


async def test_RB1_each_day_has_a_partition_and_tomorrow_too(either: str) -> None:
    async with writing(ledger(either)) as door:
        door.put(on(0))
        door.put(on(1))
        door.put(on(5))
        await door.drained()
    assert asked(either, PARTS) == [("change_20241004", 1), ("change_20241005", 1), ("change_default", 1)]
    bounds = asked(
        either, "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'change_20241004'"
    )
    assert bounds == [(f"FOR VALUES FROM ('{NOON - DAY // 2}') TO ('{NOON + DAY // 2}')",)]
    async with writing(ledger(either, 4)):  # what had no partition gets it when its day comes near
        pass
    assert asked(either, PARTS)[2:] == [
        ("change_20241008", 0),
        ("change_20241009", 1),
        ("change_default", 0),
    ]
    assert asked(either, "SELECT count(*) FROM change") == [(3,)]
    bare = """SELECT relname FROM pg_class
              WHERE relnamespace = 'fairlead'::regnamespace AND relkind IN ('r', 'p')
              AND relname <> 'schema_version' AND obj_description(oid, 'pg_class') IS NULL"""
    assert asked(either, bare) == []


async def test_two_processes_that_make_the_same_partitions_do_each_other_no_harm(either: str) -> None:
    async with writing(ledger(either)):
        pass
    conns = [await connect(either, "test") for _ in range(4)]
    try:
        for day in range(2, 12):
            await asyncio.gather(*(ledger_house.prepare(conn, NOON + day * DAY) for conn in conns))
    finally:
        for conn in conns:
            await conn.close()
    assert len(asked(either, PARTS)) == 13 + 1


async def test_a_partition_is_not_waited_for_while_somebody_reads(either: str) -> None:
    """Who reads for long would otherwise stop the writing: the default takes the rows."""
    async with writing(ledger(either)):
        pass
    with psycopg.connect(either) as reader:
        reader.execute("SELECT count(*) FROM fairlead.change")
        async with writing(ledger(either, 3)) as door:
            door.put(on(3))
            await door.drained()
            assert asked(either, PARTS)[-1] == ("change_default", 1)
            assert door.error == ""
    async with writing(ledger(either, 3)):
        pass
    assert ("change_20241007", 1) in asked(either, PARTS)


async def test_RB1_retention_drops_whole_days_and_what_ended_before_it(either: str) -> None:
    async with writing(ledger(either)) as door:
        await door.load()
        old, new = NOON - 5, NOON + 6 * DAY
        pods = (
            pod(1, deleted=old, last_seen=old),
            pod(2, finished=old, last_seen=old),  # still there: a recorder must know what it said of it
            pod(3, finished=old, last_seen=old, source=Source.IMPORT),
            pod(4, last_seen=old),
            pod(5, finished=old, deleted=new, last_seen=new),
        )
        nodes = (node(1, 1, until=old), node(1, old), node(2, 1, until=new))
        door.put(Part((change(1), change(2, seen=1)), pods, nodes))
        door.put(on(1, 3))
        await door.drained()
        with psycopg.connect(either, options="-csearch_path=fairlead", autocommit=True) as conn:
            segment = (
                "INSERT INTO ledger_segment (opened_at, why, engine, settings_hash, settings, epoch, holder)"
                " VALUES (%s, 'start', '', '', '{}', 1, '')"
            )
            for opened in (old, old, new):
                conn.execute(segment, [opened])
            for number, at in ((1, old), (2, new)):
                conn.execute("INSERT INTO ledger_chunk VALUES (%s, 0, %s, %s, 1, 1, '')", [number, at, at])
            specs = "INSERT INTO ledger_spec VALUES ('a', '', %s), ('b', '', %s)"
            conn.execute(specs, [old - 2 * DAY, old])
    async with writing(ledger(either, 6, retention=5 * DAY)) as door:
        await until(lambda: asked(either, "SELECT count(*) FROM ledger_writer") == [(0,)])
        door.put(on(6, 4))
        await door.drained()
    assert asked(either, "SELECT name FROM change ORDER BY seq") == [("pod-3",), ("pod-4",)]
    assert asked(either, "SELECT uid FROM pod_life ORDER BY 1") == [("uid-2",), ("uid-4",), ("uid-5",)]
    assert asked(either, "SELECT uid, since FROM node_life ORDER BY 1") == [("uid-n1", old), ("uid-n2", 1)]
    assert asked(either, "SELECT segment FROM ledger_chunk") == [(2,)]
    assert asked(either, "SELECT id FROM ledger_segment ORDER BY 1") == [(2,), (3,)]
    assert asked(either, "SELECT hash FROM ledger_spec") == [(b"b",)]
    assert "change_20241004" not in dict(asked(either, PARTS))


async def test_retention_goes_on_by_the_hour(either: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.store.ledger_house._HOUR", 0.05)
    now = [NOON]
    async with writing(Ledger(url=either, now=lambda: now[0], flush_every=5, retention=2 * DAY)) as door:
        door.put(on(0))
        await door.drained()
        now[0] += 4 * DAY
        await until(lambda: [name for name, _ in asked(either, PARTS)][:1] == ["change_20241008"])
        assert asked(either, "SELECT 1 FROM change") == []
