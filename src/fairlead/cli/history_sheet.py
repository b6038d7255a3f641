"""Rows for programs: CSV, JSON, JSON lines and Parquet, written while they come.

Used by the commands of `fairlead history`. Times are milliseconds since the epoch in JSON, RFC 3339 in UTC
in CSV, timestamps in Parquet; what is not known is null or an empty field. Must not know what rows mean.
"""

import csv
import importlib
import io
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec

from fairlead.cli.errors import CliError

FORMS = ("json", "jsonl", "csv", "parquet")
_PORTION = 50_000


class Field(NamedTuple):
    """A column. `kind`: text, int, float, bool, time (milliseconds since the epoch) or json (any value)."""

    name: str
    kind: str = "text"


Cells = Sequence[Any]
"""As many as there are fields; None is unknown."""


class Writer(Protocol):
    """Takes rows until it is closed, which completes the file."""

    def row(self, cells: Cells) -> None: ...

    def close(self) -> None: ...


def writer(form: str, fields: Sequence[Field], out: BinaryIO) -> Writer:
    """For one of FORMS. Raises CliError where Parquet cannot be written."""
    if form == "csv":
        return Csv(fields, out)
    if form == "parquet":
        return Parquet(fields, out)
    return Json(fields, out, lines=form == "jsonl")


def write(form: str, fields: Sequence[Field], rows: Iterable[Cells], out: BinaryIO) -> None:
    """All of them."""
    to = writer(form, fields, out)
    for cells in rows:
        to.row(cells)
    to.close()


class Json:
    """One array of objects, one object a line; or lines alone."""

    def __init__(self, fields: Sequence[Field], out: BinaryIO, lines: bool) -> None:
        self._names = [field.name for field in fields]
        self._out, self._lines, self._begun = out, lines, False

    def row(self, cells: Cells) -> None:
        line = msgspec.json.encode(dict(zip(self._names, cells, strict=True)))
        if self._lines:
            self._out.write(line + b"\n")
        else:
            self._out.write((b",\n" if self._begun else b"[\n") + line)
        self._begun = True

    def close(self) -> None:
        if not self._lines:
            self._out.write(b"\n]\n" if self._begun else b"[]\n")


class Csv:
    """With a head; objects as JSON."""

    def __init__(self, fields: Sequence[Field], out: BinaryIO) -> None:
        self._kinds = [field.kind for field in fields]
        self._text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
        self._csv = csv.writer(self._text, lineterminator="\n")
        self._csv.writerow([field.name for field in fields])

    def row(self, cells: Cells) -> None:
        self._csv.writerow([_plain(kind, cell) for kind, cell in zip(self._kinds, cells, strict=True)])

    def close(self) -> None:
        self._text.flush()
        self._text.detach()


def _plain(kind: str, cell: Any) -> Any:
    if cell is None:
        return ""
    if kind == "time":
        return rfc3339(cell)
    return msgspec.json.encode(cell).decode() if kind in ("json", "bool") else cell


def rfc3339(at: int) -> str:
    """In UTC, to the millisecond."""
    then = datetime.fromtimestamp(at // 1000, UTC)
    return f"{then:%Y-%m-%dT%H:%M:%S}.{at % 1000:03}Z"


class Parquet:
    """Through polars, in portions; the file is written at the end."""

    def __init__(self, fields: Sequence[Field], out: BinaryIO) -> None:
        self._polars = polars()
        types = {
            "int": self._polars.Int64,
            "float": self._polars.Float64,
            "bool": self._polars.Boolean,
            "time": self._polars.Datetime("ms", "UTC"),
        }
        self._json = [field.kind == "json" for field in fields]
        self._schema = {field.name: types.get(field.kind, self._polars.String) for field in fields}
        self._frames: list[Any] = []
        self._rows: list[Cells] = []
        self._out = out

    def row(self, cells: Cells) -> None:
        self._rows.append(
            [
                msgspec.json.encode(cell).decode() if json and cell is not None else cell
                for json, cell in zip(self._json, cells, strict=True)
            ]
        )
        if len(self._rows) >= _PORTION:
            self._pack()

    def _pack(self) -> None:
        self._frames.append(self._polars.DataFrame(self._rows, schema=self._schema, orient="row"))
        self._rows = []

    def close(self) -> None:
        self._pack()
        whole = io.BytesIO()  # polars would wrap a fault of the disk in one of its own
        self._polars.concat(self._frames).write_parquet(whole)
        self._out.write(whole.getbuffer())


def polars() -> Any:
    """The library. Raises CliError if it is not installed: it is no part of the scheduler."""
    try:
        return importlib.import_module("polars")
    except ImportError:
        raise CliError("Parquet needs polars: pip install 'fairlead[analysis]'") from None


class Target:
    """Where an answer goes: a file that is complete or not there, or stdout. Use it in a `with`."""

    def __init__(self, path: Path | None, form: str) -> None:
        if path is None and form == "parquet" and sys.stdout.isatty():
            raise CliError("Parquet is not for a terminal: give --out FILE, or redirect")
        self._path = path
        self._part = path.with_name(path.name + ".part") if path else None

    def __enter__(self) -> BinaryIO:
        try:
            self.file: BinaryIO = self._part.open("wb") if self._part else sys.stdout.buffer
        except OSError as error:
            raise CliError(f"--out {self._path}: {error.strerror or error}") from error
        return self.file

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._part is None or self._path is None:
            self.file.flush()
            return
        try:
            self.file.close()
            if kind is None:
                self._part.replace(self._path)
        except OSError as error:
            if kind is None:  # else the first fault is told
                raise CliError(f"--out {self._path}: {error.strerror or error}") from error
        finally:
            self._part.unlink(missing_ok=True)
