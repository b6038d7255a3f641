"""What `fairlead simulate` is given: files whose format is told by their name, as one Workload.

Called by the command line. Formats are read by `sim.swf`, `sim.logs`, `sim.openb`, `sim.trace` and
`sim.manifests`; here are the choice between them and the machine. All that a user can mend is raised as
FileError. Must not play anything.
"""

from enum import Enum
from pathlib import Path

from msgspec import structs

from fairlead.model.node import Node
from fairlead.model.pod import Pod
from fairlead.model.rules import NO_RULES
from fairlead.sim import logs, manifests, openb, swf, trace
from fairlead.sim.logs import Faults
from fairlead.sim.scenario import Scenario, ScenarioError, parse
from fairlead.sim.workload import Arrival, Workload
from fairlead.wire import files, nodefile
from fairlead.wire.files import FileError

PLENTY = 1 << 20
"""More pods than any node of a log will ever hold at once."""


class Format(Enum):
    """What an input is, as its name says."""

    SWF = ".swf"
    CSV = ".csv"
    MANIFESTS = ".yaml"
    SCENARIO = ".scn"
    TRACE = ".trace"


_ENDINGS = {
    ".swf": Format.SWF,
    ".csv": Format.CSV,
    ".yaml": Format.MANIFESTS,
    ".yml": Format.MANIFESTS,
    ".json": Format.MANIFESTS,
    ".scn": Format.SCENARIO,
    ".trace": Format.TRACE,
}


def format_of(path: Path) -> Format:
    """The format by the file's name, .gz and .xz behind it or not; raises FileError for others."""
    if path.is_dir():
        raise FileError(f"{path} is a folder: give one of the files in it")
    found = _ENDINGS.get(files.ending(path))
    if found is None:
        raise FileError(
            f"{path}: what is it? Give a .swf, .csv, .trace, .yaml, .json or .scn file (also .gz or .xz)"
        )
    return found


def load_scenario(path: Path) -> Scenario:
    """A `.scn` file, which plays itself (`sim.scenario.run`); raises FileError."""
    try:
        return parse(files.text(path), str(path))
    except ScenarioError as error:
        raise FileError(str(error)) from None


def load(
    path: Path,
    *,
    procs: int = 0,
    nodes: int = 0,
    nodes_file: Path | None = None,
    limit: int = 0,
    strict: bool = False,
) -> Workload:
    """Read a workload. The machine is one node of `procs` processors, or `nodes` nodes of one, or a file's.

    Without any of the three a log's header or the nodes among the manifests say what the machine is.
    `limit` keeps the first so many jobs after cleaning, 0 all. `strict` stops at the first line that loses a
    job. Raises FileError, also for a scenario (`load_scenario`) and for contradicting arguments.
    """
    kind = format_of(path)
    if kind is Format.SCENARIO:
        raise FileError(f"{path}: a scenario has its own cluster and plays by itself")
    if sum((procs != 0, nodes != 0, nodes_file is not None)) > 1:
        raise FileError(f"{path}: give one of --procs, --nodes and --nodes-file")
    if min(procs, nodes, limit) < 0:
        raise FileError(f"{path}: --procs, --nodes and --limit are numbers above 0")
    text = files.text(path)
    if not text.strip():
        raise FileError(f"{path}: the file is empty")
    if kind is Format.TRACE:
        return _trace(path, text, limit, procs, nodes, nodes_file)
    faults = Faults(path, strict)
    if kind is Format.MANIFESTS:
        machine, arrivals = _manifests(path, text, limit, faults, procs, nodes, nodes_file)
    elif kind is Format.CSV and _is_openb(text):
        if nodes_file is None:
            raise FileError(f"{path}: pods with memory and GPUs need nodes: give --nodes-file")
        machine, arrivals = read_nodes(nodes_file), openb.read(path, text, limit, faults)
    else:
        procs = procs or (swf.machine(text) if kind is Format.SWF and not nodes and not nodes_file else 0)
        machine = _log_machine(path, procs, nodes, nodes_file)
        jobs = swf.read(text, faults) if kind is Format.SWF else logs.read_csv(path, text, faults)
        kept = logs.clean(jobs, _capacity(machine), limit, faults)
        arrivals = list(logs.arrivals(kept, together=bool(procs)))
    if not arrivals:
        raise FileError(f"{path}: nothing to simulate in it{_why(faults)}")
    return Workload(_name(path), tuple(machine), tuple(arrivals), _capacity(machine), tuple(faults.found))


