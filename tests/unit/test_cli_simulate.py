"""`fairlead simulate`: options, tables, verdict, files, interrupts, scenarios. The player is made up."""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sim_results import SECOND, job, result, small
from typer.testing import CliRunner
from typer.testing import Result as Run

from fairlead.cli import main, simulate, simulate_run, simulate_show, simulate_words
from fairlead.cli.errors import CliError
from fairlead.model.settings import QueueSettings, Settings
from fairlead.sim import report
from fairlead.sim.workload import Arrival, Fault, Result, Workload

WORKLOAD = Workload("small.csv", (), tuple(Arrival(0, n, (), 1, 1, 1) for n in "abcd"), 4)
SCENARIOS = Path(__file__).parent.parent / "data" / "scenarios"
Play = Callable[..., Result]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An input whose reading and playing are made up; what they were asked is not looked at."""
    path = tmp_path / "small.csv"
    path.write_text("job_id,submit,run,procs,estimate\n", encoding="utf-8")
    monkeypatch.setattr(simulate_run.inputs, "load", lambda *_, **__: WORKLOAD)
    played(monkeypatch, lambda _, settings, **__: small(settings.queues[0].policy))
    yield path


def played(monkeypatch: pytest.MonkeyPatch, play: Play) -> None:
    monkeypatch.setattr(simulate_run.play, "play", play)


def run(*words: object) -> Run:
    return CliRunner().invoke(main.app, ["simulate", *map(str, words)])


def complaint(*words: object) -> str:
    """The one line that a mistake of the user's comes to."""
    found = run(*words)
    assert isinstance(found.exception, CliError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


# -- options -----------------------------------------------------------------------------------------


def test_settings_are_those_asked_for(log: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[Settings] = []
    played(monkeypatch, lambda _, settings, **__: (seen.append(settings), small())[1])
    asked = ("--policy", "hybrid", "--reservation-depth", 8, "--queue-depth", 100, "--promises", 9)
    assert run(log, *asked, "--match", "pack").exit_code == 0
    queue = QueueSettings(policy="hybrid", depth=8, looks=100, promises=9)
    assert seen == [Settings(queues=(queue,), match="pack", pace=0, advise=False)]


def test_conservative_keeps_every_promise_unless_told(log: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[Settings] = []
    played(monkeypatch, lambda _, settings, **__: (seen.append(settings), small())[1])
    run(log, "--policy", "conservative")
    assert seen[0].queues[0].promises == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--policy", "eazy"), "policy 'eazy' is not known: choose fcfs or easy"),
        (("--policy", "easy", "--reservation-depth", 3), "belongs to hybrid: easy has none"),
        (("--reservation-depth", 3), "belongs to hybrid: fcfs has none"),
        (("--policy", "hybrid", "--reservation-depth", -2), "depth -2: give -1 (none), 0 (all) or how many"),
        (("--compare", "easy,hybrid:-2"), "depth -2"),
        (("--compare", "easy,hybrid:x"), "'x' is no number"),
        (("--compare", "easy:3"), "belongs to hybrid"),
        (("--compare", "easy,fcfs,easy"), "names easy twice"),
        (("--compare", "easy,fcfs", "--policy", "easy"), "give one of them"),
        (("--compare", "easy,hybrid", "--reservation-depth", 2), "write it behind the policy"),
        (("--policy", "hybrid:4", "--reservation-depth", 2), "has its depth already"),
        (("--match", "best"), "--match 'best' is not known"),
        (("--procs", 4, "--nodes", 4), "give one of them"),
        (("--report", "report.pdf"), "name it *.html or *.svg"),
        (("--out", "no/such/folder/jobs.csv"), "cannot write no/such/folder/jobs.csv: No such file"),
        (("--report", "no/such/report.svg"), "cannot write no/such/report.svg"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_is_played(
    log: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], told: str
):
    played(monkeypatch, lambda *_, **__: pytest.fail("played"))
    assert told in complaint(log, *words)


def test_an_input_that_is_not_there(tmp_path: Path):
    found = run(tmp_path / "none.swf")
    assert "none.swf: No such file" in str(found.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--out", "small.csv"), "small.csv is named twice"),
        (("--out", "./m.csv", "--nodes-file", "m.csv"), "m.csv is named twice"),
        (("--out", "r.svg", "--report", "r.svg"), "r.svg is named twice"),
        (("--compare", "fcfs,easy", "--out", "small.csv", "--report", "small.easy.html"), ""),
    ],
)
def test_no_output_goes_over_an_input_or_another_output(
    log: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], told: str
):
    monkeypatch.chdir(log.parent)
    before = log.read_bytes()
    if told:
        assert told in complaint(log, *words)
    else:
        assert run(log, *words).exit_code == 0
    assert log.read_bytes() == before


def test_a_refused_start_leaves_no_file(log: Path):
    complaint(log, "--out", log.parent / "jobs.csv", "--report", log.parent / "no" / "r.svg")
    assert not (log.parent / "jobs.csv").exists()


# -- one simulation ----------------------------------------------------------------------------------


def test_summary_as_a_table(log: Path):
    found = run(log, "--policy", "easy")
    assert found.exit_code == 0
    assert found.stdout.splitlines() == [
        "small.csv under easy: 4 jobs on 4 processors (3 completed, 1 rejected)",
        "",
        "                  MEAN  MEDIAN    P95    MAX",
        "wait               30s      0s  1m30s  1m30s",
        "bounded slowdown  2.00    1.00   4.00   4.00",
        "",
        "utilisation  81.7 %",
        "makespan     2m10s (130 s)",
        "backfilled   33.3 % of the started",
        "forecast     1 promised a start: 10s earlier on average, 95 % within 10s",
        "cycles       7",
        "",
        "PROCESSORS  JOBS  MEAN WAIT  MEAN SLOWDOWN  P95 SLOWDOWN",
        "1              1         0s           1.00          1.00",
        "3–4            2        45s           2.50          4.00",
        "",
        "rejected: d: needs 9, the machine has 4",
    ]
    assert re.fullmatch(r"easy: 3 jobs in \d+\.\d s, [\d,]+ jobs/s\n", found.stderr)


def test_summary_as_json(log: Path):
    found = json.loads(run(log, "--policy", "easy", "-o", "json").stdout)
    (one,) = found["simulations"]
    assert one["wait"] == {"mean": 30.0, "median": 0.0, "p95": 90.0, "max": 90.0}
    assert (one["policy"], one["jobs"], one["complete"]) == ("easy", 4, True)
    assert found["faults"] == {"counts": {}, "lines": []}


def test_jobs_as_csv_and_the_same_bytes_again(log: Path):
    out = log.parent / "jobs.csv"
    run(log, "--out", out)
    first = out.read_bytes()
    run(log, "--out", out)
    assert out.read_bytes() == first
    lines = first.decode().splitlines()
    assert lines[0].startswith("job_id,submit,start,end,")
    assert [line.split(",")[:4] for line in lines[1:3]] == [["a", "0", "0", "100"], ["b", "10", "100", "130"]]


def test_faults_by_kind_and_the_first_ten(log: Path, monkeypatch: pytest.MonkeyPatch):
    faults = tuple(Fault(n, "bad", f"run is {-n}") for n in range(1, 13))
    faulty = WORKLOAD._replace(faults=(Fault(0, "killed", "run 9 > 5"), *faults))
    monkeypatch.setattr(simulate_run.inputs, "load", lambda *_, **__: faulty)
    told = run(log).stderr.splitlines()
    assert told[0] == "13 faults in the input: 12 bad: left out; 1 past the estimate: cut there"
    assert told[1] == "  line 1: bad: run is -1"
    assert told[11] == "  and 3 more (-v tells all)"
    assert "  killed: run 9 > 5" in run(log, "-v").stderr
    counted = json.loads(run(log, "-o", "json").stdout)["faults"]
    assert (counted["counts"], len(counted["lines"])) == ({"bad": 12, "killed": 1}, 10)


def test_where_nothing_starts_there_is_no_slowdown_and_the_reason_is_told(
    log: Path, monkeypatch: pytest.MonkeyPatch
):
    refused = result(job("d", 30, -1, -1, 9, outcome="rejected", reason="needs 9, the machine has 4"))
    played(monkeypatch, lambda *_, **__: refused)
    lines = run(log, "--policy", "easy").stdout.splitlines()
    assert [line.split() for line in lines[3:5]] == [["wait", *"----"], ["bounded", "slowdown", *"----"]]
    assert lines[6:9] == ["utilisation  -", "makespan     -", "backfilled   -"]
    assert lines[-1] == "rejected: d: needs 9, the machine has 4"
    told = run(log, "--compare", "easy,fcfs").stdout
    assert re.search(r"mean slowdown +- +-\n", told) and re.search(r"utilisation +- +-\n", told)


# -- several -----------------------------------------------------------------------------------------


def two(policy: str) -> Result:
    """Under easy narrow jobs are better off and the wide one is worse off than under fcfs."""
    easy = policy == "easy"
    narrow = [job(f"n{i}", 0, 0 if easy else 200, 100 if easy else 300) for i in range(8)]
    wide = [job(f"w{i}", 0, 150 if easy else 0, 250 if easy else 100, 4) for i in range(5)]
    return result(*narrow, *wide, policy=policy)


def test_comparison_has_a_column_per_policy_and_no_single_winner(log: Path, monkeypatch: pytest.MonkeyPatch):
    played(monkeypatch, lambda _, settings, **__: two(settings.queues[0].policy))
    found = run(log, "--compare", "fcfs,easy")
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].split() == ["measure", "fcfs", "easy"]
    text = " ".join(found.stdout.split())
    assert "Mean wait: easy is ahead with 57s; fcfs has 2.1 times as much." in text
    assert "Median wait: easy is ahead with 0s; fcfs has 3m20s." in text
    assert "Who pays for easy's mean slowdown, against fcfs: jobs of 3–4 processors (5): 2.50 instead" in text
    assert "Job for job, easy starts 61.5 % of them earlier than fcfs and 38.5 % later, the worst" in text
    assert "for this log and this machine only (small.csv: 13 jobs on 4 processors)" in text


