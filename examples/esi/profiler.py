"""The profiler: how long each job runs beside each other one, measured by running every pair on a testbed.

The result is kept with the jobs, in `externalScheduler.profiler`, as "<mean seconds> (<samples>)". Used by
scheduler.py; a page that speaks REST through esi_client.py and nothing else.
"""

import re
from datetime import datetime
from itertools import permutations
from typing import NamedTuple

from esi_client import Esi, EsiError, Shape

DONE = ("CompletedState", "FinishedState")
FAILED = ("FailedState", "Error")


class Mean(NamedTuple):
    """A mean of so many samples, in seconds; none yet: 0 (0)."""

    seconds: float = 0.0
    samples: int = 0

    def and_one(self, seconds: float) -> "Mean":
        samples = self.samples + 1
        return Mean(self.seconds + (seconds - self.seconds) / samples, samples)

    def __str__(self) -> str:
        return f"{self.seconds:g} ({self.samples})"


class Matrix:
    """(Job, co-runner) -> how long the job runs beside it. Not symmetric."""

    def __init__(self, jobs: dict[str, Shape]) -> None:
        self.names = sorted(jobs)
        self._cells = {(job, other): read_mean(jobs[job], other) for job in jobs for other in jobs}

    def __getitem__(self, pair: tuple[str, str]) -> Mean:
        return self._cells.get(pair, Mean())

    @property
    def full(self) -> int:
        """How often every pair was measured, at least."""
        return min((self[pair].samples for pair in permutations(self.names, 2)), default=0)

    def rarest(self) -> tuple[str, str]:
        """The pair that was measured least."""
        if len(self.names) < 2:
            raise EsiError(f"profiling needs two jobs, and there is {len(self.names)}")
        return min(permutations(self.names, 2), key=lambda pair: self[pair].samples)

    def __str__(self) -> str:
        """A grid: a row for each job, a column for each one that runs beside it."""
        width = max((len(name) for name in self.names), default=0) + 2
        cell = max(width, 12)
        lines = ["".ljust(width) + "".join(name.rjust(cell) for name in self.names)]
        for job in self.names:
            cells = (self[job, other] if job != other else None for other in self.names)
            shown = ("-" if mean is None else str(mean) if mean.samples else "?" for mean in cells)
            lines.append(job.ljust(width) + "".join(text.rjust(cell) for text in shown))
        return "\n".join(lines)


def read_mean(job: Shape, other: str) -> Mean:
    notes = (job.get("externalScheduler") or {}).get("profiler") or [{}]
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)(?: \(([0-9]+)\))?", notes[0].get(other, ""))
    return Mean(float(found[1]), int(found[2] or 1)) if found else Mean()


def measure(esi: Esi, testbed: str, number: int, patience: float) -> str:
    """Run the pair that was measured least once, and write down how long both ran; says what came of it."""
    matrix = Matrix(esi.jobs())
    one, other = matrix.rarest()
    found = esi.wait("testbeds", testbed, lambda shape: shape["state"] == "SUCCESS", patience)
    nodes = found["numberOfNodes"]
    if not nodes or found["numberOfSlotsPerNode"] < 2:
        raise EsiError(f"{testbed} has {nodes} nodes: profiling needs one with two slots at least")
    # Slots are numbered node after node, then again: so both have an executor on every node.
    name = f"profiler-scheduling-{number}"
    try:
        esi.post({"name": name, "testBed": testbed, "queue": [one] * nodes + [other] * nodes})
        esi.wait("schedulings", name, completed, patience)
        jobs = esi.jobs()
        lengths = {job: last_run(jobs[job]) for job in (one, other)}
        note(esi, jobs[one], other, lengths[one])
        note(esi, jobs[other], one, lengths[other])
    finally:
        esi.delete(name)
    return f"{one} ran {lengths[one]:g} s beside {other}, which ran {lengths[other]:g} s"


def completed(scheduling: Shape) -> bool:
    """Whether a Scheduling has completed; an error if it never will."""
    if scheduling["state"] in FAILED:
        why = scheduling.get("reason") or "; ".join(scheduling.get("problems", []))
        raise EsiError(f"{scheduling['name']} has failed: {why or 'no reason is given'}")
    return scheduling["state"] in DONE


def last_run(job: Shape) -> float:
    """Seconds of the job's last execution."""
    events = job.get("scheduledEvents") or []
    if not events or not events[-1].get("stop"):
        raise EsiError(f"{job['name']} has no run that ended")
    start, stop = (
        datetime.fromisoformat(events[-1][key].replace("Z", "+00:00")) for key in ("start", "stop")
    )
    return (stop - start).total_seconds()


def note(esi: Esi, job: Shape, other: str, seconds: float) -> None:
    """One more sample of the job beside the other one; what others keep with the job stays."""
    kept = job.get("externalScheduler") or {}
    row = {**(kept.get("profiler") or [{}])[0], other: str(read_mean(job, other).and_one(seconds))}
    esi.put({**job, "externalScheduler": {**kept, "profiler": [row]}})
