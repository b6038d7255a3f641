"""What the ledger's tests share: ledgers that live around a test, parts to put, and what others then see."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from store_support import until

from fairlead.model.record import Change, NodeLife, Part, PodLife, Source
from fairlead.store.errors import FencedError
from fairlead.store.ledger import Ledger
from fairlead.store.ledger_house import DAY

NOON = 20_000 * DAY + DAY // 2
"""In the middle of a day (2024-10-04)."""


@contextlib.asynccontextmanager
async def writing(ledger: Ledger, wait: bool = True) -> AsyncIterator[Ledger]:
    """The ledger's life around a test, ended the way the application ends it."""
    task = asyncio.create_task(ledger.run())
    try:
        if wait:
            await until(lambda: not ledger.error, lambda: ledger.error)
        yield ledger
    finally:
        await ledger.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, FencedError):
            await task


def change(number: int, **values: Any) -> Change:
    """The `number`-th thing that happened."""
    known: dict[str, Any] = {
        "object": "Pod",
        "event": "Scheduled",
        "at": NOON - 1000 + number,
        "seen": NOON + number,
        "source": Source.PLUGIN,
        "uid": f"uid-{number}",
        "namespace": "default",
        "name": f"pod-{number}",
    }
    return Change(**known | values)


def changes(first: int, last: int) -> Part:
    return Part(tuple(change(number) for number in range(first, last)))


def pod(number: int, version: int = 1, **values: Any) -> PodLife:
    return PodLife(f"uid-{number}", "default", f"pod-{number}", version, **values)


def node(number: int, since: int, **values: Any) -> NodeLife:
    return NodeLife(f"uid-n{number}", f"n{number}", since, **values)


def asked(url: str, statement: str) -> list[tuple[Any, ...]]:
    """What somebody else sees."""
    with psycopg.connect(url, options="-csearch_path=fairlead") as conn:
        return conn.execute(statement.encode()).fetchall()


def numbers(url: str) -> list[int]:
    """Which of the changes are in, in order of recording."""
    return [int(name.removeprefix("pod-")) for (name,) in asked(url, "SELECT name FROM change ORDER BY seq")]
