"""Fresh lists for an audit: pages of one snapshot, kinds that are not there, objects that cannot be read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead.kube import relist as module
from fairlead.kube.client import ApiClient
from fairlead.kube.errors import ApiError, Unreachable
from fairlead.kube.relist import relist
from fairlead.kube.things import THINGS
from fairlead.kube.translate import JOBS, PODS
from fairlead.model.event import PodSeen
from kube_fake import FakeApi, answers, pod

OPTIONAL = next(kind for kind in THINGS if kind.optional)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as found:
        yield found


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[ApiClient]:
    found = ApiClient(api.access, request_timeout=5.0)
    yield found
    await found.close()


def names(items: tuple[Any, ...]) -> list[str]:
    return [item.pod.name for item in items if isinstance(item, PodSeen)]


async def test_all_pages_of_one_snapshot(api: FakeApi, client: ApiClient):
    api.pages = [[pod("a"), pod("b")], [pod("c")], [pod("d")]]
    (found,) = await relist(client, [PODS])
    assert (found.kind, found.version, names(found.items)) == ("Pod", 500, ["a", "b", "c", "d"])
    assert [query.get("continue") for query in api.queries] == [None, "1", "2"]
    assert all("resourceVersion" not in query for query in api.queries)  # else it might come from a cache


async def test_a_snapshot_that_expires_between_pages_begins_anew(api: FakeApi, client: ApiClient):
    api.pages = [[pod("a")], [pod("b")]]
    gone = answers(410, "Expired")

    async def second_page(request: Any) -> Any:
        api.fault("GET", "/pods", gone)
        return api._page(request)  # pyright: ignore[reportPrivateUsage]

    api.fault("GET", "/pods", second_page)
    (found,) = await relist(client, [PODS])
    assert names(found.items) == ["a", "b"]
    assert [query.get("continue") for query in api.queries] == [None, "1", None, "1"]


async def test_a_snapshot_that_always_expires_is_an_error(api: FakeApi, client: ApiClient):
    api.fault("GET", "/pods", *[answers(410, "Expired")] * module.TRIES)
    with pytest.raises(ApiError, match="410"):
        await relist(client, [PODS])
    assert len(api.requests) == module.TRIES


async def test_a_kind_that_the_server_does_not_know_is_left_out_if_it_may_be(api: FakeApi, client: ApiClient):
    api.pages = [[pod("a")]]
    api.fault("GET", OPTIONAL.path, answers(404, "NotFound"))
    assert [found.kind for found in await relist(client, [OPTIONAL, PODS])] == ["Pod"]
    api.fault("GET", "/pods", answers(404, "NotFound"))
    with pytest.raises(ApiError):
        await relist(client, [PODS])


async def test_what_cannot_be_read_is_there_all_the_same(api: FakeApi, client: ApiClient):
    bad = {"metadata": {"uid": "bad", "name": "bad", "namespace": "x", "resourceVersion": "7"}, "spec": 5}
    good = {"metadata": {"uid": "good", "name": "good", "namespace": "x", "resourceVersion": "8"}, "spec": {}}
    api.pages = [[bad, good]]
    (found,) = await relist(client, [JOBS])
    assert [item.owner.uid for item in found.items] == ["good"]  # type: ignore[union-attr]
    assert found.unread == ("bad",)


async def test_nobody_there_is_an_error(api: FakeApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fairlead.kube.pages.TIMEOUT", 0.3)

    async def silent(_: Any) -> Any:
        await asyncio.sleep(30)

    api.fault("GET", "/pods", silent)
    with pytest.raises(Unreachable):
        await relist(client, [PODS])
