"""How ESI's REST interface shows Testbeds, jobs and Schedulings, and what it takes.

Pure: made from the engine's nouns for `api.esi.picture`, read from bodies for `api.esi.rest`. Names only,
for the request tells the namespace; what is in another one is shown as NAMESPACE/NAME. Keys that ESI does
not have (problems, reason, position, fairlead) are left out where there is nothing to say.
"""

import re
from typing import TypeVar

import msgspec
from msgspec import Struct

from fairlead.model.batchjob import BatchJob, BatchJobStatus, ScheduledEvent
from fairlead.model.esi import Ref, SlotStatus, Testbed, TestbedStatus
from fairlead.model.scheduling import (
    Scheduling,
    SchedulingOptions,
    SchedulingSpec,
    SchedulingStatus,
    SlotBased,
    SlotJob,
    SlotMode,
)

MODES = ("STRICT", "RELAXED")
LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_AT = re.compile(r"(?P<what>.*) - at `\$\.?(?P<where>.*)`", re.S)
_T = TypeVar("_T")


class ShapeError(ValueError):
    """A body that cannot be taken; the text names the place and what is wrong there."""


class TestbedShape(Struct, frozen=True, rename="camel", omit_defaults=True):
    __test__ = False

    name: str
    state: str
    number_of_nodes: int
    number_of_slots_per_node: int
    slots_by_node: dict[str, list[SlotStatus]]
    problems: list[str] = []
    node_problems: dict[str, list[str]] = {}


