"""`fairlead replay --policy`: what was recorded, played again under another policy; who gains and who loses.

Called by `cli.replaying`, which imports this late. What really happened is shown beside it, and where
Fairlead scheduled then, so is the same policy played again: the new one is held against that.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import typer
from msgspec import structs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import simulate_show, simulate_words, words
from fairlead.cli.errors import CliError
from fairlead.cli.quiet import quiet
from fairlead.cli.simulate import Choice
from fairlead.cli.simulate_run import Interrupt, play_one
from fairlead.cli.simulate_words import factor, time
from fairlead.model.record import PodLife
from fairlead.model.settings import Settings
from fairlead.runtime.config import Given, settings
from fairlead.sim import gains, recorded, report, trace
from fairlead.sim.gains import Gain
from fairlead.sim.workload import Result
from fairlead.store import reader
from fairlead.store import recorded as ledger
from fairlead.store.errors import StoreError

FAR = 253_402_300_799_999


class Asked(NamedTuple):
    """`since` and `until` in milliseconds since the epoch, 0 = without limit; `scheduler` "" is Fairlead's
    own, or whoever scheduled where Fairlead did not."""

    data: Path
    url: str
    since: int
    until: int
    given: Given
    scheduler: str = ""
    output: str = "table"


def run(asked: Asked) -> None:
    """Read, play, tell. Exit code 130 after an interrupt."""
    chosen = _simulated(settings(asked.given))
    found = read(asked)
    if not found.trace.jobs:
        raise CliError("no job was recorded in that time: give other --from and --to, or --scheduler NAME")
    if not found.trace.nodes:
        raise CliError("no node was recorded in that time: has `fairlead recorder` run?")
    _tell_left(found.left)
    workload = trace.workload(found.trace)
    again = _simulated(found.trace.head.settings) if found.trace.head.settings else None
    choices = [Choice("as it was", again)] if again else []
    choices.append(Choice(_named(asked.given, chosen), chosen))
    interrupt = Interrupt()
    results = [gains.as_recorded(found.trace), *(play_one(workload, each, interrupt) for each in choices)]
    table = gains.gains(found.trace, results[-2], results[-1])
    show(asked.output, results, table)
    if not all(result.complete for result in results):
        raise SystemExit(130)


def read(asked: Asked) -> recorded.Recorded:
    """The workload in the ledger. Raises StoreError."""

    async def work() -> ledger.Stretch:
        async with reader.open_reader(data=None if asked.url else asked.data, url=asked.url) as conn:
            return await ledger.stretch(conn, asked.since, asked.until or FAR)

    quiet()
    try:
        stretch = asyncio.run(work())
    except psycopg.Error as error:
        raise StoreError(f"the database does not answer: {' '.join(str(error).split())}") from error
    name = asked.scheduler or (stretch.settings.scheduler if stretch.settings else "")
    known = {pod.scheduler for pod in stretch.pods}
    if not name and len(known) > 1:
        raise CliError(f"--scheduler: whose pods? Recorded are {', '.join(sorted(known))}")

    def ours(pod: PodLife) -> bool:
        return not name or pod.scheduler == name

    window = recorded.Window(asked.since, asked.until or FAR)
    return recorded.recorded(
        stretch.pods,
        stretch.nodes,
        stretch.groups,
        window,
        scheduler=ours,
        settings=stretch.settings,
    )


def _simulated(found: Settings) -> Settings:
    """As `fairlead simulate` runs: a cycle whenever something has happened, the sources of a simulation."""
    plain = Settings()
    return structs.replace(found, pace=0, advise=False, sources=plain.sources, scheduler=plain.scheduler)


def _named(given: Given, chosen: Settings) -> str:
    if given.config is not None:
        return given.config.name
    queue = chosen.queues[0]
    return f"hybrid:{queue.depth}" if queue.policy == "hybrid" else queue.policy


def _tell_left(left: recorded.Left) -> None:
    """What the playing does not know, in a line each."""
    for many, text in (
        (left.nodes_changed, "nodes came, went or changed meanwhile: played with those of the begin"),
        (left.others, "pods of other schedulers came meanwhile: not played"),
        (left.growth, "pods joined a group after its start: each is played as a job of its own"),
        (left.unended, "jobs have no known end: they run for their walltime, or for ever"),
    ):
        if many:
            typer.echo(f"{many:,} {text}", err=True)


# -- telling -----------------------------------------------------------------------------------------


def show(output: str, results: Sequence[Result], found: Sequence[Gain]) -> None:
    """The measures of each run side by side, then who gains and who loses."""
    summaries = [report.summarise(result) for result in results]
    said = simulate_words.verdict(summaries[1:], results[1:]) if len(summaries) > 2 else []
    if output == "json":
        answer: dict[str, Any] = {"runs": summaries, "verdict": said, "gains": found}
        typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return
    parts: list[RenderableType] = [simulate_show.comparison(summaries, said), Text("")]
    parts += [Text(f"{results[-1].policy} against {results[-2].policy}", "bold"), _table(found)]
    simulate_show.show(Group(*parts))


def _table(found: Sequence[Gain]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for i, title in enumerate(
        ("", "JOBS", "MEAN WAIT", "NOW", "SLOWDOWN", "NOW", "SOONER", "LATER", "NOT STARTED")
    ):
        table.add_column(title, justify="right" if i else "left", no_wrap=True)
    for each in found:
        better = each.wait_now < each.wait_before - 1
        worse = each.wait_now > each.wait_before + 1
        table.add_row(
            f"{each.kind} {words.clean(each.name)}".strip(),
            f"{each.jobs:,}",
            time(each.wait_before),
            Text(time(each.wait_now), "green" if better else "red" if worse else ""),
            factor(each.slowdown_before),
            factor(each.slowdown_now),
            f"{each.sooner:,}",
            f"{each.later:,}",
            f"{each.lost:,}" if each.lost else "-",
        )
    return table
