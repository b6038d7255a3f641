"""Events become state: one short function per event, each replacing one value and counting again.

Called by `core.engine` for every event of a batch. Must not decide anything and must not return
commands; what it touches is looked at by `core.groups` at the end of the batch. Older news than what
is known of a uid is dropped, and gone uids leave a tombstone, so lists, repeats and late events are
harmless (requirement F32).
"""

from collections.abc import Callable
from typing import Any, cast

from msgspec import structs

from fairlead.core import outcomes, repair, things
from fairlead.core.encounters import landed_before, meet
from fairlead.core.esi import feed
from fairlead.core.grouping import Key, key_of
from fairlead.core.live import Group
from fairlead.core.losses import look_at_node, miss
from fairlead.core.redate import clock_jumped
from fairlead.core.rewind import rewound
from fairlead.core.state import State
from fairlead.core.tombstones import bury
from fairlead.model import event as ev
from fairlead.model.group import Phase
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod
from fairlead.model.rules import NO_RULES
from fairlead.model.thing import DeviceClass


def reduce(state: State, event: ev.Event) -> None:
    """Apply one event (PlanProposed excepted: `core.verify` answers that)."""
    handler = _HANDLERS.get(type(event))
    if handler is not None:
        handler(state, event)


# -- pods --------------------------------------------------------------------------------------------


def _pod_seen(state: State, event: ev.PodSeen) -> None:
    pod = event.pod
    old = state.pods.get(pod.uid)
    state.older.pop(pod.uid, None)
    if (old is not None and pod.version <= old.version) or pod.uid in state.tombstones:
        if old is not None and pod.version < old.version:
            state.older[pod.uid] = pod
        return
    state.pods[pod.uid] = pod
    if pod.shape.rules is not NO_RULES and state.spoken.hear(pod.shape):
        for gid in (*state.waiting, *state.rejected):  # more of their pods matters now than did before
            state.touch(gid)
    there = bool(pod.node) or pod.uid in state.intents
    if there and old is not None and state.likes and _shown(old) != _shown(pod):
        state.reopen()
    if state.ours(pod):
        if "store" in state.missing:  # it may know the pod's group
            state.early.setdefault(pod.uid, state.now)
        else:
            _join(state, old, pod)
            _count_end(state, old, pod)
    intent = state.intents.get(pod.uid)
    if intent is not None and (pod.node or pod.ended):
        state.drop_intent(pod.uid)
    state.recount(pod.uid)
    feed.pod_changed(state, old, pod)
    if pod.ended:
        state.landed.pop(pod.uid, None)
    elif pod.node and not (old is not None and old.node):
        meet(state, pod)


def _shown(pod: Pod) -> tuple[object, ...]:
    """What others may mind of a pod on a node."""
    return pod.labels, pod.deleting


def _join(state: State, old: Pod | None, pod: Pod) -> None:
    """Put the pod into the group that its labels and owner name now (F13)."""
    key = key_of(pod)
    current = state.groups.get(state.group_of.get(pod.uid, ""))
    if current is not None and current.key != key.text:
        if pod.node or pod.uid in state.intents:
            if old is None or key_of(old) != key:
                state.ignored_changes[pod.uid] = key.text
        else:
            _leave(state, pod.uid)
            current = None
    if current is None:
        granted = state.groups.get(state.restored_pods.get(pod.uid, ""))
        current = granted or _group_for(state, key, pod)  # a grant holds, whatever the labels say by now
        if current is None:
            return
        current.pods[pod.uid] = None
        state.group_of[pod.uid] = current.id
    if pod.owner is not None and pod.owner.uid not in current.owners:
        current.owners[pod.owner.uid] = None
        state.groups_of_owner.setdefault(pod.owner.uid, {})[current.id] = None
    state.touch(current.id)


def _group_for(state: State, key: Key, pod: Pod) -> Group | None:
    """The present incarnation of the key's group; a new one if it has ended. None for old, ended pods."""
    group = state.by_key.get(key.text)
    if group is not None and (group.phase is not Phase.ENDED or group.rejected):
        if pod.ended and _of_earlier_incarnation(state, group, pod):
            return None
        if not _left_behind(state, group, pod):
            return group
    if pod.ended or (pod.deleting and not pod.node):
        return None
    incarnation = state.incarnations.get(key.text, -1) + 1
    first_seen = state.early.get(pod.uid, state.now) or pod.created
    group = Group(key.text, incarnation, pod.namespace, key.name, key.source, first_seen)
    state.incarnations[key.text] = incarnation
    state.retired.pop(key.text, None)
    state.groups[group.id] = state.by_key[key.text] = group
    state.unsequenced[group.id] = None
    return group


