"""What ESI's clients see, encoded once per change: three tables of objects, and what has changed in them.

Kept by `api.esi.events` from the state of whichever life of the engine is on; read by `api.esi.rest`. A look
costs a comparison of identities per object: things and statuses are never changed in place. It must not
change the state.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import msgspec

from fairlead.api.esi import shapes
from fairlead.core.state import State
from fairlead.model.batchjob import BatchJob, BatchJobStatus
from fairlead.model.esi import Ref, Testbed, TestbedStatus
from fairlead.model.scheduling import Scheduling, SchedulingStatus

Table = Literal["testbeds", "jobs", "schedulings"]
TABLES: tuple[Table, ...] = ("testbeds", "jobs", "schedulings")
Thing = Testbed | BatchJob | Scheduling
Status = TestbedStatus | BatchJobStatus | SchedulingStatus

_encode = msgspec.json.Encoder().encode


class Shown(NamedTuple):
    """An object as clients see it: `body` is its JSON."""

    thing: Thing
    status: Status
    body: bytes


class Change(NamedTuple):
    """ADDED, MODIFIED or DELETED; of the last, `body` is the last one known."""

    action: str
    table: Table
    ref: Ref
    body: bytes


class Picture:
    """`standby`: who leads instead. Statuses are those that the cluster has while somebody else leads, and
    until this one has taken over: its own are from when it first saw each object."""

    def __init__(self, standby: Callable[[], str] = str) -> None:
        self._standby = standby
        self._by_uid: dict[Table, dict[str, Shown]] = {table: {} for table in TABLES}
        self._by_name: dict[Table, dict[Ref, Shown]] = {table: {} for table in TABLES}

    def of(self, table: Table, ref: Ref) -> Shown | None:
        return self._by_name[table].get(ref)

    def all(self, table: Table, namespace: str) -> list[Shown]:
        """Those of a namespace, by name."""
        known = self._by_name[table]
        return [known[ref] for ref in sorted(ref for ref in known if ref.namespace == namespace)]

    def look(self, state: State) -> list[Change]:
        """Take in what is new in the state."""
        esi, changes = state.esi, list[Change]()
        own = {} if self._standby() or esi.epoch != state.epoch else esi.status
        self._look("testbeds", esi.testbeds, own, changes)
        self._look("jobs", esi.jobs, own, changes)
        self._look("schedulings", esi.schedulings, own, changes)
        return changes

    def _look(
        self, table: Table, things: Mapping[str, Thing], own: Mapping[str, Status], changes: list[Change]
    ) -> None:
        known, names = self._by_uid[table], self._by_name[table]
        for uid in sorted(known.keys() - things.keys()):
            gone = known.pop(uid)
            del names[gone.thing.ref]
            changes.append(Change("DELETED", table, gone.thing.ref, gone.body))
        for uid, thing in things.items():
            status = own.get(uid, thing.status)
            old = known.get(uid)
            if old is not None and old.thing is thing and old.status is status:
                continue
            known[uid] = names[thing.ref] = shown = Shown(thing, status, encoded(thing, status))
            if old is None or old.body != shown.body:
                changes.append(Change("MODIFIED" if old else "ADDED", table, thing.ref, shown.body))


def encoded(thing: Thing, status: Status) -> bytes:
    """The object's JSON as REST and push show it."""
    match thing, status:
        case Testbed(), TestbedStatus():
            return _encode(shapes.testbed(thing, status))
        case BatchJob(), BatchJobStatus():
            return _encode(shapes.job(thing, status))
        case Scheduling(), SchedulingStatus():
            return _encode(shapes.scheduling(thing, status))
        case _:
            raise AssertionError(f"{type(thing)} has a {type(status)}")
