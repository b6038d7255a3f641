"""The Kubernetes port on a real API server: what it sees, binds, writes and complains of."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube import translate
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load
from fairlead.kube.errors import KubeError
from fairlead.kube.port import KubePort
from fairlead.kube.things import ALL_KINDS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import Cluster
from fairlead.model.command import REVOKED, Announce, Bind, Evict, ObjectRef, PatchCondition
from fairlead.model.event import BindError, BindFailed, Bound, Evicted, Listed, PodGone, PodSeen, Synced
from fairlead.model.pod import Pod
from kube_fake import ListInbox

pytestmark = pytest.mark.e2e

NODE, OTHER = "node-0000", "node-0001"


class World:
    """A namespace of its own, a port that runs, and what it told."""

    def __init__(self, cluster: Cluster, namespace: str, port: KubePort, inbox: ListInbox) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.port = port
        self.inbox = inbox

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def make(self, name: str, scheduler: str = "fairlead", **meta: Any) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0}
        answer = self.cluster.client.post(self.path, {"metadata": {"name": name, **meta}, "spec": spec})
        assert answer.ok, answer.reason()

    def get(self, name: str) -> dict[str, Any]:
        return self.cluster.client.get(f"{self.path}/{name}").json()

    def patch(self, name: str, body: Any) -> None:
        answer = self.cluster.client.request(
            "PATCH", f"{self.path}/{name}", body, content="application/merge-patch+json"
        )
        assert answer.ok, answer.reason()

    def pods(self) -> dict[str, Pod]:
        """The newest of each pod of this namespace that was told, gone ones left out."""
        latest: dict[str, Pod] = {}
        for event in self.inbox.events:
            if isinstance(event, PodSeen) and event.pod.namespace == self.namespace:
                latest[event.pod.uid] = event.pod
            elif isinstance(event, PodGone):
                latest.pop(event.uid, None)
        return {pod.name: pod for pod in latest.values()}

    async def pod(self, name: str, wanted: Callable[[Pod], bool] = lambda _: True) -> Pod:
        def found(_: Any) -> Pod | None:
            pod = self.pods().get(name)
            return pod if pod and wanted(pod) else None

        return await self.inbox.until(found)

    async def outcome(self, command: Any) -> Any:
        kinds = (Bound, BindFailed, Evicted)
        before = sum(isinstance(each, kinds) for each in self.inbox.events)
        self.port.perform([command])
        await self.inbox.until(lambda seen: sum(isinstance(each, kinds) for each in seen) > before)
        return [each for each in self.inbox.events if isinstance(each, kinds)][before]

    async def events(self, reason: str) -> list[dict[str, Any]]:
        """The Kubernetes Events with that reason, once there is one."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        async with asyncio.timeout(30):
            while True:
                items = (await asyncio.to_thread(self.cluster.client.get, path)).json()["items"]
                if found := [each for each in items if each["reason"] == reason]:
                    return found
                await asyncio.sleep(0.05)


def bind(pod: Pod, node: str = NODE, **changes: Any) -> Bind:
    fields = {"uid": pod.uid, "version": pod.version, "name": pod.name, **changes}
    return Bind("plan/g", fields["uid"], pod.namespace, fields["name"], node, fields["version"])


@contextlib.asynccontextmanager
async def a_world(cluster: Cluster, **options: Any) -> AsyncIterator[World]:
    namespace = f"t-{secrets.token_hex(4)}"
    for path, name in (
        ("/api/v1/namespaces", namespace),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", "default"),
    ):
        answer = cluster.client.post(path, {"metadata": {"name": name}})
        assert answer.ok or answer.status == 409, answer.reason()
    inbox = ListInbox()
    port = KubePort(load(cluster.kubeconfig), **options)
    await port.check_access()
    running = asyncio.create_task(port.run(inbox))
    try:
        yield World(cluster, namespace, port, inbox)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await port.close()


@pytest.fixture
async def world(cluster: Cluster) -> AsyncIterator[World]:
    async with a_world(cluster) as made:
        yield made


# -- what it sees ------------------------------------------------------------------------------------


