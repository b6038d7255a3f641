"""Looking into the store without being the scheduler.

Used by the command line when no scheduler answers, and by the read-only HTTP answers for ended groups
(`PostgresStore.reading` gives the connection there). Must not write, lead, migrate or take the writer's lock.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import psycopg

from fairlead.model.group import GroupRecord
from fairlead.model.plan import Placement, Reserve
from fairlead.store import rows, schema
from fairlead.store.embedded import EmbeddedServer, running_postmaster
from fairlead.store.errors import StoreError
from fairlead.store.schema import Connection
from fairlead.store.session import connect
from fairlead.store.sql import SQL


@contextlib.contextmanager
def served(data: Path) -> Generator[EmbeddedServer]:
    """The embedded server of a data folder: the scheduler's if it runs, else started for this while."""
    server = EmbeddedServer(data)
    if not server.exists():
        raise StoreError(
            f"there is no database in {data}: has `fairlead scheduler` or `fairlead recorder` run with this"
            " --data-dir?"
        )
    if running_postmaster(data) is None:
        server.ensure()
    try:
        yield server
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def open_reader(*, data: Path | None = None, url: str = "") -> AsyncGenerator[Connection]:
    """A connection to the store of that folder or URL. Raises StoreError when there is none."""
    with contextlib.ExitStack() as stack:
        if not url:
            if data is None:
                raise ValueError("a data folder or a database URL is needed")
            server = await asyncio.to_thread(stack.enter_context, served(data))
            url = server.url
        try:
            conn = await connect(url, "fairlead reader")
        except psycopg.OperationalError as error:
            raise StoreError(f"the database does not answer: {' '.join(str(error).split())}") from error
        try:
            if await schema.current(conn) == 0:
                raise StoreError(f"the database {conn.info.dbname} has no Fairlead tables (yet)")
            yield conn
        finally:
            await conn.close()


async def groups(conn: Connection, ended: bool = False, limit: int = 1000) -> list[GroupRecord]:
    """Running, starting, queued (in queue order), held; then ended ones, the latest first."""
    answer = await conn.execute(SQL["list_groups"], {"ended": ended, "limit": limit})
    return rows.groups(await answer.fetchall())


async def find(conn: Connection, name: str) -> list[GroupRecord]:
    """Groups by id, by name, or by namespace/name; those that have not ended first, then the newest."""
    name = rows.clean(name)
    namespace, _, rest = name.partition("/")
    answer = await conn.execute(SQL["find_groups"], {"name": name, "namespace": namespace, "rest": rest})
    return rows.groups(await answer.fetchall())


async def reservations(conn: Connection) -> dict[str, Reserve]:
    """The promised starts by the group's id, as the last recorded plan holds them."""
    answer = await conn.execute(SQL["restore_reservations"])
    return {row[0]: rows.reservation(row) for row in await answer.fetchall()}


async def as_of(conn: Connection) -> int:
    """When the scheduler last wrote (milliseconds since the epoch), 0 if never."""
    row = await (await conn.execute(SQL["as_of"])).fetchone()
    return int(row[0]) if row else 0


async def allocations(conn: Connection, group: str) -> list[Placement]:
    """What the group (by id) holds, as granted; nothing once it has ended."""
    answer = await conn.execute(SQL["allocations_of"], {"group": rows.clean(group)})
    return [Placement(pod, node) for pod, node in await answer.fetchall()]
