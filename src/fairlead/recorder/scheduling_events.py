"""Kubernetes Events as rows: why pods were not placed, where they were, who was evicted, what kubelets say.

Fed by `recorder.book` with what `wire.happening` reads. Pure. An Event that is repeated becomes a series:
each count that is told is a row. Must not take an Event for the truth about a pod: the watch of pods knows.
"""

import re
from collections import OrderedDict
from typing import Any

from fairlead.model.record import Change, Source
from fairlead.wire.happening import EventFact, Reference

KINDS = ("Pod", "Node", "Job")
"""Whom an Event must be about to be recorded."""
MOST_EVENTS = 100_000
"""Events whose count is remembered; the one that was told longest ago is forgotten first."""
_OF_SCHEDULERS = ("FailedScheduling", "Scheduled", "Preempted")
_ASSIGNED = re.compile(r"Successfully assigned \S+ to (?P<node>\S+)")
_PREEMPTED = re.compile(r"Preempted by (?:.* )?(?P<by>\S+) on node (?P<node>\S+)")
_NO_NODES = "no nodes available to schedule pods"
_HEAD = re.compile(r"\d{1,9}/(\d{1,9}) nodes are available: ?")
_COUNTED = re.compile(r"(\d{1,9}) (.+)", re.DOTALL)
_NEXT = re.compile(r", (?=\d{1,9} )")
_END = re.compile(r"\.+(?:\s|$)")
_CUT = " ..."


class SchedulingEvents:
    """Says each count of each Event once. Which versions are news at all is for the book to know."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._told: OrderedDict[str, int] = OrderedDict()

    def learn(self, event: EventFact, seen: int) -> Change | None:
        """The row, or None where it is no news or about something else. `seen` in milliseconds."""
        if event.regarding.kind not in KINDS:
            return None
        told = self._told.pop(event.uid, 0)
        self._told[event.uid] = max(told, event.count)
        if len(self._told) > self._most:
            self._told.popitem(last=False)
        return change(event, seen) if event.count > told else None


def change(event: EventFact, seen: int) -> Change:
    """The Event as a row. `reason` of a FailedScheduling is the one that most nodes gave."""
    about = event.regarding
    extra: dict[str, Any] = {}
    scheduler = event.controller if event.reason in _OF_SCHEDULERS else ""
    if not scheduler and event.controller:
        extra["controller"] = event.controller
    if event.count > 1:
        extra |= {"count": event.count, "first": event.first}
    if event.warning:
        extra["warning"] = True
    if event.related is not None:
        extra["related"] = _named(event.related)
    if event.reason == "FailedScheduling":
        extra |= refusal(event.note)
    if event.reason == "Preempted" and (said := _PREEMPTED.match(event.note)) is not None:
        extra["by"] = said["by"]
    return Change(
        about.kind,
        event.reason,
        event.at or seen,
        seen,
        Source.EVENTS,
        # Older kubelets wrote the name of their node for its uid.
        uid="" if about.uid == about.name else about.uid,
        namespace=about.namespace,
        name=about.name,
        node=_node(event),
        scheduler=scheduler,
        version=event.version,
        reason=_first(extra.get("reasons", {})),
        message=event.note,
        extra=extra or None,
    )


def refusal(note: str) -> dict[str, Any]:
    """What kube-scheduler says of a pod that fits nowhere: `nodes` looked at, and how many gave which reason.

    A node may give several. `preemption` is the same for making room by eviction, where that was tried. A
    reason without a count was found before any node was looked at, and counts for all. `cut`: the note was
    too long, so its last reason is not whole. Empty for a note of another form.
    """
    if note == _NO_NODES:
        return {"nodes": 0, "reasons": {}}
    head = _HEAD.match(note)
    if head is None:
        return {}
    text = note[head.end() :].removesuffix(_CUT)
    nodes = int(head[1])
    own, _, preemption = text.partition("preemption: ")
    found: dict[str, Any] = {"nodes": nodes, "reasons": _counts(own, nodes)}
    if preemption:
        found["preemption"] = _counts(_HEAD.sub("", preemption, count=1), nodes)
    if note.endswith(_CUT):
        found["cut"] = True
    return found


def _counts(text: str, nodes: int) -> dict[str, int]:
    end = _END.search(text)
    text = (text if end is None else text[: end.start()]).strip()
    counts: dict[str, int] = {}
    for piece in _NEXT.split(text) if text else ():
        counted = _COUNTED.fullmatch(piece)
        count, reason = (int(counted[1]), counted[2]) if counted else (nodes, piece)
        counts[reason] = counts.get(reason, 0) + count
    return counts


def _first(reasons: dict[str, int]) -> str:
    return min(reasons, key=lambda reason: (-reasons[reason], reason), default="")


def _node(event: EventFact) -> str:
    if event.regarding.kind == "Node":
        return event.regarding.name
    said = {"Scheduled": _ASSIGNED, "Preempted": _PREEMPTED}.get(event.reason)
    found = said.match(event.note) if said is not None else None
    return found["node"].rstrip(".") if found is not None else event.host


def _named(reference: Reference) -> dict[str, str]:
    return {name: value for name in reference.__struct_fields__ if (value := getattr(reference, name))}
