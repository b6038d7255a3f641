"""Records to rows and back.

Used by `store.batch` (writing) and by `store.session` and `store.reader` (reading). Rows are written as
one JSON text per statement, so their number never shows in the number of statements. Pure: no database.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fairlead.model.command import RecordAllocations
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.plan import Grant, Placement, Reserve

COLUMNS = tuple(
    column
    for field in GroupRecord.__struct_fields__
    for column in (("why", "text") if field == "reason" else (field,))
)
"""Of `group_record`, in the order of the record's fields."""
_FROM_USERS = ("size", "seen", "priority", "duration", "begin")
_LARGEST = 2**53 - 1
"""What users write may be absurd; it must neither stop the store nor make a view fail for everybody."""
_UNWRITABLE = "\N{REPLACEMENT CHARACTER}"


def encode(rows: Sequence[dict[str, Any]]) -> str:
    """JSON that PostgreSQL surely takes: one bad character must not stop the whole store for good."""
    try:
        text = msgspec.json.encode(rows).decode()
    except UnicodeEncodeError:  # a lone surrogate
        return msgspec.json.encode(cleaned(rows)).decode()
    return msgspec.json.encode(cleaned(rows)).decode() if "\\u0000" in text else text


def clean(text: str) -> str:
    """Without NUL and lone surrogates, which no text of PostgreSQL can hold."""
    return text.replace("\0", _UNWRITABLE).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def cleaned(value: Any) -> Any:
    """`clean` for every text in a value that is going to be JSON."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def group_row(record: GroupRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in GroupRecord.__struct_fields__}
    reason: Reason = row.pop("reason")
    row["why"], row["text"] = reason.why, reason.text
    for name in _FROM_USERS:
        row[name] = max(-_LARGEST, min(row[name], _LARGEST))
    return row


def group(row: Sequence[Any]) -> GroupRecord:
    """From the columns that `restore_groups` selects."""
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    values["reason"] = Reason(_why(values.pop("why")), values.pop("text"))
    values["phase"], values["outcome"] = Phase(values["phase"]), Outcome(values["outcome"])
    values["nodes"] = tuple(values["nodes"])
    return GroupRecord(**values)


def _why(word: str) -> Why:
    """A word of a later version must not keep this one from starting; the sentence still tells."""
    try:
        return Why(word)
    except ValueError:
        return Why.NONE


def groups(rows: Iterable[Sequence[Any]]) -> list[GroupRecord]:
    return [group(row) for row in rows]


def plan_row(command: RecordAllocations) -> dict[str, Any]:
    return {"id": command.plan, "epoch": command.epoch, "at": command.at}


def grant_row(plan: str, grant: Grant) -> dict[str, Any]:
    return {
        "id": grant.id,
        "plan": plan,
        "group": grant.group,
        "epoch": grant.epoch,
        "at": grant.at,
        "growth": grant.growth,
        "pods": [placement.pod for placement in grant.placements],
        "nodes": [placement.node for placement in grant.placements],
    }


def grant(row: Sequence[Any]) -> Grant:
    """From the columns that `restore_grants` selects."""
    grant_id, plan, group_id, epoch, at, pods, nodes, growth = row
    placements = tuple(Placement(pod, node) for pod, node in zip(pods, nodes, strict=True))
    return Grant(grant_id, plan, group_id, epoch, at, placements, growth)


def reservation_row(reserve: Reserve) -> dict[str, Any]:
    why, text = reserve.reason.why, reserve.reason.text
    return {"group": reserve.group, "start": reserve.start, "nodes": reserve.nodes, "why": why, "text": text}


def reservation(row: Sequence[Any]) -> Reserve:
    """From the columns that `restore_reservations` selects."""
    group_id, start, nodes, why, text = row
    return Reserve(group_id, start, tuple(nodes), Reason(_why(why), text))
