"""Jobspecs made of pods: our own parser reads them, and they match the nodes that the scheduler does.

The cluster is given twice, as nodes with labels and amounts and as a tree with the same nodes, whose
properties are the labels.
"""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Task
from fairlead.core.tree.columns import Pool, Tree
from fairlead.core.tree.graph import Graph, Op, Verdict
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.model.jobspec import Constraint, Jobspec
from fairlead.model.node import Node
from fairlead.model.pod import Amounts, Pod, Shape
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings
from fairlead.wire.jobspec import read
from fairlead.wire.jobspec_text import Asked, written
from fairlead.wire.units import in_graph_units

GIB = 1 << 30
keys, values = st.sampled_from(["a", "b/c"]), st.sampled_from(["", "x", "y"])
NODES = st.lists(
    st.tuples(
        st.integers(1, 6), st.integers(0, 4), st.integers(0, 2), st.dictionaries(keys, values, max_size=2)
    ),
    min_size=1,
    max_size=4,
)
PODS = st.tuples(st.integers(1, 6500), st.integers(0, 5 * GIB), st.integers(0, 2))
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, op, vs: Expression(key, op, tuple(vs)),
        keys,
        st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]),
        st.lists(values, min_size=1, max_size=2),
    ),
    st.builds(
        lambda op, name: Expression("metadata.name", op, (name,), True),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.sampled_from(["n0", "n1", "n9"]),
    ),
)
SELECTORS = st.lists(EXPRESSIONS, max_size=2).map(tuple)
AFFINITIES = st.lists(st.lists(EXPRESSIONS, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple)


def amounts(**wanted: int) -> Amounts:
    return tuple(sorted((name.replace("_", "/"), n) for name, n in wanted.items() if n))


def tree(nodes: list[tuple[int, int, int, dict[str, str]]]) -> Tree:
    """cluster - node - core, memory (1024 MB each), gpu."""
    pools = [Pool("0", None, "cluster", "c", "c0", 0, 0)]
    for at, (cores, memory, gpus, labels) in enumerate(nodes):
        node = Pool(f"n{at}", "0", "node", "n", f"n{at}", at, at, rank=at, properties=dict(labels))
        pools.append(node)
        for type_, number, size, unit in (
            ("core", cores, 1, ""),
            ("memory", memory, 1024, "MB"),
            ("gpu", gpus, 1, ""),
        ):
            for each in range(number):
                name = f"{type_}{each}"
                key = f"n{at}/{name}"
                pools.append(Pool(key, node.key, type_, type_, name, each, len(pools), size=size, unit=unit))
    return Tree(pools)


def pod(name: str, asked: tuple[int, int, int], selector: Any = (), affinity: Any = ()) -> Pod:
    requests = dict(amounts(cpu=asked[0], memory=asked[1], pods=1))
    if asked[2]:
        requests["nvidia.com/gpu"] = asked[2]
    return Pod(name, "default", name, 1, Shape(tuple(sorted(requests.items())), selector, affinity))


def places(at: int, node: tuple[int, int, int, dict[str, str]], shape: Shape) -> bool:
    """Whether the scheduler's matching puts a pod of this shape on this node, empty."""
    cores, memory, gpus, labels = node
    has = dict(amounts(cpu=cores * 1000, memory=memory * GIB, pods=110))
    if gpus:
        has["nvidia.com/gpu"] = gpus
    inventory = Inventory()
    inventory.put(Node("u", f"n{at}", 1, tuple(sorted(has.items())), labels))
    inventory.vector(shape.requests)
    request = Request("g", (0, 1, "g"), (Task(shape, ("p",)),), False, 0)
    snapshot = columns(inventory, (request,), Settings(), 0)
    return Matcher(Draft(snapshot), "first").place(request) is not None


def only(job: Jobspec, node: str) -> Jobspec:
    here = Constraint("hostlist", (), (node,))
    both = here if job.constraint is None else Constraint("and", (here, job.constraint))
    return Jobspec(job.resources, job.duration, job.queue, both)


def known(graph: Graph, type_: str) -> str:
    there = graph.tree.of_type(type_)
    return graph.tree.pools[int(there[0])].unit if len(there) else ""


@given(NODES, PODS, SELECTORS, AFFINITIES, st.sampled_from(["MB", "GB"]))
@settings(max_examples=200)
def test_a_member_fits_on_the_same_nodes(
    nodes: list[Any], asked: tuple[int, int, int], selector: Any, affinity: Any, unit: str
) -> None:
    member = pod("m", asked, selector, affinity)
    jobspec, remarks = written(Asked("m", [member], 1), unit)
    assert remarks == []
    graph = Graph(Tree(tree(nodes).pools), match_policy("low"))
    job = in_graph_units(read(msgspec.json.encode(jobspec).decode()), lambda type_: known(graph, type_))
    fitting = [
        at
        for at in range(len(nodes))
        if graph.match(only(job, f"n{at}"), Op.satisfiability, 1).verdict is Verdict.granted
    ]
    assert fitting == [at for at, node in enumerate(nodes) if places(at, node, member.shape)]


WHOLE = st.tuples(st.sampled_from([1000, 2000, 3000]), st.sampled_from([0, GIB, 2 * GIB]), st.integers(0, 1))


@given(NODES, st.lists(st.tuples(st.integers(1, 2), WHOLE), min_size=2, max_size=3))
@settings(max_examples=200)
def test_unlike_members_have_room_together_where_the_scheduler_places_them(
    nodes: list[Any], kinds: list[tuple[int, tuple[int, int, int]]]
) -> None:
    """Of whole cores and whole vertices of memory: never called too much where one of both has room."""
    members = [pod(f"m{i}-{j}", asked) for i, (times, asked) in enumerate(kinds) for j in range(times)]
    inventory = Inventory()
    for at, (cores, memory, gpus, labels) in enumerate(nodes):
        has = (("cpu", cores * 1000), ("memory", memory * GIB), ("nvidia.com/gpu", gpus), ("pods", 110))
        inventory.put(Node(f"u{at}", f"n{at}", 1, has, labels))
    tasks: dict[Shape, list[str]] = {}
    for member in members:
        tasks.setdefault(member.shape, []).append(member.uid)
        inventory.vector(member.shape.requests)
    asked = tuple(Task(shape, tuple(uids)) for shape, uids in tasks.items())
    request = Request("g", (0, 1, "g"), asked, False, 0)
    snapshot = columns(inventory, (request,), Settings(), 0)
    live = Matcher(Draft(snapshot), "first").place(request) is not None
    graph = Graph(Tree(tree(nodes).pools), match_policy("lonode"))
    jobspec, remarks = written(Asked("g", members, len(members)), "MB")
    assert remarks == []
    job = in_graph_units(read(msgspec.json.encode(jobspec).decode()), lambda type_: known(graph, type_))
    able = graph.match(job, Op.satisfiability, 1).verdict is Verdict.granted
    now = graph.match(job, Op.allocate, 1).verdict is Verdict.granted
    assert able or not (live or now), "one of them has a place for all"
    assert graph.bookings.check() == []


@given(
    st.lists(PODS, min_size=1, max_size=4),
    st.integers(1, 6),
    st.integers(0, 10**9),
    st.sampled_from(["", "rack", "zone"]),
    st.booleans(),
    SELECTORS,
)
@settings(max_examples=200)
def test_what_is_written_is_read(
    asked: list[tuple[int, int, int]], size: int, duration: int, level: str, whole: bool, selector: Any
) -> None:
    members = [pod(f"m-{number}", each, selector) for number, each in enumerate(asked)]
    group = Asked("team/g", members, size, duration, "batch", level, whole)
    jobspec, remarks = written(group)
    job = read(msgspec.json.encode(jobspec).decode())
    assert job.queue == "batch" and 0 <= job.duration * 1000 - duration < 1000
    slots = job.resources[0].children if level else job.resources
    assert sum(slot.count.min for slot in slots) == max(size, len(members))
    assert len({slot.label for slot in slots}) == len(slots)
    assert (size > len(members)) == any("are not in the file" in remark for remark in remarks)
    if level:
        assert (job.resources[0].type, job.resources[0].count.max) == (level, 1)
    for slot in slots:
        assert [child.type == "node" and child.exclusive for child in slot.children] == [True] or not whole
