"""What is sent when a group is ended: to whom, on which conditions, and what a refusal is told as."""

from collections.abc import AsyncIterator

import pytest

from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.model.command import End, ObjectRef
from fairlead.model.group import Why
from kube_fake import FakeApi, ListInbox, answers, pod

JOB = ObjectRef("Job", "default", "j", "uid-j", 7)
POD = ObjectRef("Pod", "default", "p", "uid-default-p")
TEXT = "its walltime of 5s is over"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture
async def actuator(api: FakeApi) -> AsyncIterator[Actuator]:
    client = ApiClient(api.access)
    made = Actuator(client, pod_events=False)
    made.attach(ListInbox())
    yield made
    await made.close()
    await client.close()


async def counted(actuator: Actuator, name: str, times: int = 1) -> None:
    await ListInbox().until(lambda _: actuator.stats.get(name, 0) >= times)


async def test_F10_a_pod_is_deleted_by_uid_with_the_grace_that_it_asks_for(api: FakeApi, actuator: Actuator):
    api.add(pod("p"))
    actuator.perform([End("g", TEXT, pods=(POD,))])
    await counted(actuator, "end_done")
    (body,) = api.sent("DELETE", "/pods/p")
    assert body["preconditions"] == {"uid": "uid-default-p"}
    assert "gracePeriodSeconds" not in body


async def test_F10_another_pod_of_that_name_stays(api: FakeApi, actuator: Actuator):
    api.add(pod("p", uid="another"))
    actuator.perform([End("g", TEXT, pods=(POD,))])
    await counted(actuator, "end_gone")
    assert ("default", "p") in api.pods


async def test_B18_a_job_is_failed_by_a_deadline_that_is_over(api: FakeApi, actuator: Actuator):
    api.fault("PATCH", "/jobs/j", answers(200))
    actuator.perform([End("g", TEXT, fail=(JOB,))])
    await counted(actuator, "end_done")
    (body,) = api.sent("PATCH", "/jobs/j")
    assert body["spec"] == {"activeDeadlineSeconds": 1}
    assert body["metadata"]["uid"] == "uid-j"
    assert body["metadata"]["annotations"] == {"fairlead.dev/ended": f"Timeout: {TEXT}"}
    assert not api.sent("DELETE")


async def test_L12_a_job_that_fails_with_its_member_says_so(api: FakeApi, actuator: Actuator):
    api.fault("PATCH", "/jobs/j", answers(200))
    actuator.perform([End("g", "member p failed", fail=(JOB,), why=Why.FAILED)])
    await counted(actuator, "end_done")
    (body,) = api.sent("PATCH", "/jobs/j")
    assert body["metadata"]["annotations"] == {"fairlead.dev/ended": "Failed: member p failed"}


async def test_F10_a_job_is_deleted_in_the_foreground_if_it_is_of_that_version(
    api: FakeApi, actuator: Actuator
):
    api.fault("DELETE", "/jobs/j", answers(200))
    actuator.perform([End("g", TEXT, delete=(JOB,))])
    await counted(actuator, "end_done")
    (body,) = api.sent("DELETE", "/jobs/j")
    assert body["preconditions"] == {"uid": "uid-j", "resourceVersion": "7"}
    assert body["propagationPolicy"] == "Foreground"


async def test_F7_overload_is_waited_out_and_a_refusal_is_told_with_the_verb(
    api: FakeApi, actuator: Actuator
):
    api.add(pod("p"))
    api.fault("DELETE", "/pods/p", answers(429), answers(503))
    api.fault("PATCH", "/jobs/j", answers(403, "Forbidden", 'cannot patch resource "jobs"'))
    actuator.perform([End("g", TEXT, fail=(JOB,), pods=(POD,))])
    await counted(actuator, "end_done")
    await counted(actuator, "events_written")
    (event,) = api.events.values()
    assert (event["reason"], event["type"]) == ("EndForbidden", "Warning")
    assert 'cannot patch resource "jobs"' in event["note"]
    assert actuator.stats["end_failed"] == 1


async def test_F24_what_is_gone_already_has_ended_and_is_no_failure(api: FakeApi, actuator: Actuator):
    api.fault("PATCH", "/jobs/j", answers(404, "NotFound"))
    actuator.perform([End("g", TEXT, fail=(JOB,), pods=(POD,))])
    await counted(actuator, "end_gone", 2)
    assert "end_failed" not in actuator.stats and not api.events
