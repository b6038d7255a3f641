"""What a group is now, derived from its pods, owners and intents: phase, reason, requests.

`refresh` is called by `core.engine` at the end of a batch for every group that was touched. It is
level-triggered: it looks at what is, never at what happened, so a missed or repeated touch is harmless.
Giving up a failed start is not decided here but by the ladder (`control.ladder`).
"""

from typing import NamedTuple

from fairlead.core.esi.asking import why as slot_words
from fairlead.core.grouping import annotations, demand, fails_whole, layout, walltime
from fairlead.core.lifecycle import may_move
from fairlead.core.line import offer, request, withdraw
from fairlead.core.live import Group
from fairlead.core.losses import named, notice, places, refused
from fairlead.core.running import expected_end
from fairlead.core.snapshot import Request
from fairlead.core.state import State
from fairlead.core.tenancy import lay
from fairlead.core.things import devices_behind
from fairlead.model.group import Outcome, Phase, Reason, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod, PodPhase


class Members(NamedTuple):
    """The pods of a group by what can be done with them; each in order of arrival."""

    live: list[Pod]
    bound: list[Pod]
    intended: list[Pod]
    waiting: list[Pod]
    """Unbound, without intent, and may be bound."""


def members(state: State, group: Group) -> Members:
    """Sort the group's pods. O(size), and once per batch for every touched group: hence no calls inside."""
    found = Members([], [], [], [])
    pods = state.pods
    for uid in group.pods:
        pod = pods[uid]
        if pod.phase is PodPhase.SUCCEEDED or pod.phase is PodPhase.FAILED:
            continue
        found.live.append(pod)
        if pod.node:
            found.bound.append(pod)
        elif uid in state.intents:
            found.intended.append(pod)
        elif not pod.deleting and not pod.gated:
            found.waiting.append(pod)
    return found


def move(state: State, group: Group, phase: Phase, reason: Reason, outcome: Outcome = Outcome.NONE) -> None:
    """Put the group into a phase with a reason; the only place where a phase changes."""
    if phase is not group.phase or reason.why is not group.reason.why:
        state.touch(group.id)  # what was decided here is saved and told in the same batch
    if phase is not group.phase:
        if not may_move(group.phase, phase):
            raise ValueError(f"group {group.id} cannot move from {group.phase} to {phase}")
        group.since = state.now
        if phase is Phase.QUEUED and not group.complete_at:
            group.complete_at = state.now
        group.ended_at = state.now if phase is Phase.ENDED else 0
    elif reason.why is not group.reason.why:
        group.since = state.now
    if outcome is not Outcome.REJECTED:
        state.rejected.pop(group.id, None)
    if phase is not Phase.QUEUED:
        if phase is Phase.STARTING:
            state.unpromise(group.id)
        else:
            state.break_promise(group.id)
        group.estimate = 0
    group.phase, group.reason, group.outcome = phase, reason, outcome


def reword(state: State, group: Group, reason: Reason) -> None:
    """Another reason to wait, for a group that is queued and stays so."""
    if reason.why is not group.reason.why:
        group.since = state.now
        state.note(group.id)
    group.reason = reason


def refresh(state: State, group: Group) -> None:
    """Bring the group's phase, reason, size and requests up to date with its pods, owners and intents."""
    found = members(state, group)
    owners = [state.owners[uid] for uid in group.owners if uid in state.owners]
    assembling = group.phase in (Phase.HELD, Phase.QUEUED) or group.rejected
    group.seen = len(found.live) if assembling else max(group.seen, len(found.live))
    if found.live:
        group.priority = max([pod.priority for pod in found.live])
    requests: tuple[Request, ...] = ()
    if group.phase is Phase.ENDED and not group.rejected:
        pass
    elif not found.live and (group.ending or not (group.source != "pod" and _expects(owners))):
        _end(state, group, owners)
    elif group.phase in (Phase.STARTING, Phase.RUNNING) or found.bound or found.intended:
        requests = _started(state, group, found, owners)
    else:
        requests = _unstarted(state, group, found, owners)
    group.shares = None
    state.unsettled[group.id] = None
    if group.phase in (Phase.STARTING, Phase.RUNNING):
        state.started[group.id] = None
    else:
        state.started.pop(group.id, None)
    offer(state, group, requests)


