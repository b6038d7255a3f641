"""Pods and nodes as a log of the sniffer's shows them: their lives, from lines that tell a little each.

Called by `recorder.importing`, line by line in the order of the log. Pure. The log knows pods by name only:
two of one name are told apart only where the second is scheduled after the first has ended.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from fairlead.model import quantity
from fairlead.model.record import NodeLife, PodLife, Source
from fairlead.recorder.datum import Datum

IMPORTED = "imported"
"""In a node's `told`: when it was learned, from which retention counts."""
_ENDED = ("Succeeded", "Failed")
_PHASES = ("Running", "Unknown", *_ENDED)
TAPPED = {
    "ScheduleSuccess": "scheduled",
    "BindingSuccess": "bound",
    "postStart": "started",
    "preStop": "stopped",
}
"""What schedulers and hooks send, and where its time goes."""
_SEEN = {"PodScheduled": "placed", "Ready": "ready", "ContainersReady": "ready"}
"""Conditions that the watcher sees."""
# job-0-4-size-6-4-b69br: an index and a random end, in the letters that Kubernetes takes for it.
_INDEX_AND_END = re.compile(r"(.+?)(?:-(\d+))?-([bcdfghjklmnpqrstvwxz2456789]{5})", re.ASCII)
_INDEX = re.compile(r"(.+)-\d+", re.ASCII)


def job_of(pod: str) -> str:
    """The job's name as a pod's name tells it: without the index and the random end."""
    found = _INDEX_AND_END.fullmatch(pod) or _INDEX.fullmatch(pod)
    return found[1] if found is not None else pod


class Pod(Struct):
    """One pod of the log. Times in milliseconds, 0 = not known; `exact` are the events that told theirs."""

    name: str
    number: int
    """Which of this name, from 1."""
    first: int
    line: int = 0
    node: str = ""
    is_bound: bool = False
    exact: set[str] = set()
    moved: bool = False
    """It was seen on two nodes: two pods of one name."""
    phase: str = "Pending"
    reason: str = ""
    scheduled: int = 0
    bound: int = 0
    started: int = 0
    stopped: int = 0
    placed: int = 0
    """By the condition PodScheduled."""
    ready: int = 0
    running: int = 0
    ended: int = 0
    """When its phase said so, as far as the log tells."""
    deleted: int = 0

    @property
    def complete(self) -> bool:
        """With a start and an end that were told."""
        return self.exact >= {"BindingSuccess", "preStop"}

    @property
    def tapped(self) -> bool:
        """A scheduler or a hook has told of it, not the watcher alone."""
        return bool(self.scheduled or self.bound or self.started or self.stopped)

    @property
    def over(self) -> bool:
        return bool(self.stopped or self.ended or self.deleted)

    def learn(self, datum: Datum, at: int, now: int, line: int) -> None:
        """One line: `at` is its own time or 0, `now` up to when the log has come."""
        self.line = line
        self.first = min(self.first, at or now)
        self.reason = datum.reason or self.reason
        self._learn_node(datum)
        event = datum.event
        if (name := TAPPED.get(event)) is not None:
            # A wish that came to nothing is followed by another; all else is told once.
            if not getattr(self, name) or (at and (event not in self.exact or self._is_retry(event))):
                setattr(self, name, at or now)
            if at:
                self.exact.add(event)
        elif (name := _SEEN.get(event)) is not None:
            setattr(self, name, getattr(self, name) or at or now)
        elif event in _PHASES:
            self._learn_phase(event, at or now)
        if datum.endpoint == "podDelete":
            self.deleted = self.deleted or now

    def _is_retry(self, event: str) -> bool:
        return event == "ScheduleSuccess" and not self.bound

    def _learn_node(self, datum: Datum) -> None:
        """A scheduler's choice is a wish; where it was bound, or is seen, it is."""
        if not datum.node or datum.event == "ScheduleSuccess":
            return
        self.moved |= bool(self.node) and self.node != datum.node
        if not self.is_bound:
            self.node = datum.node
        self.is_bound |= datum.event == "BindingSuccess"

    def _learn_phase(self, phase: str, at: int) -> None:
        if self.phase in _ENDED:
            return
        self.phase = phase
        if phase in _ENDED:
            self.ended = self.ended or at
        elif phase == "Running":
            self.running = self.running or at

    def life(self, uid: str, seen: int) -> PodLife:
        """The row. What was not told exactly is taken from what the watcher saw, if it did."""
        started = self.started or self.ready or self.running
        return PodLife(
            uid=uid,
            namespace="",
            name=self.name,
            version=self.line,
            owner_kind="Job" if self.tapped else "",
            owner_name=job_of(self.name),
            node=self.node,
            phase="Running" if self.phase == "Pending" and self.started else self.phase,
            reason=self.reason,
            exit_code=0 if self.phase == "Succeeded" else -1,
            scheduled=self.scheduled or self.placed,
            bound=self.bound or (self.placed if self.node else 0),
            started=started,
            ready=self.ready,
            finished=self.stopped or self.ended,
            deleted=self.deleted,
            first_seen=self.first,
            last_seen=seen,
            source=Source.IMPORT,
        )


