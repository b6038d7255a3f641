"""A recording told to the engine again: every plan is made anew and compared with the recorded one.

Called by `cli.replaying`: `replay_file` for what `--record FILE` wrote, `Replayer` for each segment of the
ledger. Plans from outside and of policy functions are told like all else and not compared. Whatever is
decided differently, the engine goes on with what was recorded, so each plan is compared by itself. Must not
change a recording.
"""

import pathlib
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct, field

from fairlead.control import RECONCILERS
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.snapshot import Snapshot
from fairlead.model.command import Propose
from fairlead.model.event import Event, PlanProposed
from fairlead.model.plan import OWN, Plan
from fairlead.runtime.checkpoint import Restored
from fairlead.runtime.deviations import Deviation, Inputs, Kind, deviations, inputs
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.record import Header, read
from fairlead.runtime.version import engine_version

_DETAILED = 100
"""Of so many differences all is kept; the others are counted."""


class Difference(Struct, frozen=True):
    """A plan that came out otherwise. `inputs` are those of the first group that is decided on differently.

    `exact`: it was recorded by this very version of the engine, which must decide the same.
    """

    where: str
    plan: str
    exact: bool
    deviations: list[Deviation]
    inputs: Inputs | None
    recorded: Plan | None
    replayed: Plan | None


class Replay(Struct):
    """What a replay found. Of `plans` that were made again, `wrong` came out otherwise though they must not,
    `other` under another version of the engine."""

    segments: int = 0
    batches: int = 0
    events: int = 0
    plans: int = 0
    outside: int = 0
    """Plans that others or a policy function had made: told, not compared."""
    unanswered: int = 0
    """Plans that were begun and of which no end was recorded: the process was ended, or the recording."""
    wrong: int = 0
    other: int = 0
    classes: Counter[Kind] = field(default_factory=lambda: Counter[Kind]())
    differences: list[Difference] = field(default_factory=list[Difference])
    """The first ones."""
    gaps: list[str] = field(default_factory=list[str])
    """What was not recorded, in words."""
    versions: list[str] = field(default_factory=list[str])
    """Other versions of the engine that have recorded some of it."""
    truncated: bool = False
    """The last line was cut off (the scheduler was killed): all before it counts."""


class Replayer:
    """One stretch of batches without a gap, from an empty engine or a restored one on."""

    def __init__(self, found: Replay, restored: Restored, exact: bool) -> None:
        self._found, self._engine, self._exact = found, restored.engine, exact
        self._made: dict[str, tuple[Plan, Snapshot]] = {}
        for snapshot in restored.planning.values():
            self._plan(snapshot)
        # Begun in the stretch before, where its end is not: the end may be in this one.
        found.unanswered = max(found.unanswered - len(restored.planning), 0)

    def batch(self, events: Sequence[Event], where: str) -> None:
        """Tell the engine the next batch; `where` it stands, for people."""
        for event in events:
            if isinstance(event, PlanProposed):
                self._look_at(event.plan, where)
        for command in self._engine.learn(events):
            if isinstance(command, Propose):
                self._plan(command.snapshot)
        self._found.batches += 1
        self._found.events += len(events)

    def close(self) -> None:
        """Nothing more is recorded of it."""
        self._found.unanswered += len(self._made)

    def _plan(self, snapshot: Snapshot) -> None:
        plan = plan_now(snapshot)
        self._made[plan.id] = (plan, snapshot)

    def _look_at(self, recorded: Plan, where: str) -> None:
        found = self._found
        replayed, snapshot = self._made.pop(recorded.id, (None, None))
        if recorded.source != OWN:  # also where a policy function has answered: it is not asked again
            found.outside += 1
            return
        found.plans += 1
        if replayed is None or snapshot is None:
            said = Deviation(Kind.RECORDED, "", f"plan {recorded.id}", "no plan was asked for")
            self._note(Difference(where, recorded.id, self._exact, [said], None, recorded, None))
        elif msgspec.json.encode(recorded) != msgspec.json.encode(replayed):
            said = deviations(recorded, replayed)
            concerned = next((each.group for each in said if each.group), "")
            told = inputs(snapshot, concerned)
            self._note(Difference(where, recorded.id, self._exact, said, told, recorded, replayed))

    def _note(self, difference: Difference) -> None:
        found = self._found
        found.wrong += self._exact
        found.other += not self._exact
        found.classes.update(each.kind for each in difference.deviations)
        if len(found.differences) < _DETAILED:
            found.differences.append(difference)


def replay_file(path: pathlib.Path, told: Callable[[int], None] = lambda _: None) -> Replay:
    """Replay what `--record` wrote; `told` is called with the number of each line. Raises ConfigError."""
    lines = read(path)
    try:
        header = next(lines, None)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if not isinstance(header, Header):
        raise ConfigError(f"{path}: empty, not a recording of Fairlead")
    exact = header.engine in ("", engine_version())
    found = Replay(segments=1, versions=[] if exact else [header.engine])
    replayer = Replayer(found, Restored(Engine(header.settings, RECONCILERS), {}), exact)
    for number, batch in enumerate(lines, 2):
        if not isinstance(batch, Header):
            replayer.batch(batch, f"line {number}")
            told(number)
    replayer.close()
    found.truncated = _cut_off(path)
    return found


def _cut_off(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"
