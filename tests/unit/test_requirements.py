"""docs/requirements.md tells the truth about the tests, and the check of it can fail."""

from pathlib import Path

import pytest

import requirements_table as table

FULL = {name: table.Requirement("Something", "open") for name in table.all_ids()}


def test_table_is_complete_and_up_to_date(capsys: pytest.CaptureFixture[str]):
    code = table.main([])
    output = capsys.readouterr().out
    if code:
        pytest.fail(output, pytrace=False)


def test_sound_data_has_no_problems():
    assert table.problems(FULL, {"F5": ["test_x.py::test_F5_x"]}) == []


@pytest.mark.parametrize(
    ("changed", "tests", "said"),
    [
        ({"F5": None}, {}, "F5 is missing"),
        ({"F33": ("Something", "open")}, {}, "F33 in requirements.toml is no requirement"),
        ({"F5": ("one two three four five six seven eight nine ten eleven", "open")}, {}, "10 words"),
        ({"F5": ("Something", "done")}, {}, "status 'done'"),
        ({"F5": ("Something", "later: ")}, {}, "status 'later: '"),
        ({"F5": ("Something", "test")}, {}, "F5 is marked as tested"),
        ({"F5": ("Something", "not applicable: no")}, {"F5": ["test_x.py::test_F5_x"]}, "not applicable"),
        ({}, {"F77": ["test_x.py::test_F77_x"]}, "names F77, which is no requirement"),
    ],
)
def test_each_problem_is_found(changed: dict, tests: dict[str, list[str]], said: str):
    data = {**FULL, **{name: entry and table.Requirement(*entry) for name, entry in changed.items()}}
    wrong = table.problems({name: entry for name, entry in data.items() if entry}, tests)
    assert len(wrong) == 1
    assert said in wrong[0]


def test_ids_are_read_from_test_names(tmp_path: Path):
    folder = tmp_path / "unit"
    folder.mkdir()
    (folder / "test_a.py").write_text(
        "def test_F5_store_down(): ...\n"
        "async def test_gangs_I6_RA1_together(): ...\n"
        "class TestX:\n    def test_last_B9(self): ...\n"
        "def helper_F6_x(): ...\ndef test_utf8_F_5(): ...\n",
        encoding="utf-8",
    )
    (folder / "helper.py").write_text("def test_F7_x(): ...\n", encoding="utf-8")
    assert table.find_tests(tmp_path) == {
        "F5": ["unit/test_a.py::test_F5_store_down"],
        "I6": ["unit/test_a.py::test_gangs_I6_RA1_together"],
        "RA1": ["unit/test_a.py::test_gangs_I6_RA1_together"],
        "B9": ["unit/test_a.py::test_last_B9"],
    }


def test_open_becomes_test_and_later_stays():
    text = (
        "[requirements]\n"
        'F5 = { title = "a", status = "open" }\n'
        'F6 = { title = "b", status = "open" }\n'
        'F55 = { title = "c", status = "later: truth" }\n'
    )
    tests = {"F5": ["test_x.py::test_F5_x"], "F55": ["test_x.py::test_F55_x"]}
    assert table.gained(table.read_data(text), tests) == ["F5"]
    after = table.read_data(table.mark_tested(text, ["F5"]))
    assert [entry.status for entry in after.values()] == ["test", "open", "later: truth"]


def test_rows_show_tests_and_what_remains():
    data = {**FULL, "F5": table.Requirement("a", "test"), "RA1": table.Requirement("b", "later: truth")}
    text = table.render(data, {"F5": ["x.py::test_F5_x"], "RA1": ["x.py::test_RA1_x"]})
    assert "| F5 | a | `x.py::test_F5_x` |\n" in text
    assert "| R-A1 | b | `x.py::test_RA1_x`<br>later: truth |\n" in text
    assert "134 requirements: 1 tested, 132 open, 1 later, 0 not applicable." in text
