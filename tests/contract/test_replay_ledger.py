"""Segments of the ledger in a real database: written behind, each chunk once, and replayed from there."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import msgspec
import psycopg
import pytest
from ledger_support import asked
from store_support import until

from fairlead.cli import replaying
from fairlead.cli.errors import CliError
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.model.event import PlanProposed
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.segmenting import Opened, Segments
from fairlead.runtime.version import engine_version
from fairlead.store.segments import SegmentStore
from replay_support import changed, record, recorded

FAR = 1 << 50


@contextlib.asynccontextmanager
async def writing(store: SegmentStore) -> AsyncIterator[SegmentStore]:
    """The store's life around a test; a recording beside it waits for its children alone."""
    task = asyncio.create_task(store.run())
    try:
        yield store
    finally:
        await store.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def put(store: SegmentStore, other: bool = False, every: int = 100) -> int:
    """A recorded world in the database; how many batches it has."""
    batches, settings = recorded()
    if other:
        batches, _ = changed(batches)
    engine = Engine(settings, RECONCILERS)
    segments = Segments(engine, store, every=every)
    await record(segments, engine, batches)
    segments.close()
    await store.drained()
    return len(batches)


async def replay(url: str, output: str = "table") -> None:
    await asyncio.to_thread(replaying.show_ledger, None, url, 0, FAR, output)


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET search_path TO fairlead")
        conn.execute(statement.encode())


async def test_RB4_what_the_ledger_holds_replays_with_the_same_result(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with writing(SegmentStore(lambda: either)) as store:
        count = await put(store)
    rows = asked(
        either, "SELECT why, engine, checkpoint IS NULL, closed_at > 0 FROM ledger_segment ORDER BY id"
    )
    assert rows[0] == ("start", engine_version(), True, True)
    assert len(rows) > 3 and set(rows[1:]) == {("hour", engine_version(), False, True)}
    await replay(either, "json")
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["batches"], found["segments"], found["wrong"]) == (count, len(rows), 0)
    assert found["plans"] > 8 and found["gaps"] == []
    (epoch,) = asked(either, "SELECT max(epoch) FROM ledger_segment")[0]
    assert epoch == 1


async def test_RB4_a_changed_decision_in_the_ledger_is_found(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with writing(SegmentStore(lambda: either)) as store:
        await put(store, other=True)
    with pytest.raises(CliError, match=r"the ledger: .* came out otherwise"):
        await replay(either)
    said = capsys.readouterr()
    assert "other node" in said.out
    assert "on elsewhere" in said.err and "segment " in said.err
    change(either, "UPDATE ledger_segment SET engine = '0.0.9+ff'")
    await replay(either)
    said = capsys.readouterr()
    assert "recorded by another engine (0.0.9+ff" in said.out and "other node" in said.out


async def test_RB4_each_chunk_is_there_once_however_often_the_connection_breaks(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with writing(SegmentStore(lambda: either)) as store:
        writer = asyncio.create_task(put(store, every=20))
        await until(lambda: store.written)
        broken, chance = 0, random.Random(7)
        while not writer.done():
            written = store.written
            broken += asked(
                either,
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                " WHERE application_name LIKE 'fairlead segments%'",
            )[0][0]
            # Else a machine that is slower to connect than this is to cut off would never come to an end.
            await until(lambda before=written: store.written > before or writer.done())
            await asyncio.sleep(chance.uniform(0.0, 0.05))
        count = await writer
    assert broken > 1
    twice = asked(either, "SELECT segment, seq FROM ledger_chunk GROUP BY 1, 2 HAVING count(*) > 1")
    assert twice == []
    capsys.readouterr()
    await replay(either, "json")
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["batches"], found["wrong"], found["gaps"]) == (count, 0, [])


async def test_RB4_a_database_that_is_away_for_too_long_makes_a_gap_that_is_told(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = ["host=127.0.0.1 port=1 dbname=nowhere"]
    batches, settings = recorded()
    engine = Engine(settings, RECONCILERS)
    store = SegmentStore(lambda: urls[0], limit=12_000)
    segments = Segments(engine, store)
    third = len(batches) // 3
    async with writing(store):
        await until(lambda: "refused" in store.error, lambda: store.error)
        for batch in batches[: 2 * third]:  # all at once: nobody waits for the database
            segments.batch(batch)
            segments.observe(batch, engine.learn(batch), 0.0)
        assert segments.gaps == 1
        urls[0] = either
        await until(store.room)
        for batch in batches[2 * third :]:
            segments.batch(batch)
            segments.observe(batch, engine.learn(batch), 0.0)
            await asyncio.sleep(0)
        segments.close()
        await store.drained()
    whys = [row[0] for row in asked(either, "SELECT why FROM ledger_segment ORDER BY id")]
    assert whys == ["start", "gap"]
    await replay(either)
    said = capsys.readouterr().out
    assert "0 differences" in said
    assert "gap: " in said and "the database had no time or no room for more" in said


async def test_RB4_what_is_missing_is_told(either: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with writing(SegmentStore(lambda: either)) as store:
        await put(store, every=FAR)
    change(either, "UPDATE ledger_spec SET body = body || 'x'")
    with pytest.raises(ConfigError, match=r"segment 1 .* cannot be read: a chunk cannot be read"):
        await replay(either)
    change(either, "DELETE FROM ledger_spec")
    with pytest.raises(ConfigError, match=r"segment 1 .* cannot be read: the spec \w+ is not in the ledger"):
        await replay(either)
    change(either, "DELETE FROM ledger_chunk WHERE seq = 0")
    await replay(either)
    said = capsys.readouterr().out
    assert "gap: the beginning of segment 1" in said and "0 plans" in said
    assert "nothing was compared" in said
    change(either, "DELETE FROM ledger_chunk")
    await replay(either)
    assert "gap: segment 1 " in (said := capsys.readouterr().out) and "holds nothing" in said
    change(either, "DELETE FROM ledger_segment")
    with pytest.raises(CliError, match="nothing to replay"):
        await replay(either)


async def test_RB4_a_segment_that_the_database_refused_from_some_chunk_on_is_a_gap(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with writing(SegmentStore(lambda: either)) as store:
        await put(store)
    change(either, "UPDATE ledger_segment SET closed_at = 0 WHERE id = 2")
    await replay(either)
    said = capsys.readouterr().out
    assert "the end of segment 2 is missing" in said and said.count("gap: ") == 1


async def test_RB4_plans_of_which_no_end_is_recorded_are_told(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    batches, settings = recorded()
    engine = Engine(settings, RECONCILERS)
    async with writing(SegmentStore(lambda: either)) as store:
        segments = Segments(engine, store)
        for batch in batches:
            told = [event for event in batch if not isinstance(event, PlanProposed)]
            segments.batch(told)
            segments.observe(told, engine.learn(told), 0.0)
        segments.close()
        await store.drained()
    await replay(either)
    said = capsys.readouterr().out
    assert "begun without a recorded end: not compared" in said and "nothing was compared" in said


async def test_RB4_a_checkpoint_that_fails_in_whatever_way_does_not_hold_up_the_next(either: str) -> None:
    _, settings = recorded()
    failed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    failed.set_exception(ChildProcessError("no child"))
    async with writing(SegmentStore(lambda: either)) as store:
        assert store.put(Opened("hour", 1, "v", settings, 1, failed))
        assert store.put(Opened("gap", 2, "v", settings, 1, None))
        await until(lambda: not store.error and not store.waiting)
        await asyncio.wait_for(store.drained(), 30)
    assert asked(either, "SELECT why FROM ledger_segment") == [("gap",)]
