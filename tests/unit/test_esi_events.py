"""Push: what changes is told with numbers; whoever comes back misses nothing, or is told to begin anew."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from esi_doors import FIRST, Served, served

from fairlead.api.esi import events as feeding
from fairlead.api.esi import sse
from fairlead.api.esi.events import Feed, Listener, Wanted
from fairlead.api.esi.picture import Picture
from fairlead.api.server import HttpServer
from fairlead.core.state import State
from fairlead.model.batchjob import BatchJob, BatchJobSpec
from fairlead.model.esi import Ref
from fairlead.model.settings import Settings

ALL = Wanted("default")


# -- the feed ----------------------------------------------------------------------------------------


def add(found: State, name: str, version: int = 1, namespace: str = "default") -> None:
    spec = BatchJobSpec(external_scheduler={"seen": [{"version": str(version)}]})
    uid = f"uid-{namespace}-{name}"
    found.esi.jobs[uid] = BatchJob(uid, version, namespace, name, spec)


def state(*jobs: str) -> State:
    found = State(Settings())
    found.missing.clear()
    for name in jobs:
        add(found, name)
    return found


def feed(found: State) -> Feed:
    made = Feed(Picture(), FIRST)
    made.turn_to(found)
    made.look()
    return made


async def told(listener: Listener) -> list[tuple[int, str, str]]:
    return [(seq, change.action, change.ref.name) for seq, change in await listener.take(5)]


async def test_changes_have_numbers_in_the_order_in_which_they_were_seen():
    found = state("a")
    made = feed(found)
    listener = made.listen(ALL, FIRST)
    add(found, "b")
    made.look()
    add(found, "a", 2)
    del found.esi.jobs["uid-default-b"]
    made.look()
    assert await told(listener) == [
        (FIRST + 1, "ADDED", "a"), (FIRST + 2, "ADDED", "b"),
        (FIRST + 3, "DELETED", "b"), (FIRST + 4, "MODIFIED", "a"),
    ]  # fmt: skip


async def test_what_looks_the_same_is_no_change():
    found = state("a")
    made = feed(found)
    add(found, "a")
    made.look()
    assert made.seq == FIRST + 1


async def test_one_hears_of_the_namespace_kind_and_name_that_were_asked_for():
    found = state()
    made = feed(found)
    listeners = [made.listen(Wanted("default", *more), FIRST) for more in ((), ("jobs",), ("jobs", "a"))]
    deaf = made.listen(Wanted("default", "testbeds"), FIRST)
    for name, namespace in (("a", "default"), ("b", "default"), ("a", "elsewhere")):
        add(found, name, namespace=namespace)
    made.look()
    heard = [[name for _, _, name in await told(listener)] for listener in listeners]
    assert heard == [["a", "b"], ["a", "b"], ["a"]]
    assert await deaf.take(0) == []


async def test_one_that_is_made_anew_under_its_name_is_deleted_and_added():
    found = state("a")
    made = feed(found)
    listener = made.listen(ALL, made.seq)
    old = found.esi.jobs.pop("uid-default-a")
    found.esi.jobs["other"] = BatchJob("other", 9, "default", "a", old.spec)
    made.look()
    assert [action for _, action, _ in await told(listener)] == ["DELETED", "ADDED"]
    shown = made.picture.of("jobs", Ref("default", "a"))
    assert shown is not None and shown.thing.uid == "other"


async def test_a_number_that_is_remembered_is_resumed_from():
    found = state("a", "b", "c")
    made = feed(found)
    listener = made.listen(ALL, FIRST + 1)
    assert not listener.reset
    assert [name for _, _, name in await told(listener)] == ["b", "c"]
    assert not made.listen(ALL, made.seq).reset


@pytest.mark.parametrize("after", [None, 1, FIRST - 1, FIRST + 99])
async def test_a_number_that_is_not_remembered_is_a_reset(after: int | None):
    assert feed(state("a")).listen(ALL, after).reset


async def test_the_buffer_has_its_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "KEPT", 3)
    found = state("a", "b")
    made = feed(found)
    assert not made.listen(ALL, FIRST).reset
    for version in (2, 3, 4):
        add(found, "a", version)
        made.look()
    assert made.listen(ALL, FIRST + 1).reset
    assert not made.listen(ALL, FIRST + 2).reset
    monkeypatch.setattr(feeding, "KEPT_BYTES", 1)
    add(found, "a", 5)
    made.look()
    assert made.listen(ALL, FIRST + 5).reset
    assert not made.listen(ALL, made.seq).reset


async def test_one_that_does_not_keep_up_is_dropped_and_others_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "PENDING", 2)
    found = state("a")
    made = feed(found)
    slow, other = made.listen(ALL, made.seq), made.listen(Wanted("default", "testbeds"), made.seq)
    for version in (2, 3, 4, 5):
        add(found, "a", version)
        made.look()
    assert slow.dropped and await slow.take(5) == []
    assert not other.dropped


async def test_a_new_life_of_the_engine_tells_only_what_is_different():
    made = feed(state("a", "b"))
    listener = made.listen(ALL, made.seq)
    fresh = State(Settings(sources=("surroundings", "store")))
    made.turn_to(fresh)
    made.look()
    assert made.state is None and made.seq == FIRST + 2
    add(fresh, "a")
    add(fresh, "c")
    fresh.missing.pop("surroundings")
    made.look()
    assert made.state is fresh
    assert [(action, name) for _, action, name in await told(listener)] == [("DELETED", "b"), ("ADDED", "c")]


async def test_whoever_waits_for_something_to_show_is_told_once_it_does():
    found = state()
    made = feed(found)
    waiting = asyncio.ensure_future(made.until(lambda: made.picture.all("jobs", "default") != [], 30))
    await asyncio.sleep(0)
    add(found, "a")
    made.look()
    assert await waiting
    assert not await made.until(lambda: False, 0.001)


# -- Server-Sent Events ------------------------------------------------------------------------------


class Stream:
    """A client of the push, which reads one event after the other."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> dict[str, str]:
        """Its fields; a heartbeat is {"": "heartbeat"}; {} at the end of the stream."""
        found: dict[str, str] = {}
        while line := (await asyncio.wait_for(self._answer.content.readline(), 30)).decode():
            if line == "\n":
                return found
            name, _, value = line.rstrip("\n").partition(": ")
            found[name.rstrip(":")] = value
        return found

    async def change(self) -> tuple[int, dict[str, Any]]:
        while "id" not in (found := await self.next()) or "event" in found:
            assert found, "the stream has ended"
        return int(found["id"]), json.loads(found["data"])


