"""What is true of every state, whatever happened: one list for all who look.

Called by simulated worlds after each batch, by property tests, the fault simulation and the live audit. Each
broken invariant is one sentence that names what is wrong and where; an empty list means that all is well.
`check` looks at the state alone, `agree` holds it against what the store has. Must not change anything.
Linear in pods and groups, so it may be asked after every batch of a simulation.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from fairlead.core.esi.invariants import slots
from fairlead.core.live import Group, Intent
from fairlead.core.state import IDLE, State
from fairlead.model.group import GroupRecord, Phase, Why
from fairlead.model.plan import Grant
from fairlead.model.pod import Pod

_STARTED = (Phase.STARTING, Phase.RUNNING)


def check(state: State) -> list[str]:
    """Every broken invariant. What concerns groups holds only once all sources are in (`State.synced`)."""
    wrong = state.inventory.check()
    for look in (_holders, _allocations, _line, _registers, *(_WHOLE if state.synced else ())):
        wrong += look(state)
    return wrong


def agree(state: State, grants: Iterable[Grant], groups: Mapping[str, GroupRecord]) -> list[str]:
    """Where state and store differ, while nothing is on its way between them.

    `grants` are the store's open ones, `groups` its records by id. Words of a reason may be older there.
    """
    return [*_same_grants(state, grants), *_same_groups(state, groups)]


# -- what holds what ---------------------------------------------------------------------------------


def _holders(state: State) -> list[str]:
    """Whoever is on a node, or meant for one, holds just what he asks for, and nobody else anything."""
    wrong: list[str] = []
    for uid, (node, amounts) in state.inventory.held.items():
        if uid in state.esi.holds:  # the free part of a slot: see `core.esi.invariants`
            continue
        pod, intent = state.pods.get(uid), state.intents.get(uid)
        expected = pod.node if pod is not None and pod.node else intent.node if intent else ""
        if pod is None or pod.ended or node != expected:
            wrong.append(f"pod {uid} holds {node!r} but should hold {expected!r}")
        elif amounts != state.asked(pod):
            wrong.append(f"pod {uid} holds {amounts} but asks for {state.asked(pod)}")
    for uid, pod in state.pods.items():
        if (pod.node or uid in state.intents) and not pod.ended and uid not in state.inventory.held:
            wrong.append(f"pod {uid} is on {pod.node or state.intents[uid].node} but holds nothing")
    return wrong


def _allocations(state: State) -> list[str]:
    """Grants and intents name each other, each for a living group; only what is durable may be bound."""
    wrong: list[str] = []
    for uid, intent in state.intents.items():
        if uid not in state.grants.get(intent.grant, {}):
            wrong.append(f"intent of {uid} is not in its grant {intent.grant}")
        if intent.group not in state.groups:
            wrong.append(f"intent of {uid} belongs to no group ({intent.group})")
    for grant, uids in state.grants.items():
        if not uids:
            wrong.append(f"grant {grant} is open without an intent")
        astray = [uid for uid in uids if uid not in state.intents or state.intents[uid].grant != grant]
        wrong += [f"grant {grant} names {uid}, which is not intended by it" for uid in astray]
    for plan, grants in state.recording.items():
        pods = [uid for grant in grants for uid in state.grants.get(grant, ()) if uid in state.intents]
        early = [uid for uid in pods if state.intents[uid].durable]
        wrong += [f"intent of {uid} is durable although plan {plan} is not recorded" for uid in early]
    ready = {uid for uid, intent in state.intents.items() if intent.durable}
    wrong += [
        f"pod {uid} is to be bound without a durable intent" for uid in state.to_bind if uid not in ready
    ]
    return wrong


# -- the queue ---------------------------------------------------------------------------------------


def _line(state: State) -> list[str]:
    """The queue is a total order, and nothing but the waiting requests in that order."""
    wrong: list[str] = []
    entries = [(order, number) for order, number, _ in state.line]
    if any(a >= b for a, b in pairwise(entries)):
        wrong.append("the line is not in order")
    expected = {
        (gid, number): request
        for gid, requests in state.waiting.items()
        for number, request in enumerate(requests)
    }
    found = {(request.group, number): request for _, number, request in state.line}
    if found != expected or len(state.line) != len(expected):
        wrong.append("the line is not what waits")
    for order, _, request in state.line:
        group = state.groups.get(request.group)
        if group is None or order != request.order or order[2:] != (group.seq, group.id):
            wrong.append(f"{request.group} stands in line as {order}, which is not its place")
    wanted = sum(count for _, (count,) in state.wanted.values())
    if wanted != sum(len(request.tasks) for _, _, request in state.line):
        wrong.append("the counted wishes are not those of the line")
    for name, ids in (("fresh", state.fresh), ("confined", state.confined)):
        wrong += [f"{gid} is noted as {name} but does not wait" for gid in ids if gid not in state.waiting]
    return wrong


def _promises(state: State) -> list[str]:
    """Who is promised a start waits for it, and knows it; nobody else is promised anything."""
    wrong: list[str] = []
    for gid, promise in state.promises.items():
        if gid not in state.waiting:
            wrong.append(f"{gid} is promised a start but does not wait")
        if promise.group != gid:
            wrong.append(f"{gid} is promised the start of {promise.group}")
    due = state.dirty or state.planning != IDLE
    for group in state.groups.values() if not due else ():  # the plan that is due says what it may expect
        promise = state.promises.get(group.id)
        start = promise.start if promise is not None and group.phase is Phase.QUEUED else 0
        if group.estimate != start:
            wrong.append(f"{group.id} expects to start at {group.estimate} but is promised {start}")
    return wrong


# -- groups ------------------------------------------------------------------------------------------


def _registers(state: State) -> list[str]:
    """Each register of groups and pods says what the groups themselves say."""
    wrong: list[str] = []
    for gid, group in state.groups.items():
        ended = group.phase is Phase.ENDED
        if gid != group.id:
            wrong.append(f"{group.id} is known as {gid}")
        if state.waiting.get(gid, ()) != (() if group.slotted else group.requests):
            wrong.append(f"{gid} asks for something else than what waits")
        wrong += [f"pod {uid} of {gid} is not known" for uid in group.pods if uid not in state.pods]
        for uid in group.pods:
            if state.group_of.get(uid) != gid:
                wrong.append(f"pod {uid} of {gid} is noted as {state.group_of.get(uid, 'nobody')}'s")
        newest = state.by_key.get(group.key)
        last = newest.incarnation if newest is not None else state.incarnations.get(group.key, 0)
        if last < group.incarnation or (newest is None and not ended and last == group.incarnation):
            wrong.append(f"{gid} is not found by its key")
        for uid in group.owners:
            if gid not in state.groups_of_owner.get(uid, {}):
                wrong.append(f"{gid} is not noted as its owner {uid}'s")
    for key, group in state.by_key.items():
        if group.key != key or state.groups.get(group.id) is not group:
            wrong.append(f"{key} names {group.id}, which is not there")
    for uid, gid in state.group_of.items():
        group = state.groups.get(gid)
        if group is None or uid not in group.pods:
            wrong.append(f"pod {uid} is noted as {gid}'s, which does not have it")
    return wrong


def _phases(state: State) -> list[str]:
    """Started and rejected groups are noted as such; who waits has a reason; places are one each."""
    wrong: list[str] = []
    places: dict[int, str] = {}
    for gid, group in state.groups.items():
        if (group.phase in _STARTED) != (gid in state.started):
            wrong.append(
                f"{gid} is {group.phase} but is{'' if gid in state.started else ' not'} noted as started"
            )
        if group.rejected != (gid in state.rejected):
            wrong.append(f"{gid} is {group.phase} {group.outcome}, which the rejected do not say")
        if (group.phase in (Phase.HELD, Phase.QUEUED) or group.rejected) and group.reason.why is Why.NONE:
            wrong.append(f"{gid} is {group.phase} without a reason")
        if group.phase is Phase.QUEUED and not group.requests:
            wrong.append(f"{gid} is queued but asks for nothing")
        if group.seq <= 0 or group.seq in places:
            wrong.append(f"{gid} has place {group.seq}, as {places.get(group.seq, 'nobody')} has")
        places[group.seq] = gid
    wrong += [f"{gid} is noted as started and unknown" for gid in state.started if gid not in state.groups]
    wrong += [f"{gid} is noted as rejected and unknown" for gid in state.rejected if gid not in state.groups]
    return wrong


def _members(state: State) -> list[str]:
    """No pod of ours is forgotten, and no intent outlives the need for it."""
    wrong: list[str] = []
    for uid, intent in state.intents.items():
        pod = state.pods.get(uid)
        if pod is None or uid in state.tombstones or pod.node or pod.ended:
            wrong.append(f"pod {uid} is intended for {intent.node} although it is {_fate(state, uid)}")
        group = state.groups.get(intent.group)
        if group is not None and (group.phase not in _STARTED or uid not in group.pods):
            wrong.append(
                f"intent of {uid} is {group.id}'s, which is {group.phase} and has {list(group.pods)}"
            )
    for uid, pod in state.pods.items():
        if not state.ours(pod) or pod.ended:
            continue
        group = state.groups.get(state.group_of.get(uid, ""))
        if group is None:
            if not (pod.deleting and not pod.node):  # first met when it was on its way out
                wrong.append(f"pod {uid} belongs to no group")
        elif group.phase is Phase.ENDED and not group.rejected:
            wrong.append(f"pod {uid} lives in {group.id}, which has ended")
    return wrong


def _fate(state: State, uid: str) -> str:
    pod = state.pods.get(uid)
    return "gone" if pod is None or uid in state.tombstones else "ended" if pod.ended else f"on {pod.node}"


def _halves(state: State) -> list[str]:
    """No group is half started without anybody at work on it."""
    wrong: list[str] = []
    for gid, group in state.groups.items():
        if group.phase in (Phase.HELD, Phase.QUEUED) or group.rejected:
            there = [pod.uid for pod in _pods(state, group) if pod.node and not pod.ended]
            if there:
                wrong.append(f"{gid} is {group.phase} but has {', '.join(there)} on nodes")
        elif group.phase is Phase.STARTING and not _under_way(state, group):
            wrong.append(f"{gid} is half started, without an intent and without recovery")
        elif group.phase is Phase.RUNNING and not group.ending:
            wrong += [f"pod {uid} waits in {gid}, which asks for nothing" for uid in _idle(state, group)]
    return wrong


def _under_way(state: State, group: Group) -> bool:
    return bool(group.recovering_since) or any(uid in state.intents for uid in group.pods)


def _idle(state: State, group: Group) -> list[str]:
    """Members that nobody binds, asks a place for, or will ask one for after a pause."""
    if group.id in state.waiting or group.backoff_until > state.now:
        return []
    return [
        pod.uid
        for pod in _pods(state, group)
        if not (pod.node or pod.ended or pod.deleting or pod.gated or pod.shape.unsupported)
        if pod.uid not in state.intents
    ]


def _pods(state: State, group: Group) -> list[Pod]:
    """Those that are known: that they all are is another invariant."""
    return [pod for uid in group.pods if (pod := state.pods.get(uid)) is not None]


_WHOLE: tuple[Callable[[State], list[str]], ...] = (_promises, _phases, _members, _halves, slots)


# -- the store ---------------------------------------------------------------------------------------


def _same_grants(state: State, grants: Iterable[Grant]) -> list[str]:
    wrong: list[str] = []
    stored = {grant.id: grant for grant in grants}
    wrong += [f"grant {name} is open in the store alone" for name in stored if name not in state.grants]
    for name, uids in state.grants.items():
        grant = stored.get(name)
        if grant is None:
            wrong.append(f"grant {name} is open but not in the store")
            continue
        places = {place.pod: place.node for place in grant.placements}
        for intent in (state.intents[uid] for uid in uids):
            if not _is_placed(intent, places):
                wrong.append(f"pod {intent.pod} is intended for {intent.node}, in the store for {places}")
    return wrong


def _is_placed(intent: Intent, places: Mapping[str, str]) -> bool:
    return places.get(intent.pod) == intent.node


def _same_groups(state: State, groups: Mapping[str, GroupRecord]) -> list[str]:
    wrong: list[str] = []
    for gid, group in state.groups.items():
        stored = groups.get(gid)
        if stored is None:
            wrong.append(f"{gid} is not in the store")
        elif _lasting(stored) != _lasting(group.record()):
            wrong.append(f"{gid} is {_lasting(group.record())}, in the store {_lasting(stored)}")
    for gid, record in groups.items():
        if record.phase is not Phase.ENDED and gid not in state.groups:
            wrong.append(f"{gid} is {record.phase} in the store and unknown")
    return wrong


def _lasting(record: GroupRecord) -> tuple[object, ...]:
    """What of a record is always up to date in the store."""
    return (
        record.phase, record.outcome, record.seq, record.first_seen, record.size, record.priority,
        record.queue, record.broken, record.complete_at, record.granted_at, record.bound_at,
        record.started_at, record.nodes,
    )  # fmt: skip
