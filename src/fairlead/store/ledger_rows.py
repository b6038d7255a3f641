"""Changes, pods and nodes to what the database takes, and back.

Used by `store.ledger_session`. Changes become COPY text by the batch, because there are tens of thousands
a second of them; the rest becomes one JSON text per table. Pure: no database.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import structs

from fairlead.model.record import Change, NodeLife, Part, PodLife
from fairlead.store import rows

_NONE = "\x02"
"""NULL in the COPY text, as `copy_changes` says."""
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", _NONE: "\\x02"})
_TABS = 13
_LARGEST = 2**63 - 1
_LARGEST_SMALL = 2**31 - 1
_LONGEST_KEY = 300
_LONGEST = 1 << 20
_UNREADABLE = '"not JSON"'
_to_json = msgspec.json.Encoder(enc_hook=str).encode
_pod = msgspec.json.Decoder(PodLife)
_node = msgspec.json.Decoder(NodeLife)


def copy_text(changes: Sequence[Change]) -> bytes:
    """The rows in COPY's text format. Nearly none has a character that must be escaped: first without."""
    lines: list[str] = []
    slashes = nulls = 0
    for c in changes:
        extra = _NONE
        if c.extra is None:
            nulls += 1
        else:
            extra = _json(c.extra)
            if "\\" in extra:
                extra = extra.replace("\\", "\\\\")
                slashes += extra.count("\\")
        lines.append(
            f"{c.object}\t{c.event}\t{c.at}\t{c.seen}\t{c.source.value}\t{c.uid}\t{c.namespace}\t{c.name}\t{c.node}"
            f"\t{c.scheduler}\t{c.version}\t{c.reason}\t{c.message}\t{extra}\n"
        )
    text = "".join(lines)
    if (
        text.count("\t") == _TABS * len(lines)
        and text.count("\n") == len(lines)
        and text.count("\\") == slashes
        and text.count(_NONE) == nulls
        and "\r" not in text
        and "\0" not in text
        and "\\u0000" not in text
    ):
        try:
            return text.encode()
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return _escaped(changes)


def _escaped(changes: Sequence[Change]) -> bytes:
    lines: list[str] = []
    for change in changes:
        *values, extra = structs.astuple(change)
        words = [rows.clean(str(value)).translate(_ESCAPES) for value in values]
        words.append(_NONE if extra is None else _json(rows.cleaned(extra)).translate(_ESCAPES))
        lines.append("\t".join(words))
    return ("\n".join(lines) + "\n").encode()


def _json(extra: dict[str, Any]) -> str:
    try:
        return _to_json(extra).decode()
    except UnicodeEncodeError:
        return _to_json(rows.cleaned(extra)).decode()
    except (TypeError, RecursionError):
        return _UNREADABLE


def as_json(lives: Iterable[PodLife | NodeLife]) -> str:
    """Pods or nodes with all their columns."""
    return rows.encode([structs.asdict(life) for life in lives])


def marks_text(parts: Iterable[Part], now: int) -> str:
    marks: dict[str, int] = {}
    for part in parts:
        marks |= part.marks
    return rows.encode([{"kind": kind, "version": to, "written_at": now} for kind, to in marks.items()])


def pod(text: str) -> PodLife:
    """From `load_pods`."""
    return _pod.decode(text)


def node(text: str) -> NodeLife:
    """From `load_nodes`."""
    return _node.decode(text)


def tamed(part: Part) -> Part:
    """The part within what the columns hold: for one that the database has refused as it was."""
    return Part(
        tuple(_tame(change) for change in part.changes),
        tuple(_tame(pod) for pod in part.pods),
        tuple(_tame(node) for node in part.nodes),
        {kind: _within(version, _LARGEST) for kind, version in part.marks.items()},
    )


def _tame(record: Any) -> Any:
    values: dict[str, Any] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, bool):
            continue
        if isinstance(value, int):
            values[name] = _within(value, _LARGEST_SMALL if name in ("exit_code", "restarts") else _LARGEST)
        elif type(value) is str:
            values[name] = rows.clean(value)[: _LONGEST if name == "message" else _LONGEST_KEY]
    return structs.replace(record, **values)


def _within(value: int, largest: int) -> int:
    return max(-largest, min(value, largest))
