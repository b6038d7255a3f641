"""`fairlead recorder tail`: what happened, row by row, as it was written; with -f what comes, too.

Registered by `cli.recorder`. Options in, `cli.recorder_tailing` called, which is imported when it is about to
run. Must not write.
"""

import importlib
from enum import StrEnum
from typing import Annotated

import typer

from fairlead.cli import when
from fairlead.cli.history_options import DatabaseUrl, DataDir, Namespace, Node, Question, Until
from fairlead.model.history import Asked

EPILOG = """Examples:

fairlead recorder tail -f

fairlead recorder tail --since 10m --object Node

fairlead recorder tail -f --name train-0 -o jsonl"""


class Form(StrEnum):
    """How rows are written."""

    table = "table"
    jsonl = "jsonl"


def tail(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    object_: Annotated[
        str, typer.Option("--object", metavar="KIND", help="Only of this kind: Pod, Node, Group, Recorder …")
    ] = "",
    name: Annotated[str, typer.Option(help="Only what has this name.")] = "",
    namespace: Namespace = "",
    node: Node = "",
    since: Annotated[
        str, typer.Option(metavar="TIME", help="All from then on, not only the last: 10m (ago), 10:30 …")
    ] = "",
    until: Until = "",
    lines: Annotated[int, typer.Option("--lines", help="How many of the last.", min=0)] = 20,
    output: Annotated[Form, typer.Option("--output", "-o", help="table or jsonl.")] = Form.table,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = "",
) -> None:
    """What happened to pods and nodes and what was decided, in the order in which it was written."""
    now = when.now()
    asked = Asked(
        name=name,
        namespace=namespace,
        node=node,
        since=when.moment("--since", since, now),
        until=when.moment("--until", until, now),
    )
    question = Question(data_dir, database_url, asked, now, output.value, None)
    importlib.import_module("fairlead.cli.recorder_tailing").run(question, object_, lines, follow)
