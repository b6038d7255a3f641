"""What a simulated cluster for external schedulers looks like: nodes, Testbeds, jobs and how long they run.

Read from a YAML file by `cli.esi_simulate`; without one it is ESI's own evaluation: three jobs, four nodes,
three of which are `scheduler-slots` and one `profiler-slots`. docs/esi-algorithms.md shows the file. Must not
run anything.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from fairlead.core import durations
from fairlead.model.batchjob import AppKind
from fairlead.model.quantity import QuantityError, amount
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.yamlfile import YamlFile, shown
from fairlead.sim.esi_objects import Manifest
from fairlead.sim.esi_operators import RunTimes
from fairlead.sim.esi_world import EsiWorld

PREFIX = "tuberlin.de/"
SLOT = {"cpu": "600m", "memory": "1.75Gi"}
SPARK: Manifest = {
    "type": "Scala",
    "mode": "cluster",
    "sparkVersion": "3.5.0",
    "image": "simulated",
    "mainApplicationFile": "local:///job.jar",
    "driver": {},
    "executor": {},
}
MOST_NODES = 10_000
FLINK_ACCOUNT = "flink"
"""The service account that drivers of FlinkDeployments need."""


class NodesLayout(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    count: int = 4
    cpu: str | int = "2"
    memory: str | int = "8Gi"


class TestbedLayout(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`nodes`: how many it has, counted on from those of the Testbeds before it."""

    __test__ = False

    name: str
    nodes: int
    slots_per_node: int = 2
    resources_per_slot: dict[str, str | int] = field(default_factory=lambda: dict(SLOT))


