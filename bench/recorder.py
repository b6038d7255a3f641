"""How much the recorder takes in: from a gRPC client through its doors and the ledger to counted rows.

Run: python -m bench.recorder [--events N] [--calls N] [--rounds N]. The recorder's doors with a `Ledger` on
an embedded PostgreSQL run in a process of their own, the client in this one. Each run has a reference
beside it, right before: COPY of the same rows without anything before it, the same messages to a service
that does nothing. A run ends when all rows are durable, and the rows are counted.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, cast

import grpc.aio
import psycopg

from bench.report import report
from fairlead.api.listen import listen
from fairlead.api.rpc.door import Door
from fairlead.model.record import Change, Part
from fairlead.recorder import sniffer_service, stream
from fairlead.recorder.pb import recorder_pb2, sniffer_pb2
from fairlead.runtime import eventloop
from fairlead.store.embedded import EmbeddedServer
from fairlead.store.ledger import Ledger
from fairlead.store.ledger_rows import copy_text
from fairlead.store.sql import SQL

EVENTS_BOUND, CALLS_BOUND = 50_000, 1_500
ENCODED_BOUND = 5
BATCH = 500
AT_ONCE = 64
_RECORD = f"/{stream.SERVICE}/Record"
_SEND = f"/{sniffer_service.SERVICE}/Send"
_LOOPBACK = "127.0.0.1:0"


class Took(NamedTuple):
    """Seconds from the first message to the last row, and those that the serving process computed."""

    wall: float
    cpu: float


# -- the process that serves ---------------------------------------------------------------------------


def serve(pipe: Connection, url: str) -> None:
    """Doors before a ledger, or, without a `url`, before nothing."""
    eventloop.run(_recording(pipe, url) if url else _answering(pipe))


async def _recording(pipe: Connection, url: str) -> None:
    ledger = Ledger(url=url)
    life = asyncio.create_task(ledger.run())
    await ledger.load()
    plugin = stream.RecorderService(ledger.put, _now)
    sniffer = sniffer_service.SnifferService(ledger.put, _now)
    door = Door(
        {sniffer_service.SERVICE: sniffer.methods()},
        listen(_LOOPBACK, False, ""),
        {stream.SERVICE: plugin.streams()},
    )
    await _answer(pipe, door, ledger.drained)
    await ledger.close()
    await life


async def _answering(pipe: Connection) -> None:
    async def nothing(_: bytes, __: Any) -> bytes:
        return b""

    async def nothings(batches: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
        async for _batch in batches:
            yield b""

    at = listen(_LOOPBACK, False, "")
    door = Door({sniffer_service.SERVICE: {"Send": nothing}}, at, {stream.SERVICE: {"Record": nothings}})
    await _answer(pipe, door, _at_once)


async def _at_once() -> None:
    pass


async def _answer(pipe: Connection, door: Door, drained: Callable[[], Awaitable[None]]) -> None:
    """Tell the address; then, as often as asked, the process time when all is durable."""
    await door.start()
    pipe.send(door.address)
    while await asyncio.to_thread(pipe.recv):
        await drained()
        pipe.send(time.process_time())
    await door.stop()


def _now() -> int:
    return time.time_ns() // 1_000_000


class Serving:
    """A serving process, as this one sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.address: str = pipe.recv()

    def cpu(self) -> float:
        """The process time, when everything is durable."""
        self._pipe.send(True)
        return self._pipe.recv()

    def end(self) -> None:
        self._pipe.send(False)


@contextmanager
def serving(url: str) -> Any:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, url))
    process.start()
    try:
        there = Serving(ours)
        yield there
        there.end()
        process.join(30)
    finally:
        process.kill()


# -- what is sent ------------------------------------------------------------------------------------------


def batches(events: int, client: str) -> list[bytes]:
    """Decisions about pods as the plugin sends them, in messages of some hundred."""
    begun = time.time_ns()
    made: list[bytes] = []
    for first in range(0, events, BATCH):
        facts = [_fact(number, begun) for number in range(first, min(first + BATCH, events))]
        batch = recorder_pb2.Batch(client=client, first=first + 1, facts=facts)
        made.append(batch.SerializeToString())
    return made


