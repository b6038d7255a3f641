"""A fixed number of seeds of the fault simulation, each a world in which things go wrong, and none is broken.

`make fuzz` plays others, docs/fault-simulation.md says how many each night. What a story that is told here
broke once is kept in tests/data/faults, and played with them.
"""

from pathlib import Path

import pytest

from fairlead.sim import fuzz

SEEDS, AT_A_TIME = 4_000, 100
STORIES = sorted((Path(__file__).parents[1] / "data/faults").glob("*.txt"))


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_L1_L3_F32_nothing_is_broken_whatever_is_killed_missed_or_doubled(first: int):
    for seed in range(first, first + AT_A_TIME):
        wrong = fuzz.play(fuzz.draw(seed)).wrong
        assert not wrong, f"fairlead simulate --faults {seed} tells how little it takes: {wrong}"


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_L1_what_was_broken_once_is_not_again(path: Path):
    assert not fuzz.play(fuzz.read(path.read_text(encoding="utf-8"), path.name)).wrong
