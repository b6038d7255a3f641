"""The options that all commands of `fairlead history` share, and what they come to: one `Question`.

Used by `cli.history`. Checks what was typed before anything is opened. Must not import the database driver.
"""

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from fairlead.cli import when
from fairlead.cli.errors import CliError
from fairlead.model.history import Asked

PLOTS = (".svg", ".html")


class Output(StrEnum):
    """How an answer is written."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


class Question(NamedTuple):
    """What is asked, of which database, at which time (`now`), and where the answer goes."""

    data: Path | None
    url: str
    asked: Asked
    now: int
    output: str
    out: Path | None

    @property
    def filtered(self) -> bool:
        """Some pods are left out, by something else than time."""
        a = self.asked
        return bool(a.namespace or a.owner or a.labels or a.scheduler or a.group or a.name or a.open)


DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The data folder of the recorder.")]
DatabaseUrl = Annotated[str, typer.Option("--database-url", help="Your own PostgreSQL, if it writes there.")]
Since = Annotated[str, typer.Option(metavar="TIME", help="From then on: 2h (ago), 10:30, 2026-11-22T10:00.")]
Until = Annotated[str, typer.Option(metavar="TIME", help="Up to then; else now.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")]
Owner = Annotated[str, typer.Option(metavar="[KIND/]NAME", help="Only pods of this Job, ReplicaSet …")]
Label = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only pods with it; repeatable.")]
Scheduler = Annotated[str, typer.Option(help="Only pods with this schedulerName.")]
Node = Annotated[str, typer.Option(help="Only this node.")]
GroupName = Annotated[str, typer.Option("--group", help="Only pods of this group (gang).")]
Out = Annotated[Path | None, typer.Option(help="Write the answer into this file.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it, too: FILE.svg or FILE.html.")]
Answer = Annotated[Output, typer.Option("--output", "-o", help="table, json, csv or parquet.")]


def _common(
    since: Since = "",
    until: Until = "",
    namespace: Namespace = "",
    owner: Owner = "",
    label: Label = None,
    scheduler: Scheduler = "",
    node: Node = "",
    group: GroupName = "",
    output: Answer = Output.table,
    out: Out = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = "",
) -> Question:
    """The options that make a question. Raises CliError."""
    now = when.now()
    asked = Asked(
        namespace=namespace,
        owner=owner,
        labels=dict(map(_pair, label or ())),
        scheduler=scheduler,
        node=node,
        group=group,
        since=when.moment("--since", since, now),
        until=when.moment("--until", until, now),
    )
    if asked.until and asked.since >= asked.until:
        raise CliError(f"--since {since} is not before --until {until}")
    if asked.since > now:
        raise CliError(f"--since {since}: that is still to come")
    return Question(data_dir, database_url, asked, now, output.value, out)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CliError(f"--label {text}: give KEY=VALUE")
    return key, value


def asking(without: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command, whose first parameter is the question, the common options behind its own.

    Those named in `without` are left out.
    """

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command).parameters.values())[1:]
        shared = [each for name, each in inspect.signature(_common).parameters.items() if name not in without]

        def run(**given: Any) -> None:
            question = _common(**{each.name: given.pop(each.name) for each in shared})
            if question.out is not None and question.output == Output.table and "output" not in without:
                raise CliError("--out FILE goes with -o json, csv or parquet")
            command(question, **given)

        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in every}
        vars(run)["__signature__"] = inspect.Signature(every)
        return run

    return add


def drawn(plot: Path | None) -> Path | None:
    """The file for figures. Raises CliError for a name that says neither SVG nor HTML."""
    if plot is not None and plot.suffix not in PLOTS:
        raise CliError(f"--plot {plot}: name it {' or '.join(f'*{ending}' for ending in PLOTS)}")
    return plot
