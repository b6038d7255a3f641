"""How a pod says which slot it has: what `core.esi.asking` reads, whoever writes it."""

from fairlead.core.esi.table import Slot
from fairlead.model.esi import ID_LABEL, LONGEST_LABEL, NODE_LABEL, SLOT

Pairs = tuple[tuple[str, str], ...]


def marks(slot: Slot) -> tuple[Pairs, Pairs]:
    """The labels and the annotations. ESI's label with the node's name is left out where it does not fit."""
    labels = [(ID_LABEL, str(slot.index))]
    if len(slot.node) <= LONGEST_LABEL:
        labels.append((NODE_LABEL, slot.node))
    return tuple(labels), ((SLOT, slot.key),)
