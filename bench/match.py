"""How fast the containment tree is loaded, matched and reserved on, and how much memory it takes.

Run: python -m bench.match [--sizes 128,1024,...] [--rounds 1000] [--part jgf]. Nodes have 32 cores, 4 GPUs
and 8 x 32 GB in racks of 64; each size is its own process, so that memory is that size's. The graph is read
from a GRUG recipe and, in one more process, from a JGF file that another has written; `--part jgf` does only
that, and leaves docs/performance.md as it is. Jobs are one exclusive node, and
a pod of 4 cores, 1 GPU and 32 GB. Every match is a whole one: choosing and booking; the median of `--rounds`.
"half" is half of the nodes taken at random, "full" all but one. The last rows are the live scheduler's
matching of the same pods. All times are processor time. References: the plain walk over the tree in the same
run, which must choose the same; and what Fluxion 0.54 was measured at on one such core.
"""

import argparse
import gc
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from bench.report import report
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Task
from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.graph import Graph, Op, Verdict
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.core.tree.parts import Parts
from fairlead.model.jobspec import Count, Jobspec, Resource
from fairlead.model.node import Node
from fairlead.model.pod import Shape
from fairlead.model.settings import Settings
from fairlead.wire import grug, jgf

SIZES = (128, 1_024, 4_096, 16_384)
PER_RACK = 64
HOUR = 3_600
POLICIES = ("lonode", "bestfit")
STANDING, PODS, PER_NODE = 1_000, 1_000, 4
WALKED = 4_096
"""Up to so many nodes the walk is timed for every policy, beyond only for the first."""
BOUND_CHOICE_MS, BOUND_RESERVE_MS, BOUND_KB, BOUND_LOAD_S = 0.2, 4.0, 10.0, 1.0
BOUND_JGF_S = 5.0
FLUXION_RANKED_MS = {1_024: 25.0, 4_096: 105.0, 16_384: 430.0}
FLUXION_RESERVE_MS = {1_024: 2.4, 4_096: 3.4, 16_384: 13.0, 65_536: 49.0}
"""Fluxion 0.54 (flux-sched), resource-query on one core of such a machine: milliseconds per match."""
FLUXION_LOAD_S = {16_384: 5.8}
FLUXION_LOAD = "Fluxion 0.54 at 16,384 nodes: load 5.8 s, 1,840 MB (115 KB a node)"

RECIPE = """<graphml><key id="root" for="node"/><key id="type" for="node"/><key id="size" for="node"/>
<key id="multi_scale" for="edge"/><key id="id_scope" for="edge"/><graph id="machine" edgedefault="directed">
{nodes}{edges}</graph></graphml>"""
_KINDS = (("cluster", 1), ("rack", 1), ("node", 1), ("core", 1), ("gpu", 1), ("memory", 32))
_ONE = Count(1, 1)


class Times(NamedTuple):
    """What one size took: milliseconds per match by (job, system), and the rest in the units named."""

    load_s: float
    kb_per_node: float
    peak_kb_per_node: float
    match_ms: dict[str, float]
    """Median milliseconds by "policy: job, system"."""
    walk_ms: dict[str, float]
    reserve_first_ms: float
    reserve_ms: float
    instants: int
    pods: int
    pods_s: float
    one_request_ms: float
    tries: int
    live_ms: float
    live_scans: int


class File(NamedTuple):
    """What loading one size from a JGF file took."""

    load_s: float
    kb_per_node: float
    peak_kb_per_node: float
    decode_s: float
    """Decoding the JSON alone, into dictionaries and lists."""
    megabytes: float


