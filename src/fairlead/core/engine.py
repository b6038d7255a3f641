"""The engine: one deterministic state machine without I/O, `learn(events) -> commands`.

Driven by `runtime.loop` (live), `sim.world` (simulated) and `runtime.replay`. The same events
under the same settings give the same commands to the bit. Reconcilers are passed in, so that this
package does not know `control`.
"""

from collections.abc import Callable, Iterable, Sequence

from fairlead.core.explain import POSSIBLE, possibility
from fairlead.core.groups import forget, sequence
from fairlead.core.live import Group
from fairlead.core.outside import outside
from fairlead.core.picture import columns, take
from fairlead.core.poison import look_at, settle_slots, take_in, unplannable
from fairlead.core.policy import lookahead
from fairlead.core.reduce import regroup
from fairlead.core.state import IDLE, State
from fairlead.core.verify import judged, verify
from fairlead.model.command import Command, Propose, RecordAllocations, SaveGroups, SettleGrants, WakeAt
from fairlead.model.event import ClockJumped, Event, PlanProposed
from fairlead.model.group import GroupRecord, Phase
from fairlead.model.plan import Plan, Reserve
from fairlead.model.settings import Settings

Reconciler = Callable[[State, Sequence[Group]], list[Command]]
"""(state, groups touched in this batch) -> commands. May change the state only by `core.groups.move`
and `State.drop_intent`."""


PATIENCE = 60_000
"""Milliseconds until a plan that has not come is given up; twice as long for the next, and so on."""


