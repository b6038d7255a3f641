"""What the recorder writes: one Change per thing that happened, and the life of each pod and node.

Made by `recorder` (from watches, other schedulers and logs) and by `runtime.decisions` (from the engine),
written by `store.ledger`, read back by `store.history`. A Change is said once: its maker knows what was said.
"""

from enum import StrEnum
from typing import Any

from msgspec import Struct


class Source(StrEnum):
    """Who told it."""

    WATCH = "watch"
    """The watch of pods and nodes."""
    EVENTS = "events"
    """A Kubernetes Event."""
    EXTENDER = "extender"
    """kube-scheduler asked Fairlead's observing extender."""
    PLUGIN = "plugin"
    """The plugin inside a kube-scheduler (`fairlead.recorder.v1`)."""
    SNIFFER = "sniffer"
    """A client of the sniffer's gRPC, its notifier among them."""
    IMPORT = "import"
    """A log of the sniffer's, read in later."""
    FAIRLEAD = "fairlead"
    """Fairlead's own decisions."""
    RECORDER = "recorder"
    """The recorder about itself: a gap."""


class Change(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened, in a row of its own. Times in milliseconds since the epoch.

    `at` is when it happened by whoever says so, to the precision that it is said with (Kubernetes: a second);
    where nobody says, `at` is `seen`, when it was learned. `object` is a Kubernetes kind, Group or Recorder.
    `event` is one word, the source's own (Created, Scheduled, ContainerStarted, ScheduleSuccess …).
    `extra` is JSON of what has no column.
    """

    object: str
    event: str
    at: int
    seen: int
    source: Source
    uid: str = ""
    namespace: str = ""
    name: str = ""
    node: str = ""
    scheduler: str = ""
    version: int = 0
    reason: str = ""
    message: str = ""
    extra: dict[str, Any] | None = None


class PodLife(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod from its creation on, as far as it is known: one row, written whole. Times as in Change, 0 = not
    yet.

    `queued`: it may be scheduled (created, and no gate holds it back). `scheduled`: a scheduler has chosen
    its node, by the scheduler's own word where there is one. `bound`: it has its node. `started`: its first
    container runs; `ready`: it was Ready for the first time; `finished`: its last container ended, or it was
    seen ended. `deleted` with `lost` is when it was found to be gone without having been seen going.
    `exit_code` is the first of its containers' that is not 0, -1 while none has ended.
    `told` is the transition time by condition or container: what was said already is not said again.
    """

    uid: str
    namespace: str
    name: str
    version: int = 0
    scheduler: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    group: str = ""
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    exit_code: int = -1
    restarts: int = 0
    priority: int = 0
    requests: dict[str, int] = {}
    """cpu in milli-cores, all else in whole units."""
    labels: dict[str, str] = {}
    walltime: int = 0
    """What it may run, in milliseconds, if it says so."""
    created: int = 0
    queued: int = 0
    scheduled: int = 0
    bound: int = 0
    started: int = 0
    ready: int = 0
    finished: int = 0
    deleting: int = 0
    deleted: int = 0
    lost: bool = False
    first_seen: int = 0
    last_seen: int = 0
    source: Source = Source.WATCH
    told: dict[str, int] = {}


class NodeLife(Struct, frozen=True, gc=False, omit_defaults=True):
    """A node as it was from `since` on, until the next of the same uid or until `until` (0 = still).

    A new one begins when capacity, labels, taints, readiness or cordon change; heartbeats are no change.
    """

    uid: str
    name: str
    since: int
    version: int = 0
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    """`key=value:effect`"""
    unschedulable: bool = False
    ready: bool = True
    conditions: dict[str, str] = {}
    """Those that are not as they should be, by type: `reason`."""
    until: int = 0
    lost: bool = False
    told: dict[str, int] = {}


class Part(Struct, frozen=True):
    """What is written in one transaction: all of it, or nothing.

    `marks` are the versions by kind up to which a watch is in with this part: where to go on after a restart.
    `weight` is the bytes that a door was told it in, 0 where that does not matter.
    """

    changes: tuple[Change, ...] = ()
    pods: tuple[PodLife, ...] = ()
    nodes: tuple[NodeLife, ...] = ()
    marks: dict[str, int] = {}
    weight: int = 0


class Loaded(Struct, frozen=True):
    """What a recorder goes on from: pods not known to be gone, nodes as they are now, and marks."""

    pods: dict[str, PodLife] = {}
    nodes: dict[str, NodeLife] = {}
    marks: dict[str, int] = {}
