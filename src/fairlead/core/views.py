"""State to views: the queue, the nodes and the health of the scheduler, as plain structs for people.

Called by `api.source` (live) and by the command line (records from the store). Pure: the time is an
argument, nothing is changed. All rows of a queue are ranked in one pass, but only those of the page
that was asked for are built. The story of one group is in `core.story`.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from fairlead.core.live import Group
from fairlead.core.policy import UNLIMITED, lookahead
from fairlead.core.snapshot import Order
from fairlead.core.state import State
from fairlead.core.tenancy import PLACES, WHOLE
from fairlead.model import view
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.plan import Reserve
from fairlead.model.settings import QueueSettings
from fairlead.model.view import NodeRow, QueuePage, QueueRow, QueuesPage, QueueStatus, ResourceUse

_RUNS = re.compile(r"\d+|\D+")
_RANK = {Phase.HELD: 1, Phase.STARTING: 2, Phase.RUNNING: 3, Phase.ENDED: 4}
_WORDS = {
    Phase.HELD: view.State.HELD,
    Phase.QUEUED: view.State.WAITING,
    Phase.STARTING: view.State.STARTING,
    Phase.RUNNING: view.State.RUNNING,
}


def word(phase: Phase, outcome: Outcome, why: Why) -> view.State:
    """The phase in one word for people."""
    if phase is Phase.ENDED:
        return view.State(outcome.value) if outcome else view.State.CANCELLED
    if phase is Phase.HELD and why is Why.WAITING_FOR_GROUP:
        return view.State.ASSEMBLING
    return _WORDS[phase]


def order(group: Group | GroupRecord) -> Order:
    """The place in the queue, the smaller the earlier; by priority and arrival for what waits for nothing."""
    if isinstance(group, Group) and group.requests:
        return group.requests[0].order
    return -group.priority, 0, group.seq, group.id


def waited(r: GroupRecord, now: int) -> int:
    """From first sight to the start; to the end for one that never started; else until now (F6)."""
    ended = 0 if r.outcome is Outcome.REJECTED else r.ended_at
    return max((r.bound_at or r.started_at or ended or now) - r.first_seen, 0)


def row(
    r: GroupRecord, now: int, position: int = 0, reason: Reason | None = None, estimate: int = 0
) -> QueueRow:
    """One record as a line; `reason` replaces the record's own where more is known."""
    told = reason or r.reason
    return QueueRow(
        position=position, id=r.id, namespace=r.namespace, name=r.name, source=r.source, queue=r.queue,
        state=word(r.phase, r.outcome, r.reason.why), phase=r.phase, outcome=r.outcome, why=told.why,
        text=told.text, broken=r.broken, size=r.size, seen=r.seen, priority=r.priority,
        first_seen=r.first_seen, waited=waited(r, now), duration=r.duration, begin=r.begin,
        estimate=estimate, nodes=r.nodes, complete_at=r.complete_at, granted_at=r.granted_at,
        bound_at=r.bound_at, started_at=r.started_at, ended_at=r.ended_at, promised=r.promised,
        promised_last=r.promised_last, planned_at=r.planned_at, recorded_at=r.recorded_at,
    )  # fmt: skip


def label(group: Group | GroupRecord) -> str:
    """What people call the group."""
    return f"{group.namespace}/{group.name}"


def reason_of(group: Group | GroupRecord, head: Group | GroupRecord | None) -> Reason:
    """The group's reason; one that merely stands in the queue is told behind whom."""
    if (
        group.phase is Phase.QUEUED
        and group.reason.why in (Why.QUEUED, Why.NONE)
        and head is not None
        and head.id != group.id
        and order(head) < order(group)
    ):
        return Reason(Why.QUEUED, f"behind {label(head)}")
    return group.reason


_NONE: Mapping[str, Reserve] = {}


def estimate(group: Group | GroupRecord, stored: Mapping[str, Reserve] = _NONE) -> int:
    """The start that a waiting group is promised, 0 if none is; of a record by what the store holds."""
    if group.phase is not Phase.QUEUED:
        return 0
    if isinstance(group, Group):
        return group.estimate
    return stored[group.id].start if group.id in stored else 0


def ahead_of(state: State, group: Group) -> int:
    """How many stand before it. Who waits for slots of Testbeds stands before nobody and behind nobody."""
    if group.phase is not Phase.QUEUED or group.slotted:
        return 0
    mine = order(group)
    return sum(g.phase is Phase.QUEUED and not g.slotted and order(g) < mine for g in state.groups.values())


def head_of(state: State, group: Group) -> Group | None:
    """The group that stops everybody behind it in this one's queue, if any."""
    head = state.groups.get(state.head(group))
    return head if head is not None and head.phase is Phase.QUEUED else None


