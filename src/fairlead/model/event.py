"""What happened: the Event union. The only way anything enters the engine.

Ports and the loop make events; `core.reduce` consumes them. Events carry whole objects, not
differences, so that a relist, a retry, a duplicate or a late one is harmless. `Event` is tagged, so
the union has a JSON form for the ledger (`runtime.record`).
"""

from enum import StrEnum

from msgspec import Struct

from fairlead.model.application import EsiThing
from fairlead.model.group import GroupRecord
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.plan import Grant, Plan, Reserve
from fairlead.model.pod import Pod
from fairlead.model.settings import Settings
from fairlead.model.thing import Thing


class PodSeen(Struct, frozen=True, gc=False, tag="pod"):
    """A pod exists like this (added, changed or listed)."""

    pod: Pod


class PodGone(Struct, frozen=True, gc=False, tag="pod_gone"):
    """A pod does not exist any more; `version` is that of the deletion."""

    uid: str
    version: int


class NodeSeen(Struct, frozen=True, gc=False, tag="node"):
    """A node exists like this."""

    node: Node


class NodeGone(Struct, frozen=True, gc=False, tag="node_gone"):
    """A node does not exist any more."""

    uid: str
    version: int


class OwnerSeen(Struct, frozen=True, gc=False, tag="owner"):
    """A Job, ReplicaSet or StatefulSet exists like this."""

    owner: Owner


class OwnerGone(Struct, frozen=True, gc=False, tag="owner_gone"):
    """An owner does not exist any more."""

    uid: str
    version: int


class ThingSeen(Struct, frozen=True, gc=False, tag="thing"):
    """A namespace, a storage object or a device class exists like this."""

    uid: str
    version: int
    thing: Thing


class ThingGone(Struct, frozen=True, gc=False, tag="thing_gone"):
    """Such an object does not exist any more."""

    uid: str
    version: int


class EsiSeen(Struct, frozen=True, gc=False, tag="esi"):
    """A custom resource of external schedulers, or an application made from one, exists like this.

    The end of a list is a `Listed` whose kind is the tag of the thing; gone ones come as `EsiGone`.
    """

    thing: EsiThing


class EsiGone(Struct, frozen=True, gc=False, tag="esi_gone"):
    """Such an object does not exist any more."""

    uid: str
    version: int


Told = (
    PodSeen
    | PodGone
    | NodeSeen
    | NodeGone
    | OwnerSeen
    | OwnerGone
    | ThingSeen
    | ThingGone
    | EsiSeen
    | EsiGone
)
"""What the cluster tells of one object."""


class Listed(Struct, frozen=True, gc=False, tag="listed"):
    """The end of a list of one kind ("Pod", "Node", "Job", …): what is not in `uids` is gone.

    The objects themselves came before, as Seen events sorted by (created, version).
    """

    kind: str
    uids: tuple[str, ...]
    version: int


class Repaired(Struct, frozen=True, gc=False, tag="repaired"):
    """An audit found the state wrong: these objects are, or are gone, as a list asked for at `at` has it.

    They hold even against what is known at the same version, and against tombstones from before `at`
    (milliseconds since the epoch). `recount`: all that is derived from objects is counted anew.
    """

    at: int
    items: tuple[Told, ...]
    recount: bool


class Rewound(Struct, frozen=True, gc=False, tag="rewound"):
    """The versions of a kind began anew: what is known of it is older than whatever comes.

    Told before a list whose version is lower than what was seen of that kind, as after the API server's
    database was restored from a backup.
    """

    kind: str


class Synced(Struct, frozen=True, gc=False, tag="synced"):
    """A source ("pods", "nodes", "owners", "surroundings", "store") has told everything it had."""

    source: str


class Tick(Struct, frozen=True, gc=False, tag="tick"):
    """The only clock of the engine: milliseconds since the epoch, never going back."""

    now: int


class ClockJumped(Struct, frozen=True, gc=False, tag="clock_jumped"):
    """The wall clock moved by this many milliseconds against the monotonic one."""

    by: int


class GroupRestored(Struct, frozen=True, gc=False, tag="group"):
    """A group as the store has it. Comes before Synced("store")."""

    record: GroupRecord


class GrantRestored(Struct, frozen=True, gc=False, tag="grant"):
    """An unresolved intent found in the store: it counts, and is not started before `not_before`.

    `not_before` (milliseconds since the epoch) is when no request of an earlier process can still be
    on its way.
    """

    grant: Grant
    not_before: int


class ReservationRestored(Struct, frozen=True, gc=False, tag="promise"):
    """A promised start as the store has it. Comes after the groups and before Synced("store")."""

    reserve: Reserve


class Configured(Struct, frozen=True, gc=False, tag="configured"):
    """The configuration was read anew: from here on these settings hold."""

    settings: Settings


class StoreReady(Struct, frozen=True, gc=False, tag="store_ready"):
    """The store answers and this process leads with `epoch`."""

    epoch: int


class StoreLost(Struct, frozen=True, gc=False, tag="store_lost"):
    """The store does not answer: nothing may be placed until StoreReady."""

    error: str


class AllocationsRecorded(Struct, frozen=True, gc=False, tag="recorded"):
    """The plan's grants are durable: its binds may go out."""

    plan: str


class AllocationsRefused(Struct, frozen=True, gc=False, tag="refused"):
    """The plan's grants are certainly not durable (fenced by a newer epoch)."""

    plan: str
    reason: str


class PlanProposed(Struct, frozen=True, gc=False, tag="plan"):
    """A planner's answer to Propose, or an outside plan."""

    plan: Plan


class BindError(StrEnum):
    GONE = "gone"
    """The pod does not exist (any more): 404, or another uid under the name."""
    TAKEN = "taken"
    """The pod is bound to another node already."""
    CHANGED = "changed"
    """The pod changed so that it must not be bound (gated, deleting, revoked, spec changed)."""
    REFUSED = "refused"
    """The API server says no (403, 422 …); trying the same again is useless."""
    UNKNOWN = "unknown"
    """The request's fate is not known (time-out, connection cut): it may still arrive."""
    BUSY = "busy"
    """The API server had no time for it (429), all the while: certainly not done, to be sent again."""


class Bound(Struct, frozen=True, gc=False, tag="bound"):
    """A binding request succeeded (or the pod was found bound to that very node)."""

    pod: str
    grant: str
    node: str


class BindFailed(Struct, frozen=True, gc=False, tag="bind_failed"):
    """A binding request did not succeed; no request for the pod is in flight except for UNKNOWN."""

    pod: str
    grant: str
    error: BindError
    text: str = ""


class ObjectFailed(Struct, frozen=True, gc=False, tag="object_failed"):
    """A CreateObject, PatchObject or DeleteObject was certainly refused; `status` is the HTTP code.

    What becomes of others is seen by the watch. Those of unknown fate are sent again by the port.
    """

    verb: str
    kind: str
    namespace: str
    name: str
    status: int
    text: str


class Evicted(Struct, frozen=True, gc=False, tag="evicted"):
    """An eviction was carried out (`ok`) or failed."""

    pod: str
    ok: bool
    text: str = ""


Event = (
    Told
    | Listed
    | Rewound
    | Repaired
    | Synced
    | Tick
    | ClockJumped
    | GroupRestored
    | GrantRestored
    | ReservationRestored
    | Configured
    | StoreReady
    | StoreLost
    | AllocationsRecorded
    | AllocationsRefused
    | PlanProposed
    | Bound
    | BindFailed
    | Evicted
    | ObjectFailed
)
