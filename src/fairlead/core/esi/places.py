"""Pods get places and lose them: the few changes that `core.esi.slots` and `core.esi.seating` share."""

from fairlead.core.esi.asking import wants
from fairlead.core.esi.feed import home_of
from fairlead.core.esi.table import Place, Slot, SlotTable
from fairlead.core.state import State
from fairlead.model.esi import SlotState
from fairlead.model.pod import Amounts

HOLD = "slot:"
"""What keys of slots in `Inventory.held` begin with; no uid does."""


def hold_key(table: SlotTable, slot: Slot) -> str:
    return f"{HOLD}{table.testbed}/{slot.key}"


def hold(state: State, table: SlotTable, slot: Slot, amounts: Amounts) -> None:
    """Let this much of the slot's node be nobody else's; () for nothing."""
    key = hold_key(table, slot)
    if not amounts:
        release(state, key)
        return
    known = key in state.esi.holds
    state.esi.holds[key] = Place(table.testbed, slot.key)
    if state.inventory.hold(key, slot.node, amounts) and known:
        state.reopen()  # it may be less than before


def rest_of(state: State, table: SlotTable, slot: Slot) -> None:
    """A pod has just been granted the slot: what is held for it is less by that."""
    node, amounts = state.inventory.held.get(hold_key(table, slot), ("", ()))
    taken = dict(state.inventory.held.get(slot.pod, ("", ()))[1])
    rest = [(name, left) for name, amount in amounts if (left := amount - taken.get(name, 0)) > 0]
    hold(state, table, slot, tuple(rest) if node else ())


def release(state: State, key: str) -> None:
    if state.esi.holds.pop(key, None) is not None and state.inventory.release(key):
        state.reopen()


def seat(state: State, uid: str, place: Place) -> None:
    """The pod has this slot from now on."""
    esi = state.esi
    if esi.places.get(uid) != place:
        esi.places[uid] = place
        esi.tables[place.testbed].waiting.pop(uid, None)
        touch(state, uid)


def unseat(state: State, uid: str) -> None:
    """The pod has no slot any more; one that waits seeks another."""
    esi = state.esi
    esi.guessed.pop(uid, None)
    if esi.places.pop(uid, None) is not None:
        esi.startable.pop(uid, None)
        esi.tried.pop(uid, None)
        esi.refused.pop(uid, None)
        touch(state, uid)
    pod = state.pods.get(uid)
    home = esi.find("Testbed", home_of(pod))
    if pod is not None and home in esi.tables and wants(state, pod):
        esi.tables[home].waiting[uid] = None
        esi.seeking[home] = None


def known(state: State, uid: str) -> None:
    """The pod's slot is no guess any more: others may have those that it might have had."""
    place = state.esi.places.get(uid)
    if uid in state.esi.guessed and place is not None:
        del state.esi.guessed[uid]
        state.esi.seeking[place.testbed] = None


def note_start(state: State, slot: Slot) -> None:
    """Whether the pod in the slot is ours to start now."""
    pod = state.pods.get(slot.pod) if slot.state is SlotState.RESERVED else None
    if pod is not None and state.ours(pod) and wants(state, pod):
        state.esi.startable[pod.uid] = None
    else:
        state.esi.startable.pop(slot.pod, None)


def touch(state: State, uid: str) -> None:
    """Let the pod's group be looked at: it says why it waits."""
    gid = state.group_of.get(uid)
    if gid is not None:
        state.touch(gid)
