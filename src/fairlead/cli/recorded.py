"""The workload that the ledger holds: read for `fairlead replay --policy` and `fairlead history export`.

Called by `cli.replay_policy` and `cli.history_export`. Must not write, and keeps no server running that it
started.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import typer

from fairlead.cli.errors import CliError
from fairlead.cli.quiet import quiet
from fairlead.model.record import PodLife
from fairlead.sim import recorded, swf, trace
from fairlead.store import reader
from fairlead.store import recorded as ledger
from fairlead.store.errors import StoreError

FAR = 253_402_300_799_999
"""The end of the year 9999: what is not limited."""


class Meant(NamedTuple):
    """Which part of which ledger. `since` and `until` in milliseconds since the epoch, 0 = without limit;
    `scheduler` "" is Fairlead's own name, or whoever scheduled where Fairlead did not."""

    data: Path
    url: str
    since: int = 0
    until: int = 0
    scheduler: str = ""


def read(meant: Meant) -> recorded.Recorded:
    """The workload. Raises StoreError; CliError where there is none, or where it is not said whose."""
    stretch = _stretch(meant)
    name = meant.scheduler or (stretch.settings.scheduler if stretch.settings else "")
    known = {pod.scheduler for pod in stretch.pods}
    if not name and len(known) > 1:
        raise CliError(f"--scheduler: whose pods? Recorded are those of {', '.join(sorted(known))}")

    def ours(pod: PodLife) -> bool:
        return not name or pod.scheduler == name

    window = recorded.Window(meant.since, meant.until or FAR)
    found = recorded.recorded(
        stretch.pods,
        stretch.nodes,
        stretch.groups,
        window,
        scheduler=ours,
        settings=stretch.settings,
    )
    if not found.trace.jobs:
        raise CliError("no job was recorded in that time: give another time, or --scheduler NAME")
    if not found.trace.nodes:
        raise CliError("no node was recorded in that time: has `fairlead recorder` run?")
    return found


def _stretch(meant: Meant) -> ledger.Stretch:
    async def work() -> ledger.Stretch:
        async with reader.open_reader(data=None if meant.url else meant.data, url=meant.url) as conn:
            return await ledger.stretch(conn, meant.since, meant.until or FAR)

    quiet()
    try:
        return asyncio.run(work())
    except psycopg.Error as error:
        raise StoreError(f"the database does not answer: {' '.join(str(error).split())}") from error


def tell_left(left: recorded.Left) -> None:
    """What the workload does not say, in a line each."""
    for many, text in (
        (left.nodes_changed, "nodes came, went or changed meanwhile: they are as they were at the begin"),
        (left.others, "pods of other schedulers came meanwhile: they are not in it"),
        (left.growth, "pods joined a group after its start: each is a job of its own"),
        (left.cancelled, "jobs were deleted before they started: they are not in it"),
        (left.unended, "jobs have no known end: they run for their walltime, or for ever"),
    ):
        if many:
            typer.echo(f"{many:,} {text}", err=True)


def as_trace(meant: Meant) -> Iterator[bytes]:
    """The lines of a `.trace` file, which `fairlead simulate` plays."""
    found = read(meant)
    tell_left(found.left)
    return trace.write(found.trace)


def as_swf(meant: Meant) -> Iterator[bytes]:
    """The lines of a `.swf` file."""
    found = read(meant)
    tell_left(found.left)
    return (line.encode() for line in swf.write(found.trace))
