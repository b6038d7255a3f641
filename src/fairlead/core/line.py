"""The queue as it stands: who waits, in which order, and what of it no plan has seen yet.

Called by `core.groups` when what a group asks for has changed, and by `core.verify` when it is granted or
rejected. Keeps `State.waiting`, `line`, `wanted` and `fresh` in step; must not decide who starts.
"""

from bisect import bisect_left, insort

from msgspec import structs

from fairlead.core.crowd import demanding
from fairlead.core.live import Group
from fairlead.core.snapshot import FIRST, Order, Request, Task
from fairlead.core.state import IDLE, State
from fairlead.core.taste import of_others
from fairlead.core.tenancy import tailored, without_places
from fairlead.model.layout import NO_LAYOUT
from fairlead.model.pod import Pod, Shape
from fairlead.model.preferences import Preferences
from fairlead.model.settings import SLOT_QUEUE, QueueSettings

_KINDS_KEPT = 256
_SLOTS = QueueSettings(name=SLOT_QUEUE)


def request(
    state: State, group: Group, pods: list[Pod], growth: bool, duration: int, first: bool = False
) -> Request:
    """What these pods of the group wait for together; `first`: ahead of everybody who has not started."""
    queue = _SLOTS if group.slotted else state.settings.queue(group.queue) or state.settings.queues[0]
    tasks = tailored(state, group, _tasks(state, queue, pods), growth)
    total: dict[int, int] = {}
    for task in tasks:
        vector = state.inventory.vector(task.shape.requests)  # snapshots rely on it (core.snapshot.take)
        for row, amount in vector.pairs:
            total[row] = total.get(row, 0) + amount * len(task.uids)
    for row, most in total.items():
        if most > state.peak.get(row, 0):
            state.peak[row] = most
    layout = NO_LAYOUT if growth else group.layout  # who joins is bound to where the others are
    return Request(
        group=group.id,
        order=_order(queue, group, first),
        tasks=tasks,
        growth=growth,
        duration=duration,
        queue=queue.name,
        kind=_kind(state, (queue.name, duration, layout), tasks),
        layout=layout,
    )


def _tasks(state: State, queue: QueueSettings, pods: list[Pod]) -> tuple[Task, ...]:
    """The pods by shape."""
    if len(pods) == 1:
        shape = _within(state, queue, pods[0].shape)
        return (Task(shape, (pods[0].uid,), state.spoken.like(pods[0], pods[0].shape), pods[0].wishes),)
    shapes: dict[int, Shape] = {}
    members: dict[int, list[Pod]] = {}
    for pod in pods:
        shapes[id(pod.shape)] = pod.shape
        members.setdefault(id(pod.shape), []).append(pod)
    if len(shapes) > 1:
        _merge(shapes, members, pods)
    tasks: list[Task] = []
    for key, shape in shapes.items():
        tasks += _alike_ones(state, shape, _within(state, queue, shape), members[key])
    return tuple(tasks)


def _alike_ones(state: State, own: Shape, shape: Shape, pods: list[Pod]) -> list[Task]:
    """Pods of one shape of their `own`, told apart by what else matters of them; `shape` is to be placed."""
    found: dict[tuple[int, int], tuple[Pod | None, Preferences, list[str]]] = {}
    for pod in pods:
        like = state.spoken.like(pod, own)
        key = (id(like), id(pod.wishes))
        found.setdefault(key, (like, pod.wishes, []))[2].append(pod.uid)
    return [Task(shape, tuple(uids), like, wishes) for like, wishes, uids in found.values()]


def offer(state: State, group: Group, requests: tuple[Request, ...]) -> None:
    """Publish what the group waits for, and note when that is news to a plan in the making."""
    if requests == group.requests or _alike(requests, group.requests):
        return
    anew = group.id in state.waiting  # a plan may have promised it something, or told others to wait for it
    same = _asks_less(requests, group.requests)
    withdraw(state, group)
    group.requests, group.asked_at = requests, state.version
    if anew and not same:
        state.break_promise(group.id)
    if anew or group.id in state.heads.values():
        state.reopen()
    if not requests or group.slotted:  # no plan of ours is to see who goes to a slot
        return
    state.dirty = True
    if state.line and requests[0].order < state.line[-1][0]:
        state.reopen()
    for number, each in enumerate(requests):
        insort(state.line, (each.order, number, each))
        if each.layout.required:
            state.confined[group.id] = None
        for task in each.tasks:
            state.wanted.setdefault(id(task.shape), (task.shape, [0]))[1][0] += 1
            _count(state, task, 1)
    state.waiting[group.id] = requests
    state.fresh[group.id] = None
    if state.planning != IDLE:
        state.arrivals.append(requests[0].order)


