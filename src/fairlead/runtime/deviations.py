"""How one plan differs from another that was made of the same snapshot, in classes and in words.

Called by `runtime.replay`. Pure; must not know where plans come from.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from fairlead.core.explain import describe
from fairlead.core.snapshot import Snapshot
from fairlead.model.plan import Decision, Plan, Reject, Reserve, Start, Wait


class Kind(StrEnum):
    """What is different, from the recorded plan to the replayed one."""

    EARLIER = "starts earlier"
    LATER = "starts later"
    NODE = "other node"
    PROMISE = "promise moved"
    REASON = "other reason"
    VERDICT = "other verdict"
    RECORDED = "only recorded"
    REPLAYED = "only replayed"
    ORDER = "other order"
    OTHER = "other remark"
    """Heads of queues, promises withdrawn, groups set aside."""


class Deviation(Struct, frozen=True):
    """One decision, as recorded and as replayed, in words; `group` is "" where it is about all."""

    kind: Kind
    group: str
    recorded: str
    replayed: str


class Inputs(Struct, frozen=True):
    """What the snapshot had: `asks` and `queue` are the concerned group's, amounts those of all nodes."""

    now: int
    version: int
    waiting: int
    place: int
    """Of the group in the queue, from 1; 0 if it does not wait in this snapshot."""
    asks: tuple[str, ...]
    queue: str
    duration: int
    everybody: bool
    """All who wait were looked at, not only those who came since the last plan."""
    nodes: int
    free: dict[str, int]
    capacity: dict[str, int]


def deviations(recorded: Plan, replayed: Plan) -> list[Deviation]:
    """Every difference; empty only if the plans are the same (but for what no decision says)."""
    old, new = _by_group(recorded), _by_group(replayed)
    found: list[Deviation] = []
    for key, was in old.items():
        now = new.get(key)
        if now is None:
            found.append(Deviation(Kind.RECORDED, was.group, words(was), "-"))
        elif was != now:
            found.append(Deviation(_kind(was, now), was.group, words(was), words(now)))
    found += [
        Deviation(Kind.REPLAYED, now.group, "-", words(now)) for key, now in new.items() if key not in old
    ]
    if not found and recorded.decisions != replayed.decisions:
        was, now = next((a, b) for a, b in zip(old.values(), new.values(), strict=True) if a != b)
        found.append(Deviation(Kind.ORDER, was.group, f"first {was.group}", f"first {now.group}"))
    found += _remarks(recorded, replayed)
    return found


def inputs(snapshot: Snapshot, group: str) -> Inputs:
    """What the plan was made of, as far as it concerns the group."""
    place, mine = next(
        ((i, each) for i, each in enumerate(snapshot.waiting, 1) if each.group == group), (0, None)
    )
    rows = snapshot.resources.items()
    return Inputs(
        now=snapshot.now,
        version=snapshot.version,
        waiting=len(snapshot.waiting),
        place=place,
        asks=tuple([describe(task) for task in mine.tasks]) if mine else (),
        queue=mine.queue if mine else "",
        duration=mine.duration if mine else 0,
        everybody=snapshot.freed,
        nodes=int(snapshot.classes.present.sum()),
        free={name: int(snapshot.free[row].sum()) for name, row in rows},
        capacity={name: int(snapshot.capacity[row].sum()) for name, row in rows},
    )


def words(decision: Decision) -> str:
    """What was decided, in a few words."""
    match decision:
        case Start():
            nodes = ", ".join(dict.fromkeys(place.node for place in decision.placements))
            return f"starts {len(decision.placements)} pods on {nodes}"
        case Reserve():
            when = f"at {decision.start}" if decision.start else "without a date"
            on = f" on {', '.join(decision.nodes)}" if decision.nodes else ""
            return f"promised a start {when}{on}: {decision.reason.text}"
        case Wait():
            return f"waits ({decision.reason.why}): {decision.reason.text}"
        case Reject():
            return f"rejected: {decision.reason.text}"


def _by_group(plan: Plan) -> dict[tuple[str, int], Decision]:
    """A group may be decided on more than once: then they are numbered."""
    found: dict[tuple[str, int], Decision] = {}
    count: dict[str, int] = {}
    for decision in plan.decisions:
        number = count[decision.group] = count.get(decision.group, 0) + 1
        found[decision.group, number] = decision
    return found


def _kind(was: Decision, now: Decision) -> Kind:
    match was, now:
        case Start(), Start():
            return Kind.NODE
        case _, Start():
            return Kind.EARLIER
        case Start(), _:
            return Kind.LATER
        case Reserve(), Reserve():
            if was.start != now.start:
                return Kind.PROMISE
            return Kind.NODE if was.nodes != now.nodes else Kind.REASON
        case _:
            return Kind.REASON if type(was) is type(now) else Kind.VERDICT


def _remarks(was: Plan, now: Plan) -> Iterator[Deviation]:
    for name in ("heads", "withdrawn", "failure", "at", "version", "id"):
        a, b = getattr(was, name), getattr(now, name)
        if a != b:
            yield Deviation(Kind.OTHER, "", f"{name} {a}", f"{name} {b}")
