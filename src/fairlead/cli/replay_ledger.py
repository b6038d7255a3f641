"""What the ledger holds of a stretch of time, told to the engine again, segment by segment.

Called by `cli.replaying`. A segment is replayed from its beginning on, also where `--from` is later: what it
begins with is what there is. Must not write.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairlead.cli import words
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.runtime.checkpoint import CheckpointError, Restored, load
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.replay import Replay, Replayer
from fairlead.runtime.segments import Decoder, SegmentError
from fairlead.runtime.shared import Shared
from fairlead.runtime.version import engine_version
from fairlead.store import segments_read
from fairlead.store.schema import Connection
from fairlead.store.segments_read import Segment


class Span(NamedTuple):
    """From when to when, in milliseconds since the epoch."""

    since: int
    until: int


async def replay(conn: Connection, span: Span, told: Callable[[int, int], None]) -> Replay:
    """All segments of that time. `told` is called with batches done and in all.

    Raises ConfigError for what this very version has written and cannot read.
    """
    found = Replay()
    rows = await segments_read.segments(conn, span.since, span.until)
    found.gaps += gaps(rows)
    total = sum(row.batches for row in rows)
    for row in rows:
        if row.chunks and not row.first_seq:
            await _segment(conn, row, span.until, found, lambda: told(found.batches, total))
    return found


def gaps(rows: Sequence[Segment]) -> list[str]:
    """What is not recorded between and in these segments, in words."""
    found: list[str] = []
    for i, row in enumerate(rows):
        if i and row.why != "hour":
            found.append(f"{_between(rows[i - 1], row)}: {_WHY[row.why]}")
        elif i and not rows[i - 1].closed_at:
            found.append(f"{_between(rows[i - 1], row)}: the end of segment {rows[i - 1].id} is missing")
        if not row.chunks and (row.closed_at or row is not rows[-1]):  # the last may just have begun
            found.append(f"segment {row.id} ({_at(row.opened_at)}) holds nothing (any more)")
        elif row.first_seq:
            found.append(f"the beginning of segment {row.id} ({_at(row.opened_at)}) is forgotten")
        elif row.chunks and row.chunks != row.last_seq + 1:
            found.append(f"segment {row.id} ({_at(row.opened_at)}) misses chunks in its middle")
    return found


_WHY = {
    "start": "no scheduler was running",
    "takeover": "another one took over",
    "gap": "the database had no time or no room for more",
}


def _between(one: Segment, two: Segment) -> str:
    return f"{_at(one.last_at)} to {_at(two.opened_at)}"


def _at(at: int) -> str:
    return words.instant(at)


async def _segment(
    conn: Connection, row: Segment, until: int, found: Replay, told: Callable[[], None]
) -> None:
    exact = row.engine == engine_version()
    if not exact and row.engine not in found.versions:
        found.versions.append(row.engine)
    try:
        await _told(conn, row, until, found, exact, told)
    except (CheckpointError, SegmentError) as error:
        text = f"segment {row.id} ({_at(row.opened_at)}) cannot be read: {error}"
        if exact:
            raise ConfigError(text) from error
        found.gaps.append(text)
    except Exception as error:  # of another version's state anything may be expected
        if exact:
            raise
        found.gaps.append(f"segment {row.id}: this version of the engine cannot go on ({error})")


async def _told(
    conn: Connection, row: Segment, until: int, found: Replay, exact: bool, told: Callable[[], None]
) -> None:
    shared = Shared()
    if row.whole:
        restored = load(await segments_read.checkpoint(conn, row.id), RECONCILERS, shared)
    else:
        restored = Restored(Engine(row.settings, RECONCILERS), {})
    replayer, decoder, expected = Replayer(found, restored, exact), Decoder(shared), 0
    found.segments += 1
    async for chunk in segments_read.chunks(conn, row.id, until):
        if chunk.seq != expected:
            break
        expected += 1
        decoder.know(await segments_read.specs(conn, decoder.missing(chunk.body)))
        for batch in decoder.batches(chunk.body):
            replayer.batch(batch, f"segment {row.id} at {_at(chunk.first_at)}")
            told()
    if row.last_at <= until and expected < row.chunks == row.last_seq + 1:
        found.gaps.append(f"segment {row.id} ({_at(row.opened_at)}) was forgotten while it was read")
    replayer.close()
