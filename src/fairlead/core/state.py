"""The whole state of an engine: pods, nodes, owners, groups, intents, and what was touched last.

Owned by `core.engine`, changed by `core.reduce`, `core.groups` and `core.verify`, read by reconcilers
and views. Mutable inside, never shared: a planner gets a Snapshot. Only dicts are iterated, never sets,
so that the same events give the same plans under any hash seed.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.core.ends import Ends
from fairlead.core.esi.table import Esi
from fairlead.core.filters.pods import PodIndex
from fairlead.core.inventory import Inventory
from fairlead.core.live import Group, Intent
from fairlead.core.refs import of_pod
from fairlead.core.snapshot import Order, Request
from fairlead.core.spoken import Spoken
from fairlead.core.surroundings import Surroundings
from fairlead.core.tenancy import Where, takes, with_places
from fairlead.core.topology import Topology, of
from fairlead.model.command import ObjectRef
from fairlead.model.group import Why
from fairlead.model.owner import Owner
from fairlead.model.plan import Reserve
from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.settings import Settings

ALARMS = 1024
"""No more than so many wait to be told."""
IDLE = -1


class Poison(NamedTuple):
    """Something that was set aside because the engine tripped over it (`core.poison`)."""

    kind: str
    name: str
    text: str
    at: int
    version: int = 0


class Waiting:
    """The part of the state that concerns the queue: who waits, what is promised, what a plan has seen.

    `core.line` and `core.verify` change it.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, tuple[Request, ...]] = {}
        self.line: list[tuple[Order, int, Request]] = []
        """All waiting requests in queue order; the number tells those of one group apart."""
        self.wanted: dict[int, tuple[Shape, list[int]]] = {}
        """Shapes that anybody waits for, by identity, with the number of requests."""
        self.likes: dict[int, tuple[Pod, list[int]]] = {}
        """The same for what else matters of those who wait (`Task.like`)."""
        self.wishing = self.fond = self.minding = 0
        """How many who wait have wishes, some about other pods, ask for what depends on pods or volumes."""
        self.kinds: dict[object, tuple[int, object]] = {}
        """Numbers of the classes of requests; what the key names by identity is kept beside them."""
        self.next_kind = 1
        self.narrowed: dict[tuple[int, str], tuple[Shape, Shape]] = {}
        """(Identity of a shape, partition) -> the shape, and the same bound to the partition's nodes."""
        self.tailored: dict[tuple[int, int, Where], tuple[Shape, Shape]] = {}
        """(Identity of a shape, places, home) -> the shape, and the same with these (`core.tenancy`)."""
        self.tenancy = False
        """True once somebody has asked for nodes of his own: then places are counted."""
        self.confined: dict[str, None] = {}
        """Waiting groups whose members have to share a domain: sums do not tell who of these fits."""
        self.astray: dict[str, None] = {}
        """Groups that are held because no node has the level that they name."""
        self.peak: dict[int, int] = {}
        """Resource row -> the most that one request has asked for in all."""
        self.fresh: dict[str, None] = {}
        """Groups whose requests no plan has looked at yet."""
        self.freed = False
        """True when something may fit that did not: a plan then looks at everybody, else at the fresh."""
        self.due_now: dict[str, None] = {}
        """Groups whose kept promise has come due."""
        self.planning = IDLE
        """The version that a plan is being made from."""
        self.arrivals: list[Order] = []
        """Orders of the requests that appeared while that plan was being made."""
        self.nominal_at = 0
        """The version at which the nominal cluster last changed: an older plan's Reject does not count."""
        self.rejected: dict[str, None] = {}
        self.started: dict[str, None] = {}
        """Groups that are STARTING or RUNNING."""
        self.promises: dict[str, Reserve] = {}
        """Starts promised to waiting groups by the plan accepted last."""
        self.void = (0, "")
        """When a group that was promised a start ceased to wait for it, and which: older plans rest on it."""
        self.unsaved = False
        """True when the promises are not those that the store was given last."""
        self.heads: dict[str, str] = {}
        """Queue -> the first of its groups that cannot start and that others wait behind."""
        self.nodes_at = 0
        """The version at which a node last changed: a plan that is older must be checked against it."""


