"""Binding against a server that commits faults: one outcome per command, and never a wrong one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.model.command import REVOKED, Bind
from fairlead.model.event import BindError, BindFailed, Bound
from fairlead.model.pod import Shape
from kube_fake import FakeApi, ListInbox, answers, cut, pod, silence


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


def bind(name: str = "p", node: str = "n1", version: int = 10, **other: Any) -> Bind:
    namespace = other.get("namespace", "default")
    uid = other.get("uid", f"uid-{namespace}-{name}")
    return Bind("plan/g", uid, namespace, name, node, version)


class Rig:
    def __init__(self, api: FakeApi, **options: Any) -> None:
        self.inbox = ListInbox()
        self.client = ApiClient(api.access, request_timeout=options.get("request_timeout", 10.0))
        self.actuator = Actuator(self.client, **{"pod_events": False, **options})
        self.actuator.attach(self.inbox)

    async def outcome(self, *binds: Bind) -> list[Any]:
        self.actuator.perform(binds)
        events = await self.inbox.until(lambda seen: len(seen) >= len(binds) and seen)
        await self.actuator.close()
        await self.client.close()
        return events


def failed(error: BindError) -> Any:
    class Match:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, BindFailed) and other.error is error

        def __repr__(self) -> str:
            return f"BindFailed({error})"

    return Match()


OURS = Bound("uid-default-p", "plan/g", "n1")


async def test_a_bind_carries_uid_and_version_and_is_answered_once(api: FakeApi) -> None:
    api.add(pod("p"))
    assert await Rig(api).outcome(bind()) == [OURS]
    (body,) = api.sent("POST", "/binding")
    assert body["metadata"] == {
        "name": "p",
        "namespace": "default",
        "uid": "uid-default-p",
        "resourceVersion": "10",
    }
    assert body["target"] == {"kind": "Node", "apiVersion": "v1", "name": "n1"}


async def test_B24_pods_of_one_name_in_two_namespaces_are_two_pods(api: FakeApi) -> None:
    for namespace in ("a", "b"):
        api.add(pod("p", namespace=namespace))
    events = await Rig(api).outcome(bind(namespace="a", node="n1"), bind(namespace="b", node="n2"))
    assert {(each.pod, each.node) for each in events} == {("uid-a-p", "n1"), ("uid-b-p", "n2")}
    assert api.pods["a", "p"]["spec"]["nodeName"] == "n1"
    assert api.pods["b", "p"]["spec"]["nodeName"] == "n2"


async def test_F23_quotes_in_pod_names_stay_in_the_path_segment(api: FakeApi) -> None:
    name = "it's/..%2f\"x"
    api.add(pod("ok"))
    (event,) = await Rig(api).outcome(bind(name=name))
    assert event == failed(BindError.GONE)


async def test_one_loop_turn_is_one_batch_of_outcomes(api: FakeApi) -> None:
    names = [f"p{index}" for index in range(200)]
    for name in names:
        api.add(pod(name))
    rig = Rig(api)
    events = await rig.outcome(*(bind(name) for name in names))
    assert sorted(each.pod for each in events) == sorted(f"uid-default-{name}" for name in names)
    assert rig.actuator.stats["bind_bound"] == 200


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"spec": {"nodeName": "n1"}}, OURS),
        ({"spec": {"nodeName": "n2"}}, failed(BindError.TAKEN)),
        ({"meta": {"uid": "another"}}, failed(BindError.GONE)),
        ({"meta": {"deletionTimestamp": "2026-11-21T10:00:00Z"}}, failed(BindError.CHANGED)),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, failed(BindError.CHANGED)),
        ({"meta": {"annotations": {REVOKED: "plan/g"}}}, failed(BindError.CHANGED)),
        ({"meta": {"annotations": {REVOKED: "earlier/g"}}}, OURS),
        ({"meta": {"labels": {"touched": "yes"}}}, OURS),
        ({"status": {"phase": "Failed"}}, failed(BindError.CHANGED)),
    ],
)
async def test_what_a_conflict_means(api: FakeApi, change: dict[str, Any], expected: Any) -> None:
    thing = api.add(pod("p"))
    thing["spec"].update(change.get("spec", {}))
    thing["status"].update(change.get("status", {}))
    api.touch(thing, **change.get("meta", {}))
    assert await Rig(api).outcome(bind()) == [expected]


async def test_a_pod_whose_spec_changed_is_not_bound_again(api: FakeApi) -> None:
    api.touch(api.add(pod("p")))
    planned = Shape(requests=(("cpu", 4000), ("pods", 1)))
    events = await Rig(api, planned=lambda *_: planned).outcome(bind())
    assert events == [failed(BindError.CHANGED)]
    assert len(api.sent("POST", "/binding")) == 1


async def test_a_pod_that_keeps_changing_is_tried_twice_only(api: FakeApi) -> None:
    thing = api.add(pod("p"))

    async def change_again(request: web.Request) -> web.StreamResponse:
        api.touch(thing)
        return await answers(409, "Conflict")(request)

    api.fault("POST", "/binding", change_again, change_again, change_again)
    assert await Rig(api).outcome(bind()) == [failed(BindError.CHANGED)]
    assert len(api.sent("POST", "/binding")) == 2


@pytest.mark.parametrize(
    ("code", "error"), [(404, BindError.GONE), (403, BindError.REFUSED), (422, BindError.REFUSED)]
)
async def test_F24_answers_that_settle_it(api: FakeApi, code: int, error: BindError) -> None:
    api.add(pod("p"))
    api.fault("POST", "/binding", answers(code))
    assert await Rig(api).outcome(bind()) == [failed(error)]
    assert len(api.sent("POST", "/binding")) == 1


async def test_F24_overload_is_waited_out(api: FakeApi) -> None:
    api.add(pod("p"))
    api.fault("POST", "/binding", answers(429, **{"Retry-After": "0"}), answers(500), answers(503))
    assert await Rig(api).outcome(bind()) == [OURS]
    assert len(api.sent("POST", "/binding")) == 4


async def test_an_error_after_the_bind_took_place_is_found_to_be_bound(api: FakeApi) -> None:
    thing = api.add(pod("p"))

    async def late_error(request: web.Request) -> web.StreamResponse:
        api.bind(thing, await request.json())
        return await answers(504, "Timeout")(request)

    api.fault("POST", "/binding", late_error)
    assert await Rig(api).outcome(bind()) == [OURS]


async def test_overload_without_end_is_unknown(api: FakeApi) -> None:
    api.add(pod("p"))
    api.fault("POST", "/binding", *[answers(500)] * 50)
    assert await Rig(api, request_timeout=0.5).outcome(bind()) == [failed(BindError.UNKNOWN)]


async def test_F24_refused_for_lack_of_time_is_known_not_to_be_done(api: FakeApi) -> None:
    api.add(pod("p"))
    api.fault("POST", "/binding", *[answers(429)] * 50)
    assert await Rig(api, request_timeout=3.0).outcome(bind()) == [failed(BindError.BUSY)]
    assert not api.sent("GET")  # there is nothing to find out, and no time to ask


@pytest.mark.parametrize("fault", [cut, silence])
async def test_silence_and_then_unbound_is_unknown(api: FakeApi, fault: Any) -> None:
    """The request may still arrive, so it must neither be repeated nor be called failed."""
    api.add(pod("p"))
    api.fault("POST", "/binding", fault)
    assert await Rig(api, request_timeout=0.5).outcome(bind()) == [failed(BindError.UNKNOWN)]
    assert len(api.sent("POST", "/binding")) == 1


@pytest.mark.parametrize("fault", [cut, silence])
async def test_silence_after_the_bind_took_place_is_bound(api: FakeApi, fault: Any) -> None:
    thing = api.add(pod("p"))

    async def bound_but_silent(request: web.Request) -> web.StreamResponse:
        api.bind(thing, await request.json())
        return await fault(request)

    api.fault("POST", "/binding", bound_but_silent)
    assert await Rig(api, request_timeout=2.0).outcome(bind()) == [OURS]


async def test_nothing_is_sent_when_the_fence_is_down(api: FakeApi) -> None:
    api.add(pod("p"))
    assert await Rig(api, fence=lambda: False).outcome(bind()) == [failed(BindError.UNKNOWN)]
    assert api.sent("POST") == []


async def test_nothing_is_sent_again_when_the_fence_went_down(api: FakeApi) -> None:
    api.add(pod("p"))
    api.fault("POST", "/binding", answers(500))
    allowed = iter([True])
    rig = Rig(api, fence=lambda: next(allowed, False))
    assert await rig.outcome(bind()) == [failed(BindError.UNKNOWN)]
    assert len(api.sent("POST", "/binding")) == 1


async def test_a_bind_that_waited_too_long_for_its_turn_is_not_sent(api: FakeApi) -> None:
    api.add(pod("slow"))
    api.add(pod("p"))
    api.fault("POST", "slow/binding", silence)
    rig = Rig(api, parallel=1, request_timeout=2.0, queue_timeout=1.0)
    slow, late = await rig.outcome(bind("slow"), bind())
    assert slow == failed(BindError.UNKNOWN)
    assert late.text.startswith("not sent")
    assert len(api.sent("POST", "default/pods/p/binding")) == 0


async def test_a_server_that_is_not_there_yet_is_tried_again(api: FakeApi) -> None:
    """A refused connection is certainly unsent, so it may be repeated blindly."""
    api.add(pod("p"))
    access = api.access._replace(server="http://127.0.0.1:1")
    rig = Rig(api)
    rig.client.access = access
    rig.actuator.perform([bind()])
    await asyncio.sleep(0.3)
    assert rig.inbox.events == []
    rig.client.access = api.access
    assert await rig.inbox.until(lambda seen: seen) == [OURS]
    await rig.actuator.close()
    await rig.client.close()


async def test_Scheduled_is_said_of_a_bound_pod(api: FakeApi) -> None:
    api.add(pod("p"))
    rig = Rig(api, pod_events=True)
    await rig.outcome(bind())
    (event,) = api.events.values()
    assert event["note"] == "Successfully assigned default/p to n1"
    assert (event["reason"], event["action"], event["type"]) == ("Scheduled", "Binding", "Normal")
    assert event["reportingController"] == "fairlead"
    assert event["regarding"]["uid"] == "uid-default-p"
