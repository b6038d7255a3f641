"""What a recording decides when it is run again, in one line, and where it differs, with what it was made of.

Called by `cli.replay`, which imports this late: it brings the engine along. Must not change the recording.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from fairlead.cli import words
from fairlead.cli.errors import CliError
from fairlead.core.explain import amounts_text
from fairlead.runtime.deviations import Deviation, Inputs
from fairlead.runtime.replay import Difference, Replay, replay_file
from fairlead.runtime.version import engine_version

MOST_SHOWN = 5
_MOST_CHANGES = 10


def show_file(file: Path, output: str) -> None:
    """Replay a file and tell; CliError, hence exit code 1, if a plan comes out otherwise."""
    if not file.is_file():
        raise CliError(f"{file} is not a file")
    with _progress(f"replaying {file.name}") as told:
        found = replay_file(file, lambda number: told(number, 0))
    tell(found, str(file), output)


def show_ledger(data: Path | None, url: str, since: int, until: int, output: str) -> None:
    """Replay what the ledger holds of that time, and tell. Raises StoreError, ConfigError, CliError."""
    from fairlead.cli import replay_ledger
    from fairlead.cli.database import with_reader
    from fairlead.store.folder import default_data_dir

    span = replay_ledger.Span(since, until)
    with _progress("replaying the ledger") as told:
        found = with_reader(
            data or default_data_dir(), url, lambda conn: replay_ledger.replay(conn, span, told)
        )
    if not found.segments and not found.gaps:
        raise CliError(
            "the ledger holds nothing to replay of that time: does the scheduler run with --ledger?"
        )
    tell(found, "the ledger", output)


def tell(found: Replay, what: str, output: str) -> None:
    """The answer; raises CliError if plans came out otherwise that must not."""
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        for line in lines(found):
            typer.echo(line)
        for line in details(found):
            typer.echo(line, err=True)
    if found.wrong:
        raise CliError(f"{what}: {words.counted(found.wrong, 'plan')} came out otherwise")


def lines(found: Replay) -> Iterator[str]:
    """What was replayed, and what could not be."""
    where = f"{words.counted(found.segments, 'segment')}, " if found.segments != 1 else ""
    yield (
        f"{where}{found.batches} batches with {words.counted(found.events, 'event')}: "
        f"{words.counted(found.plans, 'plan')} made again, "
        f"{words.counted(found.wrong + found.other, 'difference')}"
    )
    if found.outside:
        yield f"{words.counted(found.outside, 'plan')} of others: told to the engine, not compared"
    if found.unanswered:
        yield f"{words.counted(found.unanswered, 'plan')} begun without a recorded end: not compared"
    if not found.plans:
        yield "nothing was compared: no plan of Fairlead's own is in it"
    for gap in found.gaps:
        yield f"gap: {gap}"
    if found.truncated:
        yield "the last line was cut off: all before it counts"
    if found.versions:
        yield f"recorded by another engine ({', '.join(found.versions)}; this is {engine_version()}):"
        yield "  differences between versions are no errors"
    for kind, count in found.classes.most_common():
        yield f"  {count:>6,}  {kind}"


def details(found: Replay) -> Iterator[str]:
    """The first differences with what they were made of."""
    for each in found.differences[:MOST_SHOWN]:
        yield from _difference(each)
    rest = found.wrong + found.other - min(len(found.differences), MOST_SHOWN)
    if rest > 0:
        yield f"{words.counted(rest, 'more difference')}: -o json"


def _difference(each: Difference) -> Iterator[str]:
    yield f"{each.where}, plan {each.plan}:"
    for deviation in each.deviations[:_MOST_CHANGES]:
        yield from _deviation(deviation)
    if len(each.deviations) > _MOST_CHANGES:
        yield f"  and {len(each.deviations) - _MOST_CHANGES} more"
    if each.inputs is not None:
        group = next((d.group for d in each.deviations if d.group), "")
        yield from _inputs(each.inputs, group)


def _deviation(each: Deviation) -> Iterator[str]:
    yield f"  {each.kind}{f': {words.clean(each.group)}' if each.group else ''}"
    yield f"    recorded {words.clean(each.recorded)}"
    yield f"    replayed {words.clean(each.replayed)}"


def _inputs(each: Inputs, group: str) -> Iterator[str]:
    free = amounts_text(tuple((name, amount) for name, amount in each.free.items()))
    whole = amounts_text(tuple((name, amount) for name, amount in each.capacity.items()))
    scope = "everybody" if each.everybody else "only who came since the last plan"
    waiting = words.counted(each.waiting, "request")
    yield f"  made of: {waiting} waiting ({scope}), at {words.instant(each.now)}"
    if each.asks:
        walltime = words.span(each.duration) if each.duration else "without an end"
        asks = "; ".join(each.asks)
        yield f"  {words.clean(group)}: number {each.place} in queue {each.queue}, asks {asks}, {walltime}"
    yield f"  {words.counted(each.nodes, 'node')} there; free {free} of {whole}"


def _silently(done: int, total: int) -> None:
    """Nobody watches."""


@contextmanager
def _progress(text: str) -> Generator[Callable[[int, int], None]]:
    """How far it is, on a terminal; called with (done, in all or 0)."""
    if not sys.stderr.isatty():
        yield _silently
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
