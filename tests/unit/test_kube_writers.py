"""Conditions, Events and evictions: what is written, in which order, and what yields to a bind."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from fairlead.kube.actuate import Actuator
from fairlead.kube.announce import GONE, event_name
from fairlead.kube.announce import cut as cut_bytes
from fairlead.kube.client import ApiClient
from fairlead.kube.outcomes import TokenBucket
from fairlead.kube.port import KubePort
from fairlead.model.command import Announce, Bind, Evict, ObjectRef, PatchAnnotation, PatchCondition, WakeAt
from fairlead.model.event import Bound, Evicted, NodeGone, OwnerGone, PodGone
from kube_fake import FakeApi, ListInbox, answers, cut, pod, status


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


class Rig:
    def __init__(self, api: FakeApi, **options: Any) -> None:
        self.api = api
        self.inbox = ListInbox()
        self.client = ApiClient(api.access)
        self.actuator = Actuator(self.client, **{"pod_events": False, **options})
        self.actuator.attach(self.inbox)
        self.perform = self.actuator.perform

    async def counted(self, name: str, times: int = 1) -> None:
        await self.inbox.until(lambda _: self.actuator.stats.get(name, 0) >= times)


@pytest.fixture
async def rig(api: FakeApi) -> AsyncIterator[Rig]:
    made = Rig(api)
    yield made
    await made.actuator.close()
    await made.client.close()


def ref(name: str = "p", version: int = 10) -> ObjectRef:
    return ObjectRef("Pod", "default", name, f"uid-default-{name}", version)


def bind(name: str = "p") -> Bind:
    return Bind("plan/g", f"uid-default-{name}", "default", name, "n1", 10)


def queued(name: str = "p", message: str = "m", version: int = 10) -> PatchCondition:
    return PatchCondition((ref(name, version),), "Queued", message)


def condition(api: FakeApi, name: str = "p") -> dict[str, Any]:
    return next(iter(api.pods["default", name]["status"].get("conditions", [])), {})


# -- conditions --------------------------------------------------------------------------------------


async def test_a_condition_carries_uid_version_and_time(api: FakeApi, rig: Rig) -> None:
    api.add(pod("p"))
    rig.perform([queued()])
    await rig.counted("conditions_written")
    (body,) = api.sent("PATCH", "/status")
    assert body["metadata"] == {"uid": "uid-default-p", "resourceVersion": "10"}
    written = condition(api)
    assert (written["type"], written["status"], written["reason"]) == ("PodScheduled", "False", "Queued")
    assert written["lastTransitionTime"].endswith("Z")


async def test_only_the_newest_condition_of_a_pod_is_written(api: FakeApi, rig: Rig) -> None:
    api.add(pod("p"))
    rig.perform([queued(message=f"{number}") for number in range(20)])
    await rig.counted("conditions_written")
    assert condition(api)["message"] == "19"
    assert len(api.sent("PATCH")) == 1
    assert rig.actuator.stats["conditions_superseded"] == 19


async def test_a_bind_cancels_the_pending_condition(api: FakeApi, rig: Rig) -> None:
    api.add(pod("p"))
    rig.perform([queued(), bind()])
    await rig.inbox.until(lambda seen: seen == [Bound("uid-default-p", "plan/g", "n1")])
    assert rig.actuator.stats["conditions_cancelled"] == 1
    assert api.sent("PATCH") == []


async def test_a_stale_condition_is_written_to_an_unbound_pod_only(api: FakeApi, rig: Rig) -> None:
    api.touch(api.add(pod("waiting")))
    api.touch(api.add(pod("bound", nodeName="n1")))
    api.touch(api.add(pod("renewed", uid="another")))
    rig.perform([queued("waiting"), queued("bound"), queued("renewed"), queued("gone")])
    await rig.counted("conditions_written")
    await rig.counted("conditions_dropped", 2)
    await rig.counted("conditions_gone")
    assert condition(api, "waiting")["reason"] == "Queued"
    assert condition(api, "bound") == condition(api, "renewed") == {}


async def test_conditions_wait_until_no_bind_is_queued(api: FakeApi) -> None:
    names = [f"p{number}" for number in range(40)]
    for name in [*names, "waiting"]:
        api.add(pod(name))
    rig = Rig(api, parallel=1)
    rig.perform([queued("waiting"), *(bind(name) for name in names)])
    await rig.counted("conditions_written")
    order = [path for method, path, _ in api.requests if method in ("POST", "PATCH")]
    assert order.index("/api/v1/namespaces/default/pods/waiting/status") >= len(names) - 1
    await rig.actuator.close()
    await rig.client.close()


def test_the_bucket_spaces_what_exceeds_the_burst() -> None:
    now = [0.0]
    bucket = TokenBucket(10, 2, lambda: now[0])
    assert [round(bucket.take(), 3) for _ in range(4)] == [0, 0, 0.1, 0.2]
    now[0] = 10.0
    assert bucket.take() == 0


# -- annotations -------------------------------------------------------------------------------------

KEY = "fairlead.dev/estimated-start"


def annotated(name: str = "p", value: str = "v", version: int = 10) -> PatchAnnotation:
    return PatchAnnotation(ref(name, version), KEY, value)


def notes(api: FakeApi, name: str = "p") -> dict[str, str]:
    return api.pods["default", name]["metadata"].get("annotations", {})


async def test_F17_an_annotation_carries_uid_and_version_and_goes_when_it_is_empty(
    api: FakeApi, rig: Rig
) -> None:
    api.add(pod("p"))["metadata"]["annotations"] = {"mine": "stays"}
    rig.perform([annotated()])
    await rig.counted("annotations_written")
    (body,) = api.sent("PATCH", "/pods/p")
    assert body["metadata"]["uid"] == "uid-default-p" and body["metadata"]["resourceVersion"] == "10"
    assert notes(api) == {"mine": "stays", KEY: "v"}
    rig.perform([annotated(value="")])
    await rig.counted("annotations_written", 2)
    assert notes(api) == {"mine": "stays"}


async def test_F17_a_job_is_annotated_by_its_uid(api: FakeApi, rig: Rig) -> None:
    api.add(pod("work"))
    job = ObjectRef("Job", "default", "work", "uid-default-work")
    rig.perform([PatchAnnotation(job, KEY, "v")])
    await rig.counted("annotations_written")
    (body,) = api.sent("PATCH", "/apis/batch/v1/namespaces/default/jobs/work")
    assert body["metadata"] == {"uid": "uid-default-work", "annotations": {KEY: "v"}}
    api.touch(api.pods["default", "work"], uid="another")
    rig.perform([PatchAnnotation(job, KEY, "late"), PatchAnnotation(ref("gone"), KEY, "late")])
    await rig.counted("annotations_dropped")
    await rig.counted("annotations_gone")
    assert notes(api, "work") == {KEY: "v"}


async def test_a_condition_and_an_annotation_of_one_pod_are_two_requests(api: FakeApi, rig: Rig) -> None:
    """The second is made for the version that the first has left behind."""
    api.add(pod("p"))
    rig.perform([queued(), annotated(value="old"), annotated(value="new")])
    await rig.counted("annotations_written")
    assert [(method, path.rpartition("/")[2]) for method, path, _ in api.requests] == [
        ("PATCH", "status"), ("PATCH", "p"),
    ]  # fmt: skip
    assert condition(api)["reason"] == "Queued" and notes(api) == {KEY: "new"}
    assert rig.actuator.stats["annotations_superseded"] == 1


async def test_a_bind_cancels_the_pending_annotation_and_a_bound_pod_gets_none(
    api: FakeApi, rig: Rig
) -> None:
    api.add(pod("p"))
    api.touch(api.add(pod("bound", nodeName="n1")))
    rig.perform([annotated(), annotated("bound"), bind()])
    await rig.inbox.until(lambda seen: seen == [Bound("uid-default-p", "plan/g", "n1")])
    await rig.counted("annotations_dropped")
    assert rig.actuator.stats["annotations_cancelled"] == 1
    assert notes(api) == notes(api, "bound") == {}


# -- Events ------------------------------------------------------------------------------------------


def announce(note: str = "n", name: str = "p", **other: Any) -> Announce:
    return Announce(ref(name), "Queued", note, **other)


async def test_an_event_has_all_required_fields(api: FakeApi, rig: Rig) -> None:
    rig.perform([announce('"quoted" \u2028', warning=True)])
    await rig.counted("events_written")
    (body,) = api.events.values()
    assert body["metadata"]["namespace"] == "default" and body["metadata"]["name"].startswith("p.")
    assert body["note"] == '"quoted" \u2028' and body["type"] == "Warning"
    assert body["action"] and body["reportingInstance"] and body["eventTime"].endswith("Z")
    assert body["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "p",
        "uid": "uid-default-p",
        "resourceVersion": "10",
    }


@pytest.mark.parametrize(("text", "size"), [("a" * 2000, 1024), ("ä" * 600, 1024), ("a" + "ä" * 600, 1023)])
def test_notes_are_cut_at_a_character(text: str, size: int) -> None:
    short = cut_bytes(text, 1024)
    assert len(short.encode()) == size and text.startswith(short)


def test_event_names_are_the_same_for_the_same_and_valid() -> None:
    assert event_name(announce("a")) == event_name(announce("a")) != event_name(announce("b"))
    assert len(event_name(announce(name="x" * 253))) <= 253
    assert ".." not in event_name(announce(name="x" * 219 + "." + "y" * 30))


async def test_repeats_are_counted_and_a_twin_of_an_earlier_process_is_a_series(
    api: FakeApi, rig: Rig
) -> None:
    rig.perform([announce()] * 5)
    await rig.counted("events_repeated", 4)
    await rig.counted("events_written")
    assert len(api.sent("POST")) == 1
    later = Rig(api)
    later.perform([announce()])
    await later.counted("events_series")
    (body,) = api.events.values()
    assert body["series"]["count"] == 2
    await later.actuator.close()
    await later.client.close()


async def test_what_was_said_of_an_object_is_forgotten_with_it(rig: Rig) -> None:
    rig.perform([announce(f"{number}", name) for name in ("p", "q") for number in range(3)])
    await rig.counted("events_written", 6)
    rig.actuator.forget("uid-default-p")
    announcer = rig.actuator._announcer
    assert list(announcer._series) == ["uid-default-q"] and announcer._kept == 3
    rig.perform([announce("late", "p"), announce("2", "q")])
    await rig.counted("events_written", 7)
    await rig.counted("events_repeated")
    assert list(announcer._series) == ["uid-default-q"] and announcer._kept == 3


async def test_the_watch_tells_of_whom_nothing_is_said_any_more(api: FakeApi) -> None:
    port = KubePort(api.access)
    port._actuator.attach(ListInbox())
    port.perform([announce("n", "p"), announce("n", "j"), announce("n", "q")])
    series = port._actuator._announcer._series
    async with asyncio.timeout(30):
        while len(series) < 3:
            await asyncio.sleep(0.01)
    for event in (PodGone("uid-default-p", 11), OwnerGone("uid-default-j", 12), NodeGone("n1", 13)):
        port._learn(event)
    assert list(series) == ["uid-default-q"]
    await port.close()


async def test_what_was_said_is_remembered_of_few_objects(rig: Rig) -> None:
    announcer = rig.actuator._announcer
    announcer._limit = 10
    for number in range(50):
        rig.perform([announce(f"{number % 2}", f"p{number // 2}")])
        await rig.counted("events_written", number + 1)
        assert announcer._kept == sum(map(len, announcer._series.values())) <= 10
    assert list(announcer._series) == [f"uid-default-p{number}" for number in range(20, 25)]
    for number in range(GONE + 100):
        announcer.forget(f"{number}")
    assert len(announcer._gone) == GONE


async def test_the_oldest_event_is_dropped_when_the_queue_is_full(api: FakeApi) -> None:
    rig = Rig(api)
    rig.actuator._announcer._limit = 10
    rig.perform([announce(f"{number}") for number in range(50)])
    await rig.counted("events_written", 10)
    assert rig.actuator.stats["events_dropped"] == 40
    assert sorted(int(body["note"]) for body in api.events.values()) == list(range(40, 50))
    await rig.actuator.close()
    await rig.client.close()


async def test_events_yield_to_binds_but_not_for_ever(api: FakeApi) -> None:
    """Binds that are stuck do not keep people in the dark."""
    api.add(pod("stuck"))
    stuck = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await stuck.wait()
        return status(404)

    api.fault("POST", "/binding", hang)
    slow = Rig(api, parallel=1)
    slow.perform([bind("stuck"), bind("behind"), announce()])
    await slow.counted("events_written")
    assert slow.inbox.events == []
    stuck.set()
    await slow.inbox.until(lambda seen: len(seen) == 2)
    await slow.actuator.close()
    await slow.client.close()


async def test_a_failing_event_hurts_nothing(api: FakeApi, rig: Rig) -> None:
    api.fault("POST", "/events", answers(403), cut)
    rig.perform([announce("a"), announce("b"), announce("c")])
    await rig.counted("events_failed", 2)
    await rig.counted("events_written")


# -- evictions ---------------------------------------------------------------------------------------


def evict(**other: Any) -> Evict:
    return Evict(ref(), "half a group", **other)


async def test_an_eviction_marks_then_deletes_by_uid(api: FakeApi, rig: Rig) -> None:
    api.touch(api.add(pod("p", nodeName="n1")))
    rig.perform([evict(grace=0)])
    await rig.inbox.until(lambda seen: seen == [Evicted("uid-default-p", True)])
    assert [method for method, _, _ in api.requests] == ["PATCH", "DELETE"]
    mark = api.sent("PATCH")[0]
    assert mark["metadata"] == {"uid": "uid-default-p"}
    assert mark["status"]["conditions"][0]["type"] == "DisruptionTarget"
    assert mark["status"]["conditions"][0]["reason"] == "PreemptionByScheduler"
    delete = api.sent("DELETE")[0]
    assert delete["preconditions"] == {"uid": "uid-default-p"} and delete["gracePeriodSeconds"] == 0


@pytest.mark.parametrize("code", [409, 422])
async def test_another_pod_of_the_name_is_spared(api: FakeApi, rig: Rig, code: int) -> None:
    api.add(pod("p", uid="another"))
    api.fault("PATCH", "/status", answers(code))
    rig.perform([evict()])
    (event,) = await rig.inbox.until(lambda seen: seen)
    assert event.ok and ("default", "p") in api.pods


async def test_overload_and_cuts_are_tried_again(api: FakeApi, rig: Rig) -> None:
    api.add(pod("p"))
    api.fault("PATCH", "/status", answers(500), cut)
    api.fault("DELETE", "/p", answers(429))
    rig.perform([evict()])
    await rig.inbox.until(lambda seen: seen == [Evicted("uid-default-p", True)])
    assert "gracePeriodSeconds" not in api.sent("DELETE")[-1]


@pytest.mark.parametrize("options", [{"fence": lambda: False}, {}])
async def test_a_failed_eviction_is_told(api: FakeApi, options: Any) -> None:
    rig = Rig(api, **options)
    api.add(pod("p"))
    api.fault("PATCH", "/status", answers(403))
    rig.perform([evict()])
    (event,) = await rig.inbox.until(lambda seen: seen)
    assert not event.ok and event.text
    assert api.sent("DELETE") == []
    await rig.actuator.close()
    await rig.client.close()


async def test_other_commands_are_a_mistake(rig: Rig) -> None:
    with pytest.raises(TypeError, match="WakeAt"):
        rig.perform([WakeAt(1)])
