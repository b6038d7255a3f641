"""Which slots a Testbed has and how they are numbered: round robin over its nodes.

Called by `core.esi.slots` when a Testbed or its nodes have changed. Who is in a slot is not decided here.
"""

from typing import NamedTuple

from fairlead.core.esi.table import Slot, SlotTable
from fairlead.core.state import State
from fairlead.model import quantity
from fairlead.model.esi import Testbed
from fairlead.model.pod import Amounts

MOST = 1_000
"""Slots on one node: far more than a node has pods."""
_NO_NUMBER = 1 << 62


class Spec(NamedTuple):
    """A Testbed's spec as it counts here; `problem`: why there are no slots."""

    label: str = ""
    per_node: int = 0
    amounts: Amounts = ()
    problem: str = ""


def read(testbed: Testbed) -> Spec:
    """What a slot has, a place among its node's pods included."""
    spec = testbed.spec
    if spec is None:
        return Spec(problem=testbed.problem or "its spec cannot be read")
    if testbed.deleting:
        return Spec(problem="it is being deleted")
    if not 0 < spec.slots_per_node <= MOST:
        return Spec(problem=f"slotsPerNode is {spec.slots_per_node}, not between 1 and {MOST}")
    try:
        amounts = {name: quantity.amount(name, each) for name, each in spec.resources_per_slot.items()}
    except quantity.QuantityError as error:
        return Spec(problem=f"resourcesPerSlot: {error}")
    if any(amount < 0 for amount in amounts.values()):
        return Spec(problem="resourcesPerSlot: an amount is below 0")
    amounts.setdefault("pods", 1)
    kept = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    return Spec(spec.node_label, spec.slots_per_node, kept)


def lay_out(state: State, testbed: Testbed) -> list[Slot]:
    """Number the slots anew. Returns those that there are no more."""
    esi, uid = state.esi, testbed.uid
    table = esi.tables.get(uid)
    if table is None:
        table = esi.tables[uid] = SlotTable(uid, testbed.ref, (testbed.created, uid))
    table.rank = (testbed.created, uid)
    spec = read(testbed)
    table.amounts, table.problem = spec.amounts, spec.problem
    table.labels = _members(state, spec.label) if spec.per_node else {}
    table.nodes = tuple(sorted(table.labels, key=lambda name: (number(table.labels[name]), name)))
    old, table.slots, table.order = table.slots, {}, []
    for index in range(spec.per_node):
        for node in table.nodes:
            key = f"{node}/{index}"
            slot = old.pop(key, None) or Slot(node, index, 0)
            slot.node_id, slot.position = node_id(table.labels[node]), len(table.order)
            table.slots[key] = slot
            table.order.append(key)
    table.problems = {node: said for node, said in table.problems.items() if node in table.labels}
    before = dict.fromkeys(table.by_node)
    table.by_node = {node: [] for node in table.nodes}
    for slot in table.slots.values():
        table.by_node[slot.node].append(slot)
    for node in before:
        if node not in table.by_node:
            leave(state, table, node)
    for node in table.by_node:
        esi.members.setdefault(node, {})[uid] = None
        esi.stirred[node] = None
    return list(old.values())


def join(state: State, table: SlotTable, node: str) -> None:
    """A pod of the Testbed is on a node that is no member (any more), perhaps in a slot."""
    if node not in table.by_node:
        table.by_node[node] = []
        state.esi.members.setdefault(node, {})[table.testbed] = None
        state.esi.stirred[node] = None


def leave(state: State, table: SlotTable, node: str) -> None:
    """The Testbed has no slots on the node any more."""
    testbeds = state.esi.members.get(node, {})
    testbeds.pop(table.testbed, None)
    if not testbeds:
        state.esi.members.pop(node, None)
    else:
        state.esi.stirred[node] = None  # what it held there is free for others


def number(label: str) -> int:
    """Where a node with this value of the label stands; values that are no whole number come last."""
    return int(label) if label.isascii() and label.isdigit() and len(label) < 19 else _NO_NUMBER


def node_id(label: str) -> int:
    """The value as a number, if nothing is lost by that; else -1."""
    return number(label) if number(label) != _NO_NUMBER and str(number(label)) == label else -1


def _members(state: State, label: str) -> dict[str, str]:
    """Present nodes that have the label -> its value."""
    inventory = state.inventory
    return {
        node.name: node.labels[label]
        for row, node in enumerate(inventory.nodes)
        if node is not None and label in node.labels and not inventory.gone_at[row]
    }