def test_no_winner_where_measures_disagree():
    shown = [
        result(job("a", 0, 10, 20), job("b", 0, 10, 20), policy="x"),
        result(job("a", 0, 0, 20), job("b", 0, 15, 25), policy="y"),
    ]
    said = simulate_words.verdict([report.summarise(r) for r in shown], shown)
    assert any(s.startswith("No single winner. Ahead or level with the best: x in") for s in said)


def test_who_pays_is_said_only_where_there_are_jobs_enough():
    def shown(jobs: int) -> list[Result]:
        starts = {"x": 0, "y": 20}
        return [
            result(*(job(f"{i}", 0, at, at + 20) for i in range(jobs)), policy=policy)
            for policy, at in starts.items()
        ]

    few, many = (
        simulate_words.verdict([report.summarise(r) for r in results], results)
        for results in (shown(4), shown(5))
    )
    assert "Who pays cannot be said: no width has 5 jobs." in few
    assert "No width of at least 5 jobs is slowed down over 5 % more under x than under y." in many
    assert not any("pays" in sentence for sentence in many)


def test_level_policies_are_called_level():
    shown = [small("x"), small("y")]
    said = simulate_words.verdict([report.summarise(r) for r in shown], shown)
    assert "They come out level on every measure." in said
    assert not any("ahead" in sentence for sentence in said)
    assert "x and y start every job at the same time." in said


