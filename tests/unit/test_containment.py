"""The live cluster as a tree: what is exported loads again, is consistent, and can be matched on."""

import json
import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli_app import run, serving
from typer.testing import CliRunner

from fairlead.cli import main
from fairlead.core import story
from fairlead.core.containment import UNIT, pools, split
from fairlead.core.state import State
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.parts import Pool
from fairlead.model.node import Node
from fairlead.model.settings import Settings, single
from fairlead.model.view import ExplanationPage, GraphPage
from fairlead.runtime.metrics import Metrics
from fairlead.sim.stage import Stage
from fairlead.wire import jgf

KEYS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/rack", "example.com/node")
NAMES = st.sampled_from(["a", "b", "n1", "n2", "rack-a", ""])
NODES = st.lists(
    st.builds(
        lambda labels, cpu, memory, devices, ready: (labels, cpu, memory, devices, ready),
        st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, NAMES)),
        st.integers(0, 9_999),
        st.integers(0, 90 << 20),
        st.sampled_from([0, 1, 7, 300]),
        st.booleans(),
    ),
    max_size=6,
)


def made(found: list[tuple[dict[str, str], int, int, int, bool]]) -> list[Node]:
    return [
        Node(
            f"u{i}", f"n{i}", 1,
            (("cpu", cpu), ("example.com/fpga", devices), ("memory", memory), ("nvidia.com/gpu", 2)),
            labels, ready=ready,
        )
        for i, (labels, cpu, memory, devices, ready) in enumerate(found)
    ]  # fmt: skip


def consistent(drawn: list[Pool]) -> str:
    """Every identity is there once and leads back to its vertex; and the text of it."""
    tree = Tree(drawn)
    assert len({pool.uniq_id for pool in drawn}) == len(drawn)
    assert len(set(tree.paths)) == len(tree)
    assert all(tree.by_path.get(path) == v for v, path in enumerate(tree.paths))
    for v in range(1, len(tree)):
        assert tree.paths[v] == f"{tree.paths[int(tree.parent[v])]}/{tree.name(v)}"
    return jgf.whole(tree)


@settings(max_examples=40)
@given(NODES, st.randoms(use_true_random=False))
def test_I10_an_exported_graph_is_consistent_and_loads_to_the_same_bytes(
    found: list[tuple[dict[str, str], int, int, int, bool]], chance: random.Random
):
    nodes = made(found)
    drawn = pools(nodes, KEYS)
    for each in (drawn, split(drawn)):
        text = consistent(each)
        assert jgf.whole(Tree(jgf.read(text))) == text
    chance.shuffle(nodes)
    assert consistent(pools(nodes, KEYS)) == consistent(drawn)  # whoever was seen first
    assert consistent(split(Tree(jgf.read(consistent(drawn))).pools)) == consistent(split(drawn))


@settings(max_examples=40)
@given(NODES)
def test_I10_a_graph_has_what_the_nodes_have(found: list[tuple[dict[str, str], int, int, int, bool]]):
    nodes = {node.name: node for node in made(found)}
    for drawn in (pools(list(nodes.values()), KEYS), split(pools(list(nodes.values()), KEYS))):
        tree = Tree(drawn)
        there = tree.of_type("node").tolist()
        assert sorted(tree.name(v) for v in there) == sorted(nodes)
        for v in there:
            node, inside = nodes[tree.name(v)], range(v, int(tree.end[v]))
            has = {type_: sum(tree.sizes[w] for w in inside if tree.type[w] == type_) for type_ in tree.types}
            wanted = dict(node.allocatable)
            assert has.get("core", 0) == wanted["cpu"] // 1000
            assert has.get("memory", 0) == wanted["memory"] >> 20
            assert (has["gpu"], has.get("example.com/fpga", 0)) == (2, wanted["example.com/fpga"])
            assert tree.up[v] == node.ready and tree.properties(v) == node.labels
            places = [node.labels[key] for key in KEYS if key in node.labels]
            assert len(tree.ancestors(v)) == 1 + len(places)
        assert {tree.unit(type_) for type_ in ("memory",) if type_ in tree.types} <= {UNIT}


# -- a cluster that runs -----------------------------------------------------------------------------

JOB = {
    "version": 1,
    "resources": [
        {"type": "rack", "count": 1, "with": [{"type": "slot", "count": 4, "label": "default", "with": [
            {"type": "node", "count": 1, "with": [{"type": "core", "count": 2}]}]}]},
    ],
    "tasks": [{"command": ["a"], "slot": "default", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 60}},
}  # fmt: skip


