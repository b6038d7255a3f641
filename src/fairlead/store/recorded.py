"""All that the ledger has of a stretch of time, for a workload to be made of it.

Used by the command line (`fairlead history export`, `fairlead replay --policy`) over a connection of
`store.reader.open_reader`; `sim.recorded` makes the workload. Must not write.
"""

from typing import Any, NamedTuple

import msgspec
from psycopg.types.json import set_json_loads

from fairlead.model.group import GroupRecord
from fairlead.model.record import NodeLife, PodLife, Source
from fairlead.model.settings import Settings
from fairlead.store import rows
from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

_POD = PodLife.__struct_fields__[:-1]
"""All but `told`, which is for the recorder only."""


class Stretch(NamedTuple):
    """Pods that were there at some time between, nodes likewise, Fairlead's own groups if it was at work, and
    the settings that it had last."""

    pods: list[PodLife]
    nodes: list[NodeLife]
    groups: list[GroupRecord]
    settings: Settings | None


async def stretch(conn: Connection, since: int, until: int) -> Stretch:
    """What there is between the two, milliseconds since the epoch, as of one moment."""
    set_json_loads(msgspec.json.decode, conn)
    asked = {"since": since, "until": until}
    async with conn.transaction():
        await conn.execute(SQL["at_once"])
        pods = [_pod(row) for row in await _all(conn, "recorded_pods", asked)]
        nodes = [_node(row) for row in await _all(conn, "recorded_nodes", asked)]
        groups = rows.groups(await _all(conn, "recorded_groups", asked))
        settings = await _all(conn, "recorded_settings", asked)
    return Stretch(pods, nodes, groups, _settings(settings[0][0]) if settings else None)


async def _all(conn: Connection, name: str, values: dict[str, int]) -> list[tuple[Any, ...]]:
    return await (await conn.execute(SQL[name], values)).fetchall()


def _pod(row: tuple[Any, ...]) -> PodLife:
    values: dict[str, Any] = dict(zip(_POD, row, strict=True))
    values["source"] = Source(values["source"])
    return PodLife(**values)


def _node(row: tuple[Any, ...]) -> NodeLife:
    uid, name, since, version, capacity, allocatable, labels, taints, *rest = row
    return NodeLife(uid, name, since, version, capacity, allocatable, labels, tuple(taints), *rest)


def _settings(text: str) -> Settings | None:
    """Those of another version may not be readable; then nobody knows them."""
    try:
        return msgspec.json.decode(text, type=Settings)
    except msgspec.MsgspecError:
        return None
