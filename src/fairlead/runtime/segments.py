"""Batches of events as chunks of bytes and back: how the ledger keeps what a replay needs.

`runtime.segmenting` writes, `runtime.replay` reads. A fact is an event without what many events share:
shapes, wishes, labels, owners and images are specs, kept once by content hash, and a fact names them by their
place in its chunk's table. Exact: what is read back equals what was written, with one object for all equal
shapes and wishes. Must not know where chunks are kept.
"""

import contextlib
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct, structs

from fairlead.model.event import Event, NodeSeen, OwnerSeen, PodSeen, Tick
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, Shape
from fairlead.model.preferences import NO_PREFERENCES, Preferences
from fairlead.runtime.shared import Shared

_HASH = 16
_KEPT = 1 << 16
"""How many specs, and candidates for one, a writer remembers at a time."""
_NO_SHAPE = Shape(())
_SHAPE, _WISHES, _LABELS, _ANNOTATIONS, _OWNER, _IMAGES = b"S", b"W", b"L", b"A", b"O", b"I"
_FIELDS: Mapping[bytes, tuple[str, Any]] = {
    _SHAPE: ("shape", msgspec.json.Decoder(Shape)),
    _WISHES: ("wishes", msgspec.json.Decoder(Preferences)),
    _LABELS: ("labels", msgspec.json.Decoder(dict[str, str])),
    _ANNOTATIONS: ("annotations", msgspec.json.Decoder(dict[str, str])),
    _OWNER: ("owner", msgspec.json.Decoder(OwnerRef)),
    _IMAGES: ("images", msgspec.json.Decoder(tuple[tuple[str, int], ...])),
}
"""First byte of a spec -> the field that it is of, and how it is read."""


class SegmentError(Exception):
    """A chunk cannot be read; the text says why."""


class Fact(Struct, frozen=True, gc=False, array_like=True):
    """An event without its specs, and where these are in the chunk's table."""

    event: Event
    specs: tuple[int, ...] = ()


class Chunk(Struct, frozen=True):
    """Batches one after the other, times in milliseconds since the epoch.

    `specs` are those that no chunk of this segment has brought before: hash -> content. `body` is as it was
    encoded; `packed` makes it small.
    """

    seq: int
    first_at: int
    last_at: int
    batches: int
    events: int
    epoch: int
    specs: dict[bytes, bytes]
    body: bytes

    def packed(self) -> bytes:
        """The body as it is kept. Can be made in a thread: the interpreter is free meanwhile."""
        return zlib.compress(self.body, 1)


class Encoder:
    """Makes the chunks of one segment. `size` is how many bytes wait for `cut`."""

    def __init__(self) -> None:
        self.size = 0
        self._seq = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._by_identity: dict[int, tuple[object, bytes]] = {}
        """Shapes and wishes, kept so that their ids stay taken -> the spec."""
        self._once: dict[object, str | bytes] = {}
        """What might be a spec -> the uid that had it first, and once another has it the spec."""
        self._brought: dict[bytes, None] = {}
        self._begin()

    def _begin(self) -> None:
        self._table: dict[bytes, int] = {}
        self._new: dict[bytes, bytes] = {}
        self._frames: list[bytes] = []
        self._batches = self._events = self._first = self._last = self._epoch = 0

    @property
    def first_at(self) -> int:
        """The time of the first batch that waits for `cut`; 0 if none does."""
        return self._first

    def add(self, batch: Sequence[Event], epoch: int = 0) -> None:
        """One batch, exactly as the engine learns it."""
        frame = self._encode([self._fact(event) for event in batch])
        self._frames.append(len(frame).to_bytes(4))
        self._frames.append(frame)
        self.size += len(frame) + 4
        self._batches += 1
        self._events += len(batch)
        self._epoch = epoch
        if batch and isinstance(batch[0], Tick):
            self._last = batch[0].now
            self._first = self._first or self._last

    def cut(self) -> Chunk | None:
        """All since the last time; None if there is nothing."""
        if not self._frames:
            return None
        table = self._encode(list(self._table))
        body = b"".join((len(table).to_bytes(4), table, *self._frames))
        span = (self._first, self._last, self._batches, self._events, self._epoch)
        chunk = Chunk(self._seq, *span, self._new, body)
        self._seq += 1
        self.size = 0
        self._begin()
        return chunk

    # -- inside --------------------------------------------------------------------------------------

    def _fact(self, event: Event) -> Fact:
        match event:
            case PodSeen():
                return self._pod(event.pod)
            case NodeSeen():
                return self._node(event.node)
            case OwnerSeen():
                return self._owner(event.owner)
            case _:
                return Fact(event)

    def _pod(self, pod: Pod) -> Fact:
        specs = [self._shared(_SHAPE, pod.shape)]
        rest: dict[str, Any] = {"shape": _NO_SHAPE}
        if pod.wishes is not NO_PREFERENCES:
            specs.append(self._shared(_WISHES, pod.wishes))
            rest["wishes"] = NO_PREFERENCES
        if pod.labels:
            self._leave_out(specs, rest, _LABELS, pod.labels, tuple(pod.labels.items()), pod.uid)
        if pod.annotations:
            key = tuple(pod.annotations.items())
            self._leave_out(specs, rest, _ANNOTATIONS, pod.annotations, key, pod.uid)
        if pod.owner is not None:
            self._leave_out(specs, rest, _OWNER, pod.owner, pod.owner, pod.uid)
        return Fact(PodSeen(structs.replace(pod, **rest)), tuple(specs))

    def _node(self, node: Node) -> Fact:
        specs: list[int] = []
        rest: dict[str, Any] = {}
        if node.labels:
            specs.append(self._place(self._spec(_LABELS, node.labels)))
            rest["labels"] = {}
        if node.images:
            specs.append(self._place(self._spec(_IMAGES, node.images)))
            rest["images"] = ()
        return Fact(NodeSeen(structs.replace(node, **rest)), tuple(specs))

    def _owner(self, owner: Owner) -> Fact:
        specs: list[int] = []
        rest: dict[str, Any] = {}
        if owner.annotations:
            key = tuple(owner.annotations.items())
            self._leave_out(specs, rest, _ANNOTATIONS, owner.annotations, key, owner.uid)
        return Fact(OwnerSeen(structs.replace(owner, **rest)) if rest else OwnerSeen(owner), tuple(specs))

    def _leave_out(
        self, specs: list[int], rest: dict[str, Any], kind: bytes, value: object, key: object, uid: str
    ) -> None:
        """A spec in place of the value, once a second object has the same: what is one's own stays."""
        key = (kind, key)
        known = self._once.get(key)
        if known is None:
            if len(self._once) >= _KEPT:
                self._once.clear()
            self._once[key] = uid
        elif isinstance(known, bytes) or known != uid:
            if isinstance(known, str):
                known = self._once[key] = self._spec(kind, value)
            specs.append(self._place(known))
            rest[_FIELDS[kind][0]] = None if kind == _OWNER else {}

    def _shared(self, kind: bytes, value: object) -> int:
        known = self._by_identity.get(id(value))
        if known is None:
            if len(self._by_identity) >= _KEPT:
                self._by_identity.clear()
            known = self._by_identity[id(value)] = (value, self._spec(kind, value))
        return self._place(known[1])

    def _spec(self, kind: bytes, value: object) -> bytes:
        """The hash of the spec; its content goes with the chunk unless an earlier one has brought it."""
        body = kind + msgspec.json.encode(value)
        name = blake2b(body, digest_size=_HASH).digest()
        if name not in self._brought:
            self._brought[name] = None
            self._new[name] = body
        return name

    def _place(self, name: bytes) -> int:
        return self._table.setdefault(name, len(self._table))