class Node(Struct):
    """One state of a node; `until` 0 while the log goes on with it."""

    name: str
    since: int
    line: int
    capacity: dict[str, int]
    allocatable: dict[str, int]
    until: int = 0
    deleted: bool = False

    def life(self, uid: str, end: int, seen: int) -> NodeLife:
        """The row. What the log has at its end was so until then; more nobody saw."""
        return NodeLife(
            uid=uid,
            name=self.name,
            since=self.since,
            version=self.line,
            capacity=self.capacity,
            allocatable=self.allocatable,
            until=self.until or end,
            lost=not self.until,
            told={IMPORTED: seen},
        )


class Lives:
    """All pods and nodes of a log."""

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.nodes: list[Node] = []
        self._pods: dict[str, Pod] = {}
        self._nodes: dict[str, Node] = {}

    def __len__(self) -> int:
        return len(self.pods) + len(self.nodes)

    def learn(self, datum: Datum, at: int, now: int, line: int) -> str:
        """One line, as `Pod.learn` has it; what its object is called below the log's own key."""
        if not datum.name:
            return ""
        if datum.object == "Node":
            self._learn_node(datum, now, line)
            return datum.name
        pod = self._pods.get(datum.name)
        if pod is None or (pod.over and datum.event == "ScheduleSuccess"):
            pod = Pod(datum.name, pod.number + 1 if pod is not None else 1, at or now)
            self._pods[datum.name] = pod
            self.pods.append(pod)
        pod.learn(datum, at, now, line)
        return called(pod)

    def _learn_node(self, datum: Datum, now: int, line: int) -> None:
        known = self._nodes.get(datum.name)
        if datum.endpoint == "nodeDeleted":
            if known is not None:
                known.until, known.deleted, known.line = max(now, known.since), True, line
                del self._nodes[datum.name]
            return
        if datum.extra is None:
            return
        capacity, allocatable = amounts("capacity-", datum.extra), amounts("allocatable-", datum.extra)
        if known is not None:
            known.line = line
            if (known.capacity, known.allocatable) == (capacity, allocatable):
                return
            if known.since == now:
                known.capacity, known.allocatable = capacity, allocatable
                return
            known.until = now
        self._nodes[datum.name] = node = Node(datum.name, now, line, capacity, allocatable)
        self.nodes.append(node)

    def rows(self, key: str, end: int, seen: int) -> Iterator[PodLife | NodeLife]:
        """Every row; `end` is when the log ends, `key` what it is called in the ledger."""
        for pod in self.pods:
            yield pod.life(f"{key}:{called(pod)}", seen)
        for node in self.nodes:
            yield node.life(f"{key}:{node.name}", max(end, node.since), seen)


def called(pod: Pod) -> str:
    """Its name; from the second of that name on with its number."""
    return pod.name if pod.number == 1 else f"{pod.name}#{pod.number}"


def amounts(prefix: str, extra: Mapping[str, Any]) -> dict[str, int]:
    """By resource, cpu in milli-cores; what is no quantity is left out."""
    found: dict[str, int] = {}
    for key, text in extra.items():
        if key.startswith(prefix) and isinstance(text, str):
            name = key.removeprefix(prefix)
            try:
                found[name] = quantity.amount(name, text)
            except quantity.QuantityError:
                continue
    return found
