"""What the scheduler's own decisions look like in the ledger."""

from collections import Counter

from asking_support import MINUTE, START, busy, gang, node

from fairlead.model.record import Change, Part, Source
from fairlead.runtime.decisions import Decisions
from fairlead.sim.world import World


class Told:
    """A world whose every batch is told, and the rows that came of it."""

    def __init__(self, world: World, room: int = 1_000_000) -> None:
        self.rows: list[Change] = []
        self._room = room
        self.decisions = Decisions("fairlead", self._take, lambda: world.engine.last_stale)
        learn = world.engine.learn

        def learned(events):  # type: ignore[no-untyped-def]
            commands = learn(events)
            self.decisions.batch(events, commands, 0.0)
            return commands

        world.engine.learn = learned  # type: ignore[method-assign]

    def _take(self, part: Part) -> bool:
        if len(self.rows) + len(part.changes) > self._room:
            return False
        self.rows += part.changes
        return True

    def of(self, name: str) -> list[str]:
        return [row.event for row in self.rows if row.object == "Group" and row.name == name]


def world() -> World:
    made = World()
    made.now = START
    made.run(1)
    for i in range(2):
        made.node(node(f"n{i}"))
    return made


def test_a_group_that_starts_and_ends_is_told_stage_by_stage() -> None:
    made = world()
    told = Told(made)
    gang(made, "mine", 2, run_time=MINUTE)
    made.run(5 * MINUTE)
    assert told.of("mine") == [
        "Arrived", "Queued", "Planned", "Recorded", "Bound", "Started", "Ended",
    ]  # fmt: skip
    planned = next(row for row in told.rows if row.event == "Planned")
    assert planned.extra is not None
    assert planned.extra["placements"] == [["mine-0", "n0"], ["mine-1", "n0"]]
    ended = told.rows[-1]
    assert (ended.event, ended.reason, ended.namespace) == ("Ended", "completed", "team-a")
    times = [row.at for row in told.rows if row.object == "Group"]
    assert times == sorted(times) and times[0] >= START
    assert all(row.at <= row.seen and row.source is Source.FAIRLEAD for row in told.rows)


def test_RB9_who_waits_is_told_why_and_once() -> None:
    made = world()
    told = Told(made)
    gang(made, "first", 2, cpu=8, run_time=5 * MINUTE)
    made.run(MINUTE)
    gang(made, "second", 2, cpu=8, run_time=MINUTE)
    gang(made, "huge", 3, cpu=8)
    for _ in range(20):
        made.run(10_000)
    waiting = [row for row in told.rows if row.name == "second" and row.event == "Waiting"]
    assert [row.reason for row in waiting] == ["Unschedulable"]
    assert "cpu" in waiting[0].message
    rejected = [row for row in told.rows if row.name == "huge" and row.event == "Rejected"]
    assert [row.reason for row in rejected] == ["Unsatisfiable"]


def test_each_plan_is_one_row_with_what_it_decided() -> None:
    made = world()
    told = Told(made)
    for i in range(6):
        gang(made, f"g{i}", 2, cpu=8, run_time=MINUTE)
    made.run(10 * MINUTE)
    plans = [row for row in told.rows if row.object == "Plan"]
    assert len({row.name for row in plans}) == len(plans) >= 6
    assert sum(row.extra["granted"] for row in plans if row.extra) == 6
    assert Counter(row.event for row in told.rows)["Ended"] == 6


def test_a_new_process_does_not_say_again_what_was_said() -> None:
    made = busy()
    told = Told(made)
    before = Counter((row.uid, row.event) for row in told.rows)
    assert not before
    made.crash()
    again = Told(made)
    made.start()
    made.run(MINUTE)
    news = Counter(row.event for row in again.rows if row.object == "Group")
    assert "Arrived" not in news
    assert "Ended" not in news


def test_rows_that_find_no_room_are_counted_and_nobody_waits() -> None:
    made = world()
    told = Told(made, room=3)
    gang(made, "mine", 2, run_time=MINUTE)
    made.run(5 * MINUTE)
    assert len(told.rows) <= 3
    assert told.decisions.dropped >= 4
