"""Runs the machines of external schedulers after each batch until nothing moves any more.

A reconciler, first of `control.esi.ESI`. Returns at once when nothing of theirs has changed and nothing is
due. Until this process leads, nothing is decided: statuses are those that the leader writes. When it begins
to lead they are taken from the objects, as after a restart; from then on they are ours alone. Must not know
what any of the machines does.
"""

from collections.abc import Sequence

from fairlead.control.esi import batchjob, claims, scheduling, testbed, writing
from fairlead.control.esi.terms import Round
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.command import Command

_MOST = 50
"""Passes over all machines in one batch. A handful is usual: this only ends what a mistake would not."""
_PAUSE = 1_000


def drive(state: State, _: Sequence[Group]) -> list[Command]:
    """What the machines want done."""
    esi = state.esi
    if not state.ready or not (esi.dirty or 0 < esi.due <= state.now):
        return []
    if not (esi.testbeds or esi.jobs or esi.schedulings):
        esi.due = 0
        return []
    if esi.epoch != state.epoch:
        _take_over(state)
    run = Round(state)
    testbed.move(run)
    for _pass in range(_MOST):
        run.moved = False
        batchjob.move(run)
        if run.moved:
            run.look()
        claims.give(run)
        scheduling.move(run)
        if not run.moved:
            break
        run.look()
    else:
        run.again(state.now + _PAUSE)
    writing.flush(run)
    esi.due = run.due
    if run.due:
        state.wake(run.due, "")
    return run.commands


def rest(state: State, _: Sequence[Group]) -> list[Command]:
    """The last of the reconcilers: all have seen what changed."""
    if state.ready:
        state.esi.dirty = False
    return []


def _take_over(state: State) -> None:
    esi = state.esi
    esi.epoch = state.epoch
    esi.sent.clear()
    for things in (esi.testbeds, esi.jobs, esi.schedulings):
        for uid, thing in things.items():
            esi.taken_back(esi.status.get(uid), thing.status)
            esi.status[uid] = thing.status
