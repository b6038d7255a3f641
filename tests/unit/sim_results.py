"""Made-up results of simulations, for the tests of what is shown of them."""

from fairlead.sim.workload import JobRow, Result, Sample

SECOND = 1000


def job(
    name: str, submit: int, start: int, end: int, procs: int = 1, *, promised: int = -1, **more: object
) -> JobRow:
    """A row; times in seconds, -1 for never."""
    fields: dict[str, object] = {
        "run": (end - start) * SECOND if end >= 0 else 60 * SECOND,
        "estimate": 3_600 * SECOND,
        "backfilled": False,
        "outcome": "completed" if end >= 0 else "running" if start >= 0 else "waiting",
        "reason": "",
        "nodes": ("n0",) if start >= 0 else (),
    }
    fields |= more
    times = {
        key: at * SECOND if at >= 0 else -1
        for key, at in {"submit": submit, "start": start, "end": end, "promised": promised}.items()
    }
    return JobRow(job_id=name, procs=procs, **times, **fields)  # type: ignore[arg-type]


def result(
    *rows: JobRow, policy: str = "easy", capacity: int = 4, complete: bool = True, cycles: int = 7
) -> Result:
    """A result with the samples that the rows give."""
    times = sorted({at for row in rows for at in (row.submit, row.start, row.end) if at >= 0})
    samples = [
        Sample(
            at,
            sum(r.procs for r in rows if 0 <= r.start <= at and (r.end < 0 or at < r.end)),
            sum(r.submit <= at and (r.start < 0 or at < r.start) for r in rows),
        )
        for at in times
    ]
    return Result("small.csv", policy, capacity, rows, tuple(samples), cycles, complete)


def small(policy: str = "easy") -> Result:
    """Four processors; b waits for a, c overtakes b, d is too wide for the machine."""
    return result(
        job("a", 0, 0, 100, 3),
        job("b", 10, 100, 130, 4, promised=110),
        job("c", 20, 20, 25, 1, backfilled=True),
        job("d", 30, -1, -1, 9, outcome="rejected", reason="needs 9, the machine has 4"),
        policy=policy,
    )
