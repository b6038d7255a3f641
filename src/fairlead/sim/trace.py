"""A recorded cluster as a file: nodes, and each group with what it asked for and what became of it.

Written by `fairlead history export --format trace` and `fairlead replay --policy`, from what `sim.recorded`
makes of the ledger; read by `sim.inputs`. JSON lines: a head, then shapes, nodes and jobs in the order of
their arrival. Times are milliseconds since the epoch here, and since the begin in the Workload made of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from fairlead.core.grouping import GROUP, GROUP_SIZE, QUEUE
from fairlead.model.node import Node
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import DEFAULT_QUEUE, Settings
from fairlead.sim.workload import Arrival, Workload
from fairlead.wire.files import FileError

FORMAT = "fairlead-trace/1"
SCHEDULER = "fairlead"


class Head(Struct, frozen=True, tag="trace", omit_defaults=True):
    """The first line. `settings` are those that the recorded scheduler had, None for another's."""

    format: str
    name: str
    begin: int
    until: int
    settings: Settings | None = None


class TraceShape(Struct, frozen=True, tag="shape"):
    """What jobs refer to by `id`."""

    id: int
    shape: Shape


class TraceNode(Struct, frozen=True, tag="node"):
    node: Node


class Job(Struct, frozen=True, tag="job", omit_defaults=True):
    """One group. `tasks` are (how many pods, id of their shape); `start` and `end` are what was recorded, 0 =
    not. `run` is how long it ran once all members did, 0 while it had not ended; `estimate` its walltime."""

    at: int
    namespace: str
    name: str
    tasks: tuple[tuple[int, int], ...]
    run: int = 0
    estimate: int = 0
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    start: int = 0
    end: int = 0
    nodes: tuple[str, ...] = ()


Line = Head | TraceShape | TraceNode | Job


class Trace(NamedTuple):
    """Jobs in the order of their arrival."""

    head: Head
    shapes: tuple[Shape, ...]
    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]

    @property
    def capacity(self) -> int:
        """Whole processors."""
        return sum(dict(node.allocatable).get("cpu", 0) // 1000 for node in self.nodes)

    def procs(self, job: Job) -> int:
        """How wide a job is: its processors, rounded up; one for a job that asks for none."""
        cpu = sum(many * dict(self.shapes[shape].requests).get("cpu", 0) for many, shape in job.tasks)
        return max(-(-cpu // 1000), 1)


def write(trace: Trace) -> Iterator[bytes]:
    """The lines of the file."""
    encode = msgspec.json.Encoder().encode
    lines: list[Sequence[Line]] = [
        [trace.head],
        [TraceShape(i, shape) for i, shape in enumerate(trace.shapes)],
        [TraceNode(node) for node in trace.nodes],
        trace.jobs,
    ]
    for part in lines:
        for line in part:
            yield encode(line) + b"\n"


def read(path: Path, text: str) -> Trace:
    """The trace in a text. Raises FileError with the line that is wrong."""
    decode = msgspec.json.Decoder(Line).decode
    head: Head | None = None
    shapes: dict[int, Shape] = {}
    nodes: list[Node] = []
    jobs: list[Job] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = decode(line)
        except msgspec.MsgspecError as error:
            raise FileError(f"{path}:{number}: not a line of a trace: {error}") from None
        if isinstance(found, Head):
            if found.format != FORMAT:
                raise FileError(f"{path}:{number}: format {found.format!r}, this version reads {FORMAT!r}")
            head = found
        elif isinstance(found, TraceShape):
            shapes[found.id] = found.shape
        elif isinstance(found, TraceNode):
            nodes.append(found.node)
        else:
            missing = [shape for _, shape in found.tasks if shape not in shapes]
            if missing:
                raise FileError(f"{path}:{number}: job {found.name}: there is no shape {missing[0]}")
            jobs.append(found)
    if head is None:
        raise FileError(f"{path}: it does not begin with a line that says {FORMAT!r}")
    ids = {old: new for new, old in enumerate(shapes)}
    jobs = [msgspec.structs.replace(j, tasks=tuple((n, ids[s]) for n, s in j.tasks)) for j in jobs]
    return Trace(head, tuple(shapes.values()), tuple(nodes), tuple(sorted(jobs, key=lambda job: job.at)))


def workload(trace: Trace, limit: int = 0) -> Workload:
    """The trace to be played, its begin at 0; `limit` keeps the first so many jobs, 0 all."""
    jobs = trace.jobs[:limit] if limit else trace.jobs
    arrivals = tuple(_arrivals(trace, jobs))
    return Workload(trace.head.name, trace.nodes, arrivals, trace.capacity)


def _arrivals(trace: Trace, jobs: Iterable[Job]) -> Iterator[Arrival]:
    taken: dict[tuple[str, str], int] = {}
    for number, job in enumerate(jobs):
        again = taken.get((job.namespace, job.name), 0)
        taken[job.namespace, job.name] = again + 1
        name = f"{job.name}.{again}" if again else job.name  # the same name once more, later on
        size = sum(many for many, _ in job.tasks)
        labels = {GROUP: name, GROUP_SIZE: str(size)} if size > 1 else {}
        annotations = {QUEUE: job.queue} if job.queue != DEFAULT_QUEUE else {}
        shapes = [shape for many, shape in job.tasks for _ in range(many)]
        pods = [
            Pod(
                f"{number}-{i}",
                job.namespace,
                f"{name}-{i}" if size > 1 else name,
                1,
                trace.shapes[shape],
                SCHEDULER,
                priority=job.priority,
                labels=labels,
                annotations=annotations,
                walltime=job.estimate,
            )
            for i, shape in enumerate(shapes)
        ]
        at = job.at - trace.head.begin
        yield Arrival(at, name, tuple(pods), job.run, job.estimate, trace.procs(job))