class JobLayout(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """`alone` and `beside`: how long it runs, as 90s or 2h30m; `beside` by the name of the other job.
    `fails`: after how long its first runs fail, one after the other."""

    name: str
    alone: str | int
    beside: dict[str, str | int] = {}
    kind: str = AppKind.SPARK.value
    fails: list[str | int] = []


class Layout(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    nodes: NodesLayout = NodesLayout()
    testbeds: list[TestbedLayout] = []
    jobs: list[JobLayout] = []


EVALUATION = Layout(
    testbeds=[TestbedLayout("scheduler-slots", 3), TestbedLayout("profiler-slots", 1)],
    jobs=[
        JobLayout("spark-pi", "100s", {"flink-wc": "120s", "spark-crawler": "135s"}),
        JobLayout("flink-wc", "80s", {"spark-pi": "110s", "spark-crawler": "85s"}, AppKind.FLINK.value),
        JobLayout("spark-crawler", "90s", {"spark-pi": "140s", "flink-wc": "95s"}),
    ],
)
"""The evaluation of ESI's thesis in small: who shares a node with whom makes a difference, and not the same
one for both."""
_KINDS = {"": Layout, "nodes": NodesLayout, "testbeds": TestbedLayout, "jobs": JobLayout}


def read(path: Path) -> Layout:
    """The layout in a file. Raises ConfigError with the place."""
    file = YamlFile(path)
    layout = file.convert(Layout, _KINDS)
    for where, what in _wrong(layout):
        raise file.wrong(where, what)
    return layout


def with_nodes(layout: Layout, count: int) -> Layout:
    """The same with so many nodes: the first Testbed gets those that the others do not have."""
    others = sum(each.nodes for each in layout.testbeds[1:])
    if count <= others:
        raise ConfigError(f"--nodes {count}: give more than {others}, so that every testbed has one")
    first, *rest = layout.testbeds
    testbeds = [TestbedLayout(first.name, count - others, first.slots_per_node, first.resources_per_slot)]
    nodes = NodesLayout(count, layout.nodes.cpu, layout.nodes.memory)
    return Layout(nodes, [*testbeds, *rest], layout.jobs)


def _wrong(layout: Layout) -> Iterator[tuple[str, str]]:
    """(Place, what is wrong there)."""
    if not 1 <= layout.nodes.count <= MOST_NODES:
        yield "nodes.count", f"is {layout.nodes.count}; give 1 to {MOST_NODES}"
    for key, value in (("cpu", layout.nodes.cpu), ("memory", layout.nodes.memory)):
        yield from _wrong_amount(f"nodes.{key}", key, value)
    if not layout.testbeds:
        yield "", "the key 'testbeds' is missing; name at least one"
    if not layout.jobs:
        yield "", "the key 'jobs' is missing; name at least one"
    taken = 0
    for i, testbed in enumerate(layout.testbeds):
        taken += testbed.nodes
        if testbed.nodes < 1 or taken > layout.nodes.count:
            yield (
                f"testbeds[{i}].nodes",
                f"is {testbed.nodes}; there are {layout.nodes.count} for all testbeds",
            )
        if testbed.slots_per_node < 1:
            yield f"testbeds[{i}].slotsPerNode", f"is {testbed.slots_per_node}; give 1, or more"
        for key, value in testbed.resources_per_slot.items():
            yield from _wrong_amount(f"testbeds[{i}].resourcesPerSlot.{key}", key, value)
    yield from _wrong_jobs(layout)


def _wrong_jobs(layout: Layout) -> Iterator[tuple[str, str]]:
    names = [job.name for job in layout.jobs]
    for i, job in enumerate(layout.jobs):
        if job.name in names[:i]:
            yield f"jobs[{i}].name", f"{job.name!r} stands twice"
        if job.kind not in list(AppKind):
            yield f"jobs[{i}].kind", f"is {shown(job.kind)}; give one of {', '.join(AppKind)}"
        if durations.duration(str(job.alone)) is None:
            yield f"jobs[{i}].alone", f"is {shown(job.alone)}; give 90s or 2h30m"
        for number, length in enumerate(job.fails):
            if durations.duration(str(length)) is None:
                yield f"jobs[{i}].fails[{number}]", f"is {shown(length)}; give 90s or 2h30m"
        for other, length in job.beside.items():
            if other not in names:
                yield f"jobs[{i}].beside.{other}", f"there is no job {other!r}; there are {', '.join(names)}"
            if durations.duration(str(length)) is None:
                yield f"jobs[{i}].beside.{other}", f"is {shown(length)}; give 90s or 2h30m"


def _wrong_amount(where: str, key: str, value: str | int) -> Iterator[tuple[str, str]]:
    try:
        amount(key, value)
    except QuantityError as error:
        yield where, str(error)


# -- as a world --------------------------------------------------------------------------------------


def world(layout: Layout, now: int = 0) -> EsiWorld:
    """A cluster like that, its Testbeds enrolled and its jobs there; `now`: what its clock shows first."""
    made = EsiWorld(run_times=_run_times(layout))
    made.now = max(now, made.now)
    members = _members(layout)
    for number in range(layout.nodes.count):
        cpu, memory = str(layout.nodes.cpu), str(layout.nodes.memory)
        made.node(f"node-{number}", members.get(number), cpu, memory)
    made.account(FLINK_ACCOUNT)
    for testbed in layout.testbeds:
        made.put(_testbed(testbed))
    for job in layout.jobs:
        made.put(_job(job))
        if job.fails:
            made.fail(job.name, *(durations.duration(str(each)) or 0 for each in job.fails))
    return made


def _members(layout: Layout) -> dict[int, dict[str, str]]:
    """Number of a node -> the label of its Testbed."""
    found: dict[int, dict[str, str]] = {}
    for testbed in layout.testbeds:
        for place in range(testbed.nodes):
            found[len(found)] = {f"{PREFIX}{testbed.name}": str(place)}
    return found


def _testbed(layout: TestbedLayout) -> Manifest:
    spec: Manifest = {
        "nodeLabel": f"{PREFIX}{layout.name}",
        "slotsPerNode": layout.slots_per_node,
        "resourcesPerSlot": layout.resources_per_slot,
    }
    return {"kind": "Testbed", "metadata": {"name": layout.name}, "spec": spec}


def _job(layout: JobLayout) -> Manifest:
    template: Manifest = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
    job = {"template": template}
    specs: dict[str, Manifest] = {
        AppKind.SPARK.value: {"sparkSpec": SPARK},
        AppKind.FLINK.value: {"flinkSpec": {"jarFile": "./job.jar"}},
        AppKind.FLINK_CLUSTER.value: {
            "flinkSpec": {"jarFile": "./job.jar"},
            "fairlead": {"flinkKind": AppKind.FLINK_CLUSTER.value},
        },
        AppKind.JOB.value: {"fairlead": {"jobSpec": job}},
        AppKind.JOB_SET.value: {
            "fairlead": {"jobSetSpec": {"replicatedJobs": [{"name": "workers", "template": {"spec": job}}]}}
        },
    }
    return {"kind": "BatchJob", "metadata": {"name": layout.name}, "spec": specs[layout.kind]}


def _run_times(layout: Layout) -> RunTimes:
    times = RunTimes()
    for job in layout.jobs:
        times.alone[job.name] = durations.duration(str(job.alone)) or 0
        for other, length in job.beside.items():
            times.beside[job.name, other] = durations.duration(str(length)) or 0
    return times
