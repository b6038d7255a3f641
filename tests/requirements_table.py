"""Makes docs/requirements.md from tests/data/requirements.toml and the names of the tests, and checks both.

A test covers requirement F5 when its name contains `_F5_` (R-A1 is written RA1):

    python tests/requirements_table.py            what is open, what is wrong; exit 1 if anything is
    python tests/requirements_table.py --write    the same after marking tested ones and writing the table
"""

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
DATA = TESTS / "data" / "requirements.toml"
TABLE = TESTS.parent / "docs" / "requirements.md"

SERIES = {"F": 32, "L": 15, "I": 21, "B": 29, "D": 13, "RA": 14, "RB": 10}
HEADINGS = {
    "F": "Features and plans of fluxnetes",
    "L": "Limits of fluence",
    "I": "Issues of both",
    "B": "Bugs not to repeat",
    "D": "Goals of kube-flux",
    "RA": "External schedulers",
    "RB": "Recorder",
}
_ID = re.compile(r"(?:[FLIBD]|R[AB])\d+")
_STATUS = re.compile(r"test|open|later: \S.*|not applicable: \S.*")


class Requirement(NamedTuple):
    """One line of the data file."""

    title: str
    status: str


Requirements = Mapping[str, Requirement]
Tests = Mapping[str, list[str]]


def all_ids() -> list[str]:
    """Every id there is, in the order of the table."""
    return [f"{series}{number}" for series, most in SERIES.items() for number in range(1, most + 1)]


def read_data(text: str) -> dict[str, Requirement]:
    """The data file's lines by id."""
    return {name: Requirement(**entry) for name, entry in tomllib.loads(text)["requirements"].items()}


def ids_of(test: str) -> list[str]:
    """The ids in a test's name: whole words between underscores."""
    return [word for word in test.split("_")[1:] if _ID.fullmatch(word)]


def find_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Id -> the tests that name it, as `file::test`, from the sources that pytest would collect."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_"):
                for name in ids_of(node.name):
                    found.setdefault(name, []).append(f"{path.relative_to(folder).as_posix()}::{node.name}")
    return found


def problems(requirements: Requirements, tests: Tests) -> list[str]:
    """What keeps the data file and the tests from being a sound table."""
    known = all_ids()
    wrong = [f"{name} is missing from {DATA.name}" for name in known if name not in requirements]
    wrong += [f"{name} in {DATA.name} is no requirement" for name in requirements if name not in known]
    for name, (title, status) in requirements.items():
        if not title.strip() or len(title.split()) > 10:
            wrong.append(f"{name}: the title must have 1 to 10 words")
        if not _STATUS.fullmatch(status):
            wrong.append(f"{name}: status {status!r} is none of test, open, later: …, not applicable: …")
        if status == "test" and name not in tests:
            wrong.append(f"{name} is marked as tested, but no test's name contains _{name}_")
        if status.startswith("not applicable") and name in tests:
            wrong.append(f"{name} is marked as not applicable, but {tests[name][0]} tests it")
    wrong += [
        f"{test} names {name}, which is no requirement"
        for name, named in tests.items()
        if name not in known
        for test in named
    ]
    return wrong


def gained(requirements: Requirements, tests: Tests) -> list[str]:
    """Ids marked open that have a test now."""
    return [name for name, entry in requirements.items() if entry.status == "open" and name in tests]


def mark_tested(text: str, names: list[str]) -> str:
    """The data file with these ids' status set to "test"; everything else stays as it was written."""
    for name in names:
        text = re.sub(rf'(?m)^({name} = .*status = )"open"', r'\1"test"', text)
    return text


def render(requirements: Requirements, tests: Tests) -> str:
    """The table as Markdown."""
    lines = [
        "# Requirements and their tests",
        "",
        "Made by `make requirements` from `tests/data/requirements.toml` and the tests' names; do not edit.",
        "",
        summary(requirements),
    ]
    for series, most in SERIES.items():
        lines += ["", f"## {HEADINGS[series]}", "", "| id | requirement | test |", "| --- | --- | --- |"]
        for number in range(1, most + 1):
            name = f"{series}{number}"
            if name in requirements:
                lines.append(_row(name, requirements[name], tests.get(name, [])))
    return "\n".join(lines) + "\n"


def _row(name: str, entry: Requirement, tests: list[str]) -> str:
    cells = [f"`{test}`" for test in tests]
    if entry.status != "test":
        cells.append(entry.status)
    shown = re.sub(r"^R([AB])", r"R-\1", name)
    return f"| {shown} | {entry.title} | {'<br>'.join(cells)} |"


def summary(requirements: Requirements) -> str:
    """How many requirements are in which state, as one line."""
    count = dict.fromkeys(("test", "open", "later", "not applicable"), 0)
    for entry in requirements.values():
        count[entry.status.partition(":")[0]] += 1
    return (
        f"{len(requirements)} requirements: {count['test']} tested, {count['open']} open, "
        f"{count['later']} later, {count['not applicable']} not applicable."
    )


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    text = DATA.read_text(encoding="utf-8")
    requirements, tests = read_data(text), find_tests()
    wrong = problems(requirements, tests)
    ready = gained(requirements, tests)
    if ready:
        print(f"open, and tested now: {', '.join(ready)}")
    if "--write" in arguments and not wrong:
        DATA.write_text(mark_tested(text, ready), encoding="utf-8")
        requirements = read_data(DATA.read_text(encoding="utf-8"))
        TABLE.write_text(render(requirements, tests), encoding="utf-8")
    elif not TABLE.exists() or TABLE.read_text(encoding="utf-8") != render(requirements, tests):
        wrong.append(f"docs/{TABLE.name} is out of date: run `make requirements`")
    elif ready:
        wrong.append("run `make requirements` to mark them as tested")
    still = [name for name, entry in requirements.items() if entry.status == "open"]
    print(f"open ({len(still)}): {', '.join(still) or 'none'}")
    print(summary(requirements))
    for problem in wrong:
        print(f"wrong: {problem}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
