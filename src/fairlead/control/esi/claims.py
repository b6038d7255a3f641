"""Who has claimed which jobs: all jobs of a Scheduling at once or none, first come first served.

Called by `control.esi.drive`, before the Schedulings move. Holding nothing while waiting, nobody can wait for
one another in a circle. A Scheduling that waits keeps its jobs off those that come later and share them;
one that waits for what no release brings (a job that does not exist) keeps nobody off. Whom it waits for and
which place it has is in `Round.waiting`. Must not start anything.
"""

from msgspec import structs

from fairlead.control.esi.terms import OVER, Round, names
from fairlead.core.esi.table import STARTED
from fairlead.model.batchjob import BatchJob, BatchJobStatus, JobState
from fairlead.model.esi import Ref
from fairlead.model.scheduling import Scheduling, SchedulingState

_BEGINNING = (SchedulingState.INITIAL, SchedulingState.ACQUIRE)
_RETURNED = (JobState.READY, JobState.IN_QUEUE)
_SHOWN = 3


def void(run: Round, job: BatchJob, status: BatchJobStatus) -> bool:
    """Whether nobody has a claim on the job that counts.

    A job that has started is not taken from its Scheduling by an edit, nor a completed one from one that gets
    more jobs. A claim that is not on all jobs of its Scheduling, as a crash may leave it, is void.
    """
    owner = run.owner(status)
    if owner is None or owner.deleting or job.deleting:
        return True
    state = run.esi.scheduling_status(owner.uid).state
    if state in OVER:
        return True
    if job.ref not in run.jobs(owner):
        return status.state not in STARTED
    return state in _BEGINNING and status.state in _RETURNED and not run.whole(owner)


class _Obstacles:
    """What stands between a Scheduling and its claims."""

    def __init__(self) -> None:
        self.lasting: list[str] = []
        """What no release brings."""
        self.passing: list[str] = []

    @property
    def text(self) -> str:
        found = [*self.lasting, *self.passing]
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return "; ".join(found[:_SHOWN]) + more


def give(run: Round) -> None:
    """Let every Scheduling that waits have its claims, in order, if it can have them all."""
    run.waiting.clear()
    ahead: list[Scheduling] = []
    wanted: dict[Ref, Scheduling] = {}
    for scheduling in run.order:
        if (
            scheduling.deleting
            or run.esi.scheduling_status(scheduling.uid).state is not SchedulingState.ACQUIRE
        ):
            continue
        if run.whole(scheduling) and run.jobs(scheduling):
            continue
        found = _obstacles(run, scheduling, ahead, wanted)
        if not found.text:
            _grant(run, scheduling)
            continue
        run.waiting[scheduling.uid] = (found.text, 1 + _before(run, scheduling, ahead))
        if not found.lasting:
            ahead.append(scheduling)
            for ref in run.jobs(scheduling):
                wanted.setdefault(ref, scheduling)


def _before(run: Round, scheduling: Scheduling, ahead: list[Scheduling]) -> int:
    """How many of those who wait, too, stand before it at its Testbed or one of its jobs."""
    jobs = run.jobs(scheduling)
    return sum(
        other.testbed == scheduling.testbed or any(ref in jobs for ref in run.jobs(other)) for other in ahead
    )


def _obstacles(
    run: Round, scheduling: Scheduling, ahead: list[Scheduling], wanted: dict[Ref, Scheduling]
) -> _Obstacles:
    found = _Obstacles()
    _of_testbed(run, scheduling, ahead, found)
    for ref in run.jobs(scheduling):
        job = run.esi.job(ref)
        if job is None or job.deleting:
            found.lasting.append(f"job {ref.name} {'does not exist' if job is None else 'is being deleted'}")
            continue
        status = run.esi.job_status(job.uid)
        owner = run.owner(status)
        if owner is not None and owner.uid == scheduling.uid:
            continue
        if owner is not None:
            found.passing.append(f"job {ref.name} is claimed by Scheduling {owner.ref}")
        elif ref in wanted:
            found.passing.append(
                f"job {ref.name} is wanted by Scheduling {wanted[ref].ref}, which came before"
            )
        elif status.state is not JobState.READY:
            found.passing.append(f"job {ref.name} is in {status.state}: what it ran before is being deleted")
    return found


def _of_testbed(run: Round, scheduling: Scheduling, ahead: list[Scheduling], found: _Obstacles) -> None:
    testbed = run.esi.testbed(scheduling.testbed)
    name = str(scheduling.testbed)
    if testbed is None or testbed.deleting:
        found.lasting.append(f"Testbed {name} {'does not exist' if testbed is None else 'is being deleted'}")
        return
    alone = _alone(scheduling)
    for other in run.users(testbed.ref):
        if other.uid != scheduling.uid and (alone or _alone(other)):
            whose = "which has it alone" if _alone(other) else "and it is to be used alone"
            found.passing.append(f"Testbed {name} is used by Scheduling {other.ref}, {whose}")
    for other in ahead:
        if other.testbed == scheduling.testbed and (alone or _alone(other)):
            found.passing.append(f"Testbed {name} is wanted by Scheduling {other.ref}, which came before")


def _alone(scheduling: Scheduling) -> bool:
    return scheduling.spec is not None and scheduling.spec.fairlead.exclusive


def _grant(run: Round, scheduling: Scheduling) -> None:
    for ref in run.jobs(scheduling):
        job = run.esi.job(ref)
        status = run.esi.job_status(job.uid) if job is not None else None
        if job is None or status is None or run.owner(status) is not None:
            continue
        run.set(
            job.uid,
            structs.replace(
                status,
                active_scheduling=scheduling.ref,
                claimed_by=scheduling.uid,
                attempts=0,
                retry_at="",
            ),
        )
        run.grant(scheduling, job)


def durable(run: Round, scheduling: Scheduling) -> dict[Ref, bool]:
    """Job -> whether its claim has been seen in the cluster: before that, nothing may rest on it."""
    owned = run.owned.get(scheduling.uid, {})
    found: dict[Ref, bool] = {}
    for ref in run.jobs(scheduling):
        job = owned.get(ref)
        found[ref] = job is not None and job.status.claimed_by == scheduling.uid
    return found


def waits_for(refs: dict[Ref, bool]) -> str:
    """The names of those that are not there yet."""
    return names([ref for ref, there in refs.items() if not there])
