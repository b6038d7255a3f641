"""The story of one group for `explain`: stages, members, who is ahead, what it lacks, what comes next.

Called by `api.source` with the live state and by the command line with a record from the store. Pure:
nothing is changed and no plan is made; what a group lacks is worked out anew over a snapshot of now.
"""

from collections.abc import Sequence

import numpy as np

from fairlead.core import durations, topology
from fairlead.core.assume import waited_for
from fairlead.core.esi.asking import next_step
from fairlead.core.estimates import unpromised
from fairlead.core.explain import amounts_text, blocked, unsatisfiable
from fairlead.core.groups import members
from fairlead.core.inventory import how_many
from fairlead.core.labels import constraints
from fairlead.core.live import Group
from fairlead.core.picture import take
from fairlead.core.running import expected_end
from fairlead.core.snapshot import Request, Snapshot, Task
from fairlead.core.state import State
from fairlead.core.tenancy import PLACES
from fairlead.core.views import ahead_of, estimate, head_of, label, order, reason_of, row, span
from fairlead.model import quantity
from fairlead.model.group import GroupRecord, Outcome, Phase, Why
from fairlead.model.plan import Placement, Reserve
from fairlead.model.pod import Pod
from fairlead.model.selector import Expression, Operator
from fairlead.model.view import Ask, Blocker, Explanation, Head, Layout, Member, Promise, Stage


def find(state: State, name: str) -> list[Group]:
    """Groups by id, by namespace/name, or by name; those that have not ended first, then the newest.

    If there is none, the groups of the pods that are called so.
    """
    exact = state.groups.get(name)
    if exact is not None:
        return [exact]
    found = [g for g in state.groups.values() if name in (g.name, label(g))]
    if not found:
        pods = [p for p in state.pods.values() if name in (p.name, f"{p.namespace}/{p.name}")]
        ids = dict.fromkeys(state.group_of.get(pod.uid, "") for pod in pods)
        found = [state.groups[gid] for gid in ids if gid in state.groups]
    return sorted(found, key=lambda g: (g.phase is Phase.ENDED, -g.seq, -g.incarnation, g.id))


def explain(state: State, group: Group, now: int) -> Explanation:
    """All that is known of a group now."""
    head = head_of(state, group)
    waits = group.phase is Phase.QUEUED
    ahead = ahead_of(state, group)
    record = group.record()
    lack = _Lack(state, group) if group.requests and not group.slotted else None
    return Explanation(
        group=row(record, now, ahead + 1 if waits else 0, reason_of(group, head), estimate(group)),
        since=group.since,
        stages=stages(record),
        asks=_asks(state, group),
        members=pods_of(state, group),
        ahead=ahead,
        head=_head(head) if head is not None and waits and head.id != group.id else None,
        short=lack.short if lack else "",
        nearest=lack.nearest if lack else "",
        next_step=next_step(state, group) or _next_step(group, ahead, head, lack, now),
        promise=_promise(state, group, now),
        notes=tuple(_notes(state, group)),
        layout=Layout(*group.layout),
        span=span(state, group.nodes),
    )


def explain_record(
    r: GroupRecord, now: int, placements: Sequence[Placement] = (), promised: Reserve | None = None
) -> Explanation:
    """What the store alone knows of a group."""
    promise = promised if r.phase is Phase.QUEUED else None
    start = promise.start if promise else 0
    pods = tuple(Member("", p.pod, "", p.node, False, "") for p in placements)
    return Explanation(
        group=row(r, now, estimate=start), since=0, stages=stages(r), asks=(), members=pods, ahead=0,
        head=None, short="", nearest="", next_step="", notes=tuple(_record_notes(r)),
        promise=Promise(start, promise.nodes, (), {}) if promise else None,
        layout=Layout("", "", False), span={},
    )  # fmt: skip


