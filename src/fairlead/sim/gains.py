"""Who gains and who loses by another policy: waits and slowdowns of the same jobs, by queue and by user.

Called by `fairlead replay --policy`. Users are namespaces. Pure.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from fairlead.sim.report import SECOND, slowdown
from fairlead.sim.trace import Job, Trace
from fairlead.sim.workload import JobRow, Result

SAME = SECOND
"""Milliseconds: a wait that changes by no more has stayed the same."""


class Gain(Struct, frozen=True):
    """One queue or user. Means in seconds over the jobs that started both times; slowdown is bounded (10 s).

    `sooner` and `later` are how many of these jobs wait less or more by over a second; `lost` started only
    before, `won` only now.
    """

    kind: str
    """queue, user or all"""
    name: str
    jobs: int
    wait_before: float
    wait_now: float
    slowdown_before: float
    slowdown_now: float
    sooner: int
    later: int
    lost: int = 0
    won: int = 0


def gains(trace: Trace, before: Result, now: Result) -> list[Gain]:
    """All jobs in one line, then each queue, then each user, in the order of their names."""
    pairs = list(zip(trace.jobs, before.rows, now.rows, strict=False))  # fewer rows where it was stopped
    found = [_gain("all", "", pairs)]
    for kind, name in (("queue", _queue), ("user", _user)):
        parts: dict[str, list[tuple[Job, JobRow, JobRow]]] = {}
        for pair in pairs:
            parts.setdefault(name(pair[0]), []).append(pair)
        found += [_gain(kind, each, parts[each]) for each in sorted(parts)]
    return found


def as_recorded(trace: Trace) -> Result:
    """What really happened, in the form of a simulation's result."""
    begin = trace.head.begin
    rows = tuple(
        JobRow(
            job_id=job.name,
            submit=job.at - begin,
            start=job.start - begin if job.start else -1,
            end=job.end - begin if job.end else -1,
            run=job.run,
            procs=trace.procs(job),
            estimate=job.estimate,
            promised=-1,
            backfilled=False,
            outcome="completed" if job.end else "running" if job.start else "waiting",
            reason="",
            nodes=job.nodes,
        )
        for job in trace.jobs
    )
    return Result(trace.head.name, "recorded", trace.capacity, rows, (), 0, True)


def _queue(job: Job) -> str:
    return job.queue


def _user(job: Job) -> str:
    return job.namespace


def _gain(kind: str, name: str, pairs: Sequence[tuple[Job, JobRow, JobRow]]) -> Gain:
    both = [(a, b) for _, a, b in pairs if a.start >= 0 and b.start >= 0]
    moved = [_wait(b) - _wait(a) for a, b in both]
    ended = [(a, b) for a, b in both if a.end >= 0 and b.end >= 0]
    return Gain(
        kind,
        name,
        len(pairs),
        _mean(both, 0, lambda row: _wait(row) / SECOND),
        _mean(both, 1, lambda row: _wait(row) / SECOND),
        _mean(ended, 0, slowdown),
        _mean(ended, 1, slowdown),
        sum(each < -SAME for each in moved),
        sum(each > SAME for each in moved),
        sum(a.start >= 0 > b.start for _, a, b in pairs),
        sum(b.start >= 0 > a.start for _, a, b in pairs),
    )


def _wait(row: JobRow) -> int:
    return max(row.start - row.submit, 0)


def _mean(pairs: Iterable[tuple[JobRow, JobRow]], side: int, of: Callable[[JobRow], float]) -> float:
    values = [of(pair[side]) for pair in pairs]
    return sum(values) / len(values) if values else 0.0