@contextlib.asynccontextmanager
async def listening(esi: Served) -> AsyncIterator[aiohttp.ClientSession]:
    server = HttpServer(esi.app, "127.0.0.1", 0, "")
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as client:
            yield client
    finally:
        esi.doors.close()
        await server.stop()


@contextlib.asynccontextmanager
async def stream(client: aiohttp.ClientSession, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(f"/external/events{query}", headers=named) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


async def test_a_new_client_is_given_all_that_there_is_and_then_what_changes():
    async with served() as esi, listening(esi) as client, stream(client, "?kind=jobs") as found:
        assert (await found.next())["event"] == "reset"
        present = [await found.next() for _ in range(4)]
        assert [json.loads(each["data"])["name"] for each in present] == ["j1", "j2", "j3", "j4"]
        assert all("id" not in each and "event" not in each for each in present)
        end = await found.next()
        assert (end["event"], int(end["id"])) == ("present", esi.doors.feed.seq)
        await esi.ask("PUT", "/external/jobs/", {"name": "j2", "externalScheduler": {"a": []}})
        seq, change = await found.change()
        assert seq > int(end["id"])
        assert (change["action"], change["kind"], change["namespace"]) == ("MODIFIED", "jobs", "default")
        assert change["resource"] == await esi.get("/external/jobs/j2")


async def test_a_client_that_comes_back_misses_nothing():
    async with served() as esi, listening(esi) as client:
        async with stream(client) as found:
            while (last := await found.next()).get("event") != "present":
                pass
        await esi.scheduling("s", queue=["j1"])
        await esi.reaches("s", "CompletedState")
        async with stream(client, "?kind=schedulings&name=s", last_event_id=last["id"]) as found:
            heard = [await found.change()]
            while heard[-1][1]["resource"]["state"] != "CompletedState":
                heard.append(await found.change())
        assert heard[0][1]["action"] == "ADDED"
        assert [seq for seq, _ in heard] == sorted({seq for seq, _ in heard})
        states = [change["resource"]["state"] for _, change in heard]
        assert "AwaitingCompletionState" in states


async def test_a_client_of_long_ago_is_told_to_begin_anew():
    async with served() as esi, listening(esi) as client, stream(client, last_event_id="7") as found:
        assert (await found.next())["event"] == "reset"


async def test_one_that_reads_nothing_new_is_told_that_all_is_well(monkeypatch: pytest.MonkeyPatch):
    async with served() as esi, listening(esi) as client:
        esi.paused = True
        monkeypatch.setattr(esi.doors.events, "heartbeat", 0.01)
        async with stream(client, last_event_id=str(esi.doors.feed.seq)) as found:
            assert await found.next() == {"": "heartbeat"}
            assert await found.next() == {"": "heartbeat"}


async def test_one_that_does_not_keep_up_is_told_so_and_its_stream_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "PENDING", 0)
    async with served() as esi, listening(esi) as client:
        seq = esi.doors.feed.seq
        async with stream(client, last_event_id=str(seq)) as found:
            await esi.ask("PUT", "/external/jobs/", {"name": "j2", "externalScheduler": {"a": []}})
            end = await found.next()
            assert end["event"] == "dropped" and "Last-Event-ID" in end["data"]
            assert await found.next() == {}


