"""Who gains and who loses by another policy: the arithmetic, and how it is shown."""

import json

import msgspec
import pytest

from fairlead.cli import replay_policy
from fairlead.model.node import Node
from fairlead.model.pod import Shape
from fairlead.model.settings import Settings, single
from fairlead.sim import gains, trace
from fairlead.sim.play import play
from fairlead.sim.trace import Head, Job, Trace

MINUTE = 60_000
EPOCH = 1_790_000_000_000


def job(at: int, user: str, name: str, many: int, run: int, queue: str = "default", **fields: int) -> Job:
    return Job(EPOCH + at, user, name, ((many, 0),), run, run, queue, **fields)


def example() -> Trace:
    """Four processors. The wide one waits for the long one; under easy the short one passes it, and so waits
    no more."""
    jobs = (
        job(0, "ann", "long", 3, 60 * MINUTE, start=EPOCH, end=EPOCH + 60 * MINUTE),
        job(MINUTE, "bob", "wide", 4, 10 * MINUTE, start=EPOCH + 60 * MINUTE, end=EPOCH + 70 * MINUTE),
        job(2 * MINUTE, "ann", "short", 1, 10 * MINUTE, start=EPOCH + 70 * MINUTE, end=EPOCH + 80 * MINUTE),
    )
    shape = Shape((("cpu", 1000), ("pods", 1)))
    nodes = tuple(Node(f"u{i}", f"n{i}", 1, (("cpu", 1000), ("pods", 1))) for i in range(4))
    settings = Settings(queues=single("fcfs"), pace=0, advise=False)
    return Trace(Head(trace.FORMAT, "example", EPOCH, EPOCH + 1, settings), (shape,), nodes, jobs)


def test_gains_are_counted_by_user_and_queue() -> None:
    made = example()
    work = trace.workload(made)
    before = play(work, Settings(queues=single("fcfs"), pace=0, advise=False))
    now = play(work, Settings(queues=single("easy"), pace=0, advise=False))
    everyone, queue, ann, bob = gains.gains(made, before, now)
    assert (everyone.kind, everyone.jobs, everyone.sooner, everyone.later) == ("all", 3, 1, 0)
    assert (queue.kind, queue.name, queue.jobs) == ("queue", "default", 3)
    assert (ann.kind, ann.name, ann.jobs) == ("user", "ann", 2)
    assert (ann.wait_before, ann.wait_now) == (68 * 60 / 2, 0)
    assert (bob.wait_before, bob.wait_now, bob.sooner, bob.later) == (59 * 60, 59 * 60, 0, 0)


def test_what_was_recorded_agrees_with_what_is_played_under_the_same_policy() -> None:
    made = example()
    played = play(trace.workload(made), Settings(queues=single("fcfs"), pace=0, advise=False))
    told = gains.as_recorded(made)
    assert [(row.submit, row.start, row.end) for row in told.rows] == [
        (row.submit, row.start, row.end) for row in played.rows
    ]
    assert not any(each.sooner or each.later for each in gains.gains(made, told, played))


def test_a_job_that_starts_only_in_one_of_the_two_is_told() -> None:
    made = example()
    told = gains.as_recorded(made)
    never = told._replace(rows=tuple(row for row in told.rows[:2]))
    assert [each.jobs for each in gains.gains(made, told, never)] == [2, 2, 1, 1]  # it was stopped early
    rows = (*told.rows[:2], msgspec.structs.replace(told.rows[2], start=-1, end=-1))
    everyone, *_ = gains.gains(made, told, told._replace(rows=rows))
    assert (everyone.lost, everyone.won) == (1, 0)


def test_it_is_shown_as_a_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    made = example()
    work = trace.workload(made)
    runs = [
        gains.as_recorded(made),
        play(work, Settings(queues=single("fcfs"), pace=0, advise=False)),
        play(work, Settings(queues=single("easy"), pace=0, advise=False)),
    ]
    found = gains.gains(made, runs[1], runs[2])
    replay_policy.show("table", runs, found)
    out = capsys.readouterr().out
    assert "user ann" in out and "queue default" in out
    assert "easy against fcfs" in out
    assert max(map(len, out.splitlines())) <= 100
    replay_policy.show("json", runs, found)
    answer = json.loads(capsys.readouterr().out)
    assert [run["policy"] for run in answer["runs"]] == ["recorded", "fcfs", "easy"]
    assert answer["gains"][0]["sooner"] == 1
