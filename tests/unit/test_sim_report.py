"""Measures of a simulation against hand-made numbers and against another program's; the CSV to the byte."""

import csv
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from sim_results import job, result, small

from fairlead.sim import report, report_csv
from fairlead.sim.workload import JobRow, Result


def test_measures_by_hand():
    found = report.summarise(small())
    assert (found.jobs, found.started) == (4, 3)
    assert found.outcomes == {"completed": 3, "rejected": 1}
    assert found.wait == report.Spread(30.0, 0.0, 90.0, 90.0)
    # 1, (90 + 30) / 30, and 5 seconds of run count as 10
    assert found.slowdown == report.Spread(2.0, 1.0, 4.0, 4.0)
    assert found.makespan == 130.0
    assert found.utilisation == pytest.approx((3 * 100 + 4 * 30 + 5) / (4 * 130))
    assert found.backfilled == pytest.approx(1 / 3)
    assert found.forecast == report.Forecast(1, -10.0, 10.0)


def test_short_runs_count_as_ten_seconds_in_the_slowdown():
    assert report.slowdown(job("a", 0, 95, 100)) == 10.0
    assert report.slowdown(job("a", 0, 2, 3)) == 1.0


def test_where_jobs_still_run_the_last_known_instant_ends_the_measured_time():
    found = report.summarise(
        result(job("a", 0, 0, 50, 2), job("b", 0, 10, -1, 2), job("c", 80, -1, -1), complete=False)
    )
    assert found.makespan == 80.0
    assert found.utilisation == pytest.approx((2 * 50 + 2 * 70) / (4 * 80))
    assert found.outcomes == {"completed": 1, "running": 1, "waiting": 1}


def test_nothing_at_all():
    found = report.summarise(result())
    assert (found.jobs, found.makespan, found.utilisation, found.wait) == (0, 0.0, 0.0, report.Spread())


def test_the_95th_percentile_is_a_value_that_occurs():
    hundred = [float(n) for n in range(1, 101)]
    assert report.spread(hundred) == report.Spread(50.5, 50.5, 95.0, 100.0)
    assert report.spread([7.0]).p95 == 7.0
    assert report.quantile([1.0, 2.0], 95) == 2.0


def test_widths_are_powers_of_two():
    rows = [job(str(n), 0, 0, 10, n) for n in (1, 2, 3, 4, 5, 8, 9, 64, 65)]
    found = {width: [row.procs for row in rows] for width, rows in report.by_width(rows).items()}
    assert found == {
        (1, 1): [1], (2, 2): [2], (3, 4): [3, 4], (5, 8): [5, 8], (9, 16): [9],
        (33, 64): [64], (65, 128): [65],
    }  # fmt: skip


# -- CSV ---------------------------------------------------------------------------------------------


def text(shown: Result) -> str:
    file = io.StringIO()
    report_csv.write(shown, file)
    return file.getvalue()


def test_csv_to_the_byte():
    assert text(small()) == (
        "job_id,submit,start,end,wait,run,procs,estimate,promised,backfilled,outcome,nodes,reason\n"
        "a,0,0,100,0,100,3,3600,,0,completed,n0,\n"
        "b,10,100,130,90,30,4,3600,110,0,completed,n0,\n"
        "c,20,20,25,0,5,1,3600,,1,completed,n0,\n"
        'd,30,,,,60,9,3600,,0,rejected,,"needs 9, the machine has 4"\n'
    )


@pytest.mark.parametrize(("ms", "shown"), [(0, "0"), (-1, ""), (1500, "1.5"), (10_000, "10"), (1, "0.001")])
def test_seconds(ms: int, shown: str):
    assert report_csv.seconds(ms) == shown


# -- against another program -------------------------------------------------------------------------


def from_oracle(folder: Path, name: str, policy: str, capacity: int) -> Result:
    """The start times of the oracle as if they were ours."""
    with lzma.open(folder / f"{name}.workload.csv.xz", "rt") as file:
        jobs = {row["job_id"]: row for row in csv.DictReader(file)}
    with lzma.open(folder / "expected" / f"{name}.{policy}.csv.xz", "rt") as file:
        rows: list[JobRow] = []
        for row in csv.DictReader(file):
            submit, start, end = (int(row[key]) for key in ("submit", "start", "end"))
            rows.append(job(row["job_id"], submit, start, end, int(jobs[row["job_id"]]["procs"])))
    return Result(name, policy, capacity, tuple(rows), (), 0, True)


@pytest.mark.parametrize("name", ["KTH-SP2-1996-2", "lublin_256", "CEA-Curie-sample30k"])
def test_measures_are_those_of_the_reference(oracle_data: Callable[[str], Path], name: str):
    folder = oracle_data("swf")
    wanted = json.loads((folder / "summary.json").read_text(encoding="utf-8"))[name]
    for policy, numbers in wanted["results"].items():
        found = report.summarise(from_oracle(folder, name, policy, wanted["procs"]))
        assert found.jobs == wanted["jobs"]
        assert {
            "wait_mean": round(found.wait.mean, 4), "wait_max": found.wait.max,
            "bsld_mean": round(found.slowdown.mean, 6), "bsld_max": round(found.slowdown.max, 6),
            "makespan": found.makespan, "util": round(found.utilisation, 6),
        } == pytest.approx(numbers, rel=1e-6)  # fmt: skip


def test_rows_as_the_reference_writes_them(oracle_data: Callable[[str], Path]):
    folder = oracle_data("swf")
    found = text(from_oracle(folder, "lublin_256", "easy", 256)).splitlines()
    with lzma.open(folder / "expected" / "lublin_256.easy.csv.xz", "rt") as file:
        wanted = file.read().splitlines()
    assert [",".join(line.split(",")[:4]) for line in found] == wanted


def test_a_run_for_ever_and_no_estimate_are_empty_fields():
    assert (
        text(result(job("x", 5, 5, 6, run=0, estimate=0))).splitlines()[1] == "x,5,5,6,0,,1,,,0,completed,n0,"
    )
