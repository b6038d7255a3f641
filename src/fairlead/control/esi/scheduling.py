"""What becomes of a Scheduling: ESI's machine, with a way out of each of its states.

    INITIAL ──► ACQUIRE ──────────────► CONFIRMATION ◄───────────── AWAITING_COMPLETION
                 │ ▲  all claims are    │ ▲    │                  ▲      │
                 │ │  seen, all jobs    │ │    │ nobody is queued │      │
                 │ │  are queued        ▼ │    └──────────────────┘      │
                 │ │                SUBMISSION                           │
                 │ └── the spec has got a new job (from all on the right)┘
                 ▼                                                       │ every job has ended
              FAILED ──► ACQUIRE, once the spec is edited                ▼
                                                FINISHED ◄───────── COMPLETED
                                                     autoRelease, maxWait, nothing left

Called by `control.esi.drive`, after `control.esi.claims` has given claims. In FAILED and FINISHED nothing is
claimed, and so nothing after its deletion: claims look at this state. In CONFIRMATION it waits until the pods
of those that were submitted are placed, in SUBMISSION for slots: what the strategy allows of those that are
free, less what earlier Schedulings wait for. Must not touch a job but to assign its slots.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import structs

from fairlead.control.esi import showing, strategy
from fairlead.control.esi.claims import durable
from fairlead.control.esi.terms import (
    ACTIVE,
    Round,
    jobs_of,
    longest_wait,
    policy_of,
    retries,
    when,
    wrong,
)
from fairlead.control.esi.writing import announce
from fairlead.core.esi.table import STARTED, SlotTable
from fairlead.model.batchjob import BatchJobStatus, JobState
from fairlead.model.esi import Ref, SlotState
from fairlead.model.group import Why
from fairlead.model.scheduling import (
    JobStage,
    OnFailure,
    Scheduling,
    SchedulingState,
    SchedulingStatus,
    StageOfJob,
)

_STEPS = 20
_ORDER = list(JobStage)
_STAGES = {
    JobState.IN_QUEUE: JobStage.IN_QUEUE,
    JobState.SUBMITTED: JobStage.SUBMITTED,
    JobState.SCHEDULED: JobStage.SCHEDULED,
    JobState.RUNNING: JobStage.SCHEDULED,
    JobState.COMPLETED: JobStage.COMPLETED,
}


class Run:
    """One Scheduling at its step. `status` is what it is to be."""

    def __init__(self, round: Round, scheduling: Scheduling) -> None:
        self.round, self.scheduling, self.esi = round, scheduling, round.esi
        self.status = round.esi.scheduling_status(scheduling.uid)
        self.jobs = jobs_of(scheduling)
        owned = round.owned.get(scheduling.uid, {})
        self.owned = {ref: round.esi.job_status(owned[ref].uid) for ref in self.jobs if ref in owned}
        """The jobs that it names and has claimed."""
        self.stages = {each.name: each.state for each in self.status.job_states}

    def change(self, **fields: object) -> SchedulingStatus:
        return structs.replace(self.status, **fields)

    @property
    def waiting(self) -> dict[Ref, None]:
        """Its jobs that wait for slots, in its order."""
        return {
            ref: None for ref, job in self.owned.items() if job.state is JobState.IN_QUEUE and not job.places
        }

    @property
    def table(self) -> SlotTable | None:
        return self.esi.tables.get(self.esi.find("Testbed", self.scheduling.testbed))

    @property
    def offered(self) -> list[int]:
        """The numbers of the slots that it may use now."""
        table = self.table
        if table is None:
            return []
        free, kept = self.round.free(table), self.round.kept.get(table.testbed, {})
        own = self.scheduling.uid
        return [number for number in free if kept.get(number, own) == own] if kept else free


# -- questions -----------------------------------------------------------------------------------------


def _always(_: Run) -> bool:
    return True


def failures(run: Run) -> dict[Ref, str]:
    """Its jobs that have failed for good -> why."""
    found: dict[Ref, str] = {}
    for ref in run.jobs:
        status = run.owned.get(ref)
        text = _lost(run, ref) if status is None else _why_failed(run, status)
        if text:
            found[ref] = text
    return found


def _why_failed(run: Run, status: BatchJobStatus) -> str:
    failed = status.state is JobState.FAILED_SUBMISSION or (
        status.state in (JobState.READY, JobState.PENDING_DELETION) and status.attempts > 0
    )
    if not failed or retries(run.scheduling, status):
        return ""
    return "; ".join(status.problems) or f"it is in {status.state}"


def _lost(run: Run, ref: Ref) -> str:
    """Why a job that is not its own (any more) will never complete; "" if it may."""
    job = run.esi.job(ref)
    status = run.esi.job_status(job.uid) if job is not None else None
    if status is not None and status.state is JobState.FAILED and not status.claimed_by:
        return "it cannot run: " + "; ".join(status.problems)
    stage = run.stages.get(ref)
    if stage in (None, JobStage.COMPLETED) or run.status.state is SchedulingState.ACQUIRE:
        return ""
    return "it was deleted" if job is None else "it was made anew, or lost its claim"


def _broken(run: Run) -> bool:
    return bool(_why_broken(run))


def _why_broken(run: Run) -> str:
    """Why the whole of it fails; "" if it does not. An edit that cannot be read waits for running jobs."""
    text = wrong(run.scheduling)
    if text:
        going = run.round.owned.get(run.scheduling.uid, {}).values()
        return "" if any(run.esi.job_status(job.uid).state in STARTED for job in going) else text
    failed = failures(run)
    goes_on = policy_of(run.scheduling).on_failure is OnFailure.CONTINUE
    for ref, text in failed.items():
        if not goes_on or (run.status.state is SchedulingState.ACQUIRE and ref not in run.owned):
            return f"job {ref.name}: {text}"
    return ""


def _late(run: Run) -> bool:
    """Whether it has been in this state for longer than it may."""
    most = longest_wait(run.scheduling)
    if not most:
        return False
    at = when(run.status.since) + 999 + most  # the text is the second before
    if run.round.now < at:
        run.round.again(at)
        return False
    return True


def _claimed(run: Run) -> bool:
    """All claims are seen, and all its jobs are queued (or further)."""
    if len(run.owned) < len(run.jobs) or not all(durable(run.round, run.scheduling).values()):
        return False
    return all(each.state is not JobState.READY or each.attempts for each in run.owned.values())


def _extended(run: Run) -> bool:
    return any(ref not in run.owned and ref not in run.stages for ref in run.jobs)


def _done(run: Run) -> bool:
    if wrong(run.scheduling):
        return False
    failed = failures(run)
    return all(ref in failed or _completed(run, ref) for ref in run.jobs)


def _completed(run: Run, ref: Ref) -> bool:
    status = run.owned.get(ref)
    if status is None:
        return run.stages.get(ref) is JobStage.COMPLETED
    return status.state is JobState.COMPLETED


def _nobody_queued(run: Run) -> bool:
    return not run.waiting and not unplaced(run)


def _somebody_queued(run: Run) -> bool:
    return bool(run.waiting)


def _all_placed(run: Run) -> bool:
    return not unplaced(run)


def unplaced(run: Run) -> list[Ref]:
    """Jobs that were submitted and whose pods have not all come into their slots."""
    return [ref for ref, status in run.owned.items() if _unplaced(run, status)]


def _unplaced(run: Run, status: BatchJobStatus) -> bool:
    if status.state is JobState.SCHEDULED:
        table = run.esi.tables.get(run.esi.find("Testbed", status.slots))
        slots = table.slots if table is not None else {}
        return any(key in slots and slots[key].state is SlotState.FREE for key in status.places)
    return status.state is JobState.SUBMITTED or (status.state is JobState.IN_QUEUE and bool(status.places))


def _choices(run: Run) -> list[strategy.Choice]:
    spec = run.scheduling.spec
    return strategy.choose(spec, run.waiting, run.offered) if spec is not None else []


def _slots_free(run: Run) -> bool:
    return bool(_choices(run))


def _may_end(run: Run) -> bool:
    """Once all have seen that it has completed: clients wait for that."""
    spec = run.scheduling.spec
    released = spec is not None and spec.fairlead.auto_release
    seen = run.scheduling.status.state is SchedulingState.COMPLETED
    return seen and (released or not run.round.owned.get(run.scheduling.uid))


def _edited(run: Run) -> bool:
    return run.scheduling.generation != run.status.observed_generation


# -- what a step does --------------------------------------------------------------------------------------


def _keep(run: Run) -> SchedulingStatus:
    return run.status


def _fail(run: Run) -> SchedulingStatus:
    return _end(run, _why_broken(run))


def _give_up(run: Run) -> SchedulingStatus:
    assert run.scheduling.spec is not None  # else it has no longest time
    most = run.scheduling.spec.fairlead.max_wait
    said = f": {run.status.reason}" if run.status.reason else ""
    return _end(run, f"it has waited in {run.status.state} for {most}, longer than it may{said}")


def _end(run: Run, text: str) -> SchedulingStatus:
    announce(
        run.round, run.scheduling, Why.FAILED, f"Scheduling {run.scheduling.name} has failed: {text}", True
    )
    failed = list(failures(run))
    return run.change(problems=[text], failed_jobs=failed, observed_generation=run.scheduling.generation)


def _begin(run: Run) -> SchedulingStatus:
    run.stages = {}
    return run.change(problems=[], failed_jobs=[], job_states=[])


def _submit(run: Run) -> SchedulingStatus:
    """Assign slots to those that can start."""
    table, testbed = run.table, run.scheduling.testbed
    for choice in _choices(run):
        job = run.esi.job(choice.job)
        if job is None or table is None:
            continue
        places = [table.order[number] for number in choice.slots]
        status = structs.replace(
            run.owned[choice.job],
            slots=testbed,
            slot_ids=list(choice.slots),
            replication=len(choice.slots),
            places=places,
        )
        run.owned[choice.job] = status
        run.round.set(job.uid, status)
        run.round.take(table, places)
    return run.status


# -- the machine -------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """If `asks` says yes, `does` gives the new status and it moves on."""

    asks: Callable[[Run], bool]
    to: SchedulingState
    does: Callable[[Run], SchedulingStatus] = _keep


_BROKEN = Step(_broken, SchedulingState.FAILED, _fail)
_LATE = Step(_late, SchedulingState.FAILED, _give_up)
_EXTENDED = Step(_extended, SchedulingState.ACQUIRE)
_CLAIMED = (_BROKEN, _EXTENDED, Step(_done, SchedulingState.COMPLETED))
_EMPTY = Step(_nobody_queued, SchedulingState.AWAITING_COMPLETION)

MACHINE: Mapping[SchedulingState, tuple[Step, ...]] = {
    SchedulingState.INITIAL: (Step(_always, SchedulingState.ACQUIRE, _begin),),
    SchedulingState.ACQUIRE: (_BROKEN, Step(_claimed, SchedulingState.CONFIRMATION), _LATE),
    SchedulingState.CONFIRMATION: (*_CLAIMED, _EMPTY, Step(_all_placed, SchedulingState.SUBMISSION), _LATE),
    SchedulingState.SUBMISSION: (
        *_CLAIMED,
        _EMPTY,
        Step(_slots_free, SchedulingState.CONFIRMATION, _submit),
        _LATE,
    ),
    SchedulingState.AWAITING_COMPLETION: (*_CLAIMED, Step(_somebody_queued, SchedulingState.CONFIRMATION)),
    SchedulingState.COMPLETED: (
        _EXTENDED,
        Step(_may_end, SchedulingState.FINISHED),
        Step(_late, SchedulingState.FINISHED),
    ),
    SchedulingState.FINISHED: (),
    SchedulingState.FAILED: (Step(_edited, SchedulingState.ACQUIRE, _begin),),
    SchedulingState.ERROR: (Step(_always, SchedulingState.ACQUIRE, _begin),),
}


def move(round: Round) -> None:
    """Let every Scheduling take the steps that are due, in order: who came first has the first choice."""
    round.each([each for each in round.order if not each.deleting], _move)


def _move(round: Round, scheduling: Scheduling) -> None:
    run = Run(round, scheduling)
    _walk(run)
    _count(run)
    _keep_slots(run)
    showing.show(run)
    round.set(scheduling.uid, run.status)


def _walk(run: Run) -> None:
    for _ in range(_STEPS):
        state = run.status.state
        step = next((step for step in MACHINE[state] if step.asks(run)), None)
        if step is None:
            return
        run.status = structs.replace(step.does(run), state=step.to, since=run.round.text)
        _count(run)


def _count(run: Run) -> None:
    """How far its jobs have come, and which have failed; one Event for what has just come to a stage."""
    news: dict[JobStage, list[Ref]] = {}
    stages: dict[Ref, JobStage] = {}
    for ref in run.jobs:
        old, status = run.stages.get(ref), run.owned.get(ref)
        new = _STAGES.get(status.state, JobStage.ACQUIRING) if status is not None else None
        best = max((each for each in (old, new) if each is not None), key=_ORDER.index, default=None)
        if best is not None:
            stages[ref] = best
            if best is not old:
                news.setdefault(best, []).append(ref)
    showing.tell(run.round, run.scheduling, news)
    run.stages = stages
    shown = [StageOfJob(ref, stage) for ref, stage in stages.items()]
    state = run.status.state
    failed = list(failures(run)) if state in ACTIVE else run.status.failed_jobs
    over = state is SchedulingState.FAILED
    generation = run.status.observed_generation if over else run.scheduling.generation
    run.status = run.change(job_states=shown, failed_jobs=failed, observed_generation=generation)


def _keep_slots(run: Run) -> None:
    """Those that come later do not get what its first waiting job waits for."""
    spec, table, waiting = run.scheduling.spec, run.table, run.waiting
    if spec is None or table is None or not waiting or run.status.state not in ACTIVE:
        return
    kept = strategy.kept(spec, waiting, run.offered, len(table.order))
    run.round.kept.setdefault(table.testbed, {}).update(dict.fromkeys(kept, run.scheduling.uid))