def _of_earlier_incarnation(state: State, group: Group, pod: Pod) -> bool:
    """Whether a pod that is first met ended belongs to a group that used the same label before."""
    if not group.incarnation or state.restored_pods.get(pod.uid) == group.id:
        return False
    return pod.created + 1000 < group.first_seen  # creation times are whole seconds


def _left_behind(state: State, group: Group, pod: Pod) -> bool:
    """Whether the started group is on its way out and the new pod opens the next incarnation (I3).

    So it is when its owners are gone and all that lives of it is being deleted, as when a Job is
    deleted and made anew under the same name while its old pods still terminate.
    """
    if group.phase not in (Phase.STARTING, Phase.RUNNING) or pod.deleting or pod.node:
        return False
    if group.timed_out:  # a controller brought it for one that is being ended (times are whole seconds)
        return pod.created + 1000 > group.started_at + group.duration
    if group.failing:
        return pod.created + 1000 > group.since
    if pod.owner is None and group.completed:
        return False
    for uid in group.owners:
        owner = state.owners.get(uid)
        if uid not in state.tombstones and (owner is None or not (owner.deleting or owner.ended)):
            return False
    live = [p for uid in group.pods if not (p := state.pods[uid]).ended]
    return bool(live) and all(p.deleting for p in live)


def regroup(state: State) -> None:
    """A label changed while its pod was being bound; if that came to nothing, the change counts now (F13)."""
    loose, state.loose = state.loose, {}
    for uid in loose:
        pod = state.pods.get(uid)
        if pod is not None and not pod.node and not pod.ended and uid not in state.intents:
            _join(state, pod, pod)


def _leave(state: State, uid: str) -> None:
    group = state.groups.get(state.group_of.pop(uid, ""))
    if group is not None:
        group.pods.pop(uid, None)
        state.touch(group.id)


def _count_end(state: State, old: Pod | None, pod: Pod) -> None:
    if pod.ended and (old is None or not old.ended):
        group = state.groups.get(state.group_of.get(pod.uid, ""))
        if group is not None:
            group.completed += pod.phase == "Succeeded"
            # A kubelet reports a deleted pod as failed before it goes: that is no failure of the group.
            group.failed += pod.phase == "Failed" and not pod.deleting


def _pod_gone(state: State, event: ev.PodGone) -> None:
    bury(state, event.uid)
    state.early.pop(event.uid, None)
    state.landed.pop(event.uid, None)
    state.leaving.pop(event.uid, None)
    pod = state.pods.pop(event.uid, None)
    if pod is None:
        return
    miss(state, pod)
    feed.pod_changed(state, pod, None)
    state.drop_intent(event.uid)
    state.recount(event.uid)
    state.ignored_changes.pop(event.uid, None)
    _leave(state, event.uid)


# -- nodes and owners --------------------------------------------------------------------------------


def _node_seen(state: State, event: ev.NodeSeen) -> None:
    node = event.node
    if node.uid in state.tombstones:
        return
    old = state.inventory.node(node.name)
    if old is not None and node.version <= old.version:  # also of an earlier node of that name
        return
    nominal = state.inventory.nominal_version
    if old is not None and old.uid != node.uid:
        state.node_uids.pop(old.uid, None)
        bury(state, old.uid)
    state.node_uids[node.uid] = node.name
    if state.index is not None and node.name not in state.inventory.rows:
        state.moved.update(dict.fromkeys(state.inventory.holders(node.name)))
    if state.inventory.put(node):
        state.nodes_at = state.version
        state.reopen()
        astray, state.astray = state.astray, {}
        state.touched.update(astray | state.confined)  # a level may have come, or be gone
        for gid in state.waiting:
            if gid in state.started and state.groups[gid].layout.required:  # who joins is bound to its rack
                state.touch(gid)
        feed.node_changed(state, node.name)
    if state.inventory.nominal_version != nominal:
        state.nominal_at = state.version
        for group in state.rejected:
            state.touch(group)
        if state.surroundings.all(DeviceClass):
            things.look_for_devices(state)


def _node_gone(state: State, event: ev.NodeGone) -> None:
    bury(state, event.uid)
    name = state.node_uids.pop(event.uid, None)
    if name is None:
        return
    state.inventory.remove(name, state.now)
    feed.node_changed(state, name)
    look_at_node(state, name)
    state.nodes_at = state.version
    state.reopen()
    for uid in state.inventory.holders(name):
        intent = state.intents.get(uid)
        if intent is not None and not (intent.in_flight or intent.acknowledged):
            intent.error = ev.BindError.REFUSED
            state.to_bind.pop(uid, None)
            state.touch(intent.group)


