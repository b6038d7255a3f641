"""What becomes of a BatchJob: ESI's machine, and the application that each of its states wants.

    INIT ─────────────► READY ◄──────────────────────────── PENDING_DELETION ◄── release, from all below
      (unreadable:        │ ▲                                  ▲         ▲
       FAILED, until      │ │ its application vanished         │ retry   │ reset
       it is repaired)    ▼ │                                  │         │
                     IN_QUEUE ──► SUBMITTED ──► SCHEDULED ──► RUNNING    │
                                      │             │            │       │
                                      ├─────────────┴────────────┤       │
                                      ▼ (any may be skipped)     ▼       │
                                  COMPLETED               FAILED_SUBMISSION

Called by `control.esi.drive`. Level-triggered: each step is a question about what there is now, so a restart,
or a time without a scheduler, is no special case. Retry keeps the claim through PENDING_DELETION and READY.
An application is created only when the assignment of its slots has been seen in the cluster, so that no crash
leaves one whose slots nobody knows. The Scheduling decides who starts where (`control.esi.scheduling`); a
claim counts or is void by `control.esi.claims`. Must not touch pods: they go with their application.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from fairlead.control.esi import apps
from fairlead.control.esi import jobs as ask
from fairlead.control.esi.jobs import Run
from fairlead.control.esi.terms import ACTIVE, Round, backoff, later, no_class
from fairlead.control.esi.writing import asks, create, delete, forget
from fairlead.core.esi.asking import why
from fairlead.core.esi.feed import home_of
from fairlead.core.esi.table import STARTED
from fairlead.model.application import APP_KINDS
from fairlead.model.batchjob import BatchJob, BatchJobStatus, JobCondition, JobState, ScheduledEvent
from fairlead.model.command import ObjectRef
from fairlead.model.esi import PRIORITY
from fairlead.model.event import ObjectFailed

_STEPS = 20
_SHOWN = 4
MOST_EVENTS = 100
"""Executions that a status keeps, the last ones: a job may run for years, and an object has 1.5 MB."""
ACCOUNT = "AWAIT_SERVICE_ACCOUNT_CONDITION"
PRIORITY_CLASS = "AWAIT_PRIORITY_CLASS_CONDITION"


# -- what a step does --------------------------------------------------------------------------------------


def _keep(run: Run) -> BatchJobStatus:
    return run.status


def _let_go(run: Run) -> BatchJobStatus:
    return run.change(
        active_scheduling=None, claimed_by="", attempts=0, retry_at="", scheduled_events=_closed(run, False)
    )


def _give_up(run: Run) -> BatchJobStatus:
    """It cannot run: whoever has claimed it loses it."""
    return structs.replace(_let_go(run), problems=[ask.why_wrong(run.round, run.job)], **_NOWHERE)


def _begin(run: Run) -> BatchJobStatus:
    return run.change(problems=[], retry_at="", **_NOWHERE)


_NOWHERE: dict[str, object] = {"places": [], "slot_ids": [], "replication": 0, "application": ""}


def _clear(run: Run) -> BatchJobStatus:
    return run.change(**_NOWHERE)


def _start(run: Run) -> BatchJobStatus:
    """An execution begins."""
    status = run.status
    events = [*status.scheduled_events, ScheduledEvent(run.round.text, scheduling=status.active_scheduling)]
    more = max(len(events) - MOST_EVENTS, 0)
    return run.change(scheduled_events=events[more:], omitted_events=status.omitted_events + more)


def _complete(run: Run) -> BatchJobStatus:
    """An execution that nobody saw running has an entry, too."""
    seen = run.status.state is JobState.RUNNING
    status = run.status if seen else _start(run)
    return structs.replace(status, scheduled_events=_close(status, run, True), problems=[])


def _fail(run: Run) -> BatchJobStatus:
    text, job = ask.failure(run), run.job
    run.esi.failures.pop((str(job.kind), job.namespace, job.name), None)
    forget(run.round, job.uid, job.name)
    return _counted(run, text)


def _lose(run: Run) -> BatchJobStatus:
    return structs.replace(_counted(run, "its application was deleted before it had ended"), **_NOWHERE)


def _counted(run: Run, text: str) -> BatchJobStatus:
    """One more failed attempt."""
    attempts = run.status.attempts + 1
    pause = backoff(run.round.owner(run.status), attempts)
    again = later(run.round.now + pause)
    events = _closed(run, False)
    return run.change(attempts=attempts, retry_at=again, problems=[text], scheduled_events=events)


def _start_anew(run: Run) -> BatchJobStatus:
    """The failure is forgiven. It is queued again where its Scheduling still goes on, else let go."""
    owner = run.round.owner(run.status)
    going = owner is not None and run.esi.scheduling_status(owner.uid).state in ACTIVE
    status = run.status if going else _let_go(run)
    return structs.replace(status, attempts=0, retry_at="", reset=ask.wish(run.job), problems=[])


def _closed(run: Run, successful: bool) -> list[ScheduledEvent]:
    return _close(run.status, run, successful)


def _close(status: BatchJobStatus, run: Run, successful: bool) -> list[ScheduledEvent]:
    events = status.scheduled_events
    if not events or events[-1].stop:
        return events
    return [*events[:-1], structs.replace(events[-1], stop=run.round.text, successful=successful)]


# -- the machine -------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """If `asks` says yes, `does` gives the new status and the job moves on. `name` is ESI's condition id."""

    name: str
    asks: Callable[[Run], bool]
    to: JobState
    does: Callable[[Run], BatchJobStatus] = _keep


