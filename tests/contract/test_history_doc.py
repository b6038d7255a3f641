"""docs/history.md shows what the program prints: its commands are run over the past of history_support.

`FAIRLEAD_BLESS=1` writes the output anew.
"""

import asyncio
import os
import re
import shlex
import time
from pathlib import Path

import pytest
from history_support import MINUTE, PAST, T0, fill
from store_support import fresh_database
from typer.testing import CliRunner

from fairlead.cli import main, when

PAGE = Path(__file__).resolve().parents[2] / "docs" / "history.md"
BLOCK = re.compile(r"(```console\n)(.*?)(```\n)", re.DOTALL)


def output(command: str, url: str) -> list[str]:
    """What a terminal would show."""
    program, *words = shlex.split(command)
    assert program == "fairlead", command
    found = CliRunner().invoke(main.app, [*words, "--database-url", url])
    assert found.exit_code == 0, found.output
    return [line.rstrip() for line in found.output.splitlines()]


def played(page: str, url: str) -> str:
    """The page with the output of every command as it is now."""

    def block(match: re.Match[str]) -> str:
        commands = [line[2:] for line in match[2].splitlines() if line.startswith("$ ")]
        told = [f"$ {each}\n" + "".join(f"{line}\n" for line in output(each, url)) for each in commands]
        return match[1] + "".join(told) + match[3]

    return BLOCK.sub(block, page)


def test_commands_of_the_page_print_what_it_shows(tcp_url: str, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    monkeypatch.setattr(when, "now", lambda: T0 + 60 * MINUTE)
    page = PAGE.read_text(encoding="utf-8")
    with fresh_database(tcp_url) as url:
        asyncio.run(fill(url, *PAST))
        found = played(page, url)
    if os.environ.get("FAIRLEAD_BLESS") == "1":
        PAGE.write_text(found, encoding="utf-8")
        page = found
    assert len(BLOCK.findall(page)) >= 5
    assert found == page