class Engine:
    """State plus the one door into it."""

    def __init__(self, settings: Settings, reconcilers: Sequence[Reconciler] = ()) -> None:
        self.state = State(settings)
        self.reconcilers = tuple(reconcilers)
        self.last_stale = ""
        """Why the last plan was cut short; "" if it was not."""
        self._checking: tuple[str, ...] = ()
        self._last_propose = 0
        self._patience = PATIENCE
        self._wake_at = 0
        self._touched: dict[str, None] = {}

    def learn(self, events: Sequence[Event]) -> list[Command]:
        """Take in what happened, in order, and answer with what is to be done."""
        state = self.state
        state.version += 1
        self._touched = {}
        commands: list[Command] = []
        for event in events:
            if isinstance(event, PlanProposed):
                self._settle()
                commands += self._accept(event.plan)
            else:
                take_in(state, event)
                if isinstance(event, ClockJumped):
                    self._wake_at = self._last_propose = 0  # both were by the old clock
        for gid in state.due():
            state.touch(gid)
            promise = state.promises.get(gid)
            if promise is not None and 0 < promise.start <= state.now:
                self._due(gid)
        self._settle()
        touched = self._groups(self._touched)
        for reconcile in self.reconcilers:
            commands += reconcile(state, touched)
            if state.touched or state.loose or state.noted or state.esi.unsettled:
                self._settle()
                touched = self._groups(self._touched)
        commands += self._saves(touched)
        commands += self._propose()
        commands += self._save_promises()
        commands += self._wake()
        return commands

    # -- inside --------------------------------------------------------------------------------------

    def _groups(self, ids: Iterable[str]) -> list[Group]:
        groups = self.state.groups
        return [groups[gid] for gid in ids if gid in groups]

    def _settle(self) -> None:
        """Look at every touched group again, until nothing is touched any more."""
        state = self.state
        if not state.synced:  # half a picture: a group might seem to have ended
            return
        if state.loose:
            regroup(state)
        if state.unsequenced:
            sequence(state)
        while state.touched or state.esi.unsettled:
            settle_slots(state)
            touched, state.touched = state.touched, {}
            self._touched.update(touched)
            for group in self._groups(touched):
                look_at(state, group)
                state.touched.pop(group.id, None)  # a move touches, but this very group is up to date
        if state.noted:
            self._touched.update(state.noted)
            state.noted = {}

    def _accept(self, plan: Plan) -> list[Command]:
        """An answer to Propose (or an outside plan): what still holds is granted and made durable first."""
        state = self.state
        own = plan.version == state.planning
        if own:
            state.planning = IDLE
            self._patience = PATIENCE
        elif plan.answers:  # an answer that was heard before: its id is spent
            return []
        if not state.ready:
            state.reopen()
            return []
        if own and plan.failure is not None:
            unplannable(state, *plan.failure)
            state.reopen()
            self._settle()
            return []
        verdict = verify(state, plan, own) if own or plan.version else outside(state, plan)
        if own:
            self._checked(plan)
        self.last_stale = verdict.stale
        if state.planning == IDLE:
            state.arrivals = []
        self._settle()
        if not verdict.grants:
            return []  # promises alone are written at the end of the batch
        state.recording[plan.id] = tuple(grant.id for grant in verdict.grants)
        groups = self._groups(dict.fromkeys(grant.group for grant in verdict.grants))
        records = tuple(group.record() for group in groups)
        for group, record in zip(groups, records, strict=True):
            group.saved = record
        promises = self._promises()
        return [RecordAllocations(plan.id, state.epoch, state.now, verdict.grants, promises, records)]

    def _promises(self) -> tuple[Reserve, ...]:
        """All promises, for the store."""
        self.state.unsaved = False
        return tuple([promise for promise in self.state.promises.values() if promise.start])

    def _due(self, gid: str) -> None:
        """A promised start has come. A kept one is due; another was not met, because something overran."""
        state = self.state
        group = state.groups[gid]
        queue = state.settings.queue(group.queue)
        if queue is not None and lookahead(queue).keep and group.phase is Phase.QUEUED:
            state.due_now[gid] = None
            state.dirty = True
        else:
            state.reopen()

    def _checked(self, plan: Plan) -> None:
        """The plan has said of these whether they are possible, unless they or the nodes have changed."""
        state = self.state
        for gid in self._checking:
            group = state.groups.get(gid)
            if group is None or judged(state, group, plan):
                state.fresh.pop(gid, None)
        self._checking = ()

    def _save_promises(self) -> list[Command]:
        """Promises that changed without a start; what a plan in the making may change can wait for it."""
        state = self.state
        if not state.unsaved or state.planning != IDLE or not state.ready:
            return []
        plan = f"{state.epoch}-{state.version}"
        return [RecordAllocations(plan, state.epoch, state.now, (), self._promises())]

    def _propose(self) -> list[Command]:
        """A cycle is due: something changed, all is known, no plan is in the making, the pace allows it."""
        state = self.state
        if state.planning != IDLE and state.now > self._last_propose + self._patience:
            self._patience *= 2  # its planner is slow or dead; if it answers all the same, that is past
            state.planning = IDLE
            state.reopen()
        if not (state.dirty and state.ready and state.planning == IDLE and state.waiting):
            return []
        due = max(self._last_propose + state.settings.pace, state.plan_after)
        if state.now < due:
            if not 0 < state.next_wake() <= due:
                state.wake(due, "")
            return []
        everybody = state.freed or state.settings.live
        if not everybody and not state.due_now and self._all_behind():
            state.dirty = False
            return []
        snapshot = take(state, everybody)
        state.dirty = state.freed = False
        state.planning, self._last_propose = state.version, state.now
        state.arrivals = []
        state.due_now.clear()
        self._checking = tuple(state.fresh)
        return [Propose(state.version, snapshot)]

    def _all_behind(self) -> bool:
        """Whether a plan would say nothing: all whom none has seen stand behind the head of a queue in which
        nobody overtakes, and each could be held at some time. Then they have been seen herewith."""
        state = self.state
        frozen = None
        for gid in state.fresh:
            for request in state.waiting[gid]:
                queue = state.settings.queue(request.queue)
                if request.growth or request.queue not in state.heads:
                    return False
                if queue is None or lookahead(queue).overtake:
                    return False
                if state.inventory.possible.get(request.kind) != POSSIBLE:
                    frozen = frozen or columns(state.inventory, (), state.settings, state.now)
                    if possibility(frozen, request) != POSSIBLE:
                        return False
        state.fresh.clear()
        return True

    def _saves(self, touched: list[Group]) -> list[Command]:
        """Records of groups that look different from what the store was last given; settled grants."""
        state = self.state
        changed: list[GroupRecord] = []
        if state.synced:
            for group in touched:
                record = group.record()
                if record != group.saved:
                    group.saved = record
                    changed.append(record)
                forget(state, group)
        commands: list[Command] = [SaveGroups(tuple(changed))] if changed else []
        if state.settled:
            commands.append(SettleGrants(tuple(state.settled)))
            state.settled = []
        return commands

    def _wake(self) -> list[Command]:
        at = self.state.next_wake()
        if at == 0 or at == self._wake_at:
            return []
        self._wake_at = at
        return [WakeAt(at)]
