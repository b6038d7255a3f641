"""The default filters against kube-scheduler's own verdicts: per plugin, codes, reasons, and who is feasible.

`tests/data/filters/cases.jsonl` holds small clusters, at least one for every reason that a plugin can give;
their verdicts are the official plugins' (1.36.3), too.
"""

import json
import lzma
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from fairlead.cli import filter as filters
from fairlead.cli.main import app
from fairlead.core.filters import rank
from fairlead.core.filters.run import PLUGINS
from fairlead.wire import cases
from fairlead.wire.files import FileError

OWN = Path(__file__).parent.parent / "data" / "filters" / "cases.jsonl"


def answered(line: str) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(filters.answer(cases.case(line))))


def expected(case: dict[str, Any]) -> dict[str, Any]:
    """What the case expects, in the form of our answer."""

    def plain(verdicts: dict[str, Any]) -> dict[str, Any]:
        return {key: {"code": each["code"], "reasons": each["reasons"]} for key, each in verdicts.items()}

    told = case["expect"]
    found = {name: plain(verdicts) for name, verdicts in told["filter"].items() if verdicts}
    answer = {"id": case["id"], "feasible": told["feasible"], "filter": found}
    return answer | ({"preEnqueue": plain(told["preEnqueue"])} if told.get("preEnqueue") else {})


def check(lines: Iterable[str]) -> Counter[str]:
    """Fails at the first difference; returns how often each plugin rejected a node."""
    seen: Counter[str] = Counter()
    for line in lines:
        case = json.loads(line)
        ours, theirs = answered(line), expected(case)
        for name in PLUGINS:
            assert ours["filter"].get(name) == theirs["filter"].get(name), f"{case['id']}: {name}"
            seen[name] += len(theirs["filter"].get(name, {}))
        assert ours == theirs, case["id"]
        seen["cases"] += 1
    return seen


def own_cases() -> list[str]:
    return OWN.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", own_cases(), ids=lambda line: json.loads(line)["id"])
def test_own_cases_have_the_verdicts_of_kube_scheduler(line: str) -> None:
    check([line])


def test_own_cases_keep_every_plugin_alive() -> None:
    seen = check(own_cases())
    assert [name for name in PLUGINS if not seen[name]] == []


def test_every_verdict_equals_kube_schedulers(oracle_data: Callable[[str], Path]) -> None:
    with lzma.open(oracle_data("parity/cases.jsonl.xz"), "rt", encoding="utf-8") as lines:
        seen = check(lines)
    assert seen["cases"] > 400
    without = {"NodeDeclaredFeatures"}  # no case there asks for a feature
    assert [name for name in PLUGINS if not seen[name]] == sorted(without)


# -- the command ---------------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["filter", *arguments])


def test_command_answers_a_line_per_case() -> None:
    lines = run(str(OWN), "--json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [expected(json.loads(line)) for line in own_cases()]


def test_command_shows_a_table() -> None:
    text = run(str(OWN)).stdout
    assert "feasible 0 of 1 node" in text
    assert "REASONS" in text and "NodeResourcesFit" in text and "Insufficient" in text


def test_packed_files_are_read(tmp_path: Path) -> None:
    packed = tmp_path / "cases.jsonl.xz"
    packed.write_bytes(lzma.compress(OWN.read_bytes()))
    assert run(str(packed), "--json").stdout == run(str(OWN), "--json").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "1: Input data was truncated"),
        ('\n{"id": "a"}', "2: Object missing required field `pod`"),
        (
            '{"id": "a", "nodes": [], "pod": {"metadata": {"name": "p", "namespace": "n"},'
            ' "spec": {"containers": [{"resources": {"requests": {"cpu": "lots"}}}]}}}',
            "1: pod n/p: unreadable: 'lots' is not a quantity (expected for example 500m, 2, 1.5Gi)",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        list(cases.read(path))
    assert str(caught.value) == f"{path}:{message}"


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"give a \.jsonl file"):
        list(cases.read(tmp_path / "cases.yaml"))


# -- scores --------------------------------------------------------------------------------------------

SCORED = OWN.with_name("scores.jsonl")


def check_scores(lines: Iterable[str]) -> Counter[str]:
    """Fails at the first difference; returns how often each plugin scored."""
    seen: Counter[str] = Counter()
    for line in lines:
        told = json.loads(line)["expect"]
        ours = json.loads(msgspec.json.encode(filters.answer(cases.case(line), True)))
        assert ours.get("scoreError") == told.get("scoreError"), told
        assert ours.get("scores", {}) == told.get("scores", {}), json.loads(line)["id"]
        seen.update(name for node in told.get("scores", {}).values() for name in node)
        seen["errors"] += "scoreError" in told
    return seen


def test_own_cases_have_the_scores_of_kube_scheduler() -> None:
    seen = check_scores(SCORED.read_text(encoding="utf-8").splitlines())
    assert [name for name in (*rank.PLUGINS, "errors") if not seen[name]] == []


def test_every_score_equals_kube_schedulers(oracle_data: Callable[[str], Path]) -> None:
    with lzma.open(oracle_data("parity/cases.jsonl.xz"), "rt", encoding="utf-8") as lines:
        seen = check_scores(lines)
    assert [name for name in (*rank.PLUGINS, "errors") if not seen[name]] == []


def test_command_ranks_what_is_left() -> None:
    (line, *_) = run(str(SCORED), "--json", "--scores").stdout.splitlines()
    assert "scores" in json.loads(line)
    text = run(str(SCORED), "--scores").stdout
    assert "TaintToleration" in text and "total" in text and "no scores: running PreScore" in text