def stages(r: GroupRecord) -> tuple[Stage, ...]:
    """The stages that the group has come through, in order."""
    known = (
        ("seen", r.first_seen),
        ("complete", r.complete_at),
        ("planned", r.planned_at or r.granted_at),
        ("recorded", r.recorded_at),
        ("bound", r.bound_at),
        ("started", r.started_at),
        ("rejected" if r.outcome is Outcome.REJECTED else "ended", r.ended_at),
    )
    found: list[Stage] = []
    for name, at in known:
        if at:
            found.append(Stage(name, at, max(at - found[-1].at, 0) if found else 0))
    return tuple(found)


def _head(head: Group) -> Head:
    return Head(head.id, head.namespace, head.name, head.reason.text)


# -- what it is promised -----------------------------------------------------------------------------


def _promise(state: State, group: Group, now: int) -> Promise | None:
    """The promised start, where, and who has to end before."""
    reserve = state.promises.get(group.id)
    if reserve is None or not estimate(group):
        return None
    nodes = dict.fromkeys(reserve.nodes)
    found = [*_running(state, now), *_promised(state, reserve.start)]
    after = [
        Blocker(other.id, other.namespace, other.name, until)
        for other, there, until in found
        if other is not group and until <= reserve.start and (not nodes or any(n in nodes for n in there))
    ]
    after.sort(key=lambda blocker: (-blocker.until, blocker.id))
    return Promise(reserve.start, reserve.nodes, tuple(after[:_MOST_BLOCKERS]), span(state, reserve.nodes))


_MOST_BLOCKERS = 10
Busy = tuple[Group, tuple[str, ...], int]
"""A group, the nodes that it has or will have, and its expected end."""


def _running(state: State, now: int) -> list[Busy]:
    """Those that have started and will end; reckoned from the grant, as when the promise was made."""
    started = [state.groups[gid] for gid in state.started]
    return [
        (g, g.nodes, expected_end(g.granted_at or g.started_at or g.since, g.duration, now))
        for g in started
        if g.duration
    ]


def _promised(state: State, start: int) -> list[Busy]:
    """Those that are promised an earlier start, and will end."""
    earlier = [(state.groups[r.group], r) for r in state.promises.values() if r.start < start]
    return [(g, r.nodes, r.start + g.duration) for g, r in earlier if g.duration]


# -- members and what they want ----------------------------------------------------------------------


def _asks(state: State, group: Group) -> tuple[Ask, ...]:
    """What its members want from nodes, equal ones together."""
    wanted: dict[object, tuple[Pod, int]] = {}
    for uid in group.pods:
        pod = state.pods[uid]
        if not pod.ended:
            first, n = wanted.get(pod.shape, (pod, 0))
            wanted[pod.shape] = (first, n + 1)
    return tuple(
        Ask(n, dict(pod.shape.requests), f"{n} × {_wish(pod)}".rstrip()) for pod, n in wanted.values()
    )


def _wish(pod: Pod) -> str:
    where = [_expression(e) for e in pod.shape.selector]
    if pod.shape.affinity:
        where.append(" or ".join(",".join(_expression(e) for e in term) for term in pod.shape.affinity))
    return amounts_text(pod.shape.requests) + (f" on nodes with {', '.join(where)}" if where else "")


def _expression(e: Expression) -> str:
    if e.operator is Operator.IN and len(e.values) == 1:
        return f"{e.key}={e.values[0]}"
    return f"{e.key} {e.operator}" + (f" ({', '.join(e.values)})" if e.values else "")


def pods_of(state: State, group: Group) -> tuple[Member, ...]:
    """The group's pods, those that have ended too."""
    return tuple(_member(state, state.pods[uid]) for uid in group.pods)


def _member(state: State, pod: Pod) -> Member:
    intent = state.intents.get(pod.uid)
    waits = not pod.node and not pod.ended
    return Member(
        name=pod.name,
        uid=pod.uid,
        phase=pod.phase,
        node=pod.node or (intent.node if intent is not None else ""),
        intended=waits and intent is not None,
        reason=_member_reason(state, pod),
    )


