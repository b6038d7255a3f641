"""The twin of `PostgresStore` without a database: for the simulator, for tests, for a look without traces.

Same port, same events in the same order, but everything happens at once inside `perform`, so a
simulation stays deterministic. A `Disk` outlives stores as a database outlives processes. Must not use
a clock of its own.
"""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.model.command import Command, RecordAllocations
from fairlead.model.event import (
    AllocationsRecorded,
    AllocationsRefused,
    Event,
    GrantRestored,
    GroupRestored,
    ReservationRestored,
    StoreLost,
    StoreReady,
    Synced,
)
from fairlead.model.group import GroupRecord, Outcome, Phase
from fairlead.model.plan import Grant, Reserve
from fairlead.runtime.port import Inbox
from fairlead.store.batch import HANDLES, Batch, Buffer


class Disk:
    """What is durable."""

    def __init__(self) -> None:
        self.epoch = 0
        self.groups: dict[str, GroupRecord] = {}
        self.plans: set[str] = set()
        self.grants: dict[str, Grant] = {}
        self.open: dict[str, None] = {}
        self.reservations: tuple[Reserve, ...] = ()

    def write(self, batch: Batch) -> None:
        for plan in batch.plans:
            if plan.plan not in self.plans:
                self.plans.add(plan.plan)
                self.grants.update({grant.id: grant for grant in plan.grants})
                self.open.update(dict.fromkeys(grant.id for grant in plan.grants))
        self.groups.update(batch.groups)
        for name in batch.settled:
            self.open.pop(name, None)
        if batch.reservations is not None:
            self.reservations = batch.reservations

    def restored_groups(self) -> list[GroupRecord]:
        """Not ended or rejected, or with an open grant, or the newest ended of its label; by sequence."""
        newest: dict[str, GroupRecord] = {}
        for record in self.groups.values():
            if record.phase is Phase.ENDED and record.key.startswith("label:"):
                best = newest.get(record.key)
                if best is None or record.incarnation > best.incarnation:
                    newest[record.key] = record
        wanted = {record.id for record in newest.values()} | {self.grants[name].group for name in self.open}
        wanted |= {r.id for r in self.groups.values() if r.outcome is Outcome.REJECTED}
        found = [r for r in self.groups.values() if r.phase is not Phase.ENDED or r.id in wanted]
        return sorted(found, key=lambda record: (record.seq, record.first_seen, record.id))

    def restored_reservations(self) -> list[Reserve]:
        """The promises of groups that still wait, the earliest first; the others are dropped."""
        self.reservations = tuple(
            reserve
            for reserve in self.reservations
            if (record := self.groups.get(reserve.group)) is not None
            and record.phase in (Phase.HELD, Phase.QUEUED)
        )
        return sorted(self.reservations, key=lambda reserve: (reserve.start, reserve.group))

    def open_grants(self) -> list[Grant]:
        """By their group's sequence, then by age."""

        def place(grant: Grant) -> tuple[bool, int, int, str]:
            record = self.groups.get(grant.group)
            return (record is None, record.seq if record else 0, grant.at, grant.id)

        return sorted((self.grants[name] for name in self.open), key=place)


class MemoryStore:
    """`attach` is `run` without a loop. `lose` and `recover` are an outage."""

    handles = HANDLES

    def __init__(
        self, disk: Disk | None = None, *, request_timeout: int = 10_000, now: Callable[[], int] = lambda: 0
    ) -> None:
        self.disk = disk if disk is not None else Disk()
        self.epoch = 0
        self.error = "not connected yet"
        self._request_timeout = request_timeout
        self._now = now
        self._buffer = Buffer()
        self._inbox: Inbox | None = None
        self._fenced = False

    def attach(self, inbox: Inbox) -> None:
        """Take the lead and tell everything there is."""
        self._inbox = inbox
        self.disk.epoch += 1
        self.epoch, self.error = self.disk.epoch, ""
        not_before = self._now() + self._request_timeout
        events: list[Event] = [GroupRestored(record) for record in self.disk.restored_groups()]
        events += [GrantRestored(grant, not_before) for grant in self.disk.open_grants()]
        events += [ReservationRestored(reserve) for reserve in self.disk.restored_reservations()]
        self._emit(*events, StoreReady(self.epoch), Synced("store"))
        self._flush()

    async def run(self, inbox: Inbox) -> None:
        self.attach(inbox)
        await asyncio.Event().wait()

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if self._fenced and isinstance(command, RecordAllocations):
                self._emit(AllocationsRefused(command.plan, self.error))
            else:
                self._buffer.add(command)
        self._flush()

    async def close(self) -> None:
        self._inbox = None

    def lose(self, error: str) -> None:
        """From now on nothing is written."""
        self.error = error
        self._emit(StoreLost(error))

    def recover(self) -> None:
        """The outage ends; what was queued meanwhile is written."""
        if self.disk.epoch != self.epoch:
            return self._give_up()
        self.error = ""
        self._emit(StoreReady(self.epoch))
        self._flush()
        return None

    def _flush(self) -> None:
        while self._buffer and not self.error and self._inbox is not None:
            if self.disk.epoch != self.epoch:
                return self._give_up()
            for plan in list(self._buffer.plans.values()):
                if plan.epoch != self.epoch:
                    self._buffer.drop_plan(plan)
                    self._emit(AllocationsRefused(plan.plan, f"fenced: epoch {plan.epoch}, not {self.epoch}"))
            batch = self._buffer.take(None)
            self.disk.write(batch)
            self._emit(*(AllocationsRecorded(plan.plan) for plan in batch.plans))
        return None

    def _give_up(self) -> None:
        self._fenced = True
        self.error = f"fenced by epoch {self.disk.epoch}"
        plans, self._buffer = list(self._buffer.plans), Buffer()
        self._emit(StoreLost(self.error))
        self._emit(*(AllocationsRefused(plan, self.error) for plan in plans if plan not in self.disk.plans))

    def _emit(self, *events: Event) -> None:
        if self._inbox is not None and events:
            self._inbox.put(events)
