"""The whole picture that a scheduler has of its cluster, as plain structs: what `fairlead state dump` prints.

Made by `core.dump`, sent by `api.server` as JSON, so these structs are the contract of `/api/v1/state`.
Times are milliseconds since the epoch, 0 = not yet; amounts are milli-cores for cpu and whole units for all
else. Lists are sorted, so that equal pictures are equal texts and two dumps can be compared by `diff`.
"""

from enum import StrEnum

from msgspec import Struct

from fairlead.model.group import GroupRecord
from fairlead.model.plan import Reserve
from fairlead.model.view import QueueStatus, ResourceUse


class Holds(StrEnum):
    """Why a pod, or a free slot of a Testbed, takes up room on a node."""

    BOUND = "bound"
    """The API server says that it is there."""
    INTENT = "intent"
    """It is granted the place and has not been seen there yet."""
    SLOT = "slot"
    """A slot of a Testbed is kept for whom it is meant: what of it nobody in it holds."""


class Holder(Struct, frozen=True, gc=False):
    """A pod that takes up room. `group` is an id, "" for pods that Fairlead does not place."""

    uid: str
    namespace: str
    name: str
    group: str
    why: Holds
    amounts: dict[str, int]


class NodeState(Struct, frozen=True, gc=False):
    """One node. `gone_at` is when its object went, 0 while it is there; what it had stays nominal capacity.

    `version` is the resourceVersion of what was heard last. `taints` are as kubectl writes them.
    """

    name: str
    uid: str
    version: int
    ready: bool
    unschedulable: bool
    deleting: bool
    gone_at: int
    taints: tuple[str, ...]
    resources: tuple[ResourceUse, ...]
    held: tuple[Holder, ...]


class Stray(Struct, frozen=True, gc=False):
    """Room taken up on a node that is not known (yet)."""

    name: str
    held: tuple[Holder, ...]


class PodState(Struct, frozen=True, gc=False):
    """One pod of any scheduler. `group` is an id, "" if it has none; `owner` is "Kind/name", "" for none."""

    uid: str
    namespace: str
    name: str
    version: int
    node: str
    phase: str
    scheduler: str
    group: str
    owner: str
    priority: int
    deleting: bool
    gated: bool
    requests: dict[str, int]


class Wanted(Struct, frozen=True, gc=False):
    """What a group waits for: so many of its pods, each with these amounts. `growth`: beside others of it."""

    pods: tuple[str, ...]
    growth: bool
    amounts: dict[str, int]


class GroupState(Struct, frozen=True, gc=False):
    """One group: what the store keeps of it, but for what is as in most groups, and what it consists of."""

    record: GroupRecord
    members: tuple[str, ...]
    """Uids of its pods, ended ones too, in order of arrival."""
    owners: tuple[str, ...]
    wants: tuple[Wanted, ...]
    estimate: int
    """The start that it is promised at present; 0 if none is."""
    backoff_until: int
    attempts: int


class IntentState(Struct, frozen=True, gc=False):
    """A pod that is granted a node. See `core.live.Intent` for the flags."""

    pod: str
    node: str
    grant: str
    group: str
    durable: bool
    in_flight: bool
    acknowledged: bool
    doubtful: bool
    not_before: int
    error: str


class GrantState(Struct, frozen=True, gc=False):
    """A grant with open intents. `recording`: the store was given it and has not answered yet."""

    id: str
    pods: tuple[str, ...]
    recording: bool


class SetAside(Struct, frozen=True, gc=False):
    """An object that the scheduler tripped over and left out, so that everybody else goes on.

    `version` is that of the object, 0 for a group: only a newer one is looked at again.
    """

    id: str
    kind: str
    name: str
    text: str
    at: int
    version: int


class LastAudit(Struct, frozen=True, gc=False):
    """What the last audit found: "clean", "differences" or "failed", and how many (`fairlead audit`)."""

    at: int
    result: str
    differences: int
    repaired: int


class SettingsState(Struct, frozen=True, gc=False):
    """What plans depend on besides events, but for the queues."""

    scheduler: str
    match: str
    pace: int
    recovery: int
    request_timeout: int
    partitions: tuple[str, ...]
    topology: tuple[str, ...]
    sources: tuple[str, ...]


class StateDump(Struct, frozen=True, gc=False):
    """Everything. `version` counts learned batches, `epoch` the leaders there have been.

    `missing` are sources that have not told yet what there is, `store_error` is "" while the store answers.
    `promises` are starts that are kept free for waiting groups; `counts` tells how much is known besides.
    `digest` is that of `fairlead audit`: equal as long as nothing changes that takes up room or gives some,
    "" where it was not asked for. `audit` is null before the first.
    """

    as_of: int
    source: str
    warnings: tuple[str, ...]
    program: str
    version: int
    epoch: int
    ready: bool
    missing: tuple[str, ...]
    store_error: str
    settings: SettingsState
    queues: tuple[QueueStatus, ...]
    counts: dict[str, int]
    nodes: tuple[NodeState, ...]
    strays: tuple[Stray, ...]
    pods: tuple[PodState, ...]
    groups: tuple[GroupState, ...]
    intents: tuple[IntentState, ...]
    grants: tuple[GrantState, ...]
    promises: tuple[Reserve, ...]
    set_aside: tuple[SetAside, ...]
    digest: str = ""
    audit: LastAudit | None = None
