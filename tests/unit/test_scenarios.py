"""Every scenario file is one test: a shift report that the engine must live up to."""

from pathlib import Path

import pytest

from fairlead.sim import scenario

FOLDER = Path(__file__).resolve().parent.parent / "data" / "scenarios"
FILES = sorted(FOLDER.glob("*.scn"))


def play(name: str) -> scenario.Report:
    return scenario.run(scenario.read(FOLDER / f"{name}.scn"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path):
    scenario.run(scenario.read(path))