class JobShape(Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    state: str
    external_scheduler: dict[str, list[dict[str, str]]]
    scheduled_events: list[ScheduledEvent]
    omitted_events: int = 0
    """How many there were before these."""
    problems: list[str] = []


class JobBody(Struct, frozen=True, rename="camel"):
    """What PUT reads of a job: it stores `externalScheduler`, null empties it; all else is left alone."""

    name: str
    external_scheduler: dict[str, list[dict[str, str]]] | None


class StageShape(Struct, frozen=True):
    name: str
    state: str


class SlotsOfJob(Struct, frozen=True):
    name: str
    slots: list[int]


class SlotsShape(Struct, frozen=True):
    jobs: list[SlotsOfJob]
    mode: str = MODES[0]


class SchedulingBody(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What POST reads of a Scheduling; `checked` says what must be there."""

    name: str = ""
    test_bed: str = ""
    queue: list[str] | None = None
    slots: SlotsShape | None = None
    fairlead: SchedulingOptions | None = None


class SchedulingShape(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`queue` or `slots`, as in a body."""

    name: str
    test_bed: str
    state: str
    job_status: list[StageShape]
    queue: list[str] | None = None
    slots: SlotsShape | None = None
    fairlead: SchedulingOptions | None = None
    """Options beyond ESI's; None where there are none."""
    reason: str = ""
    position: int = 0
    problems: list[str] = []
    failed_jobs: list[str] = []


# -- what is shown -----------------------------------------------------------------------------------


def testbed(thing: Testbed, status: TestbedStatus) -> TestbedShape:
    by_node: dict[str, list[SlotStatus]] = {}
    for slot in status.slots:
        by_node.setdefault(slot.node_name, []).append(slot)
    return TestbedShape(
        name=thing.name,
        state=status.state,
        number_of_nodes=len({slot.node_name for slot in status.slots if slot.position >= 0}),
        number_of_slots_per_node=thing.spec.slots_per_node if thing.spec else 0,
        slots_by_node=by_node,
        problems=_problems(thing.problem, status.problems),
        node_problems=status.node_problems,
    )


def job(thing: BatchJob, status: BatchJobStatus) -> JobShape:
    return JobShape(
        name=thing.name,
        state=status.state,
        external_scheduler=(thing.spec and thing.spec.external_scheduler) or {},
        scheduled_events=status.scheduled_events,
        omitted_events=status.omitted_events,
        problems=_problems(thing.problem, status.problems),
    )


def scheduling(thing: Scheduling, status: SchedulingStatus) -> SchedulingShape:
    spec, namespace = thing.spec, thing.namespace
    slots = spec and spec.slot_based
    queue = spec and spec.queue_based
    return SchedulingShape(
        name=thing.name,
        test_bed=_name(thing.testbed, namespace) if thing.testbed else "",
        state=status.state,
        job_status=[StageShape(_name(each.name, namespace), each.state) for each in status.job_states],
        queue=None if queue is None else [_name(ref, namespace) for ref in queue],
        slots=slots
        and SlotsShape(
            [SlotsOfJob(_name(each.name, namespace), each.slot_ids) for each in slots.jobs],
            slots.mode.upper(),
        ),
        fairlead=spec.fairlead if spec and spec.fairlead != SchedulingOptions() else None,
        reason=status.reason,
        position=status.position,
        problems=_problems(thing.problem, status.problems),
        failed_jobs=[_name(ref, namespace) for ref in status.failed_jobs],
    )


def _problems(problem: str, others: list[str]) -> list[str]:
    return [problem, *(each for each in others if each != problem)] if problem else others


def _name(ref: Ref, namespace: str) -> str:
    return ref.name if ref.namespace == namespace else str(ref)


# -- what is taken -----------------------------------------------------------------------------------


def read(body: bytes, form: type[_T]) -> _T:
    """The body as this shape. Raises ShapeError naming the place within it."""
    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        what, where = (found["what"], found["where"]) if found else (str(error), "")
        raise ShapeError(f"{where or 'the body'}: {what[:1].lower()}{what[1:]}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ShapeError(f"the body is no JSON: {error}") from error


def checked(body: bytes) -> SchedulingBody:
    """A Scheduling to be stored. Raises ShapeError."""
    found = read(body, SchedulingBody)
    _must_be_name("name", found.name)
    _must_be_name("testBed", found.test_bed)
    if (found.queue is None) == (found.slots is None):
        given = "neither" if found.queue is None else "both"
        raise ShapeError(f"a Scheduling is either SlotBased OR QueueBased: slots or queue, not {given}")
    if found.queue is not None:
        if not found.queue:
            raise ShapeError("queue: no job is named")
        for number, name in enumerate(found.queue):
            _must_be_name(f"queue[{number}]", name)
    if found.slots is not None:
        _check_slots(found.slots)
    return found


def _check_slots(slots: SlotsShape) -> None:
    if slots.mode.upper() not in MODES:
        raise ShapeError(f"slots.mode: {slots.mode!r} is neither STRICT nor RELAXED")
    if not slots.jobs:
        raise ShapeError("slots.jobs: no job is named")
    seen: dict[str, int] = {}
    for number, each in enumerate(slots.jobs):
        where = f"slots.jobs[{number}]"
        _must_be_name(f"{where}.name", each.name)
        if each.name in seen:
            raise ShapeError(f"{where}.name: {each.name} is named in slots.jobs[{seen[each.name]}], too")
        seen[each.name] = number
        if not each.slots:
            raise ShapeError(f"{where}.slots: {each.name} is given no slot")
        before = set[int]()
        for place, slot in enumerate(each.slots):
            if slot < 0:
                raise ShapeError(f"{where}.slots[{place}]: {slot} is no slot number")
            if slot in before:
                raise ShapeError(f"{where}.slots[{place}]: slot {slot} is given to {each.name} twice")
            before.add(slot)


def _must_be_name(where: str, name: str) -> None:
    if not name.strip():
        raise ShapeError(f"{where}: must not be blank")
    if len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        raise ShapeError(
            f"{where}: {name[:80]!r} is no name of an object (small letters, digits, '-' and '.')"
        )


def spec_of(body: SchedulingBody, namespace: str) -> SchedulingSpec:
    """The spec that a checked body asks for."""
    slots = None
    if body.slots is not None:
        jobs = [SlotJob(Ref(namespace, each.name), each.slots) for each in body.slots.jobs]
        slots = SlotBased(jobs, SlotMode(body.slots.mode.lower()))
    return SchedulingSpec(
        testbed=Ref(namespace, body.test_bed),
        queue_based=None if body.queue is None else [Ref(namespace, name) for name in body.queue],
        slot_based=slots,
        fairlead=body.fairlead or SchedulingOptions(),
    )
