"""What a simulation is measured by: waits, bounded slowdown, utilisation, makespan, forecasts.

Called by the command line (tables, JSON, verdict) and by `sim.figure`. The definitions are those of the
field (Feitelson), written at each measure. Pure: the same result gives the same numbers; how long the
program took is not among them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from fairlead.sim.workload import JobRow, Result

SECOND = 1000
BOUND = 10 * SECOND
"""Shorter runs count as this long in the bounded slowdown, so that tiny jobs do not make up all of it."""


class Spread(Struct, frozen=True):
    """How a measure is spread over jobs; p95 is a value that occurs: 95 % of the jobs have at most that."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Forecast(Struct, frozen=True):
    """Start minus first promised start, in seconds: over `jobs` that were promised one and have started.

    A mean above 0 means later than promised; `p95_absolute` leaves the sign out.
    """

    jobs: int = 0
    mean: float = 0.0
    p95_absolute: float = 0.0


class Width(Struct, frozen=True):
    """The ended jobs that are `low` to `high` processors wide."""

    low: int
    high: int
    jobs: int
    wait: Spread
    slowdown: Spread


class Summary(Struct, frozen=True):
    """One simulation in numbers; times in seconds.

    `wait` is start − submit over all that have started; `slowdown` is max(1, (wait + run) / max(run, 10 s))
    over all that have ended; `makespan` is last end − first submit; `utilisation` is the processor time used
    over capacity × makespan. Where jobs still run, the last instant known takes the place of their end.
    `backfilled` is the share of the started that overtook somebody who still waited. `jobs` were submitted,
    of the `of` that the input has: fewer only where the playing was stopped before all had come.
    """

    workload: str
    policy: str
    capacity: int
    complete: bool
    jobs: int
    of: int
    outcomes: dict[str, int]
    started: int
    wait: Spread
    slowdown: Spread
    utilisation: float
    makespan: float
    backfilled: float
    forecast: Forecast
    cycles: int
    widths: tuple[Width, ...]


def summarise(result: Result, of: int = 0) -> Summary:
    """All measures of one simulation; the input has `of` jobs, or those of the result."""
    started = [row for row in result.rows if row.start >= 0]
    last = until(result)
    first = min((row.submit for row in result.rows), default=last)
    area = sum(row.procs * ((row.end if row.end >= 0 else last) - row.start) for row in started)
    makespan = last - first
    return Summary(
        workload=result.workload,
        policy=result.policy,
        capacity=result.capacity,
        complete=result.complete,
        jobs=len(result.rows),
        of=max(of, len(result.rows)),
        outcomes=dict(sorted(Counter(row.outcome for row in result.rows).items())),
        started=len(started),
        wait=spread([(row.start - row.submit) / SECOND for row in started]),
        slowdown=spread([slowdown(row) for row in started if row.end >= 0]),
        utilisation=area / (result.capacity * makespan) if result.capacity and makespan else 0.0,
        makespan=makespan / SECOND,
        backfilled=sum(row.backfilled for row in started) / len(started) if started else 0.0,
        forecast=_forecast(started),
        cycles=result.cycles,
        widths=tuple(_widths(row for row in started if row.end >= 0)),
    )


def until(result: Result) -> int:
    """The last end; where a started job has none, the last instant that is known. Milliseconds."""
    known = [row.end for row in result.rows if row.end >= 0]
    if not known or any(row.start >= 0 and row.end < 0 for row in result.rows):
        known += [row.start for row in result.rows] + [sample.at for sample in result.samples[-1:]]
    return max(known, default=0)


def slowdown(row: JobRow) -> float:
    """The bounded slowdown of a job that has ended."""
    return max(1.0, (row.end - row.submit) / max(row.end - row.start, BOUND))


def spread(values: Sequence[float]) -> Spread:
    """All zero for no values."""
    if not values:
        return Spread()
    ordered = sorted(values)
    half, odd = divmod(len(ordered), 2)
    median = ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2
    return Spread(sum(ordered) / len(ordered), median, quantile(ordered, 95), ordered[-1])


def quantile(ordered: Sequence[float], percent: int) -> float:
    """The nearest rank: the smallest value that so many percent do not exceed."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def _forecast(started: Iterable[JobRow]) -> Forecast:
    errors = [(row.start - row.promised) / SECOND for row in started if row.promised >= 0]
    if not errors:
        return Forecast()
    return Forecast(len(errors), sum(errors) / len(errors), quantile(sorted(map(abs, errors)), 95))


def by_width(rows: Iterable[JobRow]) -> dict[tuple[int, int], list[JobRow]]:
    """Rows by power of two: 1, 2, 3–4, 5–8 … processors, narrow ones first."""
    found: dict[int, list[JobRow]] = {}
    for row in rows:
        found.setdefault(max(row.procs - 1, 0).bit_length(), []).append(row)
    return {((1 << n >> 1) + 1 if n else 1, 1 << n): found[n] for n in sorted(found)}


def _widths(rows: Iterable[JobRow]) -> Iterable[Width]:
    for (low, high), found in by_width(rows).items():
        waits = spread([(row.start - row.submit) / SECOND for row in found])
        yield Width(low, high, len(found), waits, spread([slowdown(row) for row in found]))
