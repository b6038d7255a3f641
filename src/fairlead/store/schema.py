"""Brings a database to the schema that this version of Fairlead knows.

Called by `store.session` after every connect and by `store.reader` (check only). Files in `migrations/`
are numbered without gaps and never change once released; each is one transaction with its entry in
`fairlead.schema_version`. Must not go back: a database of a newer Fairlead is refused.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct
from psycopg import AsyncConnection

from fairlead.store.errors import StoreError
from fairlead.store.sql import SQL

Connection = AsyncConnection[tuple[Any, ...]]
_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")


class Migration(Struct, frozen=True):
    version: int
    name: str
    script: bytes


@cache
def migrations() -> tuple[Migration, ...]:
    """All known ones, in order."""
    found: list[Migration] = []
    for entry in (files("fairlead.store") / "migrations").iterdir():
        match = _FILE.match(entry.name)
        if match:
            found.append(Migration(int(match[1]), match[2], entry.read_bytes()))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise RuntimeError("migrations must be numbered 0001, 0002, … without gaps")
    return tuple(found)


async def migrate(conn: Connection) -> int:
    """Apply what is missing; returns the version. Safe when several processes do it at once."""
    if await current(conn) == len(migrations()):
        return len(migrations())
    for migration in migrations():
        async with conn.transaction():
            await conn.execute(SQL["lock_migration"])
            await conn.execute(SQL["create_schema"])
            await conn.execute(SQL["create_schema_version"])
            if await current(conn) < migration.version:
                await conn.execute(migration.script)
                values = {"version": migration.version, "name": migration.name}
                await conn.execute(SQL["add_schema_version"], values)
    return len(migrations())


async def current(conn: Connection) -> int:
    """The database's version, 0 without a schema. Raises StoreError if it is newer than ours."""
    if not await _scalar(conn, "has_schema"):
        return 0
    version = int(await _scalar(conn, "schema_version"))
    if version > len(migrations()):
        raise StoreError(
            f"the database {conn.info.dbname} has schema version {version}, this Fairlead knows up to "
            f"{len(migrations())}: use the newer Fairlead, or another database"
        )
    return version


async def _scalar(conn: Connection, name: str) -> Any:
    row = await (await conn.execute(SQL[name])).fetchone()
    return row[0] if row else None
