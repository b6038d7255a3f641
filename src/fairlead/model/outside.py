"""What a policy function sees and what it may answer: the whole interface of own policies (docs/policies.md).

A function takes a View and returns decisions: `Start`, `Reserve`, `Wait`. Whom it does not mention waits on.
Made by `core.outlook`, judged by `core.adopt`, sent to the function's process by `runtime.policy_pipe`.
Amounts are whole numbers: cpu in milli-cores, memory in bytes; times are milliseconds since the epoch, spans
of time milliseconds. Must not need any knowledge of the engine.
"""

from msgspec import Struct
from numpy import bool_, int64
from numpy.typing import NDArray

from fairlead.model.settings import QueueSettings


class Nodes(Struct, frozen=True, array_like=True):
    """The nodes that are there now, and what they have. Node i is column i of every array."""

    names: tuple[str, ...]
    labels: tuple[dict[str, str], ...]
    resources: tuple[str, ...]
    """Row r of every array is this resource: cpu, memory, pods, nvidia.com/gpu …"""
    capacity: NDArray[int64]
    """[resource, node]"""


class Task(Struct, frozen=True, gc=False, array_like=True):
    """`count` pods that are alike. `amounts` is what each asks for, in the order of `Nodes.resources`."""

    count: int
    amounts: tuple[int, ...]
    feasible: int
    """Row of `View.feasible`: which nodes its selector, affinity and tolerations allow."""


class Waiting(Struct, frozen=True, gc=False, array_like=True):
    """A group that waits: all its pods start together or none."""

    id: str
    """What decisions name it by."""
    namespace: str
    name: str
    queue: str
    priority: int
    submitted: int
    """When its first pod was first seen."""
    walltime: int
    """How long it may run; 0 = nobody knows."""
    joins: bool
    """Not a group of its own but a pod that joins a running one, such as one in the place of a lost pod."""
    labels: dict[str, str]
    """Of its first pod."""
    tasks: tuple[Task, ...]

    @property
    def count(self) -> int:
        """How many pods it has."""
        return sum([task.count for task in self.tasks])


class Held(Struct, frozen=True, gc=False, array_like=True):
    """Pods that are alike, of a group that has started: what each holds, and the number of its node."""

    amounts: tuple[int, ...]
    nodes: tuple[int, ...]


class Running(Struct, frozen=True, gc=False, array_like=True):
    """A group that has started."""

    id: str
    namespace: str
    name: str
    queue: str
    priority: int
    started: int
    until: int
    """When it is expected to be over; 0 = nobody knows."""
    labels: dict[str, str]
    held: tuple[Held, ...]


class View(Struct, frozen=True, array_like=True):
    """Everything at one instant. `waiting` is in the order of the queue, `running` in the order of starts."""

    now: int
    nodes: Nodes
    free: NDArray[int64]
    """[resource, node]; below 0 where a node has shrunk below what is on it."""
    feasible: NDArray[bool_]
    """[row, node]: see `Task.feasible`."""
    waiting: tuple[Waiting, ...]
    running: tuple[Running, ...]
    queues: tuple[QueueSettings, ...]
    match: str
    """Which nodes Fairlead chooses where a Start names none."""


class Start(Struct, frozen=True, tag="start"):
    """Start the group now: one node per pod, by number or name, in the order of its tasks.

    Without nodes Fairlead chooses them, and minds all that a node may be forbidden for. If it cannot be done,
    that is a refusal, which is counted and told; with `optional` it is not, and the group simply waits on.
    """

    id: str
    nodes: tuple[int | str, ...] = ()
    optional: bool = False


class Reserve(Struct, frozen=True, tag="reserve"):
    """Tell people that the group is to start then (0: without a date). The function is asked again at that
    time. It is a promise of the function's: nothing but itself keeps others from delaying it."""

    id: str
    start: int
    nodes: tuple[int | str, ...] = ()
    text: str = ""


class Wait(Struct, frozen=True, tag="wait"):
    """The group waits on; `text` is what `fairlead explain` says of it."""

    id: str
    text: str


Decision = Start | Reserve | Wait
