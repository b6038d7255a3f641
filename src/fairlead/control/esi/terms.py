"""What the machines of external schedulers share: whose claim is whose, and one run over the state.

Used by all of `control.esi` but its builders of manifests. A claim is in the BatchJob's status
(`activeScheduling`, `claimedBy`): ours to write, ahead of the cluster, read from it after a restart. Must not
move anything from state to state.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fairlead.core.durations import duration as parsed
from fairlead.core.durations import instant, rfc3339
from fairlead.core.esi.table import TAKING, SlotTable, Status
from fairlead.core.poison import moves, tripped
from fairlead.core.state import State
from fairlead.model.batchjob import BatchJob, BatchJobStatus
from fairlead.model.command import Command, ObjectRef
from fairlead.model.esi import CLASSES, Ref, SlotState, Testbed
from fairlead.model.scheduling import FailurePolicy, OnFailure, Scheduling, SchedulingState

ACTIVE = (SchedulingState.CONFIRMATION, SchedulingState.SUBMISSION, SchedulingState.AWAITING_COMPLETION)
CLAIMING = (*ACTIVE, SchedulingState.COMPLETED)
OVER = (SchedulingState.FAILED, SchedulingState.FINISHED, SchedulingState.ERROR)
_BACKOFF = 10_000
_LONGEST_BACKOFF = 3_600_000


_Thing = TypeVar("_Thing", Testbed, BatchJob, Scheduling)


class Round:
    """One run of the machines. `commands` is what they want done, `due` when they want to run again."""

    def __init__(self, state: State) -> None:
        self.state, self.esi, self.now = state, state.esi, state.now
        self.commands: list[Command] = []
        self.moved = False
        self.due = 0
        self.order = sorted(self.esi.schedulings.values(), key=lambda each: (each.created, each.uid))
        """All Schedulings: who comes first, in claims as in slots."""
        self.owned: dict[str, dict[Ref, BatchJob]] = {}
        """Scheduling uid -> the jobs that it has claimed."""
        self.taken: dict[str, dict[str, None]] = {}
        """Testbed uid -> keys of slots that are given to jobs."""
        self.kept: dict[str, dict[int, str]] = {}
        """Testbed uid -> free numbers that a Scheduling waits for, and its uid: not for those after it."""
        self.waiting: dict[str, tuple[str, int]] = {}
        """Scheduling uid -> what it waits for before it gets its claims, and its place among who waits."""
        self._users: dict[Ref, list[Scheduling]] | None = None
        self._free: dict[str, list[int]] = {}
        self._jobs: dict[str, dict[Ref, None]] = {}
        self._whole: dict[str, bool] = {}
        self.look()

    def look(self) -> None:
        """Count anew who has claimed what, and which slots are given away."""
        self.owned, self.taken, self.kept, self._whole = {}, {}, {}, {}
        self._users, self._free = None, {}
        for uid, job in self.esi.jobs.items():
            status = self.esi.job_status(uid)
            if status.places and status.state in TAKING:
                testbed = self.esi.find("Testbed", status.slots)
                self.taken.setdefault(testbed, {}).update(dict.fromkeys(status.places))
            owner = self.owner(status)
            if owner is not None:
                self.owned.setdefault(owner.uid, {})[job.ref] = job

    def owner(self, status: BatchJobStatus) -> Scheduling | None:
        """The Scheduling that has claimed the job, if it is still there. ESI's own claims have no uid."""
        uid = status.claimed_by or self.esi.find("Scheduling", status.active_scheduling)
        return self.esi.schedulings.get(uid)

    def jobs(self, scheduling: Scheduling) -> dict[Ref, None]:
        """`jobs_of`, which is asked for each of its jobs."""
        found = self._jobs.get(scheduling.uid)
        if found is None:
            found = self._jobs[scheduling.uid] = jobs_of(scheduling)
        return found

    def whole(self, scheduling: Scheduling) -> bool:
        """Whether it has claimed all its jobs, as of the last look; also asked for each of them."""
        found = self._whole.get(scheduling.uid)
        if found is None:
            owned = self.owned.get(scheduling.uid, {})
            found = self._whole[scheduling.uid] = all(ref in owned for ref in self.jobs(scheduling))
        return found

    def grant(self, scheduling: Scheduling, job: BatchJob) -> None:
        """The claim on the job is the Scheduling's from now on."""
        self.owned.setdefault(scheduling.uid, {})[job.ref] = job
        self._whole.pop(scheduling.uid, None)
        self._users = None

    def users(self, testbed: Ref) -> list[Scheduling]:
        """The Schedulings that have claims on this Testbed, first come first."""
        if self._users is None:
            self._users = {}
            for each in self.order:
                if each.testbed is not None and self.owned.get(each.uid):
                    self._users.setdefault(each.testbed, []).append(each)
        return self._users.get(testbed, [])

    def free(self, table: SlotTable) -> list[int]:
        """The numbers of the slots that are free and given to no job."""
        found = self._free.get(table.testbed)
        if found is None:
            taken, slots = self.taken.get(table.testbed, {}), table.slots
            found = [
                number
                for number, key in enumerate(table.order)
                if slots[key].state is SlotState.FREE and key not in taken
            ]
            self._free[table.testbed] = found
        return found

    def take(self, table: SlotTable, keys: Sequence[str]) -> None:
        """These slots are given to a job."""
        self.taken.setdefault(table.testbed, {}).update(dict.fromkeys(keys))
        self._free.pop(table.testbed, None)

    def set(self, uid: str, status: Status) -> None:
        """Let this be the object's status."""
        old = self.esi.status.get(uid)
        if old != status:
            self.esi.status[uid] = status
            self.esi.taken_back(old, status)
            self.moved = True

    def each(self, things: Iterable[_Thing], move: Callable[["Round", _Thing], None]) -> None:
        """Move each of them, whatever comes of it: a mistake that one brings to light stops no other."""
        for thing in things:
            try:
                move(self, thing)
            except Exception as error:
                tripped(self.state, type(thing).__name__, str(thing.ref), thing.generation, error)
            else:
                if self.state.poisoned:
                    moves(self.state, type(thing).__name__, str(thing.ref), thing.generation)

    def again(self, at: int) -> None:
        """Look again at this time."""
        if self.due == 0 or at < self.due:
            self.due = at

    @property
    def text(self) -> str:
        """The present time, for a status."""
        return rfc3339(self.now)