class State(Waiting):
    """Everything the engine knows. `version` counts learned batches."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.now = self.version = 0
        self.inventory = Inventory()
        self.surroundings = Surroundings()
        self.pods: dict[str, Pod] = {}
        self.owners: dict[str, Owner] = {}
        self.node_uids: dict[str, str] = {}
        self.groups: dict[str, Group] = {}
        self.by_key: dict[str, Group] = {}
        self.incarnations: dict[str, int] = {}
        self.retired: dict[str, int] = {}
        """Keys whose group is forgotten but not its incarnation's number -> since when; oldest first."""
        self.group_of: dict[str, str] = {}
        self.groups_of_owner: dict[str, dict[str, None]] = {}
        self.intents: dict[str, Intent] = {}
        self.grants: dict[str, dict[str, None]] = {}
        """Open grants: grant id -> pods whose intents are open."""
        self.recording: dict[str, tuple[str, ...]] = {}
        """Plans handed to the store and not answered yet -> their grants."""
        self.to_bind: dict[str, None] = {}
        self.settled: list[str] = []
        self.tombstones: dict[str, int] = {}
        self.older: dict[str, Pod] = {}  # came after newer news; a list may show that it is true
        self.early: dict[str, int] = {}
        """Our pods seen before the store told its groups -> when; they join theirs once it has."""
        self.restored_pods: dict[str, str] = {}
        """Pods named by grants out of the store -> their group; known until all sources are in."""
        self.ignored_changes: dict[str, str] = {}
        """Pods whose group label changed after dispatch -> the group they asked for."""
        self.loose: dict[str, None] = {}
        """Pods whose intent was given up in this batch: their labels count again."""
        self.unsequenced: dict[str, None] = {}
        self.next_seq = 1
        self.missing: dict[str, None] = dict.fromkeys(settings.sources)
        self.synced = False
        self.store_error = "the store has not answered yet"
        self.epoch = 0
        self.dirty = False
        self.touched: dict[str, None] = {}
        self.spoken = Spoken()
        self.esi = Esi()
        self.index: PodIndex | None = None
        """The pods on nodes for whoever minds them, kept up by `core.census`; None until needed."""
        self.index_at = self.around_at = 0
        """The version at which the index last changed; that of `surroundings` at the last snapshot."""
        self.moved: dict[str, None] = {}
        """Pods that have changed since."""
        self.ends = Ends()
        self.unsettled: dict[str, None] = {}
        """Groups that have been looked at since `ends` was kept (`core.running`)."""
        self.poisoned: dict[str, Poison] = {}
        """What was set aside (`core.poison`), by uid or group."""
        self.poisonings = 0
        self.alarms: list[tuple[ObjectRef, Why, str]] = []
        """What people must be told at once, by whoever tells the next batch; see `alarm`."""
        self.plan_after = 0
        """No plan before this time: the last one failed."""
        self.landed: dict[str, int] = {}
        """Pods of ours seen bound not long ago -> when: they may have met others on their nodes."""
        self.raced: dict[str, int] = {}
        """Nodes on which others met ours and not all fit -> when to ask again for room (`control.races`)."""
        self.races = 0
        self.leaving: dict[str, None] = {}  # pods whose eviction was asked for, until gone or failed
        self.noted: dict[str, None] = {}
        """Groups about which something was decided that is to be saved or told; they are as they were."""
        self._timers: list[tuple[int, int, str]] = []
        self._timed: dict[tuple[int, str], None] = {}
        self._timer_count = 0

    @property
    def ready(self) -> bool:
        """True when every source is in and the store answers: only then is anything planned."""
        return self.synced and not self.store_error

    def touch(self, group: str) -> None:
        """Let the group be looked at again at the end of this batch."""
        self.touched[group] = None

    def note(self, group: str) -> None:
        """Let the group be saved and told of at the end of this batch; what its pods do has not changed."""
        self.noted[group] = None

    def alarm(self, pod: Pod, why: Why, text: str) -> None:
        """Let people be told at once, if not too much waits for that already: nobody may be telling."""
        if len(self.alarms) < ALARMS:
            self.alarms.append((of_pod(pod), why, text))

    def reopen(self) -> None:
        """Something may fit now that did not, or stands before others that did not wait for it."""
        self.dirty = self.freed = True

    def unpromise(self, group: str) -> None:
        """The group is promised nothing any more; what was kept free for it is free for others."""
        if self.promises.pop(group, None) is not None:
            self.unsaved = True

    def break_promise(self, group: str) -> None:
        """The same where the group does not get what it was promised: a plan that rests on it is void."""
        if group in self.promises:
            self.void = (self.version, group)
            self.unpromise(group)
            self.reopen()

    def head(self, group: Group) -> str:
        """The group that everybody in this one's queue waits for; "" if nobody does."""
        return self.heads.get(group.queue, "")

    def wake(self, at: int, group: str) -> None:
        """Touch the group once `at` has come. Asking again for the same costs nothing."""
        if (at, group) in self._timed:
            return
        self._timed[at, group] = None
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, group))

    def next_wake(self) -> int:
        """The earliest time something is due; 0 if nothing is."""
        return self._timers[0][0] if self._timers else 0

    def due(self) -> Iterator[str]:
        """Take out the groups whose timers have run out."""
        while self._timers and self._timers[0][0] <= self.now:
            at, _, group = heapq.heappop(self._timers)
            del self._timed[at, group]
            yield group

    def move_timers(self, by: int) -> None:
        """All timers run out so much later (milliseconds): the clock was set."""
        self._timers = [(at + by, count, group) for at, count, group in self._timers]
        self._timed = {(at, group): None for at, _, group in self._timers}

    def ours(self, pod: Pod) -> bool:
        """Whether Fairlead is to place this pod."""
        return pod.scheduler == self.settings.scheduler or pod.scheduler in self.settings.aliases

    def asked(self, pod: Pod) -> Amounts:
        """What the pod takes from its node."""
        group = self.groups.get(self.group_of.get(pod.uid, "")) if self.tenancy else None
        return with_places(pod.shape.requests, takes(pod, group)) if self.tenancy else pod.shape.requests

    def topology(self) -> Topology:
        """How the nodes lie to each other at present."""
        return of(self.inventory.classes(), self.settings.topology)

    def recount(self, uid: str) -> None:
        """Let the pod hold exactly what it should: its node's share, else its intent's, else nothing."""
        pod, intent = self.pods.get(uid), self.intents.get(uid)
        before = self.inventory.held.get(uid)
        held_before = before is not None
        if pod is not None and not pod.ended and (pod.node or intent is not None):
            node = pod.node or (intent.node if intent is not None else "")
            if self.inventory.hold(uid, node, self.asked(pod)) and held_before:
                self.reopen()  # it moved or changed its size, so something may be free elsewhere
            elif self.minding and not held_before:
                self.reopen()  # to one who minds others, a place is good or bad because somebody came
        elif self.inventory.release(uid):
            self.reopen()
        if self.esi.members:
            after = self.inventory.held.get(uid)
            if after != before:
                self.esi.moved(uid, before[0] if before else "", after[0] if after else "")
        if self.index is not None:
            self.moved[uid] = None
            if len(self.moved) > len(self.inventory.held) + 16:  # nobody has asked for long
                self.index, self.moved = None, {}

    def add_intent(self, intent: Intent) -> None:
        """Let the pod be intended for the node; an older intent of the same pod gives way."""
        self.drop_intent(intent.pod)
        self.intents[intent.pod] = intent
        self.grants.setdefault(intent.grant, {})[intent.pod] = None
        self.recount(intent.pod)
        self.touch(intent.group)

    def drop_intent(self, uid: str) -> None:
        """The intent is fulfilled or given up. A grant without open intents is settled."""
        intent = self.intents.pop(uid, None)
        self.to_bind.pop(uid, None)
        if intent is None:
            return
        self.surroundings.forget(uid)
        pods = self.grants[intent.grant]
        del pods[uid]
        if not pods:
            del self.grants[intent.grant]
            self.settled.append(intent.grant)
        self.loose[uid] = None
        self.recount(uid)
        self.touch(intent.group)
