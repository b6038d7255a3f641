"""Jobs as logs tell of them: checked, cleaned, and made into arrivals on a machine of processors.

Called by `sim.swf` and by the cleaned CSV's reader below; the rules are those by which published logs become
workloads. Must not decide when anything starts. Times of a log are seconds, those of an arrival milliseconds.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from fairlead.core.grouping import GROUP, GROUP_SIZE
from fairlead.model.pod import Pod, Shape
from fairlead.sim.workload import Arrival, Fault
from fairlead.wire.files import FileError

COLUMNS = ("job_id", "submit", "run", "procs", "estimate")
SECOND = 1000
_MOST = 1 << 53
"""Larger numbers are a broken line, not a time."""


class Job(NamedTuple):
    """One line of a log that could be read: seconds and processors, nothing checked yet."""

    line: int
    id: str
    submit: int
    run: int
    procs: int
    estimate: int


class Faults:
    """What is wrong with a file, line by line; strict stops at the first that loses a job."""

    def __init__(self, path: Path, strict: bool) -> None:
        self.found: list[Fault] = []
        self._path = path
        self._strict = strict

    def add(self, line: int, kind: str, text: str) -> None:
        """Note a fault (line 0: the text says where). Raises FileError when strict, but for `killed` jobs."""
        if self._strict and kind != "killed":
            place = f"{self._path}:{line}" if line else f"{self._path}"
            raise FileError(f"{place}: {text}; mend it or leave out --strict")
        self.found.append(Fault(line, kind, text))


def number(text: str) -> int:
    """A whole number; one with a fraction is rounded half up. Raises ValueError for anything else."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        if "_" in text or not text.isascii():
            raise InvalidOperation
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not value.is_finite() or abs(value) > _MOST:
        raise ValueError(f"{text!r} is out of range")
    # Half up means towards plus infinity only above zero, and nothing below zero is used.
    return int(value.quantize(Decimal(1), ROUND_HALF_UP))


def clean(jobs: Iterable[Job], machine: int, limit: int, faults: Faults) -> list[Job]:
    """The jobs that can be played, in the order of their submission, the first `limit` (0: all).

    Dropped: `bad` ones without a time, a length or a width, and those wider than the machine. A job that ran
    longer than it had asked for was killed at its limit.
    """
    kept: list[Job] = []
    for job in jobs:
        wrong = _wrong(job)
        if wrong:
            faults.add(job.line, "bad", f"job {job.id}: {wrong}")
            continue
        if job.procs > machine:
            faults.add(
                job.line, "toobig", f"job {job.id}: wants {job.procs} processors, the machine has {machine}"
            )
            continue
        estimate = job.estimate if job.estimate > 0 else job.run
        if job.run > estimate:
            faults.add(
                job.line,
                "killed",
                f"job {job.id}: ran {job.run} s, asked for {estimate} s and is cut to that",
            )
        kept.append(job._replace(run=min(job.run, estimate), estimate=estimate))
    kept.sort(key=lambda job: job.submit)
    return kept[:limit] if limit else kept


def _wrong(job: Job) -> str:
    if job.submit < 0:
        return f"submitted at {job.submit}"
    if job.run <= 0:
        return f"ran {job.run} s"
    return f"wants {job.procs} processors" if job.procs <= 0 else ""


def arrivals(jobs: Iterable[Job], together: bool) -> Iterator[Arrival]:
    """Each job as one pod that asks for all its processors (`together`), or as one pod per processor.

    Jobs of one width share one Shape: the engine knows shapes by identity. Two jobs of one number stay two.
    """
    shapes: dict[int, Shape] = {}
    taken: set[str] = set()
    alone: dict[str, str] = {}
    for job in jobs:
        name = f"{job.id}.{job.line}" if job.id in taken else job.id
        taken.add(name)
        width, members = (job.procs, 1) if together else (1, job.procs)
        shape = shapes.get(width)
        if shape is None:
            shape = shapes[width] = Shape((("cpu", width * 1000), ("pods", 1)))
        walltime = job.estimate * SECOND
        if members == 1:
            pods = (_pod(f"{job.line}", name, shape, alone, walltime),)
        else:
            labels = {GROUP: name, GROUP_SIZE: str(members)}
            pods = tuple(
                _pod(f"{job.line}-{i}", f"{name}-{i}", shape, labels, walltime) for i in range(members)
            )
        yield Arrival(job.submit * SECOND, job.id, pods, job.run * SECOND, walltime, job.procs)


def _pod(uid: str, name: str, shape: Shape, labels: dict[str, str], walltime: int) -> Pod:
    return Pod(uid, "default", name, 1, shape, "fairlead", labels=labels, walltime=walltime)


def table(path: Path, text: str, columns: Iterable[str]) -> Iterator[tuple[int, list[str] | None]]:
    """The rows of a CSV as (line, the fields of these columns in this order), None for a row cut short.

    Raises FileError for a header without one of them, and for text that is no CSV.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(reader, list[str]())]
        missing = [name for name in columns if name not in header]
        if missing:
            raise FileError(f"{path}:1: no column {', '.join(missing)}; it needs {','.join(columns)}")
        places = [header.index(name) for name in columns]
        for row in reader:
            if row:
                yield reader.line_num, [row[i].strip() for i in places] if len(row) == len(header) else None
    except csv.Error as error:
        raise FileError(f"{path}:{reader.line_num}: not a CSV file: {error}") from None


def read_csv(path: Path, text: str, faults: Faults) -> Iterator[Job]:
    """The jobs of a cleaned workload: job_id,submit,run,procs,estimate."""
    for line, row in table(path, text, COLUMNS):
        if row is None or not row[0]:
            faults.add(line, "unreadable", "the line has not as many fields as the header, or no job_id")
            continue
        try:
            submit, run, procs, estimate = map(number, row[1:])
        except ValueError as error:
            faults.add(line, "unreadable", f"job {row[0]}: {error}")
            continue
        yield Job(line, row[0], submit, run, procs, estimate)
