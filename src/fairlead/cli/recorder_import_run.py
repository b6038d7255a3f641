"""What `fairlead recorder import` does: lines of a file into the ledger, and what was in them on stdout.

Called by `cli.recorder_import`. stderr carries the progress. Bad lines are told and change nothing about the
exit code; a file in which no line is good is not taken for a log.
"""

import asyncio
import gzip
import io
import sys
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import typer
from msgspec import Struct, json, structs
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

from fairlead.cli import tables, words
from fairlead.cli.errors import CliError
from fairlead.cli.quiet import quiet
from fairlead.cli.tables import Column
from fairlead.recorder.importing import MOST_BYTES, Reading, Summary, parts
from fairlead.store.folder import RECORDER, default_data_dir, recorded_data_dir
from fairlead.store.ledger_import import importing

_STDIN = "-"
_GZIP = b"\x1f\x8b"
_MOST_KINDS = 30


class Imported(Struct, frozen=True):
    """What became of a log. `added` changes are new in the ledger; `key` is what it is called there."""

    file: str
    key: str
    added: int
    summary: Summary


def run(name: str, data: Path | None, url: str, as_json: bool) -> None:
    """Import the file of that name; `-` is stdin. Raises CliError or StoreError."""
    quiet()
    found = asyncio.run(_import(name, None if url else data or _data_dir(), url))
    if not as_json:
        return _show(found)
    flat = {**structs.asdict(found), **structs.asdict(found.summary)}
    del flat["summary"]
    return typer.echo(json.format(json.encode(flat), indent=2).decode())


def _data_dir() -> Path:
    """Where `fairlead history` looks; a recorder's own folder if there is nothing to look at yet."""
    found = recorded_data_dir()
    return found if (found / "pg").exists() else default_data_dir() / RECORDER


async def _import(name: str, data: Path | None, url: str) -> Imported:
    now = time.time_ns() // 1_000_000
    reading, added = Reading(now), 0
    shown = "stdin" if name == _STDIN else name
    with _lines(name, shown) as lines:
        async with importing(data=data, url=url, now=now) as ledger:
            try:
                for part in parts(lines, reading, ledger.marks):
                    await ledger.write(part)
                    added += len(part.changes)
            except (OSError, EOFError, zlib.error) as error:
                raise _broken(shown, error) from error
    summary = reading.summary()
    if summary.bad and not summary.unique:
        first = summary.problems[0]
        raise CliError(f"{shown}: no line is one of the sniffer's; line {first.line}: {first.why}")
    return Imported(shown, reading.key, added, summary)


def _broken(shown: str, error: Exception) -> CliError:
    """The file ended before its end: what came before is kept."""
    is_packed = isinstance(error, EOFError | zlib.error | gzip.BadGzipFile)
    reason = "not a whole .gz file" if is_packed else getattr(error, "strerror", None) or str(error)
    return CliError(f"{shown}: {reason}; an import of the whole file goes on from here")


# -- lines -------------------------------------------------------------------------------------------


@contextmanager
def _lines(name: str, shown: str) -> Generator[Iterator[bytes]]:
    """The lines of the file, with their number on a terminal."""
    columns = (TextColumn("{task.description}"), SpinnerColumn(), TextColumn("{task.completed:,} lines"))
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with ExitStack() as stack:
        try:
            raw = sys.stdin.buffer if name == _STDIN else stack.enter_context(Path(name).open("rb"))
            lines = _each(_unpacked(raw))
        except OSError as error:
            raise CliError(f"{shown}: {error.strerror or error}") from error
        stack.enter_context(bar)
        yield iter(bar.track(lines, total=None, description=words.clean(shown)))


def _unpacked(raw: BinaryIO) -> BinaryIO:
    """Packed or not is told by how it begins, whatever it is called."""
    buffered = io.BufferedReader(cast("io.RawIOBase", raw), 1 << 16)
    packed = buffered.peek(2)[:2] == _GZIP
    return cast("BinaryIO", gzip.GzipFile(fileobj=buffered) if packed else buffered)


def _each(file: BinaryIO) -> Iterator[bytes]:
    """Its lines. One that is longer than any of the sniffer's comes without its rest."""
    while line := file.readline(MOST_BYTES + 2):
        if len(line) > MOST_BYTES + 1 and not line.endswith(b"\n"):
            while (more := file.readline(MOST_BYTES)) and not more.endswith(b"\n"):
                pass
            line += more[-1:]
        yield line


# -- telling -----------------------------------------------------------------------------------------

_EVENTS = (
    Column("OBJECT"),
    Column("ENDPOINT", cut="middle"),
    Column("EVENT", cut="middle"),
    Column("LINES", right=True),
    Column("UNIQUE", right=True),
)
_LATENCIES = (
    Column("FROM ONE EVENT TO THE NEXT"),
    Column("PODS", right=True),
    Column("LEAST", right=True),
    Column("MEDIAN", right=True),
    Column("MOST", right=True),
)


def _show(found: Imported) -> None:
    out, of = tables.console(), found.summary
    for line in _sentences(found):
        tables.show(out, Text(words.clean(line)))
    rows = [(c.object, c.endpoint, c.event or "-", f"{c.lines:,}", f"{c.unique:,}") for c in of.events]
    if rows:
        tables.show(out, tables.lines(_EVENTS, rows[:_MOST_KINDS], width=out.width))
    if len(rows) > _MOST_KINDS:
        tables.show(out, Text(f"{len(rows) - _MOST_KINDS} more kinds of events: -o json shows all"))
    steps = [
        (name, f"{each.count:,}", *map(words.step, (each.least, each.median, each.most)))
        for name, each in of.latencies.items()
    ]
    if steps:
        tables.show(out, tables.lines(_LATENCIES, steps, width=out.width))


def _sentences(found: Imported) -> Iterator[str]:
    of = found.summary
    yield (
        f"{found.file}: {words.counted(of.lines, 'line')}, {of.unique:,} of them unique, "
        f"{of.duplicates:,} repeated, {of.bad:,} bad"
    )
    if of.unique:
        yield (
            f"{words.counted(of.pods, 'pod')} ({of.pods_complete:,} complete, {of.pods_open:,} open) of "
            f"{words.counted(of.jobs, 'job')}, {words.counted(of.nodes, 'node')}; "
            f"{words.instant(of.first)} to {words.instant(of.last)}"
        )
        yield f"new in the ledger: {words.counted(found.added, 'change')}"
    if of.pods_moved:
        moved = words.counted(of.pods_moved, "pod")
        yield f"{moved} on two nodes: two of one name, since the log knows no namespaces"
    for problem in of.problems:
        yield f"line {problem.line}: {problem.why}"
    if (more := of.bad + of.unreadable_times - len(of.problems)) > 0:
        yield f"{words.counted(more, 'more line')} like that"
