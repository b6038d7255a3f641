"""External schedulers in random worlds: whatever happens in whatever order, no two jobs share a slot, claims
are whole, nobody running is evicted, restarts change nothing, and all is given back (requirements D3)."""

import json
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from esi_yard import LABEL, bed, invariants, options, ref, settled, spark
from fairlead.model import command as cmd
from fairlead.model.batchjob import JobState
from fairlead.model.esi import RESET, TESTBED_LABEL
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.scheduling import (
    Scheduling,
    SchedulingSpec,
    SchedulingState,
    SlotBased,
    SlotJob,
    SlotMode,
)
from fairlead.sim.esi_operators import RunTimes
from fairlead.sim.esi_world import EsiWorld

JOBS = ("j0", "j1", "j2", "j3")
SCHEDULINGS = ("s0", "s1", "s2")
NODES = ("n0", "n1", "n2")
VERBS = (
    "queue", "queue", "queue", "strict", "relaxed", "unschedule", "unschedule", "delete job", "put job",
    "vanish", "fail", "stall", "reset", "unlabel", "label", "crowd", "leave", "resize", "delete bed",
    "put bed", "crash", "fuse", "refuse", "wait", "wait", "wait",
)  # fmt: skip


class Op(NamedTuple):
    verb: str
    a: int
    b: int
    c: int


OPS = st.lists(
    st.builds(Op, st.sampled_from(VERBS), st.integers(0, 11), st.integers(0, 11), st.integers(0, 11)),
    min_size=3,
    max_size=25,
)


class Watched(EsiWorld):
    """Looks after every batch."""

    def look(self) -> None:
        super().look()
        invariants(self)


def begun(hold: int) -> Watched:
    world = Watched(run_times=RunTimes({name: 2_000 * (n + 1) for n, name in enumerate(JOBS)}))
    world.account("spark")
    for number, name in enumerate(NODES):
        world.node(name, {LABEL: str(number)})
    world.put(bed(hold="pods" if hold % 2 else "none"))
    for name in JOBS:
        world.put(spark(name))
    world.run(200)
    return world


def spec_of(op: Op) -> SchedulingSpec:
    jobs = [ref(JOBS[(op.b + n * (1 + op.c % 3)) % 4]) for n in range(1 + op.c % 6)]
    more = options(
        release=op.a % 2 == 0,
        on=("FailFast", "Continue", "Retry")[op.b % 3],
        retries=op.c % 3,
        backoff="1s",
        wait="20s" if op.c > 8 else "",
        alone=op.a > 10,
    )
    if op.verb == "queue":
        return SchedulingSpec(ref("tb"), queue_based=jobs, fairlead=more)
    named = [SlotJob(job, [(op.a + n) % 7, (op.a + n + 2) % 7]) for n, job in enumerate(dict.fromkeys(jobs))]
    based = SlotBased(named, SlotMode(op.verb))
    return SchedulingSpec(ref("tb"), slot_based=based, fairlead=more)


def do(world: Watched, op: Op) -> None:
    """One thing happens; then a little time passes."""
    job, scheduling, node = JOBS[op.a % 4], SCHEDULINGS[op.a % 3], NODES[op.a % 3]
    there = world.objects.find
    match op.verb:
        case "queue" | "strict" | "relaxed":
            world.put(Scheduling("", 0, "default", scheduling, spec_of(op)))
        case "unschedule":
            if there("Scheduling", ref(scheduling)):
                world.delete("Scheduling", scheduling)
        case "delete job":
            if there("BatchJob", ref(job)):
                world.delete("BatchJob", job)
        case "put job":
            world.put(spark(job))
        case "vanish":
            world.vanish(job)
        case "fail":
            world.fail(job, (-1, 100, 1_500)[op.b % 3])
        case "stall":
            world.stall(job, op.b % 2 == 0)
        case "reset":
            if there("BatchJob", ref(job)):
                world.edit("BatchJob", job, {"metadata": {"annotations": {RESET: str(op.b)}}})
        case "unlabel":
            world.label_node(node, {LABEL: None})
        case "label":
            world.label_node(node, {LABEL: str(op.b)})
        case _:
            trouble(world, op, node)
    world.run((1, 3, 40, 300, 1_000, 5_000)[op.c % 6])