async def test_all_sources_are_listed_then_synced(world: World) -> None:
    sources = {"pods", "nodes", "owners", "surroundings"}
    await world.inbox.until(
        lambda seen: {each.source for each in seen if isinstance(each, Synced)} == sources
    )
    listed = [each.kind for each in world.inbox.events if isinstance(each, Listed)]
    assert sorted(listed) == sorted(kind.name for kind in ALL_KINDS)


async def test_pods_of_all_schedulers_are_seen_from_the_first_list_on(cluster: Cluster) -> None:
    async with a_world(cluster) as first:
        first.make("ours")
        first.make("theirs", scheduler="somebody-else")
        await first.pod("theirs")
        second = KubePort(load(cluster.kubeconfig))
        inbox = ListInbox()
        running = asyncio.create_task(second.run(inbox))
        await inbox.until(lambda seen: Synced("pods") in seen)
        end = inbox.events.index(Synced("pods"))
        names = {each.pod.name for each in inbox.events[:end] if isinstance(each, PodSeen)}
        assert {"ours", "theirs"} <= names
        listed = next(each for each in inbox.events if isinstance(each, Listed) and each.kind == "Pod")
        assert {pod.uid for pod in first.pods().values()} <= set(listed.uids)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await second.close()


async def test_changes_and_deletions_are_told(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert dict(pod.shape.requests) == {"cpu": 100, "pods": 1}
    world.patch("p", {"metadata": {"labels": {"fairlead.dev/group": "g"}}})
    changed = await world.pod("p", lambda each: bool(each.labels))
    assert changed.version > pod.version and changed.shape is pod.shape
    world.cluster.client.request("DELETE", f"{world.path}/p")
    gone = await world.inbox.until(
        lambda seen: [each for each in seen if isinstance(each, PodGone) and each.uid == pod.uid]
    )
    assert gone[0].version > changed.version


async def test_pages_give_the_same_as_a_streamed_list(cluster: Cluster, monkeypatch: Any) -> None:
    monkeypatch.setattr("fairlead.kube.pages.PAGE", 3)
    told: list[tuple[set[str], set[str]]] = []
    client = ApiClient(load(cluster.kubeconfig))
    for streaming in (True, False):
        inbox = ListInbox()
        reflector = Reflector(client, translate.NODES, inbox, SyncGate((translate.NODES,)), {})
        reflector._streaming = streaming
        await reflector._list()
        *nodes, listed, synced = inbox.events
        assert len(nodes) == 10 and synced == Synced("nodes")
        # Their order is by version, and a node may get another one between the two lists.
        told.append(({each.node.uid for each in nodes}, set(listed.uids)))
    assert told[0] == told[1] and told[0][0] == told[0][1]
    await client.close()


async def relists_from_the_first_version(cluster: Cluster) -> None:
    """A server that was started anew remembers nothing of version 1, and says so: 410."""
    inbox, stats = ListInbox(), dict[str, int]()
    client = ApiClient(load(cluster.kubeconfig))
    reflector = Reflector(client, translate.NODES, inbox, SyncGate((translate.NODES,)), stats)
    reflector._version = "1"
    running = asyncio.create_task(reflector.run())
    await inbox.until(lambda seen: Synced("nodes") in seen)
    assert stats["relists"] == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()


async def test_a_killed_server_is_caught_up_with(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(nodes=1)
    async with a_world(cluster) as world:
        world.make("before")
        world.make("deleted")
        deleted = await world.pod("deleted")
        await world.pod("before")
        cluster.kill("kube-apiserver")
        world.port.perform([bind(world.pods()["before"])])
        await asyncio.to_thread(cluster.start, "kube-apiserver")
        async with asyncio.timeout(60):
            while not (await asyncio.to_thread(cluster.client.get, world.path)).ok:
                await asyncio.sleep(0.1)
        cluster.client.close()
        assert cluster.client.request("DELETE", f"{world.path}/deleted").ok
        world.make("after")
        await world.inbox.until(lambda _: "after" in world.pods(), within=90)

        def gone(seen: list[Any]) -> bool:
            lists = [each for each in seen if isinstance(each, Listed) and each.kind == "Pod"]
            told = any(isinstance(each, PodGone) and each.uid == deleted.uid for each in seen)
            return told or deleted.uid not in lists[-1].uids

        await world.inbox.until(gone, within=90)
        outcome = await world.inbox.until(
            lambda seen: [each for each in seen if isinstance(each, Bound | BindFailed)], within=60
        )
        assert len(outcome) == 1
        node = world.get("before")["spec"].get("nodeName", "")
        assert isinstance(outcome[0], Bound) == (node == NODE) or outcome[0].error is BindError.UNKNOWN
    await relists_from_the_first_version(cluster)


# -- what it binds -----------------------------------------------------------------------------------


async def test_a_bind_and_its_event(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert await world.outcome(bind(pod)) == Bound(pod.uid, "plan/g", NODE)
    bound = await world.pod("p", lambda each: each.node == NODE)
    assert bound.condition.startswith("True/")
    (event,) = await world.events("Scheduled")
    assert event["note"] == f"Successfully assigned {world.namespace}/p to {NODE}"
    assert event["reportingController"] == "fairlead" and event["action"] == "Binding"
    assert event["regarding"]["uid"] == pod.uid and event["type"] == "Normal"


async def test_the_wrong_uid_is_another_pod(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    failed = await world.outcome(bind(pod, uid="00000000-0000-0000-0000-000000000000"))
    assert failed.error is BindError.GONE
    assert "nodeName" not in world.get("p")["spec"]


async def test_a_stale_version_with_the_same_spec_is_bound_once_more(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    world.patch("p", {"metadata": {"labels": {"touched": "yes"}}})
    assert await world.outcome(bind(pod)) == Bound(pod.uid, "plan/g", NODE)


async def test_a_changed_spec_is_not_bound(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    world.patch("p", {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}})
    failed = await world.outcome(bind(pod))
    assert failed.error is BindError.CHANGED
    assert "nodeName" not in world.get("p")["spec"]


async def test_a_revoked_start_is_not_bound(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    world.patch("p", {"metadata": {"annotations": {REVOKED: "plan/g"}}})
    assert (await world.outcome(bind(pod))).error is BindError.CHANGED


async def test_a_pod_bound_already(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert isinstance(await world.outcome(bind(pod)), Bound)
    assert await world.outcome(bind(pod)) == Bound(pod.uid, "plan/g", NODE)
    assert (await world.outcome(bind(pod, OTHER))).error is BindError.TAKEN


async def test_a_pod_that_is_not_there(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert (await world.outcome(bind(pod, name="no-such-pod"))).error is BindError.GONE


async def test_B24_pods_of_one_name_in_two_namespaces(cluster: Cluster) -> None:
    async with a_world(cluster) as one, a_world(cluster) as two:
        one.make("p")
        two.make("p")
        first, second = await one.pod("p"), await two.pod("p")
        assert await one.outcome(bind(first, NODE)) == Bound(first.uid, "plan/g", NODE)
        assert await two.outcome(bind(second, OTHER)) == Bound(second.uid, "plan/g", OTHER)
        assert one.get("p")["spec"]["nodeName"] == NODE
        assert two.get("p")["spec"]["nodeName"] == OTHER


async def test_B13_bare_pod_without_labels(world: World) -> None:
    world.make("bare")
    pod = await world.pod("bare")
    assert pod.labels == {} and pod.owner is None
    assert isinstance(await world.outcome(bind(pod)), Bound)


async def test_a_hundred_binds_are_each_answered_once(world: World) -> None:
    names = [f"p{number}" for number in range(100)]
    for name in names:
        world.make(name)
    pods = [await world.pod(name) for name in names]
    world.port.perform([bind(pod) for pod in pods])
    bound = await world.inbox.until(
        lambda seen: len(found := [each for each in seen if isinstance(each, Bound)]) >= 100 and found
    )
    assert sorted(each.pod for each in bound) == sorted(pod.uid for pod in pods)
    for name in names:
        await world.pod(name, lambda each: each.node == NODE)


# -- what it writes ----------------------------------------------------------------------------------


def ref(pod: Pod) -> ObjectRef:
    return ObjectRef("Pod", pod.namespace, pod.name, pod.uid, pod.version)


def scheduled(pod: dict[str, Any]) -> dict[str, Any]:
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


async def test_a_condition_is_written_with_its_time(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    world.port.perform([PatchCondition((ref(pod),), "Queued", 'behind "big", 1 of 2')])
    await world.pod("p", lambda each: each.condition == "False/Queued")
    written = scheduled(world.get("p"))
    assert written["message"] == 'behind "big", 1 of 2' and written["lastTransitionTime"]


async def test_a_condition_never_follows_a_bind(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert isinstance(await world.outcome(bind(pod)), Bound)
    world.port.perform([PatchCondition((ref(pod),), "Queued", "too late")])
    await world.inbox.until(lambda _: world.port.stats.get("conditions_dropped"))
    assert scheduled(world.get("p"))["status"] == "True"


async def test_an_event_as_written_and_its_series(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    note = "ä" * 600
    command = Announce(ref(pod), "Queued", note, warning=True)
    world.port.perform([command, command])
    (event,) = await world.events("Queued")
    assert event["note"] == "ä" * 512 and event["type"] == "Warning"
    assert event["eventTime"].endswith("Z") and "." in event["eventTime"]
    assert event["reportingController"] == "fairlead" and event["reportingInstance"]
    await world.inbox.until(lambda _: world.port.stats.get("events_repeated") == 1)
    # Another process that says the same adds to the Event that is there.
    other = KubePort(load(world.cluster.kubeconfig))
    other.perform([command])
    await world.inbox.until(lambda _: other.stats.get("events_series") == 1)
    await other.close()
    (event,) = await world.events("Queued")
    assert event["series"]["count"] >= 2


async def test_an_eviction_marks_and_deletes(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    assert isinstance(await world.outcome(bind(pod)), Bound)
    assert await world.outcome(Evict(ref(pod), "half a group", grace=0)) == Evicted(pod.uid, True)
    told = [each.pod for each in world.inbox.events if isinstance(each, PodSeen) and each.pod.uid == pod.uid]
    assert told
    gone = await world.inbox.until(lambda seen: [each for each in seen if isinstance(each, PodGone)])
    assert pod.uid in {each.uid for each in gone}


async def test_an_eviction_spares_another_pod_of_the_name(world: World) -> None:
    world.make("p")
    pod = await world.pod("p")
    other = ObjectRef("Pod", pod.namespace, pod.name, "00000000-0000-0000-0000-000000000000")
    assert (await world.outcome(Evict(other, "not this one"))).ok
    assert world.get("p")["metadata"]["uid"] == pod.uid
    assert "deletionTimestamp" not in world.get("p")["metadata"]


# -- what it complains of ----------------------------------------------------------------------------


def kubeconfig(cluster: Cluster, folder: Path, *, server: str = "", token: str = "") -> Path:
    """The cluster's kubeconfig with another server or user."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    if server:
        content["clusters"][0]["cluster"]["server"] = server
    if token:
        content["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


async def complaint(path: Path) -> str:
    port = KubePort(load(path), request_timeout=5.0)
    with pytest.raises(KubeError) as caught:
        await port.check_access()
    await port.close()
    return str(caught.value)


async def test_a_wrong_server(cluster: Cluster, tmp_path: Path) -> None:
    path = kubeconfig(cluster, tmp_path, server="https://127.0.0.1:1")
    text = await complaint(path)
    assert "no answer from the API server https://127.0.0.1:1" in text and str(path) in text


async def test_a_bad_token(cluster: Cluster, tmp_path: Path) -> None:
    text = await complaint(kubeconfig(cluster, tmp_path, token="stale"))
    assert "(401)" in text and "expired" in text and "stale" not in text.replace("kubeconfig", "")


async def test_a_certificate_of_another_authority(cluster: Cluster, tmp_path: Path) -> None:
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["clusters"][0]["cluster"].pop("certificate-authority-data", None)
    content["clusters"][0]["cluster"].pop("certificate-authority", None)
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    assert "certificate" in await complaint(path)


async def test_a_forbidden_account(cluster: Cluster, tmp_path: Path) -> None:
    name = f"plain-{secrets.token_hex(4)}"
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert cluster.client.post(accounts, {"metadata": {"name": name}}).ok
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.client.post(f"{accounts}/{name}/token", request).json()["status"]["token"]
    path = kubeconfig(cluster, tmp_path, token=token)
    text = await complaint(path)
    assert "forbidden" in text and "create pods/binding" in text and "watch nodes" in text and "RBAC" in text
    assert json.dumps(token) not in text and token not in text
