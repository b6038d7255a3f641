"""The Scheduling of external schedulers: an outside plan, which jobs are to run in which slots.

Like `model.esi`, whose words it uses.
"""

from enum import StrEnum

from msgspec import Struct

from fairlead.model.esi import Ref


class SlotMode(StrEnum):
    STRICT = "strict"
    RELAXED = "relaxed"


class SlotJob(Struct, frozen=True, rename="camel"):
    name: Ref
    slot_ids: list[int]


class SlotBased(Struct, frozen=True):
    """`mode` strict: in order, each job after those before it; relaxed: each for itself. Either case."""

    jobs: list[SlotJob]
    mode: SlotMode = SlotMode.STRICT


class OnFailure(StrEnum):
    FAIL_FAST = "FailFast"
    CONTINUE = "Continue"
    RETRY = "Retry"


class FailurePolicy(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What becomes of a Scheduling when an application fails. `backoff` doubles with each attempt; a job that
    has failed `retries` + 1 times fails the Scheduling."""

    on_failure: OnFailure = OnFailure.FAIL_FAST
    retries: int = 3
    backoff: str = "10s"


class SchedulingOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`maxWait`: the longest that it may wait in one state for claims, for slots, for its pods to be placed,
    or, once completed, to be deleted; then its claims are released. "" = for ever."""

    auto_release: bool = False
    failure_policy: FailurePolicy = FailurePolicy()
    max_wait: str = ""
    exclusive: bool = False
    """Nobody else uses the Testbed meanwhile (so co-location can be measured)."""


class SchedulingSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Exactly one of `queueBased` (a job's multiplicity is its number of executors) and `slotBased`.
    `slots` is what the Testbed's key was called before."""

    testbed: Ref | None = None
    queue_based: list[Ref] | None = None
    slot_based: SlotBased | None = None
    slots: Ref | None = None
    fairlead: SchedulingOptions = SchedulingOptions()


class SchedulingState(StrEnum):
    INITIAL = "InitialState"
    ACQUIRE = "AcquireState"
    CONFIRMATION = "ConfirmationState"
    SUBMISSION = "SubmissionState"
    AWAITING_COMPLETION = "AwaitingCompletionState"
    COMPLETED = "CompletedState"
    FINISHED = "FinishedState"
    FAILED = "FailedState"
    ERROR = "Error"


class JobStage(StrEnum):
    """How far a job has come within a Scheduling; in order."""

    ACQUIRING = "Acquiring"
    IN_QUEUE = "InQueue"
    SUBMITTED = "Submitted"
    SCHEDULED = "Scheduled"
    COMPLETED = "Completed"


class StageOfJob(Struct, frozen=True):
    name: Ref
    state: JobStage


class ConditionJob(Struct, frozen=True):
    name: Ref
    value: bool


class SchedulingCondition(Struct, frozen=True, rename="camel", omit_defaults=True):
    condition: str
    value: bool
    job_name: Ref | None = None
    slot_ids: list[int] = []
    number_of_slots_required: int = 0
    last_update_timestamp: str = ""
    testbed_name: Ref | None = None
    error: str = ""
    jobs: list[ConditionJob] = []


class SchedulingStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    state: SchedulingState = SchedulingState.INITIAL
    conditions: list[SchedulingCondition] = []
    job_states: list[StageOfJob] = []
    """One per job: the furthest it has come."""
    problems: list[str] = []
    observed_generation: int = 0
    reason: str = ""
    """Why it is where it is, for people: whom it waits for, what was refused."""
    position: int = 0
    """Its place among those that wait for claims on this Testbed or these jobs; 0 = it does not wait."""
    since: str = ""
    """When it entered its state (RFC 3339)."""
    failed_jobs: list[Ref] = []


class Scheduling(Struct, frozen=True, tag="Scheduling", omit_defaults=True):
    uid: str
    version: int
    namespace: str
    name: str
    spec: SchedulingSpec | None
    status: SchedulingStatus = SchedulingStatus()
    generation: int = 0
    created: int = 0
    deleting: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    problem: str = ""

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, self.name)

    @property
    def testbed(self) -> Ref | None:
        return None if self.spec is None else self.spec.testbed or self.spec.slots
