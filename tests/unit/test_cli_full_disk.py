"""A disk that is full: one line says so, and no half of an answer stays where a whole one is looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cli import errors, history_plot
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_sheet import Field, Target, write
from fairlead.draw.svg import Panel
from fairlead.model.history import Asked

FULL = Path("/dev/full")
FIELDS = (Field("name"),)
ROWS = [("x" * 100,)] * 1000


def on_full_disk(path: Path) -> Path:
    """The file, whose parts are written where there is no room."""
    path.with_name(path.name + ".part").symlink_to(FULL)
    return path


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]], ids=["while-it-is-written", "when-it-is-closed"])
@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
def test_a_file_that_has_no_room_is_told_and_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, rows: list[tuple[str]]
) -> None:
    path = on_full_disk(tmp_path / "answer")
    with pytest.raises(SystemExit) as ended, errors.told(), Target(path, form) as out:
        write(form, FIELDS, rows, out)
    line = capsys.readouterr().err
    assert ended.value.code == 1
    assert line.startswith("fairlead: ") and "No space left on device" in line and line.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_file_of_before_stays_when_there_is_no_room(tmp_path: Path) -> None:
    path = on_full_disk(tmp_path / "answer.csv")
    path.write_text("of before")
    with pytest.raises(CliError, match=r"answer\.csv: No space left"), Target(path, "csv") as out:
        out.write(b"x")
    assert path.read_text() == "of before"


def test_a_figure_that_has_no_room_is_not_there(tmp_path: Path) -> None:
    plot = on_full_disk(tmp_path / "answer.html")
    question = Question(None, "", Asked(), 1_795_348_800_000, "table", None)
    with pytest.raises(CliError, match=r"--plot .*answer\.html: No space left"):
        history_plot._save(plot, question, "title", [], [Panel("panel", "", 10, "")])  # pyright: ignore
    assert not list(tmp_path.iterdir())


def test_standard_output_without_room_is_one_line() -> None:
    with FULL.open("wb") as full:
        words = [sys.executable, "-m", "fairlead", "simulate", "--faults", "1", "--steps", "1"]
        result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "fairlead: the answer is not written whole: No space left on device" in result.stderr
