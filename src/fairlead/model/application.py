"""Applications that BatchJobs become, and the union of all that concerns external schedulers.

Made by `wire.applications` and `wire.esi`; carried by `EsiSeen` events. A thing's tag is its Kubernetes kind
(but for batch/v1 Jobs, which are told as owners of pods, too).
"""

from enum import StrEnum

from msgspec import Struct

from fairlead.model.batchjob import AppKind, BatchJob
from fairlead.model.esi import Testbed
from fairlead.model.scheduling import Scheduling


class AppState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class Application(Struct, frozen=True, omit_defaults=True):
    """An application as its operator shows it. `batch_job` is the uid of the BatchJob that controls it."""

    uid: str
    version: int
    namespace: str
    name: str
    batch_job: str = ""
    state: AppState = AppState.PENDING
    text: str = ""
    """What its operator says of a failure."""
    deleting: bool = False


class SparkApplication(Application, frozen=True, tag="SparkApplication", omit_defaults=True):
    pass


class FlinkDeployment(Application, frozen=True, tag="FlinkDeployment", omit_defaults=True):
    pass


class FlinkCluster(Application, frozen=True, tag="FlinkCluster", omit_defaults=True):
    pass


class BatchV1Job(Application, frozen=True, tag="ApplicationJob", omit_defaults=True):
    """A batch/v1 Job that a BatchJob controls; as an owner of pods it is known, too (`model.owner`)."""


class JobSet(Application, frozen=True, tag="JobSet", omit_defaults=True):
    pass


class Account(Struct, frozen=True, tag="ServiceAccount", omit_defaults=True):
    """core/v1 ServiceAccount: a driver cannot be made without its own."""

    uid: str
    version: int
    namespace: str
    name: str


class PriorityClass(Struct, frozen=True, tag="PriorityClass", omit_defaults=True):
    """scheduling.k8s.io/v1 PriorityClass: without the one that it names a pod is refused. Of no namespace."""

    uid: str
    version: int
    name: str
    namespace: str = ""


EsiThing = (
    Testbed
    | BatchJob
    | Scheduling
    | SparkApplication
    | FlinkDeployment
    | FlinkCluster
    | BatchV1Job
    | JobSet
    | Account
    | PriorityClass
)
ESI_THINGS = (
    Testbed,
    BatchJob,
    Scheduling,
    SparkApplication,
    FlinkDeployment,
    FlinkCluster,
    BatchV1Job,
    JobSet,
    Account,
    PriorityClass,
)
APP_KINDS: dict[type[Application], AppKind] = {
    SparkApplication: AppKind.SPARK,
    FlinkDeployment: AppKind.FLINK,
    FlinkCluster: AppKind.FLINK_CLUSTER,
    BatchV1Job: AppKind.JOB,
    JobSet: AppKind.JOB_SET,
}


def tag_of(thing: type[EsiThing] | EsiThing) -> str:
    """What `Listed` calls its kind."""
    return str(thing.__struct_config__.tag)
