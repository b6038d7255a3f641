"""Input that the engine trips over is set aside, loudly, and the rest goes on.

Called by `core.engine` around each event, each look at a group and each plan. An exception here is a mistake
of ours that one object brought to light; to stop for it would stop everybody, and again after each restart.
So a pod counts where it is, with what it asks for, but belongs to no group, and a group waits without being
looked at, until a newer version of them can be taken in. Must not hide anything: what is set aside is told
(`State.alarms`), shown (`State.poisoned`) and counted.
"""

from msgspec import structs

from fairlead.core.esi import feed
from fairlead.core.esi.slots import settle
from fairlead.core.groups import move, refresh
from fairlead.core.line import withdraw
from fairlead.core.live import Group
from fairlead.core.mistake import mistake
from fairlead.core.reduce import reduce
from fairlead.core.state import Poison, State
from fairlead.model import event as ev
from fairlead.model.group import Phase, Reason, Why
from fairlead.model.pod import Pod, Shape

_KEPT = 1024
"""How many poisoned objects are remembered for people; the oldest give way."""


def take_in(state: State, event: ev.Event) -> None:
    """`reduce`, whatever comes of it."""
    while (error := _attempt(state, event)) is not None:
        early = state.pods.get(next(iter(state.early), "")) if isinstance(event, ev.Synced) else None
        _set_aside(state, event if early is None else ev.PodSeen(early), mistake(error))
        if early is None:
            return
        # It was one of those that waited for the store: the others must not wait for ever because of it.
    if state.poisoned and isinstance(event, ev.PodSeen | ev.PodGone):
        uid = event.pod.uid if isinstance(event, ev.PodSeen) else event.uid
        poison = state.poisoned.get(uid)
        if poison is not None and (isinstance(event, ev.PodGone) or event.pod.version > poison.version):
            del state.poisoned[uid]


def _attempt(state: State, event: ev.Event) -> Exception | None:
    try:
        reduce(state, event)
    except Exception as error:
        return error
    return None


def look_at(state: State, group: Group) -> None:
    """`refresh`, whatever comes of it."""
    try:
        refresh(state, group)
    except Exception as error:
        hold_back(state, group, mistake(error))
    else:
        if state.poisoned and not group.spoilt:
            state.poisoned.pop(group.id, None)


def settle_slots(state: State) -> None:
    """Let slots be settled, whatever comes of it: what cannot be settled stays as it is until it changes."""
    esi = state.esi
    try:
        settle(state)
    except Exception as error:
        names = ", ".join(str(esi.testbeds[uid].ref) for uid in esi.testbeds)
        for each in (esi.stale, esi.looked, esi.stirred, esi.seeking):
            each.clear()
        _remember(state, "Slots", Poison("Testbed", names, mistake(error), state.now), None)


def tripped(state: State, kind: str, name: str, generation: int, error: Exception) -> None:
    """The machines of external schedulers cannot move this object: it stays as it is, the others move."""
    key, old = f"{kind} {name}", state.poisoned.get(f"{kind} {name}")
    new = Poison(kind, name, mistake(error), state.now, generation)
    if old is None or old != new._replace(at=old.at):
        _remember(state, key, new, None)


def moves(state: State, kind: str, name: str, generation: int) -> None:
    """They have moved it. What they tripped over is past once its spec has changed, or it is another one."""
    poison = state.poisoned.get(f"{kind} {name}")
    if poison is not None and poison.version != generation:
        del state.poisoned[f"{kind} {name}"]


def hold_back(state: State, group: Group, text: str) -> None:
    """The group asks for nothing; one that has started keeps what it has."""
    withdraw(state, group)
    group.requests = ()
    state.break_promise(group.id)
    waits = group.phase in (Phase.HELD, Phase.QUEUED)
    if waits:  # and so it is told like any other reason to wait
        move(state, group, Phase.HELD, _reason(text))
    state.note(group.id)
    if group.id not in state.poisoned:
        pod = None if waits else next((state.pods[uid] for uid in group.pods), None)
        _remember(state, group.id, Poison("Group", f"{group.namespace}/{group.name}", text, state.now), pod)


def unplannable(state: State, gid: str, text: str) -> None:
    """A plan could not be made: whoever was being looked at waits apart until what it asks for changes."""
    group = state.groups.get(gid)
    if group is None or not group.requests:
        state.plan_after = state.now + _REST
        state.wake(state.plan_after, "")
        return
    group.spoilt = group.requests
    hold_back(state, group, text)


_REST = 1_000
"""Milliseconds until a plan is tried again that failed for nobody in particular."""


def _set_aside(state: State, event: ev.Event, text: str) -> None:
    """Of a pod its place and size count all the same, if they can be; of others what was known stays."""
    if not isinstance(event, ev.PodSeen):
        name = type(event).__name__
        _remember(state, f"{name} {_uid(event)}".strip(), Poison(name, _uid(event), text, state.now), None)
        return
    pod = event.pod
    _leave_group(state, pod.uid)
    feed.pod_lost(state, pod.uid)
    try:
        state.pods[pod.uid] = _bare(pod, pod.shape.requests)
        state.recount(pod.uid)
    except Exception:  # even its size is unreadable: then it is only remembered
        state.pods.pop(pod.uid, None)
        state.inventory.release(pod.uid)
    _remember(state, pod.uid, Poison("Pod", f"{pod.namespace}/{pod.name}", text, state.now, pod.version), pod)


def _bare(pod: Pod, requests: tuple[tuple[str, int], ...]) -> Pod:
    """The pod without anything that could be tripped over again, and nobody's to place."""
    return structs.replace(pod, shape=Shape(requests), scheduler="", labels={}, annotations={}, owner=None)


def _leave_group(state: State, uid: str) -> None:
    state.early.pop(uid, None)
    state.drop_intent(uid)
    state.loose.pop(uid, None)
    group = state.groups.get(state.group_of.pop(uid, ""))
    if group is not None:
        group.pods.pop(uid, None)
        state.touch(group.id)


def _remember(state: State, key: str, poison: Poison, pod: Pod | None) -> None:
    state.poisoned[key] = poison
    state.poisonings += 1
    while len(state.poisoned) > _KEPT:
        del state.poisoned[next(iter(state.poisoned))]
    if pod is not None:
        state.alarm(pod, Why.SET_ASIDE, _reason(poison.text).text)


def _reason(text: str) -> Reason:
    return Reason(Why.SET_ASIDE, f"set aside, for Fairlead trips over it (please report this): {text}")


def _uid(event: ev.Event) -> str:
    for name in ("uid", "node", "owner", "plan", "record", "grant", "thing", "kind", "source"):
        found = getattr(event, name, None)
        if found is not None:
            return str(getattr(found, "uid", getattr(found, "id", found)))
    return ""
