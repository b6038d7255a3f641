"""Simulations as tables, readable at 100 columns, or as JSON.

Called by `cli.simulate_run`. stdout gets what follows from the input alone, so that the same input gives
the same bytes; faults of the input and the speed go to stderr.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import simulate_words, tables, words
from fairlead.cli.simulate_words import count, factor, share, time
from fairlead.sim.figure_width import name as width_name
from fairlead.sim.report import Spread, Summary
from fairlead.sim.workload import Fault, JobRow, Result

_SHOWN = 10
_KINDS = {
    "unreadable": "cannot be read: left out",
    "bad": "bad: left out",
    "toobig": "wider than the machine: left out",
    "killed": "past the estimate: cut there",
    "changed": "changed",
}


def title(summary: Summary) -> str:
    """KTH.swf under easy: 10,000 jobs on 100 processors; what became of them if not all completed."""
    text = f"{summary.workload} under {summary.policy}: {simulate_words.sized(summary)}"
    return text if set(summary.outcomes) <= {"completed"} else f"{text} ({outcomes(summary)})"


def outcomes(summary: Summary) -> str:
    return ", ".join(f"{n:,} {outcome}" for outcome, n in summary.outcomes.items())


def stopped(summary: Summary) -> str:
    """The note on a simulation that did not come to its end."""
    left = summary.of - summary.jobs
    missing = f", {left:,} not submitted yet" if left else ""
    return (
        f"{summary.policy} was stopped early, after {time(summary.makespan)}: "
        f"{outcomes(summary) or 'no jobs'}{missing}. "
        "The numbers are of the jobs that started before, so they flatter."
    )


def one(summary: Summary, rows: Sequence[JobRow]) -> RenderableType:
    """All about one simulation; of its jobs those are named that nothing but another machine would start."""
    parts: list[RenderableType] = [Text(title(summary), "bold")]
    if not summary.complete:
        parts.append(Text(stopped(summary), "yellow"))
    parts += [Text(""), _spreads(summary), Text(""), _facts(summary)]
    if summary.widths:
        parts += [Text(""), _widths(summary)]
    refused = [row for row in rows if row.outcome == "rejected"]
    if refused:
        parts += [Text(""), *(Text(f"rejected: {_refused(row)}") for row in refused[:_SHOWN])]
    if len(refused) > _SHOWN:
        parts.append(Text(f"and {len(refused) - _SHOWN:,} more (--out has all)"))
    return Group(*parts)


def _refused(row: JobRow) -> str:
    return f"{words.clean(row.job_id)}: {words.clean(row.reason)}"


def _grid(*titles: str, head: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=head)
    for i, text in enumerate(titles):
        table.add_column(text, justify="right" if i else "left", no_wrap=True)
    return table


def _spreads(summary: Summary) -> Table:
    table = _grid("", "MEAN", "MEDIAN", "P95", "MAX")

    def line(name: str, spread: Spread, show: Callable[[float], str], jobs: int) -> None:
        values = (spread.mean, spread.median, spread.p95, spread.max)
        table.add_row(name, *(show(v) if jobs else "-" for v in values))

    line("wait", summary.wait, time, summary.started)
    line("bounded slowdown", summary.slowdown, factor, simulate_words.ended(summary))
    return table


def _facts(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    lasts = bool(summary.makespan)
    table.add_row("utilisation", share(summary.utilisation) if lasts else "-")
    table.add_row("makespan", f"{time(summary.makespan)} ({count(summary.makespan)} s)" if lasts else "-")
    table.add_row("backfilled", f"{share(summary.backfilled)} of the started" if summary.started else "-")
    forecast = summary.forecast
    if forecast.jobs:
        late = "later" if forecast.mean >= 0 else "earlier"
        table.add_row(
            "forecast",
            f"{forecast.jobs:,} promised a start: {time(abs(forecast.mean))} {late} on "
            f"average, 95 % within {time(forecast.p95_absolute)}",
        )  # fmt: skip
    table.add_row("cycles", count(summary.cycles))
    return table


def _widths(summary: Summary) -> Table:
    table = _grid("PROCESSORS", "JOBS", "MEAN WAIT", "MEAN SLOWDOWN", "P95 SLOWDOWN")
    for w in summary.widths:
        slow = w.slowdown
        cells = f"{w.jobs:,}", time(w.wait.mean), factor(slow.mean), factor(slow.p95)
        table.add_row(width_name(w.low, w.high), *cells)
    return table


def comparison(summaries: Sequence[Summary], said: Sequence[str]) -> RenderableType:
    """One line per measure, one column per policy, the verdict below."""
    head, *rows = simulate_words.rows(summaries)
    table = _grid(*head)
    for row in rows:
        table.add_row(
            row[0], *(Text(c.removesuffix("*"), "bold green" if c.endswith("*") else "") for c in row[1:])
        )
    first = summaries[0]
    parts: list[RenderableType] = [Text(f"{first.workload}: {simulate_words.sized(first)}", "bold"), Text("")]
    parts += [Text(stopped(s), "yellow") for s in summaries if not s.complete]
    verdict = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for sentence in said:
        verdict.add_row("-", Text(sentence))
    return Group(*parts, table, Text(""), verdict)


def print_json(
    summaries: Sequence[Summary], said: Sequence[str], faults: Sequence[Fault], every: bool
) -> None:
    """Everything the tables say, unrounded, as one document."""
    shown = _worst(faults, every)
    counts = dict(sorted(Counter(fault.kind for fault in faults).items()))
    answer = {
        "simulations": summaries,
        "verdict": said,
        "faults": {"counts": counts, "lines": [fault._asdict() for fault in shown]},
    }
    typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def tell_faults(faults: Sequence[Fault], every: bool) -> None:
    """By kind, and the first lines (or all), on stderr."""
    if not faults:
        return
    counts = Counter(fault.kind for fault in faults)
    told = "; ".join(f"{n:,} {_KINDS.get(kind, kind)}" for kind, n in sorted(counts.items()))
    typer.echo(f"{words.counted(len(faults), 'fault')} in the input: {told}", err=True)
    shown = _worst(faults, every)
    for fault in shown:
        where = f"line {fault.line}: " if fault.line else ""
        typer.echo(f"  {where}{fault.kind}: {words.clean(fault.text)}", err=True)
    if len(faults) > len(shown):
        typer.echo(f"  and {len(faults) - len(shown):,} more (-v tells all)", err=True)


def _worst(faults: Sequence[Fault], every: bool) -> Sequence[Fault]:
    """All in the order of their lines; of many the first, jobs that are only cut behind all others."""
    if every or len(faults) <= _SHOWN:
        return faults
    return sorted(faults, key=lambda fault: fault.kind == "killed")[:_SHOWN]


# -- scenarios ---------------------------------------------------------------------------------------


def print_scenario(result: Result, failure: str) -> None:
    """Whether all came as expected, and the groups."""
    answer = {"scenario": result.workload, "passed": not failure, "failure": failure, "jobs": result.rows}
    typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def jobs(rows: Sequence[JobRow]) -> Table:
    """Groups as lines."""
    table = _grid("JOB", "SUBMIT", "START", "END", "PODS")
    table.add_column("OUTCOME", no_wrap=True)
    table.add_column("NODES, OR WHY", overflow="fold")
    for row in rows:
        times = (_at(at) for at in (row.submit, row.start, row.end))
        where = words.ranges(row.nodes) if row.nodes else words.clean(row.reason)
        table.add_row(Text(row.job_id), *times, str(row.procs), row.outcome, Text(where))
    return table


def _at(milliseconds: int) -> str:
    """Hours, minutes and seconds as scenarios write them."""
    if milliseconds < 0:
        return "-"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def show(what: RenderableType) -> None:
    """To stdout, as all tables."""
    tables.show(tables.console(), what)
