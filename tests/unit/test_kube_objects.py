"""Creations, patches and deletions of objects: repeated until they are settled, refused once, never wrong."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from fairlead.kube.actuate import Actuator
from fairlead.kube.bind import binding
from fairlead.kube.client import ApiClient
from fairlead.kube.esi_kinds import ESI_KINDS, MANAGED
from fairlead.kube.objects import ObjectWriter
from fairlead.kube.outcomes import Metrics, Outcomes, always
from fairlead.kube.paths import HOMES
from fairlead.kube.port import KubePort, ShapeBook
from fairlead.kube.translate import place, uid_of, version_in
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.application import ESI_THINGS, tag_of
from fairlead.model.command import Announce, Bind, CreateObject, DeleteObject, ObjectRef, PatchAnnotation
from fairlead.model.command import PatchObject as Patch
from fairlead.model.event import EsiGone, EsiSeen, Listed, ObjectFailed, PodSeen, Synced
from fairlead.model.pod import Pod, Shape
from kube_fake import FakeApi, ListInbox, answers, bookmark, cut, event, status


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


class Rig:
    """A writer that waits only for milliseconds between its tries."""

    def __init__(self, api: FakeApi, **options: Any) -> None:
        self.api = api
        self.inbox = ListInbox()
        self.client = ApiClient(api.access)
        self.stats: dict[str, int] = {}
        outcomes, metrics = Outcomes(), Metrics(CollectorRegistry())
        outcomes.attach(self.inbox)
        self.writer = ObjectWriter(
            self.client, outcomes, metrics, self.stats, pauses=(0.001, 0.01), **options
        )
        self.add = self.writer.add

    async def counted(self, name: str, times: int = 1) -> None:
        await self.inbox.until(lambda _: self.stats.get(f"objects_{name}", 0) >= times)

    async def failed(self) -> ObjectFailed:
        await self.inbox.until(bool)
        (found,) = self.inbox.events
        assert isinstance(found, ObjectFailed)
        return found


@pytest.fixture
async def rig(api: FakeApi) -> AsyncIterator[Rig]:
    made = Rig(api)
    yield made
    await made.writer.close(0)
    await made.client.close()


def owned(name: str, uid: str, **meta: Any) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "BatchJob", "name": name, "uid": uid, "controller": True}
    return {"metadata": {"name": name, "ownerReferences": [owner], **meta}, "spec": {"by": uid}}


def create(name: str = "a", uid: str = "u", kind: str = "SparkApplication") -> CreateObject:
    return CreateObject(kind, "lab", name, json.dumps(owned(name, uid)))


def ref(name: str = "a", version: int = 0, kind: str = "BatchJob") -> ObjectRef:
    return ObjectRef(kind, "lab", name, f"uid-lab-{name}", version)


def patch(state: str, version: int = 0, sub: str = "status") -> Patch:
    return Patch(ref(version=version), json.dumps({"status": {"state": state}}), sub)


def kept(api: FakeApi, name: str = "a", **meta: Any) -> dict[str, Any]:
    return api.keep(
        "batchjobs", "lab", {"metadata": {"name": name, **meta}, "status": {"state": "Old", "x": 1}}
    )


# -- creations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("SparkApplication", "/apis/sparkoperator.k8s.io/v1beta2/namespaces/lab/sparkapplications"),
        ("FlinkDeployment", "/apis/flink.apache.org/v1beta1/namespaces/lab/flinkdeployments"),
        ("FlinkCluster", "/apis/flinkoperator.k8s.io/v1beta1/namespaces/lab/flinkclusters"),
        ("JobSet", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/lab/jobsets"),
        ("Job", "/apis/batch/v1/namespaces/lab/jobs"),
        ("Pod", "/api/v1/namespaces/lab/pods"),
        ("BatchJob", "/apis/esi.tu-berlin.de/v1alpha1/namespaces/lab/batchjobs"),
    ],
)
async def test_each_kind_is_created_where_it_belongs(api: FakeApi, rig: Rig, kind: str, path: str) -> None:
    api.fault("POST", path, answers(201))
    rig.add(create(kind=kind))
    await rig.counted("written")
    assert [(verb, where) for verb, where, _ in api.requests] == [("POST", path)]
    assert api.requests[0][2] == owned("a", "u")


async def test_overload_silence_and_faults_are_tried_again(api: FakeApi, rig: Rig) -> None:
    api.fault("POST", "sparkapplications", answers(429), cut, answers(500), answers(503))
    rig.add(create())
    await rig.counted("written")
    assert rig.stats["objects_again"] == 4
    assert ("sparkapplications", "lab", "a") in api.things
    assert rig.inbox.events == []


async def test_what_we_have_made_already_is_fine(api: FakeApi, rig: Rig) -> None:
    """As after an answer that was lost, or by the process before this one."""
    api.keep("sparkapplications", "lab", owned("a", "u"))
    rig.add(create())
    await rig.counted("written")
    assert rig.inbox.events == []


async def test_anothers_object_of_the_name_is_a_failure_that_says_so(api: FakeApi, rig: Rig) -> None:
    api.keep("sparkapplications", "lab", owned("a", "somebody"))
    rig.add(create())
    found = await rig.failed()
    assert (found.verb, found.kind, found.namespace, found.name) == ("create", "SparkApplication", "lab", "a")
    assert found.status == 409
    assert found.text.startswith("there is a SparkApplication lab/a already, which was not made from this")
    assert api.things["sparkapplications", "lab", "a"]["spec"] == {"by": "somebody"}


async def test_one_that_is_still_being_deleted_is_waited_for(api: FakeApi, rig: Rig) -> None:
    api.keep("sparkapplications", "lab", owned("a", "u", deletionTimestamp="2026-11-21T09:59:17Z"))
    rig.add(create())
    await rig.counted("again", 2)
    del api.things["sparkapplications", "lab", "a"]
    await rig.counted("written")
    assert "deletionTimestamp" not in api.things["sparkapplications", "lab", "a"]["metadata"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            answers(404, "NotFound", "the server could not find the requested resource"),
            "the cluster does not know SparkApplication (sparkoperator.k8s.io/v1beta2): install the operator",
        ),
        (answers(404, "NotFound", 'namespaces "lab" not found'), "POST /apis/sparkoperator.k8s.io"),
        (
            answers(403, "Forbidden", "user may not"),
            "forbidden: user may not. Grant the missing verb by RBAC",
        ),
        (answers(422, "Invalid", "spec.type: Required value"), "POST /apis/sparkoperator.k8s.io"),
    ],
)
async def test_a_refusal_is_one_event_with_a_sentence(api: FakeApi, rig: Rig, answer: Any, text: str) -> None:
    api.fault("POST", "sparkapplications", answer)
    rig.add(create())
    assert (await rig.failed()).text.startswith(text)
    assert len(api.sent("POST")) == 1


async def test_a_quota_is_not_taken_for_a_missing_right(api: FakeApi, rig: Rig) -> None:
    words = 'jobs "a" is forbidden: exceeded quota: few'
    api.fault("POST", "sparkapplications", answers(403, "Forbidden", words))
    rig.add(create())
    assert (await rig.failed()).text == f"forbidden: {words}"


# -- patches -----------------------------------------------------------------------------------------


async def test_a_status_is_replaced_in_the_object_that_was_meant(api: FakeApi, rig: Rig) -> None:
    version = int(kept(api)["metadata"]["resourceVersion"])
    body = json.dumps({"status": {"state": "New", "x": None}})
    rig.add(Patch(ref(version=version), body, "status"))
    await rig.counted("written")
    assert api.things["batchjobs", "lab", "a"]["status"] == {"state": "New"}
    (sent,) = api.sent("PATCH", "/status")
    assert sent == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-lab-a"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": str(version)},
        {"op": "add", "path": "/status", "value": {"state": "New"}},
    ]


async def test_labels_keep_their_place_beside_the_preconditions(api: FakeApi, rig: Rig) -> None:
    kept(api, labels={"a": "1", "b": "2"})
    rig.add(Patch(ref(), json.dumps({"metadata": {"labels": {"a": None, "c": "3"}}})))
    await rig.counted("written")
    assert api.things["batchjobs", "lab", "a"]["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_of_those_that_wait_only_the_latest_is_sent_and_none_overtakes(api: FakeApi, rig: Rig) -> None:
    kept(api)
    first, go = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        first.set()
        await go.wait()
        return status(500)

    api.fault("PATCH", "/status", slow)
    rig.add(patch("0"))
    await first.wait()
    for number in range(1, 20):
        rig.add(patch(f"{number}"))
    rig.add(Patch(ref(), json.dumps({"spec": {"y": 1}})))  # another purpose waits for nobody
    await rig.counted("written")
    go.set()
    await rig.counted("written", 2)
    assert [body[-1]["value"]["state"] for body in api.sent("PATCH", "/status")] == ["0", "19"]
    assert api.things["batchjobs", "lab", "a"]["status"]["state"] == "19"
    assert rig.stats["objects_superseded"] == 18


async def test_a_patch_that_comes_too_late_is_no_failure(api: FakeApi, rig: Rig) -> None:
    kept(api, uid="another")
    rig.add(patch("New"))
    rig.add(Patch(ref(), json.dumps({"spec": {"y": 1}})))
    await rig.counted("gone", 2)
    rig.add(Patch(ref("missing"), "{}"))
    await rig.counted("gone", 3)
    kept(api, "b")
    rig.add(Patch(ref("b", version=5), json.dumps({"spec": {"y": 1}})))
    await rig.counted("dropped")
    for name in ("a", "b"):
        assert api.things["batchjobs", "lab", name]["status"]["state"] == "Old"
        assert "spec" not in api.things["batchjobs", "lab", name]
    assert rig.inbox.events == []


async def test_a_conflict_of_others_is_tried_again_where_no_version_was_asked_for(
    api: FakeApi, rig: Rig
) -> None:
    kept(api)
    api.fault("PATCH", "/status", answers(409, "Conflict", "the object has been modified"))
    rig.add(patch("New"))
    await rig.counted("written")
    assert rig.stats["objects_again"] == 1


async def test_a_schema_that_refuses_a_patch_is_told(api: FakeApi, rig: Rig) -> None:
    api.fault("PATCH", "/status", answers(422, "Invalid", "status.state: Unsupported value"))
    rig.add(patch("Odd"))
    found = await rig.failed()
    assert (found.verb, found.kind, found.status) == ("patch", "BatchJob", 422)
    assert "Unsupported value" in found.text


# -- deletions ---------------------------------------------------------------------------------------


async def test_only_the_object_that_was_meant_is_deleted(api: FakeApi, rig: Rig) -> None:
    kept(api)
    kept(api, "b", uid="another")
    rig.add(DeleteObject(ref(), grace=0))
    rig.add(DeleteObject(ref("b")))
    rig.add(DeleteObject(ref("c")))
    await rig.counted("written")
    await rig.counted("gone", 2)
    assert set(api.things) == {("batchjobs", "lab", "b")}
    bodies = {body["preconditions"]["uid"]: body for body in api.sent("DELETE")}
    assert bodies["uid-lab-a"]["propagationPolicy"] == "Background"
    assert bodies["uid-lab-a"]["gracePeriodSeconds"] == 0
    assert "gracePeriodSeconds" not in bodies["uid-lab-b"]
    assert rig.inbox.events == []


async def test_nothing_is_sent_behind_the_fence(api: FakeApi) -> None:
    up = [True]
    rig = Rig(api, fence=lambda: always() if up[0] else 0.0)
    api.fault("POST", "sparkapplications", *(answers(503),) * 3)
    rig.add(create())
    await rig.counted("again", 3)
    up[0] = False
    rig.add(DeleteObject(ref()))
    await rig.counted("fenced")
    assert api.sent("DELETE") == []
    await rig.writer.close(0)
    await rig.client.close()


# -- what goes along ---------------------------------------------------------------------------------


async def test_annotations_and_events_know_the_new_kinds(api: FakeApi) -> None:
    api.keep("testbeds", "lab", {"metadata": {"name": "t"}})
    client, inbox = ApiClient(api.access), ListInbox()
    actuator = Actuator(client)
    about = ref("t", kind="Testbed")
    actuator.perform(
        [PatchAnnotation(about, "fairlead.dev/claims", "lab/s"), Announce(about, "Claimed", "x")]
    )
    await inbox.until(lambda _: actuator.stats.get("annotations_written") and api.events)
    thing = api.things["testbeds", "lab", "t"]
    assert thing["metadata"]["annotations"] == {"fairlead.dev/claims": "lab/s"}
    (said,) = api.events.values()
    assert said["regarding"]["apiVersion"] == "esi.tu-berlin.de/v1alpha1"
    await actuator.close()
    await client.close()


def test_a_binding_carries_labels_and_annotations() -> None:
    bind = Bind("g", "u", "lab", "p", "n1", 7, labels=(("a", "1"),), annotations=(("b", "2"),))
    meta = json.loads(binding(bind, 7))["metadata"]
    assert (meta["labels"], meta["annotations"]) == ({"a": "1"}, {"b": "2"})
    assert "labels" not in json.loads(binding(Bind("g", "u", "lab", "p", "n1", 7), 7))["metadata"]


def test_pods_of_an_alias_are_ours() -> None:
    book = ShapeBook("fairlead", "external-scheduler")
    for scheduler in ("fairlead", "external-scheduler", "default-scheduler"):
        book.learn(PodSeen(Pod(scheduler, "lab", scheduler, 5, Shape(()), scheduler)))
    assert book.planned("fairlead", 5) == book.planned("external-scheduler", 5) == Shape(())
    assert book.planned("default-scheduler", 5) is None


def test_every_thing_of_external_schedulers_is_watched() -> None:
    assert [kind.name for kind in ESI_KINDS] == [tag_of(each) for each in ESI_THINGS]
    assert all(kind.optional and kind.source == "surroundings" for kind in ESI_KINDS)
    assert {kind.name for kind in ESI_KINDS if kind.params} == {
        "SparkApplication", "FlinkDeployment", "FlinkCluster", "ApplicationJob", "JobSet",
    }  # fmt: skip
    assert {home.path for home in HOMES.values()} >= {
        kind.path for kind in ESI_KINDS if kind.name not in ("ServiceAccount", "PriorityClass")
    }


def a_testbed(name: str, uid: str, version: int, created: str = "2026-11-21T09:59:17Z") -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "lab",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": created,
    }
    return {"metadata": meta, "spec": {"nodeLabel": "l", "slotsPerNode": 0, "resourcesPerSlot": {}}}


async def test_custom_resources_are_told_as_they_come_and_go(api: FakeApi) -> None:
    later = a_testbed("later", "u1", 5, "2026-11-21T10:00:00Z")
    first = [event("ADDED", later), event("ADDED", a_testbed("odd", "", 6)), bookmark(9, end=True)]
    earlier = a_testbed("earlier", "u2", 10)
    api.streams = [[*first, event("ADDED", earlier), event("DELETED", earlier), 3600.0], [3600.0]]
    (kind,) = [each for each in ESI_KINDS if each.name == "Testbed"]
    client, inbox = ApiClient(api.access), ListInbox()
    task = asyncio.create_task(Reflector(client, kind, inbox, SyncGate([kind]), {}).run())
    seen = await inbox.until(lambda events: len(events) >= 5 and events)
    assert isinstance(seen[0], EsiSeen) and seen[0].thing.name == "later"
    assert (uid_of(seen[0]), version_in(seen[0]), place(seen[0])[1:]) == ("u1", 5, (5, "u1"))
    assert seen[1:3] == [Listed("Testbed", ("u1",), 9), Synced("surroundings")]
    assert uid_of(seen[3]) == "u2" and seen[4] == EsiGone("u2", 10)
    task.cancel()
    await client.close()


async def test_a_kind_that_the_server_knows_no_longer_has_no_objects_until_it_does_again(
    api: FakeApi,
) -> None:
    async def first(request: web.Request) -> web.StreamResponse:
        return await api.stream(request, [event("ADDED", a_testbed("t", "u1", 5)), bookmark(9, end=True)])

    gone = answers(404, "NotFound", "the server could not find the requested resource")
    api.fault("GET", "testbeds", first, *(gone,) * 8)
    (kind,) = [each for each in ESI_KINDS if each.name == "Testbed"]
    client, inbox = ApiClient(api.access), ListInbox()
    reflector = Reflector(client, kind, inbox, SyncGate([kind]), {}, backoff=(0.001, 0.001), absent=0.001)
    api.streams = [[event("ADDED", a_testbed("t", "u2", 20)), bookmark(21, end=True)], [3600.0]]
    task = asyncio.create_task(reflector.run())
    events = await inbox.until(lambda events: Listed("Testbed", ("u2",), 21) in events and events)
    assert events.count(Listed("Testbed", (), 9)) == 1
    task.cancel()
    await client.close()


async def test_applications_are_watched_by_their_label(api: FakeApi) -> None:
    (kind,) = [each for each in ESI_KINDS if each.name == "ApplicationJob"]
    api.streams = [[bookmark(9, end=True)]]
    client, inbox = ApiClient(api.access), ListInbox()
    task = asyncio.create_task(Reflector(client, kind, inbox, SyncGate([kind]), {}).run())
    await inbox.until(lambda _: len(api.queries) >= 2)
    lists = [query for query in api.queries if "watch" in query]
    assert [query["labelSelector"] for query in lists] == [MANAGED] * len(lists)
    assert MANAGED == "batchjob/managed-by=BatchJob-Operator"
    task.cancel()
    await client.close()


async def test_without_external_schedulers_nothing_of_them_is_asked_for(api: FakeApi) -> None:
    port = KubePort(api.access)
    task = asyncio.create_task(port.run(ListInbox()))
    await ListInbox().until(lambda _: len({path for _, path, _ in api.requests}) >= 14)
    assert not any("esi" in path or "spark" in path for _, path, _ in api.requests)
    task.cancel()
    await port.close()


async def test_who_begins_to_lead_is_told_of_external_schedulers_too(api: FakeApi) -> None:
    """Their statuses are taken from the objects then: a watch that is late must not decide."""
    port = KubePort(api.access, esi=True)
    listed = {event.kind for event in await port.catch_up() if isinstance(event, Listed)}
    assert listed == {"Pod", "Node"} | {tag_of(each) for each in ESI_THINGS}
    audited = {listing.kind for listing in await port.relist()}
    assert audited >= {tag_of(each) for each in ESI_THINGS}
    await port.close()
