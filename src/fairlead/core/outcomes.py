"""What the store and requests answer, taken into the state: records, grants and promises that come back at
a start, plans that became durable or did not, binds that succeeded or failed.

Called by `core.reduce`, whose part this is for these events. Must not decide anything.
"""

from fairlead.core.estimates import restore
from fairlead.core.live import Group, Intent
from fairlead.core.state import State
from fairlead.model import event as ev
from fairlead.model.group import Outcome, Phase


def group_restored(state: State, event: ev.GroupRestored) -> None:
    record = event.record
    state.next_seq = max(state.next_seq, record.seq + 1)
    if "store" not in state.missing or record.id in state.groups:
        return
    over = record.phase is Phase.ENDED and record.outcome is not Outcome.REJECTED
    if record.incarnation > state.incarnations.get(record.key, -1) and not (over and record.source == "pod"):
        state.incarnations[record.key] = record.incarnation
        if over:
            state.retired[record.key] = state.now
    if over:
        return
    state.retired.pop(record.key, None)
    group = Group.restored(record)
    if group.rejected:
        group.phase, group.outcome = Phase.HELD, Outcome.NONE
    state.groups[group.id] = state.by_key[group.key] = group
    if not group.seq:
        state.unsequenced[group.id] = None
    state.touch(group.id)


def grant_restored(state: State, event: ev.GrantRestored) -> None:
    """An intent of an earlier process counts at once; its bind is repeated when none can be on its way."""
    grant = event.grant
    if "store" not in state.missing or grant.id in state.grants:
        return
    if grant.group not in state.groups:  # it ended, and only the news that this grant is settled was lost
        state.settled.append(grant.id)
        return
    _mark_recorded(state, state.groups[grant.group])
    for place in grant.placements:
        state.restored_pods[place.pod] = grant.group
        pod = state.pods.get(place.pod)
        if place.pod in state.tombstones or (pod is not None and (pod.node or pod.ended)):
            continue
        intent = Intent(place.pod, place.node, grant.id, grant.group)
        intent.durable, intent.not_before, intent.doubtful = True, event.not_before, True
        state.add_intent(intent)
        state.to_bind[place.pod] = None
    if grant.id in state.grants:
        state.wake(event.not_before, grant.group)
    else:
        state.settled.append(grant.id)


def reservation_restored(state: State, event: ev.ReservationRestored) -> None:
    if "store" in state.missing:
        restore(state, event.reserve)


def configured(state: State, event: ev.Configured) -> None:
    """Other settings: every group is looked at again, and everything that waits is planned anew."""
    if event.settings.topology != state.settings.topology:  # racks may be others now
        state.inventory.nominal_version += 1
        state.inventory.possible, state.inventory.needs = {}, {}
        state.nominal_at = state.nodes_at = state.version
    state.settings = event.settings
    state.narrowed.clear()
    for gid in state.groups:
        state.touch(gid)
    state.reopen()


def store_ready(state: State, event: ev.StoreReady) -> None:
    state.store_error, state.epoch = "", event.epoch
    state.unsaved = bool(state.promises)
    state.reopen()


def store_lost(state: State, event: ev.StoreLost) -> None:
    state.store_error = event.error or "unknown error"


def recorded(state: State, event: ev.AllocationsRecorded) -> None:
    for grant in state.recording.pop(event.plan, ()):
        for uid in state.grants.get(grant, ()):
            intent = state.intents[uid]
            intent.durable = True
            state.to_bind[uid] = None
            _mark_recorded(state, state.groups.get(intent.group))


def _mark_recorded(state: State, group: Group | None) -> None:
    """Its start is durable from now on; of one that an earlier process recorded, this is when it is known."""
    if group is not None and group.phase is Phase.STARTING:
        group.recorded_at = group.recorded_at or state.now


def refused(state: State, event: ev.AllocationsRefused) -> None:
    """Certainly not durable: nothing was sent, so the intents may simply go."""
    for grant in state.recording.pop(event.plan, ()):
        for uid in list(state.grants.get(grant, ())):
            state.drop_intent(uid)
    state.reopen()


def bound(state: State, event: ev.Bound) -> None:
    """A request succeeded. The watch, not the request, makes it true: until then the intent holds."""
    intent = state.intents.get(event.pod)
    if intent is not None and intent.grant == event.grant:
        intent.in_flight, intent.acknowledged, intent.error = False, True, None
        state.touch(intent.group)


def bind_failed(state: State, event: ev.BindFailed) -> None:
    intent = state.intents.get(event.pod)
    if intent is None or intent.grant != event.grant or intent.acknowledged:
        return
    intent.in_flight = False
    state.touch(intent.group)
    if event.error in (ev.BindError.UNKNOWN, ev.BindError.BUSY):
        intent.doubtful = intent.doubtful or event.error is ev.BindError.UNKNOWN
        intent.not_before = state.now + _RETRY
        state.to_bind[event.pod] = None
        state.wake(intent.not_before, intent.group)
    else:
        intent.error = event.error


def evicted(state: State, event: ev.Evicted) -> None:
    """A round of them that came to nothing does not count against its group's few: it is asked for again."""
    if event.ok:
        return
    state.leaving.pop(event.pod, None)
    group = state.groups.get(state.group_of.get(event.pod, ""))
    if group is not None and group.evictions and not any(uid in state.leaving for uid in group.pods):
        group.evictions -= 1


_RETRY = 1000
