"""Let application pods start in the slots that were given to them: an outside plan, entered like any other.

A reconciler, run by the engine after each batch. `core.esi.slots` says which pod has which slot,
`core.outside` whether it may start there now. A ghost pod that is still in the slot goes first. Must not
choose slots.
"""

from collections.abc import Sequence

from fairlead.core.esi.asking import where
from fairlead.core.esi.table import Sent
from fairlead.core.live import Group
from fairlead.core.refs import of_pod
from fairlead.core.state import State
from fairlead.model.command import Command, DeleteObject, Submit
from fairlead.model.plan import Placement, Plan, Start
from fairlead.model.pod import Pod

SOURCE = "esi"
PAUSE = 5_000
"""Milliseconds until a start that was refused is tried again, if nothing changes on its node before."""
AGAIN = 10_000
"""Milliseconds after which a ghost pod that is still there is deleted once more."""


def place(state: State, _: Sequence[Group]) -> list[Command]:
    """One plan for all that can start now."""
    esi = state.esi
    if not esi.startable or not state.ready:
        return []
    commands: list[Command] = []
    starts: list[Start] = []
    for uid in esi.startable:
        found, group = where(state, uid), state.groups.get(state.group_of.get(uid, ""))
        if found is None or group is None or not (group.slotted and group.requests):
            continue
        slot = found[1]
        ghost = state.pods.get(slot.ghost)
        if ghost is not None:
            commands += _clear(state, ghost, group)
        elif esi.tried.get(uid, 0) <= state.now:
            esi.tried[uid] = state.now + PAUSE
            state.wake(esi.tried[uid], group.id)
            starts.append(Start(group.id, (Placement(uid, slot.node),)))
    if starts:
        plan = Plan(f"{SOURCE}-{state.epoch}-{state.version}", 0, state.now, SOURCE, tuple(starts))
        commands.append(Submit(plan))
    return commands


def _clear(state: State, ghost: Pod, group: Group) -> list[Command]:
    """The ghost pod makes room: it runs nothing, so it needs no time to end."""
    key = (ghost.uid, "delete")
    sent = state.esi.sent.get(key)
    if ghost.deleting or (sent is not None and state.now < sent.at + AGAIN):
        return []
    state.esi.sent[key] = Sent("", 0, state.now)
    state.wake(state.now + AGAIN, group.id)
    return [DeleteObject(of_pod(ghost), grace=0)]
