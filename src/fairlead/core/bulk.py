"""Placing a whole queue at once, when all of it fits: one pass per class of pods instead of one per pod.

Called by `core.cycle` before it goes through the queue one by one. If everybody can start, the order in
which they are placed decides nothing but who gets which node, so all members of one shape are one
request. If anything is left over, nothing is placed: then order matters, and the slow way keeps it.
"""

from collections.abc import Generator, Iterator, Sequence

from fairlead.core.match import Matcher
from fairlead.core.snapshot import Request, Task
from fairlead.model.plan import Placement

WORTH = 256
"""Below so many pods the usual way is as fast."""
_PER_CLASS = 16
"""Pods per class that make a pass over all nodes pay."""


def place_all(
    matcher: Matcher, waiting: Sequence[Request]
) -> Generator[None, None, list[tuple[Placement, ...]] | None]:
    """Placements per request, in their order; None if not all fit or it is not worth the try."""
    classes = _classes(waiting) if matcher.policy != "locality" else None
    if classes is None:
        return None
    mark = matcher.draft.mark()
    nodes: dict[tuple[int, int], Iterator[str]] = {}
    keys = list(classes)
    for i in matcher.hardest_first([task.shape for task, _ in classes.values()]):
        yield
        key = keys[i]
        names = matcher.nodes_for(*classes[key])
        if names is None:
            matcher.draft.rewind(mark)
            return None
        nodes[key] = names
    placed: list[tuple[Placement, ...]] = []
    for request in waiting:
        placed.append(
            tuple(
                Placement(uid, node)
                for task in request.tasks
                for uid, node in zip(task.uids, nodes[_class(task)], strict=False)
            )
        )
        if not len(placed) % WORTH:
            yield
    return placed


def _class(task: Task) -> tuple[int, int]:
    return id(task.shape), id(task.wishes)


def _classes(waiting: Sequence[Request]) -> dict[tuple[int, int], tuple[Task, int]] | None:
    """Each kind of member with how many there are; None if there are too few pods or too many kinds."""
    if len(waiting) < 2:
        return None
    if any(request.layout.near for request in waiting):
        return None
    totals: dict[tuple[int, int], int] = {}
    tasks: dict[tuple[int, int], Task] = {}
    pods = 0
    for request in waiting:
        for task in request.tasks:
            key = _class(task)
            tasks[key] = task
            totals[key] = totals.get(key, 0) + len(task.uids)
            pods += len(task.uids)
    if pods < WORTH or len(totals) * _PER_CLASS > pods:
        return None
    return {key: (tasks[key], total) for key, total in totals.items()}
