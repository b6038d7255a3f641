"""What a pod says of slots: which it may use, which it has, whether it is of their size; and why it waits.

Called by `core.esi.slots` and `core.verify`, and for people by `core.groups` and `control.esi`. Reads labels
and annotations; must not change anything.
"""

from collections.abc import Iterator, Mapping

from fairlead.core.esi.feed import home_of, is_ghost, made_for
from fairlead.core.esi.table import Esi, Slot, SlotTable
from fairlead.core.explain import amounts_text
from fairlead.core.labels import constraints
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.esi import ID_LABEL, IDS_LABEL, NODE_LABEL, SLOT, SLOTS, SlotState
from fairlead.model.group import Phase
from fairlead.model.pod import Amounts, Pod

_TOLERANCE = 1025
"""In thousandths of a slot: a pod that asks for a little more still belongs, for Spark rounds memory."""
_NAMED = 4
"""So many slots are named to people."""


def wants(state: State, pod: Pod) -> bool:
    """Whether the pod is to have a slot as soon as one is free: it is neither on a node nor meant for one."""
    return not (
        pod.node or pod.ended or pod.deleting or pod.gated or is_ghost(pod) or pod.uid in state.intents
    )


def key_parts(key: str) -> tuple[str, int] | None:
    """NODE/INDEX as its parts; None if it is not that."""
    node, slash, index = key.strip().rpartition("/")
    if not (slash and node and index.isascii() and index.isdigit() and len(index) < 6):
        return None
    return node, int(index)


def told(pod: Pod) -> tuple[str, int] | None:
    """The slot that a pod on a node, or a ghost, is said to be in; None if nothing says so."""
    parts = key_parts(pod.annotations.get(SLOT, ""))
    if parts is None:
        parts = key_parts(f"{pod.labels.get(NODE_LABEL, '')}/{pod.labels.get(ID_LABEL, '')}")
    return parts if parts is not None and parts[0] == pod.node else None


def said(pod: Pod) -> list[tuple[str, int]]:
    """The slots that its annotation allows, as it names them."""
    found = (key_parts(part) for part in pod.annotations.get(SLOTS, "").split(","))
    return [parts for parts in found if parts is not None]


def allowed(table: SlotTable, pod: Pod) -> list[Slot]:
    """The slots that the pod may use, in order of their numbers: by its annotation, else by its label."""
    if SLOTS in pod.annotations:
        found = (table.slots.get(f"{node}/{index}") for node, index in dict.fromkeys(said(pod)))
    else:
        found = (table.at(number) for number in dict.fromkeys(_numbers(pod)))
    return sorted((slot for slot in found if slot is not None and slot.position >= 0), key=_position)


def _position(slot: Slot) -> int:
    return slot.position


def _numbers(pod: Pod) -> Iterator[int]:
    for text in pod.labels.get(IDS_LABEL, "").split("_"):
        if text.isascii() and text.isdigit() and len(text) < 10:
            yield int(text)


def too_big(table: SlotTable, pod: Pod) -> str:
    """How the pod is bigger than a slot, tolerance included; "" if it belongs into one."""
    has = dict(pod.shape.requests)
    over = [(name, have) for name, have in table.amounts if has.get(name, 0) * 1000 > have * _TOLERANCE]
    if not over:
        return ""
    asks = amounts_text(tuple((name, has[name]) for name, _ in over))
    return f"it asks for {asks}, a slot of testbed {table.ref.name} has {amounts_text(tuple(over))}"


def beyond(slot: Amounts, pod: Amounts) -> Amounts:
    """What the pod takes from its node that its slot does not have."""
    has = dict(slot)
    return tuple([(name, more) for name, amount in pod if (more := amount - has.get(name, 0)) > 0])


def unusable(state: State, table: SlotTable, slot: Slot, pod: Pod) -> str:
    """Why the pod may not use this slot, be it free; "" if it may. Others' claims do not matter here."""
    inventory = state.inventory
    row = inventory.rows.get(slot.node)
    if row is None or not inventory.classes().now(constraints(pod.shape))[row]:
        return f"node {slot.node} does not match its nodeSelector, affinity and tolerations"
    more = beyond(table.amounts, pod.shape.requests)
    if more and not inventory.fits(slot.node, more):
        return f"node {slot.node} has not {amounts_text(more)} more than the slot"
    return ""


def somebody_elses(esi: Esi, given: Mapping[str, str], slot: Slot, pod: Pod) -> str:
    """The uid of the BatchJob that the slot is assigned to (`Esi.given`), if the pod is none of its; else "".

    An operator that does not pass annotations on names the application in a label.
    """
    job = esi.jobs.get(given.get(slot.key, ""))
    if job is None:
        return ""
    makers = made_for(pod)
    his = job.uid in makers or esi.job_status(job.uid).application in makers
    return "" if his or (not makers and job.name in pod.labels.values()) else job.uid