def _member_reason(state: State, pod: Pod) -> str:
    intent = state.intents.get(pod.uid)
    asked_for = state.ignored_changes.get(pod.uid)
    if asked_for:
        return f"its group label changed to {asked_for} after it was dispatched: ignored"
    if pod.deleting:
        return "is being deleted"
    if pod.node or pod.ended:
        return ""
    if pod.gated:
        return "has scheduling gates"
    if intent is None:
        return "waits"
    if intent.error is not None:
        return f"binding failed: {intent.error}"
    if not intent.durable:
        return "its place is being written down"
    return "is being bound" if not intent.not_before > state.now else "an earlier request may be on its way"


# -- what it lacks, and what comes next --------------------------------------------------------------


class _Lack:
    """What the group would be short of if it were its turn now."""

    def __init__(self, state: State, group: Group) -> None:
        snapshot = take(state, freed=True)
        self.short, self.nearest = "", ""
        self.never, self.down = "", ""
        for request in group.requests:
            self.never = unsatisfiable(snapshot, request)
            self.down = self.never or unsatisfiable(snapshot, request, present=True)
            if self.down:
                self.short = self.down
            else:
                self._now(snapshot, request)
            if self.short:
                break

    def _now(self, snapshot: Snapshot, request: Request) -> None:
        for task in request.tasks:
            mask = snapshot.classes.now(constraints(task.shape))
            room = how_many(snapshot.free, snapshot.vectors[task.shape.requests])[mask]
            if int(room.sum()) < len(task.uids):
                self.short = blocked(snapshot, snapshot.free, request)
                self.nearest = _nearest(snapshot, task)
                return
        if request.layout.required and not _one_has_room(snapshot, request):
            self.short = blocked(snapshot, snapshot.free, request)


def _one_has_room(snapshot: Snapshot, request: Request) -> bool:
    """Whether some domain of the level that the members must share has room for every task alone."""
    counts = [
        how_many(snapshot.free, snapshot.vectors[task.shape.requests])
        * snapshot.classes.now(constraints(task.shape))
        for task in request.tasks
    ]
    levels = topology.of(snapshot.classes, snapshot.settings.topology)
    wanted = [len(task.uids) for task in request.tasks]
    regions = levels.regions(request.layout, counts, wanted, "first", np.zeros(len(snapshot.names), np.int64))
    return next(regions, None) is not None


