"""What the sniffer writes in a line, and what Fairlead keeps of it: nine keys here, a Change there.

Used by `recorder.sniffer_service`, `recorder.importing` and `recorder.jsonl`. Pure. A Change made here
gives the same line again: what has no column is in `extra`, under the sniffer's own keys.
"""

from typing import Any

import msgspec
from msgspec import Struct

from fairlead.model.record import Change, Source
from fairlead.recorder import gotime

CAPACITY = "Capacity"
"""The event of a node's line that tells what it has: in the sniffer's line there is none."""
_MILLISECOND = 1_000_000


class Datum(Struct, frozen=True, omit_defaults=True):
    """One line. Its keys have the order of these fields; all but the first two are left out if empty."""

    object: str
    name: str
    endpoint: str = ""
    reason: str = ""
    message: str = ""
    node: str = ""
    event: str = ""
    extra: dict[str, Any] | None = None
    timestamp: str = ""


_encoder = msgspec.json.Encoder()


def line(datum: Datum) -> bytes:
    """The line, with its end, to the byte as Go writes JSON."""
    text = _encoder.encode(datum)
    if b"<" in text or b">" in text or b"&" in text:
        text = text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    if b"\xe2\x80" in text:
        text = text.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return text + b"\n"


def extras(endpoint: str, timestamp: str, told: int | None) -> dict[str, Any] | None:
    """What a Change keeps beside its columns: the time as it was written, and what is under a millisecond.

    `told` is that time in nanoseconds, None where it cannot be read.
    """
    found: dict[str, Any] = {}
    if endpoint:
        found["endpoint"] = endpoint
    if timestamp:
        found["timestamp"] = timestamp
    if told is not None and (rest := told % _MILLISECOND):
        found["nanoseconds"] = rest
    return found or None


def change(datum: Datum, at: int, seen: int, source: Source) -> Change:
    """A line as a row. `at` (milliseconds) stands in for a time that is not told."""
    told = gotime.nanoseconds(datum.timestamp)
    extra = extras(datum.endpoint, datum.timestamp, told)
    if datum.extra is not None:
        extra = {**(extra or {}), "extra": datum.extra}
    return Change(
        datum.object,
        datum.event or (CAPACITY if datum.object == "Node" else ""),
        at=at if told is None else told // _MILLISECOND,
        seen=seen,
        source=source,
        name=datum.name,
        node=datum.node,
        reason=datum.reason,
        message=datum.message,
        extra=extra,
    )


def datum(change: Change) -> Datum:
    """The line that a row came from; of changes that `change` or the sniffer's gRPC made."""
    extra = change.extra or {}
    return Datum(
        change.object,
        change.name,
        extra.get("endpoint", ""),
        change.reason,
        change.message,
        change.node,
        "" if change.object == "Node" and change.event == CAPACITY else change.event,
        extra.get("extra"),
        extra.get("timestamp", ""),
    )
