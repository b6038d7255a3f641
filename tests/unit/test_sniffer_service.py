"""`api.SnifferService`: clients taken as they are, wire bytes written by hand; a full sink is not felt."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from fairlead.api.listen import listen
from fairlead.api.rpc.door import Door
from fairlead.model.record import Change, Part, Source
from fairlead.recorder.datum import datum, line
from fairlead.recorder.sniffer_service import SERVICE, SnifferService

SEEN = 1_713_901_999_000
STAMP = "2024-04-23 19:51:07.300887638 +0000 UTC m=+82.830000001"


def field(number: int, text: str) -> bytes:
    """One string field of a protocol buffers message; short ones only."""
    data = text.encode()
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def request(endpoint: str, pod: str, node: str, event: str, timestamp: str = "", payload: str = "") -> bytes:
    """A SendRequest as scheduler-sniffer numbers its fields; proto3 leaves empty ones out."""
    texts = (endpoint, pod, node, event, payload, timestamp)
    return b"".join(field(number, text) for number, text in enumerate(texts, 1) if text)


class Sink:
    """Takes parts while there is room."""

    def __init__(self) -> None:
        self.room = True
        self.parts: list[Part] = []

    def __call__(self, part: Part) -> bool:
        if self.room:
            self.parts.append(part)
        return self.room

    @property
    def changes(self) -> list[Change]:
        return [change for part in self.parts for change in part.changes]


@asynccontextmanager
async def sending(sink: Sink, most_bytes: int = 1 << 20) -> AsyncIterator[grpc.aio.UnaryUnaryMultiCallable]:
    """Bytes to the method, over a real connection, and the bytes that come back."""
    service = SnifferService(sink, lambda: SEEN)
    door = Door({SERVICE: service.methods()}, listen("127.0.0.1:0", False, "--x"), most_bytes=most_bytes)
    await door.start()
    try:
        options = [("grpc.enable_http_proxy", 0)]
        async with grpc.aio.insecure_channel(door.address, options=options) as channel:
            yield channel.unary_unary("/api.SnifferService/Send")
    finally:
        await door.stop()


async def test_RB1_the_sniffers_clients_are_served_unchanged():
    sink = Sink()
    async with sending(sink) as send:
        answer = await send(
            request("schedulePod", "job-0-x7k2p", "node-1", "ScheduleSuccess", STAMP), timeout=60
        )
        assert answer == b""
        await send(request("preStop", "job-0-x7k2p", "", "preStop"), timeout=60)
    assert sink.changes == [
        Change(
            "Pod",
            "ScheduleSuccess",
            at=1_713_901_867_300,
            seen=SEEN,
            source=Source.SNIFFER,
            name="job-0-x7k2p",
            node="node-1",
            extra={"endpoint": "schedulePod", "timestamp": STAMP, "nanoseconds": 887_638},
        ),
        Change(
            "Pod",
            "preStop",
            at=SEEN,
            seen=SEEN,
            source=Source.SNIFFER,
            name="job-0-x7k2p",
            extra={"endpoint": "preStop"},
        ),
    ]


@pytest.mark.parametrize(
    ("timestamp", "at"),
    [
        (STAMP, 1_713_901_867_300),
        ("2024-04-23 19:51:07 +0000 UTC", 1_713_901_867_000),
        ("2024-04-23T19:51:07Z", 1_713_901_867_000),
        ("0001-01-01 00:00:00 +0000 UTC", SEEN),
        ("", SEEN),
        ("soon", SEEN),
    ],
)
async def test_times_are_taken_as_they_come(timestamp: str, at: int):
    sink = Sink()
    async with sending(sink) as send:
        await send(request("bindingCycle", "p", "n", "BindingSuccess", timestamp, "more"), timeout=60)
    (change,) = sink.changes
    assert change.at == at
    assert change.extra is not None
    assert change.extra.get("timestamp", "") == timestamp
    assert change.extra["payload"] == "more"


async def test_the_line_is_the_one_that_the_sniffer_would_have_written():
    sink = Sink()
    async with sending(sink) as send:
        await send(request("bindingCycle", "job-0-x7k2p", "node-1", "BindingSuccess", STAMP), timeout=60)
    expected = (
        b'{"object":"Pod","name":"job-0-x7k2p","endpoint":"bindingCycle","node":"node-1",'
        b'"event":"BindingSuccess","timestamp":"2024-04-23 19:51:07.300887638 +0000 UTC m=+82.830000001"}\n'
    )
    assert [line(datum(change)) for change in sink.changes] == [expected]


async def test_a_full_sink_is_never_felt_and_told_as_a_gap():
    sink = Sink()
    async with sending(sink) as send:
        await send(request("schedulePod", "a", "", "ScheduleSuccess"), timeout=60)
        sink.room = False
        for name in ("b", "c"):
            assert await send(request("schedulePod", name, "", "ScheduleSuccess"), timeout=60) == b""
        sink.room = True
        await send(request("schedulePod", "d", "", "ScheduleSuccess"), timeout=60)
    assert [(change.object, change.name) for change in sink.changes] == [
        ("Pod", "a"),
        ("Recorder", ""),
        ("Pod", "d"),
    ]
    assert sink.changes[1].extra == {"kind": "sniffer", "from": SEEN, "to": SEEN, "lost": 2}


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\xff", b"\x0a\x02\xff\xfe"])
async def test_what_is_no_message_is_refused_with_a_sentence(data: bytes):
    sink = Sink()
    async with sending(sink) as send:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await send(data, timeout=60)
        assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert told.value.details() == "the request is not a SendRequest message"
        assert await send(b"", timeout=60) == b""
    assert [change.name for change in sink.changes] == [""]


async def test_fields_of_later_versions_are_skipped():
    sink = Sink()
    async with sending(sink) as send:
        await send(request("schedulePod", "a", "n", "ScheduleSuccess") + b"\x3a\x03new", timeout=60)
    assert [change.name for change in sink.changes] == ["a"]


async def test_a_message_says_how_much_it_weighs_and_too_large_a_one_is_turned_away():
    sink = Sink()
    async with sending(sink, most_bytes=1000) as send:
        small = request("preStop", "p", "", "preStop")
        await send(small, timeout=60)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send(small * 100, timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert [part.weight for part in sink.parts] == [len(small)]