def _nearest(snapshot: Snapshot, task: Task) -> str:
    """The node that has the greatest share of what one more member needs, and what it lacks."""
    vector = snapshot.vectors[task.shape.requests]
    mask = snapshot.classes.now(constraints(task.shape))
    free = np.maximum(snapshot.free[vector.rows], 0)
    share = np.minimum(free * 1000 // vector.amounts[:, None], 1000).min(axis=0)
    full = how_many(snapshot.free, vector) > 0
    share = np.where(mask & ~full, share, -1)
    if not len(share) or int(share.max()) <= 0:
        return ""
    node = int(share.argmax())
    names = list(snapshot.resources)
    lacks = [
        "an empty node"
        if names[int(r)] == PLACES
        else f"{names[int(r)]}={quantity.show(names[int(r)], int(amount))} (free:"
        f" {quantity.show(names[int(r)], int(snapshot.free[r, node]))})"
        for r, amount in zip(vector.rows, vector.amounts, strict=True)
        if snapshot.free[r, node] < amount
    ]
    return f"{snapshot.names[node]} comes closest to taking one more; it lacks {', '.join(lacks)}"


def _next_step(group: Group, ahead: int, head: Group | None, lack: _Lack | None, now: int) -> str:
    """What has to happen for the group to start, in one sentence; "" when it has started."""
    match group.phase:
        case Phase.HELD:
            return _next_of_held(group, now)
        case Phase.QUEUED:
            return _next_of_queued(group, ahead, head, lack)
        case Phase.ENDED if group.rejected:
            return "it is looked at again when nodes join or grow"
        case Phase.STARTING:
            return "it runs as soon as all its members are bound"
        case _:
            return ""


def _next_of_held(group: Group, now: int) -> str:
    match group.reason.why:
        case Why.WAITING_FOR_GROUP:
            missing = group.size - group.seen
            return f"it queues when {missing} more {_pods(missing)} come" if missing > 0 else ""
        case Why.SUSPENDED:
            return "it queues when its owner is resumed or the gates are taken away"
        case Why.BEGIN_TIME:
            return f"it queues at its begin-time, in {durations.soon(group.begin - now)}"
        case Why.BACKOFF:
            return f"it queues again in {durations.soon(group.backoff_until - now)}"
        case Why.INVALID:
            return "it queues once the labels or annotations named above are put right"
        case Why.UNSUPPORTED:
            return "it queues once it does without what is named above"
        case _:
            return ""


def _next_of_queued(group: Group, ahead: int, head: Group | None, lack: _Lack | None) -> str:
    if group.reason.why is Why.BLOCKED:
        return "it starts when pods, claims, volumes or nodes change so that it may; others pass it meanwhile"
    if lack is None or not lack.short:
        room = "there is room for it now, so it starts"
        if head is None or head.id == group.id or order(head) > order(group):
            return f"{room} with the next plan"
        return f"{room} as soon as it may: those ahead of it go first"
    if lack.never:
        return "no node, up or down, could ever hold it"
    if lack.down:
        return "it starts when the nodes that it needs are back"
    turn = f"{ahead} {'group' if ahead == 1 else 'groups'} ahead must start first; then " if ahead else ""
    return f"{turn}it starts when enough of what it is short of is given back"


def _pods(n: int) -> str:
    return "pod" if n == 1 else "pods"


# -- notes -------------------------------------------------------------------------------------------


def _notes(state: State, group: Group) -> list[str]:
    notes = _record_notes(group.record())
    owners = [state.owners[uid] for uid in group.owners if uid in state.owners]
    waits = group.phase in (Phase.HELD, Phase.QUEUED)
    for owner in owners:
        if owner.deadline and waits:
            length = durations.show(owner.deadline)
            notes.append(
                f"activeDeadlineSeconds ({length}) of {owner.kind} {owner.name} runs while it waits:"
                f" Kubernetes will end it {_then(group, state.now)}, started or not"
            )
    notes += _walltime_notes(group, state.now)
    without = unpromised(state, group)
    if without:
        notes.append(without)
    joining = len(members(state, group).waiting)
    if group.phase is Phase.RUNNING and joining:
        notes.append(f"waiting to join it: {joining} {_pods(joining)}")
    if claims := waited_for(state, group):
        notes.append(f"not bound before these claims are: {', '.join(claims)}")
    if group.attempts:
        notes.append(f"failed starts so far: {group.attempts}")
    return notes


def _then(group: Group, now: int) -> str:
    return f"in {durations.soon(group.latest_end - now)}" if group.latest_end > now else "then"


def _walltime_notes(group: Group, now: int) -> list[str]:
    """Whose clock runs, and when it is over."""
    if not group.duration or group.phase is Phase.ENDED:
        return []
    length = durations.show(group.duration)
    if not group.limit:
        notes = [f"its walltime of {length} is that of its pods' activeDeadlineSeconds: the kubelets end it"]
    elif group.started_at and not group.ending:
        left = durations.soon(group.started_at + group.limit - now)
        notes = [f"Fairlead ends it when its walltime of {length} is over, in {left}"]
    else:
        notes = [f"Fairlead ends it when all its members have run for its walltime of {length}"]
    if group.latest_end and now + group.duration > group.latest_end and not group.started_at:
        notes.append("started now, it could not run for its walltime before Kubernetes ends it")
    return notes


def _record_notes(r: GroupRecord) -> list[str]:
    notes: list[str] = []
    if r.broken:
        notes.append(f"BROKEN: {r.broken}; its bound pods stay until you delete them")
    return notes