def in_doubt(state: State, table: SlotTable) -> dict[str, str]:
    """Slots that a pod may turn out to have of which it is not known which one it has -> that pod."""
    found: dict[str, str] = {}
    for uid in state.esi.guessed:
        place, pod = state.esi.places.get(uid), state.pods.get(uid)
        if place is not None and pod is not None and place.testbed == table.testbed:
            node = place.slot.rpartition("/")[0]
            found.update({slot.key: uid for slot in allowed(table, pod) if slot.node == node})
    return found


# -- words -------------------------------------------------------------------------------------------


def where(state: State, uid: str) -> tuple[SlotTable, Slot] | None:
    """The slot that the pod has; None if it has none."""
    place = state.esi.places.get(uid)
    table = state.esi.tables.get(place.testbed) if place is not None else None
    slot = table.slots.get(place.slot) if place is not None and table is not None else None
    return (table, slot) if table is not None and slot is not None else None


def why(state: State, pod: Pod) -> str:
    """Why a pod that is not on a node yet waits, in one sentence."""
    esi, ref = state.esi, home_of(pod)
    found = where(state, pod.uid)
    if found is not None:
        table, slot = found
        text = f"waits for slot {slot.key} of testbed {table.ref.name}"
        if slot.ghost and slot.ghost in state.pods:
            text = f"{text}, which ghost pod {state.pods[slot.ghost].name} leaves"
        refused = esi.refused.get(pod.uid)
        return f"{text}; its start was refused: {refused}" if refused else text
    table = esi.tables.get(esi.find("Testbed", ref))
    if table is None:
        return f"testbed {ref} does not exist" if ref is not None else "names no testbed"
    if table.problem:
        return f"testbed {ref} has no slots: {table.problem}"
    if not (pod.annotations.get(SLOTS) or pod.labels.get(IDS_LABEL)):
        return f"names no slots: annotation {SLOTS} (NODE/INDEX,...) says which it may use"
    if text := too_big(table, pod):
        return text
    slots = allowed(table, pod)
    if not slots:
        return f"none of the slots that it may use exists in testbed {ref}"
    free = [slot for slot in slots if slot.state is SlotState.FREE]
    given = esi.given(table.testbed) if free else {}
    doubt = in_doubt(state, table) if free else {}
    if free and all(slot.key in doubt for slot in free):
        other = state.pods[doubt[free[0].key]]
        text = f"slot {free[0].key} of testbed {table.ref.name} may be pod {other.namespace}/{other.name}'s"
        return f"{text}: a request that was sent before the scheduler began anew may be on its way"
    job = esi.jobs.get(somebody_elses(esi, given, free[0], pod)) if free else None
    if job is not None:
        return f"slot {free[0].key} of testbed {table.ref.name} is assigned to BatchJob {job.ref}"
    if free and (text := unusable(state, table, free[0], pod)):
        return f"it may not use slot {free[0].key} of testbed {ref.name if ref else ''}: {text}"
    more = f" and {len(slots) - _NAMED} more" if len(slots) > _NAMED else ""
    keys = ", ".join(slot.key for slot in slots[:_NAMED])
    return f"no slot it may use is free: {keys}{more} of testbed {table.ref.name}"


def who(state: State, slot: Slot) -> str:
    """Why the slot is not free, for people; "" if it is."""
    if slot.pod:
        pod = state.pods.get(slot.pod)
        name = f"{pod.namespace}/{pod.name}" if pod is not None else slot.pod
        return f"{'has' if slot.state is SlotState.OCCUPIED else 'is reserved for'} pod {name}"
    return slot.problem


def next_step(state: State, group: Group) -> str:
    """What has to happen for a pod to start in its slot; "" for a group that waits for no slot."""
    pod = next((state.pods[uid] for uid in group.pods), None)
    if not group.slotted or group.phase is not Phase.QUEUED or pod is None:
        return ""
    if where(state, pod.uid) is not None:
        return "it starts as soon as nothing speaks against its slot"
    table = state.esi.tables.get(state.esi.find("Testbed", home_of(pod)))
    slots = allowed(table, pod) if table is not None else []
    taken = [f"{slot.key} {text}" for slot in slots[:_NAMED] if (text := who(state, slot))]
    told = f" ({'; '.join(taken)})" if taken else ""
    return f"it starts once a slot that it may use is free{told}"
