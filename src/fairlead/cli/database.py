"""Answers out of the store, when no scheduler can be asked.

Called by `cli.ask` and `cli.history*`, which import it late: it brings the database driver along. Must not
write, and keeps no server running that it started.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from fairlead.cli.quiet import quiet
from fairlead.core import story, views
from fairlead.model.view import ExplanationPage, QueuePage
from fairlead.store import reader
from fairlead.store.errors import StoreError
from fairlead.store.schema import Connection

T = TypeVar("T")
_MOST = 100_000


def queue(
    data: Path, url: str, *, ended: bool, namespace: str, limit: int, warnings: tuple[str, ...]
) -> QueuePage:
    """The queue as the scheduler last wrote it. Raises StoreError."""

    async def work(conn: Connection) -> QueuePage:
        records = await reader.groups(conn, ended=True, limit=_MOST)  # rejected ones have ended, but wait
        return views.record_page(
            records,
            await reader.as_of(conn),
            include_ended=ended,
            namespace=namespace,
            limit=limit,
            promised=await reader.reservations(conn),
            warnings=warnings,
        )

    return with_reader(data, url, work)


def explain(data: Path, url: str, name: str, warnings: tuple[str, ...]) -> ExplanationPage:
    """Groups of that name as the scheduler last wrote them. Raises StoreError."""

    async def work(conn: Connection) -> ExplanationPage:
        now, promised = await reader.as_of(conn), await reader.reservations(conn)
        told = [
            story.explain_record(
                record, now, await reader.allocations(conn, record.id), promised.get(record.id)
            )
            for record in await reader.find(conn, name)
        ]
        return ExplanationPage(now, "database", warnings, tuple(told))

    return with_reader(data, url, work)


def with_reader(data: Path, url: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` finds, over a connection of its own. Raises StoreError."""

    async def run() -> T:
        async with reader.open_reader(data=None if url else data, url=url) as conn:
            return await work(conn)

    quiet()
    try:
        return asyncio.run(run())
    except psycopg.Error as error:
        raise StoreError(f"the database does not answer: {' '.join(str(error).split())}") from error
