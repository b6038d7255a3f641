"""External schedulers' nouns: what they share, and the Testbed, as `esi.tu-berlin.de/v1alpha1` has it.

Beside it `model.batchjob`, `model.scheduling` and `model.application`. Made by `wire.esi` from custom
resources, kept by `core.esi`, driven by `control.esi`. Spec and status have the very field names of the
custom resources, for the schemas are made from them. What ESI does not have lives under `spec.fairlead` and
is optional. A status is ours to write; in the state it is ahead of what the cluster shows. Times in a status
are RFC 3339 texts, elsewhere milliseconds since the epoch.
"""

from enum import StrEnum

from msgspec import Struct

GROUP = "esi.tu-berlin.de"
VERSION = "v1alpha1"
PREFIX = "batchjob.tuberlin.de/"
SCHEDULER = "external-scheduler"
"""The schedulerName of application pods; Fairlead answers to it beside its own (`Settings.aliases`)."""
PRIORITY = "high-priority"
GHOST_PRIORITY = "testbed-preemptee"
CLASSES = {PRIORITY: 1000, GHOST_PRIORITY: 100}
"""The PriorityClasses of application and ghost pods, and their values."""

TESTBED_LABEL = f"{PREFIX}slots-resource-name"
"""On application and ghost pods: the name of the Testbed in their namespace. Makes a pod one of ESI's."""
GHOST_LABEL = f"{PREFIX}slots-is-ghost-pod"
IDS_LABEL = f"{PREFIX}slots-ids"
"""On application pods: the slots that it may use, as numbers joined by `_`. Written while it fits."""
ID_LABEL = f"{PREFIX}slots-id"
"""On ghost pods and bound application pods: the slot's index on its node."""
NODE_LABEL = f"{PREFIX}slots-target-node"
PREEMPTED_LABEL = f"{PREFIX}slots-ghost-pod-will-be-preempted-by"
CLAIM_LABELS = (f"{PREFIX}active-scheduling-name", f"{PREFIX}active-scheduling-namespace")
MANAGED_LABEL = ("batchjob/managed-by", "BatchJob-Operator")
SLOTS = "fairlead.dev/slots"
"""Annotation of application pods: the slots that it may use, NODE/INDEX joined by commas. Counts before the
label, which ends at 63 characters and names numbers that change when nodes join."""
SLOT = "fairlead.dev/slot"
"""Annotation of a bound application pod: its slot, NODE/INDEX."""
CLAIMS = "fairlead.dev/claims"
"""Annotation of a Testbed: the Schedulings that use it, NAMESPACE/NAME joined by commas, first come first."""
BATCH_JOB = "fairlead.dev/batch-job"
"""Annotation of application pods: the uid of their BatchJob."""
RESET = "fairlead.dev/reset"
"""Annotation of a BatchJob: any new value lets a failed one begin anew."""
LONGEST_LABEL = 63


class Ref(Struct, frozen=True, order=True):
    """A NamespacedName."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class HoldCapacity(StrEnum):
    NONE = "none"
    PODS = "pods"


class TestbedOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    hold_capacity: HoldCapacity = HoldCapacity.NONE
    """`none`: free slots are held in Fairlead's books. `pods`: by ghost pods, too, for other schedulers."""


class TestbedSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`nodeLabel` is a label key: nodes that have it are members, in the order of its whole-number value."""

    node_label: str
    slots_per_node: int
    resources_per_slot: dict[str, str | int]
    fairlead: TestbedOptions = TestbedOptions()


class TestbedState(StrEnum):
    INITIAL = "INITIAL"
    SUCCESS = "SUCCESS"
    RUNNING = "RUNNING"
    ERROR = "ERROR"
    IN_PROGRESS = "IN_PROGRESS"
    """Slots are reserved and none is occupied yet."""


class SlotState(StrEnum):
    FREE = "FREE"
    OCCUPIED = "OCCUPIED"
    RESERVED = "RESERVED"
    ERROR = "ERROR"
    """The node has no room for it, or does not take pods."""


class SlotStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`position` is the slot's number: round robin over the nodes, the first slot of each node first."""

    position: int
    node_id: int
    node_name: str
    slot_position_on_node: int
    state: SlotState
    pod_name: str = ""
    pod_u_id: str = ""
    reserved_for: str = ""


class TestbedStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    state: TestbedState = TestbedState.INITIAL
    node_problems: dict[str, list[str]] = {}
    problems: list[str] = []
    slots: list[SlotStatus] = []
    observed_generation: int = 0


class Testbed(Struct, frozen=True, tag="Testbed", omit_defaults=True):
    """`problem`: why the spec cannot be read; then `spec` is None."""

    __test__ = False

    uid: str
    version: int
    namespace: str
    name: str
    spec: TestbedSpec | None
    status: TestbedStatus = TestbedStatus()
    generation: int = 0
    created: int = 0
    deleting: bool = False
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    problem: str = ""

    @property
    def ref(self) -> Ref:
        return Ref(self.namespace, self.name)
