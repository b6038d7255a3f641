"""What tests of slots share: a simulated cluster with one Testbed, and pods that are to go to its slots."""

from collections.abc import Mapping
from typing import Any

from fairlead.core.esi.table import Slot, SlotTable
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.esi import (
    GHOST_LABEL,
    ID_LABEL,
    IDS_LABEL,
    NODE_LABEL,
    SCHEDULER,
    SLOTS,
    TESTBED_LABEL,
    HoldCapacity,
    SlotState,
    Testbed,
    TestbedOptions,
    TestbedSpec,
)
from fairlead.model.pod import Amounts, OwnerRef, Pod, Shape
from fairlead.sim.esi_world import EsiWorld

LABEL = "tuberlin.de/slots"
MI = 1 << 20
SIZE = (600, 1024 * MI)
"""Milli-cores and bytes of a slot, if nothing else is said."""


def bed_of(name: str = "tb", slots: int = 2, *, cpu: str = "600m", **options: Any) -> Testbed:
    spec = TestbedSpec(options.pop("label", LABEL), slots, {"cpu": cpu, "memory": "1Gi"})
    return Testbed(f"uid-{name}", 0, "default", name, spec, **options)


def ghostly(name: str = "tb", slots: int = 2) -> Testbed:
    """One whose free slots are held by ghost pods, too."""
    options = TestbedOptions(HoldCapacity.PODS)
    spec = TestbedSpec(LABEL, slots, {"cpu": "600m", "memory": "1Gi"}, options)
    return Testbed(f"uid-{name}", 0, "default", name, spec)


def requests(cpu: int = SIZE[0], memory: int = SIZE[1]) -> Amounts:
    return tuple((name, n) for name, n in (("cpu", cpu), ("memory", memory), ("pods", 1)) if n)


def slotted(
    name: str, ids: str = "", slots: str = "", *, bed: str = "tb", asks: Amounts = (), **fields: Any
) -> Pod:
    """A pod of an application: `ids` is the old label (numbers), `slots` the annotation (NODE/INDEX)."""
    labels = {TESTBED_LABEL: bed, GHOST_LABEL: "false"} | ({IDS_LABEL: ids} if ids else {})
    notes = {SLOTS: slots} if slots else {}
    fields = {"scheduler": SCHEDULER, "labels": labels, "annotations": notes} | fields
    return Pod(name, "default", name, 0, Shape(asks or requests()), **fields)


def ghost(node: str, index: int, bed: str = "tb", uid: str = "") -> Pod:
    name = f"ghostpod-{bed}-on-{node}-{index}"
    labels = {TESTBED_LABEL: bed, GHOST_LABEL: "true", ID_LABEL: str(index), NODE_LABEL: node}
    owner = OwnerRef("Testbed", bed, f"uid-{bed}")
    return Pod(uid or name, "default", name, 0, Shape(requests()), node=node, labels=labels, owner=owner)


def plain(name: str, cpu: int, **fields: Any) -> Pod:
    """A pod of nobody's Testbed."""
    fields = {"scheduler": "fairlead"} | fields
    return Pod(name, "default", name, 0, Shape(requests(cpu, 0)), **fields)


def world(nodes: Mapping[str, str] | None = None, *beds: Testbed, **options: Any) -> EsiWorld:
    """Nodes of two cores with the values of their label, and the Testbeds, settled."""
    made = EsiWorld(**options)
    for name, value in (nodes if nodes is not None else {"n0": "0", "n1": "1"}).items():
        made.node(name, {LABEL: value} if value else {})
    for bed in beds or (bed_of(),):
        made.put(bed)
    made.run(100)
    return made


def table(made: EsiWorld, name: str = "tb") -> SlotTable:
    state = made.engine.state
    (uid,) = [uid for uid, bed in state.esi.testbeds.items() if bed.name == name]
    return state.esi.tables[uid]


def slot(made: EsiWorld, key: str, name: str = "tb") -> Slot:
    return table(made, name).slots[key]


def states(made: EsiWorld, name: str = "tb") -> dict[str, str]:
    """Slot -> its state, and who has it."""
    return {
        key: str(each.state) + (f" {each.pod}" if each.pod else "")
        for key, each in table(made, name).slots.items()
    }


def free(made: EsiWorld, node: str, what: str = "cpu") -> int:
    """What of the node is nobody's."""
    inventory = made.engine.state.inventory
    return int(inventory.free[inventory.resources[what], inventory.rows[node]])


def group(state: State, pod: str) -> Group:
    return state.groups[state.group_of[pod]]


def words(made: EsiWorld, pod: str) -> str:
    """Why the pod waits, as people read it."""
    return group(made.engine.state, pod).reason.text


FREE, ERROR = str(SlotState.FREE), str(SlotState.ERROR)