def _heads(state: State) -> dict[str, Group]:
    found = {queue: state.groups.get(gid) for queue, gid in state.heads.items()}
    return {q: g for q, g in found.items() if g is not None and g.phase is Phase.QUEUED}


def queue_page(
    state: State,
    now: int,
    *,
    ended: Sequence[GroupRecord] = (),
    include_ended: bool = False,
    namespace: str = "",
    limit: int = 100,
    offset: int = 0,
    warnings: tuple[str, ...] = (),
) -> QueuePage:
    """Waiting groups in queue order, then assembling, starting, running and rejected ones, then ended.

    `ended` are records of groups that the state has forgotten. `limit` 0 means all.
    """
    live = list(state.groups.values())
    known = [r for r in ended if r.id not in state.groups] if include_ended else []
    return _page(live, known, now, _heads(state), include_ended, namespace, limit, offset, warnings)


def record_page(
    records: Sequence[GroupRecord],
    now: int,
    *,
    include_ended: bool = False,
    namespace: str = "",
    limit: int = 100,
    promised: Mapping[str, Reserve] = _NONE,
    warnings: tuple[str, ...] = (),
) -> QueuePage:
    """The same page out of the store's records and promises, as of `now`, when no scheduler can be asked."""
    heads: dict[str, GroupRecord] = {}
    for record in sorted(records, key=order):
        if record.phase is Phase.QUEUED and record.reason.why is Why.RESOURCES:
            heads.setdefault(record.queue, record)
    page = _page([], records, now, heads, include_ended, namespace, limit, 0, warnings, promised)
    return QueuePage(now, "database", page.total, page.counts, warnings, page.groups)


Ranked = tuple[int, Group | GroupRecord]
"""A group and its position among the waiting ones, 0 if it does not wait."""


def _page(
    live: Sequence[Group],
    records: Sequence[GroupRecord],
    now: int,
    heads: Mapping[str, Group | GroupRecord],
    include_ended: bool,
    namespace: str,
    limit: int,
    offset: int,
    warnings: tuple[str, ...],
    promised: Mapping[str, Reserve] = _NONE,
) -> QueuePage:
    shown, counts = _ranked([*live, *records], include_ended, namespace)
    page = shown[offset : offset + limit] if limit else shown[offset:]
    rows = tuple(
        row(_record(g), now, position, reason_of(g, heads.get(g.queue)), estimate(g, promised))
        for position, g in page
    )
    return QueuePage(now, "scheduler", len(shown), counts, warnings, rows)


def _ranked(
    groups: Sequence[Group | GroupRecord], include_ended: bool, namespace: str
) -> tuple[list[Ranked], dict[str, int]]:
    """All groups to show, in order, and how many there are of each state.

    This runs between two batches of the engine: one look at each group, and no enum as a key.
    """
    waiting: list[Group | GroupRecord] = []
    others: list[Group | GroupRecord] = []
    for group in groups:
        if group.phase is Phase.QUEUED:
            waiting.append(group)
        elif (not namespace or group.namespace == namespace) and (
            include_ended or group.phase is not Phase.ENDED or group.outcome is Outcome.REJECTED
        ):
            others.append(group)
    waiting.sort(key=order)
    shown = [(i, g) for i, g in enumerate(waiting, 1) if not namespace or g.namespace == namespace]
    counts = {view.State.WAITING.value: len(shown)} if shown else {}
    others.sort(key=_shown_order)
    for group in others:
        state = word(group.phase, group.outcome, group.reason.why).value
        counts[state] = counts.get(state, 0) + 1
    return [*shown, *((0, group) for group in others)], counts


def _record(group: Group | GroupRecord) -> GroupRecord:
    return group.record() if isinstance(group, Group) else group


def _shown_order(group: Group | GroupRecord) -> tuple[int, int, Order]:
    """Rejected ones before those that have ended for good; of these the latest first."""
    over = group.phase is Phase.ENDED and group.outcome is not Outcome.REJECTED
    return (9 if over else _RANK[group.phase]), (-group.ended_at if over else 0), order(group)


# -- queues ------------------------------------------------------------------------------------------


