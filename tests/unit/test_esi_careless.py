"""A careless outside scheduler: whatever it posts, nobody else's claims and pods change, and it is told why.

Each test has a Scheduling of somebody else, `theirs`, whose job j4 runs in slot 0 all the while.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from esi_doors import Served, served, small

from fairlead.model.batchjob import JobState
from fairlead.model.esi import Ref
from fairlead.sim.esi_world import EsiWorld

THEIRS = {"mode": "STRICT", "jobs": [{"name": "j4", "slots": [0]}]}


def slots(*jobs: tuple[str, list[int]]) -> dict[str, Any]:
    return {"mode": "STRICT", "jobs": [{"name": name, "slots": numbers} for name, numbers in jobs]}


def picture(world: EsiWorld) -> tuple[Any, ...]:
    """What must not change: the claim, state and place of j4, its pods, and where they are."""
    job = world.job("j4")
    pods = sorted((pod.uid, pod.node, pod.phase, pod.deleting) for pod in world.pods_of("j4"))
    events = [(event.start, event.stop) for event in job.scheduled_events]
    return job.state, job.active_scheduling, job.places, events, pods, world.scheduling("theirs").state


@contextlib.asynccontextmanager
async def beside() -> AsyncIterator[Served]:
    """j4 runs for hours; at the end it still does, as if nothing had been."""
    world = small()
    world.operators.run_times.alone["j4"] = 10**9
    async with served(world) as esi:
        assert (await esi.scheduling("theirs", slots=THEIRS)).status_code == 200
        await esi.until(lambda: world.job("j4").state == JobState.RUNNING, "j4 to run")
        await esi.reaches("theirs", "AwaitingCompletionState")
        await esi.until(lambda: world.scheduling("theirs").state == "AwaitingCompletionState")
        before = picture(world)
        assert before[4], "its pod"
        yield esi
        await settled(esi)
        assert picture(world) == before


async def settled(esi: Served) -> None:
    """A while later."""
    at = esi.world.now + 20_000
    await esi.until(lambda: esi.world.now >= at)


def free_of_claims(world: EsiWorld, *jobs: str) -> bool:
    found = [world.job(name) for name in jobs]
    return all(not job.active_scheduling and job.state == JobState.READY for job in found)


def states(world: EsiWorld) -> list[str]:
    """Of the slots, in order of their numbers."""
    return [slot.state.value for slot in sorted(world.testbed("tb").slots, key=lambda slot: slot.position)]


async def test_unknown_slots_are_refused_and_nothing_is_made():
    async with beside() as esi:
        answer = await esi.scheduling("mine", slots=slots(("j1", [1]), ("j2", [2, 17])))
        assert (answer.status_code, "no slot 17" in answer.json()["error"]) == (400, True)
        await settled(esi)
        assert [each["name"] for each in await esi.get("/external/schedulings")] == ["theirs"]
        assert free_of_claims(esi.world, "j1", "j2")


async def test_taken_slots_are_waited_for_with_a_reason_and_others_go_on():
    async with beside() as esi:
        await esi.scheduling("mine", slots=slots(("j1", [0])))
        await settled(esi)
        found = await esi.get("/external/schedulings/mine")
        assert found["state"] in ("AcquireState", "SubmissionState"), found
        assert "0" in found["reason"], found
        await esi.scheduling("other", slots=slots(("j2", [1])))
        await esi.reaches("other", "CompletedState")
        await esi.ask("DELETE", "/external/schedulings/mine")
        await esi.until(lambda: free_of_claims(esi.world, "j1"), "j1 to be released")


async def test_a_foreign_job_cannot_be_claimed_and_private_ones_are_not_claimed_with_it():
    async with beside() as esi:
        await esi.scheduling("mine", slots=slots(("j4", [1]), ("j1", [2])))
        await settled(esi)
        found = await esi.get("/external/schedulings/mine")
        assert (found["state"], found["position"]) == ("AcquireState", 1)
        assert "theirs" in found["reason"], found
        assert free_of_claims(esi.world, "j1")


async def test_a_double_post_is_one_scheduling_and_runs_its_jobs_once():
    async with beside() as esi:
        for _ in range(3):
            assert (await esi.scheduling("mine", slots=slots(("j1", [1])))).status_code == 200
        await esi.reaches("mine", "CompletedState")
        assert (await esi.scheduling("mine", slots=slots(("j1", [1])))).status_code == 200
        await settled(esi)
        assert len(esi.world.job("j1").scheduled_events) == 1
        uid = esi.world.uid("Scheduling", "mine")
        tag = (await esi.ask("GET", "/external/schedulings/mine")).headers["etag"]
        await esi.scheduling("mine", slots=slots(("j1", [2])))
        late = {"name": "mine", "testBed": "tb", "slots": slots(("j1", [3]))}
        refused = await esi.ask("POST", "/external/schedulings", late, if_match=tag)
        assert (refused.status_code, "has changed since" in refused.json()["error"]) == (412, True)
        assert esi.world.uid("Scheduling", "mine") == uid


async def test_one_that_stalls_past_its_limit_loses_its_claims_and_is_told_why():
    async with beside() as esi:
        esi.world.stall("j1")
        await esi.scheduling("mine", slots=slots(("j1", [1]), ("j2", [2])), fairlead={"maxWait": "30s"})
        found = await esi.reaches("mine", "FailedState")
        assert "30" in found["reason"], found
        await esi.until(lambda: free_of_claims(esi.world, "j1", "j2"), "its claims to be released")
        await esi.until(lambda: states(esi.world) == ["OCCUPIED", "FREE", "FREE", "FREE"], "its slots")


async def test_one_that_vanishes_leaves_nothing_claimed_after_its_limit():
    async with beside() as esi:
        await esi.scheduling("mine", slots=slots(("j1", [1]), ("j2", [2])), fairlead={"maxWait": "30s"})
        await esi.reaches("mine", "CompletedState")
        found = await esi.reaches("mine", "FinishedState")  # nobody has deleted it
        assert found["reason"], found
        await esi.until(lambda: free_of_claims(esi.world, "j1", "j2"), "its claims to be released")


async def test_a_scheduling_deleted_while_it_runs_releases_its_claims_and_its_pods_end():
    async with beside() as esi:
        esi.world.operators.run_times.alone["j1"] = 10**9
        await esi.scheduling("mine", slots=slots(("j1", [1]), ("j2", [2])))
        await esi.until(lambda: esi.world.job("j1").state == JobState.RUNNING, "j1 to run")
        assert (await esi.ask("DELETE", "/external/schedulings/mine")).status_code == 200
        await esi.until(lambda: free_of_claims(esi.world, "j1", "j2"), "its claims to be released")
        assert (
            not esi.world.pods_of("j1")
            and esi.doors.feed.picture.of("schedulings", Ref("default", "mine")) is None
        )
