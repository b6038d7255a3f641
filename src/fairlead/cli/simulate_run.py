"""`fairlead simulate`, once its options are checked: read, play, tell, write.

Called by `cli.simulate`, which imports this late. Files that cannot be written are found out before minutes
of playing; the first Ctrl-C ends the playing and what is there is told, a second one ends the program.
"""

import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead.cli import simulate_scenario, simulate_show, simulate_words, words
from fairlead.cli.errors import CliError
from fairlead.cli.simulate import Asked, Choice
from fairlead.model.settings import PolicyFunction as Named
from fairlead.runtime import policy_worker
from fairlead.runtime.policy_pipe import AnswerError, PolicyFunction
from fairlead.sim import figure, inputs, play, report, report_csv
from fairlead.sim.report import Summary
from fairlead.sim.workload import Result, Workload

INTERRUPTED = 130
_REFUSALS = 3


class Interrupt:
    """Ctrl-C as a question that the player asks."""

    def __init__(self) -> None:
        self.wanted = False

    def ask(self, _signal: int, _frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True
        typer.echo("stopping; Ctrl-C again ends at once", err=True)

    @contextmanager
    def listening(self) -> Generator[None]:
        """Only around the playing: elsewhere Ctrl-C is as always."""
        before = signal.signal(signal.SIGINT, self.ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def run(asked: Asked) -> None:
    """All of the command. Exit code 130 after an interrupt, 1 for a scenario that fails."""
    is_scenario = inputs.format_of(asked.input) is inputs.Format.SCENARIO
    if is_scenario and not asked.alone:
        raise CliError(
            f"{asked.input} is a scenario, which names its own cluster and policy and has no figures: "
            "give it alone, or with --out and -o"
        )
    outs = [out_path(asked, choice.label) for choice in asked.choices]
    _keep_apart(asked, outs)
    for path in (*outs, asked.report):
        if path is not None:
            _try(path)
    if is_scenario:
        return _scenario(asked)
    functions = [_function(choice.settings.function) for choice in asked.choices]
    workload = inputs.load(asked.input, **asked.machine._asdict())
    if asked.output == "table":
        simulate_show.tell_faults(workload.faults, asked.verbose)
    interrupt = Interrupt()
    results: list[Result] = []
    for choice, path, function in zip(asked.choices, outs, functions, strict=True):
        if interrupt.wanted:
            break
        results.append(play_one(workload, choice, interrupt, function))
        _tell_refused(results[-1])
        if path is not None:
            _write_csv(results[-1], path)
    _answer(asked, workload, results)
    # Who asks in the last moment gets everything: then nothing was stopped.
    if len(results) < len(asked.choices) or not results[-1].complete:
        _tell_stopped(asked, workload, results)
        raise SystemExit(INTERRUPTED)
    return None


def out_path(asked: Asked, label: str) -> Path | None:
    """Where the jobs of one policy go: jobs.csv, or jobs.easy.csv where there are several."""
    if asked.out is None or not asked.compare:
        return asked.out
    return asked.out.with_name(f"{asked.out.stem}.{label.replace(':', '-')}{asked.out.suffix}")


def _keep_apart(asked: Asked, outs: Sequence[Path | None]) -> None:
    """Refuses to write over what is read, or over what is written."""
    taken = {path.resolve(): path for path in (asked.input, asked.machine.nodes_file) if path is not None}
    for path in (*outs, asked.report):
        if path is None:
            continue
        if path.resolve() in taken:
            raise CliError(f"{path} is named twice, to be read and written or for two outputs: name another")
        taken[path.resolve()] = path


def _try(path: Path) -> None:
    """Fails now rather than after the playing; changes nothing."""
    there = path.exists()
    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from None
    if not there:
        path.unlink()


# -- playing -----------------------------------------------------------------------------------------


def _function(named: Named | None) -> PolicyFunction | None:
    """What is called so, in this process. Raises ConfigError."""
    return None if named is None else policy_worker.load(named.name, named.path)


def _tell_refused(result: Result) -> None:
    """What a policy function decided in vain: how often, and the first ones."""
    if result.refused:
        typer.echo(f"{result.policy}: {len(result.refused):,} decisions refused, the first:", err=True)
        for text in result.refused[:_REFUSALS]:
            typer.echo(f"  {words.clean(text)}", err=True)


def play_one(
    workload: Workload, choice: Choice, interrupt: Interrupt, function: PolicyFunction | None = None
) -> Result:
    """One simulation, with a bar on a terminal and its speed on stderr."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jobs"),
        TimeRemainingColumn(), TextColumn("{task.fields[now]}"),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    )  # fmt: skip
    begun = time.perf_counter()
    with interrupt.listening(), bar:
        task = bar.add_task(choice.label, total=len(workload.arrivals), now="")

        def progress(ended: int, total: int, now: int) -> None:
            bar.update(task, completed=ended, total=total, now=f"at {words.span(now)}")

        try:
            result = play.play(
                workload,
                choice.settings,
                progress=progress,
                stop=lambda: interrupt.wanted,
                function=function,
            )
        except AnswerError as error:
            raise CliError(f"policy function {choice.label}: {error}") from None
    took = max(time.perf_counter() - begun, 1e-9)
    ended = sum(row.end >= 0 for row in result.rows)
    jobs = "job" if ended == 1 else "jobs"
    typer.echo(f"{choice.label}: {ended:,} {jobs} in {took:.1f} s, {ended / took:,.0f} jobs/s", err=True)
    return result._replace(policy=choice.label)


# -- telling -----------------------------------------------------------------------------------------


def _answer(asked: Asked, workload: Workload, results: Sequence[Result]) -> None:
    """Tables or JSON, and the report."""
    summaries = [report.summarise(result, len(workload.arrivals)) for result in results]
    said = simulate_words.verdict(summaries, results) if asked.compare else []
    if asked.output == "json":
        simulate_show.print_json(summaries, said, workload.faults, asked.verbose)
    elif asked.compare:
        simulate_show.show(simulate_show.comparison(summaries, said))
    else:
        simulate_show.show(simulate_show.one(summaries[0], results[0].rows))
    if asked.report is not None:
        _write_report(asked.report, results, summaries, said)


def _write_report(
    path: Path, results: Sequence[Result], summaries: Sequence[Summary], said: Sequence[str]
) -> None:
    first = summaries[0]
    policies = ", ".join(s.policy for s in summaries)
    text = figure.Words(
        title=f"{first.workload} under {policies}",
        subtitle=f"{simulate_words.sized(first)}, simulated by Fairlead",
        warnings=[simulate_show.stopped(s) for s in summaries if not s.complete],
        table=simulate_words.rows(summaries),
        sentences=said,
    )
    drawn = figure.page(results, text) if path.suffix == ".html" else figure.drawing(results, text)
    _write(path, drawn)


def _write_csv(result: Result, path: Path) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            report_csv.write(result, file, words.ranges)
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}") from None


def _tell_stopped(asked: Asked, workload: Workload, results: Sequence[Result]) -> None:
    """What an interrupt left out; the CSV itself has no place for a remark."""
    last, left = results[-1], [choice.label for choice in asked.choices[len(results) :]]
    here, all_ = len(last.rows), len(workload.arrivals)
    parts = [] if last.complete else [f"{last.policy} came to {here:,} of {all_:,} jobs"]
    if left:
        parts.append(f"{', '.join(left)} did not begin")
    text = f"stopped early: {', '.join(parts)}"
    if asked.out is not None and not last.complete:
        text += "; in its CSV, jobs without start or end had not come to it"
        text += ", and the others are not there" if here < all_ else ""
    typer.echo(text, err=True)


def _scenario(asked: Asked) -> None:
    """A scenario: its jobs, and whether all came as it expects."""
    result, failure = simulate_scenario.run(asked.input)
    if asked.out is not None:
        _write_csv(result, asked.out)
    if asked.output == "json":
        simulate_show.print_scenario(result, failure)
    else:
        simulate_show.show(simulate_show.jobs(result.rows))
    if failure:
        raise CliError(failure)
    typer.echo(f"{asked.input.name}: all as expected", err=True)
