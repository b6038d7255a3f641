"""`fairlead simulate --faults`: worlds from seeds, and what is broken in them, as small as it can be told.

Called by `cli.simulate`, which imports this late. What goes to stdout depends on the seeds alone, to the
byte, unless a time limit ends the search for a smaller story (stderr says so).
"""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead.cli.errors import CliError
from fairlead.sim import fuzz
from fairlead.sim.shrink import shrink

TRIES = 4_000
"""How many smaller stories are tried."""
PATIENCE = 120.0
"""Seconds after which no more of them are tried."""


class Asked(NamedTuple):
    """All of the command line, checked."""

    faults: str
    seeds: int
    steps: int
    nodes: int
    json: bool


class Failure(msgspec.Struct):
    """A story in which something was broken. `seed` is null for one out of a file."""

    seed: int | None
    wrong: list[str]
    at: int
    """Milliseconds since its beginning."""
    story: str
    operations: int
    faults: int


class Answer(msgspec.Struct):
    """What `-o json` prints."""

    played: int
    failure: Failure | None


def run(asked: Asked) -> None:
    """All of the command; exit code 1 where something was broken."""
    try:
        first = int(asked.faults)
    except ValueError:
        played, failure = 1, _from_file(Path(asked.faults), asked)
    else:
        played, failure = _from_seeds(first, asked)
    if asked.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(Answer(played, failure))) + b"\n")
    elif failure is not None:
        _tell(failure, asked)
    else:
        typer.echo(f"{_worlds(played)}: nothing was broken")
    if failure is not None:
        raise SystemExit(1)


# -- playing -----------------------------------------------------------------------------------------


def _from_file(path: Path, asked: Asked) -> Failure | None:
    if asked.seeds > 1 or asked.steps or asked.nodes:
        raise CliError("--faults FILE says all of its world: leave out --seeds, --steps and --nodes")
    try:
        story = fuzz.read(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise CliError(f"--faults {path}: neither a number nor a file to read ({error.strerror})") from None
    except ValueError as error:  # also bytes that are no text
        raise CliError(str(error)) from None
    return _failure(None, story)


def _from_seeds(first: int, asked: Asked) -> tuple[int, Failure | None]:
    steps, nodes = asked.steps or fuzz.STEPS, asked.nodes or fuzz.NODES
    begun = time.perf_counter()
    with _bar(asked.seeds) as step:
        found = fuzz.failing(range(first, first + asked.seeds), steps, nodes, told=lambda _: step())
    played = asked.seeds if found is None else found - first + 1
    took = max(time.perf_counter() - begun, 1e-9)
    typer.echo(f"{_worlds(played)} in {took:.1f} s, {played / took:,.0f} a second", err=True)
    if found is None:
        return played, None
    return played, _failure(found, _small(fuzz.draw(found, steps, nodes)))


def _small(story: fuzz.Story) -> fuzz.Story:
    """The failing story, smaller."""
    typer.echo("something is broken; looking for a smaller story", err=True)
    end, tries = time.monotonic() + PATIENCE, 0

    def enough() -> bool:
        nonlocal tries
        tries += 1
        if time.monotonic() > end:
            typer.echo(f"no smaller one is looked for after {PATIENCE:g} s", err=True)
            return True
        return tries > TRIES

    return shrink(story, enough=enough)


def _failure(seed: int | None, story: fuzz.Story) -> Failure | None:
    told = fuzz.play(story)
    if not told.wrong:
        return None
    text = fuzz.write(story, told)
    return Failure(seed, list(told.wrong), told.at, text, len(story.ops), len(story.decisions))


@contextmanager
def _bar(total: int) -> Generator[Callable[[], None]]:
    """A bar on a terminal; yields what is called after each world."""
    columns = (TextColumn("worlds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not sys.stderr.isatty() or total == 1
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task("worlds", total=total)
        yield lambda: bar.advance(task)


# -- telling -----------------------------------------------------------------------------------------


def _worlds(number: int) -> str:
    return f"{number:,} {'world' if number == 1 else 'worlds'}"


def _tell(failure: Failure, asked: Asked) -> None:
    if failure.seed is None:
        typer.echo(f"# {asked.faults}")
    else:
        size = f"{failure.operations} operations and {failure.faults} faults"
        typer.echo(f"# seed {failure.seed} breaks something; the smallest story that does has {size}.")
        typer.echo("# Keep these lines as a file and play them again: fairlead simulate --faults FILE")
    typer.echo(failure.story, nl=False)
    typer.echo(f"# {failure.at / 1000:.3f} s: broken:")
    for line in failure.wrong:
        typer.echo(f"#   {line}")
