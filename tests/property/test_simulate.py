"""The simulator against a textbook simulator that knows processor counts only: every start is equal."""

import tempfile
from pathlib import Path

import pytest
from bench.textbook import Job, simulate
from hypothesis import given, note
from hypothesis import strategies as st

from swf import FORMS, SECOND, difference, ended, machine, played, write

POLICIES = ("fcfs", "easy", "hybrid:1", "hybrid:2", "hybrid:0", "conservative", "replan")
SPANS = (1, 1, 2, 2, 3, 5, 8, 10)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[int, list[Job]]:
    """(processors, jobs): many at one instant, many of one length, some far under their estimate."""
    procs = draw(st.integers(1, 8))
    jobs: list[Job] = []
    submit = 0
    for i in range(draw(st.integers(1, 16))):
        submit += draw(st.sampled_from((0, 0, 0, 1, 1, 2, 5)))
        estimate = draw(st.sampled_from(SPANS))
        run = min(estimate, draw(st.sampled_from(SPANS)))
        jobs.append(Job(f"{i + 1}", submit, run, draw(st.integers(1, procs)), estimate))
    return procs, jobs


def compare(policy: str, form: str, procs: int, jobs: list[Job], restart_at: tuple[int, ...] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder:
        workload = machine(write(Path(folder) / "drawn.workload.csv", jobs), form, procs)
    wrong = difference(played(workload, policy, restart_at), ended(jobs, simulate(policy, procs, jobs)))
    note(wrong)
    assert not wrong, wrong


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("policy", POLICIES)
@given(drawn=workloads())
def test_every_start_equals_the_textbook(policy: str, form: str, drawn: tuple[int, list[Job]]):
    compare(policy, form, *drawn)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@given(drawn=workloads(), restarts=st.lists(st.integers(0, 30 * SECOND), max_size=3, unique=True))
def test_a_restart_changes_no_start(policy: str, drawn: tuple[int, list[Job]], restarts: list[int]):
    compare(policy, "procs", *drawn, restart_at=tuple(sorted(restarts)))


# Worked out by hand: processors, (submit, run, processors, estimate) of each job, starts by policy.
SMALL = {
    "a hole is used only by who leaves it in time": (
        2,
        [(0, 4, 1, 4), (0, 2, 2, 2), (0, 4, 1, 4), (0, 5, 1, 5)],
        {"fcfs": [0, 4, 6, 6], "easy": [0, 4, 0, 6], "conservative": [0, 4, 0, 6], "replan": [0, 4, 0, 6]},
    ),
    "only the first promise binds easy": (
        3,
        [(1, 2, 2, 2), (1, 1, 2, 1), (1, 1, 3, 1), (1, 1, 1, 4)],
        {"fcfs": [1, 3, 4, 5], "easy": [1, 3, 4, 1], "conservative": [1, 3, 4, 5], "replan": [1, 3, 4, 5]},
    ),
    "a promise further back stays in place while one in front looks for an earlier hole": (
        2,
        [(0, 1, 1, 1), (0, 1, 1, 2), (0, 2, 2, 2), (0, 1, 1, 1)],
        {"fcfs": [0, 0, 1, 3], "easy": [0, 0, 1, 3], "conservative": [0, 0, 2, 1], "replan": [0, 0, 1, 3]},
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SMALL)
def test_small_workloads_worked_out_by_hand(name: str, form: str, tmp_path: Path):
    procs, rows, starts = SMALL[name]
    jobs = [Job(f"{i + 1}", *row) for i, row in enumerate(rows)]
    workload = machine(write(tmp_path / "small.workload.csv", jobs), form, procs)
    for policy, expected in starts.items():
        assert simulate(policy, procs, jobs) == expected, policy
        wrong = difference(played(workload, policy), ended(jobs, expected))
        assert not wrong, f"{policy}: {wrong}"
