"""`fairlead history …`: what the recorder has written, asked: pods, occupancy, latency, usage, SQL, export.

A sub-app of `cli.main`, imported when it is named. Options only; the work is in `cli.history_*`, imported
when a command runs.
"""

import importlib
from enum import StrEnum
from typing import Annotated

import typer
from msgspec.structs import replace

from fairlead.cli import when
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import (
    Answer,
    DatabaseUrl,
    DataDir,
    Out,
    Output,
    Plot,
    Question,
    asking,
    drawn,
)
from fairlead.model.history import Asked

app = typer.Typer(no_args_is_help=True)


class What(StrEnum):
    """What of a node is looked at."""

    COUNT = "count"
    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"


FORMATS = {
    "sniffer": "fairlead.cli.history_formats:sniffer",
    "csv": "fairlead.cli.history_formats:rows",
    "parquet": "fairlead.cli.history_formats:rows",
    "jsonl": "fairlead.cli.history_formats:rows",
    "trace": "fairlead.cli.history_export:trace",
    "swf": "fairlead.cli.history_export:swf",
}
"""By format what writes it, `module:function`: called with the question, `--of`, and `--every` in ms or 0."""

Every = Annotated[str, typer.Option(metavar="LENGTH", help="Stretches of so long: 30s, 10m, 1h; else round.")]
_PODS = """Examples:

fairlead history pods --since 2h

fairlead history pods --at 10:30 --node node-7

fairlead history pods --open --owner Job/train

fairlead history pods -o parquet --out pods.parquet --plot pods.html"""
_OCCUPANCY = """Examples:

fairlead history occupancy --since 2h --what gpu

fairlead history occupancy --at 2026-11-22T10:00

fairlead history occupancy --since 1d --every 10m -o csv --plot occupancy.html"""
_LATENCY = """Examples:

fairlead history latency --since 1d --by namespace

fairlead history latency --by label:app --plot latency.svg"""
_USAGE = """Examples:

fairlead history usage --since 7d --every 1d

fairlead history usage --scheduler fairlead -o json"""
_SQL = """Examples:

fairlead history sql

fairlead history sql --view pods

fairlead history sql "SELECT node, count(*) FROM pods WHERE ended IS NULL GROUP BY node" -o csv"""
_EXPORT = """Examples:

fairlead history export --format sniffer --since 1h --every 1m > nodes.json

fairlead history export --format parquet --of changes --out changes.parquet"""


@app.command(epilog=_PODS)
@asking()
def pods(
    question: Question,
    open_: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    at: Annotated[str, typer.Option(metavar="TIME", help="Only those that were there at that moment.")] = "",
    limit: Annotated[int, typer.Option(help="Lines of the table at most, the newest; 0 = all.", min=0)] = 100,
    plot: Plot = None,
) -> None:
    """Which pod was on which node, from when to when.

    A pod that has not ended is shown as open, one that has no node yet as
    waiting: none is left out. Nothing else is filtered but what you ask for.
    """
    drawn(plot)
    asked = question.asked
    if at:
        if asked.since or asked.until:
            raise CliError("--at goes without --since and --until")
        moment = when.moment("--at", at, question.now)
        asked = replace(asked, since=moment, until=moment + 1)
    question = question._replace(asked=replace(asked, open=open_))
    importlib.import_module("fairlead.cli.history_pods").run(question, limit, plot)


@app.command(epilog=_OCCUPANCY)
@asking()
def occupancy(
    question: Question,
    what: Annotated[What, typer.Option(help="Pods, or what they request.")] = What.COUNT,
    every: Every = "",
    at: Annotated[str, typer.Option(metavar="TIME", help="Not over time, but at that moment.")] = "",
    limit: Annotated[int, typer.Option(help="Nodes in the table at most; 0 = all.", min=0)] = 50,
    plot: Plot = None,
) -> None:
    """How full each node was, over time or at any moment."""
    drawn(plot)
    if at:
        if question.asked.since or question.asked.until or every or plot:
            raise CliError("--at goes without --since, --until, --every and --plot")
        moment = when.moment("--at", at, question.now)
        return importlib.import_module("fairlead.cli.history_moment").at_moment(question, moment)
    length = when.length("--every", every) if every else 0
    module = importlib.import_module("fairlead.cli.history_occupancy")
    return module.over_time(question, what.value, length, limit, plot)


@app.command(epilog=_LATENCY)
@asking()
def latency(
    question: Question,
    by: Annotated[
        str, typer.Option(metavar="KIND", help="namespace, owner, scheduler, node, group or label:KEY.")
    ] = "",
    plot: Plot = None,
) -> None:
    """How long pods took from stage to stage: queue, bind, start, ready, run.

    A stage counts when it ended within the time asked about. OPEN are in it
    still, the longest for LONGEST; NEVER were gone before they had passed it.
    """
    drawn(plot)
    importlib.import_module("fairlead.cli.history_latency").run(question, by, plot)


@app.command(epilog=_USAGE)
@asking()
def usage(question: Question, every: Every = "", plot: Plot = None) -> None:
    """How well the cluster was used, and how much of what was free was of no use.

    IN USE is what pods requested, of what all nodes had. FRAGMENTED is the share
    of what was free where the most common request did not fit as a whole.
    """
    drawn(plot)
    length = when.length("--every", every) if every else 0
    importlib.import_module("fairlead.cli.history_usage").usage(question, length, plot)


@app.command(epilog=_SQL)
def sql(
    query: Annotated[str, typer.Argument(help="One statement that reads; else the views are listed.")] = "",
    view: Annotated[str, typer.Option(help="The columns of this view, explained.")] = "",
    output: Answer = Output.table,
    out: Out = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = "",
) -> None:
    """Ask in SQL: how to connect, which views there are, or the answer to a query."""
    question = Question(data_dir, database_url, Asked(), when.now(), output.value, out)
    importlib.import_module("fairlead.cli.history_sql").run(question, query, view)


@app.command(epilog=_EXPORT)
@asking(without=("output",))
def export(
    question: Question,
    form: Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help=", ".join(FORMATS) + ".")],
    of: Annotated[str, typer.Option(help="Rows of csv, parquet, jsonl: pods, nodes or changes.")] = "pods",
    every: Every = "",
) -> None:
    """Write the history for other programs.

    csv, parquet, jsonl: one row per pod, state of a node, or change. sniffer:
    scheduler-sniffer's plot data, pods by interval and node. trace, swf: the
    workload that was, for `fairlead simulate`.
    """
    if form not in FORMATS:
        raise CliError(f"--format {form}: give one of {', '.join(FORMATS)}")
    length = when.length("--every", every) if every else 0
    module, _, name = FORMATS[form].partition(":")
    getattr(importlib.import_module(module), name)(question._replace(output=form), of, length)
