"""The fence of every writer: it bounds a request's time, and nothing is sent when there is none left."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.kube.crew import Crew
from fairlead.model.command import (
    Announce,
    Bind,
    Command,
    End,
    Evict,
    ObjectRef,
    PatchAnnotation,
    PatchCondition,
    Revoke,
)
from fairlead.model.event import BindError, BindFailed, Evicted
from kube_fake import FakeApi, ListInbox, pod, silence

REF = ObjectRef(kind="Pod", namespace="default", name="p", uid="uid-default-p", version=10)
BIND = Bind("plan/g", REF.uid, REF.namespace, REF.name, "n1", 10)
WRITES: dict[str, Command] = {
    "bind": BIND,
    "evict": Evict(REF, "it must go"),
    "end": End("g", "its walltime is over", pods=(REF,)),
    "revoke": Revoke(REF, "plan/g"),
    "condition": PatchCondition((REF,), "Unschedulable", "full"),
    "annotation": PatchAnnotation(REF, "fairlead.dev/estimated-start", "soon"),
    "event": Announce(REF, "Queued", "it waits"),
}
WRITING = ("POST", "PATCH", "DELETE", "PUT")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        fake.add(pod("p"))
        yield fake


class Rig:
    def __init__(self, api: FakeApi, allowed: float) -> None:
        self.allowed = allowed
        self.inbox = ListInbox()
        self.client = ApiClient(api.access)
        self.actuator = Actuator(self.client, fence=lambda: self.allowed)
        self.actuator.attach(self.inbox)

    async def close(self) -> None:
        await self.actuator.close()
        await self.client.close()


def done(actuator: Actuator) -> int:
    return sum(actuator.stats.values())


@pytest.mark.parametrize("name", WRITES)
async def test_RA3_who_may_not_write_sends_nothing(name: str, api: FakeApi) -> None:
    rig = Rig(api, 0.0)
    rig.actuator.perform([WRITES[name]])
    deadline = time.monotonic() + 30
    while not done(rig.actuator):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    await rig.close()
    assert [request for request in api.requests if request[0] in WRITING] == []


@pytest.mark.parametrize("name", WRITES)
async def test_who_may_write_sends_it(name: str, api: FakeApi) -> None:
    """The same commands with the fence up: else the test above would prove nothing."""
    rig = Rig(api, 15.0)
    rig.actuator.perform([WRITES[name]])
    deadline = time.monotonic() + 30
    while not [request for request in api.requests if request[0] in WRITING]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)
    await rig.close()


async def test_RA3_a_request_takes_no_longer_than_the_lease_allows(api: FakeApi) -> None:
    """Its own time-out is ten seconds; the test's time is far longer than what the lease has left."""
    api.fault("POST", "/binding", silence)
    api.fault("PATCH", "/status", silence)
    rig = Rig(api, 0.2)
    begun = time.monotonic()
    rig.actuator.perform([BIND])
    (failed,) = await rig.inbox.until(lambda seen: seen)
    assert isinstance(failed, BindFailed) and failed.error is BindError.UNKNOWN
    assert "0.2 s" in failed.text
    rig.actuator.perform([WRITES["evict"]])
    rig.allowed = 0.2
    await rig.inbox.until(lambda seen: any(isinstance(each, Evicted) for each in seen))
    assert time.monotonic() - begun < 10 + 10  # two time-outs
    await rig.close()


@pytest.mark.parametrize(("allowed", "patience"), [(0.0, 0.0), (0.7, 0.7), (15.0, 2.0)])
async def test_RA3_nothing_in_flight_is_waited_for_beyond_the_lease(
    allowed: float, patience: float, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    close = Crew.close

    async def spy(crew: Crew, patience: float) -> None:
        waits.append(patience)
        await close(crew, patience)

    monkeypatch.setattr(Crew, "close", spy)
    await Rig(api, allowed).close()
    assert max(waits) == patience
