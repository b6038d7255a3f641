"""Which slot a pod has is written down on it, where it is not Fairlead that binds it.

One of `control.esi.ESI`. The extender (`api.extender`) names a slot only once the watch shows it on it, so
that whoever leads next names the same: `core.esi.slots` gives a pod the slot that is written on it. A pod of
Fairlead's own gets the same words with its binding. No memory but `Esi.sent`.
"""

from collections.abc import Sequence

import msgspec

from fairlead.core.esi.marks import marks
from fairlead.core.esi.table import Esi, Place, Sent, Slot
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.command import Command, DeleteObject, ObjectRef, PatchObject
from fairlead.model.esi import SLOT
from fairlead.model.pod import Pod

AGAIN = 10_000
"""Milliseconds after which a write that is not seen is repeated."""
PURPOSE = "slot"


def note(state: State, _: Sequence[Group]) -> list[Command]:
    """A patch for each pod that waits for somebody else to bind it and does not say which slot it has."""
    esi = state.esi
    if not esi.places or not state.ready or not (esi.dirty or _due(esi, state.now)):
        return []
    return [command for uid, place in esi.places.items() for command in _written(state, uid, place)]


def _due(esi: Esi, now: int) -> bool:
    return any(key[1] == PURPOSE and now >= each.at + AGAIN for key, each in esi.sent.items())


def _written(state: State, uid: str, place: Place) -> list[Command]:
    """At whatever version of the pod: kube-scheduler writes its status all the time."""
    pod = state.pods.get(uid)
    if pod is None or pod.node or state.ours(pod) or pod.annotations.get(SLOT) == place.slot:
        state.esi.sent.pop((uid, PURPOSE), None)
        return []
    sent = state.esi.sent.get((uid, PURPOSE))
    if sent is not None and sent.what == place.slot and state.now < sent.at + AGAIN:
        return []
    state.esi.sent[uid, PURPOSE] = Sent(place.slot, pod.version, state.now)
    state.wake(state.now + AGAIN, "")
    slot = state.esi.tables[place.testbed].slots[place.slot]
    labels, annotations = marks(slot)
    body = msgspec.json.encode({"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})
    patch = PatchObject(ObjectRef("Pod", pod.namespace, pod.name, uid), body.decode())
    return [patch, *_roused(state, pod, slot)]


def _roused(state: State, pod: Pod, slot: Slot) -> list[Command]:
    """Of a pod that it has found no room for kube-scheduler thinks again only when room is made: if the pod
    gets its slot only then, nobody would ask to preempt the ghost in it, for five minutes."""
    ghost = state.pods.get(slot.ghost)
    if ghost is None or ghost.deleting or not pod.condition.startswith("False/"):
        return []
    return [DeleteObject(ObjectRef("Pod", ghost.namespace, ghost.name, ghost.uid), grace=0)]
