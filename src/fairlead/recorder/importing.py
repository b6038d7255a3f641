"""A log of the sniffer's, read line by line: what is in it, and the parts that go into the ledger.

Called by `cli.recorder_import`. Pure, but that lines come in as they are read. Lines that repeat are counted
and left out, lines that cannot be used are counted and named; none ends the reading. A log is known again by
how it begins: once more adds nothing, and one that has grown adds what is new.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from fairlead.model.record import Change, NodeLife, Part, PodLife, Source
from fairlead.recorder import datum as data
from fairlead.recorder import gotime
from fairlead.recorder.datum import Datum
from fairlead.recorder.imported import TAPPED, Lives, Pod, job_of

PREFIX = "import:"
"""Of marks and uids in the ledger; a log's key comes after it."""
MOST_BYTES = 1 << 20
"""Of a line."""
_HEAD = 10_000
"""A log's key is in so many lines, whatever is in them."""
_CHUNK = 1000
_MILLISECOND = 1_000_000
_SECOND = 1_000_000_000
_EXAMPLES = 5
_OBJECTS = ("Pod", "Node")
_decode = msgspec.json.Decoder(Datum).decode


class Problem(NamedTuple):
    """A line that could not be used, or not wholly, and why."""

    line: int
    why: str


class Count(Struct):
    """Lines of one kind: all of them, and those that are not repetitions."""

    object: str
    endpoint: str
    event: str
    lines: int = 0
    unique: int = 0


class Latency(Struct, frozen=True):
    """How long pods took from one event to the next, in milliseconds."""

    count: int
    least: int
    median: int
    most: int


class Summary(Struct, frozen=True):
    """What is in a log. `lines` are those that are not blank; times in milliseconds since the epoch.

    `pods_complete` have a BindingSuccess and a preStop that tell when; `jobs` are those of pods that a
    scheduler or a hook told of; `pods_moved` were seen on two nodes, so they are two of one name.
    `problems` are the first few.
    """

    lines: int
    unique: int
    duplicates: int
    bad: int
    unreadable_times: int
    events: list[Count]
    pods: int
    pods_complete: int
    pods_open: int
    pods_moved: int
    jobs: int
    nodes: int
    first: int
    last: int
    latencies: dict[str, Latency]
    problems: list[Problem]


class _Held(NamedTuple):
    """A line that is read; its time in nanoseconds, 0 = not told."""

    number: int
    datum: Datum
    at: int


class _Unusable(Exception):
    """A line that is JSON and yet none of the sniffer's."""