def queues_page(state: State, now: int, warnings: tuple[str, ...] = ()) -> QueuesPage:
    """Every queue there is, and a warning for each that groups name and that does not exist."""
    queues = state.settings.queues
    counts: dict[str, dict[str, int]] = {queue.name: {} for queue in queues}
    promised = dict.fromkeys(counts, 0)
    strays: dict[str, int] = {}
    for group in state.groups.values():
        found = counts.get(group.queue)
        if found is not None:
            name = word(group.phase, group.outcome, group.reason.why).value
            found[name] = found.get(name, 0) + 1
            promised[group.queue] += 1 if estimate(group) else 0
        elif group.phase is not Phase.ENDED and not group.slotted:
            strays[group.queue] = strays.get(group.queue, 0) + 1
    lost = tuple(f"no queue is called {name!r}, but groups name it: {n}" for name, n in strays.items())
    rows = tuple(_queue_status(queue, counts[queue.name], promised[queue.name]) for queue in queues)
    return QueuesPage(now, "scheduler", (*warnings, *lost), rows)


def _queue_status(queue: QueueSettings, counts: dict[str, int], promised: int) -> QueueStatus:
    depth = lookahead(queue).depth
    return QueueStatus(
        name=queue.name,
        policy=queue.policy,
        depth={0: -1, UNLIMITED: 0}.get(depth, depth),
        order=queue.order,
        walltime=queue.walltime,
        longest=queue.longest,
        partition=queue.partition,
        looks=queue.looks,
        counts=counts,
        promised=promised,
    )


# -- nodes -------------------------------------------------------------------------------------------


def node_rows(state: State) -> list[NodeRow]:
    """Every node that is known, also those that are gone but still hold pods; by name in natural order."""
    inventory = state.inventory
    names = [name for name in inventory.resources if _shown(name)]
    levels, levels_there = state.topology(), state.topology().present()
    resources = [inventory.resources[name] for name in names]
    n = len(inventory)
    capacity = inventory.capacity[resources, :n].T.tolist()
    free = inventory.free[resources, :n].T.tolist()
    rows: list[NodeRow] = []
    held_for = state.esi.holds
    for i, node in enumerate(inventory.nodes):
        if node is None:
            continue
        holders, present = inventory.holders(node.name), not inventory.gone_at[i]
        if not present and not holders:
            continue
        amounts = tuple(
            ResourceUse(name, whole, whole - left, left)
            for name, whole, left in zip(names, capacity[i], free[i], strict=True)
            if whole or left
        )
        rows.append(
            NodeRow(
                name=node.name,
                ready=node.ready,
                unschedulable=node.unschedulable,
                present=present,
                resources=amounts,
                pods=sum(uid not in held_for for uid in holders),
                groups=_groups_on(state, holders),
                place=levels.place(i) if levels_there else "",
                exclusive=any((PLACES, WHOLE) in amounts for amounts in holders.values()),
            )
        )
    return sorted(rows, key=lambda node: natural(node.name))


def _shown(resource: str) -> bool:
    """Ports and places are counted, but they are no resource to people."""
    return not resource.startswith("port:") and resource != PLACES


def span(state: State, nodes: Sequence[str]) -> dict[str, int]:
    """Over how many domains of each level these nodes spread; empty without nodes."""
    rows = [state.inventory.rows[name] for name in nodes if name in state.inventory.rows]
    return state.topology().span(rows) if rows else {}


def _groups_on(state: State, pods: dict[str, tuple[tuple[str, int], ...]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for uid in pods:
        group = state.groups.get(state.group_of.get(uid, ""))
        if group is not None:
            found[label(group)] = None
    return tuple(found)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """n2 before n10: runs of digits compare as numbers."""
    parts = _RUNS.findall(name)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts)


# -- health ------------------------------------------------------------------------------------------


def health(state: State) -> view.Health:
    """Ready when every source has told what there is and the store answers."""
    reasons = [f"waiting for the list of {source}" for source in state.missing if source != "store"]
    if state.store_error:
        reasons.append(f"store: {state.store_error}")
    elif "store" in state.missing:
        reasons.append("waiting for what the store has")
    if not reasons and not state.ready:
        reasons.append("starting")
    return view.Health(not reasons, tuple(reasons))


def census(state: State) -> dict[tuple[str, str], int]:
    """How many groups there are by (phase, reason): the gauges of /metrics."""
    counts: dict[tuple[str, str], int] = {}
    for group in state.groups.values():
        key = (group.phase.value, group.reason.why.value)
        counts[key] = counts.get(key, 0) + 1
    return counts


def resource_totals(state: State) -> dict[str, tuple[int, int]]:
    """Resource -> (capacity, free) over all present nodes, for gauges."""
    inventory = state.inventory
    present = np.array([node is not None for node in inventory.nodes], dtype=bool)
    present &= np.array([not at for at in inventory.gone_at], dtype=bool)
    columns = np.flatnonzero(present)
    return {
        name: (int(inventory.capacity[i, columns].sum()), int(inventory.free[i, columns].sum()))
        for name, i in inventory.resources.items()
        if _shown(name)
    }
