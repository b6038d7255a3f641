"""Ends groups whose walltime is over, or that have lost a member and are to fail as a whole, and warns of
ends that Kubernetes will bring about.

A reconciler, run by the engine after each batch over the touched groups. Fairlead ends what its own clock
says (`fairlead.dev/duration`, or what the queue gives); activeDeadlineSeconds are the kubelet's and the
Job controller's to enforce. The clock runs from when all members run. Level-triggered: that a group is being
ended is in its stored reason, so an end that was begun is brought to its end after a restart, and one that
came to nothing is asked for again. Must never name an object for deletion that is more than the group.
"""

from collections.abc import Sequence

from fairlead.control.telling import regarding
from fairlead.core import durations
from fairlead.core.grouping import ON_TIMEOUT, ON_TIMEOUTS, annotations
from fairlead.core.groups import members, move
from fairlead.core.live import Group
from fairlead.core.losses import failure
from fairlead.core.state import State
from fairlead.model.command import Announce, Command, End, ObjectRef
from fairlead.model.group import Phase, Reason, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod

_AGAIN = (10_000, 10_000, 30_000, 60_000)
"""Pauses before an end is asked for again, while members live that nobody has begun to delete."""


def enforce(state: State, touched: Sequence[Group]) -> list[Command]:
    """End what is over its limit or has failed; say so once where a Job's own deadline will come first."""
    commands: list[Command] = []
    if not state.synced:
        return commands
    for group in touched:
        if group.latest_end and group.phase is not Phase.ENDED:
            commands += _warn(state, group)
        if group.ending or _has_failed(state, group) or (group.limit and _is_over(state, group)):
            commands += _end(state, group)
    return commands


def _is_over(state: State, group: Group) -> bool:
    """Whether its time is up just now; it is looked at again at that very time."""
    if group.phase is not Phase.RUNNING or not group.started_at:
        return False
    due = group.started_at + group.limit
    if state.now < due:
        state.wake(due, group.id)
        return False
    text = f"its walltime of {durations.show(group.limit)} is over"
    move(state, group, Phase.RUNNING, Reason(Why.TIMEOUT, text))
    return True


def _has_failed(state: State, group: Group) -> bool:
    """Whether a member of a group that is to fail as a whole has failed or is lost, just now."""
    text = failure(state, group, members(state, group).bound) if group.short_since else ""
    if text:
        move(state, group, Phase.RUNNING, Reason(Why.FAILED, f"{text}, and all of the group ends with it"))
    return bool(text)


def _end(state: State, group: Group) -> list[Command]:
    live = members(state, group).live
    left = [pod for pod in live if not pod.deleting]
    if not left:  # they are on their way, with the grace that they asked for
        return []
    if state.now < group.end_again_at:
        state.wake(group.end_again_at, group.id)
        return []
    group.end_again_at = state.now + _AGAIN[min(group.endings, len(_AGAIN) - 1)]
    group.endings += 1
    state.wake(group.end_again_at, group.id)
    return [_command(state, group, left)]


def _command(state: State, group: Group, left: list[Pod]) -> End:
    """Jobs that are the group's alone are failed or deleted, by policy; of all others only the pods go.

    Whoever fails or deletes a Job deletes its pods too; when that is asked for a second time, so are they.
    """
    owners = [state.owners[uid] for uid in group.owners if uid in state.owners]
    policy = annotations(left, owners).get(ON_TIMEOUT, ON_TIMEOUTS[0])
    whole = [o for o in owners if policy != "pods" and _is_the_groups(state, group, o)]
    refs = tuple(ObjectRef(o.kind, o.namespace, o.name, o.uid, o.version) for o in whole)
    spared = {owner.uid for owner in whole} if group.endings == 1 else set[str]()
    pods = tuple(
        ObjectRef("Pod", pod.namespace, pod.name, pod.uid)
        for pod in left
        if pod.owner is None or pod.owner.uid not in spared
    )
    delete = policy == "delete"
    fail, gone = ((), refs) if delete else (refs, ())
    return End(group.id, group.reason.text, fail, gone, pods, group.reason.why)


def _is_the_groups(state: State, group: Group, owner: Owner) -> bool:
    """A Job of which no other group has a living pod. Owners of other kinds want pods for ever: they stay."""
    if owner.kind != "Job" or owner.ended or owner.deleting:
        return False
    for gid in state.groups_of_owner.get(owner.uid, ()):
        other = state.groups.get(gid)
        if other is not None and other is not group and other.phase is not Phase.ENDED:
            pods = [state.pods[uid] for uid in other.pods]
            if any(pod.owner is not None and pod.owner.uid == owner.uid and not pod.ended for pod in pods):
                return False
    return True


def _warn(state: State, group: Group) -> list[Command]:
    """A Job-level activeDeadlineSeconds runs while its pods wait: nobody should learn that by losing them."""
    if group.phase in (Phase.HELD, Phase.QUEUED):
        due = group.first_seen + state.settings.lasting
        text = "the Job's activeDeadlineSeconds run while it waits: Kubernetes ends it then, started or not"
    else:
        began = group.started_at or group.granted_at or group.bound_at
        due = state.now
        if not group.duration or began + group.duration <= group.latest_end:
            return []
        text = (
            f"its walltime of {durations.show(group.duration)} is longer than what the Job's"
            " activeDeadlineSeconds leave it: Kubernetes will end it before"
        )
    if text == group.warned:
        return []
    if state.now < due:
        state.wake(due, group.id)
        return []
    about = regarding(state, group)
    if about is None:
        return []
    group.warned = text
    return [Announce(about, Why.DEADLINE, f"group {group.name}: {text}", warning=True)]
