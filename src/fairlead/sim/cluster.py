"""A simulated cluster as it truly is, its clock, and the watches that tell of it: late, twice, with gaps.

The lower half of `sim.world`, which adds a scheduler process and its store. Nothing here is random: what goes
wrong is said by a `Faults`. A watch that was cut off hears nothing until it lists anew, and what was still on
its way then is lost, as on a real connection.
"""

import heapq
from collections.abc import Callable

from msgspec import structs

from fairlead.model import event as ev
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod
from fairlead.sim.faults import Faults

SOURCES = ("nodes", "owners", "pods")
_SOURCE: dict[type, str] = {
    ev.NodeSeen: "nodes",
    ev.NodeGone: "nodes",
    ev.OwnerSeen: "owners",
    ev.OwnerGone: "owners",
    ev.PodSeen: "pods",
    ev.PodGone: "pods",
    ev.EsiSeen: "surroundings",
    ev.EsiGone: "surroundings",
}


class Cluster:
    """Pods, nodes and owners; a heap of things to come. Times in milliseconds."""

    sources: tuple[str, ...] = SOURCES

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.now = 1_000
        self.version: int = 0
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.owners: dict[str, Owner] = {}
        self.run_time: dict[str, int] = {}
        self.grace: dict[str, int] = {}
        """Pod -> how long it takes to end when it is deleted at its walltime, in milliseconds."""
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._deaf: dict[str, int] = {}
        """Source -> number of its gap, while its watch is cut off."""
        self._heard: dict[str, int] = dict.fromkeys(self.sources, 0)
        """Source -> how many watches there were before the present one."""

    def tell(self, *events: ev.Event) -> None:
        """Put events into the scheduler's inbox; `sim.world` says how."""
        raise NotImplementedError

    # -- what is there -------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        self.version += 1
        self.nodes[node.name] = structs.replace(node, version=self.version)
        self._tell_watch(ev.NodeSeen(self.nodes[node.name]))

    def node_gone(self, name: str) -> None:
        """The node object is deleted; its pods stay until somebody deletes them."""
        self.version += 1
        node = self.nodes.pop(name)
        self._tell_watch(ev.NodeGone(node.uid, self.version))

    def owner(self, owner: Owner) -> None:
        self.version += 1
        self.owners[owner.uid] = structs.replace(owner, version=self.version)
        self._tell_watch(ev.OwnerSeen(self.owners[owner.uid]))

    def owner_gone(self, uid: str) -> None:
        self.version += 1
        del self.owners[uid]
        self._tell_watch(ev.OwnerGone(uid, self.version))

    def pod(self, pod: Pod, run_time: int = 0) -> None:
        """Create or change a pod; `run_time` milliseconds after it runs it succeeds (0: never)."""
        self.version += 1
        created = pod.created or self.now
        self.pods[pod.uid] = structs.replace(pod, version=self.version, created=created)
        if run_time:
            self.run_time[pod.uid] = run_time
        self._tell_watch(ev.PodSeen(self.pods[pod.uid]))

    def change(self, uid: str, **fields: object) -> None:
        """Change fields of a pod, if it still exists."""
        if uid in self.pods:
            self.pod(structs.replace(self.pods[uid], **fields))

    def pod_gone(self, uid: str) -> None:
        if self.pods.pop(uid, None) is not None:
            self.version += 1
            self._tell_watch(ev.PodGone(uid, self.version))

    # -- time ----------------------------------------------------------------------------------------

    def at(self, delay: int, action: Callable[[], None]) -> None:
        """Do something `delay` milliseconds from now."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + delay, self._count, action))

    # -- what is told of it --------------------------------------------------------------------------

    def lists(self) -> list[ev.Event]:
        """What the watches say at their beginning: all nodes, owners and pods, each list with its end."""
        return [event for source in self.sources for event in self.listing(source)]

    def listing(self, source: str) -> list[ev.Event]:
        """One source's list with its end."""
        events: list[ev.Event] = []
        if source == "nodes":
            events += [ev.NodeSeen(node) for node in self.nodes.values()]
            events.append(ev.Listed("Node", tuple(n.uid for n in self.nodes.values()), self.version))
        elif source == "owners":
            events += [ev.OwnerSeen(owner) for owner in self.owners.values()]
            for kind in ("Job", "ReplicaSet", "StatefulSet"):
                uids = tuple(o.uid for o in self.owners.values() if o.kind == kind)
                events.append(ev.Listed(kind, uids, self.version))
        else:
            pods = sorted(self.pods.values(), key=lambda p: (p.created, p.version))
            events += [ev.PodSeen(pod) for pod in pods]
            events.append(ev.Listed("Pod", tuple(self.pods), self.version))
        return [*events, ev.Synced(source)]

    def gap(self, source: str, duration: int) -> None:
        """The watch of a source is cut off for so long; then it lists anew."""
        self._heard[source] += 1
        number = self._deaf[source] = self._heard[source]

        def back() -> None:
            if self._deaf.get(source) == number:
                del self._deaf[source]
                self.tell(*self.listing(source))

        self.at(duration, back)

    def _tell_watch(self, event: ev.Event) -> None:
        source = _SOURCE[type(event)]
        if source in self._deaf:
            return
        for delay in self.faults.deliveries(event):
            if delay:
                self.at(delay, lambda watch=self._heard[source]: self._arrive(source, watch, event))
            else:
                self.tell(event)

    def _arrive(self, source: str, watch: int, event: ev.Event) -> None:
        if watch == self._heard[source]:
            self.tell(event)