def _expects(owners: list[Owner]) -> bool:
    """Whether any owner will still bring pods."""
    return any(not o.deleting and not o.ended and (o.size > 0 or o.suspended) for o in owners)


def _end(state: State, group: Group, owners: list[Owner]) -> None:
    ended = [o.ended for o in owners if o.ended]
    if group.ending:  # whatever became of the pods then
        outcome = Outcome.TIMEOUT if group.timed_out else Outcome.FAILED
        move(state, group, Phase.ENDED, group.reason, outcome)
        return
    if "timeout" in ended:
        outcome, text = Outcome.TIMEOUT, "activeDeadlineSeconds of its Job were over"
    elif "failed" in ended or (group.failed and not ended):
        outcome, text = Outcome.FAILED, ""
        if any(state.pods[uid].overdue for uid in group.pods):
            outcome, text = Outcome.TIMEOUT, "activeDeadlineSeconds of its pods were over"
        elif lost := refused(state, group):
            text = f"refused by the kubelet: {named(lost)}"
    else:
        outcome, text = Outcome.COMPLETED if ended or group.completed else Outcome.CANCELLED, ""
    move(state, group, Phase.ENDED, Reason(Why(outcome.value.capitalize()), text), outcome)


def _unstarted(state: State, group: Group, found: Members, owners: list[Owner]) -> tuple[Request, ...]:
    """HELD, QUEUED or rejected: is the group complete and may it wait for a start?"""
    missing = any(uid not in state.owners for uid in group.owners)
    devices = devices_behind(state)
    want = demand(group.source, found.live, owners, missing, state.settings, state.topology, devices)
    group.size, group.queue, group.duration, group.begin = want.size, want.queue, want.duration, want.begin
    group.limit, group.latest_end = want.limit, _latest_end(owners)
    group.fail_all, group.slotted = want.fail_all, want.slotted
    lay(state, group, want.layout)
    if want.astray:
        state.astray[group.id] = None
    group.started_size = group.granted_at = group.bound_at = group.recovering_since = 0
    group.planned_at = group.recorded_at = 0
    group.nodes, group.broken = (), ""
    hold = _hold(state, group, found, owners, want.hold)
    if hold is not None:
        if hold.why is Why.WAITING_FOR_GROUP:
            group.complete_at = group.promised = group.promised_last = 0
        move(state, group, Phase.HELD, hold)
        return ()
    wanted = request(state, group, found.waiting[: want.size], False, group.duration)
    if group.spoilt:
        if group.spoilt[0]._replace(kind=0) == wanted._replace(kind=0):
            return ()
        group.spoilt = ()
    if group.rejected and group.rejected_for == (wanted.tasks, state.inventory.nominal_version):
        return ()
    if group.slotted:
        _wait_for_slot(state, group, found.waiting[0])
    elif group.phase is not Phase.QUEUED:
        move(state, group, Phase.QUEUED, Reason(Why.QUEUED, "not looked at yet"))
    return (wanted,)


def _wait_for_slot(state: State, group: Group, pod: Pod) -> None:
    """QUEUED, and with words of its own: no plan looks at it, so none says why it waits."""
    reason = Reason(Why.QUEUED, slot_words(state, pod))
    if group.phase is not Phase.QUEUED:
        move(state, group, Phase.QUEUED, reason)
    elif reason != group.reason:
        reword(state, group, reason)


def _hold(
    state: State, group: Group, found: Members, owners: list[Owner], unreadable: Reason | None
) -> Reason | None:
    """Why the group may not be queued yet, in the order a person would want to hear it; None if it may."""
    if unreadable is not None and unreadable.why in (Why.INVALID, Why.WAITING_FOR_GROUP):
        return unreadable
    if any(o.suspended for o in owners):
        return Reason(Why.SUSPENDED, "its owner is suspended")
    if len(found.waiting) < group.size:
        gated = sum(pod.gated for pod in found.live)
        if len(found.live) >= group.size and gated:
            return Reason(Why.SUSPENDED, f"{gated} of {len(found.live)} pods have scheduling gates")
        return Reason(Why.WAITING_FOR_GROUP, f"has {len(found.waiting)} of {group.size}")
    if unreadable is not None:
        return unreadable
    for at, why, text in (
        (group.begin, Why.BEGIN_TIME, "begin-time has not come"),
        (group.backoff_until, Why.BACKOFF, f"start {group.attempts} failed, tried again soon"),
    ):
        if at > state.now:
            state.wake(at, group.id)
            return Reason(why, text)
    return None


