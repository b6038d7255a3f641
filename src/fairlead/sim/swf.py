"""The Standard Workload Format: one line of 18 fields per job, comments and the header behind `;`.

Called by `sim.inputs`, and by `fairlead history export` to write one. It reads lines and judges none: what is
dropped or cut, `sim.logs` decides.
"""

import re
from collections.abc import Iterable, Iterator

from fairlead.sim.logs import Faults, Job, number
from fairlead.sim.trace import Trace

FIELDS = 18
_SIZE = re.compile(
    r"^[ \t]*;[ \t]*(MaxProcs|MaxNodes)[ \t]*:[ \t]*(\d{1,15})\b", re.IGNORECASE | re.MULTILINE | re.ASCII
)


def machine(text: str) -> int:
    """The machine's processors as the header has them (MaxProcs, else MaxNodes); 0 where it is silent."""
    sizes = {name.lower(): int(size) for name, size in _SIZE.findall(text)}
    return sizes.get("maxprocs", 0) or sizes.get("maxnodes", 0)


def read(text: str, faults: Faults) -> Iterator[Job]:
    """The jobs of a log. Fields from 1: 1 number, 2 submit, 4 run, 5 allocated, 8 requested processors,
    9 requested time."""
    for line, record in enumerate(text.split("\n"), 1):
        fields = record.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) < FIELDS:
            faults.add(line, "unreadable", f"{len(fields)} fields instead of {FIELDS}")
            continue
        try:
            number(fields[0])
            submit, run, allocated = number(fields[1]), number(fields[3]), number(fields[4])
            requested, estimate = number(fields[7]), number(fields[8])
        except ValueError as error:
            faults.add(line, "unreadable", f"job {fields[0]}: {error}")
            continue
        procs = requested if requested > 0 else allocated
        yield Job(line, fields[0], submit, run, procs, estimate)


def write(trace: Trace) -> Iterator[str]:
    """A trace as SWF (version 2.2): whole seconds and processors; users and queues by number, named above.

    A job is as wide as its processors. What has not started has wait and run −1, as the format says.
    """
    users = _numbered(job.namespace for job in trace.jobs)
    queues = _numbered(job.queue for job in trace.jobs)
    yield "; Version: 2.2\n"
    yield f"; UnixStartTime: {trace.head.begin // 1000}\n"
    yield f"; MaxJobs: {len(trace.jobs)}\n"
    yield f"; MaxNodes: {len(trace.nodes)}\n"
    yield f"; MaxProcs: {trace.capacity}\n"
    for kind, names in (("User", users), ("Queue", queues)):
        for name, number_ in names.items():
            yield f"; Note: {kind} {number_} is {name}\n"
    for number_, job in enumerate(trace.jobs, 1):
        procs = trace.procs(job)
        submit = (job.at - trace.head.begin) // 1000
        wait = max(job.start - job.at, 0) // 1000 if job.start else -1
        run = max(round((job.end - job.start) / 1000), 1) if job.end and job.start else -1
        asked = -(-job.estimate // 1000) if job.estimate else -1
        status = 1 if job.end else -1
        fields = [number_, submit, wait, run, procs if job.start else -1, -1, -1, procs, asked, -1, status]
        fields += [users[job.namespace], -1, -1, queues[job.queue], -1, -1, -1]
        yield " ".join(map(str, fields)) + "\n"


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number_ for number_, name in enumerate(dict.fromkeys(names), 1)}
