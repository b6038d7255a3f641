"""How many pods wait, in the four places in which kube-scheduler keeps those that do.

Called by `api.source` for /metrics. Must not change the state.
"""

from collections.abc import Mapping

from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.group import Phase, Why

PLACES: tuple[str, ...] = ("active", "backoff", "unschedulable", "gated")
_REFUSED = (Why.RESOURCES, Why.NODES_DOWN, Why.BLOCKED)


def pending_pods(state: State) -> Mapping[str, int]:
    """Pods by place: `active` are not refused so far, `unschedulable` were (also for ever), `backoff` pause
    after a start that failed, `gated` belong to groups that are not complete or may not start yet."""
    found = dict.fromkeys(PLACES, 0)
    for group in state.groups.values():
        place = _place(group)
        if place:
            found[place] += _waiting(state, group)
    return found


def _place(group: Group) -> str:
    """ "" where none of its pods waits."""
    if group.phase is Phase.HELD:
        return "backoff" if group.reason.why is Why.BACKOFF else "gated"
    if group.phase is Phase.QUEUED:
        if group.reason.why is Why.BACKOFF:
            return "backoff"
        return "unschedulable" if group.reason.why in _REFUSED else "active"
    if group.rejected:
        return "unschedulable"
    return "active" if group.requests else ""


def _waiting(state: State, group: Group) -> int:
    if group.requests:
        return sum([len(task.uids) for request in group.requests for task in request.tasks])
    pods = [state.pods[uid] for uid in group.pods]
    return sum([not (pod.node or pod.ended) for pod in pods])
