"""What tests of replays share: a recorded world, a sink in memory, and the way from segments to a replay."""

import asyncio
import random
from collections.abc import Sequence

from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.model import event as ev
from fairlead.model.plan import Placement, Plan, Start
from fairlead.model.settings import Settings
from fairlead.runtime import checkpoint
from fairlead.runtime.replay import Replay, Replayer
from fairlead.runtime.segmenting import Closed, Opened, Segments
from fairlead.runtime.segments import Chunk, Decoder
from fairlead.runtime.shared import Shared
from fairlead.sim.ops import Op
from worlds import play

_OFTEN = ("submit",) * 4 + ("bring", "finish", "finish", "delete", "foreign", "join", "relabel")
Batches = list[tuple[ev.Event, ...]]


def recorded() -> tuple[Batches, Settings]:
    """What an engine was told in a world where a lot happens."""
    chance = random.Random(5)
    ops = [Op(chance.choice(_OFTEN), *(chance.randrange(n) for n in (12, 12, 12, 10))) for _ in range(40)]
    world = play(ops, [9, 4, 9, 0, 9, 2, 9])
    assert sum(isinstance(event, ev.PlanProposed) for batch in world.batches for event in batch) > 8
    return world.batches, world.settings


def changed(batches: Batches) -> tuple[Batches, Plan]:
    """One member of one start on another node; and the plan that says so."""
    for at, batch in enumerate(batches):
        for i, event in enumerate(batch):
            if isinstance(event, ev.PlanProposed) and any(isinstance(d, Start) for d in event.plan.decisions):
                plan = _elsewhere(event.plan)
                other = (*batch[:i], ev.PlanProposed(plan), *batch[i + 1 :])
                return [*batches[:at], other, *batches[at + 1 :]], plan
    raise AssertionError("no start was recorded")


def _elsewhere(plan: Plan) -> Plan:
    decisions = list(plan.decisions)
    for i, decision in enumerate(decisions):
        if isinstance(decision, Start):
            first = Placement(decision.placements[0].pod, "elsewhere")
            decisions[i] = structs.replace(decision, placements=(first, *decision.placements[1:]))
            break
    return structs.replace(plan, decisions=tuple(decisions))


class Kept:
    """A sink that keeps everything, as long as there is room."""

    def __init__(self) -> None:
        self.items: list[Opened | Chunk | Closed] = []
        self.full = False

    def put(self, item: Opened | Chunk | Closed) -> bool:
        if self.full and not isinstance(item, Closed):
            return False
        self.items.append(item)
        return True

    def room(self) -> bool:
        return not self.full

    @property
    def opened(self) -> list[Opened]:
        return [item for item in self.items if isinstance(item, Opened)]


async def record(segments: Segments, engine: Engine, batches: Sequence[Sequence[ev.Event]]) -> None:
    """Let the engine learn, recorded; children come to their end in between."""
    for batch in batches:
        segments.batch(batch)
        segments.observe(batch, engine.learn(batch), 0.0)
        while any(task.get_name() == "checkpoint" for task in asyncio.all_tasks()):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)


async def replayed(items: Sequence[Opened | Chunk | Closed]) -> Replay:
    """Everything that was recorded, told again."""
    found, specs = Replay(), dict[bytes, bytes]()
    replayer: Replayer | None = None
    decoder = Decoder(Shared())
    for item in items:
        match item:
            case Opened():
                assert replayer is None
                shared = Shared()
                restored = checkpoint.Restored(Engine(item.settings, RECONCILERS), {})
                if item.checkpoint is not None:
                    restored = checkpoint.load(await item.checkpoint, RECONCILERS, shared)
                replayer, decoder = Replayer(found, restored, exact=True), Decoder(shared)
                found.segments += 1
            case Chunk():
                assert replayer is not None
                specs |= item.specs
                packed = item.packed()
                decoder.know({name: specs[name] for name in decoder.missing(packed)})
                for batch in decoder.batches(packed):
                    replayer.batch(batch, "here")
            case Closed():
                assert replayer is not None
                replayer.close()
                replayer = None
    return found
