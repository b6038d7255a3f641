"""The slots of one Testbed on one node, counted anew: who sits in which, and what the free ones hold.

Called by `core.esi.slots`, which says for which nodes. Everything is derived from the pods that are on the
node or meant for it; only reservations, and seats of which nothing is written, are remembered.
"""

from fairlead.core.esi.asking import allowed, said, told, too_big, unusable, wants
from fairlead.core.esi.feed import is_ghost
from fairlead.core.esi.numbering import leave
from fairlead.core.esi.places import hold, known, note_start, seat, touch, unseat
from fairlead.core.esi.table import Place, Slot, SlotTable
from fairlead.core.state import State
from fairlead.core.tenancy import PLACES, WHOLE, with_places
from fairlead.model import quantity
from fairlead.model.esi import SlotState
from fairlead.model.pod import Amounts, Pod


class Count:
    """One count. `take` does it; the rest are its steps."""

    def __init__(self, state: State, table: SlotTable, node: str) -> None:
        self._state, self._table, self._node = state, table, node
        self._held = state.inventory.holders(node)
        self._slots = {slot.key: slot for slot in table.by_node[node] if slot.position >= 0}
        self._former = {slot.key: slot for slot in table.by_node[node] if slot.position < 0}
        self._pods: dict[str, Pod] = {}
        """Slot -> the application pod in it, or on its way to it."""
        self._ghosts: dict[str, Pod] = {}
        self._loose: dict[str, None] = {}
        """Those of whom nothing says where they sit: they give way to one that can sit nowhere else."""
        self._homeless: list[Pod] = []
        """Application pods on the node that have no slot."""
        self._amounts = with_places(table.amounts, 1) if state.tenancy else table.amounts

    def take(self) -> None:
        """Count, and let the table and the inventory say so."""
        table, node = self._table, self._node
        self._sit_down()
        self._drop_former()
        lack, closed = self._lack(), self._closed()
        reserved = self._reserved(lack or closed)
        for slot in table.by_node[node]:
            slot.fits = not lack and slot.position >= 0
            hold(self._state, table, slot, self._rest(slot) if slot.fits else ())
            self._tell(slot, reserved, lack or closed)
        self._say(lack, closed)
        if not table.by_node[node]:
            del table.by_node[node]
            leave(self._state, table, node)
        self._state.esi.seeking[table.testbed] = None

    # -- who sits where ------------------------------------------------------------------------------

    def _sit_down(self) -> None:
        """First those of whom it is written where they are, then those who sat before, then the others."""
        state, uid = self._state, self._table.testbed
        left = [pod for pod in self._residents() if not self._sit(pod, told(pod) if pod.node else None)]
        left = [pod for pod in left if not is_ghost(pod)]
        left = [pod for pod in left if not self._sit(pod, self._before(pod))]
        self._homeless = [pod for pod in left if not self._sit_anywhere(pod)]
        for key, pod in self._pods.items():
            seat(state, pod.uid, Place(uid, key))
            if pod.node:
                known(state, pod.uid)
            elif pod.uid in self._loose and _asked(state, pod):
                state.esi.guessed[pod.uid] = None
        for pod in self._homeless:
            place = state.esi.places.get(pod.uid)
            if place is not None and place.testbed == uid:
                unseat(state, pod.uid)

    def _residents(self) -> list[Pod]:
        """Those bound here, then those meant for here, each in order of arrival."""
        pods = self._state.esi.pods.get(self._table.ref, {})
        found = [self._state.pods[uid] for uid in self._held if uid in pods]
        return sorted(found, key=lambda pod: (not pod.node, pod.created, pod.name, pod.uid))

    def _sit(self, pod: Pod, slot: tuple[str, int] | None) -> bool:
        """Let the pod have the slot if nobody sits there; a slot that was one before may be one still."""
        if slot is None or slot[0] != self._node:
            return False
        key = f"{slot[0]}/{slot[1]}"
        seats = self._ghosts if is_ghost(pod) else self._pods
        if key in seats:
            return False
        if key not in self._slots and key not in self._former:
            if is_ghost(pod):
                return False
            self._former[key] = Slot(*slot, -1)
        seats[key] = pod
        return True

    def _before(self, pod: Pod) -> tuple[str, int] | None:
        place = self._state.esi.places.get(pod.uid)
        if place is None or place.testbed != self._table.testbed:
            return None
        node, _, index = place.slot.rpartition("/")
        return node, int(index)

    def _sit_anywhere(self, pod: Pod) -> bool:
        """The first slot here that it may use; of those that are none any more only one that it names."""
        self._loose[pod.uid] = None
        return self._squeeze(pod, {}) or any(self._sit(pod, slot) for slot in said(pod))

    def _squeeze(self, pod: Pod, tried: dict[str, None]) -> bool:
        """A free slot, else one whose loose sitter finds another one: if all find one in any way, they do."""
        here = [slot for slot in allowed(self._table, pod) if slot.node == self._node]
        if any(self._sit(pod, (slot.node, slot.index)) for slot in here):
            return True
        for slot in here:
            sitter = self._pods.get(slot.key)
            if slot.key in tried or sitter is None or sitter.uid not in self._loose:
                continue
            tried[slot.key] = None
            if self._squeeze(sitter, tried):
                self._pods[slot.key] = pod
                return True
        return False

    def _drop_former(self) -> None:
        """Slots that are none any more are listed while somebody runs there."""
        table = self._table
        for key in [key for key in self._former if key not in self._pods]:
            slot = self._former.pop(key)
            table.slots.pop(key, None)
            if self._state.esi.places.get(slot.pod) == (table.testbed, key):
                unseat(self._state, slot.pod)
        table.slots.update(self._former)
        table.by_node[self._node] = [*self._slots.values(), *self._former.values()]

    def _reserved(self, blocked: str) -> dict[str, str]:
        """Slot -> the pod whose reservation stands. Those that do not stand are given up."""
        state, table = self._state, self._table
        found: dict[str, str] = {}
        for key, slot in self._slots.items():
            if not slot.pod or state.esi.places.get(slot.pod) != (table.testbed, key):
                continue
            sitting = self._pods.get(key)
            if sitting is not None and sitting.uid == slot.pod:
                continue
            pod = state.pods.get(slot.pod)
            if pod is None or sitting is not None or blocked or not self._may_keep(slot, pod):
                unseat(state, slot.pod)
            else:
                found[key] = slot.pod
        return found

    def _may_keep(self, slot: Slot, pod: Pod) -> bool:
        state, table = self._state, self._table
        if not wants(state, pod) or slot not in allowed(table, pod) or too_big(table, pod):
            return False
        return not unusable(state, table, slot, pod)

    # -- what fits -----------------------------------------------------------------------------------

    def _used(self, slot: Slot) -> dict[str, int]:
        """What those in the slot hold of the node."""
        used: dict[str, int] = {}
        for pod in (self._pods.get(slot.key), self._ghosts.get(slot.key)):
            for name, amount in self._held.get(pod.uid, ()) if pod is not None else ():
                used[name] = used.get(name, 0) + amount
        return used

    def _rest(self, slot: Slot) -> Amounts:
        """What of the slot nobody in it holds."""
        if slot.key not in self._pods and slot.key not in self._ghosts:
            return self._amounts
        used = self._used(slot)
        return tuple([(name, rest) for name, has in self._amounts if (rest := has - used.get(name, 0)) > 0])

    def _lack(self) -> str:
        """Why not all slots of the node fit; "" if they do, or if there are none."""
        if not self._slots:
            return ""
        need = {name: amount * len(self._slots) for name, amount in self._amounts}
        for key in {**self._pods, **self._ghosts}:
            slot = self._slots.get(key)
            if slot is not None:
                used = self._used(slot)
                for name, amount in self._amounts:
                    need[name] += max(used.get(name, 0) - amount, 0)
        taken = self._foreign()
        node = self._state.inventory.node(self._node)
        have = dict(node.allocatable) if node is not None else {}
        have[PLACES] = WHOLE
        for name, amount in need.items():
            left = have.get(name, 0) - taken.get(name, 0)
            if amount > left:
                return _short(name, amount, left)
        return ""

    def _foreign(self) -> dict[str, int]:
        """What others hold here. Free slots of a later Testbed give way to those of this one."""
        esi, table = self._state.esi, self._table
        seats = (self._pods, self._ghosts)
        own = {pod.uid for each in seats for key, pod in each.items() if key in self._slots}
        taken: dict[str, int] = {}
        for uid, amounts in self._held.items():
            if uid in own:
                continue
            place = esi.holds.get(uid)
            if place is not None and esi.tables[place.testbed].rank >= table.rank:
                continue
            for name, amount in amounts:
                taken[name] = taken.get(name, 0) + amount
        return taken

    def _closed(self) -> str:
        """Why the node takes no pods; "" if it does."""
        node = self._state.inventory.node(self._node)
        if node is None:
            return f"node {self._node} is gone"
        if node.deleting:
            return f"node {self._node} is being deleted"
        if not node.ready:
            return f"node {self._node} is not ready"
        return f"node {self._node} is cordoned" if node.unschedulable else ""

    # -- what is said of it --------------------------------------------------------------------------

    def _tell(self, slot: Slot, reserved: dict[str, str], blocked: str) -> None:
        esi = self._state.esi
        pod, ghost = self._pods.get(slot.key), self._ghosts.get(slot.key)
        uid = pod.uid if pod is not None else reserved.get(slot.key, "")
        if slot.ghost != (ghost.uid if ghost is not None else "") and uid:
            touch(self._state, uid)
        slot.pod, slot.ghost = uid, ghost.uid if ghost is not None else ""
        slot.problem = "" if uid else blocked
        if pod is not None and pod.node:
            slot.state = SlotState.OCCUPIED
        elif uid:
            slot.state = SlotState.RESERVED
        else:
            slot.state = SlotState.ERROR if blocked else SlotState.FREE
        esi.tried.pop(uid, None)
        note_start(self._state, slot)

    def _say(self, lack: str, closed: str) -> None:
        table = self._table
        lost = [f"pod {pod.namespace}/{pod.name} is there without a slot" for pod in self._homeless]
        problems = [text for text in (lack, closed, *lost) if text]
        if problems and self._node in table.labels:
            table.problems[self._node] = problems
        else:
            table.problems.pop(self._node, None)


def _asked(state: State, pod: Pod) -> bool:
    """Whether a bind of the pod may be on its way, sent by this process or by the one before it."""
    intent = state.intents.get(pod.uid)
    return intent is not None and (intent.doubtful or intent.in_flight)


def _short(resource: str, need: int, left: int) -> str:
    if resource == PLACES:
        return "a group has the node for itself"
    has = quantity.show(resource, max(left, 0))
    return f"Requires {quantity.show(resource, need)} of {resource} resources. Available: {has}"
