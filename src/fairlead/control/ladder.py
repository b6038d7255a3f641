"""The ladder of a failed start, in one function (design.md §4.8). Kubernetes has no unbind.

A reconciler, run by the engine after each batch over the touched groups:

  step 1  no member bound, none possibly bound  → drop the intent, queue again after a pause
  step 2  some bound                            → keep them; the missing ones are placed anew, for 15 s
  step 3  after that                            → evict the members whose controller recreates them; bare
                                                  pods stay and the group is flagged broken, loudly

Must not touch a group that runs: once all were bound, a group that loses a member keeps the others.
"""

from collections.abc import Sequence

from fairlead.core.groups import Members, members, move
from fairlead.core.state import Group, State
from fairlead.model.command import Announce, Command, Evict, ObjectRef
from fairlead.model.group import Phase, Reason, Why
from fairlead.model.pod import Pod

RECREATED_BY = ("Job", "ReplicaSet", "StatefulSet", "ReplicationController")
"""Controllers that bring a new pod for one that was evicted."""
_MAX_EVICTIONS = 3
_BACKOFF = (1_000, 2_000, 5_000, 10_000, 30_000)


def climb(state: State, touched: Sequence[Group]) -> list[Command]:
    """Let every half-started group among the touched ones take the step that is due."""
    commands: list[Command] = []
    if state.synced:
        for group in touched:
            if group.phase is Phase.STARTING:
                commands += _climb_one(state, group)
    return commands


def _climb_one(state: State, group: Group) -> list[Command]:
    found = members(state, group)
    failed = [pod for pod in found.intended if state.intents[pod.uid].error is not None]
    pending = len(found.intended) - len(failed)
    short = len(found.bound) + pending + group.completed + group.failed < group.started_size
    if not failed and not short:
        return []
    if not found.bound and not pending and not (group.completed or group.failed):
        _give_up(state, group, failed)
        return []
    for pod in failed:  # step 2: they ask again, as members that join
        state.drop_intent(pod.uid)
    if not group.recovering_since:
        group.recovering_since = state.now
    due = group.recovering_since + state.settings.recovery
    if state.now < due:
        state.wake(due, group.id)
        return []
    return _step_three(state, group, found) if not pending else []


def _give_up(state: State, group: Group, failed: list[Pod]) -> None:
    """Step 1: nothing happened in the cluster, so nothing has to be undone there."""
    error = next((e for pod in failed if (e := state.intents[pod.uid].error) is not None), None)
    for pod in failed:
        state.drop_intent(pod.uid)
    group.attempts += 1
    pause = _BACKOFF[min(group.attempts, len(_BACKOFF)) - 1] if error is not None else 0
    group.backoff_until = state.now + pause if pause else 0
    group.granted_at, group.nodes, group.recovering_since = 0, (), 0
    move(
        state,
        group,
        Phase.QUEUED,
        Reason(Why.BACKOFF, f"start {group.attempts} failed: {error or 'members left'}"),
    )
    state.touch(group.id)


def _step_three(state: State, group: Group, found: Members) -> list[Command]:
    """Forward recovery has run out of time: free what can be recreated, flag what cannot."""
    recreated = [pod for pod in found.bound if pod.owner is not None and pod.owner.kind in RECREATED_BY]
    bare = len(found.bound) - len(recreated)
    seconds = state.settings.recovery // 1000
    text = f"only {len(found.bound)} of {group.started_size} members could be bound within {seconds} s"
    if group.evictions >= _MAX_EVICTIONS or (bare and not recreated):
        group.broken = text
        group.bound_at = group.bound_at or state.now
        move(state, group, Phase.RUNNING, Reason(Why.BROKEN, text))
        state.touch(group.id)
        return [Announce(_ref(found.bound[0]), Why.BROKEN, text, warning=True)] if found.bound else []
    group.evictions += 1
    group.recovering_since = state.now
    state.wake(state.now + state.settings.recovery, group.id)
    if bare:
        group.broken = text
    return [Evict(_ref(pod), text, None if pod.started else 0) for pod in recreated if not pod.deleting]


def _ref(pod: Pod) -> ObjectRef:
    return ObjectRef("Pod", pod.namespace, pod.name, pod.uid, pod.version)
