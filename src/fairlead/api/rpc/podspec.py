"""Pods as Fluxion's services name them: cores, bytes and devices of one, and how many are alike.

Called by `api.rpc.fluxion`. Turns them into a request on a containment tree, and what a job was granted back
into nodes with a number of pods each. Must not match anything.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Tree
from fairlead.model.jobspec import SLOT, Count, Jobspec, Resource
from fairlead.wire.jobspec import JobspecError
from fairlead.wire.units import bytes_of

DURATION = 3600
"""Seconds that such pods are taken to run: the messages have no field for it, and fluxnetes says an hour."""
_MEGABYTE = 1 << 20
"""What memory is counted in by a graph that does not say it."""
_ZONES = ("subnet", "zone")


class PodSpec(Protocol):
    """What is read of a pod, whichever service's message it is."""

    @property
    def cpu(self) -> int: ...
    @property
    def memory(self) -> int: ...
    @property
    def gpu(self) -> int: ...
    @property
    def labels(self) -> Iterable[str]: ...


def request(pod: PodSpec, count: int, tree: Tree) -> Jobspec:
    """A slot per pod; with the label `zone` all of them in one zone. Raises JobspecError."""
    _at_least(pod.cpu, 1, "podspec.cpu")
    _at_least(pod.memory, 0, "podspec.memory")
    _at_least(pod.gpu, 0, "podspec.gpu")
    _at_least(count, 1, "count")
    unit = bytes_of(tree.unit("memory")) or _MEGABYTE
    amounts = {"core": pod.cpu, "memory": -(-pod.memory // unit), "gpu": pod.gpu}
    wanted = tuple(_exactly(type_, amount) for type_, amount in amounts.items() if amount)
    slots = Resource(SLOT, Count(count, count), label="default", children=wanted)
    if "zone" in pod.labels:
        zone = next((type_ for type_ in _ZONES if type_ in tree.types), _ZONES[0])
        slots = Resource(zone, Count(1, 1), children=(slots,))
    return Jobspec((slots,), DURATION)


def tasks(job: Job, cpu: int, tree: Tree, names: Mapping[int, str]) -> dict[str, int]:
    """Node name -> how many pods of `cpu` cores the job has there, in the order in which they were chosen."""
    cores: dict[int, int] = {}
    for v, held in job.held.items():
        if tree.type[v] == "core":
            node = next((above for above in tree.ancestors(v) if above in names), None)
            if node is not None:
                cores[node] = cores.get(node, 0) + held.needs
    return {names[v]: n // cpu for v, n in cores.items()}


def _exactly(type_: str, amount: int) -> Resource:
    return Resource(type_, Count(amount, amount))


def _at_least(value: int, least: int, place: str) -> None:
    if value < least:
        raise JobspecError(f"{place}: is {value}, but must be at least {least}")
