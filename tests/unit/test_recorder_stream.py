"""`fairlead.recorder.v1.Recorder`: batches over a real connection, told once, never waiting for the sink."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_support import DIRECT

from fairlead.api.listen import Listen
from fairlead.api.rpc.door import Door
from fairlead.model.record import Change, Part, Source
from fairlead.recorder.pb import recorder_pb2 as wire
from fairlead.recorder.stream import SERVICE, RecorderService

GO = Path(__file__).resolve().parents[2] / "plugins/kube-scheduler/recorderpb/recorder.pb.go"
NOW = 1_800_000_000_000
AT = 1_700_000_000_123_456_789


class Sink:
    """Keeps parts; has room for as many changes as it is told."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.room = True

    def __call__(self, part: Part) -> bool:
        if self.room:
            self.parts.append(part)
        return self.room

    def changes(self) -> list[Change]:
        return [each for part in self.parts for each in part.changes]


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def service(sink: Sink) -> RecorderService:
    return RecorderService(sink, lambda: NOW)


def batch(first: int, *names: str, client: str = "one", dropped: int = 0) -> wire.Batch:
    facts = [wire.Fact(at=AT, kind=wire.BIND, namespace="lab", name=name, uid=f"u-{name}") for name in names]
    return wire.Batch(client=client, first=first, facts=facts, dropped=dropped)


Call = grpc.aio.StreamStreamCall[wire.Batch, wire.Ack]


@asynccontextmanager
async def connected(service: RecorderService) -> AsyncIterator[Callable[[], Call]]:
    """A server on a free port; gives what opens a stream to it."""
    door = Door({}, Listen("127.0.0.1", 0), {SERVICE: service.streams()})
    await door.start()
    channel = grpc.aio.insecure_channel(door.address, options=DIRECT)
    method = channel.stream_stream(
        f"/{SERVICE}/Record",
        request_serializer=wire.Batch.SerializeToString,
        response_deserializer=wire.Ack.FromString,
    )
    try:
        yield lambda: method(timeout=60)
    finally:
        await channel.close()
        await door.stop()


