"""Which slot a pod has is written down on it, where it is not Fairlead that binds it.

One of `control.esi.ESI`. The extender (`api.extender`) names a slot only once the watch shows it on it, so
that whoever leads next names the same: `core.esi.slots` gives a pod the slot that is written on it. A pod of
Fairlead's own gets the same words with its binding. No memory but `Esi.sent`.
"""

from collections.abc import Sequence

import msgspec

from fairlead.core.esi.marks import marks
from fairlead.core.esi.table import Esi, Place, Sent
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.command import Command, ObjectRef, PatchObject
from fairlead.model.esi import SLOT

AGAIN = 10_000
"""Milliseconds after which a write that is not seen is repeated."""
PURPOSE = "slot"


def note(state: State, _: Sequence[Group]) -> list[Command]:
    """A patch for each pod that waits for somebody else to bind it and does not say which slot it has."""
    esi = state.esi
    if not esi.places or not state.ready or not (esi.dirty or _due(esi, state.now)):
        return []
    found = (_patch(state, uid, place) for uid, place in esi.places.items())
    return [command for command in found if command is not None]


def _due(esi: Esi, now: int) -> bool:
    return any(key[1] == PURPOSE and now >= each.at + AGAIN for key, each in esi.sent.items())


def _patch(state: State, uid: str, place: Place) -> PatchObject | None:
    """At whatever version of the pod: kube-scheduler writes its status all the time."""
    pod = state.pods.get(uid)
    if pod is None or pod.node or state.ours(pod) or pod.annotations.get(SLOT) == place.slot:
        state.esi.sent.pop((uid, PURPOSE), None)
        return None
    sent = state.esi.sent.get((uid, PURPOSE))
    if sent is not None and sent.what == place.slot and state.now < sent.at + AGAIN:
        return None
    state.esi.sent[uid, PURPOSE] = Sent(place.slot, pod.version, state.now)
    state.wake(state.now + AGAIN, "")
    labels, annotations = marks(state.esi.tables[place.testbed].slots[place.slot])
    body = msgspec.json.encode({"metadata": {"labels": dict(labels), "annotations": dict(annotations)}})
    return PatchObject(ObjectRef("Pod", pod.namespace, pod.name, uid), body.decode())
