"""Small simulated clusters for tests of external schedulers: a Testbed `tb` and jobs, and looks at them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairlead.core.durations import instant
from fairlead.model import command as cmd
from fairlead.model.batchjob import BatchJob, BatchJobSpec, BatchJobStatus, JobState
from fairlead.model.esi import HoldCapacity, Ref, Testbed, TestbedOptions, TestbedSpec
from fairlead.model.scheduling import (
    FailurePolicy,
    OnFailure,
    Scheduling,
    SchedulingOptions,
    SchedulingSpec,
    SchedulingState,
    SlotBased,
    SlotJob,
    SlotMode,
)
from fairlead.sim.esi_operators import RunTimes
from fairlead.sim.esi_world import EsiWorld

LABEL = "tuberlin.de/slots"
SPARK: dict[str, Any] = {
    "type": "Scala",
    "mode": "cluster",
    "image": "spark",
    "sparkVersion": "3.5.0",
    "mainApplicationFile": "local:///pi.jar",
    "driver": {"serviceAccount": "spark"},
    "executor": {"cores": 1},
}
POD: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}


def ref(name: str, namespace: str = "default") -> Ref:
    return Ref(namespace, name)


def yard(
    nodes: int = 2, slots: int = 2, jobs: str = "j1 j2 j3", hold: str = "none", **times: int
) -> EsiWorld:
    """`nodes` members with `slots` slots each, Spark jobs by these names, run times in seconds (`j1=5`)."""
    world = EsiWorld(run_times=RunTimes({name: each * 1000 for name, each in times.items()}))
    for number in range(nodes):
        world.node(f"n{number}", {LABEL: str(number)})
    world.account("spark")
    world.put(bed(slots, hold=hold))
    for name in jobs.split():
        world.put(spark(name))
    world.run(100)
    return world


def bed(slots: int = 2, name: str = "tb", cpu: str = "500m", hold: str = "none") -> Testbed:
    spec = TestbedSpec(LABEL, slots, {"cpu": cpu, "memory": "1Gi"}, TestbedOptions(HoldCapacity(hold)))
    return Testbed("", 0, "default", name, spec)


def spark(name: str, **more: Any) -> BatchJob:
    return BatchJob("", 0, "default", name, BatchJobSpec(spark_spec={**SPARK, **more}))


def options(
    release: bool = False,
    on: str = "FailFast",
    retries: int = 3,
    backoff: str = "10s",
    wait: str = "",
    alone: bool = False,
) -> SchedulingOptions:
    policy = FailurePolicy(OnFailure(on), retries, backoff)
    return SchedulingOptions(release, policy, wait, alone)


def queue(world: EsiWorld, name: str, jobs: str, tb: str = "tb", **more: Any) -> None:
    """A queue-based Scheduling, made or replaced."""
    refs = [ref(each) for each in jobs.split()]
    spec = SchedulingSpec(ref(tb), queue_based=refs, fairlead=options(**more))
    world.put(Scheduling("", 0, "default", name, spec))


def slots(
    world: EsiWorld, name: str, mode: str, jobs: Mapping[str, Sequence[int]], tb: str = "tb", **more: Any
) -> None:
    """A slot-based Scheduling, made or replaced."""
    named = [SlotJob(ref(job), list(each)) for job, each in jobs.items()]
    based = SlotBased(named, SlotMode(mode))
    spec = SchedulingSpec(ref(tb), slot_based=based, fairlead=options(**more))
    world.put(Scheduling("", 0, "default", name, spec))


def until(world: EsiWorld, what: Callable[[], bool], most: int = 120_000, step: int = 50) -> None:
    """Let time pass until this holds."""
    end = world.now + most
    while not what():
        assert world.now < end, f"not within {most / 1000:g} s: {picture(world)}"
        world.run(step)


def comes(world: EsiWorld, kind: str, name: str, state: str, most: int = 120_000) -> None:
    """Let time pass until the object is in this state, as the cluster shows it."""
    until(world, lambda: state_of(world, kind, name) == state, most)


def state_of(world: EsiWorld, kind: str, name: str) -> str:
    found = world.thing(kind, name)
    return "" if found is None else str(found.status.state)


def picture(world: EsiWorld) -> dict[str, str]:
    """Every Scheduling and job and its state, with what is said of it."""
    found: dict[str, str] = {}
    for kind in ("Scheduling", "BatchJob"):
        for raw in world.objects.all(kind):
            status = raw.get("status", {})
            said = status.get("reason") or "; ".join(status.get("problems", []))
            found[raw["metadata"]["name"]] = f"{status.get('state')} ({said})"
    return found


def states(world: EsiWorld, kind: str, name: str) -> list[str]:
    """The states that the engine has written of an object, in order, without repetitions."""
    found: list[str] = []
    for _, command in world.log:
        if isinstance(command, cmd.PatchObject) and command.sub == "status" and command.ref.name == name:
            state = json.loads(command.body)["status"].get("state")
            if command.ref.kind == kind and state is not None and found[-1:] != [state]:
                found.append(state)
    return found


def ids(job: BatchJobStatus) -> str:
    """The numbers of its slots as ESI's label has them."""
    return "_".join(map(str, job.slot_ids))


def conditions(status: Any) -> list[str]:
    return [each.condition for each in status.conditions]


def seconds(text: str) -> float:
    return (instant(text) or 0) / 1000


def free(world: EsiWorld, tb: str = "tb") -> list[int]:
    """The numbers of the free slots, as the cluster shows them."""
    return [slot.position for slot in world.testbed(tb).slots if slot.state == "FREE"]


def told(world: EsiWorld, name: str) -> list[str]:
    """The Events about a Scheduling: "reason: note"."""
    return [f"{each.reason}: {each.note}" for each in world.events if each.regarding.name == name]


def invariants(world: EsiWorld) -> None:
    """What must be true at any moment of the engine, whatever has happened (requirements D3)."""
    state, esi = world.engine.state, world.engine.state.esi
    assert not state.inventory.check()
    places: dict[tuple[str, str], str] = {}
    for uid, place in esi.places.items():
        assert place not in places, f"{uid} and {places[place]} share {place}"
        places[place] = uid
    given: dict[tuple[str, str], str] = {}
    for job in esi.jobs.values():
        status = esi.job_status(job.uid)
        if status.state in (JobState.SUBMITTED, JobState.SCHEDULED, JobState.RUNNING):
            for key in status.places:
                place = (str(status.slots), key)
                assert place not in given, f"{job.name} and {given[place]} were given {place}"
                given[place] = job.name


def settled(world: EsiWorld) -> None:
    """What must be true once nothing moves any more."""
    esi = world.engine.state.esi
    for job in esi.jobs.values():
        status = esi.job_status(job.uid)
        assert (status.active_scheduling is None) == (status.claimed_by == "")
        if status.claimed_by:
            owner = esi.schedulings.get(status.claimed_by)
            assert owner is not None, f"{job.name} is claimed by one that is gone"
            state = esi.scheduling_status(owner.uid).state
            over = (SchedulingState.FAILED, SchedulingState.FINISHED)
            assert state not in over, f"{job.name} is claimed by {owner.name}, which is in {state}"
        assert job.status == status, f"{job.name} is not written"
        if job.spec is not None:
            assert job.spec.active_scheduling == status.active_scheduling
    for scheduling in esi.schedulings.values():
        assert scheduling.status == esi.scheduling_status(scheduling.uid)
