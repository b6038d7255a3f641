"""Who is on which node, for those who wait and mind that: the index of pods brought up to date, its Crowd.

Called by `core.picture` when a snapshot is taken and by `core.guard` when a plan comes back, never while a
plan is being made: between the two the index stands still. It is kept only once somebody needs it, and a
batch of events costs it nothing but a note of the pods that changed.
"""

from operator import itemgetter

from fairlead.core.crowd import SOMETIME, Crowd, Leaving, demanding
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.pods import PodIndex
from fairlead.core.filters.scores import Wishes
from fairlead.core.running import began, expected_end
from fairlead.core.spoken import placed
from fairlead.core.state import State
from fairlead.core.taste import Taste
from fairlead.model.pod import Pod


def crowd_of(state: State) -> Crowd | None:
    """For the plan that is made next; None if nobody who waits minds other pods or has volumes."""
    if not state.likes:
        return None
    waiting = [like for like, _ in state.likes.values()]
    if not (state.spoken.active or any(map(demanding, waiting))):
        return None
    crowd = Crowd(cluster_of_now(state), waiting)
    if not any(map(crowd.concerns, waiting)):
        return None
    crowd.leaving = _leaving(state)
    return crowd


def taste_of(state: State) -> Taste | None:
    """For the plan that is made next; None if no node is better liked than another."""
    inventory = state.inventory
    images = inventory.images()
    if not (state.wishing or images or inventory.classes().disliked):
        return None
    if state.fond:
        return Taste(cluster_of_now(state), Wishes(images))
    alone = Cluster(inventory, PodIndex({}), frozen=inventory.classes())
    return Taste(alone, Wishes(images))


def cluster_of_now(state: State) -> Cluster:
    """What filters look at, as it is now; good until the next event."""
    refresh(state)
    assert state.index is not None
    inventory, around = state.inventory, state.surroundings
    return Cluster(inventory, state.index, around.namespaces, around.storage, inventory.classes())


def refresh(state: State) -> bool:
    """Bring the index up to date. Returns whether anything in it has changed."""
    index, changed = state.index, False
    if index is None:
        index = state.index = PodIndex(state.inventory.rows)
        state.moved = dict.fromkeys([*state.inventory.held])
    for uid in state.moved:
        pod = on_node(state, uid)
        known = index.known(uid)
        if pod is None:
            index.remove(uid)
            changed |= known is not None
        elif known is None or not _same(known, pod):
            changed |= index.add(pod) or known is not None
    state.moved = {}
    index.size = len(state.inventory)
    if changed:
        state.index_at = state.version
    return changed


def on_node(state: State, uid: str) -> Pod | None:
    """The pod on the node that it is on or is meant for; None if it is on none or has ended."""
    pod = state.pods.get(uid)
    if pod is None or pod.ended:
        return None
    if pod.node:
        return pod
    intent = state.intents.get(uid)
    return None if intent is None else placed(pod, intent.node)


def _same(a: Pod, b: Pod) -> bool:
    return a.node == b.node and a.shape is b.shape and a.deleting == b.deleting and a.labels == b.labels


def _leaving(state: State) -> list[Leaving]:
    """Pods of started groups that will end, in order of that; services without a walltime will not."""
    found: list[Leaving] = []
    for gid in state.started:
        group = state.groups[gid]
        until = SOMETIME
        if group.duration:
            until = expected_end(began(group), group.duration, state.now)
        elif any(uid in state.owners and state.owners[uid].kind in _SERVICES for uid in group.owners):
            continue
        found += [(until, pod) for uid in group.pods if (pod := on_node(state, uid)) is not None]
    found.sort(key=itemgetter(0))
    return found


_SERVICES = ("ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet")
