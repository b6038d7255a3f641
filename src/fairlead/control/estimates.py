"""The estimated start of a waiting group, written where its user looks: an annotation and an Event.

A reconciler, run by the engine after each batch. API writes are the budget: nothing is written before a
promise has lasted `Settings.lasting`, nor about a start that is nearer than that, and again only when it
has moved far. The annotation stays when the group starts: what was told last. Must never write to a pod
that is bound or about to be.
"""

from collections.abc import Sequence

from fairlead.core.durations import instant, rfc3339, soon
from fairlead.core.estimates import far
from fairlead.core.live import Group
from fairlead.core.refs import of_owner, of_pod
from fairlead.core.state import State
from fairlead.model.command import Announce, Command, ObjectRef, PatchAnnotation
from fairlead.model.group import Phase, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod

ESTIMATED_START = "fairlead.dev/estimated-start"
_WAITING = (Phase.HELD, Phase.QUEUED)


def foretell(state: State, touched: Sequence[Group]) -> list[Command]:
    """Annotations and Events that are due for the touched groups."""
    if not state.synced:
        return []
    return [command for group in touched for command in _foretell_one(state, group)]


def _foretell_one(state: State, group: Group) -> list[Command]:
    holder = _holder(state, group) if group.phase in _WAITING else None
    if holder is None or not _news(state, group, holder):
        group.tell_start_at = 0
        return []
    if not group.tell_start_at:
        group.tell_start_at = state.now + state.settings.lasting
        state.wake(group.tell_start_at, group.id)
    if state.now < group.tell_start_at:
        return []
    told, group.told_start, group.tell_start_at = _told(group, holder), group.estimate, 0
    ref, value = _ref(holder), rfc3339(group.estimate) if group.estimate else ""
    return [PatchAnnotation(ref, ESTIMATED_START, value), *_announce(state, group, ref, told)]


def _news(state: State, group: Group, holder: Owner | Pod) -> bool:
    """Whether the object says something else than what is promised now, and it is worth a write."""
    told = _told(group, holder)
    if not told and group.estimate <= state.now + state.settings.lasting:
        return False
    return far(told, group.estimate, state.now)


def _told(group: Group, holder: Owner | Pod) -> int:
    """What was written last; a new process reads it off the object."""
    return group.told_start or instant(holder.annotations.get(ESTIMATED_START, "")) or 0


def _announce(state: State, group: Group, ref: ObjectRef, told: int) -> list[Command]:
    if group.phase is not Phase.QUEUED:  # why it is held has been told
        return []
    why = Why.MOVED if told else Why.ESTIMATED
    return [Announce(ref, why, f"group {group.name}: {_sentence(state, group, told)}")]


def _sentence(state: State, group: Group, told: int) -> str:
    if not group.estimate:
        return f"no start can be promised any more (it was {rfc3339(told)})"
    text = f"estimated to start at {rfc3339(group.estimate)}, in {soon(group.estimate - state.now)}"
    if not told:
        return text
    move = group.estimate - told
    return f"{text}; {soon(abs(move))} {'later' if move > 0 else 'earlier'} than told before"


def _holder(state: State, group: Group) -> Owner | Pod | None:
    """The Job if the group is one, else its first member that may be written to."""
    for uid in group.owners if group.source == "job" else ():
        owner = state.owners.get(uid)
        if owner is not None:
            return owner
    for uid in group.pods:
        pod = state.pods[uid]
        if not (pod.node or pod.ended or pod.deleting or uid in state.intents):
            return pod
    return None


def _ref(holder: Owner | Pod) -> ObjectRef:
    return of_pod(holder) if isinstance(holder, Pod) else of_owner(holder)