def _fact(number: int, begun: int) -> recorder_pb2.Fact:
    """Six things are told of a pod: queued, dequeued, filtered, reserved, permitted, bound."""
    pod, stage = divmod(number, 6)
    fact = recorder_pb2.Fact(
        at=begun + number * 1000,
        kind=(1, 2, 4, 6, 10, 9)[stage],  # pyright: ignore[reportArgumentType]
        namespace=f"team-{pod % 20}",
        name=f"train-{pod // 8}-{pod % 8}-x7k2p",
        uid=f"3f2c8f6e-1a2b-4c3d-9e8f-{pod:012d}",
        scheduler="sniffer",
        attempt=1,
        took=number % 1000 * 1000,
    )
    if stage >= 2:
        fact.node = f"node-{pod % 1000}"
    if stage == 2:
        fact.candidates, fact.feasible = 1000, 990
        fact.counts.add(plugin="NodeResourcesFit", reason="Insufficient cpu", nodes=10)
    return fact


def calls(count: int) -> list[bytes]:
    """Events of pods as the sniffer's scheduler sends them."""
    return [
        sniffer_pb2.SendRequest(
            endpoint="bindingCycle",
            pod=f"job-{number}-x7k2p",
            node=f"node-{number % 8}",
            event="BindingSuccess",
            timestamp="2024-04-23 19:51:07.300887638 +0000 UTC m=+82.83",
        ).SerializeToString()
        for number in range(count)
    ]


# -- the client ---------------------------------------------------------------------------------------------


async def stream_all(there: Serving, messages: Sequence[bytes]) -> Took:
    """All messages over one stream; each is acknowledged before too many more are sent."""
    room = asyncio.Semaphore(AT_ONCE)

    async def sent() -> AsyncIterator[bytes]:
        for message in messages:
            await room.acquire()
            yield message

    async with grpc.aio.insecure_channel(there.address) as channel:
        await channel.channel_ready()
        before, begun = there.cpu(), time.perf_counter()
        record = cast(Callable[..., Any], channel.stream_stream(_RECORD))
        async for _ in record(sent()):
            room.release()
        after = await asyncio.to_thread(there.cpu)
        return Took(time.perf_counter() - begun, after - before)


async def call_all(there: Serving, messages: Sequence[bytes]) -> Took:
    """Each message by a call of its own, some at once."""
    left = iter(messages)
    async with grpc.aio.insecure_channel(there.address) as channel:
        await channel.channel_ready()
        send = cast(Callable[..., Any], channel.unary_unary(_SEND))

        async def some() -> None:
            for message in left:
                await send(message)

        before, begun = there.cpu(), time.perf_counter()
        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        after = await asyncio.to_thread(there.cpu)
        return Took(time.perf_counter() - begun, after - before)


# -- beside it -------------------------------------------------------------------------------------------


def copy_rows(url: str, rows: bytes) -> float:
    """Seconds for COPY of finished text into a table and indexes like the ledger's, which is then dropped."""
    with psycopg.connect(url, autocommit=True, options="-csearch_path=bench,fairlead") as conn:
        conn.execute("CREATE SCHEMA bench")
        conn.execute("CREATE TABLE bench.change (LIKE fairlead.change INCLUDING ALL)")
        begun = time.perf_counter()
        with conn.transaction(), conn.cursor().copy(SQL["copy_changes"]) as copy:
            copy.write(rows)
        took = time.perf_counter() - begun
        conn.execute("DROP SCHEMA bench CASCADE")
        return took


def as_rows(messages: Sequence[bytes]) -> bytes:
    """What the ledger is going to make of the batches."""
    facts = [fact for message in messages for fact in recorder_pb2.Batch.FromString(message).facts]
    return copy_text([stream.change(fact, _now()) for fact in facts])


def encoded(messages: Sequence[bytes]) -> float:
    """Microseconds in which one Change becomes a row's text."""
    facts = [fact for message in messages for fact in recorder_pb2.Batch.FromString(message).facts]
    changes: list[Change] = [stream.change(fact, _now()) for fact in facts]
    begun = time.process_time()
    for first in range(0, len(changes), BATCH):
        copy_text(changes[first : first + BATCH])
    return (time.process_time() - begun) / len(changes) * 1e6