def trouble(world: Watched, op: Op, node: str) -> None:
    there = world.objects.find
    match op.verb:
        case "crowd":
            shape = Shape((("cpu", 700), ("memory", 1 << 30), ("pods", 1)))
            uid = f"big-{world.version}"
            world.pod(Pod(uid, "default", uid, 0, shape, node=node, phase=PodPhase.RUNNING))
        case "leave":
            for uid in [uid for uid in world.pods if uid.startswith("big-")]:
                world.pod_gone(uid)
        case "resize":
            if there("Testbed", ref("tb")):
                world.put(bed(1 + op.b % 3, hold="pods" if op.c % 2 else "none"))
        case "delete bed":
            if there("Testbed", ref("tb")):
                world.delete("Testbed", "tb")
        case "put bed":
            world.put(bed())
        case "crash":
            world.crash()
            world.run(op.b * 300)
            world.start()
        case "fuse":  # killed in the middle of what it was about to do
            world.fuse = op.b
            world.run(3_000)
            world.fuse = -1
            if not world.alive:
                world.start()
        case "refuse":
            world.refusing["create", "SparkApplication"] = (500, "try later")
            world.refusing["patch", ("BatchJob", "Scheduling", "Testbed")[op.b % 3]] = (500, "try later")
            world.run(3_000)
            world.refusing.clear()
        case _:
            world.run(op.b * 500)


def nobody_was_evicted(world: Watched) -> None:
    """Applications end their pods themselves: Fairlead deletes ghosts and applications only."""
    for _, command in world.log:
        assert not isinstance(command, cmd.Evict | cmd.End)
        if isinstance(command, cmd.DeleteObject) and command.ref.kind == "Pod":
            assert command.ref.name.startswith("ghostpod-"), command


def calm(world: Watched) -> None:
    """Nothing goes wrong any more."""
    if not world.alive:
        world.start()
    world.fuse = -1
    world.refusing.clear()
    for job in JOBS:
        world.stall(job, False)
        world.operators.failing.pop(job, None)
    world.run(120_000)


def why(world: Watched) -> str:
    """What is wrong once nothing more happens."""
    esi = world.engine.state.esi
    for scheduling in esi.schedulings.values():
        status = esi.scheduling_status(scheduling.uid)
        if status.state is not SchedulingState.FINISHED and not status.reason:
            return f"{scheduling.name} is in {status.state} and does not say why"
        jobs = [(job.name, esi.job_status(job.uid)) for job in esi.jobs.values()]
        claimed = [
            name
            for name, status in jobs
            if status.claimed_by == scheduling.uid and not (status.application or status.attempts)
        ]
        if claimed and status.state is SchedulingState.ACQUIRE:
            return f"{scheduling.name} waits and holds {claimed}"
    return ""


def played(ops: list[Op]) -> Watched:
    world = begun(ops[0].a)
    for op in ops:
        do(world, op)
    calm(world)
    nobody_was_evicted(world)
    return world


def ended(world: Watched) -> None:
    """When all Schedulings are deleted, all is given back."""
    for name in SCHEDULINGS:
        if world.objects.find("Scheduling", ref(name)):
            world.delete("Scheduling", name)
    world.put(bed())
    world.run(60_000)
    settled(world)
    esi = world.engine.state.esi
    for job in esi.jobs.values():
        status = esi.job_status(job.uid)
        assert status.state is JobState.READY, (job.name, status)
        assert not (status.places or status.claimed_by or status.application)
        assert all(each.stop for each in status.scheduled_events)
        assert world.app_of(job.name) is None
    assert not [pod.name for pod in world.pods.values() if pod.labels.get(TESTBED_LABEL) and not pod.owner]
    assert not esi.places


FAILED_TWICE = [Op("queue", 0, 2, 3), Op("fail", 0, 1, 4), Op("crash", 0, 3, 4), Op("queue", 1, 0, 3)]


@settings(max_examples=60)
@given(OPS)
@example(FAILED_TWICE)
def test_RA1_RA2_whatever_happens_slots_and_claims_are_given_back(ops: list[Op]):
    world = played(ops)
    assert why(world) == ""
    settled(world)
    ended(world)


@settings(max_examples=25)
@given(OPS)
def test_a_restart_at_rest_changes_nothing(ops: list[Op]):
    world = played(ops)
    before = shown(world)
    world.crash()
    world.run(1_000)
    world.start()
    world.run(60_000)
    assert shown(world) == before


def shown(world: Watched) -> dict[str, str]:
    """Specs and statuses as the cluster has them, without times."""
    found: dict[str, str] = {}
    for raw in world.objects.all():
        status = {key: value for key, value in raw.get("status", {}).items() if key != "conditions"}
        found[raw["metadata"]["uid"]] = json.dumps([raw.get("spec"), status], sort_keys=True)
    return found
