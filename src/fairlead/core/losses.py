"""Members that a started group has lost: who takes their places, and whether the group goes on without them.

Called by `core.groups` (whose turn it is to join), by `core.reduce` (who has gone) and by `control.enforce`
(whether the rest is to be ended). Level-triggered but for the name of a pod that is gone, which nothing but
the news of it tells. Must not end anything.
"""

from collections.abc import Sequence

from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.group import Phase
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod, PodPhase

RECREATED_BY = ("Job", "ReplicaSet", "StatefulSet", "ReplicationController")
"""Controllers that bring a new pod for one that was evicted or has failed."""
PATIENCE = 2_000
"""Milliseconds in which a deletion may turn out to be the end of the whole group, or its owner's wish."""


def there(state: State, bound: Sequence[Pod]) -> list[Pod]:
    """Those that are not on their way out, by deletion or with their node."""
    return [pod for pod in bound if not pod.deleting and not _without_node(state, pod)]


def places(state: State, group: Group, bound: Sequence[Pod], intended: int) -> int:
    """How many may come in the place of members that its start was granted for and that it has lost."""
    return max(group.started_size - group.completed - len(there(state, bound)) - intended, 0)


def refused(state: State, group: Group) -> list[Pod]:
    """Members that failed before anything of them ran, and that nobody makes anew: kubelets refused them."""
    if not group.failed:
        return []
    found = [pod for uid in group.pods if (pod := state.pods[uid]).phase is PodPhase.FAILED and pod.node]
    bare = [pod for pod in found if pod.owner is None or pod.owner.kind not in RECREATED_BY]
    return [pod for pod in bare if not (pod.started or pod.deleting or pod.overdue)]


def named(pods: Sequence[Pod]) -> str:
    """Pods and where they were, for people."""
    return ", ".join(f"{pod.name} on {pod.node}" for pod in pods)


def miss(state: State, pod: Pod) -> None:
    """The pod is gone: keep its name, should it turn out that its group lost it."""
    group = state.groups.get(state.group_of.get(pod.uid, ""))
    if group is not None and group.fail_all and pod.node and pod.phase is not PodPhase.SUCCEEDED:
        group.lost = pod


def notice(state: State, group: Group, bound: Sequence[Pod]) -> None:
    """Note since when a group that is to fail as a whole is short of members: nobody joins it for a while."""
    left = len(there(state, bound))
    if not group.fail_all or group.broken or left + group.completed >= group.started_size:
        group.short_since, group.lost = 0, None
    elif not group.short_since:
        group.short_since = state.now
        group.backoff_until = max(group.backoff_until, state.now + PATIENCE)


def look_at_node(state: State, name: str) -> None:
    """The node is gone: groups that are to fail as a whole are looked at."""
    for uid in state.inventory.holders(name):
        group = state.groups.get(state.group_of.get(uid, ""))
        if group is not None and group.fail_all:
            state.touch(group.id)


def failure(state: State, group: Group, bound: Sequence[Pod]) -> str:
    """What a group that fails as a whole has lost, in words; "" while it is whole, or if nothing is left.

    A failed member counts at once. One that is deleted counts after a while, if others still run then, and
    if its owner wants as many as before; where no owner says how many, if none has completed yet: members
    that are deleted afterwards are taken to be cleaned up.
    """
    if not group.short_since or group.phase is not Phase.RUNNING:
        return ""
    left = there(state, bound)
    if not any(_goes_on(state, pod) for pod in left):
        return ""
    pods = [state.pods[uid] for uid in group.pods]
    for pod in reversed(pods):
        if group.failed and pod.phase is PodPhase.FAILED and not (pod.deleting or pod.overdue):
            return f"member {pod.name} failed" + (f" on {pod.node}" if pod.node else "")
    if state.now < group.short_since + PATIENCE:
        return ""
    for pod in bound:
        if _without_node(state, pod):
            return f"member {pod.name} was lost with its node {pod.node}"
    gone = [pod for pod in pods if pod.node and pod.deleting and pod.phase is not PodPhase.SUCCEEDED]
    for pod in [*gone, *([group.lost] if group.lost is not None else [])]:
        if _is_missed(state, group, pod, left):
            return f"member {pod.name} on {pod.node} was deleted"
    wanting = [o for uid in group.owners if (o := state.owners.get(uid)) is not None and _wants(o, left)]
    return f"members of its {wanting[0].kind} {wanting[0].name} are gone" if wanting else ""


def _is_missed(state: State, group: Group, pod: Pod, left: Sequence[Pod]) -> bool:
    owner = state.owners.get(pod.owner.uid) if pod.owner is not None else None
    return _wants(owner, left) if owner is not None else not group.completed


def _wants(owner: Owner, left: Sequence[Pod]) -> bool:
    """Whether the owner wants more than are left of its pods."""
    if owner.deleting or owner.ended or owner.suspended:
        return False
    return owner.size > sum(pod.owner is not None and pod.owner.uid == owner.uid for pod in left)


def _goes_on(state: State, pod: Pod) -> bool:
    """Whether nobody is about to end the pod with its owner."""
    if pod.owner is None:
        return True
    owner = state.owners.get(pod.owner.uid)
    if owner is None:
        return pod.owner.uid not in state.tombstones
    return not (owner.deleting or owner.ended)


def _without_node(state: State, pod: Pod) -> bool:
    """Whether its node is gone, or does not answer and the pod was told to go."""
    node = state.inventory.node(pod.node)
    return node is None or (pod.deleting and not node.ready)
