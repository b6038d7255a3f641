"""`fairlead audit`: ask the scheduler to hold its picture against the cluster, and show what comes of it.

Registered by `cli.main`. stdout carries the verdict, each difference and the table. The exit code is for
scripts: 0 equal, 1 differences (repaired or not), 2 no audit could be made.
"""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.errors import CliError, tell

if TYPE_CHECKING:
    from fairlead.model.audit import Report

EPILOG = """Examples:
fairlead audit

fairlead audit --no-repair --table

fairlead audit -o json | jq .differences

Exit code: 0 equal, 1 differences (repaired or not), 2 no audit could be made."""


class Form(StrEnum):
    """How the answer is printed."""

    text = "text"
    wide = "wide"
    json = "json"


def audit(
    output: Annotated[Form, typer.Option("--output", "-o", help="text, wide or json.")] = Form.text,
    table: Annotated[
        bool, typer.Option("--table", "-t", help="Each node as Fairlead sees it and as the cluster says.")
    ] = False,
    no_repair: Annotated[bool, typer.Option("--no-repair", help="Only look; change nothing.")] = False,
    server: Annotated[
        str,
        typer.Option(
            "--server", help="Address of a scheduler; else $FAIRLEAD_SERVER, else the data folder's."
        ),
    ] = "",
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")] = None,
) -> None:
    """Hold what the scheduler sees against a fresh list of the cluster; name and repair what differs."""
    from fairlead.cli import ask

    try:
        where = ask.Where(server, data_dir)
        report = ask.audit(where, repair=not no_repair, nodes=table or output is Form.json)
    except CliError as error:
        tell(error)
        raise SystemExit(2) from None
    _show(report, output, table)
    if report.differences:
        raise SystemExit(1)


def _show(report: "Report", output: Form, table: bool) -> None:
    from fairlead.cli import audit_table, tables

    if output is Form.json:
        import msgspec

        return typer.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    out = tables.console(output is Form.wide)
    tables.show(out, audit_table.verdict(report))
    for difference in report.differences:
        tables.show(out, audit_table.line(difference))
    if table and report.rows:
        tables.show(out, audit_table.table(report, output is Form.wide, out.width))
    return None