@pytest.fixture(scope="module")
def state() -> State:
    """Eight nodes in two racks; a group in one rack, one that waits for a rack of its own."""
    stage = Stage(Settings(pace=0))
    stage.add_nodes(8, {"cpu": "4", "memory": "8Gi", "racks": "4", "zones": "8"})
    stage.world.run(20)
    stage.do(["submit", "solver", "3x", "cpu=2", "memory=1Gi", "required-topology=rack", "exclusive=true"])
    stage.world.run(20)
    stage.do(["submit", "later", "6x", "cpu=4", "preferred-topology=rack"])
    stage.world.run(20)
    return stage.world.engine.state


def test_I10_resource_query_matches_on_the_exported_graph(state: State, tmp_path: Path):
    with serving(state) as url:
        exported = run("graph", "--server", url, "-o", "jgf")
        assert exported.exit_code == 0, exported.output
        whole = run("graph", "--server", url, "-o", "jgf", "--whole")
        page = msgspec.json.decode(run("graph", "--server", url, "-o", "json").stdout, type=GraphPage)
    assert jgf.whole(Tree(jgf.read(exported.stdout))) == exported.stdout
    assert json.loads(whole.stdout) == {"graph": page.graph}
    graph, job = tmp_path / "cluster.json", tmp_path / "job.json"
    graph.write_text(exported.stdout, encoding="utf-8")
    job.write_text(json.dumps(JOB), encoding="utf-8")
    lines = f"match allocate {job}\n" * 3 + "quit\n"
    words = ["resource-query", "-L", str(graph), "-f", "jgf", "-P", "low", "-d"]
    told = CliRunner().invoke(main.app, words, input=lines).stdout
    first, second, third = told.split("JOBID=")[:3]
    racks = [[name for name in ("rack0", "rack1") if name in text] for text in (first, second)]
    assert racks == [["rack0"], ["rack1"]]  # whole nodes: each job fills a rack
    assert [first.count("[4:"), first.count("core")] == [0, 8]
    assert "No matching resources found" in third


def test_graph_as_a_table(state: State):
    with serving(state) as url:
        short, wide = (run("graph", "--server", url, *more).stdout for more in ([], ["-o", "wide"]))
    assert [line.split() for line in short.splitlines()] == [
        ["PLACE", "LEVEL", "NODES", "UP", "CORES", "GPUS", "MEMORY"],
        ["cluster0", "cluster", "8", "8", "32", "0", "64Gi"],
        ["zone0", "zone", "8", "8", "32", "0", "64Gi"],
        ["rack0", "rack", "4", "4", "16", "0", "32Gi"],
        ["rack1", "rack", "4", "4", "16", "0", "32Gi"],
    ]
    assert ["n5", "node", "1", "1", "4", "0", "8Gi"] in [line.split() for line in wide.splitlines()]


# -- how far groups spread ---------------------------------------------------------------------------


def test_D9_a_groups_span_is_told(state: State):
    with serving(state) as url:
        told = run("explain", "solver", "--server", url)
        page = msgspec.json.decode(
            run("explain", "solver", "--server", url, "-o", "json").stdout, type=ExplanationPage
        )
        later = run("explain", "later", "--server", url).stdout
        nodes = run("nodes", "--server", url, "-o", "wide").stdout
    (solver,) = page.groups
    assert solver.span == {"node": 3, "rack": 1, "zone": 1}
    assert (solver.layout.required, solver.layout.exclusive) == ("topology.kubernetes.io/rack", True)
    assert "n0-n2 (3 nodes in 1 rack, 1 zone)" in told.stdout
    assert "all in one topology.kubernetes.io/rack" in told.stdout
    assert "each on a node of its own" in told.stdout
    assert "in as few domains of topology.kubernetes.io/rack as can be had" in later
    row = next(line.split() for line in nodes.splitlines() if line.startswith("n0 "))
    assert row[1] == "exclusive" and "zone0/rack0" in row
    assert "node" not in nodes.splitlines()[0].lower().split()[1:]  # places are no resource to people


def test_D9_a_promises_span_is_told():
    stage = Stage(Settings(pace=0, queues=single("easy")))
    stage.add_nodes(4, {"cpu": "4", "racks": "2"})
    for words in (
        "first 2x cpu=4 for 30m",
        "more 2x cpu=4 for 60m",
        "next 2x cpu=4 required-topology=rack for 60m",
    ):
        stage.world.run(20)
        stage.do(["submit", *words.split()])
    stage.world.run(100)
    state = stage.world.engine.state
    (group,) = story.find(state, "next")
    promise = story.explain(state, group, state.now).promise
    assert promise is not None
    assert promise.nodes == ("n0", "n1") and promise.span == {"node": 2, "rack": 1}


def test_D9_spans_are_measured():
    metrics = Metrics()
    metrics.spans({"node": 8, "rack": 2})
    text = metrics.render({}, {}, True).decode()
    assert 'fairlead_group_span_sum{level="node"} 8.0' in text
    assert 'fairlead_group_span_bucket{le="1.0",level="rack"} 0.0' in text
    assert 'fairlead_group_span_bucket{le="2.0",level="rack"} 1.0' in text
