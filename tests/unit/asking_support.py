"""A small busy cluster in the simulator, as the tests of asking see it: every state of a group once."""

from fairlead.core.state import State
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, OwnerRef, Pod, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings, single
from fairlead.sim.world import World

START = 1_790_000_000_000
MINUTE = 60_000
Gi = 1 << 30


def amounts(**named: int) -> Amounts:
    """cpu in cores, memory in Gi; `gpu` is the extended resource."""
    units = {"cpu": ("cpu", 1000), "memory": ("memory", Gi), "gpu": ("nvidia.com/gpu", 1)}
    found = [(units[name][0], n * units[name][1]) for name, n in named.items()]
    return tuple(sorted([*found, ("pods", 1)]))


def node(name: str, cpu: int = 8, gpu: int = 0, **fields: object) -> Node:
    what = [("cpu", cpu * 1000), ("memory", 32 * Gi), ("pods", 110)]
    what += [("nvidia.com/gpu", gpu)] if gpu else []
    return Node(f"uid-{name}", name, 0, tuple(sorted(what)), {"zone": "a"}, **fields)  # type: ignore[arg-type]


def gang(
    world: World, name: str, size: int, *, have: int | None = None, namespace: str = "team-a",
    run_time: int = 0, priority: int = 0, selector: tuple[Expression, ...] = (),
    annotations: dict[str, str] | None = None, size_label: str | None = None, **request: int,
) -> None:  # fmt: skip
    """A labelled gang; `have` pods of it exist."""
    labels = {"fairlead.dev/group": name, "fairlead.dev/group-size": size_label or str(size)}
    for i in range(size if have is None else have):
        shape = Shape(amounts(**(request or {"cpu": 1})), selector)
        pod = Pod(
            f"{name}-{i}", namespace, f"{name}-{i}", 0, shape, "fairlead", priority=priority, labels=labels,
            annotations=annotations or {},
        )  # fmt: skip
        world.pod(pod, run_time)


def busy() -> World:
    """Ten minutes into the day of a cluster of five nodes."""
    world = World()
    world.now = START
    world.run(1)
    for i in range(4):
        world.node(node(f"n{i}", gpu=2 if i < 2 else 0))
    world.node(node("n4", unschedulable=True))
    world.pod(Pod("sys", "kube-system", "dns", 0, Shape(amounts(cpu=1, memory=2)), node="n3"))
    gang(world, "short", 2, run_time=MINUTE)
    gang(world, "training", 3, cpu=6, memory=8, annotations={"fairlead.dev/duration": "2h"})
    world.run(2 * MINUTE)
    gang(world, "big", 3, cpu=8, memory=4, namespace="team-b", priority=100)
    world.run(MINUTE)
    gang(
        world, "a-sweep-with-a-name-that-somebody-generated-x7k2p", 16, cpu=1,
        annotations={"fairlead.dev/preferred-topology": "zone", "fairlead.dev/duration": "90m"},
        selector=(Expression("zone", Operator.IN, ("a",)),),
    )  # fmt: skip
    job = Owner("job-1", "Job", "team-b", "report", 0, size=2, deadline=3_600_000)
    world.owner(job)
    for i in range(2):
        ref = OwnerRef("Job", "report", "job-1")
        world.pod(
            Pod(f"report-{i}", "team-b", f"report-{i}", 0, Shape(amounts(cpu=2)), "fairlead", owner=ref)
        )
    gang(world, "assembling", 5, have=2)
    gang(world, "typo", 2, size_label="ten")
    gang(world, "later", 1, annotations={"fairlead.dev/begin-time": "2036-01-01T00:00:00Z"})
    gang(world, "huge", 10, cpu=20)
    world.run(7 * MINUTE)
    return world


def promising() -> World:
    """Two nodes under `easy`: one group has started after it was promised to, one is promised a start."""
    world = World(Settings(queues=single("easy")))
    world.now = START
    world.run(1)
    for i in range(2):
        world.node(node(f"n{i}"))
    gang(world, "short", 1, cpu=8, run_time=3 * MINUTE, annotations={"fairlead.dev/duration": "10m"})
    gang(world, "long", 1, cpu=8, annotations={"fairlead.dev/duration": "1h"})
    world.run(1)
    gang(world, "next", 1, cpu=8, annotations={"fairlead.dev/duration": "30m"})
    world.run(4 * MINUTE)
    gang(world, "wide", 2, cpu=8, namespace="team-b", annotations={"fairlead.dev/duration": "30m"})
    gang(world, "behind", 1, cpu=8, annotations={"fairlead.dev/duration": "2h"})
    world.run(MINUTE)
    return world


def state_of(world: World) -> State:
    return world.engine.state


def past(name: str = "yesterday", namespace: str = "team-a") -> GroupRecord:
    """A group that only the store remembers."""
    day = 24 * 3_600_000
    return GroupRecord(
        id=f"label:{namespace}/{name}#1", key=f"label:{namespace}/{name}", incarnation=1,
        namespace=namespace, name=name, seq=1, first_seen=START - day, source="label", size=4, seen=0,
        phase=Phase.ENDED, outcome=Outcome.FAILED, reason=Reason(Why.FAILED, ""), nodes=("n0", "n1"),
        complete_at=START - day, granted_at=START - day + 500, bound_at=START - day + 900,
        started_at=START - day + 2000, ended_at=START - day + MINUTE,
    )  # fmt: skip
