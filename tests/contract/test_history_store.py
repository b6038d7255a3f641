"""The ledger can be asked, through `store.history` and through views: which pod was where, what changed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
import psycopg
import pytest
from history_support import MINUTE, PAST, T0, fill, node, pod, through
from ledger_support import writing
from msgspec import structs
from store_support import fresh_database

from fairlead.model.history import Asked
from fairlead.model.record import Change, NodeLife, Part, PodLife
from fairlead.store import history, recorded
from fairlead.store.ledger import Ledger
from fairlead.store.ledger_house import DAY
from fairlead.store.reader import open_reader
from fairlead.store.schema import Connection

T = TypeVar("T")


@pytest.fixture(scope="module")
def url(tcp_url: str):
    with fresh_database(tcp_url) as found:
        asyncio.run(fill(found, *PAST))
        yield found


def ask(url: str, question: Callable[[Connection], AsyncIterator[T]]) -> list[T]:
    async def run() -> list[T]:
        async with open_reader(url=url) as conn, history.at_once(conn):
            return [row async for row in question(conn)]

    return asyncio.run(run())


def names(url: str, **filters: Any) -> list[str]:
    return sorted(row.name for row in ask(url, lambda conn: history.pods(conn, Asked(**filters))))


def sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, options="-csearch_path=fairlead -ctimezone=UTC") as conn:
        return conn.execute(statement.encode()).fetchall()


def test_RB2_RB10_every_pod_has_its_interval_and_how_it_ended(url: str):
    found = {row.name: row for row in ask(url, lambda conn: history.pods(conn, Asked()))}
    spans = {name: (row.node, row.since and row.since - T0, row.until and row.until - T0, row.ended)
             for name, row in found.items()}  # fmt: skip
    assert spans == {
        "a": ("n0", 61_000, 62_000 + 10 * MINUTE, "succeeded"),
        "b": ("n1", 61_000, 0, ""),
        "c": ("n0", 6 * MINUTE + 1000, 26 * MINUTE + 2000, "failed"),
        "waits": ("", 0, 0, ""),
        "gone": ("", 0, 3 * MINUTE, "deleted"),
        "lost": ("n1", 2 * MINUTE, 9 * MINUTE, "lost"),
        "told": ("n0", 4 * MINUTE, 6 * MINUTE, "succeeded"),
    }
    assert found["a"].requests == {"cpu": 2000, "memory": 4 << 30, "nvidia.com/gpu": 1}
    assert found["c"].labels == {"app": "web"}
    placed = [row.name for row in ask(url, lambda conn: history.intervals(conn, Asked()))]
    assert placed == ["a", "b", "lost", "told", "c"]


def test_RB2_view_shows_intervals_and_leaves_open_ends_open(url: str):
    rows = sql(
        url, "SELECT name, node, since_is, until IS NULL, ended, cpu, gpu FROM pod_node_intervals ORDER BY 1"
    )
    assert [(*row[:5], float(row[5]), row[6]) for row in rows] == [
        ("a", "n0", "bound", False, "succeeded", 2.0, 1),
        ("b", "n1", "bound", True, None, 2.0, 1),
        ("c", "n0", "bound", False, "failed", 2.0, 1),
        ("lost", "n1", "bound", False, "lost", 2.0, 1),
        ("told", "n0", "scheduled", False, "succeeded", 2.0, 1),
    ]
    at = "timestamptz 'epoch' + interval '1 millisecond' *"
    there = f"since <= {at} {T0 + 5 * MINUTE} AND (until IS NULL OR until > {at} {T0 + 5 * MINUTE})"
    assert sql(url, f"SELECT name FROM pod_node_intervals WHERE {there} ORDER BY 1") == [
        ("a",), ("b",), ("lost",), ("told",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "filters, expected",
    [
        ({"namespace": "team-b"}, "c"),
        ({"owner": "train"}, "a b gone lost told waits"),
        ({"owner": "job/train"}, "a b gone lost told waits"),
        ({"owner": "ReplicaSet/train"}, ""),
        ({"labels": {"app": "web"}}, "c"),
        ({"labels": {"app": "web", "tier": "x"}}, ""),
        ({"scheduler": "default-scheduler"}, "c"),
        ({"node": "n1"}, "b lost"),
        ({"group": "train", "node": "n0"}, "a told"),
        ({"name": "a"}, "a"),
        ({"open": True}, "b waits"),
        ({"until": T0 + 90_000}, "a b gone lost told"),
        ({"since": T0 + 20 * MINUTE}, "b c waits"),
        ({"since": T0 + 20 * MINUTE, "until": T0 + 5 * MINUTE}, "b waits"),
        ({"namespace": "no\0such"}, ""),
    ],
)
def test_RB10_filters_are_explicit_and_keep_what_has_not_ended(url: str, filters: Any, expected: str):
    assert names(url, **filters) == expected.split()


def test_RB5_view_has_the_latency_of_each_stage_and_the_stage_a_pod_is_in(url: str):
    seconds = "extract(epoch FROM {})::float AS {}"
    columns = ", ".join(
        seconds.format(name, name) for name in ("queue", "bind", "start", "ready", "run", "total")
    )
    rows = {row[0]: row[1:] for row in sql(url, f"SELECT name, stage, {columns} FROM latencies")}
    assert rows["a"] == ("ended", 60, 1, 1, 1, 600, 62)
    assert rows["b"] == ("run", 60, 1, 1, 1, None, 62)
    assert rows["waits"] == ("queue", *[None] * 6)
    assert rows["told"] == ("ended", 180, *[None] * 5)


def test_states_of_nodes_with_what_they_had(url: str):
    rows = ask(url, lambda conn: history.nodes(conn, Asked(since=T0 + MINUTE, until=T0 + 20 * MINUTE)))
    assert [(row.name, row.ready, row.allocatable["cpu"]) for row in rows] == [
        ("n0", True, 8000),
        ("n1", True, 8000),
    ]
    shown = "SELECT node, cpu::float, gpu, pods::int, ready, until IS NULL FROM node_capacity"
    assert sql(url, f"{shown} ORDER BY node, since") == [
        ("n0", 8.0, 2, 110, True, True),
        ("n1", 8.0, 2, 110, True, False),
        ("n1", 8.0, 2, 110, False, True),
    ]


def test_an_imported_log_ends_nothing_that_the_watch_knows_of_a_node(tcp_url: str):
    """A log of the same cluster may be imported beside a recorder: the watch counts, before it the log."""
    told = {"imported": T0 + 50 * MINUTE}
    small = {"allocatable": {"cpu": 1000}, "told": told}

    def logged(name: str, since: int, until: int) -> NodeLife:
        row = node(name, T0 + since * MINUTE, until=T0 + until * MINUTE, **small)
        return structs.replace(row, uid=f"import:{since}:{name}")

    watch = node("n0", T0 + 10 * MINUTE)
    logs = [logged("n0", 10, 12), logged("n0", 20, 25), logged("n0", 5, 30), logged("n1", 5, 30)]
    with fresh_database(tcp_url) as url:
        asyncio.run(fill(url, watch, *logs))
        rows = ask(url, lambda conn: history.nodes(conn, Asked()))
        shown = sql(url, "SELECT node, cpu::float, extract(epoch FROM since)::bigint * 1000, until IS NULL"
                         " FROM node_capacity ORDER BY node, since")  # fmt: skip

        async def replayed() -> list[str]:
            async with open_reader(url=url) as conn:
                stretch = await recorded.stretch(conn, T0 + 11 * MINUTE, T0 + 40 * MINUTE)
                return [life.uid for life in stretch.nodes]

        assert asyncio.run(replayed()) == ["import:5:n1", watch.uid]
    assert [(row.name, row.since, row.until) for row in rows] == [
        ("n0", T0 + 5 * MINUTE, T0 + 10 * MINUTE),
        ("n0", T0 + 10 * MINUTE, 0),
        ("n1", T0 + 5 * MINUTE, T0 + 30 * MINUTE),
    ]
    assert shown == [
        ("n0", 1.0, T0 + 5 * MINUTE, False),
        ("n0", 8.0, T0 + 10 * MINUTE, True),
        ("n1", 1.0, T0 + 5 * MINUTE, False),
    ]


def test_changes_in_the_order_of_writing_and_decisions_among_them(url: str):
    rows = ask(url, lambda conn: history.changes(conn, Asked()))
    assert [row.event for row in rows] == [
        "Created", "Planned", "FailedScheduling", "ScheduleSuccess", "Finished", *["Gap"] * 4, "Condition",
    ]  # fmt: skip
    assert rows[0].seq < rows[1].seq and rows[1].extra == '{"plan": "1-1", "nodes": ["n0", "n1"]}'
    behind = ask(url, lambda conn: history.changes(conn, Asked(), after=rows[3].seq, kind="node"))
    assert [row.name for row in behind] == ["n1"]
    late = ask(url, lambda conn: history.changes(conn, Asked(since=T0 + 9, until=T0 + 10)))
    assert [row.event for row in late] == ["FailedScheduling", "ScheduleSuccess"]
    assert sql(url, "SELECT event FROM decisions ORDER BY seq") == [
        ("Planned",), ("FailedScheduling",), ("ScheduleSuccess",),
    ]  # fmt: skip
    assert sql(url, "SELECT count(*) FROM changes") == [(10,)]


def test_gaps_of_a_time(url: str):
    async def gaps(since: int, until: int) -> list[tuple[int, int]]:
        async with open_reader(url=url) as conn:
            return await history.gaps(conn, T0 + since * MINUTE, T0 + until * MINUTE)

    assert asyncio.run(gaps(0, 60)) == [(T0 + 12 * MINUTE, T0 + 14 * MINUTE + 9)]
    assert asyncio.run(gaps(13, 14)) == [(T0 + 12 * MINUTE, T0 + 14 * MINUTE + 9)]
    assert asyncio.run(gaps(15, 60)) == []


def test_every_view_and_every_column_of_the_history_is_explained(url: str):
    async def views():
        async with open_reader(url=url) as conn:
            return {view.name: view for view in await history.views(conn)}

    found = asyncio.run(views())
    ours = ("pods", "pod_node_intervals", "node_capacity", "latencies", "changes", "decisions")
    assert all(view.comment for view in found.values())
    bare = [f"{name}.{column}" for name in ours for column, _, told in found[name].columns if not told]
    assert bare == []
    with psycopg.connect(url, options="-csearch_path=fairlead") as conn:
        for name in found:
            conn.execute(f"SELECT * FROM {name}".encode())


def test_RA12_a_history_longer_than_a_portion_comes_whole_and_in_portions(
    tcp_url: str, monkeypatch: pytest.MonkeyPatch
):
    """What is held at once is a portion, however long the history."""
    monkeypatch.setattr(history, "_PORTION", 100)
    many = [through(f"p{n:04}", f"n{n % 7}", n * 1000) for n in range(1234)]
    with fresh_database(tcp_url) as url:
        asyncio.run(fill(url, *many, pod("last", 2_000_000)))
        found = ask(url, lambda conn: history.pods(conn, Asked()))
        assert [row.name for row in found] == [p.name for p in many] + ["last"]

        async def first() -> str:
            async with open_reader(url=url) as conn, history.at_once(conn):
                async for row in history.pods(conn, Asked()):
                    raise BrokenPipeError(row.name)
            return ""

        with pytest.raises(BrokenPipeError, match="p0000"):
            asyncio.run(first())


def test_RB2_what_the_ledger_writes_is_read_back(tcp_url: str, url: str):
    """The same past, through the writer of the recorder instead of by plain SQL."""
    part = Part(
        tuple(row for row in PAST if isinstance(row, Change)),
        tuple(row for row in PAST if isinstance(row, PodLife)),
        tuple(row for row in PAST if isinstance(row, NodeLife)),
        {"Pod": 9},
    )

    async def filled(other: str) -> None:
        ledger = Ledger(url=other, retention=100 * 365 * DAY, now=lambda: T0 + 60 * MINUTE)
        async with writing(ledger):
            assert ledger.put(part)
            await ledger.drained()
        async with open_reader(url=other) as conn:
            assert await history.recorded(conn) == T0 + 60 * MINUTE

    with fresh_database(tcp_url) as other:
        asyncio.run(filled(other))
        for question in (history.pods, history.nodes):
            read = [ask(where, lambda conn, q=question: q(conn, Asked())) for where in (other, url)]
            assert read[0] == read[1] and read[0]
        read = [ask(where, lambda conn: history.changes(conn, Asked())) for where in (other, url)]
        assert [msgspec.structs.replace(row, seq=0) for row in read[0]] == [
            msgspec.structs.replace(row, seq=0) for row in read[1]
        ]
