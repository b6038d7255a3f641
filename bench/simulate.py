"""How fast the simulator plays real logs through the real engine: KTH whole on one node, lublin whole on one.

Run: python -m bench.simulate --data FOLDER [--policies fcfs,easy,conservative,hybrid:64,replan] [--limit N]
[--logs KTH,lublin]. FOLDER holds KTH-SP2-1996-2.swf and lublin_256.swf, as they are or .xz; nothing of them
is shipped. The reference beside it is `bench.textbook`, which knows processor counts only; both get the
same jobs in the same run, and every start is equal (asserted). Bound of the issue: 3 times the textbook's
time + 150 µs for each job. Processor time; one run each.
"""

import argparse
import pathlib
import time
from typing import NamedTuple

from bench.report import report
from bench.textbook import Job, simulate
from fairlead.model.settings import Settings, single
from fairlead.sim.inputs import load
from fairlead.sim.play import play
from fairlead.sim.workload import Result, Workload

LOGS = {"KTH": ("KTH-SP2-1996-2.swf", 100), "lublin": ("lublin_256.swf", 256)}
POLICIES = "fcfs,easy,conservative,hybrid:64,replan"
SLOWER, PER_JOB = 3, 150e-6
KTH_JOBS = 28_481
STATED = {"fcfs": 0.5, "easy": 1.4, "conservative": 5.6}
"""Seconds that a slower plain simulator takes for the whole of KTH, as the issue states them."""


class Case(NamedTuple):
    """One log under one policy: seconds of each side."""

    log: str
    policy: str
    jobs: int
    engine: float
    plain: float

    @property
    def bound(self) -> float:
        return SLOWER * self.plain + PER_JOB * self.jobs


def find(folder: pathlib.Path, name: str) -> pathlib.Path:
    for path in (folder / f"{name}.xz", folder / name):
        if path.exists():
            return path
    raise SystemExit(f"{folder}: no {name} (or .xz) there; name the folder with --data")


def settings(policy: str) -> Settings:
    """Of a simulation: no pace, and no bound on how many promises are kept."""
    name, _, depth = policy.partition(":")
    queues = single(name, int(depth), promises=0) if depth else single(name, promises=0)
    return Settings(queues=queues, pace=0, advise=False)


def check(policy: str, workload: Workload, result: Result, expected: list[int]) -> None:
    """Every start equal, or the first that is not."""
    assert result.complete and [r.job_id for r in result.rows] == [a.name for a in workload.arrivals]
    for found, start in zip(result.rows, expected, strict=True):
        assert found.start == start, (
            f"{workload.name}, {policy}: job {found.job_id} starts at {found.start} ms, not at {start} ms"
        )


def measure(log: str, workload: Workload, policy: str) -> Case:
    jobs = [Job(a.name, a.at, a.run, a.procs, a.estimate) for a in workload.arrivals]
    begun = time.process_time()
    expected = simulate(policy, workload.capacity, jobs)
    plain = time.process_time() - begun
    begun = time.process_time()
    result = play(workload, settings(policy))
    engine = time.process_time() - begun
    check(policy, workload, result, expected)
    return Case(log, policy, len(jobs), engine, plain)


def row(case: Case) -> dict[str, str]:
    return {
        "log": case.log,
        "policy": case.policy,
        "jobs": str(case.jobs),
        "jobs/s": f"{case.jobs / case.engine:.0f}",
        "µs/job": f"{case.engine / case.jobs * 1e6:.0f}",
        "engine s": f"{case.engine:.2f}",
        "textbook s": f"{case.plain:.2f}",
        "ratio": f"{case.engine / case.plain:.1f}",
        "bound s": f"{case.bound:.2f}",
        "held": "yes" if case.engine <= case.bound else "NO",
    }


def stated(cases: list[Case]) -> str:
    """The same question against the times that the issue states, where they can be compared."""
    words: list[str] = []
    for case in cases:
        if case.log == "KTH" and case.jobs == KTH_JOBS and case.policy in STATED:
            bound = SLOWER * STATED[case.policy] + PER_JOB * case.jobs
            words.append(f"{case.policy} {bound:.1f} s: {'held' if case.engine <= bound else 'MISSED'}")
    return f"By the plain simulator of 0.5, 1.4 and 5.6 s for KTH: {', '.join(words)}." if words else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--limit", type=int, default=0, help="the first N jobs after cleaning")
    options = parser.parse_args()
    cases: list[Case] = []
    for log in options.logs.split(","):
        name, procs = LOGS[log]
        workload = load(find(options.data, name), procs=procs, limit=options.limit)
        cases += [measure(log, workload, policy) for policy in options.policies.split(",")]
    limit = f" --limit {options.limit}" if options.limit else ""
    command = f"python -m bench.simulate --data FOLDER --policies {options.policies}{limit}"
    report("simulate", command, [row(case) for case in cases], stated(cases))


if __name__ == "__main__":
    main()
