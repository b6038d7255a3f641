"""The wall clock was set: every time that Fairlead took itself moves with it, no time that people gave does.

Called by `core.reduce`, whose part this is for `ClockJumped`. The engine counts on a clock that runs evenly
and is told when the wall clock leaves it. From then on it counts in the corrected time, so that what is shown
and stored is right, a begin-time is kept to the second, and a process that starts later reads the times of
this one as its own. What has been going on for twenty minutes still has been: walltimes, back-offs and
time-outs end neither sooner nor later, and promised starts keep their distance. `TIMES` names every attribute
that is such a time; a test holds it against the whole state.
"""

from typing import Any

from msgspec.structs import replace

from fairlead.core.ends import Ends
from fairlead.core.live import Group, Intent
from fairlead.core.state import IDLE, State
from fairlead.core.surroundings import Choice, Held
from fairlead.model import event as ev

TIMES: dict[type, tuple[str, ...]] = {
    Group: (
        "first_seen", "since", "complete_at", "planned_at", "recorded_at", "granted_at", "bound_at",
        "started_at", "ended_at", "short_since",
        "backoff_until", "recovering_since", "end_again_at", "tell_at", "tell_start_at",
        "estimate", "promised", "promised_last",
    ),
    Intent: ("not_before", "revoke_again_at"),
    Held: ("since", "again_at"),
    Choice: ("sent_at",),
}  # fmt: skip
"""Milliseconds since the epoch, 0 for never. Not among them: `begin` and `latest_end`, which others gave, and
`told_start`, which was written for people as it is: they are told anew where it is far off now."""


def clock_jumped(state: State, event: ev.ClockJumped) -> None:
    by = event.by
    state.now = max(state.now + by, 1)
    for group in state.groups.values():
        _move(group, by)
        state.touch(group.id)
    around = state.surroundings
    for each in (*state.intents.values(), *around.held.values(), *around.choices.values()):
        _move(each, by)
    state.promises.update({gid: replace(p, start=_moved(p.start, by)) for gid, p in state.promises.items()})
    state.poisoned.update({key: p._replace(at=_moved(p.at, by)) for key, p in state.poisoned.items()})
    esi = state.esi
    esi.sent.update({key: each._replace(at=_moved(each.at, by)) for key, each in esi.sent.items()})
    esi.due = _moved(esi.due, by)
    for times in (state.early, state.retired, state.tombstones, state.landed, state.raced, esi.tried):
        times.update({key: _moved(at, by) for key, at in times.items()})
    state.inventory.gone_at[:] = [_moved(at, by) for at in state.inventory.gone_at]
    state.plan_after = _moved(state.plan_after, by)
    state.move_timers(by)
    state.unsaved = bool(state.promises)
    state.ends, state.index, state.moved = Ends(), None, {}
    state.unsettled.update(dict.fromkeys(state.groups))
    state.planning = IDLE  # what is being planned is dated by the old clock: its answer will not count
    state.reopen()


def _move(thing: Any, by: int) -> None:
    for name in TIMES[type(thing)]:
        setattr(thing, name, _moved(getattr(thing, name), by))


def _moved(at: int, by: int) -> int:
    return max(at + by, 1) if at else 0
