"""What people see of a Scheduling: why it is where it is, ESI's conditions, Kubernetes Events.

Called by `control.esi.scheduling` once it has moved. Writes are the budget: one Event for all jobs that come
to a stage at the same moment, one when it begins to wait. Must not move anything.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from fairlead.control.esi import strategy
from fairlead.control.esi.claims import durable, waits_for
from fairlead.control.esi.terms import ACTIVE, Round, names, wrong
from fairlead.control.esi.writing import announce
from fairlead.core.esi.table import SlotTable
from fairlead.model.batchjob import JobState
from fairlead.model.esi import Ref
from fairlead.model.group import Why
from fairlead.model.scheduling import (
    ConditionJob,
    JobStage,
    Scheduling,
    SchedulingCondition,
    SchedulingState,
)

if TYPE_CHECKING:
    from fairlead.control.esi.scheduling import Run

STATE_CHANGE = "StateChange"
_MOST = 100
"""So many jobs are told in one condition: first those that are waited for."""


def show(run: "Run") -> None:
    """Reason, place and conditions, as they are now."""
    text, position = run.round.waiting.get(run.scheduling.uid, ("", 0))
    if run.status.state is not SchedulingState.ACQUIRE:
        text, position = _reason(run), 0
    elif not text:
        text = _claiming(run)
    if position and not run.status.position:
        note = f"Scheduling {run.scheduling.name} waits, as number {position}: {text}"
        announce(run.round, run.scheduling, Why.QUEUED, note)
    run.status = run.change(reason=text, position=position)
    run.status = run.change(conditions=_conditions(run))


def tell(round: Round, scheduling: Scheduling, news: Mapping[JobStage, list[Ref]]) -> None:
    """One Event for each stage to which jobs have just come."""
    for stage, refs in news.items():
        announce(round, scheduling, STATE_CHANGE, f"{stage}: {names(refs, 20)}")


# -- reasons ---------------------------------------------------------------------------------------------


def _claiming(run: "Run") -> str:
    waits = waits_for(durable(run.round, run.scheduling))
    return f"the claims of {waits} are being written" if waits else "its jobs are being queued"


def _reason(run: "Run") -> str:
    status = run.status
    match status.state:
        case SchedulingState.FAILED:
            return "; ".join(status.problems)
        case SchedulingState.CONFIRMATION:
            return _confirming(run)
        case SchedulingState.SUBMISSION:
            return _submitting(run)
        case SchedulingState.AWAITING_COMPLETION:
            going = [ref for ref, job in run.owned.items() if job.state is not JobState.COMPLETED]
            return wrong(run.scheduling) or f"waits for the end of {names(going)}"
        case SchedulingState.COMPLETED:
            return f"{_ended(run)}; its claims are released when it is deleted"
        case SchedulingState.FINISHED:
            return f"{_ended(run)}; it is over for good: delete it to use its name again"
        case _:
            return _ended(run)


def _ended(run: "Run") -> str:
    failed = run.status.failed_jobs
    return f"all jobs have ended; failed: {names(failed)}" if failed else "all jobs have completed"


def _confirming(run: "Run") -> str:
    waits = [ref for ref, job in run.owned.items() if job.state in (JobState.SUBMITTED, JobState.SCHEDULED)]
    return wrong(run.scheduling) or f"waits until the pods of {names(waits)} are in their slots"


def _submitting(run: "Run") -> str:
    spec, table = run.scheduling.spec, run.table
    if spec is None or wrong(run.scheduling):
        return wrong(run.scheduling)
    name = run.scheduling.testbed
    if table is None:
        return f"waits for Testbed {name}, which does not exist or has no slots"
    free = run.offered
    need = next((each for each in strategy.needs(spec, run.waiting, free) if not each.met), None)
    if need is None:
        return f"waits for slots of Testbed {name}"
    known = len(table.order)
    job = need.job.name
    if need.slots:
        which = _which(job, need.slots, free, known, str(name))
        return which + _held_back(run, need.slots) + _broken(table, need.slots)
    if need.number > known:
        return f"job {job} needs {need.number} slots, and Testbed {name} has {known}"
    said = f"job {job} needs {need.number} free slots, and {len(free)} of {known} are free for it"
    return said + _held_back(run, range(known)) + _broken(table, range(known))


def _which(job: str, slots: tuple[int, ...], free: list[int], known: int, testbed: str) -> str:
    unknown = [slot for slot in slots if not 0 <= slot < known]
    if unknown:
        return f"job {job} asks for slot {unknown[0]}, and Testbed {testbed} has slots 0 to {known - 1}"
    busy = [slot for slot in slots if slot not in free]
    shown = ", ".join(map(str, busy[:4])) + (f" and {len(busy) - 4} more" if len(busy) > 4 else "")
    return f"job {job} waits for slots that are not free: {shown}"


def _held_back(run: "Run", slots: tuple[int, ...] | range) -> str:
    """Which earlier Scheduling these slots are kept for, if any."""
    table = run.table
    kept = run.round.kept.get(table.testbed, {}) if table is not None else {}
    uid = next((kept[slot] for slot in slots if slot in kept and kept[slot] != run.scheduling.uid), "")
    other = run.esi.schedulings.get(uid)
    return f"; some are kept for Scheduling {other.ref}, which came before" if other is not None else ""


def _broken(table: SlotTable, slots: Collection[int]) -> str:
    """What is wrong with the first of these slots that nobody can use now, if any."""
    found = (slot for number in slots if (slot := table.at(number)) is not None and slot.problem)
    slot = next(found, None)
    return f"; slot {slot.position} ({slot.key}) cannot be used: {slot.problem}" if slot is not None else ""


# -- conditions ------------------------------------------------------------------------------------------


def _conditions(run: "Run") -> list[SchedulingCondition]:
    """What its present state asks; a time stays as it was while nothing else of a condition changes."""
    before = {(each.condition, each.job_name): each for each in run.status.conditions}
    found: list[SchedulingCondition] = []
    for each in _asked(run):
        old = before.get((each.condition, each.job_name))
        time = run.round.text
        if old is not None and structs.replace(old, last_update_timestamp="") == each:
            time = old.last_update_timestamp
        found.append(structs.replace(each, last_update_timestamp=time))
    return found


def _asked(run: "Run") -> list[SchedulingCondition]:
    state = run.status.state
    if state is SchedulingState.ACQUIRE:
        return _acquiring(run)
    if state is SchedulingState.COMPLETED:
        return [
            SchedulingCondition("AWAIT_JOBS_RELEASED", False),
            SchedulingCondition("AWAIT_SLOTS_RELEASED", False),
        ]
    if state not in ACTIVE:
        return []
    done = {ref: job.state is JobState.COMPLETED for ref, job in run.owned.items()}
    asked = [_of_jobs("AWAIT_COMPLETION", done)]
    if state is SchedulingState.CONFIRMATION:
        placed = {
            ref: job.state in (JobState.RUNNING, JobState.COMPLETED)
            for ref, job in run.owned.items()
            if job.state is not JobState.IN_QUEUE
        }
        return [*asked, _of_jobs("AWAIT_JOBS_SCHEDULED", placed)]
    if state is SchedulingState.SUBMISSION:
        return [*asked, *_of_slots(run)]
    return [*asked, _of_jobs("AWAIT_JOB_IN_QUEUE", dict.fromkeys(run.waiting, True))]


def _acquiring(run: "Run") -> list[SchedulingCondition]:
    owned = run.owned
    waits, _ = run.round.waiting.get(run.scheduling.uid, ("", 0))
    testbed = run.esi.testbed(run.scheduling.testbed)
    used = testbed is not None and bool(run.round.owned.get(run.scheduling.uid))
    queued = {ref: ref in owned and owned[ref].state is not JobState.READY for ref in run.jobs}
    claims = _of_jobs("AWAIT_JOBS_ACQUIRED", {ref: ref in owned for ref in run.jobs})
    return [
        structs.replace(claims, error=waits),
        SchedulingCondition("AWAIT_SLOTS_ACQUIRED", used, testbed_name=run.scheduling.testbed),
        _of_jobs("AWAIT_JOBS_ENQUEUE", queued),
    ]


def _of_jobs(name: str, values: dict[Ref, bool]) -> SchedulingCondition:
    order = sorted(values.items(), key=lambda each: each[1]) if len(values) > _MOST else values.items()
    jobs = [ConditionJob(ref, value) for ref, value in order][:_MOST]
    return SchedulingCondition(name, bool(values) and all(values.values()), jobs=jobs)


def _of_slots(run: "Run") -> list[SchedulingCondition]:
    spec = run.scheduling.spec
    if spec is None:
        return []
    name = "AWAIT_NUMBER_OF_SLOTS" if spec.queue_based is not None else "AWAIT_SLOTS_AVAILABLE"
    return [
        SchedulingCondition(
            name,
            need.met,
            job_name=need.job,
            slot_ids=list(need.slots),
            number_of_slots_required=need.number,
            testbed_name=run.scheduling.testbed,
        )
        for need in strategy.needs(spec, run.waiting, run.offered)[:_MOST]
    ]
