"""Recordings are replayed to the bit; a decision that is another is found and shown with its inputs."""

from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from fairlead.cli import replaying
from fairlead.cli.errors import CliError
from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.model import event as ev
from fairlead.model.group import Reason, Why
from fairlead.model.plan import Decision, Placement, Plan, Reject, Reserve, Start, Wait
from fairlead.runtime import forked
from fairlead.runtime.deviations import Kind, deviations
from fairlead.runtime.record import FORMAT, Header, Recorder
from fairlead.runtime.replay import replay_file
from fairlead.runtime.segmenting import Closed, Segments
from fairlead.runtime.segments import Chunk
from fairlead.runtime.version import engine_version
from replay_support import Kept, changed, record, recorded, replayed

# -- a file ----------------------------------------------------------------------------------------------


def written(path: Path, *, other: bool = False, engine: str = "") -> Path:
    batches, settings = recorded()
    if other:
        batches, _ = changed(batches)
    recorder = Recorder(path, settings)
    for batch in batches:
        recorder.batch(batch)
    recorder.close()
    if engine:
        head, _, rest = path.read_bytes().partition(b"\n")
        header = structs.replace(msgspec.json.decode(head, type=Header), engine=engine)
        path.write_bytes(msgspec.json.encode(header) + b"\n" + rest)
    return path


def test_RB4_a_recording_replays_with_the_same_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = written(tmp_path / "run.jsonl")
    found = replay_file(path)
    assert (found.wrong, found.other, found.differences) == (0, 0, [])
    assert found.plans > 8
    replaying.show_file(path, "table")
    assert f"{found.plans} plans made again, 0 differences" in capsys.readouterr().out


def test_RB4_one_decision_that_is_another_is_found_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = written(tmp_path / "run.jsonl", other=True)
    _, plan = changed(recorded()[0])
    with pytest.raises(CliError, match="came out otherwise"):
        replaying.show_file(path, "table")
    said = capsys.readouterr()
    start = next(each for each in plan.decisions if isinstance(each, Start))
    assert f"plan {plan.id}:" in said.err
    assert f"other node: {start.group}" in said.err
    assert "on elsewhere" in said.err
    assert "asks" in said.err and "free cpu=" in said.err
    assert "1  other node" in said.out
    with pytest.raises(CliError):
        replaying.show_file(path, "json")
    answer = msgspec.json.decode(capsys.readouterr().out)
    first = answer["differences"][0]
    assert answer["wrong"] >= 1
    assert first["recorded"]["decisions"] != first["replayed"]["decisions"]
    assert first["deviations"][0]["kind"] == "other node"
    assert first["inputs"]["asks"] and first["inputs"]["capacity"]["cpu"] > 0


def test_RB4_what_another_version_decided_is_listed_and_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = written(tmp_path / "run.jsonl", other=True, engine="0.0.9+0123")
    replaying.show_file(path, "table")
    said = capsys.readouterr().out
    assert "recorded by another engine (0.0.9+0123" in said
    assert "other node" in said
    found = replay_file(path)
    assert found.wrong == 0 < found.other


