"""One node: what a fact adds to its life, and what is news in it. Pure; called by `recorder.book`.

A life is a row per state: what changes capacity, labels, taints, readiness or cordon ends one and begins the
next. In `told` is each condition's transition time with 0, 1 or 2 added for False, True or Unknown. Must not
read a clock.
"""

from typing import Any, NamedTuple

from msgspec.structs import replace

from fairlead.model.record import Change, NodeLife, Source
from fairlead.recorder.book_pod import MOST_TEXT, differences
from fairlead.wire.life import Condition, NodeFact

_STATES = {"False": 0, "True": 1}
_UNKNOWN = 2
_SECOND = 1000


class Seen(NamedTuple):
    """`rows` are to be written; `life` is the last of them, or as it was with only a later version."""

    life: NodeLife
    rows: tuple[NodeLife, ...]
    changes: list[Change]


def seen(life: NodeLife | None, fact: NodeFact, now: int) -> Seen:
    present = _present(life, fact, now)
    changes = _news(life, fact, present, now)
    if life is None:
        return Seen(present, (present,), changes)
    if _state(present) != _state(life):
        now = max(now, life.since)  # a clock may have been set back
        ended = replace(life, version=fact.version, until=now)
        present = replace(present, since=now)
        return Seen(present, (ended, present) if now > life.since else (present,), changes)
    rewound = not life.version  # the row's is one of before the server's versions began anew
    if rewound or (present.conditions, present.told) != (life.conditions, life.told):
        return Seen(present, (present,), changes)
    return Seen(present, (), changes)


def gone(life: NodeLife, version: int, now: int, lost: bool) -> tuple[NodeLife, Change]:
    """The last of it: Deleted, or Vanished when it was only found to be gone."""
    life = replace(life, version=version or life.version, until=max(now, life.since), lost=lost)
    return life, _change(life, "Vanished" if lost else "Deleted", now, now)


def _present(life: NodeLife | None, fact: NodeFact, now: int) -> NodeLife:
    told = dict(life.told) if life is not None else {}
    for condition in fact.conditions:
        told[condition.type] = condition.at - condition.at % _SECOND + _number(condition)
    return NodeLife(
        uid=fact.uid,
        name=fact.name,
        # What it was before it was first seen nobody can tell: it counts as it is.
        since=life.since if life is not None else fact.created or now,
        version=fact.version,
        capacity=fact.capacity,
        allocatable=fact.allocatable,
        labels=fact.labels,
        taints=fact.taints,
        unschedulable=fact.unschedulable,
        ready=all(each.status == "True" for each in fact.conditions if each.type == "Ready"),
        conditions={each.type: each.reason for each in fact.conditions if _is_wrong(each)},
        told=told,
    )


def _state(life: NodeLife) -> tuple[Any, ...]:
    return life.capacity, life.allocatable, life.labels, life.taints, life.unschedulable, life.ready


def _number(condition: Condition) -> int:
    return _STATES.get(condition.status, _UNKNOWN)


def _is_wrong(condition: Condition) -> bool:
    """Ready should be True, all others (MemoryPressure, NetworkUnavailable …) False."""
    return condition.status != ("True" if condition.type == "Ready" else "False")


def _news(life: NodeLife | None, fact: NodeFact, present: NodeLife, now: int) -> list[Change]:
    changes: list[Change] = []
    if life is None:
        changes.append(_change(present, "Added", fact.created or now, now))
    elif extra := _changed(life, present):
        changes.append(_change(present, "Changed", now, now, extra=extra))
    if present.unschedulable != (life is not None and life.unschedulable):
        changes.append(_change(present, "Cordoned" if present.unschedulable else "Uncordoned", now, now))
    for each in fact.conditions:
        known = life.told.get(each.type) if life is not None else None
        if _is_news(each, known):
            reason, text = f"{each.type}={each.status}", ": ".join(filter(None, (each.reason, each.message)))
            at = each.at or now
            changes.append(_change(present, "Condition", at, now, reason=reason, message=text[:MOST_TEXT]))
    return changes


def _is_news(condition: Condition, known: int | None) -> bool:
    """One never told of is news if it is Ready, or not as it should be, whenever it comes first."""
    if known is None:
        return condition.type == "Ready" or _is_wrong(condition)
    return _number(condition) != known % _SECOND


def _changed(before: NodeLife, after: NodeLife) -> dict[str, Any]:
    """Only what changed: amounts and labels as [before, after], taints as those added and removed."""
    found: dict[str, Any] = {
        name: changed
        for name in ("capacity", "allocatable", "labels")
        if (changed := differences(getattr(before, name), getattr(after, name)))
    }
    if before.taints != after.taints:
        found["taints"] = {
            "added": [each for each in after.taints if each not in before.taints],
            "removed": [each for each in before.taints if each not in after.taints],
        }
    return found


def _change(life: NodeLife, event: str, at: int, now: int, **more: Any) -> Change:
    return Change(
        "Node", event, at=at, seen=now, source=Source.WATCH, uid=life.uid, name=life.name, node=life.name,
        version=life.version, **more,
    )  # fmt: skip
