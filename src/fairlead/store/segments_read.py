"""Segments of the ledger as they are read back, for `fairlead replay`.

Called by `cli.replaying` with a connection of `store.reader`. Reads chunk by chunk: a month does not have to
fit into memory. Must not write.
"""

from collections.abc import AsyncIterator, Iterable

import msgspec
from msgspec import Struct

from fairlead.model.settings import Settings
from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

_AT_ONCE = 16


class Segment(Struct, frozen=True):
    """A segment's row and what there is of it; times in milliseconds since the epoch.

    `closed_at` 0: its process was killed, or still runs. `first_seq` above 0: its beginning is forgotten.
    """

    id: int
    opened_at: int
    why: str
    engine: str
    settings: Settings
    epoch: int
    holder: str
    whole: bool
    """It begins with a whole state, not with an empty engine."""
    closed_at: int
    chunks: int
    first_seq: int
    last_seq: int
    last_at: int
    batches: int


class StoredChunk(Struct, frozen=True):
    seq: int
    first_at: int
    last_at: int
    body: bytes


async def segments(conn: Connection, since: int, until: int) -> list[Segment]:
    """All that tell anything of that time, in order."""
    answer = await conn.execute(SQL["segments_between"], {"since": since, "until": until})
    found: list[Segment] = []
    for row in await answer.fetchall():
        values = dict(zip(Segment.__struct_fields__, row, strict=True))
        values["settings"] = msgspec.convert(values["settings"], Settings)
        found.append(Segment(**values))
    return found


async def checkpoint(conn: Connection, segment: int) -> bytes:
    """What the segment begins with."""
    row = await (await conn.execute(SQL["segment_checkpoint"], {"segment": segment})).fetchone()
    return bytes(row[0]) if row and row[0] is not None else b""


async def chunks(conn: Connection, segment: int, until: int) -> AsyncIterator[StoredChunk]:
    """The segment's chunks that begin by then, in order."""
    seq = 0
    while True:
        values = {"segment": segment, "seq": seq, "until": until, "limit": _AT_ONCE}
        rows = await (await conn.execute(SQL["segment_chunks"], values)).fetchall()
        for row in rows:
            yield StoredChunk(row[0], row[1], row[2], bytes(row[3]))
        if len(rows) < _AT_ONCE:
            return
        seq = rows[-1][0] + 1


async def specs(conn: Connection, hashes: Iterable[bytes]) -> dict[bytes, bytes]:
    """Content by hash, of those that there are."""
    wanted = list(hashes)
    if not wanted:
        return {}
    answer = await conn.execute(SQL["specs_by_hash"], {"hashes": wanted})
    return {bytes(name): bytes(body) for name, body in await answer.fetchall()}