def recipe(nodes: int) -> str:
    """The machine as a GRUG recipe."""
    per_rack = min(PER_RACK, nodes)
    edges = (
        ("cluster", "rack", nodes // per_rack, 0),
        ("rack", "node", per_rack, 1),
        ("node", "core", 32, 0),
        ("node", "gpu", 4, 0),
        ("node", "memory", 8, 0),
    )
    vertices = "".join(
        f'<node id="{type_}"><data key="root">{int(type_ == "cluster")}</data><data key="type">{type_}</data>'
        f'<data key="size">{size}</data></node>'
        for type_, size in _KINDS
    )
    lines = "".join(
        f'<edge id="{a}-{b}" source="{a}" target="{b}"><data key="multi_scale">{scale}</data>'
        f'<data key="id_scope">{scope}</data></edge>'
        for a, b, scale, scope in edges
    )
    return RECIPE.format(nodes=vertices, edges=lines)


def nodes(count: int, seconds: int = HOUR) -> Jobspec:
    """So many whole nodes."""
    slot = Resource("slot", _ONE, label="task", children=(Resource("core", _ONE),))
    return Jobspec((Resource("node", Count(count, count), exclusive=True, children=(slot,)),), seconds)


def pod(seconds: int = HOUR) -> Jobspec:
    """4 cores, 1 GPU and 32 GB of one node."""
    parts = (Resource("core", Count(4, 4)), Resource("gpu", _ONE), Resource("memory", Count(32, 32)))
    slot = Resource("slot", _ONE, label="task", children=parts)
    return Jobspec((Resource("node", _ONE, children=(slot,)),), seconds)


JOBS: dict[str, Callable[[], Jobspec]] = {"node": lambda: nodes(1), "pod": pod}


class Machine:
    """A graph, and jobs numbered as they come."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.last = 0

    def match(self, jobspec: Jobspec, op: Op = Op.allocate) -> tuple[float, Job | None]:
        """Milliseconds of one match, and what it got."""
        self.last += 1
        begun = time.process_time()
        outcome = self.graph.match(jobspec, op, self.last)
        return (time.process_time() - begun) * 1e3, outcome.job

    def fill(self, jobspec: Jobspec) -> list[int]:
        """Match until nothing fits any more; the jobs."""
        made: list[int] = []
        while self.match(jobspec)[1] is not None:
            made.append(self.last)
        return made

    def clear(self) -> None:
        """Cancel everything."""
        for id_ in list(self.graph.bookings.jobs):
            self.graph.cancel(id_)

    def median(self, jobspec: Jobspec, rounds: int) -> float:
        """The median match; when the machine is full, what this has placed is given back."""
        times: list[float] = []
        placed: list[int] = []
        while len(times) < rounds:
            took, job = self.match(jobspec)
            if job is not None:
                times.append(took)
                placed.append(self.last)
                continue
            assert placed, "nothing fits"
            while placed:
                self.graph.cancel(placed.pop())
        for id_ in placed:
            self.graph.cancel(id_)
        return statistics.median(times)


def rss() -> int:
    """Bytes of memory in use."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def load(read: Callable[[], Parts], count: int, policy: str) -> tuple[Graph, float, float, float]:
    """The graph, the seconds it took, and KB per node: growth, and growth at its peak."""
    gc.collect()
    before, peak = rss(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begun = time.process_time()
    graph = Graph(Tree(read()), match_policy(policy))
    graph.match(nodes(1), Op.without_allocating, 1)
    took = time.process_time() - begun
    gc.collect()
    high = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return graph, took, (rss() - before) / count / 1e3, (high - max(before, peak)) / count / 1e3


def walked(graph: Graph, jobspec: Jobspec, id_: int) -> float:
    """Milliseconds of the plain walk, which must choose what the graph chooses."""
    plain = Graph(graph.tree, graph.policy, levels=False)
    plain.bookings = graph.bookings
    begun = time.process_time()
    chosen = plain.match(jobspec, Op.without_allocating, id_).job
    took = (time.process_time() - begun) * 1e3
    other = graph.match(jobspec, Op.without_allocating, id_).job
    assert chosen is not None and other is not None and chosen.held == other.held, "the walk chose otherwise"
    return took


def choices(
    machine: Machine, name: str, rounds: int, walk: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Median milliseconds by "policy: job, system": of the levels, and one walk each."""
    chance = random.Random(1)
    ours: dict[str, float] = {}
    walks: dict[str, float] = {}

    def measure(system: str) -> None:
        for job, make in JOBS.items():
            ours[f"{name}: {job}, {system}"] = machine.median(make(), rounds)
            if walk:
                walks[f"{name}: {job}, {system}"] = walked(machine.graph, make(), machine.last + 1)

    measure("empty")
    full = machine.fill(nodes(1))
    gone = set(chance.sample(full, len(full) // 2))
    for id_ in gone:
        machine.graph.cancel(id_)
    measure("half")
    machine.fill(nodes(1))
    machine.graph.cancel(chance.choice(list(machine.graph.bookings.jobs)))
    measure("full")
    machine.clear()
    return ours, walks


def reserve(machine: Machine) -> tuple[float, float, int]:
    """Median milliseconds of the first 50 reservations on a full machine, and of 50 with 1,000 standing."""
    walltimes = [600 + (24 * HOUR - 600) * i // 96 for i in range(97)]
    i = 0
    while machine.match(nodes(1, walltimes[i % 97]))[1] is not None:
        i += 1
    times: list[float] = []
    for i in range(STANDING + 50):
        wide = 1 if i % 10 < 7 else 4 if i % 10 < 9 else 16
        took, job = machine.match(nodes(wide, walltimes[i * 31 % 97]), Op.allocate_orelse_reserve)
        assert job is not None and job.reserved
        times.append(took)
    instants = len({job.end for job in machine.graph.bookings.jobs.values()})
    assert machine.graph.bookings.check() == []
    machine.clear()
    return statistics.median(times[:50]), statistics.median(times[-50:]), instants


def pass_of_pods(machine: Machine, count: int) -> tuple[float, float]:
    """Seconds for identical pods one after the other, and milliseconds for all in one request."""
    took = 0.0
    for _ in range(count):
        spent, job = machine.match(pod())
        assert job is not None
        took += spent
    machine.clear()
    one, whole = pod().resources[0], Count(count // PER_NODE, count // PER_NODE)
    slots = tuple(replace(slot, count=Count(PER_NODE, PER_NODE)) for slot in one.children)
    spent, job = machine.match(Jobspec((replace(one, count=whole, children=slots),), HOUR))
    assert job is not None
    machine.clear()
    return took / 1e3, spent


def failing(machine: Machine) -> int:
    """How often a request for which there is no room is tried if it comes twice."""
    graph = machine.graph
    machine.fill(nodes(1))
    before = graph.tries
    for i in range(2):
        assert graph.match(pod(), Op.allocate, machine.last + 1 + i).verdict is Verdict.busy
    machine.clear()
    return graph.tries - before


def live(count: int, pods: int) -> tuple[float, int]:
    """The live scheduler: milliseconds to place pods of one group, and how often one that fails is tried."""
    inventory = Inventory()
    amounts = (("cpu", 32_000), ("memory", 256 << 30), ("nvidia.com/gpu", PER_NODE), ("pods", 110))
    for i in range(count):
        inventory.put(Node(uid=f"n{i}", name=f"n{i:05d}", version=1, allocatable=amounts))
    shape = Shape((("cpu", 4_000), ("memory", 32 << 30), ("nvidia.com/gpu", 1), ("pods", 1)))
    inventory.vector(shape.requests)

    def request(number: int) -> Request:
        return Request(
            "g", (0, 1, 1, "g"), (Task(shape, tuple(f"p{i}" for i in range(number))),), False, HOUR
        )

    matcher = Matcher(Draft(columns(inventory, (), Settings(), 0)), "first")
    begun = time.process_time()
    placed = matcher.place(request(pods))
    took = (time.process_time() - begun) * 1e3
    assert placed is not None and len(placed) == pods
    tried: list[Task] = []
    choose = matcher.many
    matcher.many = lambda task, counts: tried.append(task) or choose(task, counts)
    for _ in range(2):
        assert matcher.place(request(count * PER_NODE + 1)) is None
    return took, len(tried)


def measured(count: int, rounds: int) -> Times:
    """Everything of one size; called in a process of its own."""
    graph, load_s, kb, peak = load(lambda: grug.read(recipe(count)), count, POLICIES[0])
    machine, pods = Machine(graph), min(PODS, count * PER_NODE)
    ours, walks = choices(machine, POLICIES[0], rounds, walk=True)
    first, standing, instants = reserve(machine)
    pods_s, one_ms = pass_of_pods(machine, pods)
    tries = failing(machine)
    for policy in POLICIES[1:]:
        other = Machine(Graph(graph.tree, match_policy(policy)))
        more = choices(other, policy, rounds, count <= WALKED)
        ours, walks = ours | more[0], walks | more[1]
    live_ms, scans = live(count, pods)
    return Times(
        load_s=load_s,
        kb_per_node=kb,
        peak_kb_per_node=peak,
        match_ms=ours,
        walk_ms=walks,
        reserve_first_ms=first,
        reserve_ms=standing,
        instants=instants,
        pods=pods,
        pods_s=pods_s,
        one_request_ms=one_ms,
        tries=tries,
        live_ms=live_ms,
        live_scans=scans,
    )


def measured_file(count: int, path: pathlib.Path) -> File:
    """The load of a JGF file; called in a process of its own."""
    _, load_s, kb, peak = load(lambda: jgf.read(path.read_text()), count, POLICIES[0])
    text = path.read_text()
    begun = time.process_time()
    msgspec.json.decode(text)
    return File(load_s, kb, peak, time.process_time() - begun, len(text) / 1e6)


def held(value: float, bound: float) -> str:
    return f"≤ {bound:g}: {'held' if value <= bound else 'MISSED'}"


def rows_of(count: int, times: Times) -> list[dict[str, str]]:
    """The rows of one size."""
    rows: list[dict[str, str]] = []

    def row(what: str, value: str, bound: str = "", walk: str = "", fluxion: str = "") -> None:
        rows.append(
            {"nodes": f"{count:,}", "what": what, "took": value, "bound": bound}
            | {"plain walk": walk, "Fluxion 0.54": fluxion}
        )

    row("load, ready to match", f"{times.load_s:.2f} s", held(times.load_s, BOUND_LOAD_S))
    memory = f"{times.kb_per_node:.1f} KB a node (peak {times.peak_kb_per_node:.1f})"
    row("memory", memory, held(times.kb_per_node, BOUND_KB))
    ranked = FLUXION_RANKED_MS.get(count)
    for name, took in times.match_ms.items():
        walk = times.walk_ms.get(name)
        beside = f"{walk:.0f} ms, {walk / took:.0f} ×" if walk else ""
        other = f"{ranked:g} ms, {ranked / took:.0f} ×" if ranked else ""
        row(name, f"{took:.3f} ms", held(took, BOUND_CHOICE_MS), beside, other)
    reserve_ms = FLUXION_RESERVE_MS.get(count)
    row("reserve, first 50", f"{times.reserve_first_ms:.2f} ms")
    other = f"{reserve_ms:g} ms, {reserve_ms / times.reserve_ms:.1f} ×" if reserve_ms else ""
    standing = f"reserve, {STANDING:,} standing"
    row(standing, f"{times.reserve_ms:.2f} ms", held(times.reserve_ms, BOUND_RESERVE_MS), "", other)
    row(f"{times.pods:,} identical pods, one by one", f"{times.pods_s * 1e3:.0f} ms")
    row(f"{times.pods:,} identical pods, one request", f"{times.one_request_ms:.1f} ms")
    row("tries of a failed request that comes twice", str(times.tries), held(times.tries, 1))
    row(f"live: {times.pods:,} identical pods, one pass", f"{times.live_ms:.1f} ms")
    row("live: tries of a failed group that comes twice", str(times.live_scans), held(times.live_scans, 1))
    return rows


def file_rows(count: int, file: File) -> list[dict[str, str]]:
    """The rows about a JGF file of one size."""
    known = FLUXION_LOAD_S.get(count)
    other = f"{known:g} s, {known / file.load_s:.1f} ×" if known else ""
    memory = f"{file.kb_per_node:.1f} KB a node (peak {file.peak_kb_per_node:.1f})"
    took = f"{file.load_s:.2f} s; decoding alone {file.decode_s:.2f} s"
    first = f"load a JGF file of {file.megabytes:,.0f} MB, ready to match"
    cells = (
        (first, took, held(file.load_s, BOUND_JGF_S), "", other),
        ("memory after that", memory, "", "", ""),
    )
    keys = ("nodes", "what", "took", "bound", "plain walk", "Fluxion 0.54")
    return [dict(zip(keys, (f"{count:,}", *row), strict=True)) for row in cells]


def in_a_process(count: int, rounds: int) -> Times:
    """The same in a process of its own."""
    return msgspec.json.decode(_child(count, "--rounds", str(rounds)), type=Times)


def file_in_a_process(count: int) -> File:
    """The same of a JGF file, which one more process has written."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        path.write_bytes(_child(count, "--part", "write"))
        return msgspec.json.decode(_child(count, "--part", "jgf", "--file", str(path)), type=File)


def _child(count: int, *more: str) -> bytes:
    command = [sys.executable, "-m", "bench.match", "--child", str(count), *more]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _as_child(count: int, part: str, rounds: int, file: str) -> bytes:
    """What one process of its own does and says."""
    if part == "write":
        return jgf.whole(Tree(grug.read(recipe(count)))).encode()
    if part == "jgf":
        return msgspec.json.encode(measured_file(count, pathlib.Path(file)))
    return msgspec.json.encode(measured(count, rounds))


def _busy() -> str:
    """How quiet the machine was."""
    return f"Load average of the machine while this ran: {os.getloadavg()[1]:.1f}, on {os.cpu_count()} cores."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--part", choices=("all", "jgf", "write"), default="all")
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--file", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.stdout.buffer.write(_as_child(options.child, options.part, options.rounds, options.file))
        return
    rows: list[dict[str, str]] = []
    for size in map(int, options.sizes.split(",")):
        told = file_rows(size, file_in_a_process(size))
        if options.part == "jgf":
            print(*(f"{size:,} nodes: {' | '.join(list(row.values())[1:])}" for row in told), sep="\n")
            continue
        ours = rows_of(size, in_a_process(size, options.rounds))
        rows += [*ours[:2], *told, *ours[2:]]
    if options.part == "jgf":
        print(_busy())
        return
    report("match", f"python -m bench.match --sizes {options.sizes}", rows, f"{FLUXION_LOAD}. {_busy()}")


if __name__ == "__main__":
    main()
