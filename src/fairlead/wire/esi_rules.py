"""What must hold between the fields of ESI's specs, and what to write where it does not.

The words are used by `wire.esi`, which reads objects, and by `wire.crds`, whose rules let the API server
refuse them in the first place. Pure.
"""

from fairlead.core.durations import duration
from fairlead.model.batchjob import AppKind, BatchJobSpec
from fairlead.model.esi import TestbedSpec
from fairlead.model.quantity import QuantityError, amount
from fairlead.model.scheduling import SchedulingSpec

ONE_PLAN = "write exactly one of queueBased and slotBased"
TESTBED = "write testbed: {namespace: NAMESPACE, name: NAME}, and not its old name, slots, beside it"
DISTINCT = "write each job once in slotBased.jobs, with all its slotIds"
ONE_APPLICATION = (
    "write exactly one of sparkSpec, flinkSpec, fairlead.flinkDeploymentSpec, fairlead.jobSpec and"
    " fairlead.jobSetSpec"
)
FLINK_KIND = "write flinkKind: FlinkDeployment or flinkKind: FlinkCluster"
SLOTS_PER_NODE = "write slotsPerNode: 1, or more"
NODE_LABEL = "write nodeLabel: KEY, the label that member nodes have"
RESOURCES = "write both cpu and memory in resourcesPerSlot, such as {cpu: 600m, memory: 1.75Gi}"
DURATION = "write a duration such as 90s or 1h30m"


def testbed(spec: TestbedSpec) -> str:
    """What to write instead; "" if all is well. So the other two."""
    if not spec.node_label:
        return NODE_LABEL
    if spec.slots_per_node < 1:
        return SLOTS_PER_NODE
    if not {"cpu", "memory"} <= spec.resources_per_slot.keys():
        return RESOURCES
    for name, value in spec.resources_per_slot.items():
        try:
            if amount(name, value) < 0:
                return f"resourcesPerSlot.{name}: write an amount that is not below 0"
        except QuantityError as error:
            return f"resourcesPerSlot.{name}: {error}"
    return ""


def batch_job(spec: BatchJobSpec) -> str:
    more = spec.fairlead
    found = (
        spec.spark_spec,
        spec.flink_spec,
        more.flink_deployment_spec,
        more.job_spec,
        more.job_set_spec,
    )
    if sum(each is not None for each in found) != 1:
        return ONE_APPLICATION
    return "" if more.flink_kind in (AppKind.FLINK, AppKind.FLINK_CLUSTER) else f"fairlead: {FLINK_KIND}"


def scheduling(spec: SchedulingSpec) -> str:
    if (spec.testbed is None) == (spec.slots is None):
        return TESTBED
    if (spec.queue_based is None) == (spec.slot_based is None):
        return ONE_PLAN
    if spec.slot_based is not None:
        jobs = [each.name for each in spec.slot_based.jobs]
        if len(set(jobs)) < len(jobs):
            return DISTINCT
    policy = spec.fairlead.failure_policy
    for name, text in (("maxWait", spec.fairlead.max_wait), ("failurePolicy.backoff", policy.backoff)):
        if text and duration(text) is None:
            return f"fairlead.{name}: {DURATION}"
    return ""
