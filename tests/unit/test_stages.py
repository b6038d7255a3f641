"""The stages of a start and their times: in the state, in the story of a group, after a crash, as metrics."""

from asking_support import MINUTE, START, gang, node
from msgspec import structs

from fairlead.cli import words
from fairlead.control import RECONCILERS
from fairlead.core import story
from fairlead.core.engine import Engine
from fairlead.model.group import Phase
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.reports import Reports
from fairlead.sim.world import Faults, World

STAGES = ["seen", "complete", "planned", "recorded", "bound", "started"]


class Slow(Faults):
    """A planner that takes its time."""

    def plan_delay(self) -> int:
        return 7


def world(faults: Faults | None = None) -> World:
    made = World(faults=faults)
    made.now = START
    made.run(1)
    made.node(node("n0"))
    made.run(1)
    return made


def at(world: World, name: str) -> dict[str, int]:
    """Stage -> milliseconds since the first sight of the group."""
    (group, *_) = story.find(world.engine.state, name)
    found = story.explain(world.engine.state, group, world.now).stages
    return {stage.name: stage.at - found[0].at for stage in found}


def test_D7_every_stage_of_a_start_has_its_time():
    w = world(Slow())
    gang(w, "g", 2, have=1)
    w.run(100)
    gang(w, "g", 2)
    w.run(1_000)
    # the plan takes 7 ms, the store 2, binding and the way back 1, the first container 1
    assert at(w, "g") == {
        "seen": 0, "complete": 100, "planned": 100, "recorded": 109, "bound": 110, "started": 111,
    }  # fmt: skip
    group = w.engine.state.by_key["label:team-a/g"]
    told = story.explain(w.engine.state, group, w.now)
    assert [stage.took for stage in told.stages] == [0, 100, 0, 9, 1, 1]
    assert (told.group.planned_at, told.group.granted_at) == (group.planned_at, group.planned_at + 7)
    assert told.group.recorded_at == group.planned_at + 9


def test_D7_a_start_that_is_taken_back_has_its_stages_anew():
    w = world(Slow())
    gang(w, "g", 2)
    while not w.engine.state.intents:
        w.run(1)
    w.pod_gone("g-1")
    w.run(1_000)
    assert list(at(w, "g")) == ["seen"]
    w.pod(structs.replace(w.pods["g-0"], uid="g-2", name="g-2"))
    w.run(1_000)
    assert list(at(w, "g")) == STAGES and at(w, "g")["complete"] > 1_000


def test_D7_a_restart_in_the_middle_keeps_what_was_known():
    w = world()
    gang(w, "g", 2)
    while not any(record.granted_at for record in w.groups.values()):
        w.run(1)
    w.crash()  # the grant is in the store, but nobody has heard so
    (record,) = w.groups.values()
    assert record.planned_at and not record.recorded_at and record.phase is Phase.STARTING
    w.run(5 * MINUTE)
    w.start()
    w.run(MINUTE)
    found = at(w, "g")
    assert list(found) == STAGES
    group = w.engine.state.by_key["label:team-a/g"]
    assert (group.first_seen, group.complete_at) == (record.first_seen, record.complete_at)
    assert (group.planned_at, group.granted_at) == (record.planned_at, record.granted_at)
    assert found["recorded"] >= 5 * MINUTE  # when it was known to be durable
    w.crash()
    w.start()
    w.run(MINUTE)
    assert at(w, "g") == found


def observed(metrics: Metrics) -> dict[str, tuple[int, float]]:
    """Stage -> how many starts, and the sum of their seconds."""
    found: dict[str, tuple[int, float]] = {}
    for stage in STAGES[1:]:
        labels = {"stage": stage}
        name = "fairlead_stage_duration_seconds"
        count = metrics.registry.get_sample_value(f"{name}_count", labels)
        found[stage] = (int(count or 0), metrics.registry.get_sample_value(f"{name}_sum", labels) or 0.0)
    return found


def measured(w: World, metrics: Metrics) -> None:
    """Let the reports see what the world's present process saw."""
    engine = Engine(w.settings, RECONCILERS)
    reports = Reports(engine, metrics)
    for batch in w.batches:
        reports.batch(batch, engine.learn(batch), 0.0)


def test_D7_stages_are_measured_once_per_start():
    w = world(Slow())
    gang(w, "g", 2, run_time=MINUTE)
    w.run(30_000)
    gang(w, "h", 1)
    w.change("g-0", priority=7)
    w.run(2 * MINUTE)
    metrics = Metrics()
    measured(w, metrics)
    found = observed(metrics)
    assert {stage: n for stage, (n, _) in found.items()} == dict.fromkeys(STAGES[1:], 2)
    assert {stage: round(seconds * 1000) for stage, (_, seconds) in found.items()} == {
        "complete": 0, "planned": 0, "recorded": 18, "bound": 2, "started": 2,
    }  # fmt: skip
    w.crash()
    w.start()
    w.change("h-0", priority=8)
    w.run(MINUTE)
    later = Metrics()
    measured(w, later)
    assert observed(later)["bound"] == (0, 0.0)  # the earlier process has measured them


def test_D7_steps_are_told_in_short():
    assert [words.step(n) for n in (0, 12, 999, 1_234, 59_999, 192_000)] == [
        "0 ms", "12 ms", "999 ms", "1.2 s", "59.9 s", "3m12s",
    ]  # fmt: skip
    day = 86_400_000
    assert words.moment(START + 204, START + 1_000).endswith(".204")
    assert len(words.moment(START, START + 2 * day)) > len(words.moment(START, START))
