"""Print a benchmark's rows as a table and keep its last result in docs/performance.md.

Called by every benchmark. Each has one section there, found by its heading and replaced whole.
"""

import os
import pathlib
import platform
import re
from datetime import date

from rich.console import Console
from rich.table import Table

from fairlead import __version__

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "performance.md"
_HEAD = "# Performance\n\nWritten by the benchmarks in `bench/`; each section is its command's last run.\n"


def report(name: str, command: str, rows: list[dict[str, str]], notes: str = "") -> None:
    """Show `rows` (same keys each) and replace the section `name` of the page."""
    table = Table(title=f"{name}: {command}")
    for key in rows[0]:
        table.add_column(key, justify="right")
    for row in rows:
        table.add_row(*row.values())
    Console(width=120).print(table)
    if notes:
        Console(width=120).print(notes)
    _keep(name, command, rows, notes)


def _keep(name: str, command: str, rows: list[dict[str, str]], notes: str) -> None:
    keys = list(rows[0])
    lines = [f"## {name}", "", f"`{command}`", ""]
    lines += ["| " + " | ".join(keys) + " |", "|" + " ---: |" * len(keys)]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    lines += ["", *([notes, ""] if notes else [])]
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    lines += [f"Fairlead {__version__}, {date.today()}, {machine}.", ""]
    section = "\n".join([*lines, ""])
    text = PAGE.read_text() if PAGE.exists() else _HEAD
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.M | re.S)
    found = pattern.search(text)
    text = text[: found.start()] + section + text[found.end() :] if found else f"{text.rstrip()}\n\n{section}"
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
