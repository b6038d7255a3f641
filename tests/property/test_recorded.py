"""A recorded cluster is a workload: what was recorded of a run, played again, comes out the same."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model.group import GroupRecord, Phase
from fairlead.model.node import Node
from fairlead.model.pod import Pod, Shape
from fairlead.model.record import NodeLife, PodLife
from fairlead.model.settings import Settings, single
from fairlead.sim import inputs, swf, trace
from fairlead.sim.play import play
from fairlead.sim.recorded import Window, recorded
from fairlead.sim.workload import Arrival, Result, Workload
from fairlead.wire.files import FileError

EPOCH = 1_790_000_000_000
MINUTE = 60_000
FAR = EPOCH + 10**12

jobs = st.lists(
    st.tuples(
        st.integers(0, 20).map(lambda n: n * MINUTE),  # submitted
        st.integers(1, 3),  # members
        st.integers(1, 4),  # cpu of each
        st.integers(1, 10).map(lambda n: n * MINUTE),  # runs
        st.integers(0, 5).map(lambda n: n * MINUTE),  # asked for more than that
    ),
    min_size=1,
    max_size=12,
)


def machine(n: int = 3, cpu: int = 4) -> tuple[Node, ...]:
    held = (("cpu", cpu * 1000), ("pods", 110))
    return tuple(Node(f"node/n{i}", f"n{i}", 1, held, {"zone": "a"}) for i in range(n))


def workload(found: list[tuple[int, int, int, int, int]]) -> Workload:
    arrivals: list[Arrival] = []
    for i, (at, size, cpu, run, more) in enumerate(sorted(found)):
        labels = {"fairlead.dev/group": f"j{i}", "fairlead.dev/group-size": str(size)} if size > 1 else {}
        shape = Shape((("cpu", cpu * 1000), ("pods", 1)))
        pods = tuple(
            Pod(f"{i}-{k}", "team", f"j{i}-{k}", 1, shape, "fairlead", labels=labels, walltime=run + more)
            for k in range(size)
        )
        arrivals.append(Arrival(at, f"j{i}", pods, run, run + more, size * cpu))
    return Workload("drawn", machine(), tuple(arrivals), 12)


def lives(given_: Workload, result: Result) -> tuple[list[PodLife], list[NodeLife]]:
    """What a recorder would have written."""
    pods: list[PodLife] = []
    for arrival, row in zip(given_.arrivals, result.rows, strict=True):
        for pod in arrival.pods:
            requests = {name: amount for name, amount in pod.shape.requests if name != "pods"}
            at = EPOCH + arrival.at
            start = EPOCH + row.start if row.start >= 0 else 0
            end = EPOCH + row.end if row.end >= 0 else 0
            pods.append(
                PodLife(
                    f"uid-{pod.uid}", pod.namespace, pod.name, 1, "fairlead",
                    group=arrival.name if len(arrival.pods) > 1 else "", node=row.nodes[0] if start else "",
                    requests=requests, walltime=pod.walltime, created=at, queued=at, bound=start,
                    first_seen=EPOCH + len(pods),
                    started=start, finished=end, deleted=end,
                )
            )  # fmt: skip
    nodes = [
        NodeLife(node.uid, node.name, EPOCH - MINUTE, 1, allocatable=dict(node.allocatable))
        for node in given_.nodes
    ]
    return pods, nodes


def starts(result: Result) -> list[tuple[int, int, int]]:
    first = min(row.submit for row in result.rows)
    return [(row.submit - first, row.start - first, row.procs) for row in result.rows]


@settings(max_examples=60, deadline=None)
@given(jobs, st.sampled_from(["fcfs", "easy", "conservative"]))
def test_RB4_what_was_recorded_comes_out_the_same_when_it_is_played_again(
    found: list[tuple[int, int, int, int, int]], policy: str
) -> None:
    chosen = Settings(queues=single(policy), pace=0, advise=False)
    given_ = workload(found)
    first = play(given_, chosen)
    pods, nodes = lives(given_, first)
    made, left = recorded(pods, nodes, [], Window(EPOCH, FAR), settings=chosen)
    text = b"".join(trace.write(made)).decode()
    again = trace.read(Path("x.trace"), text)
    assert again == made
    assert not any(left)
    assert sorted(starts(play(trace.workload(again), chosen))) == sorted(starts(first))


@settings(max_examples=40, deadline=None)
@given(jobs)
def test_an_exported_log_is_the_same_workload(found: list[tuple[int, int, int, int, int]]) -> None:
    """On one node of all processors, as logs are played."""
    chosen = Settings(queues=single("easy"), pace=0, advise=False)
    one = workload(found)._replace(nodes=machine(1, 12))
    first = play(one, chosen)
    pods, nodes = lives(one, first)
    made, _ = recorded(pods, nodes, [], Window(EPOCH, FAR))
    text = "".join(swf.write(made))
    assert swf.machine(text) == 12
    faults = inputs.Faults(Path("x.swf"), strict=True)
    read = list(swf.read(text, faults))
    jobs_ = list(inputs.logs.clean(read, 12, 0, faults))
    again = Workload("x", one.nodes, tuple(inputs.logs.arrivals(jobs_, together=True)), 12)
    assert sorted(starts(play(again, chosen))) == sorted(starts(first))


def life(name: str, **fields: object) -> PodLife:
    values: dict[str, object] = {"created": EPOCH, "queued": EPOCH, "requests": {"cpu": 1000}, **fields}
    return PodLife(f"uid-{name}", "team", name, 1, scheduler="fairlead", **values)  # type: ignore[arg-type]


NODES = [
    NodeLife("u0", "n0", EPOCH - MINUTE, 1, allocatable={"cpu": 8000, "pods": 10}, taints=("a=b:NoSchedule",))
]


def test_a_node_that_joined_again_is_one_node() -> None:
    nodes = [
        NodeLife("u0", "n0", EPOCH - MINUTE, 1, allocatable={"cpu": 8000}, until=EPOCH + MINUTE),
        NodeLife("u9", "n0", EPOCH + 2 * MINUTE, 5, allocatable={"cpu": 8000}),
    ]
    found, left = recorded([life("a")], nodes, [], Window(EPOCH, FAR))
    assert [node.name for node in found.nodes] == ["n0"]
    assert left.nodes_changed == 1


def test_what_a_trace_cannot_say_is_counted() -> None:
    group = {"group": "g", "bound": EPOCH + 10, "started": EPOCH + 20}
    pods = [
        life("a", finished=EPOCH + MINUTE, **group),
        life("b", finished=EPOCH + MINUTE, **group),
        life("c", **{**group, "created": EPOCH + 500, "queued": EPOCH + 500, "bound": EPOCH + 600}),
        life("alone", walltime=5 * MINUTE),
        life("cancelled", deleted=EPOCH + 5),
    ]
    foreign = [
        PodLife("x", "kube-system", "dns", 1, "default-scheduler", node="n0", requests={"cpu": 500},
                created=EPOCH - MINUTE, bound=EPOCH - MINUTE),
        PodLife("y", "kube-system", "late", 1, "default-scheduler", created=EPOCH + 1),
    ]  # fmt: skip
    made, left = recorded([*pods, *foreign], NODES, [], Window(EPOCH, FAR))
    assert [(job.name, job.run) for job in made.jobs] == [("g", MINUTE - 20), ("alone", 5 * MINUTE), ("g", 0)]
    assert dict(made.nodes[0].allocatable) == {"cpu": 7500, "pods": 9}
    assert [(t.key, t.value, t.effect) for t in made.nodes[0].taints] == [("a", "b", "NoSchedule")]
    assert (left.others, left.growth, left.cancelled, left.unended) == (1, 1, 1, 2)
    names = [arrival.name for arrival in trace.workload(made).arrivals]
    assert names == ["g", "alone", "g.1"]


def test_what_the_store_knows_of_a_group_counts() -> None:
    record = GroupRecord(
        "pod:uid-a#0", "pod:uid-a", 0, "team", "good", 1, EPOCH, queue="night", priority=7, duration=MINUTE,
        phase=Phase.RUNNING,
    )  # fmt: skip
    made, _ = recorded([life("a", bound=EPOCH + 5)], NODES, [record], Window(EPOCH, FAR))
    (job,) = made.jobs
    assert (job.name, job.queue, job.priority, job.estimate) == ("good", "night", 7, MINUTE)


def test_nodes_are_those_of_the_begin() -> None:
    was = NodeLife("u0", "n0", EPOCH - 2 * MINUTE, 1, allocatable={"cpu": 4000}, until=EPOCH - MINUTE)
    gone = NodeLife("u1", "n1", EPOCH - MINUTE, 1, allocatable={"cpu": 4000}, until=EPOCH - 1)
    came = NodeLife("u2", "n2", EPOCH + MINUTE, 1, allocatable={"cpu": 2000})
    made, left = recorded([life("a")], [was, *NODES, gone, came], [], Window(EPOCH, FAR))
    assert [(node.name, dict(node.allocatable)["cpu"]) for node in made.nodes] == [("n0", 8000), ("n2", 2000)]
    assert left.nodes_changed == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"type":"trace","format":"other/1","name":"","begin":0,"until":0}', "this version reads"),
        ('{"type":"job","at":1,"namespace":"a","name":"b","tasks":[[1,4]]}', "there is no shape 4"),
        ("nonsense", "x.trace:1: not a line of a trace"),
        ("", "it does not begin with"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(text: str, words: str) -> None:
    with pytest.raises(FileError, match=words):
        trace.read(Path("x.trace"), text)
