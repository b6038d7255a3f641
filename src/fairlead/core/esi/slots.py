"""Slots of Testbeds brought up to date: who is in which, which are free, and the free ones held.

Called by `core.engine` whenever groups are looked at, and by tests. Looks at what is: the same pods, nodes
and Testbeds give the same slots, but for reservations, which stay where they are while they may. Only nodes
whose pods, size or labels have changed are looked at. A pod that runs is never touched, whatever becomes of
its slot. Must not start pods: that is `control.esi.placing`.

A node is counted like this: pods bound to it or meant for it sit down first, then reservations that stand;
what else is on it is foreign. If all slots of the node still fit, the free part of each is held in the
inventory under a key of its own, so that nobody else is placed there; else none is, and none is free.
"""

from collections.abc import Iterable

from fairlead.core.esi.asking import allowed, in_doubt, somebody_elses, too_big, unusable, wants
from fairlead.core.esi.feed import home_of, is_ghost
from fairlead.core.esi.numbering import join, lay_out, leave
from fairlead.core.esi.places import hold_key, note_start, release, seat, unseat
from fairlead.core.esi.seating import Count
from fairlead.core.esi.table import Esi, Place, Slot, SlotTable
from fairlead.core.state import State
from fairlead.model.esi import SLOT, SlotState
from fairlead.model.pod import Pod


def settle(state: State) -> None:
    """Let slots, holds and places be what pods, nodes and Testbeds say now."""
    while state.esi.unsettled:
        _settle(state, state.esi)


def _settle(state: State, esi: Esi) -> None:
    esi.dirty = True
    stale, esi.stale = esi.stale, {}
    for uid in _in_order(esi, stale):
        _lay_out(state, uid)
    looked, esi.looked = esi.looked, {}
    for uid in looked:
        _look_at(state, uid)
    stirred, esi.stirred = esi.stirred, {}
    for node in stirred:
        for uid in _in_order(esi, esi.members.get(node, {})):
            Count(state, esi.tables[uid], node).take()
    seeking, esi.seeking = esi.seeking, {}
    for uid in _in_order(esi, seeking):
        if uid in esi.tables:
            _assign(state, esi.tables[uid])


def free_of(table: SlotTable) -> list[Slot]:
    """The free slots in order of their numbers."""
    return [slot for key in table.order if (slot := table.slots[key]).state is SlotState.FREE]


def _in_order(esi: Esi, uids: Iterable[str]) -> list[str]:
    """Testbeds, the earlier ones first; those that are gone before all."""
    ranks = {uid: esi.tables[uid].rank if uid in esi.tables else (0, uid) for uid in uids}
    for uid in ranks:
        testbed = esi.testbeds.get(uid)
        if testbed is not None:
            ranks[uid] = (testbed.created, uid)
    return sorted(ranks, key=ranks.__getitem__)


# -- Testbeds and pods -------------------------------------------------------------------------------


def _lay_out(state: State, uid: str) -> None:
    esi = state.esi
    testbed = esi.testbeds.get(uid)
    if testbed is None:
        _dissolve(state, uid)
        return
    for slot in lay_out(state, testbed):
        release(state, hold_key(esi.tables[uid], slot))
        pod = state.pods.get(slot.pod)
        if pod is not None and wants(state, pod):
            unseat(state, slot.pod)
    esi.looked.update(esi.pods.get(testbed.ref, {}))
    esi.seeking[uid] = None


def _dissolve(state: State, uid: str) -> None:
    """The Testbed is gone: what its free slots held is free; pods in its slots run on without one."""
    esi = state.esi
    table = esi.tables.pop(uid, None)
    if table is None:
        return
    esi.seeking.pop(uid, None)
    for node in table.by_node:
        leave(state, table, node)
    for slot in table.slots.values():
        release(state, hold_key(table, slot))
        if esi.places.get(slot.pod) == (uid, slot.key):
            unseat(state, slot.pod)


def _look_at(state: State, uid: str) -> None:
    """A pod has changed: does it want a slot, and may it keep the one that it has?"""
    esi, pod = state.esi, state.pods.get(uid)
    for each in esi.tables.values():
        each.waiting.pop(uid, None)
    home = esi.find("Testbed", home_of(pod))
    held = state.inventory.held.get(uid)
    place = esi.places.get(uid)
    if place is not None:
        slot = esi.tables[place.testbed].slots.get(place.slot)
        if slot is not None:
            esi.stir(slot.node)
        there = slot is not None if held is None else held[0] == place.slot.rpartition("/")[0]
        if pod is None or pod.ended or home != place.testbed or not there:
            unseat(state, uid)
            place = None
    table = esi.tables.get(home)
    if table is None or pod is None:
        return
    if held is not None and not is_ghost(pod):
        join(state, table, held[0])
    if place is None and wants(state, pod):
        table.waiting[uid] = None
        esi.seeking[home] = None


def _assign(state: State, table: SlotTable) -> None:
    """The first free slot that it may use for each who waits for one: first for those of whom it was written
    down (`control.esi.noting`), then in order of arrival."""
    pods: list[Pod] = []
    for uid, slots in table.waiting.items():
        pod = state.pods[uid]
        if slots is None:
            slots = table.waiting[uid] = _usable(table, pod)
        for slot in slots:
            if slot.state is SlotState.FREE:
                pods.append(pod)
                break
    given = state.esi.given(table.testbed) if pods else {}
    doubt = in_doubt(state, table) if pods and state.esi.guessed else {}
    for pod in sorted(pods, key=lambda pod: (SLOT not in pod.annotations, pod.created, pod.name, pod.uid)):
        for slot in (table.waiting[pod.uid] or ()) if wants(state, pod) else ():
            if slot.state is not SlotState.FREE or slot.key in doubt:
                continue
            if somebody_elses(state.esi, given, slot, pod):
                continue
            if not unusable(state, table, slot, pod):
                slot.state, slot.pod = SlotState.RESERVED, pod.uid
                seat(state, pod.uid, Place(table.testbed, slot.key))
                note_start(state, slot)
                break


def _usable(table: SlotTable, pod: Pod) -> tuple[Slot, ...]:
    """Where it may go, in the order in which it is to be tried."""
    if too_big(table, pod):
        return ()
    written = pod.annotations.get(SLOT)
    return tuple(sorted(allowed(table, pod), key=lambda slot: slot.key != written))
