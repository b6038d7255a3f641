"""An engine that is saved and restored again and again while it runs, and must not be able to tell.

`Twin` takes the place of Engine in worlds of other tests: beside itself it has one that was made of a
checkpoint of it, and of a checkpoint of that, and what both answer is compared to the bit.
"""

from collections.abc import Sequence

import msgspec

from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine, Reconciler
from fairlead.core.snapshot import Snapshot
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.settings import Settings
from fairlead.runtime import checkpoint
from fairlead.runtime.shared import Shared

Batch = Sequence[ev.Event]


def written(batch: Batch, shared: Shared) -> list[ev.Event]:
    """The batch as it is read back."""
    events = msgspec.json.decode(msgspec.json.encode(batch), type=list[ev.Event])
    return [shared.event(event) for event in events]


def said(commands: Sequence[cmd.Command]) -> list[str]:
    """Commands as text; in place of a snapshot the plan that is made of it."""
    return [
        msgspec.json.encode(plan_now(each.snapshot)).decode() if isinstance(each, cmd.Propose) else repr(each)
        for each in commands
    ]


class Planning:
    """The snapshots of plans that are being made."""

    def __init__(self) -> None:
        self.open: dict[int, Snapshot] = {}

    def told(self, batch: Batch, commands: Sequence[cmd.Command]) -> None:
        for event in batch:
            if isinstance(event, ev.PlanProposed):
                self.open.pop(event.plan.version, None)
        self.open.update({c.snapshot.version: c.snapshot for c in commands if isinstance(c, cmd.Propose)})

    def plans(self) -> list[bytes]:
        return [msgspec.json.encode(plan_now(snapshot)) for snapshot in self.open.values()]


class Twin(Engine):
    """Compares itself with its copy; `every` so many batches the copy is saved and restored."""

    every, first = 3, 1
    compared = 0

    def __init__(self, settings: Settings, reconcilers: Sequence[Reconciler] = ()) -> None:
        super().__init__(settings, reconcilers)
        self._shared, self._planning = Shared(), Planning()
        self._other: Engine | None = None
        self._count = 0

    def learn(self, events: Batch) -> list[cmd.Command]:
        if self._count >= self.first and (self._count - self.first) % self.every == 0:
            self._restore()
        self._count += 1
        batch = written(events, self._shared)
        commands = super().learn(events)
        self._planning.told(events, commands)
        if self._other is not None:
            answer = self._other.learn(batch)
            assert said(answer) == said(commands)
            Twin.compared += 1
        return commands

    def _restore(self) -> None:
        """The copy anew: of itself the first time, then of the copy."""
        plain = self._other
        if plain is None:
            plain = Engine(self.state.settings)
            vars(plain).update({name: vars(self)[name] for name in vars(plain)})
        found = checkpoint.load(checkpoint.dump(plain, self._planning.open), self.reconcilers, self._shared)
        assert [
            msgspec.json.encode(plan_now(each)) for each in found.planning.values()
        ] == self._planning.plans()
        self._other = found.engine