async def test_RB8_each_batch_of_a_stream_is_acknowledged_and_becomes_rows(
    sink: Sink, service: RecorderService
) -> None:
    async with connected(service) as dial:
        call = dial()
        await call.write(batch(1, "a", "b"))
        assert (await call.read()).last == 2
        await call.write(batch(3, "c"))
        assert (await call.read()).last == 3
        await call.done_writing()
    assert [each.name for each in sink.changes()] == ["a", "b", "c"]
    first = sink.changes()[0]
    assert (first.object, first.event, first.source) == ("Pod", "Bind", Source.PLUGIN)
    assert (first.at, first.seen, first.uid, first.namespace) == (AT // 10**6, NOW, "u-a", "lab")


async def test_what_comes_again_after_a_reconnect_is_told_once(sink: Sink, service: RecorderService) -> None:
    async with connected(service) as dial:
        call = dial()
        await call.write(batch(1, "a", "b", "c"))
        assert (await call.read()).last == 3
        call.cancel()
        again = dial()
        await again.write(batch(2, "b", "c", "d"))
        assert (await again.read()).last == 4
        await again.write(batch(1, "a"))
        assert (await again.read()).last == 4
        await again.done_writing()
    assert [each.name for each in sink.changes()] == ["a", "b", "c", "d"]
    assert service.repeated == 3


def test_clients_are_numbered_each_on_its_own(sink: Sink, service: RecorderService) -> None:
    assert service.take(batch(1, "a", client="one")) == 1
    assert service.take(batch(1, "b", client="two")) == 1
    assert [each.name for each in sink.changes()] == ["a", "b"]


def test_a_client_that_a_former_recorder_knew_goes_on_where_it_is(
    sink: Sink, service: RecorderService
) -> None:
    assert service.take(batch(501, "a")) == 501
    assert [each.name for each in sink.changes()] == ["a"]


def test_only_so_many_clients_are_remembered(service: RecorderService, sink: Sink) -> None:
    for number in range(1500):
        service.take(batch(1, "a", client=f"c{number}"))
    service.take(batch(1, "again", client="c1499"))
    service.take(batch(1, "anew", client="c0"))
    assert [each.name for each in sink.changes()][1500:] == ["anew"]


def test_a_full_sink_holds_nobody_up_and_the_gap_is_told_once(sink: Sink, service: RecorderService) -> None:
    sink.room = False
    assert service.take(batch(1, "a", "b")) == 2
    assert service.take(batch(3, "c")) == 3
    assert service.outlet.refused == 3
    sink.room = True
    service.take(batch(4, "d"))
    service.take(batch(5, "e"))
    gap, *rest = sink.changes()
    assert (gap.object, gap.event, gap.source) == ("Recorder", "Gap", Source.RECORDER)
    assert gap.extra == {"kind": "plugin", "from": NOW, "to": NOW, "lost": 3}
    assert [each.name for each in rest] == ["d", "e"]


def test_what_the_client_threw_away_is_a_gap(sink: Sink, service: RecorderService) -> None:
    service.take(batch(1, "a"))
    service.take(batch(2, "b", dropped=7))
    service.take(batch(3, "c", dropped=7))
    assert [each.event for each in sink.changes()] == ["Bind", "Gap", "Bind", "Bind"]
    assert sink.changes()[1].extra == {"kind": "plugin", "from": AT // 10**6, "to": NOW, "lost": 7}
    assert service.dropped == 7


def test_RB9_why_nodes_were_refused_is_kept_by_plugin_and_reason(
    sink: Sink, service: RecorderService
) -> None:
    count = wire.Count(plugin="NodeResourcesFit", reason="Insufficient cpu", nodes=3, examples=["n1", "n2"])
    fact = wire.Fact(kind=wire.UNSCHEDULABLE, name="big", code="Unschedulable", attempt=2, candidates=3)
    fact.reasons.append("0/3 nodes are available: 3 Insufficient cpu.")
    fact.counts.append(count)
    service.take(wire.Batch(client="one", first=1, facts=[fact]))
    row = sink.changes()[0]
    assert (row.event, row.reason) == ("Unschedulable", "Unschedulable")
    assert row.message == "0/3 nodes are available: 3 Insufficient cpu."
    refused = {
        "plugin": "NodeResourcesFit",
        "reason": "Insufficient cpu",
        "nodes": 3,
        "examples": ["n1", "n2"],
    }
    assert row.extra == {"attempt": 2, "candidates": 3, "feasible": 0, "refused": [refused]}
    assert row.at == NOW, "nobody said when"


def test_scores_are_kept_by_plugin(sink: Sink, service: RecorderService) -> None:
    best = wire.NodeScore(node="n1", total=30, plugins=[wire.PluginScore(plugin="ImageLocality", score=30)])
    service.take(wire.Batch(client="one", first=1, facts=[wire.Fact(kind=wire.SCORE, scores=[best])]))
    row = sink.changes()[0]
    assert row.extra == {"scores": [{"node": "n1", "total": 30, "plugins": {"ImageLocality": 30}}]}


def test_every_kind_has_its_word(sink: Sink, service: RecorderService) -> None:
    kinds = [each for each in wire.Kind.values() if each]
    facts = [wire.Fact(kind=each) for each in [*kinds, 99]]
    service.take(wire.Batch(client="one", first=1, facts=facts))
    words = [each.event for each in sink.changes()]
    assert words[-1] == "Kind99", "a newer client's kind is kept by its number"
    assert [word.upper() for word in words[:-1]] == [wire.Kind.Name(each) for each in kinds]


async def test_a_batch_that_is_none_is_refused_with_a_sentence(service: RecorderService) -> None:
    async with connected(service) as dial:
        call = dial()
        await call.write(wire.Batch(facts=[wire.Fact()]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == "a Batch needs its client, and first, which counts from 1"


def test_the_go_side_has_every_field_with_its_number() -> None:
    """`make proto` writes both; one without the other would lose what is told."""
    code = GO.read_text(encoding="utf-8")
    messages = wire.DESCRIPTOR.message_types_by_name.values()
    fields = [field for message in messages for field in message.fields]
    assert len(fields) > 25
    for field in fields:
        assert re.search(rf'protobuf:"\w+,{field.number},\w+,(packed,)?name={field.name},', code), (
            field.full_name
        )
    for name, number in wire.Kind.items():
        assert re.search(rf"\bKind_{name} +Kind = {number}\n", code), name
