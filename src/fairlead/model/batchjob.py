"""The BatchJob of external schedulers: a template of an application, and who may run it where.

Like `model.esi`, whose words it uses.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from fairlead.model.esi import Ref


class AppKind(StrEnum):
    """What a BatchJob becomes."""

    SPARK = "SparkApplication"
    FLINK = "FlinkDeployment"
    FLINK_CLUSTER = "FlinkCluster"
    JOB = "Job"
    JOB_SET = "JobSet"


class CreationRequest(Struct, frozen=True, rename="camel"):
    slot_ids: list[int]
    testbed_name: Ref
    replication: int


class BatchJobOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Exactly one of `sparkSpec`, `flinkSpec` and the three specs here. `flinkKind` says what becomes of a
    `flinkSpec`: a FlinkDeployment of the Apache operator, or a FlinkCluster of the older one. A `flinkSpec`
    is only about the job: the other three say what it runs on; "" = see docs/applications.md."""

    flink_deployment_spec: dict[str, Any] | None = None
    job_spec: dict[str, Any] | None = None
    job_set_spec: dict[str, Any] | None = None
    flink_kind: AppKind = AppKind.FLINK
    flink_image: str = ""
    flink_version: str = ""
    flink_service_account: str = ""


class BatchJobSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    spark_spec: dict[str, Any] | None = None
    flink_spec: dict[str, Any] | None = None
    active_scheduling: Ref | None = None
    creation_request: CreationRequest | None = None
    external_scheduler: dict[str, list[dict[str, str]]] | None = None
    fairlead: BatchJobOptions = BatchJobOptions()


class JobState(StrEnum):
    """Upper half of the machine first: see `control.esi.batchjob`."""

    INIT = "InitState"
    READY = "ReadyState"
    PENDING_DELETION = "PendingDeletion"
    IN_QUEUE = "InQueueState"
    SUBMITTED = "SubmittedState"
    SCHEDULED = "ScheduledState"
    RUNNING = "RunningState"
    COMPLETED = "CompletedState"
    FAILED = "FailedState"
    FAILED_SUBMISSION = "FailedSubmissionState"
    UNKNOWN = "UnknownState"


class ScheduledEvent(Struct, frozen=True, omit_defaults=True):
    """One execution: from entering RunningState (RFC 3339) to leaving it; `stop` "" while it runs."""

    start: str
    stop: str = ""
    successful: bool = False
    scheduling: Ref | None = None


class JobCondition(Struct, frozen=True, rename="camel", omit_defaults=True):
    condition: str
    value: bool
    name: Ref
    error: str = ""
    last_update_timestamp: str = ""


class BatchJobStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`slots` is the Testbed that was used last (the name is ESI's)."""

    state: JobState = JobState.INIT
    scheduled_events: list[ScheduledEvent] = []
    slots: Ref | None = None
    slot_ids: list[int] = []
    replication: int = 0
    active_scheduling: Ref | None = None
    problems: list[str] = []
    conditions: list[JobCondition] = []
    observed_generation: int = 0
    places: list[str] = []
    """The assigned slots as NODE/INDEX: numbers change when nodes join, these do not."""
    attempts: int = 0
    """How often its application has failed in the present Scheduling."""
    retry_at: str = ""
    """Not submitted again before this time (RFC 3339)."""
    claimed_by: str = ""
    """The uid of `activeScheduling`: one that is made anew under its name is another one."""
    application: str = ""
    """The uid of its application, once that has been seen."""
    reset: str = ""
    """The value of the annotation `fairlead.dev/reset` that was obeyed last."""
    omitted_events: int = 0
    """How many `scheduledEvents` there were before the first that is kept."""


class BatchJob(Struct, frozen=True, tag="BatchJob", omit_defaults=True):
    uid: str
    version: int
    namespace: str
    name: str
    spec: BatchJobSpec | None
    status: BatchJobStatus = BatchJobStatus()
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
    def kind(self) -> AppKind | None:
        """What it becomes; None where the spec says nothing, or cannot be read."""
        spec = self.spec
        if spec is None:
            return None
        if spec.spark_spec is not None:
            return AppKind.SPARK
        if spec.flink_spec is not None:
            return spec.fairlead.flink_kind
        if spec.fairlead.flink_deployment_spec is not None:
            return AppKind.FLINK
        if spec.fairlead.job_spec is not None:
            return AppKind.JOB
        return AppKind.JOB_SET if spec.fairlead.job_set_spec is not None else None