def _started(state: State, group: Group, found: Members, owners: list[Owner]) -> tuple[Request, ...]:
    """STARTING or RUNNING: has everything been bound, and who wants to join?"""
    _follow_limits(state, group, found, owners)
    if group.ending:  # nobody joins it any more, and it does not start anew
        return ()
    if group.phase in (Phase.HELD, Phase.QUEUED) or group.rejected:
        _found_started(state, group, found, owners)
    if _over_before_its_end(group, found, owners):
        group.started_at = group.completed = group.failed = 0
        return _unstarted(state, group, found, owners)
    done = len(found.bound) + group.completed + group.failed
    if group.phase is Phase.STARTING:
        if not found.intended and done >= group.started_size:
            group.bound_at = group.bound_at or state.now
            _whole(group)
            move(state, group, Phase.RUNNING, Reason(Why.RUNNING))
        elif not done and not found.intended:
            return _unstarted(state, group, found, owners)  # the start was given up
    if group.phase is Phase.RUNNING:
        _look_after(state, group, found, done)
        notice(state, group, found.bound)
    if group.backoff_until > state.now:
        state.wake(group.backoff_until, group.id)
        return ()
    if group.phase is Phase.STARTING and not done:  # the start may still be taken back whole
        return ()
    joining = [
        pod
        for pod in found.waiting
        if not pod.shape.unsupported and not any(pod.uid in each.tasks[0].uids for each in group.spoilt)
    ]
    first = places(state, group, found.bound, len(found.intended)) if joining else 0
    return tuple(
        request(state, group, [pod], True, _left(state, group, pod), first=number < first)
        for number, pod in enumerate(joining)
    )


def _left(state: State, group: Group, pod: Pod) -> int:
    """How long a member that joins now would run: what is left of the group's walltime (I4), 0 = for ever.

    What a plan was told before stands until it is a tenth too much: each change is a new request.
    """
    if not (group.duration and group.started_at):
        return group.duration
    left = expected_end(group.started_at, group.duration, state.now) - state.now
    for known in group.requests:
        if known.growth and pod.uid in known.tasks[0].uids and left <= known.duration <= left + left // 10:
            return known.duration
    return left


def _found_started(state: State, group: Group, found: Members, owners: list[Owner]) -> None:
    """Bound by an earlier process, whose store is lost, or by others: what is there counts as the start."""
    missing = any(uid not in state.owners for uid in group.owners)
    want = demand(group.source, found.live, owners, missing, state.settings)
    group.size, group.limit = want.size, want.limit
    group.queue, group.duration, group.begin = want.queue, want.duration, want.begin
    group.started_size = group.started_size or (want.size if found.intended else len(found.bound))
    move(state, group, Phase.STARTING, Reason(Why.STARTED))


def _follow_limits(state: State, group: Group, found: Members, owners: list[Owner]) -> None:
    """What its objects say now of its walltime holds at once, also of one that runs (I17).

    What cannot be read, or is more than the queue gives, changes nothing. A walltime that the queue gave
    at the start stays; the queue's own change is for those that start later.
    """
    said_by = (state.settings, *[pod.annotations for pod in found.live], *[p.walltime for p in found.live])
    if not owners and said_by == group.said_by:
        return
    if not group.said_by and found.live:  # of one that an earlier process started, this is not known yet
        where = layout(annotations(found.live, owners), state.topology)
        lay(state, group, group.layout if isinstance(where, Reason) else where)
    group.said_by = said_by
    group.latest_end = _latest_end(owners)
    if not found.live:
        return
    queue, notes = state.settings.queue(group.queue), annotations(found.live, owners)
    group.fail_all = fails_whole(notes)
    said = walltime(notes, found.live, queue)
    if said.wrong is not None:
        return
    duration = said.duration
    if not said.stated and duration:
        duration = group.duration
    group.limit = said.limit and duration
    if duration != group.duration:
        group.duration = duration
        state.reopen()