def test_RB4_a_recording_that_was_cut_off_counts_up_to_there(tmp_path: Path):
    path = written(tmp_path / "run.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    found = replay_file(path)
    assert found.truncated
    assert found.plans > 3 and not found.differences


def test_RB4_a_plan_that_nobody_asked_for_is_a_difference(tmp_path: Path):
    batches, settings = recorded()
    stray = ev.PlanProposed(Plan("9-9", 9, 1, "fairlead", ()))
    outside = ev.PlanProposed(Plan("o", 9, 1, "somebody", ()))
    recorder = Recorder(tmp_path / "r", settings)
    for batch in (*batches, (ev.Tick(batches[-1][0].now), stray, outside)):  # type: ignore[union-attr]
        recorder.batch(batch)
    recorder.close()
    found = replay_file(tmp_path / "r")
    assert (found.wrong, found.outside) == (1, 1)
    assert found.differences[0].plan == "9-9"


def test_RB4_a_recording_names_the_engine(tmp_path: Path):
    head = msgspec.json.decode(written(tmp_path / "r").read_bytes().partition(b"\n")[0], type=Header)
    assert (head.format, head.engine) == (FORMAT, engine_version())


# -- classes ---------------------------------------------------------------------------------------------

A = Start("g", (Placement("p", "a"),))
PROMISE = Reserve("g", 100, ("a",), Reason(Why.RESOURCES, "x"))
WAIT = Wait("g", Reason(Why.RESOURCES, "x"))


@pytest.mark.parametrize(
    ("was", "now", "kind"),
    [
        ([A], [Start("g", (Placement("p", "b"),))], Kind.NODE),
        ([PROMISE], [A], Kind.EARLIER),
        ([WAIT], [A], Kind.EARLIER),
        ([A], [PROMISE], Kind.LATER),
        ([PROMISE], [structs.replace(PROMISE, start=200)], Kind.PROMISE),
        ([PROMISE], [structs.replace(PROMISE, start=0)], Kind.PROMISE),
        ([PROMISE], [structs.replace(PROMISE, nodes=("b",))], Kind.NODE),
        ([PROMISE], [structs.replace(PROMISE, reason=Reason(Why.RESOURCES, "y"))], Kind.REASON),
        ([WAIT], [structs.replace(WAIT, reason=Reason(Why.RESOURCES, "y"))], Kind.REASON),
        ([WAIT], [Reject("g", Reason(Why.UNSATISFIABLE, "x"))], Kind.VERDICT),
        ([WAIT], [PROMISE], Kind.VERDICT),
        ([WAIT], [], Kind.RECORDED),
        ([], [WAIT], Kind.REPLAYED),
        ([A, Wait("h", WAIT.reason)], [Wait("h", WAIT.reason), A], Kind.ORDER),
    ],
)
def test_RB4_differences_are_classed(was: list[Decision], now: list[Decision], kind: Kind):
    one, two = (Plan("1-1", 1, 1, "fairlead", tuple(each)) for each in (was, now))
    (found,) = deviations(one, two)
    assert found.kind is kind
    assert found.group == "g"
    assert found.recorded != found.replayed
    assert deviations(one, one) == []


def test_RB4_what_is_said_beside_decisions_counts_too():
    one = Plan("1-1", 1, 1, "fairlead", (), heads=(("default", "g"),))
    (found,) = deviations(one, structs.replace(one, heads=()))
    assert (found.kind, found.group) == (Kind.OTHER, "")


# -- segments --------------------------------------------------------------------------------------------


async def test_RB4_segments_from_an_empty_engine_and_from_checkpoints_replay():
    batches, settings = recorded()
    engine, sink = Engine(settings, RECONCILERS), Kept()
    segments = Segments(engine, sink, every=100)
    await record(segments, engine, batches)
    segments.close()
    whys = [item.why for item in sink.opened]
    assert whys[0] == "start" and set(whys[1:]) == {"hour"} and len(whys) > 3
    assert sink.opened[0].checkpoint is None
    found = await replayed(sink.items)
    assert (found.wrong, found.batches, found.segments) == (0, len(batches), len(whys))
    assert found.plans == replayable(batches)


def replayable(batches: list[tuple[ev.Event, ...]]) -> int:
    return sum(isinstance(event, ev.PlanProposed) for batch in batches for event in batch)


async def test_RB4_no_room_is_a_gap_and_then_another_segment():
    batches, settings = recorded()
    engine, sink = Engine(settings, RECONCILERS), Kept()
    segments = Segments(engine, sink)
    third = len(batches) // 3
    await record(segments, engine, batches[:third])
    sink.full = True
    await record(segments, engine, batches[third : 2 * third])
    assert segments.gaps == 1
    sink.full = False
    await record(segments, engine, batches[2 * third :])
    segments.close()
    assert [item.why for item in sink.opened] == ["start", "gap"]
    assert sum(isinstance(item, Closed) for item in sink.items) == 2
    found = await replayed(sink.items)
    assert found.wrong == 0
    assert found.plans > 3
    assert found.batches < len(batches)


async def test_RB4_who_begins_to_lead_begins_with_what_it_knows():
    batches, settings = recorded()
    engine, sink = Engine(settings, RECONCILERS), Kept()
    leading = False
    segments = Segments(engine, sink, leads=lambda: leading)
    await record(segments, engine, batches[: len(batches) // 4])
    assert not sink.items
    leading = True
    await record(segments, engine, batches[len(batches) // 4 :])
    segments.close()
    (opened,) = sink.opened
    assert opened.why == "takeover" and opened.checkpoint is not None
    found = await replayed(sink.items)
    assert found.wrong == 0 and found.plans > 3


async def test_RB4_a_plan_in_the_making_belongs_to_the_checkpoint():
    """Whatever batch a segment begins with: no plan is lost, none comes out otherwise."""
    batches, settings = recorded()
    asked = [i for i, batch in enumerate(batches) if any(isinstance(e, ev.PlanProposed) for e in batch)]
    for at in asked[:8]:
        engine, sink = Engine(settings, RECONCILERS), Kept()
        segments = Segments(engine, sink, leads=lambda: len(seen) > at)  # noqa: B023
        seen: list[int] = []
        for i, batch in enumerate(batches):
            seen.append(i)
            await record(segments, engine, [batch])
        segments.close()
        found = await replayed(sink.items)
        assert found.plans == replayable(batches[at:])
        assert found.wrong == 0


async def test_RB4_a_plan_that_ends_in_the_next_segment_has_an_end():
    batches, settings = recorded()
    one, many = Kept(), Kept()
    for sink, every in ((one, 1 << 50), (many, 1)):
        engine = Engine(settings, RECONCILERS)
        segments = Segments(engine, sink, every=every)
        await record(segments, engine, batches)
        segments.close()
    assert len(many.opened) > 8
    assert (await replayed(many.items)).unanswered == (await replayed(one.items)).unanswered


async def test_RB4_a_checkpoint_that_fails_makes_a_gap_and_harms_nobody(monkeypatch: pytest.MonkeyPatch):
    batches, settings = recorded()
    engine, sink = Engine(settings, RECONCILERS), Kept()
    segments = Segments(engine, sink, every=100)
    real = forked.start

    def broken(_: object) -> forked.Forked:
        monkeypatch.setattr(forked, "start", real)
        return real(lambda: bytes(1 // 0))

    monkeypatch.setattr(forked, "start", broken)
    await record(segments, engine, batches)
    segments.close()
    assert segments.gaps == 1
    made = [item.checkpoint for item in sink.opened if item.checkpoint is not None]
    assert [each.exception() is None for each in made] == [False, *[True] * (len(made) - 1)]
    assert len(made) > 1


async def test_RB4_what_a_recording_stumbles_over_stops_only_the_recording(monkeypatch: pytest.MonkeyPatch):
    batches, settings = recorded()
    engine, sink = Engine(settings, RECONCILERS), Kept()
    segments = Segments(engine, sink)
    await record(segments, engine, batches[:5])
    monkeypatch.setattr("fairlead.runtime.segments.Encoder.add", lambda *_: 1 // 0)
    await record(segments, engine, batches[5:9])
    assert segments.gaps == 1


async def test_RB4_a_change_in_a_segment_is_found():
    batches, settings = recorded()
    other, plan = changed(batches)
    engine, sink = Engine(settings, RECONCILERS), Kept()
    segments = Segments(engine, sink)
    await record(segments, engine, other)
    segments.close()
    assert any(isinstance(item, Chunk) for item in sink.items)
    found = await replayed(sink.items)
    assert found.wrong >= 1
    assert found.differences[0].plan == plan.id
