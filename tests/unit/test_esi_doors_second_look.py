"""The doors of external schedulers, read again: what a stranger, a slow one or a broken line does to them."""

import asyncio
import http.client
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2 as httpx
import pytest
from esi_doors import FIRST, job, served, small
from starlette.applications import Starlette
from test_esi_stomp import spoken
from typer.testing import CliRunner

from fairlead.api.esi import events as feeding
from fairlead.api.esi import shapes, stomp
from fairlead.api.esi.events import Feed, Wanted
from fairlead.api.esi.picture import Picture
from fairlead.api.extender import door, messages
from fairlead.api.extender.news import News
from fairlead.app_esi import EsiOptions
from fairlead.cli.esi import app
from fairlead.core.state import State
from fairlead.kube.esi_cluster import KubeEsiCluster
from fairlead.model.batchjob import BatchJob, BatchJobSpec
from fairlead.model.esi import Ref
from fairlead.model.settings import Settings
from fairlead.runtime.errors import ClusterError, ConfigError

EXAMPLE = Path(__file__).parents[2] / "examples" / "esi"
sys.path.insert(0, str(EXAMPLE))
import esi_client  # noqa: E402
import profiler  # noqa: E402

PATIENCE = 60.0
DEEP = b"[" * 100_000 + b"]" * 100_000


# -- push --------------------------------------------------------------------------------------------


def feed_of(jobs: int) -> Feed:
    found = State(Settings())
    found.missing.clear()
    made = Feed(Picture(), FIRST)
    made.turn_to(found)
    for i in range(jobs):
        found.esi.jobs[f"u{i}"] = BatchJob(f"u{i}", 1, "default", f"j{i}", BatchJobSpec())
    made.look()
    return made


async def test_who_missed_more_than_may_wait_begins_with_what_there_is(monkeypatch: pytest.MonkeyPatch):
    """Else it is dropped, comes back with the same number, is dropped again, and so on."""
    monkeypatch.setattr(feeding, "PENDING", 5)
    made = feed_of(6)
    listener = made.listen(Wanted("default"), FIRST)
    assert listener.reset and not listener.dropped
    assert len(made.present(Wanted("default"))) == 6
    again = made.listen(Wanted("default"), FIRST + 1)
    assert not again.reset and [seq for seq, _ in await again.take(5)] == list(range(FIRST + 2, FIRST + 7))


