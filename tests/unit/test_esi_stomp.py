"""STOMP over WebSockets for existing clients: frames, topics, tokens, heart-beats, and what is refused."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from esi_doors import Served, served

from fairlead.api.esi import events as feeding
from fairlead.api.esi import stomp
from fairlead.api.esi.frames import LARGEST, Frame, FrameError, beats, read, write
from fairlead.api.server import HttpServer

# -- frames ------------------------------------------------------------------------------------------


def test_a_frame_is_read_as_it_was_written():
    for frame in (
        Frame("SUBSCRIBE", {"id": "1", "destination": "/topic/jobs"}),
        Frame("MESSAGE", {"odd:name": "a\\b:c\nd\re"}, "{}"),
        Frame("DISCONNECT"),
    ):
        assert read(write(frame)) == frame


def test_other_ends_of_lines_and_heart_beats():
    assert read("\n") is None and read("\r\n") is None and read("") is None
    assert read("\nCONNECT\r\naccept-version:1.2\r\n\r\n\0\n") == Frame("CONNECT", {"accept-version": "1.2"})


def test_the_first_header_of_a_name_counts_and_connect_is_not_unescaped():
    assert read("SEND\na:1\na:2\n\n\0") == Frame("SEND", {"a": "1"})
    assert read("CONNECT\npasscode:a\\cb\n\n\0") == Frame("CONNECT", {"passcode": "a\\cb"})


@pytest.mark.parametrize(
    "text", ["SEND", "SEND\n\n", "SEND\nno header\n\n\0", "SEND\na:\\x\n\n\0", "X" * (LARGEST + 1)]
)
def test_what_is_no_frame(text: str):
    with pytest.raises(FrameError):
        read(text)


def test_heart_beats_are_pairs():
    assert beats("0,10000") == (0, 10_000)
    for wrong in ("", "1", "a,b", "1,", "-1,2", "1" * 30 + ",1"):
        with pytest.raises(FrameError):
            beats(wrong)


# -- a session ---------------------------------------------------------------------------------------


class Client:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def say(self, command: str, body: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.socket.send_str(write(Frame(command, named, body)))

    async def hear(self) -> Frame | None:
        """The next frame, past heart-beats; None once it is closed."""
        while True:
            message = await asyncio.wait_for(self.socket.receive(), 30)
            if message.type is not aiohttp.WSMsgType.TEXT:
                return None
            if (frame := read(message.data)) is not None:
                return frame

    async def message(self) -> tuple[dict[str, str], Any]:
        frame = await self.hear()
        assert frame is not None and frame.command == "MESSAGE", frame
        assert frame.headers["content-length"] == str(len(frame.body.encode()))
        return frame.headers, json.loads(frame.body)

    async def subscribe(self, id_: str, destination: str) -> None:
        await self.say("SUBSCRIBE", id=id_, destination=destination, receipt=f"r{id_}")
        frame = await self.hear()
        assert frame == Frame("RECEIPT", {"receipt-id": f"r{id_}"}), frame

    async def refused(self) -> str:
        frame = await self.hear()
        assert frame is not None and frame.command == "ERROR", frame
        assert await self.hear() is None
        return frame.headers["message"]


@contextlib.asynccontextmanager
async def spoken(
    esi: Served, path: str = "/scheduler", connect: bool = True, **options: Any
) -> AsyncIterator[Client]:
    server = HttpServer(esi.app, "127.0.0.1", 0, "", sockets=True)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session, session.ws_connect(path, **options) as found:
            client = Client(found)
            if connect:
                await client.say("CONNECT", accept_version="1.1,1.2", host="x", heart_beat="0,0")
                frame = await client.hear()
                assert frame is not None and frame.command == "CONNECTED", frame
                assert frame.headers["version"] == "1.2"
            yield client
    finally:
        esi.doors.close()
        await server.stop()


async def noted(esi: Served, name: str, *notes: str) -> None:
    body = {"name": name, "externalScheduler": {"n": [{"x": each} for each in notes]}}
    assert (await esi.ask("PUT", "/external/jobs/", body)).status_code == 200


async def test_topics_tell_names_and_topics_of_one_the_whole_shape():
    async with served() as esi, spoken(esi) as client:
        await client.subscribe("all", "/topic/jobs")
        await client.subscribe("one", "/topic/jobs/j2")
        await noted(esi, "j2", "1")
        heard = [await client.message(), await client.message()]
        by_id = {headers["subscription"]: (headers["destination"], body) for headers, body in heard}
        assert by_id["all"] == ("/topic/jobs", {"action": "MODIFIED", "resource": "j2"})
        shape = await esi.get("/external/jobs/j2")
        assert by_id["one"] == ("/topic/jobs/j2", {"action": "MODIFIED", "resource": shape})
        await noted(esi, "j1", "1")
        assert (await client.message())[1] == {"action": "MODIFIED", "resource": "j1"}


async def test_a_scheduling_is_told_from_its_making_to_its_end():
    async with served() as esi, spoken(esi, "/scheduler/websocket") as client:
        await client.subscribe("1", "/topic/schedulings")
        await esi.scheduling("s", queue=["j1"])
        assert (await client.message())[1] == {"action": "ADDED", "resource": "s"}
        await esi.ask("DELETE", "/external/schedulings/s")
        while (body := (await client.message())[1])["action"] == "MODIFIED":
            pass
        assert body == {"action": "DELETED", "resource": "s"}


async def test_unsubscribed_is_silent():
    async with served() as esi, spoken(esi) as client:
        await client.subscribe("all", "/topic/jobs")
        await client.subscribe("other", "/topic/jobs/j4")
        await client.say("UNSUBSCRIBE", id="all", receipt="u")
        assert (await client.hear()) == Frame("RECEIPT", {"receipt-id": "u"})
        await noted(esi, "j1", "1")
        await noted(esi, "j4", "1")
        assert (await client.message())[0]["subscription"] == "other"


async def test_disconnect_is_acknowledged_and_ends_it():
    async with served() as esi, spoken(esi) as client:
        await client.subscribe("1", "/topic/jobs")
        await client.say("DISCONNECT", receipt="bye")
        assert (await client.hear()) == Frame("RECEIPT", {"receipt-id": "bye"})
        assert await client.hear() is None
        await esi.until(lambda: not esi.doors.feed._listeners, "the listener to be gone")


async def test_the_protocol_is_agreed_on():
    async with served() as esi, spoken(esi, protocols=("v10.stomp", "v11.stomp")) as client:
        assert client.socket.protocol == "v11.stomp"
    async with served() as esi, spoken(esi, connect=False) as client:
        await client.say("STOMP", accept_version="1.1", host="x")
        frame = await client.hear()
        assert frame is not None and (frame.command, frame.headers["version"]) == ("CONNECTED", "1.1")


@pytest.mark.parametrize(
    "command, headers, text",
    [
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/pods"}, "is none of /topic/testbeds, /topic/jobs"),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/jobs"}, "is none of"),
        ("SUBSCRIBE", {"destination": "/topic/jobs"}, "SUBSCRIBE needs an id"),
        ("SEND", {"destination": "/topic/jobs"}, "nothing can be sent here"),
        ("BEGIN", {"transaction": "1"}, "'BEGIN' is not known here"),
    ],
)
async def test_what_is_not_understood_is_an_error_and_the_end(
    command: str, headers: dict[str, str], text: str
):
    async with served() as esi, spoken(esi) as client:
        await client.say(command, **headers)
        assert text in await client.refused()


@pytest.mark.parametrize(
    "said, text",
    [
        (write(Frame("SUBSCRIBE", {"id": "1"})), "the first frame must be CONNECT"),
        (write(Frame("CONNECT", {"accept-version": "1.0"})), "1.1 and 1.2 are spoken here"),
        (write(Frame("CONNECT", {"accept-version": "1.2", "heart-beat": "x"})), "heart-beat"),
        ("GET / HTTP/1.1", "a frame has an empty line"),
    ],
)
async def test_one_who_does_not_connect_first(said: str, text: str):
    async with served() as esi, spoken(esi, connect=False) as client:
        await client.socket.send_str(said)
        assert text in await client.refused()


async def test_one_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stomp, "CONNECT_WITHIN", 0.01)
    async with served() as esi, spoken(esi, connect=False) as client:
        assert await client.hear() is None


async def test_a_token_may_come_with_the_handshake_or_as_passcode():
    def allows(*question: Any) -> bool:
        return question[1:4:2] == ("watch", "batchjobs")

    async with served(allows=allows) as esi, spoken(esi, headers={"Authorization": "Bearer good"}) as client:
        await client.subscribe("1", "/topic/jobs")
        await client.say("SUBSCRIBE", id="2", destination="/topic/testbeds")
        assert "ann may not watch testbeds" in await client.refused()
    for header in ({"passcode": "good"}, {"Authorization": "Bearer good"}):
        async with served(allows=allows) as esi, spoken(esi, connect=False) as client:
            await client.say("CONNECT", accept_version="1.2", **header)
            assert await client.hear()
            await client.subscribe("1", "/topic/jobs")
    async with served(allows=allows) as esi, spoken(esi) as client:
        await client.say("SUBSCRIBE", id="2", destination="/topic/testbeds")
        assert "a token is needed" in await client.refused()


async def test_one_who_loses_his_right_is_told_so(monkeypatch: pytest.MonkeyPatch):
    rights = [True]
    monkeypatch.setattr(stomp, "TICK", 0.01)
    monkeypatch.setattr(stomp, "AGAIN", 0.01)
    monkeypatch.setattr("fairlead.api.esi.access.SECONDS", 0.0)
    async with (
        served(allows=lambda *_: rights[0]) as esi,
        spoken(esi, headers={"Authorization": "Bearer good"}) as client,
    ):
        await client.subscribe("1", "/topic/jobs")
        rights[0] = False
        assert "ann may not watch batchjobs" in await client.refused()


async def test_heart_beats_are_kept_and_missed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stomp, "BEAT", 10)
    monkeypatch.setattr(stomp, "TICK", 0.01)
    async with served() as esi, spoken(esi, connect=False) as client:
        await client.say("CONNECT", accept_version="1.2", heart_beat="0,10")
        assert await client.hear()
        message = await asyncio.wait_for(client.socket.receive(), 30)
        assert message.data == "\n"
    async with served() as esi, spoken(esi, connect=False) as client:
        await client.say("CONNECT", accept_version="1.2", heart_beat="10,0")
        assert await client.hear()
        assert "no heart-beat" in await client.refused()


async def test_one_that_does_not_keep_up_is_told_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeding, "PENDING", 0)
    async with served() as esi, spoken(esi) as client:
        await client.subscribe("1", "/topic/jobs")
        await noted(esi, "j1", "1")
        assert "did not keep up" in await client.refused()


async def test_pages_of_other_sites_are_not_let_in():
    async with served() as esi:
        with pytest.raises(aiohttp.WSServerHandshakeError) as found:
            async with spoken(esi, headers={"Origin": "http://evil.example"}):
                pass
    assert found.value.status == 403
