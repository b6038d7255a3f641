"""What waits to be written, and one transaction that writes it.

`Buffer` is filled by `PostgresStore.perform` and emptied by its writer; `write` sends a `Batch`. The number
of statements depends on which tables are concerned, never on how many rows; all go out in one round trip.
Must not reconnect or emit events: it raises, and the writer decides.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import psycopg
from msgspec import Struct

from fairlead.model.command import Command, RecordAllocations, SaveGroups, SettleGrants
from fairlead.model.group import GroupRecord
from fairlead.model.plan import Grant, Reserve
from fairlead.store import rows
from fairlead.store.errors import FencedError
from fairlead.store.schema import Connection
from fairlead.store.sql import SQL

HANDLES = (RecordAllocations, SaveGroups, SettleGrants)
CHUNK = 500
"""Records written behind in one transaction: a flush may not delay a plan for long."""
_FENCED = "FL001"


class Batch(Struct, frozen=True):
    """`reservations` is None when they are as they were last written."""

    plans: tuple[RecordAllocations, ...]
    groups: dict[str, GroupRecord]
    settled: tuple[str, ...]
    reservations: tuple[Reserve, ...] | None


class Buffer:
    """Coalesced by id, so bounded by the number of groups and open grants however long the store is away."""

    def __init__(self) -> None:
        self.plans: dict[str, RecordAllocations] = {}
        self.groups: dict[str, GroupRecord] = {}
        self.settled: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self.plans or self.groups or self.settled)

    def add(self, command: Command) -> None:
        match command:
            case RecordAllocations():
                self.plans[command.plan] = command
                self._save(command.groups)
            case SaveGroups():
                self._save(command.groups)
            case SettleGrants():
                self.settled.update(dict.fromkeys(command.grants))
            case _:
                raise TypeError(f"the store does not perform {type(command).__name__}")

    def _save(self, records: Sequence[GroupRecord]) -> None:
        for record in records:
            self.groups[record.id] = record

    def take(self, last: tuple[Reserve, ...] | None) -> Batch:
        """All pending plans and settled grants, the plans' groups, and a chunk of the other records."""
        plans = tuple(self.plans.values())
        wanted = [record.id for plan in plans for record in plan.groups]
        wanted += islice(self.groups, CHUNK)
        groups = {name: self.groups[name] for name in wanted if name in self.groups}
        for name in groups:
            del self.groups[name]
        reservations = plans[-1].reservations if plans and plans[-1].reservations != last else None
        batch = Batch(plans, groups, tuple(self.settled), reservations)
        self.plans, self.settled = {}, {}
        return batch

    def give_back(self, batch: Batch) -> None:
        """After a failure: as if never taken, but what came in since is later and wins."""
        self.plans = {plan.plan: plan for plan in batch.plans} | self.plans
        self.groups = batch.groups | self.groups
        self.settled = dict.fromkeys(batch.settled) | self.settled

    def drop_plan(self, plan: RecordAllocations) -> None:
        self.plans.pop(plan.plan, None)


def statements(batch: Batch, epoch: int, now: int) -> list[tuple[bytes, dict[str, Any]]]:
    """The batch as SQL: at most five statements between BEGIN and COMMIT, the fence first."""
    found: list[tuple[bytes, dict[str, Any]]] = [(SQL["fence"], {"epoch": epoch, "now": now})]
    if batch.plans:
        grants = [rows.grant_row(plan.plan, grant) for plan in batch.plans for grant in _once(plan.grants)]
        values = {
            "plans": rows.encode([rows.plan_row(plan) for plan in batch.plans]),
            "grants": rows.encode(grants),
        }
        found.append((SQL["record_plans"], values))
    if batch.groups:
        records = rows.encode([rows.group_row(record) for record in batch.groups.values()])
        found.append((SQL["save_groups"], {"groups": records}))
    if batch.settled:
        found.append((SQL["settle_grants"], {"grants": [rows.clean(name) for name in batch.settled]}))
    if batch.reservations is not None:
        promised = {reserve.group: rows.reservation_row(reserve) for reserve in batch.reservations}
        found.append((SQL["replace_reservations"], {"reservations": rows.encode(list(promised.values()))}))
    return found


def _once(grants: Sequence[Grant]) -> Sequence[Grant]:
    return list({grant.id: grant for grant in grants}.values())


async def write(conn: Connection, todo: Sequence[tuple[bytes, dict[str, Any]]]) -> None:
    """One transaction, one round trip. FencedError if a newer leader exists; nothing is written then.

    After any error the connection is left in the failed transaction: throw it away.
    """
    try:
        async with conn.pipeline():  # conn.transaction() would wait for an answer to BEGIN, and before COMMIT
            await conn.execute(SQL["begin"])
            for statement, values in todo:
                await conn.execute(statement, values)
            await conn.execute(SQL["commit"])
    except psycopg.Error as error:
        if error.sqlstate == _FENCED:
            message = error.diag.message_primary or ""
            raise FencedError(int(message.rsplit(" ", 1)[-1])) from error
        raise
