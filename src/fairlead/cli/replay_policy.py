"""`fairlead replay --policy`: what was recorded, played again under another policy; who gains and who loses.

Called by `cli.replaying`, which imports this late. What really happened is shown beside it, and where
Fairlead scheduled then, so is the same policy played again: the new one is held against that.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import typer
from msgspec import structs
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlead.cli import simulate_show, simulate_words, words
from fairlead.cli.recorded import Meant, read, tell_left
from fairlead.cli.simulate import Choice
from fairlead.cli.simulate_run import Interrupt, play_one
from fairlead.cli.simulate_words import factor, time
from fairlead.model.settings import Settings
from fairlead.runtime.config import Given, settings
from fairlead.sim import gains, report, trace
from fairlead.sim.gains import Gain
from fairlead.sim.recorded import Recorded
from fairlead.sim.workload import Result


class Asked(NamedTuple):
    """What is to be played again, and under which settings."""

    meant: Meant
    given: Given
    output: str = "table"


def run(asked: Asked) -> None:
    """Read, play, tell. Exit code 130 after an interrupt."""
    settings(asked.given)  # what is wrong there is told before anything is read
    play_and_tell(asked, read(asked.meant))


def play_and_tell(asked: Asked, found: Recorded) -> None:
    """The recorded workload under the policy that it had, if known, and under the one asked for."""
    chosen = simulated(settings(asked.given))
    tell_left(found.left)
    workload = trace.workload(found.trace)
    again = simulated(found.trace.head.settings) if found.trace.head.settings else None
    choices = [Choice("as it was", again)] if again else []
    choices.append(Choice(_named(asked.given, chosen), chosen))
    interrupt = Interrupt()
    results = [gains.as_recorded(found.trace), *(play_one(workload, each, interrupt) for each in choices)]
    table = gains.gains(found.trace, results[-2], results[-1])
    show(asked.output, results, table)
    if not all(result.complete for result in results):
        raise SystemExit(130)


def simulated(found: Settings) -> Settings:
    """As `fairlead simulate` runs: a cycle whenever something has happened, the sources of a simulation."""
    plain = Settings()
    return structs.replace(
        found, pace=0, advise=False, sources=plain.sources, scheduler=plain.scheduler, function=None
    )


def _named(given: Given, chosen: Settings) -> str:
    if given.config is not None:
        return given.config.name
    queue = chosen.queues[0]
    return f"hybrid:{queue.depth}" if queue.policy == "hybrid" else queue.policy


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