async def test_a_cluster_that_does_not_answer_for_a_while_ends_no_stomp_session(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(stomp, "TICK", 0.001)
    monkeypatch.setattr(stomp, "AGAIN", 0.001)
    monkeypatch.setattr("fairlead.api.esi.access.SECONDS", 0.0)
    asked: list[object] = []

    async def silent(*_: object) -> bool:
        asked.append(_)
        raise ClusterError("no answer", 503)

    async with (
        served(small(), allows=lambda *_: True) as doors,
        spoken(doors, headers={"Authorization": "Bearer good"}) as client,
    ):
        await client.subscribe("1", "/topic/jobs")
        monkeypatch.setattr(doors.cluster, "access_review", silent)
        await doors.until(lambda: len(asked) > 2, "rights to be looked at")
        job(doors.world, "late")
        assert (await client.hear()).command == "MESSAGE"


# -- bodies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b'{"name": "\xff"}', b'{"name": "j1", "more": ' + DEEP + b"}", DEEP])
async def test_bodies_that_cannot_be_read_are_refused(body: bytes):
    async with served(small()) as doors:
        for method, path in (("PUT", "jobs"), ("POST", "schedulings")):
            answer = await doors.http.request(method, f"/external/{path}", content=body)
            assert answer.status_code == 400, answer.text
            assert "body" in answer.json()["error"]


@pytest.mark.parametrize("read", [messages.question, messages.preempting, messages.binding])
def test_questions_of_an_extender_that_are_nested_too_deeply_are_refused(read: Callable[[bytes], Any]):
    with pytest.raises(messages.NotUnderstood):
        read(b'{"Pod": {"metadata": {"uid": "u"}, "more": ' + DEEP + b"}}")
    with pytest.raises(messages.NotUnderstood):
        read(b'{"Pod": {"metadata": {"uid": "\xff"}}}')


async def test_strangers_cannot_fill_the_memory_with_questions(monkeypatch: pytest.MonkeyPatch):
    """The extender's routes ask nobody who they are, and take bodies of 256 MiB."""
    monkeypatch.setattr(door, "LARGEST", 100)
    more = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b" " * 60
        await more.wait()
        yield b" "

    async def sent(body: Any) -> int:
        return (await http.post("/extender/bind", content=body)).status_code

    extender = door.Extender(lambda: State(Settings()), News(), cast("Any", None))
    transport = httpx.ASGITransport(Starlette(routes=door.routes(extender)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        first = asyncio.create_task(sent(slow()))
        for _ in range(10_000):  # until the first one has come so far
            if await sent(b" " * 60) == 503:
                break
            await asyncio.sleep(0)
        else:
            raise AssertionError("two were read at a time")
        assert await sent(b" " * 30) == 400  # it is no question, and was read
        more.set()
        assert await first == 400
        assert await sent(b" " * 60) == 400


def test_many_slots_of_a_job_are_looked_at_once():
    """Each was compared with each: a body of 4 MiB stopped the scheduler for an hour."""

    class Slots(list[int]):
        def __getitem__(self, place: Any) -> Any:
            raise AssertionError("a part of the list is copied, or looked through, for each slot")

    def asked(slots: list[int]) -> shapes.SlotsShape:
        return shapes.SlotsShape([shapes.SlotsOfJob("j1", slots)])

    shapes._check_slots(asked(Slots(range(500_000))))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(shapes.ShapeError, match=r"slots\[2\]: slot 3 is given to j1 twice"):
        shapes._check_slots(asked([3, 4, 3]))  # pyright: ignore[reportPrivateUsage]


async def test_a_refusal_names_some_of_a_thousand_slots():
    async with served(small()) as doors:
        slots = {"mode": "STRICT", "jobs": [{"name": "j1", "slots": list(range(1_004))}]}
        answer = await doors.scheduling("wide", slots=slots)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert "has no slot 4, 5, 6, " in error and "23 and 980 more; its slots are 0 to 3" in error


# -- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".", ".."])
async def test_no_name_means_the_whole_list(name: str):
    """DELETE of `/schedulings/.` is one of all Schedulings to whoever tidies paths on the way."""

    class Client:
        def request(self, *_: object) -> Any:
            raise AssertionError("it was sent")

        get = patch = delete = request

    cluster, ref = KubeEsiCluster(Client()), Ref("default", name)  # pyright: ignore[reportArgumentType]
    work: tuple[Callable[[], Awaitable[Any]], ...] = (
        lambda: cluster.get("Scheduling", ref),
        lambda: cluster.delete("Scheduling", ref),
        lambda: cluster.replace("BatchJob", ref, {}),
        lambda: cluster.patch("BatchJob", ref, {}),
    )
    for each in work:
        with pytest.raises(ClusterError) as error:
            await each()
        assert error.value.status == 404


@pytest.mark.parametrize("name", ["", "Bad Name", "a/b", "a" * 64])
def test_a_namespace_that_is_none_is_told_at_start(name: str):
    with pytest.raises(ConfigError, match="--esi-namespace"):
        EsiOptions(namespace=name).check("127.0.0.1")


# -- the command line --------------------------------------------------------------------------------


@contextmanager
def saying(*answers: bytes) -> Iterator[str]:
    """A server that answers each connection with these bytes, whatever is asked, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for each in answers:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(each)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["jobs", *arguments])
    assert result.exception is not None
    return f"{type(result.exception).__name__}: {result.exception}"


def test_addresses_that_are_none_are_told_in_one_line():
    assert refusal("--server", "localhost:abc").startswith("CliError: --server ")
    with saying(b"SSH-2.0-OpenSSH\r\n") as url:
        assert refusal("--server", url).startswith(f"CliError: nobody answers: {url} does not answer like")


def test_a_token_that_is_none_is_told_without_showing_it():
    found = refusal("--server", "http://127.0.0.1:1", "--token", "secret\nsecond")
    assert found.startswith("CliError: --token: ") and "secret" not in found


# -- the example -------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
DONE = json.dumps({"action": "MODIFIED", "resource": {"name": "s", "state": "CompletedState"}}).encode()


@pytest.mark.parametrize(
    "broken",
    [
        HEAD + b'\r\nid: 7\ndata: {"action": "MODI',
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\nid: 7\ndata: {",
        b"rubbish\r\n\r\n",
    ],
    ids=["within a line", "within a chunk", "no answer"],
)
def test_a_stream_that_breaks_off_anywhere_is_begun_again(broken: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(esi_client.time, "sleep", lambda _: None)
    with saying(broken, HEAD + b"\r\nid: 8\ndata: " + DONE + b"\n\n") as url:
        found = esi_client.Esi(url).wait("schedulings", "s", profiler.completed, PATIENCE)
    assert found["state"] == "CompletedState"


def test_what_was_deleted_while_nobody_listened_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(esi_client.time, "sleep", lambda _: None)
    word = b'event: %b\ndata: {"text": "so it is"}\n\n'
    here = b"data: " + DONE.replace(b"Completed", b"Confirmation") + b"\n\n"
    whole = HEAD + b"\r\n" + word % b"reset" + here + b"id: 7\n" + word % b"present"
    nothing = HEAD + b"\r\n" + word % b"reset" + b"id: 9\n" + word % b"present" + word % b"bye"
    with saying(whole, whole, nothing) as url, pytest.raises(esi_client.EsiError, match="s was deleted"):
        esi_client.Esi(url).wait("schedulings", "s", profiler.completed, PATIENCE)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "http://127.0.0.1:80x"])
def test_the_example_says_in_one_line_that_an_address_is_none(url: str):
    with pytest.raises(esi_client.EsiError, match="does not answer"):
        esi_client.Esi(url).jobs()


def test_half_an_answer_is_none():
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    with saying(body) as url, pytest.raises(esi_client.EsiError):
        esi_client.Esi(url).jobs()
    assert issubclass(http.client.IncompleteRead, esi_client.BROKEN)


class Remembering(esi_client.Esi):
    """Its server is the test's."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:9")
        self.there: set[str] = set()
        self.posting, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.stuck = ""

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        if method == "POST":
            self.posting.set()
            assert self.go_on.wait(PATIENCE)
            self.there.add(body["name"])
        elif path.rpartition("/")[2] == self.stuck:
            raise esi_client.EsiError("500: it is still there")
        else:
            self.there.discard(path.rpartition("/")[2])


def test_a_plan_that_is_on_its_way_at_the_end_is_deleted_too():
    esi = Remembering()
    esi.go_on.clear()
    posting = threading.Thread(target=esi.post, args=({"name": "late"},), daemon=True)
    posting.start()
    assert esi.posting.wait(PATIENCE)
    closing = threading.Thread(target=esi.close, daemon=True)
    closing.start()
    assert esi.closed.wait(PATIENCE)
    esi.go_on.set()
    posting.join(PATIENCE)
    closing.join(PATIENCE)
    assert not esi.there


def test_one_that_cannot_be_deleted_does_not_keep_the_others():
    esi = Remembering()
    for name in ("a", "b"):
        esi.post({"name": name})
    esi.stuck = "a"
    with pytest.raises(esi_client.EsiError, match="a: 500"):
        esi.close()
    assert esi.there == {"a"}


@pytest.mark.parametrize("seconds", [0.00001, 0.5, 12.0, 3_000_000.0])
def test_every_mean_that_is_written_is_read_again(seconds: float):
    mean = profiler.Mean().and_one(seconds)
    read = profiler.read_mean({"externalScheduler": {"profiler": [{"b": str(mean)}]}}, "b")
    assert read == mean


@pytest.mark.parametrize("note", ["1.2.3 (1)", ".", "soon"])
def test_what_others_wrote_is_no_measurement(note: str):
    job = {"externalScheduler": {"profiler": [{"b": note}]}}
    assert profiler.read_mean(job, "b") == profiler.Mean()
