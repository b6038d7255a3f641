"""What the engine's state says about a pod that kube-scheduler asks about.

Used by `api.extender.door`. Pure, and asked in the loop's thread. It trusts the watch and not the question:
of that only the uid counts, and its label where the watch has not shown the pod yet. Must not choose a slot:
`core.esi.slots` does.
"""

from typing import NamedTuple

from fairlead.api.extender.messages import Meta, Victims
from fairlead.core.esi.asking import where, why
from fairlead.core.esi.marks import marks
from fairlead.core.esi.table import Slot
from fairlead.core.state import State
from fairlead.model.command import Bind
from fairlead.model.esi import SCHEDULER, SLOT, TESTBED_LABEL


class Outsider(NamedTuple):
    """Not one of a Testbed's: nothing is said about it."""


class NotYet(NamedTuple):
    """What is waited for; it takes a moment."""

    text: str


class Without(NamedTuple):
    """It belongs to a Testbed and has no slot."""

    reason: str


class Placed(NamedTuple):
    """It has this slot, of this Testbed (namespace/name)."""

    slot: Slot
    testbed: str

    @property
    def text(self) -> str:
        return f"slot {self.slot.key} of testbed {self.testbed}"


Finding = Outsider | NotYet | Without | Placed


def find(state: State, asked: Meta) -> Finding:
    """Which slot the pod has. While that is not written down on the pod it is NotYet: whoever leads next
    must say the same."""
    if not state.ready:
        return NotYet("Fairlead has not seen the whole cluster yet, or does not lead")
    pod = state.pods.get(asked.uid)
    if pod is None:
        if TESTBED_LABEL not in (asked.labels or {}):
            return Outsider()
        return NotYet(f"Fairlead has not seen pod {asked.namespace}/{asked.name} ({asked.uid}) yet")
    if TESTBED_LABEL not in pod.labels:
        return Outsider()
    found = where(state, pod.uid)
    if found is None:
        return Without("the pod ends" if pod.ended or pod.deleting else why(state, pod))
    table, slot = found
    if not pod.node and pod.annotations.get(SLOT) != slot.key:
        return NotYet(f"slot {slot.key} is not written down on pod {pod.namespace}/{pod.name} yet")
    return Placed(slot, str(table.ref))


def elsewhere(found: Placed, names: list[str]) -> dict[str, str]:
    """The reason for each of these nodes but the slot's."""
    text = f"the pod has {found.text}"
    return {name: text for name in names if name != found.slot.node}


def victims(state: State, found: Placed, offered: dict[str, Victims]) -> dict[str, Victims]:
    """Exactly the ghost in the slot, if kube-scheduler found that evictions on its node help; else nobody."""
    slot = found.slot
    ghost, proposed = state.pods.get(slot.ghost), offered.get(slot.node)
    if proposed is None or ghost is None or ghost.ended or ghost.node != slot.node:
        return {}
    violations = min(proposed.violations, 1) if ghost.uid in proposed.pods else 0
    return {slot.node: Victims((ghost.uid,), violations)}


def bind(state: State, uid: str, found: Placed | Outsider, node: str) -> Bind | str:
    """The binding to make, or why there is none to make."""
    pod = state.pods.get(uid)
    if pod is None:
        return f"Fairlead knows no pod of uid {uid}"
    if pod.ended or pod.deleting:
        return "the pod ends"
    if isinstance(found, Placed):
        if node != found.slot.node:
            return f"the pod has {found.text}, so it cannot be bound to {node}"
        labels, annotations = marks(found.slot)
    else:
        if pod.scheduler != SCHEDULER:
            return f"the pod is {pod.scheduler}'s and belongs to no Testbed: it is not bound from here"
        labels, annotations = (), ()
    return Bind("", pod.uid, pod.namespace, pod.name, node, pod.version, pod.scheduler, labels, annotations)
