"""The composed recorder: full buffers and other recorders' turns stop its watches, and nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest
import yaml
from aiohttp import web
from test_kube_watch import versioned, watches

from fairlead.api import tap
from fairlead.app_recorder import FOR_DOORS, Options, Recorder
from fairlead.kube import observe
from fairlead.kube.errors import KubeError
from fairlead.kube.watch import IDLE, Reflector
from fairlead.model.record import Change, Loaded, Part, Source
from fairlead.recorder import sniffer_service
from fairlead.recorder.pb.sniffer_pb2 import SendRequest
from fairlead.store.errors import FencedError
from kube_fake import FakeApi, bookmark, event


class Memory:
    """A ledger that refuses and loses its turn as a test wants; what it took is durable at once."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.room = True
        self.drains = 0
        self.fenced = asyncio.Event()
        self.standby, self.error, self.written, self.waiting, self.dropped = False, "", 0, 0, 0

    def check(self) -> None: ...

    def put(self, part: Part) -> bool:
        if self.room:
            self.parts.append(part)
        return self.room

    async def run(self) -> None:
        await self.fenced.wait()
        self.fenced.clear()
        raise FencedError(2)

    async def load(self) -> Loaded:
        marks: dict[str, int] = {}
        for part in self.parts:
            marks |= part.marks
        pods = {life.uid: life for part in self.parts for life in part.pods}
        return Loaded({uid: life for uid, life in pods.items() if not life.deleted}, {}, marks)

    async def drained(self) -> None:
        self.drains += 1
        self.room = True

    async def close(self) -> None: ...

    @property
    def changes(self) -> list[Change]:
        return [change for part in self.parts for change in part.changes]

    @property
    def created(self) -> list[str]:
        return [change.name for change in self.changes if change.event == "Created"]


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        fake.page_version = 10
        yield fake


@pytest.fixture
def kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }  # fmt: skip
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
async def recorder(kubeconfig: Path) -> AsyncIterator[Recorder]:
    options = Options(
        kubeconfig=kubeconfig,
        database_url="postgresql:///none",
        grpc="127.0.0.1:0",
        http="127.0.0.1:0",
        events=False,
    )
    made = Recorder(options)
    made._kinds = [observe.PODS]  # pyright: ignore
    made.ledger = Memory()  # pyright: ignore
    await made.start()
    yield made
    await made.stop()


def allow(api: FakeApi, allowed: bool = True) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"status": {"allowed": allowed}})

    api.fault("POST", "/selfsubjectaccessreviews", *[answer] * 4)


async def until(done: Callable[[], object], recording: "asyncio.Task[None]") -> None:
    async with asyncio.timeout(30):
        while not done():
            if recording.done():
                recording.result()
            await asyncio.sleep(0.01)


def listed(*names: str) -> list[Any]:
    return [*(event("ADDED", versioned(name, 5 + n)) for n, name in enumerate(names)), bookmark(10, end=True)]


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_RB5_a_full_buffer_stops_the_watches_until_it_is_written(
    api: FakeApi, recorder: Recorder
) -> None:
    """They go on from what is durable: what was refused is told once more."""
    ledger: Any = recorder.ledger
    refused = event("ADDED", versioned("b", 20))
    api.streams = [
        listed("a"),
        [b"", 0.05, refused, 3600.0],
        [refused + event("ADDED", versioned("c", 21)), 3600.0],
    ]
    allow(api)
    recording = asyncio.create_task(recorder.record())
    await until(lambda: ledger.created == ["a"], recording)
    ledger.room = False
    await until(lambda: "c" in ledger.created, recording)
    assert ledger.created == ["a", "b", "c"] and ledger.drains == 1
    assert watches(api) == ["10", "10"]
    await ended(recording)


