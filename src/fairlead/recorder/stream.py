"""`fairlead.recorder.v1.Recorder`: what a scheduler decides, taken from one stream of batches per scheduler.

Composed by `app_recorder`, which gives it the sink; `plugins/kube-scheduler` is its client. It answers at
once whether or not the sink has room, so that it can never hold up a scheduler. Must not know `api`: its
methods are bytes in, bytes out.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from fairlead.model.record import Change, Source
from fairlead.recorder.outlet import Outlet, Sink
from fairlead.recorder.pb import recorder_pb2 as wire

SERVICE = "fairlead.recorder.v1.Recorder"
Stream = Callable[[AsyncIterator[bytes], Any], AsyncIterator[bytes]]

_WORDS = {
    wire.QUEUED: "Queued",
    wire.DEQUEUED: "Dequeued",
    wire.PREFILTER: "PreFilter",
    wire.FILTER: "Filter",
    wire.SCORE: "Score",
    wire.RESERVE: "Reserve",
    wire.UNRESERVE: "Unreserve",
    wire.PERMIT: "Permit",
    wire.PERMITTED: "Permitted",
    wire.BIND: "Bind",
    wire.POSTBIND: "PostBind",
    wire.UNSCHEDULABLE: "Unschedulable",
    wire.PREEMPT: "Preempt",
}
_CLIENTS = 1000
"""So many are remembered; a scheduler that starts anew is another one."""
_NS = 1_000_000


class _Client:
    """How far one client is in."""

    __slots__ = ("dropped", "last")

    def __init__(self, first: int) -> None:
        self.last = first - 1
        self.dropped = 0


class RecorderService:
    """The service; one for all clients of a recorder."""

    def __init__(self, sink: Sink, now: Callable[[], int]) -> None:
        """`now` gives milliseconds since the epoch."""
        self.outlet = Outlet(sink, "plugin", now)
        self.repeated = 0
        """Facts that came again after a reconnect and were known."""
        self.dropped = 0
        """Facts that clients threw away before they could be sent."""
        self._clients: dict[str, _Client] = {}

    def streams(self) -> dict[str, Stream]:
        """Methods by name."""
        return {"Record": self.record}

    async def record(self, batches: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """Take batches until the client ends; an answer to each."""
        async for data in batches:
            try:
                last = self.take(_read(data), len(data))
            except ValueError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
                return
            yield wire.Ack(last=last).SerializeToString()

    def take(self, batch: wire.Batch, weight: int = 0) -> int:
        """Take what is new of it (in all `weight` bytes); the number of the last fact that is in."""
        seen = self.outlet.now()
        client = self._known(batch)
        if (more := batch.dropped - client.dropped) > 0:
            client.dropped = batch.dropped
            self.dropped += more
            self.outlet.miss(
                more, batch.facts[0].at // _NS if batch.facts else seen, "thrown away by the client"
            )
        known = client.last + 1 - batch.first
        facts = batch.facts
        if known > 0:
            self.repeated += min(known, len(facts))
            facts = facts[known:]
        client.last = max(client.last, batch.first + len(batch.facts) - 1)
        self.outlet.put([change(fact, seen) for fact in facts], weight)
        return client.last

    def _known(self, batch: wire.Batch) -> _Client:
        """The client, moved to the end of those that are remembered."""
        client = self._clients.pop(batch.client, None) or _Client(batch.first)
        self._clients[batch.client] = client
        if len(self._clients) > _CLIENTS:
            del self._clients[next(iter(self._clients))]
        return client


def _read(data: bytes) -> wire.Batch:
    """Raises ValueError with a sentence for the client."""
    try:
        batch = wire.Batch.FromString(data)
    except DecodeError:
        raise ValueError("the request is not a Batch message") from None
    if not batch.client or not batch.first:
        raise ValueError("a Batch needs its client, and first, which counts from 1")
    return batch


def change(fact: wire.Fact, seen: int) -> Change:
    """A fact as a row. Its code is the reason, and the reasons are the message."""
    kind = fact.kind
    reasons = fact.reasons
    at = fact.at
    return Change(
        "Pod",
        _WORDS.get(kind) or f"Kind{kind}",
        at=at // _NS if at else seen,
        seen=seen,
        source=Source.PLUGIN,
        uid=fact.uid,
        namespace=fact.namespace,
        name=fact.name,
        node=fact.node,
        scheduler=fact.scheduler,
        reason=fact.code,
        message="; ".join(reasons) if reasons else "",
        extra=_extra(fact),
    )


def _extra(fact: wire.Fact) -> dict[str, Any] | None:
    """What has no column; nothing that is not said."""
    found: dict[str, Any] = {}
    if plugin := fact.plugin:
        found["plugin"] = plugin
    if attempt := fact.attempt:
        found["attempt"] = attempt
    if took := fact.took:
        found["tookNs"] = took
    if candidates := fact.candidates:
        found["candidates"] = candidates
        found["feasible"] = fact.feasible
    if counts := fact.counts:
        found["refused"] = [
            {
                "plugin": each.plugin,
                "reason": each.reason,
                "nodes": each.nodes,
                "examples": list(each.examples),
            }
            for each in counts
        ]
    if scores := fact.scores:
        found["scores"] = [
            {
                "node": each.node,
                "total": each.total,
                "plugins": {score.plugin: score.score for score in each.plugins},
            }
            for each in scores
        ]
    return found or None
