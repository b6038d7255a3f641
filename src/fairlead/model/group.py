"""The Group: the unit that waits and starts all-or-nothing. Its phases, its reasons, its stored record.

`core.groups` owns the live state; these are the values that leave the engine: to the store, to the
ledger and to people.
"""

from enum import StrEnum

from msgspec import Struct


class Phase(StrEnum):
    """HELD → QUEUED → STARTING → RUNNING → ENDED; `core.lifecycle` holds the table of moves."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class Outcome(StrEnum):
    """How a group ended; NONE while it has not. A rejected group is looked at again when nodes join."""

    NONE = ""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    REJECTED = "rejected"


class Why(StrEnum):
    """The closed vocabulary of reasons; also the Kubernetes condition and Event reasons (CamelCase)."""

    NONE = ""
    WAITING_FOR_GROUP = "WaitingForGroup"
    """Fewer members than the group's size."""
    SUSPENDED = "Suspended"
    """A member is gated or the owner suspended."""
    BEGIN_TIME = "BeginTime"
    INVALID = "Invalid"
    """A label or annotation that cannot be read, or members that contradict each other."""
    UNSUPPORTED = "Unsupported"
    QUEUED = "Queued"
    """Behind another group, a policy or a limit."""
    RESOURCES = "Unschedulable"
    """Next in order, and more nodes would start it."""
    NODES_DOWN = "NodesDown"
    """Would fit on nodes that are now down, cordoned or gone; outside the policy's depth."""
    BLOCKED = "Blocked"
    """Waits for pods, claims or volumes to come or go, not for work to end; outside the policy's depth."""
    UNSATISFIABLE = "Unsatisfiable"
    BACKOFF = "Backoff"
    """A start failed; tried again after a pause."""
    STARTED = "Started"
    RUNNING = "Running"
    BROKEN = "Broken"
    """A start failed half way and members that nobody recreates stay bound (design: step 3 of the ladder)."""
    COMPLETED = "Completed"
    FAILED = "Failed"
    TIMEOUT = "Timeout"
    """Its walltime is over: it is being ended, or has ended so."""
    DEADLINE = "DeadlineAhead"
    """Kubernetes will end it at a set time, started or not; said in Events only."""
    CANCELLED = "Cancelled"
    IGNORED = "GroupChangeIgnored"
    SET_ASIDE = "SetAside"
    """Fairlead tripped over it: it is left out until it changes, so that everybody else goes on."""
    YIELDED = "Yielded"
    """A member was evicted: another scheduler placed a pod there, and both do not fit. In Events only."""
    ESTIMATED = "EstimatedStart"
    """A start is promised for the first time; said in Events only."""
    MOVED = "EstimateMoved"
    """The promised start has moved so far that people should know, or no start is promised any more."""


class Reason(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a group is where it is: one word of the vocabulary and one sentence for people."""

    why: Why = Why.NONE
    text: str = ""


class GroupRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """A group as the store keeps it and as people see it. One row, written whole.

    `id` is `key#incarnation`, `key` one of `label:NS/NAME`, `job:UID`, `pod:UID`. `seq` is the
    first-seen sequence (0 = not given yet), all times are milliseconds since the epoch, 0 = not yet.
    `duration` is the walltime in milliseconds, 0 = unlimited. `promised` is the first start that the group
    was promised since it was complete; `promised_last` the one that stood when it was granted its start.

    The stages of a start: `first_seen`, `complete_at`, `planned_at` (when the plan that grants it was begun),
    `granted_at` (when that plan was accepted), `recorded_at` (when the store said that the grant is durable),
    `bound_at` (all members seen bound), `started_at` (all seen running).
    """

    id: str
    key: str
    incarnation: int
    namespace: str
    name: str
    seq: int
    first_seen: int
    source: str = "pod"
    size: int = 1
    seen: int = 0
    priority: int = 0
    queue: str = "default"
    duration: int = 0
    begin: int = 0
    phase: Phase = Phase.HELD
    outcome: Outcome = Outcome.NONE
    reason: Reason = Reason()
    broken: str = ""
    nodes: tuple[str, ...] = ()
    complete_at: int = 0
    granted_at: int = 0
    bound_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    promised: int = 0
    promised_last: int = 0
    planned_at: int = 0
    recorded_at: int = 0