async def test_one_who_loses_his_right_is_told_so_and_his_stream_ends(monkeypatch: pytest.MonkeyPatch):
    rights = [True]
    monkeypatch.setattr("fairlead.api.esi.access.SECONDS", 0.0)
    async with served(allows=lambda *_: rights[0]) as esi, listening(esi) as client:
        esi.paused = True
        monkeypatch.setattr(esi.doors.events, "heartbeat", 0.01)
        after = str(esi.doors.feed.seq)
        async with stream(client, "?kind=jobs", authorization="Bearer good", last_event_id=after) as found:
            rights[0] = False
            while (end := await found.next()) == {"": "heartbeat"}:
                pass
            assert end["event"] == "refused" and "ann may not watch batchjobs" in end["data"]
            assert await found.next() == {}


async def test_the_end_of_the_server_is_told():
    async with served() as esi, listening(esi) as client:
        after = str(esi.doors.feed.seq)
        async with stream(client, last_event_id=after) as found:
            esi.doors.close()
            assert (await found.next())["event"] == "bye"
            assert await found.next() == {}


async def test_a_client_that_leaves_is_forgotten():
    async with served() as esi, listening(esi) as client:
        async with stream(client) as found:
            assert await found.next()
            assert len(esi.doors.feed._listeners) == 1
        await esi.until(lambda: not esi.doors.feed._listeners, "the listener to be gone")


@pytest.mark.parametrize(
    "query, headers, text",
    [
        ("?kind=pods", {}, "kind: 'pods' is none of testbeds, jobs, schedulings"),
        ("?name=j1", {}, "name: say of which kind"),
        ("", {"last_event_id": "x"}, "Last-Event-ID: 'x' is no number"),
    ],
)
async def test_a_wrong_question_is_refused(query: str, headers: dict[str, str], text: str):
    async with served() as esi:
        answer = await esi.ask("GET", f"/external/events{query}", **headers)
    assert answer.status_code == 400 and text in answer.json()["error"]


async def test_one_that_leaves_everything_unread_is_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sse, "STUCK", 0.01)
    async with served() as esi:
        asked: list[Any] = []

        async def send(message: Any) -> None:
            asked.append(message)
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def receive() -> Any:
            await asyncio.Event().wait()

        scope = {"type": "http", "method": "GET", "path": "/external/events", "query_string": b"",
                 "headers": [(b"host", b"127.0.0.1")]}  # fmt: skip
        await asyncio.wait_for(esi.app(scope, receive, send), 30)
        assert asked[0]["status"] == 200
        assert not esi.doors.feed._listeners