def _trace(path: Path, text: str, limit: int, procs: int, nodes: int, nodes_file: Path | None) -> Workload:
    """A recorded cluster has its nodes; others may be tried."""
    found = trace.read(path, text)
    if procs or nodes:
        found = found._replace(nodes=tuple(processors(procs, nodes)))
    elif nodes_file is not None:
        found = found._replace(nodes=tuple(read_nodes(nodes_file)))
    if not found.nodes:
        raise FileError(f"{path}: no node in it: give --nodes-file, --procs N or --nodes N")
    if not found.jobs:
        raise FileError(f"{path}: no job in it")
    return trace.workload(found, limit)


def read_nodes(path: Path) -> list[Node]:
    """The nodes of a list of machines or of manifests; where no number of pods is stated, any may run."""
    found = [(f"node {n}", manifest) for n, manifest in enumerate(nodefile.read(path), 1)]
    return [_holding(node, {"pods": PLENTY}) for node in manifests.nodes(path, found)]


def processors(procs: int, nodes: int, **more: int) -> list[Node]:
    """One node of `procs` processors, or `nodes` nodes of one; `more` is what each has besides."""
    amounts = {**more, "cpu": max(procs, 1) * 1000, "pods": PLENTY}
    held = tuple(sorted(amounts.items()))
    names = [f"n{i}" for i in range(nodes or 1)]
    return [Node(f"node/{name}", name, 1, held, {"kubernetes.io/hostname": name}) for name in names]


def _log_machine(path: Path, procs: int, nodes: int, nodes_file: Path | None) -> list[Node]:
    """A log's jobs ask for processors alone: how many pods a node may have does not bind them."""
    if nodes_file is not None:
        return [_holding(node, {}, pods=PLENTY) for node in read_nodes(nodes_file)]
    if not procs and not nodes:
        raise FileError(f"{path}: it does not say how large the machine is: give --procs N or --nodes N")
    return processors(procs, nodes)


def _manifests(
    path: Path, text: str, limit: int, faults: Faults, procs: int, nodes: int, nodes_file: Path | None
) -> tuple[list[Node], list[Arrival]]:
    found = manifests.read(path, text, limit, faults)
    found = found._replace(arrivals=[_without_volumes(arrival, faults) for arrival in found.arrivals])
    if nodes_file is not None:
        return read_nodes(nodes_file), found.arrivals
    if procs or nodes:
        # Only processors are said to be scarce: of all else there is as much as is asked for together.
        total: dict[str, int] = {}
        for arrival in found.arrivals:
            for pod in arrival.pods:
                for name, amount in pod.shape.requests:
                    total[name] = total.get(name, 0) + amount
        return processors(procs, nodes, **total), found.arrivals
    if not found.nodes:
        raise FileError(f"{path}: no Node in it: give --nodes-file, --procs N or --nodes N")
    return [_holding(node, {"pods": PLENTY}) for node in found.nodes], found.arrivals


def _without_volumes(arrival: Arrival, faults: Faults) -> Arrival:
    """The group as if its volumes were everywhere: there are no claims in a simulation."""
    if not any(pod.shape.rules.volumes for pod in arrival.pods):
        return arrival
    faults.add(0, "changed", f"{arrival.name}: played without its volumes")
    return arrival._replace(pods=tuple([_without_its_volumes(pod) for pod in arrival.pods]))


def _without_its_volumes(pod: Pod) -> Pod:
    rules = structs.replace(pod.shape.rules, volumes=())
    rules = NO_RULES if rules == NO_RULES else rules
    return structs.replace(pod, shape=structs.replace(pod.shape, rules=rules))


def _holding(node: Node, missing: dict[str, int], **fixed: int) -> Node:
    amounts = {**missing, **dict(node.allocatable), **fixed}
    return structs.replace(node, allocatable=tuple(sorted(amounts.items())))


def _capacity(machine: list[Node]) -> int:
    """Whole processors; one that is split between two nodes is none."""
    return sum(dict(node.allocatable).get("cpu", 0) // 1000 for node in machine)


def _is_openb(text: str) -> bool:
    header = {name.strip() for name in text.partition("\n")[0].split(",")}
    return header.issuperset(openb.MARKS)


def _why(faults: Faults) -> str:
    if not faults.found:
        return ""
    first = faults.found[0]
    return f"; {len(faults.found)} lines cannot be used, the first is line {first.line}: {first.text}"


def _name(path: Path) -> str:
    """The file's name without its endings."""
    return path.name[: path.name.lower().rindex(files.ending(path))]
