"""Start times of real logs and tiny workloads, against those on which two independent programs agree.

Every start and end must be equal; near is no evidence. The whole way is tested: file, nodes and pods,
events, plans, grants, binds. The logs are not the project's to give away, so all is read from oracle data.
"""

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.textbook import Job

from fairlead.sim.play import play
from fairlead.sim.workload import Arrival, Workload
from swf import FORMS, SECOND, Rows, difference, ended, machine, played, read, settings, write

Find = Callable[[str], Path]
POLICIES = ("fcfs", "easy", "conservative", "replan")


class Log(NamedTuple):
    name: str
    procs: int
    jobs: int


KTH = Log("KTH-SP2-1996-2", 100, 10_000)
LUBLIN = Log("lublin_256", 256, 5_000)
CURIE = Log("CEA-Curie-sample30k", 93_312, 5_000)
LOGS = (KTH, LUBLIN, CURIE)
# 93,312 nodes of one processor are no machine that anybody has.
MACHINES = [(log, form) for log in LOGS for form in FORMS if (log, form) != (CURIE, "nodes")]

logs = pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
machines = pytest.mark.parametrize(("log", "form"), MACHINES, ids=lambda part: getattr(part, "name", part))
forms = pytest.mark.parametrize("form", FORMS)


def cleaned(oracle_data: Find, log: Log, form: str = "procs") -> Workload:
    return machine(oracle_data(f"swf/{log.name}.workload.csv.xz"), form, log.procs)


def raw(oracle_data: Find, log: Log, form: str = "procs") -> Workload:
    return machine(oracle_data(f"swf/{log.name}.swf.xz"), form, log.procs, log.jobs)


def expected(oracle_data: Find, log: Log, policy: str) -> Rows:
    rows = read(oracle_data(f"swf/expected/{log.name}.{policy}.csv.xz"))
    assert len(rows) == log.jobs
    return [(row["job_id"], int(row["start"]), int(row["end"])) for row in rows]


@machines
@pytest.mark.parametrize("policy", POLICIES)
def test_every_start_equals_the_oracles(log: Log, form: str, policy: str, oracle_data: Find):
    found = played(cleaned(oracle_data, log, form), policy)
    wrong = difference(found, expected(oracle_data, log, policy))
    assert not wrong, wrong


def known(arrival: Arrival) -> tuple[object, ...]:
    """All of an arrival that may count; uids may tell from which line it comes."""
    pods = tuple((pod.name, pod.shape, pod.labels, pod.annotations, pod.walltime) for pod in arrival.pods)
    return (*arrival._replace(pods=()), pods)


@machines
def test_the_raw_log_is_the_same_workload(log: Log, form: str, oracle_data: Find):
    one, other = raw(oracle_data, log, form), cleaned(oracle_data, log, form)
    assert (one.nodes, one.capacity) == (other.nodes, other.capacity)
    pairs = ((known(a), known(b)) for a, b in zip(one.arrivals, other.arrivals, strict=True))
    assert next((pair for pair in pairs if pair[0] != pair[1]), None) is None


@logs
def test_every_start_from_the_raw_log_equals_the_oracles(log: Log, oracle_data: Find):
    wrong = difference(played(raw(oracle_data, log), "easy"), expected(oracle_data, log, "easy"))
    assert not wrong, wrong


@logs
def test_hybrid_with_one_reservation_is_easy(log: Log, oracle_data: Find):
    found = played(cleaned(oracle_data, log), "hybrid:1")
    wrong = difference(found, expected(oracle_data, log, "easy"))
    assert not wrong, wrong


@logs
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_restart_in_mid_log_keeps_every_promise(log: Log, policy: str, oracle_data: Find):
    workload = cleaned(oracle_data, log)
    third, half, most = (workload.arrivals[log.jobs * n // 12].at for n in (4, 6, 8))
    # As something arrives, between two seconds, and twice in a row.
    restarts = (third, half + SECOND // 2, most, most + 1)
    wrong = difference(played(workload, policy, restarts), expected(oracle_data, log, policy))
    assert not wrong, wrong


# -- tiny workloads full of ties ---------------------------------------------------------------------------


class Micro(NamedTuple):
    id: str
    workload: Workload
    jobs: list[Job]
    starts: dict[str, list[int]]


def micros(oracle_data: Find, form: str, folder: Path) -> Iterator[Micro]:
    with lzma.open(oracle_data("swf/micro.jsonl.xz"), "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            jobs = [Job(str(name), *numbers) for name, *numbers in case["jobs"]]
            path = write(folder / f"{case['id']}.workload.csv", jobs)
            yield Micro(case["id"], machine(path, form, case["procs"]), jobs, case["start"])


def complaint(wrong: list[tuple[Micro, str]]) -> str:
    """How many workloads are not as expected, and the smallest of them whole."""
    micro, what = min(wrong, key=lambda pair: len(pair[0].jobs))
    return f"{len(wrong)} workloads differ, the smallest is {micro.id}: {what}\n{micro.jobs}"


@forms
@pytest.mark.parametrize("policy", [*POLICIES, "hybrid:1"])
def test_every_start_of_tiny_workloads_equals_the_oracles(
    form: str, policy: str, oracle_data: Find, tmp_path: Path
):
    wrong: list[tuple[Micro, str]] = []
    for micro in micros(oracle_data, form, tmp_path):
        starts = micro.starts["easy" if policy == "hybrid:1" else policy]
        what = difference(played(micro.workload, policy), ended(micro.jobs, starts))
        if what:
            wrong.append((micro, what))
    assert not wrong, complaint(wrong)


def all_the_time(micro: Micro) -> tuple[int, ...]:
    """A restart whenever something arrives, before it or a moment later."""
    return tuple(sorted({job.submit * SECOND + i % 2 for i, job in enumerate(micro.jobs)}))


@forms
def test_restarts_in_tiny_workloads_change_no_start(form: str, oracle_data: Find, tmp_path: Path):
    wrong: list[tuple[Micro, str]] = []
    for micro in micros(oracle_data, form, tmp_path):
        found = played(micro.workload, "easy", all_the_time(micro))
        what = difference(found, ended(micro.jobs, micro.starts["easy"]))
        if what:
            wrong.append((micro, what))
    assert not wrong, complaint(wrong)


@forms
def test_restarts_in_tiny_workloads_keep_every_promise(form: str, oracle_data: Find, tmp_path: Path):
    """Not every start: a new process does not know what ended meanwhile, so it compresses once more."""
    wrong: list[tuple[Micro, str]] = []
    for micro in micros(oracle_data, form, tmp_path):
        result = play(micro.workload, settings("conservative"), restart_at=all_the_time(micro))
        wrong += [
            (micro, f"{row.job_id} was promised {row.promised} and starts at {row.start}")
            for row in result.rows
            if not row.submit <= row.start <= (row.promised if row.promised >= 0 else row.submit)
        ]
    assert not wrong, complaint(wrong)
