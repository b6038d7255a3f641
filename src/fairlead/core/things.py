"""Events about what surrounds pods and nodes become state: namespaces, storage objects, device classes.

Called by `core.reduce`, whose part this is for these events. Must not decide anything: whoever waits is
looked at again, by a plan or by `control.claims`.
"""

from collections.abc import Callable

from fairlead.core.assume import done, failed
from fairlead.core.state import State
from fairlead.core.surroundings import Held, Name
from fairlead.core.tombstones import bury
from fairlead.model import event as ev
from fairlead.model.group import Why
from fairlead.model.storage import Attachment, Claim, PersistentVolume
from fairlead.model.thing import THINGS, DeviceClass, Namespace, Thing, kind_of

KINDS = frozenset(kind_of(each) for each in THINGS)


def seen(state: State, event: ev.ThingSeen) -> None:
    if event.uid in state.tombstones:
        return
    changed, replaced = state.surroundings.put(event.uid, event.version, event.thing)
    if replaced:
        bury(state, replaced)
    if changed and not isinstance(event.thing, Attachment):  # one more attached volume helps nobody
        _consider(state, event.thing)


def gone(state: State, event: ev.ThingGone) -> None:
    bury(state, event.uid)
    thing = state.surroundings.drop(event.uid)
    if thing is not None:
        _consider(state, thing)


def listed(state: State, event: ev.Listed) -> None:
    """The end of a list: what is known and was not in it is gone."""
    present = dict.fromkeys(event.uids)
    for uid in state.surroundings.missing(event.kind, present, event.version):
        gone(state, ev.ThingGone(uid, event.version))


def devices_behind(state: State) -> Callable[[str], str] | None:
    """Tells of an extended resource which DeviceClass it comes from, "" for one that nodes offer themselves.

    None where there are no DeviceClasses. As for kube-scheduler a node's own offer goes first: where any node
    has one, such nodes are waited for.
    """
    inventory, backed = state.inventory, state.surroundings.backed
    if not state.surroundings.all(DeviceClass):
        return None

    def behind(resource: str) -> str:
        row = inventory.resources.get(resource)
        return "" if row is not None and inventory.capacity[row].any() else backed(resource)

    return behind


def look_for_devices(state: State) -> None:
    """Whether a group must wait for what devices and their classes offer may be different now."""
    for group in state.groups.values():
        if group.reason.why is Why.UNSUPPORTED:
            state.touch(group.id)


def _consider(state: State, thing: Thing) -> None:
    """Let those be looked at again for whom the change may matter."""
    match thing:
        case DeviceClass():
            for gid in (*state.waiting, *state.rejected):
                state.touch(gid)
            look_for_devices(state)
        case Namespace():
            state.reopen()
        case _:
            _stir(state, thing)
            if any(shape.rules.volumes for shape, _ in state.wanted.values()):
                state.reopen()


def _stir(state: State, thing: Thing) -> None:
    """Pods that wait only for their claims are bound, or given up, as soon as these tell."""
    match thing:
        case Claim():
            claims = [(thing.namespace, thing.name)]
        case PersistentVolume():
            claims = [state.surroundings.chosen_for(thing.name), (thing.claim or ("", ""))[:2]]
        case _:
            return
    for held in state.surroundings.held.values():
        for claim in claims:
            if claim in held.claims and _matters(state, held, claim):
                state.to_bind.update(held.pods)


def _matters(state: State, held: Held, claim: Name) -> bool:
    """Whether there is anything to do now for those who wait for this claim among others."""
    if done(state, claim):
        del held.claims[claim]
        return not held.claims
    choice = state.surroundings.choices.get(claim)
    return choice is None or not choice.written or failed(state, choice) != ""
