"""What is true of slots, whatever happened. Part of `core.invariants`, which says who looks when.

Counted from plain objects, not by the functions that keep the slots. Must not change anything.
"""

from fairlead.core.esi.places import hold_key
from fairlead.core.esi.table import Slot, SlotTable
from fairlead.core.state import State
from fairlead.core.tenancy import with_places
from fairlead.model.esi import TESTBED_LABEL, SlotState
from fairlead.model.pod import Amounts


def slots(state: State) -> list[str]:
    """Every broken invariant of slots; none are looked for while some are to be settled."""
    esi = state.esi
    if esi.unsettled:
        return ["slots are not settled at the end of a batch"]
    wrong: list[str] = []
    owners: dict[str, str] = {}
    holds: dict[str, tuple[str, Amounts]] = {}
    for uid, table in esi.tables.items():
        if uid not in esi.testbeds:
            wrong.append(f"testbed {table.ref} is gone but has slots")
        wrong += _numbers(table)
        for key, slot in table.slots.items():
            wrong += _slot(state, table, slot)
            if slot.pod in owners:
                wrong.append(f"pod {slot.pod} has slots {owners[slot.pod]} and {key}")
            if slot.pod:
                owners[slot.pod] = f"{uid}/{key}"
        holds.update(expected_holds(state, table))
    for pod, place in esi.places.items():
        if owners.get(pod) != f"{place.testbed}/{place.slot}":
            wrong.append(f"pod {pod} is noted in slot {place.slot}, its table has {owners.get(pod)}")
    wrong += [f"pod {pod} has no slot to guess" for pod in esi.guessed if pod not in esi.places]
    wrong += [f"pod {pod} has slot {at} and no place" for pod, at in owners.items() if pod not in esi.places]
    held = {key: state.inventory.held.get(key) for key in esi.holds}
    for key in dict.fromkeys([*held, *holds]):
        if held.get(key) != holds.get(key):
            wrong.append(f"slot {key} holds {held.get(key)} but should hold {holds.get(key)}")
    return wrong


def expected_holds(state: State, table: SlotTable) -> dict[str, tuple[str, Amounts]]:
    """What the table's slots are to hold in the inventory: themselves, less what is in them."""
    found: dict[str, tuple[str, Amounts]] = {}
    size = with_places(table.amounts, 1) if state.tenancy else table.amounts
    for slot in table.slots.values():
        if not slot.fits:
            continue
        left = dict(size)
        for uid in (slot.pod, slot.ghost):
            node, amounts = state.inventory.held.get(uid, ("", ()))
            for name, amount in amounts if node == slot.node else ():
                if name in left:
                    left[name] -= amount
        rest = tuple([(name, amount) for name, amount in left.items() if amount > 0])
        if rest:
            found[hold_key(table, slot)] = (slot.node, rest)
    return found


def _numbers(table: SlotTable) -> list[str]:
    """Numbers and keys name the same slots."""
    if [table.slots[key].position if key in table.slots else -1 for key in table.order] != list(
        range(len(table.order))
    ):
        return [f"slots of testbed {table.ref} are not numbered in order"]
    listed = [slot.key for slots in table.by_node.values() for slot in slots]
    if sorted(listed) != sorted(table.slots):
        return [f"testbed {table.ref} has other slots on its nodes than in its table"]
    return []


def _slot(state: State, table: SlotTable, slot: Slot) -> list[str]:
    pod = state.pods.get(slot.pod)
    intent = state.intents.get(slot.pod)
    where = f"slot {slot.key} of testbed {table.ref}"
    wrong: list[str] = []
    if slot.state in (SlotState.FREE, SlotState.ERROR) and slot.pod:
        wrong.append(f"{where} is {slot.state} but has pod {slot.pod}")
    if slot.state in (SlotState.OCCUPIED, SlotState.RESERVED):
        if pod is None or pod.ended or pod.labels.get(TESTBED_LABEL) != table.ref.name:
            wrong.append(f"{where} has pod {slot.pod}, which is none of its testbed's")
        elif (pod.node != "") != (slot.state is SlotState.OCCUPIED):
            wrong.append(f"{where} is {slot.state}, and pod {slot.pod} is on {pod.node!r}")
        elif (pod.node or (intent.node if intent is not None else slot.node)) != slot.node:
            wrong.append(f"{where} has pod {slot.pod}, which is somewhere else")
    if slot.position < 0 and slot.state not in (SlotState.OCCUPIED, SlotState.RESERVED):
        wrong.append(f"{where} is none any more and nobody is in it")
    return wrong
