"""What is done with is gone at once: nothing holds itself and waits for the collector, which comes seldom.

`fairlead.app` lets the collector walk the heap rarely. Whatever is held both ways stays until then, with all
that it refers to: a plan's whole queue, a connection's buffers.
"""

import asyncio
import gc
from collections.abc import Generator
from typing import Any

import aiohttp
import pytest
from test_requirements_time import AHEAD, machine, submit

from fairlead.core.backfill import Ahead
from fairlead.core.cycle import Cycle
from fairlead.core.pool import Pooled
from fairlead.kube import translate
from fairlead.kube.client import ApiClient
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.node import Node
from kube_fake import FakeApi, ListInbox, bookmark


@pytest.fixture(autouse=True)
def no_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left(kind: type[Any]) -> int:
    return sum(isinstance(each, kind) for each in gc.get_objects())


@pytest.mark.parametrize("policy", AHEAD)
@pytest.mark.parametrize("nodes", ["one", "alike", "unlike"])
def test_a_plan_leaves_nothing_of_its_work(policy: str, nodes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for kind in (Cycle, Pooled, Ahead):

        def init(self: Any, *args: Any, name: str = kind.__name__, first: Any = kind.__init__) -> None:
            made.append(name)
            first(self, *args)

        monkeypatch.setattr(kind, "__init__", init)
    world = machine(policy, nodes=1 if nodes == "one" else 2)
    if nodes == "unlike":
        world.node(Node("u9", "n9", 0, (("cpu", 6000), ("pods", 2000))))
        world.run(1_000)
    for i in range(6):
        submit(
            world,
            f"gang{i}",
            8 if nodes == "alike" else 5,
            minutes=10 + i,
            members=2 if nodes != "one" else 1,
        )
        submit(world, f"long{i}", 8, minutes=60)
        world.run(60_000)
    assert "Cycle" in made and ("Ahead" if nodes == "unlike" else "Pooled") in made
    assert (left(Cycle), left(Pooled), left(Ahead)) == (0, 0, 0)


async def test_a_watch_that_fell_silent_leaves_no_connection() -> None:
    async with FakeApi() as api:
        client, stats = ApiClient(api.access), dict[str, int]()
        api.streams = [[bookmark(20, end=True)]]
        gate = SyncGate((translate.PODS,))
        reflector = Reflector(client, translate.PODS, ListInbox(), gate, stats, idle=0.05)
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(30):
            while stats.get("watch_silences", 0) < 20:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
        assert left(aiohttp.ClientResponse) <= 2, "all but the last are gone"