_RELEASE = Step("AWAIT_RELEASE_CONDITION", ask.released, JobState.PENDING_DELETION, _let_go)
_INVALID = Step("", ask.wrong, JobState.FAILED, _give_up)
_GONE = Step("AWAIT_DELETION", ask.vanished, JobState.READY, _lose)
_FAILURE = Step("AWAIT_FAILURE_CONDITION", ask.failed, JobState.FAILED_SUBMISSION, _fail)
_COMPLETION = Step("AWAIT_COMPLETION_CONDITION", ask.completed, JobState.COMPLETED, _complete)
_EXISTS = (_RELEASE, _GONE, _FAILURE, _COMPLETION)

MACHINE: Mapping[JobState, tuple[Step, ...]] = {
    JobState.INIT: (_INVALID, Step("", ask.always, JobState.READY)),
    JobState.READY: (
        _INVALID,
        Step("", ask.stray, JobState.PENDING_DELETION),
        Step("", ask.claim_is_void, JobState.READY, _let_go),
        Step("", ask.reset, JobState.READY, _start_anew),
        Step("AWAIT_ENQUEUE_REQUEST_CONDITION", ask.enqueued, JobState.IN_QUEUE, _begin),
    ),
    JobState.PENDING_DELETION: (Step("AWAIT_DELETION", ask.all_gone, JobState.READY, _clear),),
    JobState.IN_QUEUE: (
        _RELEASE,
        _INVALID,
        Step("", ask.stray, JobState.PENDING_DELETION),
        Step("AWAIT_CREATION_REQUEST_CONDITION", ask.requested, JobState.SUBMITTED),
    ),
    JobState.SUBMITTED: (
        *_EXISTS,
        Step("", ask.displaced, JobState.IN_QUEUE, _clear),
        Step("AWAIT_POD_SCHEDULED_CONDITION", ask.placed, JobState.SCHEDULED),
    ),
    JobState.SCHEDULED: (*_EXISTS, Step("AWAIT_RUNNING_CONDITION", ask.runs, JobState.RUNNING, _start)),
    JobState.RUNNING: _EXISTS,
    JobState.COMPLETED: (_RELEASE,),
    JobState.FAILED_SUBMISSION: (
        _RELEASE,
        Step("AWAIT_RESET_CONDITION", ask.reset, JobState.PENDING_DELETION, _start_anew),
        Step("AWAIT_RETRY_CONDITION", ask.retried, JobState.PENDING_DELETION),
    ),
    JobState.FAILED: (Step("AWAIT_REPAIR_CONDITION", ask.repaired, JobState.READY, _begin),),
    JobState.UNKNOWN: (Step("", ask.always, JobState.PENDING_DELETION, _let_go),),
}


def move(round: Round) -> None:
    """Let every BatchJob take the steps that are due, and see to its application."""
    round.each(list(round.esi.jobs.values()), _move)


def _move(round: Round, job: BatchJob) -> None:
    run = Run(round, job)
    before = run.status
    _adopt(run)
    _walk(run)
    _effect(run)
    problems = _said(run)
    if problems is not None and problems != run.status.problems:
        run.status = run.change(problems=problems)
    shown = (_conditions(run), _generation(run))
    if shown != (run.status.conditions, run.status.observed_generation):
        run.status = run.change(conditions=shown[0], observed_generation=shown[1])
    if run.status is not before:
        round.set(job.uid, run.status)


def _adopt(run: Run) -> None:
    """What is known by now and was not: whose claim it is, which application it has, a wish in vain."""
    status, job = run.status, run.job
    if status.active_scheduling is not None and not status.claimed_by:
        owner = run.round.owner(status)
        if owner is not None:
            run.status = run.change(claimed_by=owner.uid)
    app = run.app
    if app is not None:
        forget(run.round, job.uid, job.name)
        if status.state in STARTED and not status.application and not app.deleting:
            run.status = run.change(application=app.uid)
    if not ask.reset(run) and ask.wish(job) and status.state is not JobState.FAILED_SUBMISSION:
        run.status = run.change(reset=ask.wish(job))


