"""What an audit found wrong is put right: each object by its ordinary handler, then all counted anew.

Called by `core.reduce` for `Repaired` events. Must not believe an audit more than later news: what is known
at a newer version stays, and so does a tombstone that is younger than the audit's list.
"""

from collections.abc import Callable

from msgspec import structs

from fairlead.core.state import State
from fairlead.model import event as ev
from fairlead.model.event import Repaired, Told

Reduce = Callable[[State, ev.Event], None]


def repair(state: State, event: Repaired, reduce: Reduce) -> None:
    """Apply every item by `reduce`, which would drop some of them as no news."""
    for item in event.items:
        match item:
            case ev.PodSeen(pod):
                _unbury(state, pod.uid, event.at)
                old = state.pods.get(pod.uid)
                if old is not None and old.version == pod.version:
                    state.pods[pod.uid] = structs.replace(old, version=pod.version - 1)
            case ev.NodeSeen(node):
                _unbury(state, node.uid, event.at)
                _doubt_node(state, node.name, node.version)
            case ev.OwnerSeen(owner):
                _unbury(state, owner.uid, event.at)
                before = state.owners.get(owner.uid)
                if before is not None and before.version == owner.version:
                    state.owners[owner.uid] = structs.replace(before, version=owner.version - 1)
            case ev.ThingSeen(uid, version, thing):
                _unbury(state, uid, event.at)
                state.surroundings.doubt(thing, uid, version)
            case ev.EsiSeen(thing):
                _unbury(state, thing.uid, event.at)
                if state.esi.versions.get(thing.uid) == thing.version:
                    state.esi.versions[thing.uid] = thing.version - 1
            case _:
                if _version(state, item) > item.version:
                    continue
        reduce(state, item)
    if event.recount:
        recount(state)


def _unbury(state: State, uid: str, at: int) -> None:
    """A list that was asked for at `at` has it, so it was not gone by then."""
    if state.tombstones.get(uid, at + 1) <= at:
        del state.tombstones[uid]


def _doubt_node(state: State, name: str, version: int) -> None:
    inventory = state.inventory
    row = inventory.rows.get(name)
    node = inventory.nodes[row] if row is not None else None
    if row is not None and node is not None and node.version == version:
        inventory.nodes[row] = structs.replace(node, version=version - 1)


def _version(state: State, gone: Told) -> int:
    """The version at which that which is said to be gone is known; -1 if it is not."""
    match gone:
        case ev.PodGone(uid):
            known = state.pods.get(uid)
        case ev.NodeGone(uid):
            known = state.inventory.node(state.node_uids.get(uid, ""))
        case ev.OwnerGone(uid):
            known = state.owners.get(uid)
        case ev.ThingGone(uid):
            return state.surroundings.version_of(uid)
        case ev.EsiGone(uid):
            return state.esi.versions.get(uid, -1)
        case _:
            return -1
    return known.version if known is not None else -1


def recount(state: State) -> None:
    """Count anew whatever is derived from objects and intents; a plan that is being made starts over."""
    for uid in dict.fromkeys([*state.inventory.held, *state.pods, *state.intents]):
        if uid not in state.esi.holds:
            state.recount(uid)
    state.esi.stale.update(dict.fromkeys(state.esi.tables))
    state.inventory.recount()
    inventory = state.inventory
    known = zip(inventory.nodes, inventory.gone_at, strict=True)
    state.node_uids = {node.uid: node.name for node, gone in known if node is not None and not gone}
    state.index, state.moved = None, {}
    state.nodes_at = state.nominal_at = state.version
    for gid in state.started:
        state.unsettled[gid] = None
        state.groups[gid].shares = None
    for gid in (*state.waiting, *state.rejected):
        state.touch(gid)
    state.reopen()
