"""ESI's doors over a simulated cluster, for tests: requests are answered while the world goes on.

The engine, its machines and the objects are those of `sim.esi_world`; nothing listens on a port.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2 as httpx
from starlette.applications import Starlette

from fairlead.api.esi.access import Access, Guarded, Unguarded
from fairlead.api.esi.doors import Doors
from fairlead.api.server import FAILURES, Guard
from fairlead.model.batchjob import BatchJob, BatchJobOptions, BatchJobSpec
from fairlead.model.caller import Caller
from fairlead.model.esi import Ref, TestbedSpec
from fairlead.model.esi import Testbed as Bed
from fairlead.sim.esi_cluster import Allows, SimulatedCluster
from fairlead.sim.esi_world import EsiWorld

START = 1_790_000_000_000
BASE = "http://127.0.0.1:8082"
FIRST = 1_000
POD = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def small(nodes: int = 2, slots: int = 2) -> EsiWorld:
    """A Testbed `tb` of so many nodes, n0, n1 …, and jobs j1 to j4, each a batch/v1 Job."""
    world = EsiWorld()
    world.now = START
    world.run(1)
    for i in range(nodes):
        world.node(f"n{i}", {"slots": str(i)})
    world.put(Bed("", 0, "default", "tb", TestbedSpec("slots", slots, {"cpu": "600m", "memory": "1Gi"})))
    for i in range(1, 5):
        job(world, f"j{i}")
    world.run(5_000)
    return world


def job(world: EsiWorld, name: str, namespace: str = "default") -> None:
    spec = BatchJobSpec(fairlead=BatchJobOptions(job_spec={"template": POD}))
    world.put(BatchJob("", 0, namespace, name, spec))


class Served:
    """`world` goes on by itself, 200 ms at a time, while anything here is awaited; `until` waits for it."""

    def __init__(self, world: EsiWorld, access: Access | None, allows: Allows | None, **options: Any) -> None:
        self.world = world
        callers = {"good": Caller("ann", "1", ("staff",)), "other": Caller("bob", "2")}
        self.cluster = SimulatedCluster(world, callers, **({"allows": allows} if allows else {}))
        chosen = access or (Guarded(self.cluster) if allows else Unguarded())
        self.doors = Doors(self.cluster, chosen, first=FIRST, **options)
        self.doors.turn_to(world.engine.state)
        self.app = Guard(Starlette(routes=self.doors.routes(), exception_handlers=FAILURES), "127.0.0.1")
        self.http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.app, raise_app_exceptions=False), base_url=BASE
        )
        self.paused = False

    async def go_on(self) -> None:
        while True:
            if not self.paused:
                self.world.run(200)
                self.doors.batch((), (), 0.0)
            await asyncio.sleep(0.001)

    async def until(self, done: Callable[[], object], what: str = "") -> None:
        for _ in range(5_000):
            if done():
                return
            await asyncio.sleep(0.001)
        raise AssertionError(f"waited in vain for {what or done}")

    async def get(self, path: str, **headers: str) -> Any:
        answer = await self.http.get(path, headers=_headers(headers))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.http.request(method, path, json=body, headers=_headers(headers))

    async def scheduling(self, name: str, **fields: Any) -> httpx.Response:
        return await self.ask("POST", "/external/schedulings", {"name": name, "testBed": "tb", **fields})

    async def reaches(self, name: str, state: str) -> Mapping[str, Any]:
        """The Scheduling as REST shows it, once it is in this state."""
        await self.until(lambda: self._state(name) == state, f"{name} to be {state}")
        return await self.get(f"/external/schedulings/{name}")

    def _state(self, name: str) -> str:
        found = self.doors.feed.picture.of("schedulings", Ref("default", name))
        return str(found.status.state) if found else ""


def _headers(named: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in named.items()}


@contextlib.asynccontextmanager
async def served(
    world: EsiWorld | None = None,
    *,
    access: Access | None = None,
    allows: Allows | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """`allows`: tokens are asked for ("good" is ann's, "other" bob's), and rights are these."""
    found = Served(world or small(), access, allows, **options)
    going = asyncio.create_task(found.go_on())
    try:
        async with found.http:
            yield found
            if going.done():
                going.result()
    finally:
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