def count(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute("SELECT count(*) FROM fairlead.change").fetchone()
        return int(row[0]) if row else 0


async def alone(url: str, messages: Sequence[bytes]) -> Took:
    """The ledger without doors: changes that are there already become rows."""
    parts: list[Part] = []
    for message in messages:
        facts = recorder_pb2.Batch.FromString(message).facts
        parts.append(Part(tuple(stream.change(fact, _now()) for fact in facts)))
    ledger = Ledger(url=url, role="decisions")
    life = asyncio.create_task(ledger.run())
    before, begun = time.process_time(), time.perf_counter()
    for part in parts:
        while not ledger.put(part):
            await asyncio.sleep(0.001)
    await ledger.drained()
    took = Took(time.perf_counter() - begun, time.process_time() - before)
    await ledger.close()
    await life
    return took


# -- the whole ---------------------------------------------------------------------------------------------


class Rounds:
    """One figure of several rounds each, and what the bound and the reference make of it."""

    def __init__(self, name: str, bound: float) -> None:
        self.name, self.bound = name, bound
        self.rates: list[float] = []
        self.references: list[float] = []
        self.cores: list[float] = []

    def add(self, count: int, took: Took, reference: float) -> None:
        self.rates.append(count / took.wall)
        self.cores.append(count / took.cpu)
        self.references.append(count / reference)

    def row(self, against: str, per_core: bool) -> dict[str, str]:
        rate, core = statistics.median(self.rates), statistics.median(self.cores)
        held = (core if per_core else rate) >= self.bound
        ratio = statistics.median(a / b for a, b in zip(self.rates, self.references, strict=True))
        what = "per core" if per_core else "per s"
        verdict = f"≥ {self.bound:,.0f} {what}: {'held' if held else 'MISSED'}" if self.bound else ""
        return {
            "way": self.name,
            "per s": f"{rate:,.0f}",
            "rounds": " ".join(f"{each:,.0f}" for each in self.rates),
            "per core s": f"{core:,.0f}",
            "bound": verdict,
            "reference": f"{statistics.median(self.references):,.0f} {against}",
            "ratio": f"{ratio:.2f}",
        }


async def measure(url: str, events: int, singles: int, rounds: int) -> list[dict[str, str]]:
    ledger = Rounds("Ledger alone", 0)
    streamed = Rounds("gRPC stream → rows", EVENTS_BOUND)
    unary = Rounds("gRPC Send → rows", CALLS_BOUND)
    doors = Rounds("the same", 0)
    with serving(url) as recorder, serving("") as null:
        wanted = count(url)
        for number in range(rounds):
            messages = batches(events, f"client {number}")
            rows = as_rows(messages)
            plain = copy_rows(url, rows)
            ledger.add(events, await alone(url, messages), plain)
            streamed.add(events, took := await stream_all(recorder, messages), copy_rows(url, rows))
            doors.add(events, took, (await stream_all(null, messages)).wall)
            sends = calls(singles)
            reference = await call_all(null, sends)
            unary.add(singles, await call_all(recorder, sends), reference.wall)
            wanted += 2 * events + singles
            assert count(url) == wanted, f"{count(url)} rows, {wanted} were sent"
    return [
        ledger.row("COPY", False),
        streamed.row("COPY", False),
        doors.row("no-op stream", False),
        unary.row("no-op Send", True),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fl-") as folder:
        Path(folder).chmod(0o711)
        server = EmbeddedServer(Path(folder) / "data")
        server.ensure()
        try:
            rows = eventloop.run(measure(server.url, options.events, options.calls, options.rounds))
        finally:
            server.stop()
    each = encoded(batches(50_000, "encoded"))
    held = "held" if each <= ENCODED_BOUND else "MISSED"
    notes = f"One Change becomes the text of its row in {each:.1f} µs (≤ {ENCODED_BOUND}: {held})."
    given = f"--events {options.events} --calls {options.calls} --rounds {options.rounds}"
    command = f"python -m bench.recorder {given}"
    report("recorder", command, rows, notes)


if __name__ == "__main__":
    main()