def test_out_of_a_comparison_has_the_policy_in_its_name(log: Path):
    assert run(log, "--compare", "easy,hybrid:8", "--out", log.parent / "jobs.csv").exit_code == 0
    assert sorted(p.name for p in log.parent.glob("jobs*")) == ["jobs.easy.csv", "jobs.hybrid-8.csv"]


# -- reports -----------------------------------------------------------------------------------------


def test_report_is_one_page_that_loads_nothing(log: Path):
    path = log.parent / "report.html"
    assert run(log, "--compare", "fcfs,easy", "--report", path).exit_code == 0
    page = path.read_text(encoding="utf-8")
    for title in ("Who ran when: easy", "Utilisation: fcfs", "Queue length: easy", "slowdown by width"):
        assert title in page
    assert not re.search(r"<script|<link|url\(|(src|href)=\"(?!data:)", page)
    assert "this machine only" in page
    assert "b: 4 processors, completed" in page


def test_report_as_svg_is_well_formed(log: Path):
    path = log.parent / "report.svg"
    assert run(log, "--policy", "easy", "--report", path).exit_code == 0
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


# -- interrupts --------------------------------------------------------------------------------------


def test_ctrl_c_gives_what_is_there_so_far(log: Path, monkeypatch: pytest.MonkeyPatch):
    def half(*_: object, stop: Callable[[], bool], **__: object) -> Result:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        return result(job("a", 0, 0, 10), job("b", 0, 10, -1), job("c", 5, -1, -1), complete=False)

    played(monkeypatch, half)
    before = signal.getsignal(signal.SIGINT)
    out, page = log.parent / "jobs.csv", log.parent / "report.html"
    found = run(log, "--compare", "easy,fcfs", "--out", out, "--report", page)
    assert found.exit_code == 130
    words = " ".join(found.stdout.split())
    assert "small.csv: 3 of 4 jobs on 4 processors" in words
    assert (
        "easy was stopped early, after 10s: 1 completed, 1 running, 1 waiting, 1 not submitted yet." in words
    )
    assert "stopped early: easy came to 3 of 4 jobs, fcfs did not begin; in its CSV" in found.stderr
    assert "and the others are not there" in found.stderr
    rows = (log.parent / "jobs.easy.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[2:4] for row in rows[1:]] == [["0", "10"], ["10", ""], ["", ""]]
    assert "easy was stopped early" in page.read_text(encoding="utf-8")
    assert "3 of 4 jobs on 4 processors" in page.read_text(encoding="utf-8")
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_last_moment_stops_nothing(log: Path, monkeypatch: pytest.MonkeyPatch):
    def whole(*_: object, **__: object) -> Result:
        os.kill(os.getpid(), signal.SIGINT)
        return small()

    played(monkeypatch, whole)
    found = run(log, "--policy", "easy")
    assert found.exit_code == 0
    assert "stopped early" not in found.output


def test_a_second_ctrl_c_ends_at_once():
    interrupt = simulate_run.Interrupt()
    interrupt.ask(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt):
        interrupt.ask(signal.SIGINT, None)


# -- scenarios ---------------------------------------------------------------------------------------

SCENARIO = """cluster 2 nodes cpu=4 policy fcfs
00:00 submit a 2x cpu=4 for 60s -> start a
00:00:01 submit b 3x cpu=4 -> reject b
00:02 later -> {last}
"""


def test_a_scenario_that_holds(tmp_path: Path):
    path = tmp_path / "night.scn"
    path.write_text(SCENARIO.format(last="end a completed"), encoding="utf-8")
    found = run(path, "--out", tmp_path / "jobs.csv")
    assert found.exit_code == 0, found.output
    assert "night.scn: all as expected" in found.stderr
    assert re.search(r"\na +00:00:00 +00:00:00 +00:01:00 +2 +completed +n0-n1\n", found.stdout)
    assert re.search(r"\nb +00:00:01 +- +- +3 +rejected +needs 3", found.stdout)
    assert (tmp_path / "jobs.csv").read_text(encoding="utf-8").splitlines()[1].startswith("a,0,0.")


def test_a_scenario_that_fails_names_its_line(tmp_path: Path):
    path = tmp_path / "night.scn"
    path.write_text(SCENARIO.format(last="run a"), encoding="utf-8")
    found = run(path)
    assert isinstance(found.exception, CliError)
    assert str(found.exception).startswith(f"{path}:4: later")
    assert "a " in found.stdout
    assert json.loads(run(path, "-o", "json").stdout)["passed"] is False


@pytest.mark.parametrize("words", [("--policy", "easy"), ("--procs", 4), ("--report", "r.svg")])
def test_a_scenario_is_given_alone(tmp_path: Path, words: tuple[object, ...]):
    path = tmp_path / "night.scn"
    path.write_text(SCENARIO.format(last="run a"), encoding="utf-8")
    assert "is a scenario" in complaint(path, *words)


def test_times_of_scenarios_and_names_of_outputs():
    rows = (job("a", 3_600, 3_661, -1),)
    assert rows[0].submit == 3_600 * SECOND
    assert [str(c) for c in simulate_show.jobs(rows).columns[2].cells] == ["01:01:01"]
    assert simulate.settings("easy", 1, match="first", looks=0, promises=0).pace == 0
