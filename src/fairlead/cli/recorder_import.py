"""`fairlead recorder import LOG`: options in, `cli.recorder_import_run` called.

Registered by `cli.recorder`. Must stay cheap to import, and hold no logic of its own.
"""

import importlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EPILOG = "Example: fairlead recorder import sniffer.log"


class Form(StrEnum):
    """How the result is printed."""

    table = "table"
    json = "json"


def import_(
    file: Annotated[Path, typer.Argument(help="The sniffer's log, also packed as .gz; - reads stdin.")],
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where the recorder's database is; else as it has it.")
    ] = None,
    database_url: Annotated[
        str, typer.Option("--database-url", help="Your own PostgreSQL, if the recorder uses one.")
    ] = "",
    output: Annotated[Form, typer.Option("--output", "-o", help="table or json.")] = Form.table,
) -> None:
    """Import a log of scheduler-sniffer. Once more adds nothing; one that has grown adds what is new."""
    run = importlib.import_module("fairlead.cli.recorder_import_run").run
    run(str(file), data_dir, database_url, output is Form.json)
