"""Workloads of processors for the simulator, and what became of each job, for tests.

Used by unit/test_swf_logs.py and property/test_simulate.py. The machine is either one node of P processors
("procs") or P nodes of one ("nodes").
"""

import csv
import io
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.textbook import Job

from fairlead.model.settings import Settings, single
from fairlead.sim.inputs import load
from fairlead.sim.play import play
from fairlead.sim.workload import Workload

SECOND = 1_000
FORMS = ("procs", "nodes")
Rows = list[tuple[str, int, int]]
"""(job, start, end) in seconds, in order of the workload."""


def settings(policy: str) -> Settings:
    """`hybrid:N` is N reservations; promises are kept for all who wait."""
    name, _, depth = policy.partition(":")
    queues = single(name, int(depth), promises=0) if depth else single(name, promises=0)
    return Settings(queues=queues, pace=0, advise=False)


def machine(path: Path, form: str, procs: int, limit: int = 0) -> Workload:
    """The file as a workload on that machine."""
    return load(path, procs=procs, limit=limit) if form == "procs" else load(path, nodes=procs, limit=limit)


def write(path: Path, jobs: Iterable[Job]) -> Path:
    """The jobs as a cleaned workload."""
    lines = ["job_id,submit,run,procs,estimate", *(",".join(map(str, job)) for job in jobs)]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table that is compressed with xz."""
    with lzma.open(path) as file:
        return list(csv.DictReader(io.TextIOWrapper(file, "utf-8")))


def played(workload: Workload, policy: str, restart_at: tuple[int, ...] = ()) -> Rows:
    """Run it through the engine; times must be whole seconds. `restart_at` in milliseconds."""
    result = play(workload, settings(policy), restart_at=restart_at)
    assert result.complete
    assert all(time % SECOND == 0 for row in result.rows for time in (row.start, row.end))
    return [(row.job_id, row.start // SECOND, row.end // SECOND) for row in result.rows]


def difference(found: Rows, expected: Rows) -> str:
    """The first job that is not as expected, "" if all are."""
    if len(found) != len(expected):
        return f"{len(found)} jobs instead of {len(expected)}"
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            wrong = sum(a != b for a, b in zip(found, expected, strict=True))
            return f"job {i + 1} of {len(found)} is (job, start, end) {one}, expected {other}; {wrong} differ"
    return ""


def ended(jobs: Sequence[Job], starts: Sequence[int]) -> Rows:
    """What became of the jobs that start then."""
    return [(job.id, start, start + job.run) for job, start in zip(jobs, starts, strict=True)]
