"""Which waiting jobs of a Scheduling get which slots: ESI's three strategies, over numbers of slots.

Called by `control.esi.scheduling`. Pure: the free numbers that this Scheduling may use come in, choices come
out. `waiting` are its jobs that are in InQueueState. Must not look at claims or pods.

- queue: the i-th entry that still waits gets the i-th free slot, and a job starts when all its entries have
  one and all jobs before it start, too. On 4 slots [j2, j1, j2, j1] gives j2 0 and 2, j1 1 and 3.
- strict: each job gets the very slots that it names, after those before it.
- relaxed: the same, each job for itself.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from fairlead.model.esi import Ref
from fairlead.model.scheduling import SchedulingSpec, SlotBased, SlotMode


class Choice(NamedTuple):
    """A job that starts now, and the numbers of its slots."""

    job: Ref
    slots: tuple[int, ...]


class Need(NamedTuple):
    """What a waiting job needs to start, a number of free slots or these slots, and whether they are free."""

    job: Ref
    number: int
    slots: tuple[int, ...]
    met: bool


def choose(spec: SchedulingSpec, waiting: Collection[Ref], free: Sequence[int]) -> list[Choice]:
    """The jobs that can start now. `free` is in ascending order; nobody is given anything else."""
    if spec.queue_based is not None:
        return _from_queue(spec.queue_based, waiting, free)
    return _from_slots(spec.slot_based, waiting, free) if spec.slot_based is not None else []


def needs(spec: SchedulingSpec, waiting: Collection[Ref], free: Sequence[int]) -> list[Need]:
    """What each waiting job needs, those before it counted in where it stands behind them; in order."""
    if spec.queue_based is not None:
        return _queue_needs(spec.queue_based, waiting, free)
    return _slot_needs(spec.slot_based, waiting, free) if spec.slot_based is not None else []


def kept(spec: SchedulingSpec, waiting: Collection[Ref], free: Sequence[int], known: int) -> tuple[int, ...]:
    """The free slots that its first waiting job waits for: Schedulings that come later do not get them.

    `known` is how many slots the Testbed has: what it can never have keeps nobody off.
    """
    if spec.slot_based is not None and spec.slot_based.mode is SlotMode.RELAXED:
        return ()
    first = next(iter(needs(spec, waiting, free)), None)
    if first is None:
        return ()
    if spec.queue_based is not None:
        return tuple(free[: first.number]) if first.number <= known else ()
    return first.slots if all(0 <= slot < known for slot in first.slots) else ()


def _entries(queue: Sequence[Ref], waiting: Collection[Ref]) -> dict[Ref, list[int]]:
    """Job -> its places among the entries that still wait; in the order of its first one."""
    found: dict[Ref, list[int]] = {}
    for index, job in enumerate([each for each in queue if each in waiting]):
        found.setdefault(job, []).append(index)
    return found


def _queue_needs(queue: Sequence[Ref], waiting: Collection[Ref], free: Sequence[int]) -> list[Need]:
    result: list[Need] = []
    total = 0
    for job, places in _entries(queue, waiting).items():
        total += len(places)
        result.append(Need(job, total, (), total <= len(free)))
    return result


def _from_queue(queue: Sequence[Ref], waiting: Collection[Ref], free: Sequence[int]) -> list[Choice]:
    able = [need.job for need in _queue_needs(queue, waiting, free) if need.met]
    entries = _entries(queue, waiting)
    if any(entries[job][-1] >= len(free) for job in able):
        # By the whole queue some of its entries lie past the last free slot, so ESI would never start it;
        # by the entries of those alone who can start, none does.
        entries = _entries(queue, able)
    return [Choice(job, tuple(free[index] for index in entries[job])) for job in able]


def _slot_needs(spec: SlotBased, waiting: Collection[Ref], free: Sequence[int]) -> list[Need]:
    result: list[Need] = []
    before: dict[int, None] = {}
    there = frozenset(free)
    for each in spec.jobs:
        if each.name not in waiting:
            continue
        before = before if spec.mode is SlotMode.STRICT else {}
        before = before | dict.fromkeys(each.slot_ids)
        met = all(slot in there for slot in before)
        result.append(Need(each.name, len(before), tuple(sorted(before)), met))
    return result


def _from_slots(spec: SlotBased, waiting: Collection[Ref], free: Sequence[int]) -> list[Choice]:
    left = dict.fromkeys(free)
    met = {need.job: need.met for need in _slot_needs(spec, waiting, free)}
    result: list[Choice] = []
    for each in spec.jobs:
        if each.name not in met:
            continue
        if met[each.name] and all(slot in left for slot in each.slot_ids):
            for slot in each.slot_ids:
                left.pop(slot, None)
            result.append(Choice(each.name, tuple(sorted(each.slot_ids))))
        elif spec.mode is SlotMode.STRICT:
            break
    return result
