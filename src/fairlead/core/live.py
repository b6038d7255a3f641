"""The live objects of the state: a group, and the intent to bind a pod.

Made by `core.reduce` and `core.verify`, kept by `core.state`, changed by `core.groups` and the reconcilers.
Mutable, never shared with a planner. Must not know the state.
"""

from fairlead.core.profile import Share
from fairlead.core.snapshot import Request
from fairlead.model.event import BindError
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.layout import NO_LAYOUT
from fairlead.model.pod import Pod


class Intent:
    """A pod that shall be bound: granted by a plan, not yet seen bound. It holds capacity."""

    __slots__ = (
        "acknowledged",
        "doubtful",
        "durable",
        "error",
        "grant",
        "group",
        "in_flight",
        "node",
        "not_before",
        "pod",
        "revoke_again_at",
    )

    def __init__(self, pod: str, node: str, grant: str, group: str) -> None:
        self.pod, self.node, self.grant, self.group = pod, node, grant, group
        self.durable = False
        """True once the store has the grant: only then may a bind go out."""
        self.in_flight = False
        self.acknowledged = False
        """True once the API server has said yes; the watch has yet to show it."""
        self.not_before = 0
        """No bind before this time: an earlier request may still be on its way."""
        self.doubtful = False
        """True once a request of it has gone out whose fate is not known: it may still take effect."""
        self.revoke_again_at = 0
        """When to ask again that such a request be made to fail; owned by `control.ladder`."""
        self.error: BindError | None = None
        """Why the last bind failed for good; the ladder gives such an intent up."""


class Group:
    """The live state of a group. `pods` holds all its existing pods, ended ones too, in order of arrival."""

    def __init__(
        self, key: str, incarnation: int, namespace: str, name: str, source: str, first_seen: int
    ) -> None:
        self.id = f"{key}#{incarnation}"
        self.key, self.incarnation = key, incarnation
        self.namespace, self.name, self.source = namespace, name, source
        self.first_seen = first_seen
        self.seq = 0
        self.pods: dict[str, None] = {}
        self.owners: dict[str, None] = {}
        self.size, self.seen, self.priority = 1, 0, 0
        self.queue, self.layout = "default", NO_LAYOUT
        self.slotted = False
        """Whether it is a pod of external schedulers: no cycle sees it, it starts in its slot."""
        self.duration, self.begin = 0, 0
        self.limit = 0
        """The walltime that Fairlead itself enforces; 0 where the clock is somebody else's."""
        self.latest_end = 0
        """When Kubernetes will end it, started or not (a Job's own deadline); 0 if nothing says so."""
        self.endings, self.end_again_at = 0, 0
        """How often its end was asked for, and when to ask again; owned by `control.enforce`."""
        self.fail_all = False
        """Whether all of it is to end when a member fails or is lost."""
        self.short_since = 0
        """Since when such a group has fewer members than it started with; owned by `core.losses`."""
        self.lost: Pod | None = None
        """The member of such a group that was gone last."""
        self.warned = ""
        """What was last said of `latest_end`; owned by `control.enforce`."""
        self.phase, self.outcome, self.reason = Phase.HELD, Outcome.NONE, Reason()
        self.since = first_seen
        """When the phase or the reason last changed."""
        self.broken = ""
        self.crowded = ""
        """A node on which it met others and not all fit; nobody would bring its pods again."""
        self.completed, self.failed = 0, 0
        self.started_size = 0
        """How many members the start was granted for; 0 before any."""
        self.backoff_until, self.attempts = 0, 0
        self.recovering_since, self.evictions = 0, 0
        self.asked_at = 0
        """The state's version when `requests` last changed: an older plan has not seen them."""
        self.rejected_for: object = None
        """The (tasks, nominal version) that a Reject rests on."""
        self.complete_at = self.granted_at = self.bound_at = self.started_at = self.ended_at = 0
        self.planned_at = self.recorded_at = 0
        self.nodes: tuple[str, ...] = ()
        self.requests: tuple[Request, ...] = ()
        self.estimate = 0
        """The start it is promised at present; 0 if none is."""
        self.promised = self.promised_last = 0
        """The first and the latest start it was promised since it was complete (`core.estimates`)."""
        self.told_start = self.tell_start_at = 0
        """The estimated start written to Kubernetes, and when that is looked at again; owned by
        `control.estimates`."""
        self.said_by: tuple[object, ...] = ()
        """What its walltime was last read from while it ran."""
        self.shares: tuple[Share, ...] | None = None
        """What its pods hold, if counted since it was last touched (`core.running`)."""
        self.spoilt: tuple[Request, ...] = ()
        """Requests that no plan can be made with (`core.poison`)."""
        self.saved: GroupRecord | None = None
        self.told: tuple[object, ...] = ()
        """What was last written about the group to Kubernetes; owned by `control.telling`."""
        self.tell_at = 0

    @property
    def rejected(self) -> bool:
        return self.phase is Phase.ENDED and self.outcome is Outcome.REJECTED

    @property
    def timed_out(self) -> bool:
        """Its walltime is over and it is being ended (`control.enforce`), be it by an earlier process."""
        return self.phase is Phase.RUNNING and self.reason.why is Why.TIMEOUT

    @property
    def failing(self) -> bool:
        """A member has failed or is lost, and with it all of the group, which is being ended."""
        return self.phase is Phase.RUNNING and self.reason.why is Why.FAILED

    @property
    def ending(self) -> bool:
        return self.timed_out or self.failing

    def record(self) -> GroupRecord:
        """The group as the store and people see it."""
        return GroupRecord(
            id=self.id, key=self.key, incarnation=self.incarnation, namespace=self.namespace, name=self.name,
            seq=self.seq, first_seen=self.first_seen, source=self.source, size=self.size, seen=self.seen,
            priority=self.priority, queue=self.queue, duration=self.duration, begin=self.begin,
            phase=self.phase, outcome=self.outcome, reason=self.reason, broken=self.broken, nodes=self.nodes,
            complete_at=self.complete_at, granted_at=self.granted_at, bound_at=self.bound_at,
            started_at=self.started_at, ended_at=self.ended_at, promised=self.promised,
            promised_last=self.promised_last if self.granted_at else 0,
            planned_at=self.planned_at, recorded_at=self.recorded_at,
        )  # fmt: skip

    @classmethod
    def restored(cls, r: GroupRecord) -> "Group":
        """A group as the store had it; its pods come from the list that follows."""
        group = cls(r.key, r.incarnation, r.namespace, r.name, r.source, r.first_seen)
        group.seq, group.size, group.seen, group.priority = r.seq, r.size, r.seen, r.priority
        group.queue, group.duration, group.begin = r.queue, r.duration, r.begin
        group.phase, group.outcome, group.reason, group.broken = r.phase, r.outcome, r.reason, r.broken
        group.complete_at, group.granted_at, group.bound_at = r.complete_at, r.granted_at, r.bound_at
        group.started_at, group.ended_at, group.nodes = r.started_at, r.ended_at, r.nodes
        group.promised, group.promised_last = r.promised, r.promised_last
        group.planned_at, group.recorded_at = r.planned_at, r.recorded_at
        group.started_size = r.size if r.granted_at else 0
        group.saved = r
        return group
