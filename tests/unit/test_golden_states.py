"""Golden states: a script of what happens to a cluster, and the whole picture that must come of it (D11).

Each file of tests/data/states is composed by hand. `sim.scenario` explains the table.
"""

from pathlib import Path

import pytest

from fairlead.sim import scenario, table
from fairlead.sim.scenario import ScenarioError

FOLDER = Path(__file__).resolve().parent.parent / "data" / "states"
FILES = sorted(FOLDER.glob("*.scn"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_D11_golden_state(path: Path):
    script = scenario.read(path)
    tables = [part for step in script.steps for part in step.expected if part.startswith("state")]
    assert tables, "no state is expected"
    assert all("\n" in each for each in tables)
    scenario.run(script)


def test_D2_D3_the_two_states_of_the_deck_are_among_them():
    assert (FOLDER / "deck.scn") in FILES and len(FILES) >= 14


# -- a wrong table fails -----------------------------------------------------------------------------

SCRIPT = """
cluster 2 nodes cpu=4 gpu=1
00:00 submit a 2x cpu=2
  +   submit b cpu=4 gpu=2
  +   foreign x on n1 cpu=1    -> start a n0*2; state
"""
RIGHT = """
      n0  cpu=4/4 gpu=0/1  | a: a-0 a-1
      n1  cpu=1/4          | foreign: x
      -                    | b: b
"""


def playing(states: str) -> None:
    scenario.run(scenario.parse(SCRIPT.strip() + states))


def test_D11_the_right_table_holds_in_any_order_of_its_lines():
    playing(RIGHT)
    playing("".join(f"{line}\n" for line in ["", *reversed(RIGHT.strip("\n").splitlines())]))


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("cpu=4/4", "cpu=3/4", "found     n0 cpu=4/4 gpu=0/1 | a: a-0 a-1"),
        ("cpu=4/4", "cpu=4/8", "expected  n0 cpu=4/8 gpu=0/1"),
        ("cpu=4/4", "disk=1/1", "found     n0 disk=0/0 gpu=0/1"),
        ("a-0 a-1", "a-0", "expected  n0 cpu=4/4 gpu=0/1 | a: a-0\n"),
        ("a-0 a-1", "a-0 a-1 a-2", "found     n0 cpu=4/4 gpu=0/1 | a: a-0 a-1\n"),
        ("a-0 a-1", "a-0 a-1*", "expected  n0 cpu=4/4 gpu=0/1 | a: a-0 a-1*"),
        ("| a: a-0 a-1", "", "expected  n0 cpu=4/4 gpu=0/1\n"),
        ("a: a-0", "b: a-0", "| b: a-0 a-1"),
        ("foreign: x", "x: x", "found     n1 cpu=1/4 | foreign: x"),
        ("foreign: x", "foreign: x | a: a-2", "found     n1 cpu=1/4 | foreign: x\n"),
        ("n1  cpu=1/4 ", "n1 gone cpu=1/4", "expected  n1 gone cpu=1/4"),
        ("      n1  cpu=1/4          | foreign: x\n", "", "expected  nothing of n1"),
        ("      -                    | b: b\n", "", "found     - | b: b"),
        ("| b: b", "| b: b\n      n2  cpu=0/4", "found     nothing of n2"),
    ],
)
def test_D11_a_wrong_table_fails_and_says_where(right: str, wrong: str, told: str):
    assert right in RIGHT
    with pytest.raises(ScenarioError) as failure:
        playing(RIGHT.replace(right, wrong))
    assert "expected  state" in str(failure.value)
    assert told in f"{failure.value}\n"


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("cpu=4/4", "cpu=4", "'cpu=4' does not say used/capacity"),
        ("cpu=4/4", "cpu=lots/4", "'lots' is not a quantity"),
        ("n1  cpu", "n1 asleep cpu", "'asleep' is nothing that a node can be"),
        ("a: a-0 a-1", "a-0 a-1", "'a-0 a-1' does not say GROUP: POD POD"),
        ("a: a-0 a-1", "a:", "'a:' does not say GROUP: POD POD"),
        ("n1  cpu=1/4 ", "n0-n1  cpu=1/4 ", "n0 has two lines"),
        (RIGHT, "", "a state has a line for each node below it"),
    ],
)
def test_D11_a_table_that_cannot_be_read_is_told(right: str, wrong: str, told: str):
    with pytest.raises(ScenarioError, match="cannot be read") as failure:
        playing(RIGHT.replace(right, wrong))
    assert told in str(failure.value)


def test_D11_a_state_that_went_wrong_is_found():
    """Compared is what the state says: should it lose count, the table is not met."""
    script = scenario.parse(f"{SCRIPT.strip()}{RIGHT}00:01 later  -> state{RIGHT}")
    report = scenario.Report(script)
    report.play(script.steps[0])
    state = report.world.engine.state
    report.world.check_always = False
    state.inventory.free[state.inventory.resources["cpu"], 1] -= 1000
    with pytest.raises(ScenarioError, match=r"found +n1 cpu=2/4"):
        report.play(script.steps[1])


def test_D11_ranges_of_nodes_are_one_line():
    rows = table.read("n0-n2 cordoned cpu=0/4\n- | b: b-10 b-2")
    assert list(rows) == ["n0", "n1", "n2", "-"]
    assert rows["n1"] == table.Row("n1", ("cordoned",), {"cpu": (0, 4000)}, {})
    assert rows["-"].parts == {"b": ("b-2", "b-10")}
