"""The settings of an engine: all that a plan may depend on besides events.

Composed by `fairlead.app` from the command line and the configuration file; part of a recording's first
line, so that a replay runs under the same ones. They enter a running engine only as a `Configured` event.
"""

from msgspec import Struct

from fairlead.model.layout import TOPOLOGY
from fairlead.model.selector import Expression

POLICIES = ("fcfs", "easy", "hybrid", "conservative", "replan")
MATCHES = ("first", "pack", "spread", "locality")
ORDERS = ("priority", "fifo", "shortest")
DEFAULT_QUEUE = "default"
SLOT_QUEUE = "esi"
"""Where application pods of external schedulers wait for their slots: no cycle looks at it, only plans from
outside start them (`control.esi`)."""
FUNCTION_MODES = ("shadow", "live")
HYBRID_DEPTH = 64
"""Reservations of `hybrid` where none are asked for: as many as Fluxion makes."""
MOST_PROMISES = 1_000


class QueueSettings(Struct, frozen=True, omit_defaults=True):
    """One queue: an entry of the configuration file. Times in milliseconds, 0 = none.

    `depth` belongs to `hybrid`: how many waiting groups hold a reservation, -1 none, 0 all. `order` is
    `priority` (then first seen), `fifo` or `shortest` (priority, walltime, then first seen). `walltime` is
    for groups that state none, `longest` is the most that may be asked for. `looks` bounds how many waiting
    groups one cycle looks at, `promises` how many a `conservative` queue keeps a promise for; 0 = no bound.
    """

    name: str = DEFAULT_QUEUE
    policy: str = "fcfs"
    depth: int = HYBRID_DEPTH
    order: str = "priority"
    walltime: int = 0
    longest: int = 0
    partition: str = ""
    looks: int = 0
    promises: int = MOST_PROMISES


class PartitionSettings(Struct, frozen=True, omit_defaults=True):
    """A named subset of the nodes: those that meet all expressions."""

    name: str
    selector: tuple[Expression, ...] = ()


class PolicyFunction(Struct, frozen=True, omit_defaults=True):
    """A Python function that makes plans, in a process of its own (`runtime.policies`). `limit` in
    milliseconds.

    `name` is `module:function` or `file.py:function`, found in the folder `path` ("" = among what is
    installed). `shadow`: its plans are compared and nothing else; `live`: they are what is done.
    """

    name: str
    mode: str = "shadow"
    limit: int = 500
    path: str = ""


class Settings(Struct, frozen=True, omit_defaults=True):
    """All times in milliseconds. `sources` are those that must be in before anything is planned.

    `pace` is the least time between two cycles, `recovery` how long a half-bound group is completed
    forward before the ladder's last step, `request_timeout` the life of one API request, `lasting`
    how long a state must last before anything is written about it.
    """

    queues: tuple[QueueSettings, ...] = (QueueSettings(),)
    """In the order of the configuration file; `default` is always among them."""
    partitions: tuple[PartitionSettings, ...] = ()
    match: str = "first"
    advise: bool = True
    """Whether promises name nodes also where any would do."""
    scheduler: str = "fairlead"
    aliases: tuple[str, ...] = ()
    """Other schedulerNames whose pods Fairlead places: `model.esi.SCHEDULER` where it serves ESI's itself."""
    sources: tuple[str, ...] = ("pods", "nodes", "owners", "store")
    pace: int = 50
    recovery: int = 15_000
    request_timeout: int = 10_000
    lasting: int = 5_000
    retention: int = 7 * 24 * 3600 * 1000
    topology: tuple[str, ...] = TOPOLOGY
    """Label keys of the levels above the node, from the widest to the narrowest."""
    function: PolicyFunction | None = None

    @property
    def live(self) -> bool:
        """Whether a function plans: it is shown everybody who waits, for it remembers nobody."""
        return self.function is not None and self.function.mode == "live"

    def queue(self, name: str) -> QueueSettings | None:
        """The queue of this name, None if there is none."""
        for queue in self.queues:  # a generator would take three times as long, and this is asked often
            if queue.name == name:
                return queue
        return None


def single(
    policy: str,
    depth: int = HYBRID_DEPTH,
    looks: int = 0,
    promises: int = MOST_PROMISES,
    walltime: int = 0,
    longest: int = 0,
) -> tuple[QueueSettings, ...]:
    """The queues of a cluster that has only the default one, under this policy."""
    queue = QueueSettings(
        policy=policy, depth=depth, looks=looks, promises=promises, walltime=walltime, longest=longest
    )
    return (queue,)
