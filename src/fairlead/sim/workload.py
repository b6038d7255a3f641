"""What a simulation is given and what comes of it: nodes, arrivals, and a row per group.

Made by the readers (`sim.swf`, `sim.openb`, `sim.manifests`), played by `sim.play`, shown by `sim.report`.
Times are milliseconds on the input's own time axis, which may begin at 0; the engine's axis is the
player's business.
"""

from typing import NamedTuple

from msgspec import Struct

from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod


class Arrival(NamedTuple):
    """One group that is submitted: all its pods at once, unbound, with uids of their own.

    `run` is how long it truly runs once all members do, 0 for ever. `estimate` is its walltime, 0 for none;
    the pods say the same (annotation or activeDeadlineSeconds). `procs` is its width in the report.
    """

    at: int
    name: str
    pods: tuple[Pod, ...]
    run: int
    estimate: int
    procs: int
    owner: Owner | None = None


class Fault(NamedTuple):
    """A line of the input that could not be used or was changed: where, which kind, what is wrong."""

    line: int
    kind: str
    """`bad`, `toobig` or `killed` for logs; `unreadable` for lines that cannot be parsed at all;
    `changed` for manifests that are played, but not as written."""
    text: str


class Workload(NamedTuple):
    """`capacity` is the number of processors that utilisation is measured against."""

    name: str
    nodes: tuple[Node, ...]
    arrivals: tuple[Arrival, ...]
    capacity: int
    faults: tuple[Fault, ...] = ()


class JobRow(Struct, frozen=True):
    """What became of one arrival. Times as in the input, in milliseconds; -1 = never happened.

    `promised` is the first start that was promised, -1 if none was; `backfilled` whether it started
    while one that stood ahead of it at that moment still waited.
    """

    job_id: str
    submit: int
    start: int
    end: int
    run: int
    procs: int
    estimate: int
    promised: int
    backfilled: bool
    outcome: str
    """completed, failed, cancelled, timeout, rejected, running, waiting"""
    reason: str
    nodes: tuple[str, ...]


class Sample(NamedTuple):
    """The machine right after one instant: processors in use, groups that wait."""

    at: int
    used: int
    queued: int


class Result(NamedTuple):
    """A simulation, whole or as far as it came (`complete` False after an interrupt or a time limit)."""

    workload: str
    policy: str
    capacity: int
    rows: tuple[JobRow, ...]
    samples: tuple[Sample, ...]
    cycles: int
    complete: bool
    refused: tuple[str, ...] = ()
    """What a policy function decided that could not be done."""
