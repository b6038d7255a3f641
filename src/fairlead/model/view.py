"""What people and programs are shown: rows of the queue and of the nodes, and the story of one group.

Made by `core.views` (from the live state) and by the command line (from the store); sent by `api.server`
as JSON, so these structs are the contract of `/api/v1` and its OpenAPI document. Every field is always
there. Times are milliseconds since the epoch, 0 = not yet; lengths of time are milliseconds; amounts are
milli-cores for cpu and whole units (bytes, devices) for everything else.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class State(StrEnum):
    """A group's phase in the words of people; ended groups carry their outcome."""

    ASSEMBLING = "assembling"
    """Fewer members than its size."""
    HELD = "held"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    """No nominal cluster could hold it; looked at again when nodes join."""


class QueueRow(Struct, frozen=True):
    """One group as a line of a table. `position` counts waiting groups from 1; 0 = does not wait.

    `waited` runs from the first sight of its first member to its start; `why` is one word of the
    vocabulary of reasons and `text` the sentence that goes with it. `estimate` is the start that it is
    promised, 0 if none is; `promised` the first start that it was ever promised, `promised_last` the one
    that stood when it was `granted_at`: the error of the forecast is the difference.
    """

    position: int
    id: str
    namespace: str
    name: str
    source: str
    queue: str
    state: State
    phase: str
    outcome: str
    why: str
    text: str
    broken: str
    size: int
    seen: int
    priority: int
    first_seen: int
    waited: int
    duration: int
    begin: int
    estimate: int
    nodes: tuple[str, ...]
    complete_at: int
    granted_at: int
    bound_at: int
    started_at: int
    ended_at: int
    promised: int
    promised_last: int
    planned_at: int
    recorded_at: int


class QueuePage(Struct, frozen=True):
    """Some rows of the queue. `total` counts the rows there are, `counts` them by state.

    `source` is "scheduler", or "database" when nobody but the store could be asked; `as_of` is when
    what it says was true. `warnings` say why it may be out of date or why nothing starts.
    """

    as_of: int
    source: str
    total: int
    counts: dict[str, int]
    warnings: tuple[str, ...]
    groups: tuple[QueueRow, ...]


class QueueStatus(Struct, frozen=True):
    """One queue: how it is configured, and its groups.

    `depth` says how many waiting groups hold a reservation under its policy (-1 none, 0 all), `looks` how
    many of them one cycle looks at (0 all). `walltime` is for groups that state none, `longest` the most
    that may be asked for. `counts` has its groups by state, `promised` those of them that hold a reservation.
    """

    name: str
    policy: str
    depth: int
    order: str
    walltime: int
    longest: int
    partition: str
    looks: int
    counts: dict[str, int]
    promised: int


class QueuesPage(Struct, frozen=True):
    """All queues in the order of the configuration file; see QueuePage for the other fields."""

    as_of: int
    source: str
    warnings: tuple[str, ...]
    queues: tuple[QueueStatus, ...]


class ResourceUse(Struct, frozen=True):
    """One resource of one node. `free` may be negative: a node can shrink below what it holds."""

    name: str
    capacity: int
    used: int
    free: int


class NodeRow(Struct, frozen=True):
    """One node: `present` is false when its object is gone, `pods` counts those of all schedulers.

    `place` is where it stands, from the widest level down ("zone-a/rack-3"), "" if no label tells;
    `exclusive` is true while a group has it for itself.
    """

    name: str
    ready: bool
    unschedulable: bool
    present: bool
    resources: tuple[ResourceUse, ...]
    pods: int
    groups: tuple[str, ...]
    place: str
    exclusive: bool


class NodePage(Struct, frozen=True):
    """All nodes; see QueuePage for the other fields."""

    as_of: int
    source: str
    warnings: tuple[str, ...]
    nodes: tuple[NodeRow, ...]


class GraphPage(Struct, frozen=True):
    """The cluster as a containment tree in JSON Graph Format; see QueuePage for the other fields.

    `graph` has `nodes` and `edges`: the cluster, zones and racks, nodes, and one vertex for each resource of
    a node, as large as what can be allocated of it. Memory is in units of 2^20 bytes.
    """

    as_of: int
    source: str
    warnings: tuple[str, ...]
    graph: dict[str, Any]


class Stage(Struct, frozen=True):
    """When a group came this far, and how long that took from the stage before (0 for the first)."""

    name: str
    at: int
    took: int


class Ask(Struct, frozen=True):
    """`count` members that want the same: `amounts` in numbers, `text` the same in words."""

    count: int
    amounts: dict[str, int]
    text: str


class Member(Struct, frozen=True):
    """One pod of the group. `intended` is true while it is being bound to `node`."""

    name: str
    uid: str
    phase: str
    node: str
    intended: bool
    reason: str


class Head(Struct, frozen=True):
    """The group that everybody behind it waits for."""

    id: str
    namespace: str
    name: str
    text: str


class Blocker(Struct, frozen=True):
    """A group that is in the way of another's start, and when it is expected to be out of it."""

    id: str
    namespace: str
    name: str
    until: int


class Promise(Struct, frozen=True):
    """The start that a waiting group is promised: not later, unless a node is lost or something overruns.

    `nodes` is where, as planned now; it may come out otherwise. `after` are the groups there whose end it
    waits for, those that end last first, and at most ten. `span` is of these nodes, as in Explanation.
    """

    start: int
    nodes: tuple[str, ...]
    after: tuple[Blocker, ...]
    span: dict[str, int]


class Layout(Struct, frozen=True):
    """How a group wants to lie, by label keys of levels: in one domain, in few; "" where it says nothing."""

    required: str
    preferred: str
    exclusive: bool


class Explanation(Struct, frozen=True):
    """The story of one group: where it stands, how it came there, and what would bring it on.

    `ahead` counts the waiting groups before it. `short` says what it lacks now, "" if nothing;
    `nearest` the node that is closest to taking one more member, `next_step` what has to happen for it
    to start, `promise` when that will be. `layout` is how its members are to lie, `span` over how many
    domains of each level its nodes spread, from nodes to the widest; empty before it has any.
    """

    group: QueueRow
    since: int
    stages: tuple[Stage, ...]
    asks: tuple[Ask, ...]
    members: tuple[Member, ...]
    ahead: int
    head: Head | None
    short: str
    nearest: str
    next_step: str
    promise: Promise | None
    notes: tuple[str, ...]
    layout: Layout
    span: dict[str, int]


class ExplanationPage(Struct, frozen=True):
    """All groups that a name stands for (one name may exist in several namespaces and lives)."""

    as_of: int
    source: str
    warnings: tuple[str, ...]
    groups: tuple[Explanation, ...]


class Health(Struct, frozen=True):
    """Whether groups can be placed, and if not, why."""

    ready: bool
    reasons: tuple[str, ...]


class Version(Struct, frozen=True):
    """Of the program that answers."""

    name: str
    version: str


class Failure(Struct, frozen=True):
    """What an error answer consists of."""

    error: str
