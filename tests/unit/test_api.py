"""The HTTP server: answers, errors, who may ask, and its life inside an event loop."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from asking_support import busy, past, state_of

from fairlead import __version__
from fairlead.api.server import Server, ServerError, create_app, listening
from fairlead.api.source import EngineSource
from fairlead.core.engine import Engine
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord
from fairlead.model.settings import Settings
from fairlead.model.view import ExplanationPage, Health, NodePage, QueuePage
from fairlead.runtime.metrics import Metrics


class Past:
    """A store that remembers one group, until it is away."""

    def __init__(self) -> None:
        self.away = False

    async def ended(self, limit: int) -> list[GroupRecord]:
        return (await self.find("yesterday"))[:limit]

    async def find(self, name: str) -> list[GroupRecord]:
        if self.away:
            raise ConnectionError("connection refused")
        return [past()] if name == "yesterday" else []


HISTORY = Past()
STATE = state_of(busy())


def source(**fields: Any) -> EngineSource:
    return EngineSource(STATE, history=HISTORY, clock=lambda: STATE.now, **fields)


def client(host: str = "127.0.0.1", base: str = "http://127.0.0.1:8080", **fields: Any) -> httpx.AsyncClient:
    app = create_app(source(**fields), host)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url=base
    )


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    HISTORY.away = False
    async with client() as found:
        yield found


async def test_queue(http: httpx.AsyncClient):
    answer = await http.get("/api/v1/queue")
    page = msgspec.json.decode(answer.content, type=QueuePage)
    assert answer.headers["content-type"] == "application/json"
    assert (page.source, page.total, page.groups[0].name) == ("scheduler", 8, "big")


async def test_queue_in_pieces(http: httpx.AsyncClient):
    page = (await http.get("/api/v1/queue", params={"limit": 1, "offset": 1, "namespace": "team-b"})).json()
    assert [(row["name"], row["position"]) for row in page["groups"]] == [("report", 3)]
    assert page["total"] == 2


async def test_ended_groups_come_from_the_store(http: httpx.AsyncClient):
    page = (await http.get("/api/v1/queue", params={"all": "true"})).json()
    assert [row["name"] for row in page["groups"]][-2:] == ["short", "yesterday"]


async def test_store_away_leaves_the_live_part_of_the_answer(http: httpx.AsyncClient):
    HISTORY.away = True
    page = (await http.get("/api/v1/queue?all=true")).json()
    assert page["total"] == 9
    assert page["warnings"] == ["groups that ended long ago are missing: connection refused"]


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=ten", "limit=100001", "offset=1.5", "all=maybe", "limit=٣"]
)
async def test_unreadable_parameters(http: httpx.AsyncClient, query: str):
    answer = await http.get(f"/api/v1/queue?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["error"]


@pytest.mark.parametrize("name", ["team-b/big", "big", "label:team-b/big%230", "big-2", "team-b%2Fbig"])
async def test_group_by_any_of_its_names(http: httpx.AsyncClient, name: str):
    page = msgspec.json.decode((await http.get(f"/api/v1/groups/{name}")).content, type=ExplanationPage)
    assert [e.group.id for e in page.groups] == ["label:team-b/big#0"]


async def test_group_that_only_the_store_knows(http: httpx.AsyncClient):
    page = (await http.get("/api/v1/groups/yesterday")).json()
    assert page["groups"][0]["group"]["state"] == "failed"


async def test_unknown_group_and_unknown_path(http: httpx.AsyncClient):
    answer = await http.get("/api/v1/groups/nope")
    assert (answer.status_code, answer.json()) == (404, {"error": "no group 'nope' is known"})
    answer = await http.get("/api/v2/queue")
    assert (answer.status_code, list(answer.json())) == (404, ["error"])


async def test_nodes_and_version(http: httpx.AsyncClient):
    page = msgspec.json.decode((await http.get("/api/v1/nodes")).content, type=NodePage)
    assert [row.name for row in page.nodes] == ["n0", "n1", "n2", "n3", "n4"]
    assert (await http.get("/api/v1/version")).json() == {"name": "fairlead", "version": __version__}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_read_only(http: httpx.AsyncClient, method: str):
    answer = await http.request(method, "/api/v1/queue", content=b"{}")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    assert list(answer.json()) == ["error"]


async def test_F5_not_ready_says_why():
    engine = Engine(Settings())
    engine.learn([ev.Synced("pods")])
    app = create_app(EngineSource(engine.state))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://localhost:1"
    ) as http:
        assert (await http.get("/healthz")).status_code == 200
        answer = await http.get("/readyz")
        health = msgspec.json.decode(answer.content, type=Health)
        assert answer.status_code == 503
        assert "waiting for the list of nodes" in health.reasons
        warnings = (await http.get("/api/v1/queue")).json()["warnings"]
        assert "nothing is started: store: the store has not answered yet" in warnings


async def test_ready(http: httpx.AsyncClient):
    assert (await http.get("/readyz")).status_code == 200


async def test_a_fault_of_ours_is_a_plain_500(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EngineSource, "nodes", lambda _: 1 / 0)
    async with client() as http:
        answer = await http.get("/api/v1/nodes")
    assert (answer.status_code, answer.json()) == (500, {"error": "internal error: ZeroDivisionError"})


# -- who may ask -------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "127.8.8.8:1", "[::1]:8080", "LOCALHOST"])
async def test_loopback_names_are_ours(http: httpx.AsyncClient, host: str):
    assert (await http.get("/api/v1/queue", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8080", "10.0.0.1", "", "[::1].evil"]
)
async def test_foreign_host_names_are_refused(http: httpx.AsyncClient, host: str):
    answer = await http.get("/api/v1/queue", headers={"Host": host})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
    ],
)
async def test_other_sites_are_refused(http: httpx.AsyncClient, headers: dict[str, str]):
    answer = await http.get("/api/v1/queue", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


async def test_own_origin_and_typed_addresses_are_fine(http: httpx.AsyncClient):
    for headers in ({"Origin": "http://127.0.0.1:8080"}, {"Sec-Fetch-Site": "none"}):
        assert (await http.get("/api/v1/queue", headers=headers)).status_code == 200


async def test_served_to_others_names_are_still_refused_but_for_probes():
    async with client("0.0.0.0", "http://10.1.2.3:8080") as http:
        assert (await http.get("/api/v1/queue")).status_code == 200
        rebound = {"Host": "evil.example"}
        assert (await http.get("/api/v1/queue", headers=rebound)).status_code == 403
        assert (await http.get("/readyz", headers=rebound)).status_code == 200


@pytest.mark.parametrize("name", ["fairlead", "fairlead.team.svc", "fairlead.team.svc.cluster.local:8081"])
async def test_served_to_others_a_service_is_called_by_its_name(name: str):
    async with client("0.0.0.0", "http://10.1.2.3:8080") as http:
        assert (await http.get("/api/v1/queue", headers={"Host": name})).status_code == 200
    async with client("127.0.0.1", "http://127.0.0.1:8080") as http:
        assert (await http.get("/api/v1/queue", headers={"Host": name})).status_code == 403


@pytest.mark.parametrize("name", ["fairlead.svc.evil.example", ".svc.evil", "svc.cluster.local.evil.example"])
async def test_a_name_that_only_looks_like_a_service_is_refused(name: str):
    async with client("0.0.0.0", "http://10.1.2.3:8080") as http:
        assert (await http.get("/api/v1/queue", headers={"Host": name})).status_code == 403


# -- OpenAPI and metrics -----------------------------------------------------------------------------


async def test_openapi_describes_every_route(http: httpx.AsyncClient):
    document = (await http.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.")
    paths = {path.replace(":path", "") for path in document["paths"]}
    assert paths == {
        "/api/v1/queue", "/api/v1/queues", "/api/v1/groups/{name}", "/api/v1/nodes", "/api/v1/graph",
        "/api/v1/state", "/api/v1/audit", "/api/v1/version", "/healthz", "/readyz", "/metrics",
    }  # fmt: skip
    schemas = document["components"]["schemas"]
    row = schemas["QueueRow"]["properties"]
    assert set(row) == set(json.loads((await http.get("/api/v1/queue")).content)["groups"][0])
    refs = [part for part in json.dumps(document).split('"') if part.startswith("#/components/schemas/")]
    assert {ref.rpartition("/")[2] for ref in refs} <= set(schemas)


async def test_F6_F30_metrics():
    metrics = Metrics()
    metrics.learned(12, 0.001)
    metrics.planned(0.02, "stale")
    metrics.granted(2)
    metrics.rejected()
    metrics.waited(90_000)
    metrics.forecast(-3_000, 400)
    metrics.store(up=True, pending=3)
    async with client(metrics=metrics) as http:
        answer = await http.get("/metrics")
    lines = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for line in (
        'fairlead_plans_total{result="stale"} 1.0',
        "fairlead_starts_total 2.0",
        "fairlead_rejections_total 1.0",
        'fairlead_group_wait_seconds_bucket{le="300.0"} 1.0',
        "fairlead_group_wait_seconds_sum 90.0",
        'fairlead_forecast_error_seconds_bucket{le="-5.0",promise="first"} 0.0',
        'fairlead_forecast_error_seconds_bucket{le="-0.5",promise="first"} 1.0',
        'fairlead_forecast_error_seconds_bucket{le="0.5",promise="last"} 1.0',
        'fairlead_groups{phase="queued",reason="Queued"} 2.0',
        'fairlead_resource_amount{kind="free",resource="cpu"} 21000.0',
        "fairlead_events_total 12.0",
        "fairlead_batch_events_sum 12.0",
        "fairlead_store_up 1.0",
        "fairlead_store_pending_records 3.0",
        "fairlead_ready 1.0",
    ):
        assert line in lines
    assert not any("_created" in line for line in lines)


# -- its life ----------------------------------------------------------------------------------------


async def test_real_server_starts_answers_and_stops():
    server = Server(source())
    await server.start()
    url = server.url
    assert url.startswith("http://127.0.0.1:")
    async with httpx.AsyncClient(timeout=60) as http:
        assert (await http.get(f"{url}/api/v1/queue")).json()["total"] == 8
        await server.stop()
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{url}/healthz")


async def test_occupied_port_is_a_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ServerError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use; .* --port"
        ):
            await Server(source(), port=port).start()


def test_answers_leave_at_once():
    """An answer is written in two pieces; without this the second waits for the caller's acknowledgement."""
    with listening("127.0.0.1", 0, "") as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_stopping_waits_for_nobody_for_ever():
    server = Server(source())
    await server.start()
    host, _, port = server.url.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /api/v1/queue HTTP/1.1\r\n")  # half a request
    await writer.drain()
    await asyncio.wait_for(server.stop(), 30)
    writer.close()


async def test_signals_stay_with_the_scheduler():
    import signal

    before = signal.getsignal(signal.SIGTERM)
    server = Server(source())
    await server.start()
    assert signal.getsignal(signal.SIGTERM) is before
    await server.stop()
