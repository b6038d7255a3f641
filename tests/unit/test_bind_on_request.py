"""A pod bound because kube-scheduler's extender was asked to: who asks is told what came of it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fairlead.kube.client import ApiClient
from fairlead.kube.on_request import BindsOnRequest
from fairlead.model.command import Bind
from kube_fake import FakeApi, answers, pod

BIND = Bind(
    "", "uid-default-p", "default", "p", "n1", 10, "external-scheduler",
    (("batchjob.tuberlin.de/slots-id", "1"),), (("fairlead.dev/slot", "n1/1"),),
)  # fmt: skip


class Rig:
    def __init__(self, api: FakeApi) -> None:
        self.api, self.allowed = api, 60.0
        self.client = ApiClient(api.access)
        self.binds = BindsOnRequest(self.client, fence=lambda: self.allowed)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with FakeApi() as api:
        found = Rig(api)
        yield found
        await found.binds.close()
        await found.client.close()


async def test_it_is_bound_with_its_slot_over_what_was_seen(rig: Rig):
    rig.api.add(pod("p"))
    assert await rig.binds.bind(BIND) == ""
    (body,) = rig.api.sent("POST", "/binding")
    meta = body["metadata"]
    assert (meta["uid"], meta["resourceVersion"]) == ("uid-default-p", "10")
    assert meta["annotations"] == {"fairlead.dev/slot": "n1/1"}
    assert meta["labels"] == {"batchjob.tuberlin.de/slots-id": "1"}
    assert await rig.binds.bind(BIND) == "", "bound there already"


async def test_why_it_cannot_be_bound_is_said(rig: Rig):
    assert (await rig.binds.bind(BIND)).startswith("gone: ")
    rig.api.add(pod("p"))
    rig.api.fault("POST", "/binding", answers(403, message="no right to bind"))
    assert (await rig.binds.bind(BIND)).startswith("refused: ")
    rig.allowed = 0.0
    assert "may not write any more" in await rig.binds.bind(BIND)
    rig.allowed = 60.0
    assert await rig.binds.bind(BIND) == ""


async def test_one_pod_is_bound_by_one_request_at_a_time(rig: Rig):
    rig.api.add(pod("p"))
    first = asyncio.create_task(rig.binds.bind(BIND))
    await asyncio.sleep(0)
    assert await rig.binds.bind(BIND) == "this pod is being bound already"
    assert await first == ""


async def test_who_still_waits_at_the_end_is_told(rig: Rig):
    rig.api.add(pod("p"))
    asked = asyncio.create_task(rig.binds.bind(BIND))
    await asyncio.sleep(0)
    await rig.binds.close()
    assert await asked in ("", "Fairlead is ending")