def _latest_end(owners: list[Owner]) -> int:
    """When a Job's own deadline is over: it runs from the Job's start, while its pods wait too."""
    runs = [o for o in owners if o.deadline and o.started and not (o.suspended or o.ended)]
    return min((o.started + o.deadline for o in runs), default=0)


def _whole(group: Group) -> None:
    """Every member that the start was granted for was bound at some time: the start has succeeded."""
    group.recovering_since = group.attempts = group.evictions = group.backoff_until = 0
    if not group.crowded:
        group.broken = ""


def _over_before_its_end(group: Group, found: Members, owners: list[Owner]) -> bool:
    """A started group of which nothing is left but whose owner goes on: it waits for a new start, whole.

    Its owner is suspended, or a gang lost all its members before any of them had completed. A group of
    one goes on as it is: for a Job that works its completions off one by one this is the ordinary case.
    """
    if not found.live and any(o.suspended for o in owners):
        return True
    return group.started_size > 1 and not (found.bound or found.intended or group.completed)


def _look_after(state: State, group: Group, found: Members, done: int) -> None:
    """RUNNING: when it began to run, where it is, whether it has become whole after all."""
    if found.bound and not group.started_at and all(p.phase == "Running" for p in found.bound):
        group.started_at = state.now
    nodes = dict.fromkeys(group.nodes)
    nodes.update(dict.fromkeys(pod.node for pod in found.bound))
    if len(nodes) != len(group.nodes):
        group.nodes = tuple(nodes)
    if group.crowded and not state.inventory.over(group.crowded):
        group.crowded = ""
    lost = refused(state, group)
    whole = done - min(len(lost), group.failed) >= group.started_size
    if group.broken and whole and not group.crowded:
        _whole(group)
        move(state, group, Phase.RUNNING, Reason(Why.RUNNING))
    elif lost and found.bound and not (group.broken or whole or group.fail_all):
        group.broken = f"refused by the kubelet, and nobody makes it anew: {named(lost)}"
        move(state, group, Phase.RUNNING, Reason(Why.BROKEN, group.broken))
    if group.attempts and not (found.intended or found.waiting):
        group.attempts = group.backoff_until = 0


def sequence(state: State) -> None:
    """Give first-seen sequence numbers to new groups, in the order their first pods were seen."""
    if not state.synced:
        return
    for gid in state.unsequenced:
        group = state.groups.get(gid)
        if group is not None:
            group.seq = state.next_seq
            state.next_seq += 1
    state.unsequenced.clear()


def _retire(state: State, key: str) -> None:
    """Keep the number of the last incarnation as long as the store keeps its record, and no longer."""
    state.retired.pop(key, None)  # to the end: the oldest come first
    state.retired[key] = state.now
    while state.retired:
        oldest = next(iter(state.retired))
        if state.retired[oldest] + state.settings.retention > state.now:
            break
        del state.retired[oldest]
        state.incarnations.pop(oldest, None)


def forget(state: State, group: Group) -> None:
    """Drop an ended group of which no pod exists any more; its label's incarnation number stays."""
    if group.phase is Phase.ENDED and not group.pods and not group.rejected:
        state.groups.pop(group.id, None)
        state.ends.drop(group.id)
        state.unsettled.pop(group.id, None)
        state.astray.pop(group.id, None)
        withdraw(state, group)
        if state.by_key.get(group.key) is group:
            del state.by_key[group.key]
        if group.source == "pod":  # a uid never comes back
            state.incarnations.pop(group.key, None)
        elif group.key not in state.by_key:
            _retire(state, group.key)
        for uid in group.owners:
            ids = state.groups_of_owner.get(uid, {})
            ids.pop(group.id, None)
            if not ids:
                state.groups_of_owner.pop(uid, None)
