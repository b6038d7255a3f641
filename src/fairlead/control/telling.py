"""What people are told: one Kubernetes Event per lasting change of a group's state, and pod conditions.

A reconciler, run by the engine after each batch. API writes are the budget: nothing is written about a
state that lasts less than `Settings.lasting`, and a condition only when its reason changes. Must never
write about a pod that is bound or about to be: the bind itself sets PodScheduled, and a patch would
change the resourceVersion under it.
"""

from collections.abc import Sequence

from fairlead.core.estimates import unpromised
from fairlead.core.groups import members
from fairlead.core.live import Group
from fairlead.core.refs import of_owner, of_pod
from fairlead.core.state import State
from fairlead.model.command import Announce, Command, ObjectRef, PatchCondition
from fairlead.model.group import Outcome, Phase, Why

_AT_ONCE = (Why.UNSATISFIABLE, Why.INVALID, Why.UNSUPPORTED, Why.BROKEN, Why.TIMEOUT, Why.SET_ASIDE)
"""Nothing else is going to happen by itself, so there is no point in waiting."""
_WARNINGS = (*_AT_ONCE, Why.FAILED)
_WAITING = (Phase.HELD, Phase.QUEUED)


def tell(state: State, touched: Sequence[Group]) -> list[Command]:
    """Events and conditions that are due for the touched groups."""
    commands: list[Command] = []
    if not state.synced:
        return commands
    for group in touched:
        commands += _tell_one(state, group)
    commands += [Announce(ref, why, text, warning=True) for ref, why, text in state.alarms]
    state.alarms.clear()
    for uid, wanted in state.ignored_changes.items():
        pod = state.pods.get(uid)
        if pod is not None:
            note = f"the pod asks for group {wanted} now, but it has been placed: it stays where it is"
            commands.append(Announce(of_pod(pod), Why.IGNORED, note, warning=True))
    state.ignored_changes.clear()
    return commands


def _tell_one(state: State, group: Group) -> list[Command]:
    now = (group.phase, group.outcome, group.reason.why, group.id == state.head(group))
    quiet = group.phase is Phase.ENDED and not (group.rejected or _failed_unseen(group))
    if now == group.told or (not group.told and quiet):
        return []
    at_once = group.reason.why in _AT_ONCE or group.failing
    due = group.since + (0 if at_once else state.settings.lasting)
    if state.now < due:
        if group.tell_at != due:
            group.tell_at = due
            state.wake(due, group.id)
        return []
    group.told = now
    return [*_announce(state, group), *_conditions(state, group)]


def _failed_unseen(group: Group) -> bool:
    """Whether it failed for a reason that no container's end tells."""
    return group.outcome is Outcome.FAILED and bool(group.reason.text)


def _announce(state: State, group: Group) -> list[Command]:
    about = regarding(state, group)
    if about is None:
        return []
    why = group.reason.why
    return [Announce(about, _word(state, group), _sentence(state, group), warning=why in _WARNINGS)]


def _word(state: State, group: Group) -> str:
    """The reason in Events and conditions. Autoscalers act on `Unschedulable`: only where it helps."""
    why = group.reason.why
    if group.rejected:
        return Why.RESOURCES
    if why is Why.RESOURCES and group.id != state.head(group):
        return Why.QUEUED
    return Why.QUEUED if why in (Why.NODES_DOWN, Why.BLOCKED, Why.BACKOFF) else why


def _sentence(state: State, group: Group) -> str:
    text = group.reason.text
    if group.phase is Phase.RUNNING:
        return text or f"{group.started_size} pods run on {len(group.nodes)} nodes"
    if group.phase is Phase.QUEUED and group.reason.why is Why.QUEUED:
        text = unpromised(state, group) or text
    if group.phase is Phase.QUEUED and not text:
        head = state.groups.get(state.head(group))
        text = f"behind {head.namespace}/{head.name}" if head and head is not group else "waits for its turn"
    return f"group {group.name}: {text}" if text else f"group {group.name} {group.outcome or group.phase}"


def regarding(state: State, group: Group) -> ObjectRef | None:
    """What its Events are about: the Job if the group is one, else its first pod that still exists."""
    for uid in group.owners if group.source == "job" else ():
        owner = state.owners.get(uid)
        if owner is not None:
            return of_owner(owner)
    for uid in group.pods:
        return of_pod(state.pods[uid])
    return None


def _conditions(state: State, group: Group) -> list[Command]:
    if group.phase not in _WAITING and group.outcome is not Outcome.REJECTED:
        return []
    word = _word(state, group)
    wrong = [pod for pod in members(state, group).waiting if pod.condition != f"False/{word}"]
    if not wrong:
        return []
    return [PatchCondition(tuple(of_pod(pod) for pod in wrong), word, _sentence(state, group))]