class Decoder:
    """Reads chunks back: `missing` says which specs have to be told by `know` before `batches`."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._known: dict[bytes, tuple[str, object]] = {}
        self._table = msgspec.msgpack.Decoder(list[bytes])
        self._facts = msgspec.msgpack.Decoder(list[Fact])

    def missing(self, packed: bytes) -> list[bytes]:
        """The hashes of specs that the chunk rests on and that are not known yet. Raises SegmentError."""
        with _reading():
            names = self._table.decode(next(_frames(zlib.decompress(packed)), b""))
        return [name for name in names if name not in self._known]

    def know(self, specs: Mapping[bytes, bytes]) -> None:
        """The content of specs by hash. Raises SegmentError."""
        with _reading():
            self._known.update({name: self._read(body) for name, body in specs.items()})

    def batches(self, packed: bytes) -> Iterator[list[Event]]:
        """The batches of a chunk. Raises SegmentError."""
        with _reading():
            frames = _frames(zlib.decompress(packed))
            names = self._table.decode(next(frames, b""))
            table = [self._known[name] for name in names]
            for frame in frames:
                yield [self._event(fact, table) for fact in self._facts.decode(frame)]

    def _read(self, body: bytes) -> tuple[str, object]:
        kind = body[:1]
        if kind not in _FIELDS:
            raise SegmentError(f"a spec of unknown kind {kind!r}")
        field, decoder = _FIELDS[kind]
        value = decoder.decode(body[1:])
        return field, self._shared.add(value) if kind in (_SHAPE, _WISHES) else value

    def _event(self, fact: Fact, table: Sequence[tuple[str, object]]) -> Event:
        event = fact.event
        if fact.specs:
            parts: dict[str, Any] = dict(table[place] for place in fact.specs)
            match event:
                case PodSeen():
                    event = PodSeen(structs.replace(event.pod, **parts))
                case NodeSeen():
                    event = NodeSeen(structs.replace(event.node, **parts))
                case OwnerSeen():
                    event = OwnerSeen(structs.replace(event.owner, **parts))
                case _:
                    raise SegmentError(f"a fact with specs that has none: {type(event).__name__}")
        return self._shared.event(event)


@contextlib.contextmanager
def _reading() -> Generator[None]:
    try:
        yield
    except KeyError as error:
        raise SegmentError(f"the spec {error.args[0].hex()} is not in the ledger (any more)") from error
    except (zlib.error, msgspec.DecodeError, IndexError, TypeError) as error:
        raise SegmentError(f"a chunk cannot be read: {error}") from error


def _frames(body: bytes) -> Iterator[bytes]:
    view, at = memoryview(body), 0
    while at < len(view):
        size = int.from_bytes(view[at : at + 4])
        if at + 4 + size > len(view):
            raise SegmentError("a chunk cannot be read: it is cut off")
        yield bytes(view[at + 4 : at + 4 + size])
        at += 4 + size
