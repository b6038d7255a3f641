"""What is written to bind a claim, and which answers end it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.model.command import BindClaim, ObjectRef
from fairlead.model.event import BindError, BindFailed
from kube_fake import FakeApi, ListInbox, answers, cut

CLAIM = ObjectRef("PersistentVolumeClaim", "default", "data", "u-data", 7)
VOLUME = ObjectRef("PersistentVolume", "", "disk", "u-disk", 9)
MAKE = BindClaim("plan/g", "p", "n1", CLAIM)
GIVE = BindClaim("plan/g", "p", "n1", CLAIM, VOLUME)


class Rig:
    def __init__(self, api: FakeApi, **options: Any) -> None:
        self.inbox = ListInbox()
        self.client = ApiClient(api.access)
        self.actuator = Actuator(self.client, pod_events=False, **options)
        self.actuator.attach(self.inbox)

    async def done(self, command: BindClaim, outcome: str) -> None:
        self.actuator.perform([command])
        await self.inbox.until(lambda _: self.actuator.stats.get(f"claim_{outcome}"))


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture
async def rig(api: FakeApi) -> AsyncIterator[Rig]:
    made = Rig(api)
    yield made
    await made.actuator.close()
    await made.client.close()


async def test_a_claim_is_marked_with_the_node_over_the_version_that_was_seen(api: FakeApi, rig: Rig) -> None:
    api.fault("PATCH", "/api/v1/namespaces/default/persistentvolumeclaims/data", answers(200))
    await rig.done(MAKE, "written")
    notes = {"volume.kubernetes.io/selected-node": "n1"}
    assert api.sent("PATCH") == [
        {"metadata": {"uid": "u-data", "resourceVersion": "7", "annotations": notes}}
    ]


@pytest.mark.parametrize("by_controller", [True, False])
async def test_a_volume_is_meant_for_the_claim_by_its_uid(
    api: FakeApi, rig: Rig, by_controller: bool
) -> None:
    api.fault("PATCH", "/api/v1/persistentvolumes/disk", answers(200))
    await rig.done(BindClaim("plan/g", "p", "n1", CLAIM, VOLUME, by_controller), "written")
    (body,) = api.sent("PATCH")
    assert body["spec"]["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data",
        "uid": "u-data", "resourceVersion": "7",
    }  # fmt: skip
    marked = {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}} if by_controller else {}
    assert body["metadata"] == {"uid": "u-disk", "resourceVersion": "9", **marked}


@pytest.mark.parametrize("code", [401, 404, 409, 422, 429, 500, 503])
async def test_what_the_watch_will_tell_is_not_answered(api: FakeApi, rig: Rig, code: int) -> None:
    api.fault("PATCH", "/disk", answers(code))
    await rig.done(GIVE, "not_written")
    assert not rig.inbox.events


async def test_silence_is_not_answered(api: FakeApi, rig: Rig) -> None:
    api.fault("PATCH", "/disk", cut)
    await rig.done(GIVE, "not_written")
    assert not rig.inbox.events


async def test_what_may_not_be_done_fails_the_pods_bind(api: FakeApi, rig: Rig) -> None:
    api.fault("PATCH", "/disk", answers(403, message="no"))
    await rig.done(GIVE, "refused")
    failed = await rig.inbox.until(lambda events: [e for e in events if isinstance(e, BindFailed)])
    assert [(each.pod, each.grant, each.error) for each in failed] == [("p", "plan/g", BindError.REFUSED)]


async def test_nothing_is_sent_when_the_fence_is_down(api: FakeApi) -> None:
    rig = Rig(api, fence=lambda: False)
    await rig.done(GIVE, "fenced")
    await rig.actuator.close()
    await rig.client.close()
    assert not api.requests
