"""Whole nodes: an exclusive pod takes all of its node's places, any other pod one of them.

The places are a resource like any other, so profiles, promises and match policies need to know nothing of
exclusivity. They are counted from the first exclusive group on; before that nothing here costs anything.
DaemonSet pods and a kubelet's own pods take no place: they are on every node.

Called by `core.groups` with the layout that was read, by `core.line` for requests and by `core.state` for
what is held. Must not choose nodes.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from fairlead.model.layout import Layout
from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.selector import Expression

if TYPE_CHECKING:
    from fairlead.core.live import Group
    from fairlead.core.snapshot import Request, Task
    from fairlead.core.state import State

PLACES = "node"
"""The resource's name. No Kubernetes resource can have it: theirs are well-known words or have a domain."""
WHOLE = 1 << 20
"""How many places a node has: more than pods."""
_RESIDENTS = ("DaemonSet", "Node")
_KEPT = 256
Where = tuple[Expression, ...]


class Tenant(NamedTuple):
    """What matters here of a group, when the group itself goes on changing."""

    layout: Layout
    source: str


def lay(state: "State", group: "Group", layout: Layout) -> None:
    """Let the group's members lie like this from now on."""
    if layout == group.layout:
        return
    changed = layout.exclusive != group.layout.exclusive
    group.layout = layout
    if layout.exclusive and not state.tenancy:
        _count_places(state)
    elif changed:
        for uid in group.pods:
            state.recount(uid)


def _count_places(state: "State") -> None:
    """Count places from now on: what is held, what runs and what waits is looked at once more."""
    state.tenancy = True
    for uid in list(state.inventory.held):
        if uid not in state.esi.holds:
            state.recount(uid)
    state.esi.stale.update(dict.fromkeys(state.esi.tables))
    for gid in state.started:
        state.unsettled[gid] = None
        state.groups[gid].shares = None
    for gid in state.waiting:
        state.touch(gid)
    state.reopen()


def takes(pod: Pod, group: "Group | Tenant | None") -> int:
    """How many of its node's places the pod takes; `group` is its group if it is Fairlead's."""
    if group is not None and group.layout.exclusive:
        return WHOLE
    resident = pod.owner is not None and pod.owner.kind in _RESIDENTS
    return 0 if resident and (group is None or group.source == "pod") else 1


@lru_cache(maxsize=4_096)
def with_places(requests: Amounts, places: int) -> Amounts:
    """The requests with so many places of a node."""
    return tuple(sorted((*requests, (PLACES, places)))) if places else requests


def without_places(request: "Request") -> "Request":
    """What the request asks for besides places."""
    tasks = [
        task._replace(
            shape=structs.replace(
                task.shape, requests=tuple([each for each in task.shape.requests if each[0] != PLACES])
            )
        )
        for task in request.tasks
    ]
    return request._replace(tasks=tuple(tasks))


def tailored(state: "State", group: "Group", tasks: tuple["Task", ...], growth: bool) -> tuple["Task", ...]:
    """The tasks as the group asks for them: with places, and one that joins it where the others are."""
    home = _home(state, group) if growth and group.layout.required else ()
    if not (state.tenancy or home):
        return tasks
    return tuple(
        [task._replace(shape=_shape(state, task.shape, _places(state, group, task), home)) for task in tasks]
    )


def _places(state: "State", group: "Group", task: "Task") -> int:
    return takes(state.pods[task.uids[0]], group) if state.tenancy else 0


def _shape(state: "State", shape: Shape, places: int, home: Where) -> Shape:
    key = (id(shape), places, home)
    known = state.tailored.get(key)
    if known is None:
        if len(state.tailored) > _KEPT + 2 * len(state.line):
            state.tailored.clear()
        requests = with_places(shape.requests, places)
        made = structs.replace(shape, requests=requests, selector=shape.selector + home)
        known = state.tailored[key] = (shape, made)
    return known[1]


def _home(state: "State", group: "Group") -> Where:
    """What the labels of a node must be for it to be in the domain in which the group is."""
    for uid in group.pods:
        held = state.inventory.held.get(uid)
        row = None if held is None else state.inventory.rows.get(held[0])
        if row is not None:
            return state.topology().home(group.layout.required, row)
    return ()
