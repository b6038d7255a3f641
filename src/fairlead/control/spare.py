"""Which members may be evicted so that their controllers bring them anew elsewhere (design.md §4.8, step 3).

Called by `control.ladder` and `control.races`. Never a bare pod, and never one whose Job would fail by it:
`evict` notes whom it asks to go, for the watch shows that only later.
"""

from collections.abc import Sequence

from fairlead.core.losses import RECREATED_BY
from fairlead.core.refs import of_pod
from fairlead.core.state import State
from fairlead.model.command import Evict
from fairlead.model.pod import Pod


def spare(state: State, pods: Sequence[Pod]) -> list[Pod]:
    """Those of the pods that come back when all of these are evicted together."""
    asked: dict[str, int] = {}
    for pod in pods:
        if pod.owner is not None and not _goes(state, pod):
            asked[pod.owner.uid] = asked.get(pod.owner.uid, 0) + 1
    return [pod for pod in pods if _comes_back(state, pod, asked)]


def _comes_back(state: State, pod: Pod, asked: dict[str, int]) -> bool:
    if pod.owner is None or pod.owner.kind not in RECREATED_BY:
        return False
    owner = state.owners.get(pod.owner.uid)
    if owner is None or owner.retries is None:
        return True
    return asked.get(pod.owner.uid, 0) + _going(state, pod.owner.uid) <= owner.retries


def _going(state: State, owner: str) -> int:
    """How many of its pods are on their way out already; they may not have been counted as failures yet."""
    found = 0
    for gid in state.groups_of_owner.get(owner, ()):
        group = state.groups.get(gid)
        for uid in group.pods if group is not None else ():
            pod = state.pods[uid]
            theirs = pod.owner is not None and pod.owner.uid == owner
            found += theirs and not pod.ended and _goes(state, pod)
    return found


def _goes(state: State, pod: Pod) -> bool:
    return pod.deleting or pod.uid in state.leaving


def evict(state: State, pod: Pod, text: str) -> Evict:
    """Ask the pod to go, at once if nothing of it has run."""
    state.leaving[pod.uid] = None
    return Evict(of_pod(pod), text, None if pod.started else 0)
