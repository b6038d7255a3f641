"""The fixture `oracle_data`: skipped by name without data, a failure where data is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidy

EXAMPLE = "def test_example(oracle_data):\n    assert oracle_data('swf/small.csv').is_file()\n"


def run_example(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a test file that uses the fixture, under exactly these FAIRLEAD_ variables."""
    (tmp_path / "test_example.py").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRLEAD_", "PYTEST"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-rs", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**kept, "PYTHONPATH": str(tidy.ROOT / "tests"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_skipped_by_name_without_data(tmp_path: Path):
    run = run_example(tmp_path)
    assert run.returncode == 0, run.stdout
    assert "test_example needs swf/small.csv" in run.stdout
    assert "1 skipped" in run.stdout


@pytest.mark.parametrize("folder", ["", "there is no such folder"])
def test_failure_where_data_is_required(tmp_path: Path, folder: str):
    run = run_example(tmp_path, FAIRLEAD_REQUIRE_DATA="1", FAIRLEAD_TEST_DATA=folder)
    assert run.returncode == 1, run.stdout
    assert "test_example needs" in run.stdout


def test_found_where_it_is(tmp_path: Path):
    (tmp_path / "swf").mkdir()
    (tmp_path / "swf" / "small.csv").touch()
    run = run_example(tmp_path, FAIRLEAD_REQUIRE_DATA="1", FAIRLEAD_TEST_DATA=str(tmp_path))
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout
