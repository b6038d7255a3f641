"""The book: facts in, what is to be written out, each thing once. A pure state machine.

Made from what the ledger has, fed by `fairlead.app_recorder` with what the watches tell. A version that is
older than known changes nothing; what is gone is forgotten, and known to be by the version up to which
everything is in. So relists, late and doubled facts and restarts add nothing. Must not read a clock, and
must not drop a pod that is not known to be gone.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from fairlead.model.event import Listed, Rewound
from fairlead.model.record import Change, Loaded, NodeLife, Part, PodLife, Source
from fairlead.recorder import book_node, book_pod
from fairlead.wire.happening import EventFact
from fairlead.wire.life import GoneFact, NodeFact, PodFact

POD, NODE, EVENT = "Pod", "Node", "Event"
NOTHING = Part()


class Mark(Struct, frozen=True):
    """A watch has told everything of this kind up to this version."""

    kind: str
    version: int


Heard = PodFact | NodeFact | EventFact | GoneFact | Listed | Rewound | Mark
Translate = Callable[[EventFact, int], Change | None]
"""An Event and when it was learned (milliseconds since the epoch) -> the change that it tells, if any."""


class Book:
    """What is known of pods and nodes that are not gone, and up to where.

    `events` says what becomes of a Kubernetes Event.
    """

    def __init__(self, loaded: Loaded, events: Translate | None = None) -> None:
        self._pods = dict(loaded.pods)
        self._nodes = dict(loaded.nodes)
        self._marks = dict(loaded.marks)
        self._floor = dict(loaded.marks)
        """By kind: an object of at most this version that is not known has been told of, and is gone."""
        self._rewound: set[str] = set()
        self._events = events

    @property
    def pods(self) -> int:
        """How many are known, and not known to be gone."""
        return len(self._pods)

    @property
    def nodes(self) -> int:
        return len(self._nodes)

    def observe(self, fact: Heard, seen: int) -> Part:
        """What of it is new. `seen` is when it was learned, in milliseconds since the epoch."""
        match fact:
            case PodFact():
                return self._pod(fact, seen)
            case NodeFact():
                return self._node(fact, seen)
            case EventFact():
                return self._event(fact, seen)
            case GoneFact():
                return self._gone(fact, seen)
            case Listed():
                return self._listed(fact, seen)
            case Rewound(kind):
                return self._forget_versions(kind)
            case Mark(kind, version):
                return self._mark(kind, version)

    def _is_old(self, kind: str, uid: str, version: int) -> bool:
        known = (self._pods if kind == POD else self._nodes).get(uid)
        return version <= (known.version if known is not None else self._floor.get(kind, 0))

    def _pod(self, fact: PodFact, now: int) -> Part:
        if self._is_old(POD, fact.uid, fact.version):
            return NOTHING
        known = self._pods.get(fact.uid)
        life, changes = book_pod.seen(known, fact, now)
        self._pods[fact.uid] = life
        return Part(tuple(changes), () if book_pod.same_row(known, life) else (life,))

    def _node(self, fact: NodeFact, now: int) -> Part:
        if self._is_old(NODE, fact.uid, fact.version):
            return NOTHING
        life, rows, changes = book_node.seen(self._nodes.get(fact.uid), fact, now)
        self._nodes[fact.uid] = life
        return Part(tuple(changes), nodes=rows)

    def _event(self, fact: EventFact, now: int) -> Part:
        """Lists of Events come by version, so each of them is a mark: what was said is never said again."""
        if fact.version <= self._floor.get(EVENT, 0):
            return NOTHING
        part = self._mark(EVENT, fact.version)
        change = self._events(fact, now) if self._events is not None else None
        return replace(part, changes=(change,)) if change is not None else part

    def _gone(self, fact: GoneFact, now: int) -> Part:
        if fact.kind == EVENT:
            return self._mark(EVENT, max(fact.version, self._floor.get(EVENT, 0)))
        if self._is_old(fact.kind, fact.uid, fact.version):
            return NOTHING
        last = self.observe(fact.last, now) if fact.last is not None else NOTHING
        self._floor[fact.kind] = max(fact.version, self._floor.get(fact.kind, 0))
        return joined((last, self._close(fact.kind, fact.uid, fact.version, now, lost=False)))

    def _close(self, kind: str, uid: str, version: int, now: int, lost: bool) -> Part:
        if kind == POD and (pod := self._pods.pop(uid, None)) is not None:
            pod, change = book_pod.gone(pod, version, now, lost)
            return Part((change,), (pod,))
        if kind == NODE and (node := self._nodes.pop(uid, None)) is not None:
            node, change = book_node.gone(node, version, now, lost)
            return Part((change,), nodes=(node,))
        return NOTHING

    def _listed(self, fact: Listed, now: int) -> Part:
        """What is not in the list is gone; that nobody saw it go makes it a gap."""
        kind, there = fact.kind, set(fact.uids)
        gap = self._gap(kind, fact.version, now)
        known = [
            uid
            for uid, life in (self._pods if kind == POD else self._nodes if kind == NODE else {}).items()
            if uid not in there and (isinstance(life, NodeLife) or life.source is Source.WATCH)
        ]
        lost = [self._close(kind, uid, 0, now, lost=True) for uid in known]
        self._rewound.discard(kind)
        return joined((gap, *lost, self._mark(kind, fact.version)))

    def _gap(self, kind: str, version: int, now: int) -> Part:
        """Between the mark and the list something may have happened that nobody told."""
        mark = self._marks.get(kind)
        if mark is None or (mark >= version and kind not in self._rewound):
            return NOTHING
        extra = {"kind": kind, "from": mark, "to": version}
        change = Change(
            "Recorder", "Gap", at=now, seen=now, source=Source.RECORDER, version=version, extra=extra,
            reason="Rewound" if kind in self._rewound else "Expired",
        )  # fmt: skip
        return Part((change,))

    def _mark(self, kind: str, version: int) -> Part:
        self._marks[kind] = self._floor[kind] = version
        return Part(marks={kind: version})

    def _forget_versions(self, kind: str) -> Part:
        """The server's versions began anew: whatever it says now is newer than what is known."""
        self._rewound.add(kind)
        self._floor[kind] = 0
        if kind == POD:
            self._pods = {uid: replace(life, version=0) for uid, life in self._pods.items()}
        elif kind == NODE:
            self._nodes = {uid: replace(life, version=0) for uid, life in self._nodes.items()}
        return NOTHING


def joined(parts: Iterable[Part]) -> Part:
    """One part of several, to be written together or not at all: each row only as it is in the end.

    What one chunk of a watch told and its mark belong together: a deletion that is written without the mark
    behind it would be told once more, of a pod that nobody knows any more.
    """
    changes: list[Change] = []
    pods: dict[str, PodLife] = {}
    nodes: dict[tuple[str, int], NodeLife] = {}
    marks: dict[str, int] = {}
    for part in parts:
        changes += part.changes
        pods |= {life.uid: life for life in part.pods}
        nodes |= {(life.uid, life.since): life for life in part.nodes}
        marks |= part.marks
    return Part(tuple(changes), tuple(pods.values()), tuple(nodes.values()), marks)
