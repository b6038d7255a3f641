"""The rows of a simulation as CSV: `job_id,submit,start,end`, and what else is known behind.

Called by the command line. Times are seconds on the input's own axis, whole ones without a point; what
never happened is an empty field. The same result gives the same bytes.
"""

import csv
from collections.abc import Callable, Sequence
from typing import TextIO

from fairlead.sim.workload import JobRow, Result

HEADER = (
    "job_id", "submit", "start", "end", "wait", "run", "procs", "estimate", "promised", "backfilled",
    "outcome", "nodes", "reason",
)  # fmt: skip


def write(result: Result, file: TextIO, spell: Callable[[Sequence[str]], str] = " ".join) -> None:
    """One line per arrival, in the order of the input; `spell` makes one text of the nodes' names."""
    out = csv.writer(file, lineterminator="\n")
    out.writerow(HEADER)
    out.writerows(_line(row, spell(row.nodes)) for row in result.rows)


def _line(row: JobRow, nodes: str) -> tuple[str | int, ...]:
    """`run` and `estimate` are the input's; a run for ever and no estimate are empty."""
    wait = row.start - row.submit if row.start >= 0 else -1
    return (
        row.job_id, seconds(row.submit), seconds(row.start), seconds(row.end), seconds(wait),
        seconds(row.run or -1), row.procs, seconds(row.estimate or -1), seconds(row.promised),
        int(row.backfilled), row.outcome, nodes, row.reason,
    )  # fmt: skip


def seconds(milliseconds: int) -> str:
    """Exact, to the millisecond; "" for -1, which is never."""
    if milliseconds < 0:
        return ""
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)
