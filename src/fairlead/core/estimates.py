"""The start that a waiting group is promised, as the group itself knows it: now, first, and last.

Called by `core.verify` for every promise of an accepted plan and by `core.reduce` for those that the store
gives back; `control.estimates` tells people. Must not decide who is promised what.
"""

from fairlead.core.live import Group
from fairlead.core.policy import lookahead
from fairlead.core.state import State
from fairlead.model.group import Phase
from fairlead.model.plan import Reserve

LEAST_MOVE = 300_000
"""Milliseconds that a promise may move without anybody being told."""
_SHARE = 5


def expect(state: State, group: Group, start: int) -> None:
    """The group is promised this start now (milliseconds since the epoch; 0: none).

    The group is looked at again only where that matters: a first promise is saved, and people hear of a
    far move. Compressing a thousand promises by a little costs nothing.
    """
    if start == group.estimate:
        return
    group.estimate = start
    if start:
        group.promised_last = start
        if not group.promised:
            group.promised = start
            state.note(group.id)
    if not group.tell_start_at and far(group.told_start, start, state.now):
        state.note(group.id)


def restore(state: State, reserve: Reserve) -> None:
    """A promise of an earlier process; a policy that does not keep promises lays it anew."""
    group = state.groups.get(reserve.group)
    if group is not None and group.phase is Phase.QUEUED:
        state.promises[group.id] = reserve
        expect(state, group, reserve.start)
        state.wake(reserve.start, group.id)


def far(told: int, start: int, now: int) -> bool:
    """Whether who was told the one should hear of the other (0: no start).

    By more than five minutes, and by more than a fifth of the time that was left.
    """
    if not (told and start):
        return told != start
    return abs(start - told) > max(LEAST_MOVE, (told - now) // _SHARE)


def unpromised(state: State, group: Group) -> str:
    """Why a group of a queue that promises starts has none, where the number of promises is the reason."""
    queue = state.settings.queue(group.queue)
    if queue is None or not queue.promises or not lookahead(queue).keep or group.id in state.promises:
        return ""
    if group.phase is not Phase.QUEUED or len(state.promises) < queue.promises:
        return ""
    if sum([lookahead(other).keep for other in state.settings.queues]) > 1:
        held = [gid for gid in state.promises if state.groups[gid].queue == queue.name]
        if len(held) < queue.promises:
            return ""
    return f"waits without a promised start: its queue keeps {queue.promises} of them and no more"
