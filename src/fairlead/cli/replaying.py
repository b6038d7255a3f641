"""`fairlead replay FILE`: what a recording decides when it is run again, in one line, and where it differs.

Called by `cli.main`, which imports this late: it brings the engine along. Must not change the recording.
"""

from pathlib import Path

import typer

from fairlead.cli import words
from fairlead.cli.errors import CliError
from fairlead.runtime.record import replay

MOST_SHOWN = 5


def show(file: Path) -> None:
    """Replay and tell; CliError, hence exit code 1, if a plan comes out otherwise."""
    if not file.is_file():
        raise CliError(f"{file} is not a file")
    found = replay(file)
    typer.echo(
        f"{found.batches} batches with {words.counted(found.events, 'event')}: "
        f"{words.counted(found.plans, 'plan')} made again, "
        f"{words.counted(len(found.differences), 'difference')}"
    )
    if found.truncated:
        typer.echo("the last line was cut off: all before it counts", err=True)
    for each in found.differences[:MOST_SHOWN]:
        typer.echo(f"line {each.line}, plan {each.plan}:", err=True)
        typer.echo(f"  recorded {each.recorded.decode():.2000}", err=True)
        typer.echo(f"  replayed {each.replayed.decode():.2000}", err=True)
    if found.differences:
        raise CliError(f"{file}: {words.counted(len(found.differences), 'plan')} came out otherwise")
