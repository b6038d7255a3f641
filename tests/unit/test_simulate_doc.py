"""docs/simulate.md shows what the program prints: its commands are run and print what stands there.

`FAIRLEAD_BLESS=1` writes the output anew. How many jobs were played in a second is left out.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairlead.cli import main
from fairlead.cli.errors import user_errors

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "simulate.md"
BLOCK = re.compile(r"(```console\n)(.*?)(```\n)", re.DOTALL)
SPEED = re.compile(r"^\S+: [\d,]+ jobs? in \S+ s, [\d,]+ jobs/s$")


def output(command: str) -> list[str]:
    """What a terminal would show, stdout and stderr as they come."""
    program, *words = shlex.split(command)
    if program == "cat":
        return Path(words[0]).read_text(encoding="utf-8").splitlines()
    assert program == "fairlead", command
    found = CliRunner().invoke(main.app, words)
    lines = [line.rstrip() for line in found.output.splitlines() if not SPEED.match(line)]
    if isinstance(found.exception, user_errors()):
        return [*lines, f"fairlead: {found.exception}"]
    assert found.exit_code == 0, found.output
    return lines


def played(page: str) -> str:
    """The page with the output of every command as it is now."""

    def block(match: re.Match[str]) -> str:
        commands = [line[2:] for line in match[2].splitlines() if line.startswith("$ ")]
        told = [f"$ {command}\n" + "".join(f"{line}\n" for line in output(command)) for command in commands]
        return match[1] + "".join(told) + match[3]

    return BLOCK.sub(block, page)


def test_commands_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    for name in ("tests", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    found = played(page)
    if os.environ.get("FAIRLEAD_BLESS") == "1":
        PAGE.write_text(found, encoding="utf-8")
        page = found
    assert len(BLOCK.findall(page)) >= 6
    assert found == page