def _walk(run: Run) -> None:
    for _ in range(_STEPS):
        step = next((step for step in MACHINE[run.status.state] if step.asks(run)), None)
        if step is None:
            return
        run.status = structs.replace(step.does(run), state=step.to)
        _adopt(run)


def _effect(run: Run) -> None:
    """What its state wants of the cluster."""
    state, app = run.status.state, run.app
    if state is JobState.PENDING_DELETION and app is not None and not app.deleting:
        delete(run.round, ObjectRef(str(APP_KINDS[type(app)]), app.namespace, app.name, app.uid))
    elif state is JobState.SUBMITTED and app is None and not _lacking(run) and _written(run):
        _create(run)


def _written(run: Run) -> bool:
    """Whether the cluster has it that the job is submitted, and into which slots."""
    seen, status = run.job.status, run.status
    return (seen.state, seen.places, seen.claimed_by, seen.slots) == (
        status.state, status.places, status.claimed_by, status.slots,
    )  # fmt: skip


def _create(run: Run) -> None:
    job, testbed = run.job, run.esi.testbed(run.status.slots)
    table = run.esi.tables.get(testbed.uid) if testbed is not None else None
    if testbed is None or table is None or run.esi.app(job) is not None:
        return
    slots = [table.slots[key] for key in run.status.places if key in table.slots]
    if not slots or not asks(run.round, job.uid, job.name):
        return
    why = apps.why_not(job, testbed)
    if why:  # as if the cluster had refused it
        key = (str(job.kind), job.namespace, job.name)
        run.esi.failures[key] = ObjectFailed("create", *key, 422, why)
        run.round.moved = True
        return
    create(run.round, apps.build(job, testbed, slots))


def _lacking(run: Run) -> dict[str, str]:
    """What its pods need and the cluster does not have: condition -> what to do about it."""
    job, name = run.job, ask.verdict(run.round, run.job).account
    found: dict[str, str] = {}
    if run.app is None and name and ("ServiceAccount", job.namespace, name) not in run.esi.names:
        found[ACCOUNT] = (
            f"service account {name} does not exist in namespace {job.namespace}: create it, or name another"
        )
    if run.esi.lacks(PRIORITY):
        found[PRIORITY_CLASS] = no_class(PRIORITY)
    return found


def _said(run: Run) -> list[str] | None:
    """What keeps it, of a job that has started but does not run; None for all others."""
    status = run.status
    if status.state not in (JobState.SUBMITTED, JobState.SCHEDULED):
        return None
    if status.state is JobState.SUBMITTED and (lacking := _lacking(run)):
        return list(lacking.values())
    refused = {run.esi.refused[pod.uid]: None for pod in run.pods if pod.uid in run.esi.refused}
    return list({**refused, **_without_slot(run)})[:_SHOWN]


def _without_slot(run: Run) -> dict[str, None]:
    """What keeps pods of it from getting one of its slots, as where that is none any more."""
    esi = run.esi
    waiting = (
        pod for pod in run.pods if home_of(pod) is not None and not (pod.node or pod.uid in esi.places)
    )
    return {f"pod {pod.name}: {why(run.round.state, pod)}": None for pod in islice(waiting, _SHOWN)}


def _conditions(run: Run) -> list[JobCondition]:
    """The questions of its present state, all of which say no: else it would have moved on."""
    status, job = run.status, run.job
    before = {each.condition: each for each in status.conditions}
    asked = {step.name: "" for step in MACHINE[status.state] if step.name}
    if status.state is JobState.SUBMITTED:
        asked |= _lacking(run)
    if status.state is JobState.PENDING_DELETION:
        asked[_GONE.name] = ask.kept(run)
    found: list[JobCondition] = []
    for name, error in asked.items():
        old = before.get(name)
        if old is None or old.error != error:
            old = JobCondition(name, False, job.ref, error, run.round.text)
        found.append(old)
    return found


_LASTING = (JobState.READY, JobState.RUNNING, JobState.COMPLETED, JobState.FAILED, JobState.FAILED_SUBMISSION)


def _generation(run: Run) -> int:
    """Our own writes of a spec move the generation: that alone is written only where a job stays for long."""
    status = run.status
    moved = status.state is not run.esi.job_status(run.job.uid).state
    return run.job.generation if moved or status.state in _LASTING else status.observed_generation
