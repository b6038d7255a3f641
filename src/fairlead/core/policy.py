"""Queue policies as three numbers each: all of them are one function of these (`core.cycle`).

Read by `core.cycle` and `core.engine`. The names a user may choose are `model.settings.POLICIES`.
"""

from typing import NamedTuple

from fairlead.model.settings import QueueSettings

UNLIMITED = 1 << 60


class Lookahead(NamedTuple):
    """Whether anybody may start past one that cannot, how many of those are promised a start, and whether
    a promise is kept from plan to plan.

    A promise that is not kept is laid anew whenever something has become free, from the running work alone.
    """

    overtake: bool
    depth: int
    keep: bool = False


def lookahead(queue: QueueSettings) -> Lookahead:
    """The numbers of a queue's policy; an unknown name is a mistake of the caller's.

    `hybrid` of depth -1 promises nothing: whoever fits starts. `conservative` keeps at most
    `queue.promises`; `replan` promises a start to everybody, anew each time.
    """
    if queue.policy == "hybrid":
        return Lookahead(True, {-1: 0, 0: UNLIMITED}.get(queue.depth, queue.depth))
    if queue.policy == "conservative":
        return Lookahead(True, queue.promises or UNLIMITED, keep=True)
    return _FIXED[queue.policy]


_FIXED = {
    "fcfs": Lookahead(False, 0),
    "easy": Lookahead(True, 1),
    "replan": Lookahead(True, UNLIMITED),
}
