"""A simulation in words: the measures with their units, and what a comparison of policies comes to.

Called by `cli.simulate_show` for tables and by `cli.simulate_run` for reports. Pure. The verdict names who
is ahead in what and who pays, and never a winner where the measures disagree.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from fairlead.cli import words
from fairlead.sim.figure_width import name as width_name
from fairlead.sim.report import Summary, Width
from fairlead.sim.workload import Result

LEVEL = 0.01
"""Differences below this share are called none."""
_WORSE = 1.05
_FEW = 5


class Measure(Struct, frozen=True):
    """One line of the comparison; `better` is −1 where less is, 1 where more is, 0 where neither."""

    name: str
    value: Callable[[Summary], float | None]
    show: Callable[[float], str]
    better: int


def time(seconds: float) -> str:
    """12s, 3m12s, 2h05m, 3d04h; with its sign."""
    text = words.span(round(abs(seconds) * 1000))
    return f"-{text}" if seconds < 0 and text != "0s" else text


def factor(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def share(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def count(value: float) -> str:
    return f"{value:,.0f}"


def sized(summary: Summary) -> str:
    """1,000 jobs on 128 processors; 500 of 1,000 where the others had not come before the playing stopped."""
    jobs, procs = summary.of, summary.capacity
    some = f"{summary.jobs:,} of " if summary.jobs < jobs else ""
    return f"{some}{jobs:,} job{'' if jobs == 1 else 's'} on {procs:,} processor{'' if procs == 1 else 's'}"


def ended(summary: Summary) -> int:
    """How many jobs came to an end after a start: those that have a slowdown."""
    return sum(width.jobs for width in summary.widths)


def _started(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    return lambda s: value(s) if s.started else None


def _ended(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    return lambda s: value(s) if ended(s) else None


def _lasting(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    return lambda s: value(s) if s.makespan else None


def _promised(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    return lambda s: value(s) if s.forecast.jobs else None


MEASURES: tuple[Measure, ...] = (
    Measure("mean wait", _started(lambda s: s.wait.mean), time, -1),
    Measure("median wait", _started(lambda s: s.wait.median), time, -1),
    Measure("p95 wait", _started(lambda s: s.wait.p95), time, -1),
    Measure("longest wait", _started(lambda s: s.wait.max), time, -1),
    Measure("mean slowdown", _ended(lambda s: s.slowdown.mean), factor, -1),
    Measure("median slowdown", _ended(lambda s: s.slowdown.median), factor, -1),
    Measure("p95 slowdown", _ended(lambda s: s.slowdown.p95), factor, -1),
    Measure("highest slowdown", _ended(lambda s: s.slowdown.max), factor, -1),
    Measure("utilisation", _lasting(lambda s: s.utilisation), share, 1),
    Measure("makespan", _lasting(lambda s: s.makespan), time, -1),
    Measure("backfilled", _started(lambda s: s.backfilled), share, 0),
    Measure("forecast off by, mean", _promised(lambda s: s.forecast.mean), time, 0),
    Measure("forecast off by, p95", _promised(lambda s: s.forecast.p95_absolute), time, -1),
    Measure("cycles", lambda s: s.cycles, count, 0),
)


def rows(summaries: Sequence[Summary]) -> list[list[str]]:
    """The comparison as texts: head, measures, slowdown by width; `*` marks the best of a line."""
    table = [["measure", *(s.policy for s in summaries)]]
    table += [
        [measure.name, *_cells([measure.value(s) for s in summaries], measure.show, measure.better)]
        for measure in MEASURES
    ]
    keys = sorted({(w.low, w.high) for s in summaries for w in s.widths})
    for low, high in keys:
        found = [_width(s, low, high) for s in summaries]
        means = [w.slowdown.mean if w else None for w in found]
        table.append([f"slowdown, {width_name(low, high)} wide", *_cells(means, factor, -1)])
    return table


def _cells(values: Sequence[float | None], show: Callable[[float], str], better: int) -> list[str]:
    best = _best(values, better)
    return [
        "-" if value is None else show(value) + ("*" if i in best else "") for i, value in enumerate(values)
    ]


def _best(values: Sequence[float | None], better: int) -> list[int]:
    """Which are best or level with the best; none of them where all are, or where nothing is to be won."""
    known = {i: value for i, value in enumerate(values) if value is not None}
    if not better or len(known) < 2:
        return []
    top = max(known.values()) if better > 0 else min(known.values())
    found = [i for i, value in known.items() if abs(value - top) <= LEVEL * max(abs(top), abs(value))]
    return found if len(found) < len(known) else []


def _width(summary: Summary, low: int, high: int) -> Width | None:
    return next((w for w in summary.widths if (w.low, w.high) == (low, high)), None)


# -- the verdict -------------------------------------------------------------------------------------


def verdict(summaries: Sequence[Summary], results: Sequence[Result]) -> list[str]:
    """What the comparison comes to, a sentence or two per entry."""
    said = [f"{s.policy} was stopped early and is not judged." for s in summaries if not s.complete]
    kept = [i for i, s in enumerate(summaries) if s.complete]
    judged = [summaries[i] for i in kept]
    if len(judged) < 2:
        return [*said, "Nothing to compare: fewer than two simulations came to their end."]
    if len({s.started for s in judged}) > 1:
        counts = ", ".join(f"{s.policy} {s.started:,}" for s in judged)
        said.append(
            f"They do not start the same number of jobs ({counts}), so their means are of different jobs."
        )
    ahead, level = _ahead(judged)
    for measure, best in ahead:
        said.append(_sentence(measure, best, judged))
    if level:
        said.append(f"No difference of {LEVEL:.0%} or more in {_list(level)}.".replace("1%", "1 %"))
    said.append(_overall(ahead, judged))
    lead = min(range(len(judged)), key=lambda i: (judged[i].slowdown.mean, i))
    said += _who_pays(judged, lead)
    said += _job_for_job([results[i] for i in kept], lead)
    s = judged[0]
    where = f"{s.workload}: {sized(s)}"
    said.append(f"All of this holds for this log and this machine only ({where}); another may turn it round.")
    return said


def _ahead(judged: Sequence[Summary]) -> tuple[list[tuple[Measure, list[int]]], list[str]]:
    """(measures with those ahead in them, names of the measures in which all are level)."""
    ahead: list[tuple[Measure, list[int]]] = []
    level: list[str] = []
    for measure in MEASURES:
        values = [measure.value(s) for s in judged]
        best = _best(values, measure.better)
        if best:
            ahead.append((measure, best))
        elif measure.better and None not in values:
            level.append(measure.name)
    return ahead, level


def _sentence(measure: Measure, best: Sequence[int], judged: Sequence[Summary]) -> str:
    """Mean wait: easy is ahead with 2h12m; conservative has 6 % more, fcfs 49 times as much."""
    values = {i: value for i, s in enumerate(judged) if (value := measure.value(s)) is not None}
    top = values[best[0]]
    others = sorted((i for i in values if i not in best), key=lambda i: abs(values[i] - top))
    told = ", ".join(f"{judged[i].policy} {_against(values[i], top, measure)}" for i in others)
    names = _list([judged[i].policy for i in best])
    verb = "is ahead" if len(best) == 1 else "are ahead, level,"
    return f"{measure.name.capitalize()}: {names} {verb} with {measure.show(top)}; {told}."


def _against(value: float, top: float, measure: Measure) -> str:
    if top == 0:
        return f"has {measure.show(value)}"
    ratio = value / top
    if ratio >= 2:
        return f"has {ratio:,.0f} times as much" if ratio >= 10 else f"has {ratio:.1f} times as much"
    return f"has {abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'}".replace("%", " %")


def _overall(ahead: Sequence[tuple[Measure, list[int]]], judged: Sequence[Summary]) -> str:
    if not ahead:
        return "They come out level on every measure."
    everywhere = [s.policy for i, s in enumerate(judged) if all(i in best for _, best in ahead)]
    if everywhere:
        return f"{_list(everywhere)}: ahead or level on every measure here."
    parts = [
        f"{s.policy} in {_list(names)}"
        for i, s in enumerate(judged)
        if (names := [measure.name for measure, best in ahead if i in best])
    ]
    return f"No single winner. Ahead or level with the best: {'; '.join(parts)}."


def _who_pays(judged: Sequence[Summary], lead: int) -> list[str]:
    """Widths that fare worse under the policy with the least mean slowdown than under each other one."""
    ours, said = judged[lead], list[str]()
    for other in [*judged[:lead], *judged[lead + 1 :]]:
        both = [
            (mine, theirs)
            for mine in ours.widths
            if (theirs := _width(other, mine.low, mine.high)) is not None
            and min(mine.jobs, theirs.jobs) >= _FEW
        ]
        worse = [
            (mine.slowdown.mean / theirs.slowdown.mean, mine, theirs)
            for mine, theirs in both
            if mine.slowdown.mean > _WORSE * theirs.slowdown.mean
        ]
        worse.sort(key=lambda entry: (-entry[0], entry[1].low))
        told = "; ".join(
            f"jobs of {width_name(mine.low, mine.high)} processor{'' if mine.high == 1 else 's'} "
            f"({mine.jobs:,}): {factor(mine.slowdown.mean)} instead of {factor(theirs.slowdown.mean)}"
            for _, mine, theirs in worse[:3]
        )
        if told:
            said.append(f"Who pays for {ours.policy}'s mean slowdown, against {other.policy}: {told}.")
        elif both:
            said.append(
                f"No width of at least {_FEW} jobs is slowed down over 5 % more under {ours.policy} "
                f"than under {other.policy}."
            )
    if not any(width.jobs >= _FEW for width in ours.widths):
        said.append(f"Who pays cannot be said: no width has {_FEW} jobs.")
    return said


def _job_for_job(results: Sequence[Result], lead: int) -> list[str]:
    """How many single jobs start later under the leading policy, and by how much at most."""
    said: list[str] = []
    ours = {row.job_id: row.start for row in results[lead].rows if row.start >= 0}
    for i, other in enumerate(results):
        if i == lead:
            continue
        gaps = [ours[r.job_id] - r.start for r in other.rows if r.start >= 0 and r.job_id in ours]
        later = [gap for gap in gaps if gap > 0]
        if not gaps:
            continue
        earlier = sum(gap < 0 for gap in gaps)
        if not any(gaps):
            said.append(f"{results[lead].policy} and {other.policy} start every job at the same time.")
            continue
        most = f", the worst of them by {words.span(max(later))}" if later else ""
        said.append(
            f"Job for job, {results[lead].policy} starts {share(earlier / len(gaps))} of them earlier than "
            f"{other.policy} and {share(len(later) / len(gaps))} later{most}."
        )
    return said


def _list(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
