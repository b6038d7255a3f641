"""Random worlds for property tests: drawn operations (`fairlead.sim.ops`) under drawn faults, then a rest.

The fault simulation (`fairlead.sim.fuzz`) has the same worlds and draws them from seeds.
"""

from collections.abc import Sequence

from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.settings import Settings
from fairlead.sim.chaos import Chaos
from fairlead.sim.faults import Faults
from fairlead.sim.ops import Op


class Drawn(Faults):
    """Faults out of a list of numbers, used again and again; `off` ends them."""

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes, self.at, self.off = codes or [9], 0, False
        self.effect = -1

    def draw(self) -> int:
        self.at += 1
        return 9 if self.off else self.codes[self.at % len(self.codes)]

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        code = self.draw()
        self.effect = {2: 0, 3: 700, 4: 8_000}.get(code, -1)
        return {
            0: ev.BindError.REFUSED,
            1: ev.BindError.CHANGED,
            2: ev.BindError.UNKNOWN,
            3: ev.BindError.UNKNOWN,
            4: ev.BindError.UNKNOWN,
            5: ev.BindError.UNKNOWN,
        }.get(code)

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        return self.effect >= 0

    def unknown_delay(self, _: cmd.Bind) -> int:
        return max(self.effect, 0)

    def plan_delay(self) -> int:
        return {0: 3, 1: 40, 2: 700}.get(self.draw(), 0)

    def deliveries(self, _: ev.Event) -> tuple[int, ...]:
        times = 2 if self.draw() == 3 else 1
        return tuple({0: 1, 1: 5, 2: 60}.get(self.draw(), 0) for _ in range(times))


class Stammering(Engine):
    """An engine that is told every batch twice."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        return [*super().learn(events), *super().learn(events)]


def play(
    ops: Sequence[Op], codes: Sequence[int], match: str = "first", engine: type[Engine] = Engine
) -> Chaos:
    """The world at rest after all that."""
    faults = Drawn(codes)
    world = Chaos(Settings(match=match, pace=0), faults, engine)
    for i in range(3):
        world.do(Op("join", i, 3, 1, 0))
    for op in ops:
        world.do(op)
    faults.off = True
    world.store_up()
    world.run(300_000)
    return world
