"""What tests of the audit share: lists of a simulated cluster, and an audit without a clock or a loop."""

import asyncio
from collections.abc import Callable, Sequence

from fairlead.core.audit import Look, Pictures, comparing, drawing, miscounted, repairs
from fairlead.core.differences import named, of_columns
from fairlead.core.engine import Engine
from fairlead.core.moment import take
from fairlead.core.state import State
from fairlead.core.steps import now
from fairlead.model import event as ev
from fairlead.model.audit import Difference, Listing, Report
from fairlead.runtime.audit import Auditor
from fairlead.runtime.metrics import Metrics
from fairlead.sim.world import World

OWNERS = ("Job", "ReplicaSet", "StatefulSet")


def listings(world: World) -> list[Listing]:
    """What the simulated API server would list at this instant."""
    owners = {kind: [o for o in world.owners.values() if o.kind == kind] for kind in OWNERS}
    return [
        Listing("Pod", world.version, tuple(ev.PodSeen(pod) for pod in world.pods.values())),
        Listing("Node", world.version, tuple(ev.NodeSeen(node) for node in world.nodes.values())),
        *(
            Listing(kind, world.version, tuple(ev.OwnerSeen(o) for o in each))
            for kind, each in owners.items()
        ),
    ]


def look(state: State, lists: Sequence[Listing], since: int | None = None) -> tuple[Look, Pictures]:
    """One comparison of the state as it is."""
    moment = take(state)
    found = now(comparing(moment, lists, state.now if since is None else since))
    return found, now(drawing(moment, found))


def differences(state: State, lists: Sequence[Listing]) -> list[Difference]:
    """All that an audit would name."""
    found, pictures = look(state, lists)
    return [*map(named, found.found), *(of_columns(pictures, name) for name in miscounted(pictures))]


def repair(engine: Engine, lists: Sequence[Listing]) -> None:
    """Put right what an audit finds."""
    found, pictures = look(engine.state, lists)
    for event in repairs(found.found, engine.state.now, bool(miscounted(pictures))):
        engine.learn([ev.Tick(engine.state.now), event])


def digests(state: State, lists: Sequence[Listing]) -> tuple[str, str]:
    """Of the picture that events made, and of the one that is counted anew."""
    _, pictures = look(state, lists)
    return pictures.here.digest, pictures.there.digest


class Audited:
    """A simulated cluster whose scheduler can be audited in a running loop. `lists` are what is listed."""

    def __init__(self, world: World, grace: float = 0.0, **options: float) -> None:
        self.world, self.metrics = world, Metrics()
        world.check_always = False  # what is broken on purpose is for the audit to find
        self.lists: Callable[[], list[Listing]] = lambda: listings(world)
        self.put_in: list[ev.Event] = []
        self.auditor = Auditor(self.state, self._relist, self.metrics, grace=grace, interval=0, **options)

    @property
    def state(self) -> State:
        return self.world.engine.state

    async def _relist(self) -> list[Listing]:
        await asyncio.sleep(0)
        return self.lists()

    def put(self, events: Sequence[ev.Event]) -> None:
        """The inbox: what is put in is learned soon."""
        self.put_in += events
        asyncio.get_running_loop().call_soon(self.learn, events)

    def learn(self, events: Sequence[ev.Event]) -> None:
        """As the loop does it."""
        self.world.tell(*events)
        self.world.run(0)
        self.auditor.batch(events, (), 0.0)

    async def audit(self, repair: bool = True) -> Report:
        running = asyncio.create_task(self.auditor.run(self))
        await asyncio.sleep(0)
        try:
            return await self.auditor.audit(repair)
        finally:
            running.cancel()

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
