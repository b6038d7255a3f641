"""A busy world that is watched while faults happen: what must never be seen, at any time.

Used by property tests and by `sim.fuzz`. `core.invariants` looks at the engine's state after each batch; this
looks at what the engine does to the cluster: every bind, eviction, end and grant, and what a process that
starts makes of what an earlier one had written. `sim.rest` says what must be so once the world is at rest.
"""

from collections.abc import Sequence

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.core.policy import lookahead
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import GroupRecord, Phase, Why
from fairlead.model.plan import Grant, Reserve
from fairlead.model.settings import Settings
from fairlead.sim.faults import Faults
from fairlead.sim.ops import Busy

_BEGIN = 100_000_000
"""Late enough for a clock that is behind to show a time at all."""
_ASIDE = (Why.NODES_DOWN, Why.BLOCKED)


class BrokenError(AssertionError):
    """Something was seen that must never be; the first of what is wrong is the text."""

    def __init__(self, wrong: Sequence[str]) -> None:
        super().__init__("; ".join(wrong[:3]))
        self.wrong = tuple(wrong)


class Chaos(Busy):
    """Raises BrokenError at the first thing that must never be seen."""

    def __init__(self, settings: Settings, faults: Faults, engine: type[Engine] = Engine) -> None:
        self._make = engine
        self._whole: dict[str, None] = {}
        """Groups that were seen running as a whole and have not been given up since."""
        self._bound_by: dict[str, Grant] = {}
        """Pod -> the grant that it was bound by."""
        self._granted: dict[str, Grant] = {}
        self._waited: dict[str, GroupRecord] = {}
        self._promised: tuple[Reserve, ...] = ()
        self._new = self._clock_set = False
        super().__init__(settings, faults)
        self.now = _BEGIN

    # -- the scheduler process -----------------------------------------------------------------------

    def start(self) -> None:
        self._new, self._clock_set = True, False
        super().start()
        self.engine = self._make(self.settings, RECONCILERS)

    def settle(self, duration: int) -> None:
        """Everything is put right that an operator would put right, and time passes."""
        self.store_up()
        if not self.alive:
            self.start()
        self.run(duration)

    def jump(self, by: int) -> None:
        self._clock_set = True
        super().jump(by)

    def look(self) -> None:
        state = self.engine.state
        wrong = check(state)
        wrong += [f"{each.kind} {each.name} was set aside: {each.text}" for each in state.poisoned.values()]
        if self._new and state.synced:
            self._new = False
            wrong += self._forgotten()
        if wrong:
            raise BrokenError(wrong)
        for group in state.groups.values():
            if group.phase is Phase.RUNNING and not group.broken:
                self._whole[group.id] = None
            elif group.phase is not Phase.STARTING:
                self._whole.pop(group.id, None)

    def _tell_restored(self, life: int) -> None:
        super()._tell_restored(life)
        self._remember()

    def store_up(self) -> None:
        super().store_up()
        self._remember()

    def _remember(self) -> None:
        """What a process that starts was told by the store, if it was told anything."""
        if self._new and not self._store_down:
            self._waited = {gid: r for gid, r in self.groups.items() if r.phase is not Phase.ENDED}
            self._promised = self.reservations

    def _forgotten(self) -> list[str]:
        """Places in the queue, first sights and promises of an earlier process that this one has not kept."""
        state, wrong = self.engine.state, list[str]()
        for gid, record in self._waited.items():
            group = state.groups.get(gid)
            if group is None or self._clock_set:  # then times are others, but those that are kept from now on
                continue
            was, now = (record.seq, record.first_seen), (group.seq, group.first_seen)
            if was != now:
                wrong.append(f"{gid} had place and first sight {was} before the restart, and now {now}")
        for promise in self._promised:
            record, group = self._waited.get(promise.group), state.groups.get(promise.group)
            if group is None or group.phase is not Phase.QUEUED or record is None or self._clock_set:
                continue
            if record.phase is Phase.QUEUED and state.promises.get(group.id) != promise:
                queue = state.settings.queue(group.queue)
                if queue is not None and lookahead(queue).keep:
                    wrong.append(
                        f"{group.id} was promised {promise.start} before the restart, and now nothing"
                    )
        return wrong

    # -- what it does --------------------------------------------------------------------------------

    def _perform(self, command: cmd.Command) -> None:
        wrong: list[str] = []
        match command:
            case cmd.Bind():
                wrong = self._wrong_bind(command)
            case cmd.RecordAllocations():
                wrong = self._overtaken(command)
            case cmd.Evict():
                wrong = self._wrong_eviction(command)
            case cmd.End():
                wrong = self._wrong_end(command)
            case _:
                pass
        if wrong:
            raise BrokenError(wrong)
        super()._perform(command)

    def _wrong_bind(self, bind: cmd.Bind) -> list[str]:
        """As far as was told, the pod fits there; and it is written down that it goes there."""
        wrong: list[str] = []
        state = self.engine.state
        inventory = state.inventory
        row = inventory.rows[bind.node]
        if inventory.gone_at[row]:
            wrong.append(f"pod {bind.pod} is bound to {bind.node}, which is gone")
        for resource, _ in inventory.vector(state.asked(state.pods[bind.pod])).pairs:
            if inventory.free[resource, row] < 0:
                wrong.append(f"pod {bind.pod} is bound to {bind.node}, where it does not fit")
        grant = self.grants.get(bind.grant)
        if grant is None:
            wrong.append(f"pod {bind.pod} is bound before its grant is durable")
        elif not any(place.pod == bind.pod and place.node == bind.node for place in grant.placements):
            wrong.append(f"pod {bind.pod} is bound to {bind.node}, which was not granted")
        return wrong

    def _overtaken(self, command: cmd.RecordAllocations) -> list[str]:
        """Under fcfs nobody starts before whoever stands ahead, unless nodes are missing for that."""
        state = self.engine.state
        wrong: list[str] = []
        for grant in command.grants:
            self._granted[grant.id] = grant
            group = state.groups.get(grant.group)
            if group is None or grant.growth or self.settings.queues[0].policy != "fcfs":
                continue  # who comes in a lost member's place is ahead of all
            order = (-group.priority, 0, group.seq, group.id)
            for requests in state.waiting.values():
                other = state.groups[requests[0].group]
                new = other.asked_at == state.version  # it came in this very batch
                excused = new or other.phase is not Phase.QUEUED or other.reason.why in _ASIDE
                if requests[0].order < order and not excused:
                    wrong.append(f"{group.id} overtakes {other.id}, which waits: {other.reason.text}")
        return wrong

    def _wrong_eviction(self, evict: cmd.Evict) -> list[str]:
        state = self.engine.state
        group = state.groups.get(state.group_of.get(evict.pod.uid, ""))
        pod = self.pods.get(evict.pod.uid)
        if pod is None or pod.node in self.shared:  # gone, or it gives way to others
            return []
        if group is None or group.phase is not Phase.STARTING:
            return [f"pod {evict.pod.uid} is evicted from a group that is not starting"]
        if group.id in self._whole:
            return [f"pod {evict.pod.uid} is evicted from {group.id}, which had started as a whole"]
        return []

    def _wrong_end(self, end: cmd.End) -> list[str]:
        group = self.engine.state.groups.get(end.group)
        now = self.engine.state.now
        if group is not None and group.failing and group.fail_all:  # a member is lost
            return []
        if group is None or not group.limit or not group.started_at:
            return [f"{end.group} is ended without a walltime of its own"]
        if now < group.started_at + group.limit:
            return [f"{end.group} is ended {group.started_at + group.limit - now} ms before its walltime"]
        return []

    # -- what comes of it ----------------------------------------------------------------------------

    def _bind_here(self, bind: cmd.Bind) -> ev.BindError | None:
        before = self.pods.get(bind.pod)
        error = super()._bind_here(bind)
        if error is None and before is not None and not before.node:
            wrong = self._given_up(bind) + self._started_twice(bind) + self._overcommitted(bind.node)
            if wrong:
                raise BrokenError(wrong)
        return error

    def _given_up(self, bind: cmd.Bind) -> list[str]:
        """A place is not given up while a request may still take it."""
        state = self.engine.state
        intent = state.intents.get(bind.pod)
        if not (self.alive and state.synced) or (intent is not None and intent.grant == bind.grant):
            return []
        return [f"pod {bind.pod} is bound to {bind.node} by {bind.grant}, which was given up"]

    def _started_twice(self, bind: cmd.Bind) -> list[str]:
        """A start is granted once: no living member was bound by another start of the same group."""
        grant = self._granted.get(bind.grant)
        if grant is None:
            return []
        self._bound_by[bind.pod] = grant
        if grant.growth:
            return []
        return [
            f"{grant.group} starts with {bind.pod} by {grant.id} while {uid} runs by {other.id}"
            for uid, other in self._bound_by.items()
            if other.group == grant.group and other.id != grant.id and not other.growth
            if uid in self.pods and not self.pods[uid].ended
        ]

    def _overcommitted(self, name: str) -> list[str]:
        """A node that is the scheduler's alone is never promised twice, whatever went wrong."""
        node = self.nodes.get(name)
        if node is None or name in self.shared:
            return []
        pods = [pod for pod in self.pods.values() if pod.node == name and not pod.ended]
        wrong: list[str] = []
        for resource, capacity in node.allocatable:
            used = sum(dict(pod.shape.requests).get(resource, 0) for pod in pods)
            if used > capacity:
                names = " ".join(pod.uid for pod in pods)
                wrong.append(f"node {name} is overcommitted: {used} of {capacity} {resource} by {names}")
        return wrong
