"""The Kubernetes port: what the cluster does becomes events, what the engine wants becomes API calls.

Made by the composition root, driven by `runtime.loop`. Everything must happen in one running loop. Must
not know the engine; all it keeps of the cluster is which shape each waiting pod was last seen with.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from fairlead.kube.access import ESI_NEEDED, Right, check_access
from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.kube.config import KubeAccess
from fairlead.kube.esi_kinds import ESI_KINDS
from fairlead.kube.outcomes import Fence, Stats, always
from fairlead.kube.relist import relist
from fairlead.kube.tally import Tally
from fairlead.kube.things import ALL_KINDS
from fairlead.kube.translate import Item, Kind, KindOf, place, uid_of
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.audit import Listing
from fairlead.model.command import Command
from fairlead.model.event import Event, Listed, OwnerGone, PodGone, PodSeen, Rewound
from fairlead.model.pod import Shape
from fairlead.runtime.port import Inbox

WATCHES = 40
"""Connections beyond those of the binds: watches, conditions, Events."""


class ShapeBook:
    """The shape of each waiting pod of ours, and since which version it has had it.

    So a bind that met a conflict can tell a harmless change (a label, a condition) from one of the spec.
    """

    def __init__(self, *schedulers: str) -> None:
        self._ours = frozenset(schedulers)
        self._shapes: dict[str, tuple[int, Shape]] = {}

    def learn(self, event: Item) -> None:
        match event:
            case PodSeen(pod):
                if pod.node or pod.ended or pod.scheduler not in self._ours:
                    self._shapes.pop(pod.uid, None)
                    return
                known = self._shapes.get(pod.uid)
                if known is None or known[1] != pod.shape:
                    self._shapes[pod.uid] = (pod.version, pod.shape)
            case PodGone(uid):
                self._shapes.pop(uid, None)
            case Rewound("Pod"):
                self._shapes.clear()  # since when each has had its shape is told in other versions now
            case Listed("Pod", uids):
                there = set(uids)
                self._shapes = {uid: each for uid, each in self._shapes.items() if uid in there}
            case _:
                pass

    def planned(self, uid: str, version: int) -> Shape | None:
        """The shape the pod had at that version. One that changed since is answered by what it never was."""
        known = self._shapes.get(uid)
        if known is None:
            return None
        since, shape = known
        return shape if since <= version else Shape(requests=(), unsupported=("the spec changed",))


class KubePort:
    """`aliases` are other schedulerNames whose pods are ours; `esi`: external schedulers are served, too."""

    def __init__(
        self,
        access: KubeAccess,
        *,
        scheduler: str = "fairlead",
        aliases: Sequence[str] = (),
        kinds: tuple[Kind, ...] = ALL_KINDS,
        esi: bool = False,
        bind_parallelism: int = 64,
        request_timeout: float = 10.0,
        queue_timeout: float | None = None,
        pod_events: bool = True,
        condition_rate: float = 50.0,
        fence: Fence = always,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.stats: Stats = {}
        if registry is not None:
            registry.register(Tally(self.stats))
        self._esi = esi
        self._all: tuple[KindOf[Any], ...] = (*kinds, *(ESI_KINDS if esi else ()))
        self._book = ShapeBook(scheduler, *aliases)
        self._client = ApiClient(
            access,
            connections=bind_parallelism + WATCHES,
            request_timeout=request_timeout,
            user_agent=scheduler,
        )
        self._actuator = Actuator(
            self._client,
            scheduler=scheduler,
            registry=registry,
            stats=self.stats,
            planned=self._book.planned,
            fence=fence,
            parallel=bind_parallelism,
            request_timeout=request_timeout,
            queue_timeout=queue_timeout,
            pod_events=pod_events,
            condition_rate=condition_rate,
        )
        self.handles = self._actuator.handles

    async def check_access(self, more: Sequence[Right] = ()) -> None:
        """KubeError if this cluster cannot be scheduled with these credentials."""
        await check_access(self._client, (*more, *(ESI_NEEDED if self._esi else ())))

    async def relist(self) -> list[Listing]:
        """What the cluster has now of all that audits look at. KubeError if it cannot be listed."""
        return await relist(self._client, self._all)

    async def catch_up(self) -> list[Event]:
        """Pods and nodes, and what external schedulers are about, as they are at this moment, told as lists.

        Raises KubeError if they cannot be listed.
        """
        kinds = [kind for kind in self._all if kind.name in ("Pod", "Node") or kind in ESI_KINDS]
        events: list[Event] = []
        for listing in await relist(self._client, kinds):
            uids = (*(uid_of(item) for item in listing.items), *listing.unread)
            events += [*sorted(listing.items, key=place), Listed(listing.kind, uids, listing.version)]
        return events

    async def run(self, inbox: Inbox) -> None:
        self._actuator.attach(inbox)
        gate = SyncGate(self._all)
        async with asyncio.TaskGroup() as group:
            for kind in self._all:
                group.create_task(Reflector(self._client, kind, inbox, gate, self.stats, self._learn).run())

    def _learn(self, event: Item) -> None:
        self._book.learn(event)
        if isinstance(event, PodGone | OwnerGone):
            self._actuator.forget(event.uid)

    def perform(self, commands: Sequence[Command]) -> None:
        self._actuator.perform(commands)

    async def close(self) -> None:
        await self._actuator.close()
        await self._client.close()