def jobs_of(scheduling: Scheduling) -> dict[Ref, None]:
    """The jobs that it names, each once, in order."""
    spec = scheduling.spec
    if spec is None:
        return {}
    if spec.queue_based is not None:
        return dict.fromkeys(spec.queue_based)
    return dict.fromkeys([each.name for each in spec.slot_based.jobs] if spec.slot_based else [])


def policy_of(scheduling: Scheduling | None) -> FailurePolicy:
    spec = scheduling.spec if scheduling is not None else None
    return spec.fairlead.failure_policy if spec is not None else FailurePolicy()


def retries(scheduling: Scheduling | None, status: BatchJobStatus) -> bool:
    """Whether a job that has failed so often is submitted again."""
    policy = policy_of(scheduling)
    return policy.on_failure is OnFailure.RETRY and status.attempts <= policy.retries


def backoff(scheduling: Scheduling | None, attempts: int) -> int:
    """Milliseconds until the next attempt after so many failed ones."""
    first = parsed(policy_of(scheduling).backoff) or _BACKOFF
    return min(first << max(min(attempts - 1, 16), 0), _LONGEST_BACKOFF)


def longest_wait(scheduling: Scheduling) -> int:
    """`maxWait` in milliseconds; 0: for ever."""
    spec = scheduling.spec
    return (parsed(spec.fairlead.max_wait) or 0) if spec is not None and spec.fairlead.max_wait else 0


def later(at: int) -> str:
    """A time that must not be met too early: up to the second that is not before it."""
    return rfc3339(at + 999)


def when(text: str) -> int:
    """A time out of a status; 0 if there is none."""
    return instant(text) or 0


def reference(thing: BatchJob | Scheduling | Testbed) -> ObjectRef:
    """What a command says of an object of ours, at whatever version."""
    return ObjectRef(type(thing).__name__, thing.namespace, thing.name, thing.uid)


def names(refs: Sequence[Ref], most: int = 4) -> str:
    """Names for people."""
    shown = ", ".join(ref.name for ref in refs[:most])
    return f"{shown} and {len(refs) - most} more" if len(refs) > most else shown


def no_class(priority: str) -> str:
    """What to do about a PriorityClass that does not exist."""
    return (
        f"priority class {priority} does not exist, and pods that name it are refused: apply deploy/esi.yaml,"
        f" or kubectl create priorityclass {priority} --value={CLASSES[priority]}"
    )


def wrong(scheduling: Scheduling) -> str:
    """What is wrong with its spec; "" if nothing is."""
    spec = scheduling.spec
    if scheduling.problem or spec is None:
        return scheduling.problem or "its spec cannot be read"
    if (spec.queue_based is None) == (spec.slot_based is None):
        return "spec: exactly one of queueBased and slotBased must be given"
    if scheduling.testbed is None:
        return "spec.testbed: the Testbed must be named"
    for ref in (scheduling.testbed, *jobs_of(scheduling)):
        if ref.namespace != scheduling.namespace:
            return f"spec: {ref} is in another namespace: jobs and Testbed must be in {scheduling.namespace}"
    if spec.slot_based is not None and len(spec.slot_based.jobs) != len(jobs_of(scheduling)):
        return "spec.slotBased.jobs: a job is named twice"
    for each in spec.slot_based.jobs if spec.slot_based is not None else ():
        if not each.slot_ids or len(frozenset(each.slot_ids)) < len(each.slot_ids):
            name = each.name.name
            return f"spec.slotBased.jobs: slotIds of job {name}: write each slot once, and at least one"
    for name, text in (
        ("maxWait", spec.fairlead.max_wait),
        ("failurePolicy.backoff", policy_of(scheduling).backoff),
    ):
        if text and parsed(text) is None:
            return f"spec.fairlead.{name}: {text!r} is no length of time; write for example 90s, 5m or 2h30m"
    return ""
