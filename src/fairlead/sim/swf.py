"""The Standard Workload Format: one line of 18 fields per job, comments and the header behind `;`.

Called by `sim.inputs`. It reads lines and judges none: what is dropped or cut, `sim.logs` decides.
"""

import re
from collections.abc import Iterator

from fairlead.sim.logs import Faults, Job, number

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