async def test_a_quiet_watch_is_kept_until_its_bookmark_comes(
    api: FakeApi, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server sends one a minute; never heard, a quiet cluster would look as if nobody had watched it."""
    patience: list[float] = []

    class Noted(Reflector):
        def __init__(self, *args: Any, idle: float = IDLE, **options: Any) -> None:
            patience.append(idle)
            super().__init__(*args, idle=idle, **options)

    monkeypatch.setattr("fairlead.app_recorder.Reflector", Noted)
    ledger: Any = recorder.ledger
    api.streams = [listed("a"), [3600.0]]
    allow(api)
    recording = asyncio.create_task(recorder.record())
    await until(lambda: ledger.created == ["a"], recording)
    assert len(patience) == 1 and patience[0] > 65
    await ended(recording)


async def test_another_recorders_turn_is_waited_out(api: FakeApi, recorder: Recorder) -> None:
    ledger: Any = recorder.ledger
    api.streams = [listed("a"), [3600.0], [event("ADDED", versioned("b", 20)), 3600.0]]
    allow(api)
    recording = asyncio.create_task(recorder.record())
    await until(lambda: len(watches(api)) == 1, recording)
    allow(api)
    ledger.fenced.set()
    await until(lambda: ledger.created == ["a", "b"], recording)
    assert recorder.health().ready
    ledger.standby = True
    assert recorder.health().reasons == ("stands by: another recorder writes",)
    await ended(recording)


async def test_an_account_that_may_not_look_is_told_at_the_start(api: FakeApi, recorder: Recorder) -> None:
    allow(api, allowed=False)
    with pytest.raises(KubeError, match="may not list pods, watch pods, list nodes, watch nodes in all"):
        await recorder.record()


async def test_what_it_counts_can_be_asked(api: FakeApi, recorder: Recorder) -> None:
    ledger: Any = recorder.ledger
    api.streams = [listed("a", "b"), [3600.0]]
    allow(api)
    recording = asyncio.create_task(recorder.record())
    await until(lambda: ledger.created == ["a", "b"], recording)
    text = recorder.metrics().decode()
    assert "\nfairlead_recorder_pods 2.0\n" in text and "\nfairlead_ready 1.0\n" in text
    assert '\nfairlead_recorder_door_changes{door="extender",state="taken"} 0.0\n' in text
    await ended(recording)


async def test_RB7_what_is_told_at_its_doors_goes_into_the_same_ledger(recorder: Recorder) -> None:
    """Without watches or a turn: doors are open while the process runs. What has no room is told as a gap."""
    ledger: Any = recorder.ledger
    assert recorder.grpc is not None and recorder.http is not None
    send = SendRequest(pod="p", node="n", event="ScheduleSuccess", endpoint="schedulePod").SerializeToString()
    async with grpc.aio.insecure_channel(recorder.grpc.address) as channel:
        call = channel.unary_unary(f"/{sniffer_service.SERVICE}/Send")
        await call(send)
        ledger.room = False
        await call(send)
        ledger.room = True
        await call(send)
    asked = {"Pod": {"metadata": {"name": "q", "uid": "u"}}, "NodeNames": ["n1", "n2"]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{recorder.http.url}{tap.PREFIX}/filter", json=asked) as answer,
    ):
        assert (await answer.json())["NodeNames"] == ["n1", "n2"]
    assert [(each.source, each.event, each.name) for each in ledger.changes] == [
        (Source.SNIFFER, "ScheduleSuccess", "p"),
        (Source.RECORDER, "Gap", ""),
        (Source.SNIFFER, "ScheduleSuccess", "p"),
        (Source.EXTENDER, "Filter", "q"),
    ]
    text = recorder.metrics().decode()
    assert 'fairlead_recorder_door_changes{door="sniffer",state="refused"} 1.0' in text
    assert 'fairlead_recorder_door_changes{door="extender",state="taken"} 1.0' in text


async def test_RB5_doors_leave_room_for_what_the_watches_see(recorder: Recorder) -> None:
    ledger: Any = recorder.ledger
    ledger.waiting = FOR_DOORS
    told = Change("Pod", "preStop", 1, 1, Source.SNIFFER)
    assert not recorder._outlets["sniffer"].put((told,))  # pyright: ignore
    assert recorder._put(Part(marks={"Pod": 1}))  # pyright: ignore
    ledger.waiting -= 1
    assert recorder._outlets["sniffer"].put((told,))  # pyright: ignore


async def test_kube_scheduler_is_answered_at_an_address_of_its_own(kubeconfig: Path) -> None:
    """Then not where probes ask, too: what asks for a certificate there must not stand open here."""
    options = Options(
        kubeconfig=kubeconfig, database_url="postgresql:///none", grpc="", http="127.0.0.1:0",
        extender="127.0.0.1:0",
    )  # fmt: skip
    made = Recorder(options)
    made.ledger = Memory()  # pyright: ignore
    await made.start()
    try:
        assert made.http is not None and made.extender is not None
        asked = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": ["n0"]}
        async with aiohttp.ClientSession() as http:
            for server, status in ((made.extender, 200), (made.http, 404)):
                async with http.post(f"{server.url}{tap.PREFIX}/filter", json=asked) as answer:
                    assert answer.status == status
            async with http.get(f"{made.extender.url}/healthz") as answer:
                assert answer.status == 404
    finally:
        await made.stop()
