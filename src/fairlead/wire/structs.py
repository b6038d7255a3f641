"""Wire objects with only the fields Fairlead reads: what msgspec need not build costs almost nothing.

Decoded by `kube.translate`, `kube.bind` and `sim.manifests`. Must not hold behaviour. Field names are those
of the Kubernetes API; anything absent takes the default here.
"""

import msgspec
from msgspec import Struct

Quantities = dict[str, str | int]


class Present(Struct, frozen=True, gc=False):
    """Any object of which only the presence matters."""


class OwnerReference(Struct, frozen=True, rename="camel", gc=False):
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    namespace: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


class Resources(Struct, frozen=True, omit_defaults=True):
    requests: Quantities = {}


class ContainerPort(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class RestartRule(Struct, frozen=True, omit_defaults=True, gc=False):
    action: str = ""


class Container(Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str = ""
    image: str = ""
    resources: Resources = Resources()
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []


class NodeRequirement(Struct, frozen=True, omit_defaults=True):
    key: str
    operator: str
    values: list[str] = []


class NodeTerm(Struct, frozen=True, rename="camel", omit_defaults=True):
    match_expressions: list[NodeRequirement] = []
    match_fields: list[NodeRequirement] = []


class NodeSelector(Struct, frozen=True, rename="camel", omit_defaults=True):
    node_selector_terms: list[NodeTerm] = []


class PreferredTerm(Struct, frozen=True, omit_defaults=True):
    weight: int = 0
    preference: NodeTerm = NodeTerm()


class NodeAffinity(Struct, frozen=True, omit_defaults=True):
    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredTerm] | None = None


class LabelSelector(Struct, frozen=True, rename="camel", omit_defaults=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[NodeRequirement] = []


class WirePodTerm(Struct, frozen=True, rename="camel", omit_defaults=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(Struct, frozen=True, rename="camel", omit_defaults=True):
    weight: int = 0
    pod_affinity_term: WirePodTerm = WirePodTerm()


class PodAffinity(Struct, frozen=True, omit_defaults=True):
    requiredDuringSchedulingIgnoredDuringExecution: list[WirePodTerm] = []
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodTerm] = []


class Affinity(Struct, frozen=True, rename="camel", omit_defaults=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class WireToleration(Struct, frozen=True, omit_defaults=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class WireSpread(Struct, frozen=True, rename="camel", omit_defaults=True):
    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class WireVolume(Struct, frozen=True, omit_defaults=True):
    """Only the kinds that kube-scheduler's volume filters look at."""

    name: str = ""
    persistentVolumeClaim: "VolumeSource | None" = None
    ephemeral: Present | None = None
    awsElasticBlockStore: "VolumeSource | None" = None
    azureDisk: "VolumeSource | None" = None
    azureFile: Present | None = None
    cinder: "VolumeSource | None" = None
    gcePersistentDisk: "VolumeSource | None" = None
    iscsi: "VolumeSource | None" = None
    portworxVolume: "VolumeSource | None" = None
    rbd: "VolumeSource | None" = None
    vsphereVolume: Present | None = None


class VolumeSource(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The union of what is read of the kinds above."""

    claim_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_uri: str = msgspec.field(default="", name="diskURI")
    pd_name: str = ""
    iqn: str = ""
    image: str = ""
    pool: str = ""
    monitors: list[str] = []
    read_only: bool = False


class SchedulingGate(Struct, frozen=True, gc=False):
    name: str = ""


class PodSpec(Struct, frozen=True, rename="camel"):
    containers: list[Container] | None = None
    init_containers: list[Container] = []
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    active_deadline_seconds: int = 0
    scheduling_gates: list[SchedulingGate] = []
    overhead: Quantities = {}
    resources: Resources | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[WireToleration] = []
    topology_spread_constraints: list[WireSpread] = []
    volumes: list[WireVolume] = []
    resource_claims: list[Present] = []
    scheduling_group: Present | None = None
    workload_ref: Present | None = None
    host_network: bool = False
    host_users: bool = True


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class ContainerState(Struct, frozen=True):
    running: Present | None = None
    terminated: Present | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    restart_count: int = 0
    resources: Resources | None = None
    allocated_resources: Quantities = {}


class PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    resources: Resources | None = None
    allocated_resources: Quantities = {}


class WirePod(Struct, frozen=True):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class WireTaint(Struct, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: list[WireTaint] = []


class Image(Struct, frozen=True, rename="camel", gc=False):
    names: list[str] = []
    size_bytes: int = 0


class NodeStatus(Struct, frozen=True, rename="camel"):
    allocatable: Quantities = {}
    images: list[Image] = msgspec.field(default_factory=list[Image])
    conditions: list[Condition] = []
    declared_features: list[str] = []


class WireNode(Struct, frozen=True):
    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class FailureRule(Struct, frozen=True, rename="camel"):
    action: str = ""
    on_exit_codes: Present | None = None
    on_pod_conditions: list[Condition] = []


class FailurePolicy(Struct, frozen=True):
    rules: list[FailureRule] = []


class OwnerSpec(Struct, frozen=True, rename="camel"):
    """The union of what is read of Job, ReplicaSet and StatefulSet."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    active_deadline_seconds: int = 0
    replicas: int | None = None
    pod_management_policy: str = ""
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    pod_failure_policy: FailurePolicy = FailurePolicy()


class Uncounted(Struct, frozen=True):
    """Pods that the Job controller lets go; `failed` of the status counts them only afterwards."""

    failed: list[str] = []


class OwnerStatus(Struct, frozen=True, rename="camel"):
    succeeded: int = 0
    failed: int = 0
    uncounted_terminated_pods: Uncounted | None = None
    start_time: str | None = None
    conditions: list[Condition] = []


class WireOwner(Struct, frozen=True):
    metadata: ObjectMeta
    spec: OwnerSpec = OwnerSpec()
    status: OwnerStatus = OwnerStatus()


class MetadataOnly(Struct, frozen=True):
    metadata: ObjectMeta
