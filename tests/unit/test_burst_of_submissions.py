"""Who submits does not hold up who starts: pods are taken in, and binds go out, while a long plan is made."""

import asyncio
from collections.abc import Sequence
from typing import Any

from asking_support import node
from msgspec import structs

from fairlead.control import ACTING
from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.runtime.clock import Clock
from fairlead.runtime.loop import Loop
from fairlead.runtime.planner import Planner

BURST = 10_000


def pod(number: int, cpu: int, minutes: int) -> ev.PodSeen:
    shape = Shape((("cpu", cpu), ("pods", 1)))
    made = Pod(f"u{number}", "d", f"p{number}", number, shape, "fairlead", walltime=minutes * 60_000)
    return ev.PodSeen(structs.replace(made, created=number))


class Scene:
    """The store and the cluster of this test: they note what they are told, and answer when told to."""

    handles = (cmd.RecordAllocations, cmd.SaveGroups, cmd.SettleGrants, cmd.Bind)

    def __init__(self) -> None:
        self.inbox: Any = None
        self.plans: list[str] = []
        self.binds: list[cmd.Bind] = []
        self.noted: list[str] = []

    async def run(self, inbox: Any) -> None:
        self.inbox = inbox
        await asyncio.Event().wait()

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        for command in commands:
            if isinstance(command, cmd.RecordAllocations) and command.grants:
                self.plans.append(command.plan)
            elif isinstance(command, cmd.Bind):
                self.noted.append("bind")
                self.binds.append(command)

    async def close(self) -> None:
        """Nothing is held."""


async def until(wanted: Any) -> None:
    async with asyncio.timeout(100):
        while not wanted():
            await asyncio.sleep(0.001)


async def test_I19_a_burst_of_submissions_delays_no_bind_and_no_news() -> None:
    """While the plan for 10,000 pods is being made, a start becomes durable and a pod is deleted."""
    engine = Engine(Settings(queues=single("conservative", depth=2000), pace=0), ACTING)
    scene = Scene()

    def observe(batch: Sequence[ev.Event], commands: Sequence[cmd.Command], _: float) -> None:
        scene.noted += ["gone" for event in batch if event == ev.PodGone("u77", 99_999)]
        scene.noted += ["plan" for event in batch if isinstance(event, ev.PlanProposed)]
        scene.noted += ["propose" for each in commands if isinstance(each, cmd.Propose)]

    loop = Loop(engine, (scene, Planner()), Clock(), None, (observe,))
    running = asyncio.create_task(loop.run())
    await until(lambda: scene.inbox is not None)
    sources = [ev.Synced(source) for source in engine.state.settings.sources]
    scene.inbox.put([ev.StoreReady(1), ev.NodeSeen(node("n0", cpu=64)), *sources, pod(1, 64_000, 60)])
    await until(lambda: scene.plans)
    scene.noted.clear()
    # None fits beside it, each is another size and length: the plan looks at all of them.
    scene.inbox.put([pod(n, 1000 + n % 50_000, 1 + n % 300) for n in range(10, 10 + BURST)])
    await until(lambda: "propose" in scene.noted)
    scene.inbox.put([ev.AllocationsRecorded(scene.plans[0])])
    scene.inbox.put([ev.PodGone("u77", 99_999)])
    await until(lambda: "plan" in scene.noted)
    assert scene.noted.index("bind") < scene.noted.index("plan")
    assert scene.noted.index("gone") < scene.noted.index("plan")
    assert [bind.pod for bind in scene.binds] == ["u1"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
