"""`fairlead history sql`: which views there are, or the answer to one statement that reads.

Called by `cli.history`, which imports this late. The list comes from the comments in the migrations, so that
it is there without a database. A statement runs in a read-only transaction, alone.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg

from fairlead.cli import tables
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_read import ask, tell
from fairlead.cli.history_sheet import Field, Target, write
from fairlead.cli.tables import Column
from fairlead.store import schema
from fairlead.store.folder import recorded_data_dir
from fairlead.store.schema import Connection

_COMMENT = re.compile(
    r"^COMMENT ON (VIEW|COLUMN) (\w+)(?:\.(\w+))? IS\s+((?:'(?:[^']|'')*'\s*)+);", re.MULTILINE
)
_STRING = re.compile(r"'((?:[^']|'')*)'")
_OURS: tuple[type[Any], ...] = (bool, int, float, dict, list)


def run(question: Question, query: str, view: str) -> None:
    """The list, one view's columns, or an answer. Raises CliError for SQL that cannot run."""
    if query:
        return _answer(question, query)
    known = documented()
    if view and view not in known:
        raise CliError(f"--view {view}: there is none; fairlead history sql lists them")
    out = tables.console()
    told = known[view] if view else {name: columns[""] for name, columns in known.items()}
    columns = (Column("COLUMN" if view else "VIEW"), Column("MEANING", cut="fold"))
    if view:
        tell(told.pop(""))
    rows = sorted(told.items()) if not view else list(told.items())
    tables.show(out, tables.lines(columns, rows, False, out.width))
    tell(f"columns: --view NAME; answers: a query behind this command; connect: {_connect(question)}")
    return None


def _connect(question: Question) -> str:
    """What to type; an address is not repeated, it may have a password in it."""
    if question.url:
        return "psql and your --database-url"
    return (
        f'psql "$(fairlead db url --data-dir {question.data or recorded_data_dir()})", or fairlead db shell'
    )


def documented() -> dict[str, dict[str, str]]:
    """Comments by view and column, in their order; "" is the view's own. The last migration has its way."""
    found: dict[str, dict[str, str]] = {}
    views = {name for name, _, _ in _comments("VIEW")}
    for name, column, text in (*_comments("VIEW"), *_comments("COLUMN")):
        if name in views:
            found.setdefault(name, {})[column] = text
    return found


def _comments(kind: str) -> Iterator[tuple[str, str, str]]:
    for migration in schema.migrations():
        for match in _COMMENT.finditer(migration.script.decode()):
            if match[1] == kind:
                text = "".join(part.replace("''", "'") for part in _STRING.findall(match[4]))
                yield match[2], match[3] or "", text


def _answer(question: Question, query: str) -> None:
    async def read(conn: Connection) -> tuple[list[str], list[tuple[Any, ...]]]:
        try:
            # Prepared: a second statement behind it, which could leave the transaction, is refused.
            answer = await conn.execute(query.encode(), prepare=True)
            if answer.description is None:
                raise CliError("the statement gives no rows: only such that read are run")
            return [column.name for column in answer.description], await answer.fetchall()
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            raise CliError(_reason(error)) from error
        except (psycopg.InternalError, psycopg.IntegrityError) as error:
            raise CliError(_reason(error)) from error

    names, found = ask(question, read)
    if question.output == "table":
        out = tables.console()
        columns = [Column(name.upper(), cut="middle") for name in names]
        lines = [["-" if cell is None else str(_plain(cell)) for cell in row] for row in found]
        tables.show(out, tables.lines(columns, lines, False, out.width))
        return tell(f"{len(found):,} row{'' if len(found) == 1 else 's'}")
    if question.output != "csv" and len(set(names)) < len(names):
        raise CliError(
            f"-o {question.output}: two columns have one name ({', '.join(names)}): say AS another"
        )
    plain = [[_plain(cell) for cell in row] for row in found]
    fields = [Field(name, _kind([row[i] for row in plain])) for i, name in enumerate(names)]
    with Target(question.out, question.output) as out:
        write(question.output, fields, plain, out)
    return None


def _reason(error: psycopg.Error) -> str:
    """In one line, with the hint where the server has one."""
    diag = error.diag
    text = " ".join(str(diag.message_primary or error).split())
    return f"{text} ({diag.message_hint})" if diag.message_hint else text


def _kind(cells: list[Any]) -> str:
    """What a column's values have in common."""
    kinds: set[type[Any]] = {type(cell) for cell in cells if cell is not None}
    if kinds <= {bool}:
        return "bool"
    if kinds <= {int}:
        return "int"
    if kinds <= {int, float}:
        return "float"
    return "json" if kinds & {dict, list} else "text"


def _plain(cell: Any) -> Any:
    """Numbers, truth and JSON as they are, all else as PostgreSQL's text would have it."""
    if isinstance(cell, Decimal) and cell.is_finite():
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    return cell if cell is None or type(cell) in _OURS else str(cell)