class Reading:
    """What is known of a log so far. `seen` is when it is imported, in milliseconds since the epoch."""

    def __init__(self, seen: int) -> None:
        self.key = ""
        """What it is called in the ledger, as soon as enough of it was read."""
        self.rows: list[tuple[int, Change]] = []
        """Changes with their line, to be taken away by whoever writes them."""
        self.whole = 0
        """The last line that need not be read again when the log has grown."""
        self.lives = Lives()
        self._seen = seen
        self._lines = self._number = self._bad = self._unreadable = 0
        self._known: set[bytes] = set()
        self._counts: dict[tuple[str, str, str], Count] = {}
        self._problems: list[Problem] = []
        self._held: list[_Held] = []
        self._hash = hashlib.sha256()
        self._first = self._now = 0

    def take(self, line: bytes) -> None:
        """The next line, with its end if it has one."""
        self._number += 1
        bad = self._bad
        if text := line.strip():
            self._lines += 1
            self._take(text)
        if line.endswith(b"\n") or self._bad == bad:
            self.whole = self._number

    def settle(self) -> None:
        """Enough was read to tell this log from others."""
        if not self.key:
            self.key = PREFIX + self._hash.hexdigest()[:16]
            self._now = next((held.at // _MILLISECOND for held in self._held if held.at), 0)
            self._release()

    def _take(self, text: bytes) -> None:
        try:
            datum = _read(text)
        except (msgspec.MsgspecError, RecursionError, _Unusable) as error:
            self._bad += 1
            self._problem(_sentence(text, error))
        else:
            self._take_datum(text, datum)
        if not self.key:
            self._hash.update(text + b"\n")
            if self._number >= _HEAD or (self._held and self._held[-1].at % _SECOND):
                self.settle()
        elif self._held:
            self._release()

    def _take_datum(self, text: bytes, datum: Datum) -> None:
        kind = (datum.object, datum.endpoint, datum.event)
        count = self._counts.get(kind)
        if count is None:
            count = self._counts[kind] = Count(*kind)
        count.lines += 1
        digest = hashlib.blake2b(text, digest_size=16).digest()
        if digest in self._known:
            return
        self._known.add(digest)
        count.unique += 1
        at = gotime.nanoseconds(datum.timestamp)
        if at is None and gotime.unreadable(datum.timestamp):
            self._unreadable += 1
            self._problem(f"the time {datum.timestamp!r:.60} cannot be read: it counts as not told")
        self._held.append(_Held(self._number, datum, at or 0))

    def _release(self) -> None:
        """Lines to rows. One without a time is as old as the latest time before it: it was not earlier."""
        for number, datum, nanoseconds in self._held:
            at = nanoseconds // _MILLISECOND
            if at:
                self._now = max(self._now, at)
                self._first = min(self._first or at, at)
            now = self._now or self._seen
            name = self.lives.learn(datum, at, now, number)
            change = data.change(datum, now, self._seen, Source.IMPORT)
            self.rows.append((number, replace(change, uid=f"{self.key}:{name}" if name else "")))
        self._held.clear()

    def _problem(self, why: str) -> None:
        if len(self._problems) < _EXAMPLES:
            self._problems.append(Problem(self._number, why))

    def states(self) -> Iterator[PodLife | NodeLife]:
        """The rows of pods and nodes, as they are at the end of what was read."""
        return self.lives.rows(self.key, self._now or self._seen, self._seen)

    def summary(self) -> Summary:
        counts = sorted(self._counts.values(), key=lambda c: (c.object, c.endpoint, c.event))
        pods, unique = self.lives.pods, sum(count.unique for count in counts)
        return Summary(
            lines=self._lines,
            unique=unique,
            duplicates=self._lines - self._bad - unique,
            bad=self._bad,
            unreadable_times=self._unreadable,
            events=counts,
            pods=len(pods),
            pods_complete=sum(pod.complete for pod in pods),
            pods_open=sum(not pod.over for pod in pods),
            pods_moved=sum(pod.moved for pod in pods),
            jobs=len({job_of(pod.name) for pod in pods if pod.tapped}),
            nodes=len({node.name for node in self.lives.nodes}),
            first=self._first,
            last=self._now,
            latencies=_latencies(pods),
            problems=self._problems,
        )


def parts(lines: Iterable[bytes], reading: Reading, marks: Mapping[str, int]) -> Iterator[Part]:
    """What is to be written, in this order; `marks` says up to which line a log is in already.

    The last part has the mark of the whole, and comes after the pods and nodes: whoever is stopped before it
    begins again, and writes nothing twice.
    """
    for line in lines:
        reading.take(line)
        if len(reading.rows) > _CHUNK:
            rows, reading.rows = reading.rows[:-1], reading.rows[-1:]
            if fresh := _fresh(rows, marks.get(reading.key, 0)):
                yield Part(fresh, marks={reading.key: rows[-1][0]})
    reading.settle()
    done = marks.get(reading.key, 0)
    if reading.whole <= done or not reading.lives:
        return
    yield from _lives(reading)
    yield Part(_fresh(reading.rows, done), marks={reading.key: reading.whole})


def _fresh(rows: list[tuple[int, Change]], done: int) -> tuple[Change, ...]:
    return tuple([change for number, change in rows if number > done])


def _lives(reading: Reading) -> Iterator[Part]:
    rows = list(reading.states())
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        pods = tuple([row for row in chunk if isinstance(row, PodLife)])
        yield Part(pods=pods, nodes=tuple([row for row in chunk if isinstance(row, NodeLife)]))


def _read(text: bytes) -> Datum:
    if len(text) > MOST_BYTES:
        raise _Unusable(f"longer than {MOST_BYTES >> 20} MiB")
    datum = _decode(text)
    if datum.object not in _OBJECTS:
        raise _Unusable(f"object {datum.object!r:.40} is neither Pod nor Node")
    return datum


def _sentence(text: bytes, error: Exception) -> str:
    """Why, and how it begins: one that is not JSON may be anything."""
    why = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
    if isinstance(error, msgspec.ValidationError):
        why = f"none of the sniffer's: {why}"
    elif isinstance(error, msgspec.MsgspecError):
        why = f"not JSON: {why}"
    begin = text[:40].decode("utf-8", "replace")
    return f"{why}: {begin}{'…' if len(text) > 40 else ''}"


def _latencies(pods: list[Pod]) -> dict[str, Latency]:
    """From one event to the next, of pods in which both told their time."""
    steps = pairwise(TAPPED.items())
    return {
        f"{before} to {after}": latency
        for (before, begin), (after, end) in steps
        if (latency := _latency(pods, (before, begin), (after, end))) is not None
    }


def _latency(pods: list[Pod], before: tuple[str, str], after: tuple[str, str]) -> Latency | None:
    events = {before[0], after[0]}
    spans = [getattr(pod, after[1]) - getattr(pod, before[1]) for pod in pods if pod.exact >= events]
    if not spans:
        return None
    return Latency(len(spans), min(spans), median_low(spans), max(spans))
