"""The ladder of a failed start, in one function (design.md §4.8). Kubernetes has no unbind.

A reconciler, run by the engine after each batch over the touched groups:

  step 1  no member bound, none possibly bound  → drop the intent, queue again after a pause; a request
                                                  that may still be on its way is revoked first
  step 2  some bound                            → keep them; the missing ones are placed anew, for 15 s
  step 3  after that                            → evict the members whose controller recreates them; bare
                                                  pods stay and the group is flagged broken, loudly

A group that runs keeps its members whatever becomes of the others: a pod that wanted to join and could not
be bound asks again after a pause.
"""

from collections.abc import Sequence

from fairlead.control.spare import evict, spare
from fairlead.core.groups import Members, members, move
from fairlead.core.live import Group, Intent
from fairlead.core.refs import of_pod
from fairlead.core.state import State
from fairlead.model.command import REVOKED, Announce, Command, Revoke
from fairlead.model.group import Phase, Reason, Why

MAX_EVICTIONS = 3
_BACKOFF = (1_000, 2_000, 5_000, 10_000, 30_000)


def climb(state: State, touched: Sequence[Group]) -> list[Command]:
    """Let every half-started group among the touched ones take the step that is due."""
    commands: list[Command] = []
    if state.synced:
        for group in touched:
            if group.phase is Phase.STARTING:
                commands += _climb_one(state, group)
            elif group.phase is Phase.RUNNING:
                commands += _drop_failed(state, group, _intents(state, group))
    return commands


def _climb_one(state: State, group: Group) -> list[Command]:
    found = members(state, group)
    intents = [state.intents[pod.uid] for pod in found.intended]
    pending = [intent for intent in intents if intent.error is None]
    done = len(found.bound) + group.completed + group.failed
    short = done + len(pending) < group.started_size
    wrong = short or len(pending) < len(intents)
    if wrong and not done and not any(intent.acknowledged for intent in intents):
        return _take_back(state, group, intents)
    for intent in pending:  # also those that step 1 held back before
        if intent.durable and not (intent.in_flight or intent.acknowledged):
            state.to_bind[intent.pod] = None
    commands = _drop_failed(state, group, intents)  # step 2: they ask again, as members that join
    if not short:
        return commands
    if not group.recovering_since:
        group.recovering_since = state.now
    due = group.recovering_since + state.settings.recovery
    if state.now < due:
        state.wake(due, group.id)
        return commands
    return commands + (_step_three(state, group, found) if not pending else [])


def _intents(state: State, group: Group) -> list[Intent]:
    return [intent for uid in group.pods if (intent := state.intents.get(uid)) is not None]


def _drop_failed(state: State, group: Group, intents: list[Intent]) -> list[Command]:
    """Give up the intents that failed, once none can take effect any more, and pause before the next try."""
    failed = [intent for intent in intents if intent.error is not None]
    commands: list[Command] = []
    for intent in failed:
        if _settled(state, intent):
            state.drop_intent(intent.pod)
        else:
            commands += _revoke(state, intent)
    if failed:
        _pause(state, group)
    return commands


def _settled(state: State, intent: Intent) -> bool:
    """Whether no request of it can take effect any more: the pod stays unbound until it is asked."""
    if intent.in_flight or intent.acknowledged:
        return False
    pod = state.pods.get(intent.pod)
    if not intent.doubtful or pod is None or pod.deleting:
        return True
    return pod.annotations.get(REVOKED) == intent.grant


def _revoke(state: State, intent: Intent) -> list[Command]:
    """A request of unknown fate is made to fail, wherever it is: asked for until the watch shows it done."""
    if intent.in_flight or intent.acknowledged:
        return []
    if state.now < intent.revoke_again_at:
        state.wake(intent.revoke_again_at, intent.group)
        return []
    intent.revoke_again_at = state.now + state.settings.request_timeout
    state.wake(intent.revoke_again_at, intent.group)
    return [Revoke(of_pod(state.pods[intent.pod]), intent.grant)]


def _pause(state: State, group: Group) -> None:
    if group.backoff_until <= state.now:
        group.attempts += 1
        group.backoff_until = state.now + _BACKOFF[min(group.attempts, len(_BACKOFF)) - 1]


def _take_back(state: State, group: Group, intents: list[Intent]) -> list[Command]:
    """Step 1: what has not been sent is held back; as soon as nothing is on its way, the start is off."""
    for intent in intents:
        state.to_bind.pop(intent.pod, None)
    unsettled = [intent for intent in intents if not _settled(state, intent)]
    if not unsettled:
        _give_up(state, group, intents)
    return [command for intent in unsettled for command in _revoke(state, intent)]


def _give_up(state: State, group: Group, intents: list[Intent]) -> None:
    """Nothing happened in the cluster, so nothing has to be undone there."""
    error = next((intent.error for intent in intents if intent.error is not None), None)
    for intent in intents:
        state.drop_intent(intent.pod)
    if error is not None:
        _pause(state, group)
    group.granted_at, group.nodes, group.recovering_since = 0, (), 0
    move(
        state,
        group,
        Phase.QUEUED,
        Reason(Why.BACKOFF, f"the start failed: {error or 'members left'}"),
    )
    state.touch(group.id)


def _step_three(state: State, group: Group, found: Members) -> list[Command]:
    """Forward recovery has run out of time: free what can be recreated, flag what cannot."""
    recreated = spare(state, found.bound)
    bare = len(found.bound) - len(recreated)
    seconds = state.settings.recovery // 1000
    text = f"only {len(found.bound)} of {group.started_size} members could be bound within {seconds} s"
    if group.evictions >= MAX_EVICTIONS or (bare and not recreated):
        group.broken = text
        group.bound_at = group.bound_at or state.now
        move(state, group, Phase.RUNNING, Reason(Why.BROKEN, text))
        state.touch(group.id)
        return [Announce(of_pod(found.bound[0]), Why.BROKEN, text, warning=True)] if found.bound else []
    group.evictions += 1
    group.recovering_since = state.now
    state.wake(state.now + state.settings.recovery, group.id)
    commands: list[Command] = [evict(state, pod, text) for pod in recreated if not pod.deleting]
    if bare and not group.broken:
        group.broken = text
        commands.append(Announce(of_pod(found.bound[0]), Why.BROKEN, text, warning=True))
    return commands