def _alike(new: tuple[Request, ...], old: tuple[Request, ...]) -> bool:
    """Whether they differ in nothing but the number of their kind, which may be given anew."""
    same = len(new) == len(old)
    return same and all(a._replace(kind=b.kind) == b for a, b in zip(new, old, strict=True))


def _asks_less(new: tuple[Request, ...], old: tuple[Request, ...]) -> bool:
    """Whether the same members ask for the same, for no longer: what was promised them is as good as before.

    So it is with a walltime that was shortened, and with who joins a running group that has less time left.
    """
    if not (new and old):
        return False
    a, b = without_places(new[0]), without_places(old[0])
    if a.layout != b.layout:
        return False
    if (a.growth, a.queue) != (b.growth, b.queue):
        return False
    if [task[:2] for task in a.tasks] != [task[:2] for task in b.tasks]:
        return False
    return not b.duration or 0 < a.duration <= b.duration


def withdraw(state: State, group: Group) -> None:
    """The group waits for nothing (any more): it was granted, rejected, or changed."""
    for number, each in enumerate(state.waiting.get(group.id, ())):
        del state.line[bisect_left(state.line, (each.order, number))]
        for task in each.tasks:
            count = state.wanted[id(task.shape)][1]
            count[0] -= 1
            if not count[0]:
                del state.wanted[id(task.shape)]
            _count(state, task, -1)
    group.requests = ()
    state.waiting.pop(group.id, None)
    state.fresh.pop(group.id, None)
    state.due_now.pop(group.id, None)
    state.confined.pop(group.id, None)


def _count(state: State, task: Task, step: int) -> None:
    like, wishes = task.like, task.wishes
    if wishes.nodes or of_others(wishes):
        state.wishing += step
        state.fond += step * of_others(wishes)
    if like is None:
        return
    count = state.likes.setdefault(id(like), (like, [0]))[1]
    count[0] += step
    if not count[0]:
        del state.likes[id(like)]
    if demanding(like):
        state.minding += step


def _merge(shapes: dict[int, Shape], members: dict[int, list[Pod]], pods: list[Pod]) -> None:
    """Equal shapes that are not the same object are one task, its members in the order of `pods`."""
    first: dict[Shape, int] = {}
    place = {pod.uid: i for i, pod in enumerate(pods)}
    for key, shape in list(shapes.items()):
        home = first.setdefault(shape, key)
        if home != key:
            members[home] += members.pop(key)
            members[home].sort(key=lambda pod: place[pod.uid])
            del shapes[key]


def _order(queue: QueueSettings, group: Group, first: bool) -> Order:
    priority = 0 if queue.order == "fifo" else -group.priority
    if first:
        return (FIRST, priority, group.seq, group.id)
    length = (group.duration or _LONGEST) if queue.order == "shortest" else 0
    return (priority, length, group.seq, group.id)


_LONGEST = 1 << 62


def _kind(state: State, said: tuple[object, ...], tasks: tuple[Task, ...]) -> int:
    """Equal for requests that ask for the same: what fails for one of them fails for all."""
    key = kind_key(said, tasks)
    known = state.kinds.get(key)
    if known is None:
        if len(state.kinds) > _KINDS_KEPT + 2 * len(state.line):
            state.kinds.clear()  # numbers are never used twice, so at worst equals are told apart
        known = state.kinds[key] = (state.next_kind, tasks)
        state.next_kind += 1
    return known[0]


def kind_key(said: tuple[object, ...], tasks: tuple[Task, ...]) -> tuple[object, ...]:
    """What a kind is found under; `said` is all but the tasks. Also used by `core.rekey`."""
    return (*said, tuple([(id(task.shape), id(task.like), len(task.uids)) for task in tasks]))


def _within(state: State, queue: QueueSettings, shape: Shape) -> Shape:
    """The shape, bound to the nodes of the queue's partition."""
    if not queue.partition:
        return shape
    key = (id(shape), queue.partition)
    known = state.narrowed.get(key)
    if known is None:
        if len(state.narrowed) > _KINDS_KEPT:
            state.narrowed.clear()
        extra = next((p.selector for p in state.settings.partitions if p.name == queue.partition), ())
        known = state.narrowed[key] = (shape, structs.replace(shape, selector=shape.selector + extra))
    return known[1]