def _owner_seen(state: State, event: ev.OwnerSeen) -> None:
    owner: Owner = event.owner
    old = state.owners.get(owner.uid)
    if (old is not None and owner.version <= old.version) or owner.uid in state.tombstones:
        return
    state.owners[owner.uid] = owner
    if old is not None and structs.replace(old, version=owner.version) == owner:
        return  # a ReplicaSet's status changes with every pod of it
    for group in state.groups_of_owner.get(owner.uid, ()):
        state.touch(group)


def _owner_gone(state: State, event: ev.OwnerGone) -> None:
    bury(state, event.uid)
    if state.owners.pop(event.uid, None) is not None:
        for group in state.groups_of_owner.get(event.uid, ()):
            state.touch(group)


def _listed(state: State, event: ev.Listed) -> None:
    """The end of a list: what is known and was not in it is gone."""
    present = dict.fromkeys(event.uids)
    if event.kind == "Pod":
        for uid in [u for u, pod in state.pods.items() if u not in present and pod.version <= event.version]:
            _pod_gone(state, ev.PodGone(uid, event.version))
        _believe(state, event.version)
    elif event.kind == "Node":
        for uid in [u for u in state.node_uids if u not in present and _older(state, u, event.version)]:
            _node_gone(state, ev.NodeGone(uid, event.version))
    elif event.kind in things.KINDS:
        things.listed(state, event)
    elif event.kind in feed.TAGS:
        feed.listed(state, event)
    else:
        for uid in [
            u
            for u, o in state.owners.items()
            if o.kind == event.kind and u not in present and o.version <= event.version
        ]:
            _owner_gone(state, ev.OwnerGone(uid, event.version))


def _believe(state: State, version: int) -> None:
    """A list cannot tell of less than was known before it was made, unless a backup was restored since."""
    older, state.older = state.older, {}
    for uid, pod in older.items():
        known = state.pods.get(uid)
        if known is not None and known.version <= version:
            state.pods[uid] = structs.replace(known, version=-1)
            _pod_seen(state, ev.PodSeen(pod))


def _older(state: State, uid: str, version: int) -> bool:
    node: Node | None = state.inventory.node(state.node_uids[uid])
    return node is None or node.version <= version


# -- the loop, the store, outcomes -------------------------------------------------------------------


def _tick(state: State, event: ev.Tick) -> None:
    state.now = max(state.now, event.now)


def _synced(state: State, event: ev.Synced) -> None:
    if event.source == "store":
        while state.early:  # each is taken out once it has joined: `core.poison` finds the one that cannot
            pod = state.pods[next(iter(state.early))]
            _join(state, None, pod)
            _count_end(state, None, pod)
            del state.early[pod.uid]
    state.missing.pop(event.source, None)
    if not state.missing and not state.synced:
        state.synced = True
        state.reopen()
        landed_before(state)
        state.restored_pods.clear()
        for uid in [u for u in state.intents if u not in state.pods]:  # deleted while nobody watched
            state.drop_intent(uid)
        for group in state.groups:
            state.touch(group)


def _repaired(state: State, event: ev.Repaired) -> None:
    repair.repair(state, event, reduce)


_HANDLERS: dict[type, Callable[[State, Any], None]] = cast(
    "dict[type, Callable[[State, Any], None]]",
    {
        ev.PodSeen: _pod_seen,
        ev.PodGone: _pod_gone,
        ev.NodeSeen: _node_seen,
        ev.NodeGone: _node_gone,
        ev.OwnerSeen: _owner_seen,
        ev.OwnerGone: _owner_gone,
        ev.ThingSeen: things.seen,
        ev.ThingGone: things.gone,
        ev.Listed: _listed,
        ev.Rewound: rewound,
        ev.Repaired: _repaired,
        ev.Tick: _tick,
        ev.ClockJumped: clock_jumped,
        ev.Synced: _synced,
        ev.GroupRestored: outcomes.group_restored,
        ev.GrantRestored: outcomes.grant_restored,
        ev.ReservationRestored: outcomes.reservation_restored,
        ev.Configured: outcomes.configured,
        ev.StoreReady: outcomes.store_ready,
        ev.StoreLost: outcomes.store_lost,
        ev.AllocationsRecorded: outcomes.recorded,
        ev.AllocationsRefused: outcomes.refused,
        ev.Bound: outcomes.bound,
        ev.BindFailed: outcomes.bind_failed,
        ev.Evicted: outcomes.evicted,
        ev.EsiSeen: feed.seen,
        ev.EsiGone: feed.gone,
        ev.ObjectFailed: feed.failed,
    },
)
