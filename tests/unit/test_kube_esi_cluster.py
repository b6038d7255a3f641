"""ESI's doors on an API server: what is sent, and how refusals and silence come back."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from fairlead.kube.client import ApiClient
from fairlead.kube.esi_cluster import ACCESS_REVIEWS, TOKEN_REVIEWS, KubeEsiCluster
from fairlead.model.caller import Caller
from fairlead.model.esi import Ref
from fairlead.runtime.errors import ClusterError
from kube_fake import Answer, FakeApi, answers, cut


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture
async def cluster(api: FakeApi) -> AsyncIterator[KubeEsiCluster]:
    client = ApiClient(api.access)
    yield KubeEsiCluster(client)
    await client.close()


REF = Ref("lab", "s")


def body(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s", "namespace": "lab"}, "spec": spec}


def answered(status: dict[str, Any]) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": status}, status=201)

    return answer


async def test_an_object_is_made_read_changed_and_deleted(api: FakeApi, cluster: KubeEsiCluster) -> None:
    found = await cluster.create("Scheduling", REF, body(x=1, y=2))
    assert found == await cluster.get("Scheduling", REF)
    changed = await cluster.patch("Scheduling", REF, {"metadata": {}, "spec": {"x": None, "z": 3}})
    assert changed["spec"] == {"y": 2, "z": 3}
    version = changed["metadata"]["resourceVersion"]
    await cluster.delete("Scheduling", REF, version)
    assert api.things == {}
    assert {path for _, path, _ in api.requests} == {
        "/apis/esi.tu-berlin.de/v1alpha1/namespaces/lab/schedulings",
        "/apis/esi.tu-berlin.de/v1alpha1/namespaces/lab/schedulings/s",
    }
    (options,) = api.sent("DELETE")
    assert options["preconditions"] == {"resourceVersion": version}


async def test_a_whole_object_is_put(api: FakeApi, cluster: KubeEsiCluster) -> None:
    api.fault("PUT", "/schedulings/s", answered({"state": "x"}))
    assert await cluster.replace("Scheduling", REF, body(x=1)) == {"status": {"state": "x"}}
    assert api.sent("PUT") == [body(x=1)]


async def test_refusals_keep_the_API_servers_status(api: FakeApi, cluster: KubeEsiCluster) -> None:
    await cluster.create("Testbed", REF, body())
    for what, status in (
        (cluster.create("Testbed", REF, body()), 409),
        (cluster.get("BatchJob", REF), 404),
        (cluster.delete("Testbed", REF, "5"), 409),
        (cluster.delete("BatchJob", REF), 404),
    ):
        with pytest.raises(ClusterError) as error:
            await what
        assert error.value.status == status
    api.fault("POST", "testbeds", answers(422, "Invalid", "spec: write slotsPerNode: 1, or more"))
    with pytest.raises(ClusterError, match="write slotsPerNode: 1, or more"):
        await cluster.create("Testbed", REF, body())


async def test_what_is_not_installed_is_named_with_what_to_do(api: FakeApi, cluster: KubeEsiCluster) -> None:
    api.fault("POST", "testbeds", answers(404, "NotFound", "404 page not found"))
    with pytest.raises(
        ClusterError, match=r"does not know Testbed \(kubectl apply -f deploy/crds\)"
    ) as error:
        await cluster.create("Testbed", REF, body())
    assert error.value.status == 404
    api.fault("POST", "testbeds", answers(404, "NotFound", 'namespaces "lab" not found'))
    with pytest.raises(ClusterError, match=r"^[^(]*namespaces") as error:
        await cluster.create("Testbed", REF, body())


async def test_silence_is_503_and_nothing_is_repeated(api: FakeApi, cluster: KubeEsiCluster) -> None:
    api.fault("POST", "testbeds", cut)
    with pytest.raises(ClusterError) as error:
        await cluster.create("Testbed", REF, body())
    assert error.value.status == 503
    assert len(api.sent("POST")) == 1


async def test_labels_of_nodes(api: FakeApi, cluster: KubeEsiCluster) -> None:
    api.fault("PATCH", "/api/v1/nodes/n1", answered({}))
    await cluster.label_node("n1", {"a": "0", "b": None})
    assert api.sent("PATCH") == [{"metadata": {"labels": {"a": "0", "b": None}}}]


async def test_whose_token_it_is(api: FakeApi, cluster: KubeEsiCluster) -> None:
    user = {"username": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}}
    api.fault(
        "POST", TOKEN_REVIEWS, answered({"authenticated": True, "user": user}), answered({"error": "x"})
    )
    assert await cluster.token_review("good") == Caller("u", "1", ("g",), (("k", ("v",)),))
    assert await cluster.token_review("bad") is None
    assert [sent["spec"] for sent in api.sent("POST")] == [{"token": "good"}, {"token": "bad"}]


async def test_what_somebody_may_do(api: FakeApi, cluster: KubeEsiCluster) -> None:
    api.fault("POST", ACCESS_REVIEWS, answered({"allowed": True}), answered({"allowed": False}), answered({}))
    caller = Caller("u", "1", ("g",), (("k", ("v",)),))
    asked = (caller, "create", "esi.tu-berlin.de", "schedulings", "lab", "s")
    assert [await cluster.access_review(*asked) for _ in range(3)] == [True, False, False]
    (sent, *_) = api.sent("POST")
    assert json.loads(json.dumps(sent["spec"])) == {
        "user": "u",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "create",
            "group": "esi.tu-berlin.de",
            "resource": "schedulings",
            "namespace": "lab",
            "name": "s",
        },
    }
