"""The pods of a production GPU cluster, as the openb lists have them: a CSV row per pod.

Called by `sim.inputs`, which reads the nodes. A shared GPU counts as a whole one. Times of the file are
seconds. Must not judge what fits: the engine rejects what no node can hold.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairlead.model.pod import Pod, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.sim.logs import SECOND, Faults, number, table
from fairlead.sim.workload import Arrival
from fairlead.wire.nodefile import GPU, GPU_MODEL

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
MARKS = ("name", "cpu_milli", "memory_mib", "num_gpu")
"""The columns by which such a list is told from other CSV files."""


class Wish(NamedTuple):
    """What a pod asks for, as the file has it."""

    cpu: int
    memory: int
    gpus: int
    models: str


def read(path: Path, text: str, limit: int, faults: Faults) -> list[Arrival]:
    """The pods in the order of their creation, the first `limit` (0: all)."""
    found = sorted(_arrivals(path, text, faults), key=lambda arrival: arrival.at)
    return found[:limit] if limit else found


def _arrivals(path: Path, text: str, faults: Faults) -> Iterator[Arrival]:
    shapes: dict[Wish, Shape] = {}
    seen: set[str] = set()
    nothing: dict[str, str] = {}
    for line, row in table(path, text, COLUMNS):
        if row is None or not row[0] or row[0] in seen:
            faults.add(
                line, "unreadable", "not as many fields as the header, no name, or a name for the second time"
            )
            continue
        name, models = row[0], row[5]
        try:
            cpu, memory, gpus, share = (number(each or "0") for each in row[1:5])
            created = number(row[6])
            begun = number(row[8]) if row[8] else created
            run = max(number(row[7]) - begun, 1) if row[7] else 0
        except ValueError as error:
            faults.add(line, "unreadable", f"pod {name}: {error}")
            continue
        if min(cpu, memory, gpus, share, created, begun) < 0:
            faults.add(line, "bad", f"pod {name}: an amount or a time below 0")
            continue
        seen.add(name)
        wish = Wish(cpu, memory, gpus or int(share > 0), models)
        shape = shapes.get(wish)
        if shape is None:
            shape = shapes[wish] = _shape(wish)
        pod = Pod(name, "default", name, 1, shape, "fairlead", labels=nothing)
        yield Arrival(created * SECOND, name, (pod,), run * SECOND, 0, max(-(-cpu // 1000), 1))


def _shape(wish: Wish) -> Shape:
    amounts = {"cpu": wish.cpu, "memory": wish.memory << 20, GPU: wish.gpus, "pods": 1}
    requests = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    if not wish.models:
        return Shape(requests)
    models = tuple(sorted(set(wish.models.split("|"))))
    return Shape(requests, affinity=((Expression(GPU_MODEL, Operator.IN, models),),))
