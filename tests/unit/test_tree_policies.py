"""bestfit, pack and spread in the containment tree: which node they choose, by counting in plain Python."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.tree.columns import Pool, Tree, TreeError
from fairlead.core.tree.graph import Graph, Op
from fairlead.core.tree.levels import Levels
from fairlead.core.tree.matchpolicy import POLICIES, match_policy
from fairlead.model.jobspec import Constraint, Count, Jobspec, Resource


def cluster(nodes: list[tuple[int, int]]) -> Tree:
    """Nodes with cores and gpus."""
    pools = [Pool("c", None, "cluster", "c", "c0", 0, 0)]
    for at, amounts in enumerate(nodes):
        pools.append(Pool(f"n{at}", "c", "node", "node", f"node{at}", at, len(pools), rank=at))
        for type_, number in zip(("core", "gpu"), amounts, strict=True):
            for each in range(number):
                name = f"{type_}{each}"
                pools.append(Pool(f"n{at}{name}", f"n{at}", type_, type_, name, each, len(pools)))
    return Tree(pools)


def job(cores: int, gpus: int = 0, node: str = "") -> Jobspec:
    parts = [Resource("core", Count(cores, cores))]
    if gpus:
        parts.append(Resource("gpu", Count(gpus, gpus)))
    slot = Resource("slot", Count(1, 1), label="s", children=tuple(parts))
    there = Constraint("hostlist", (), (node,)) if node else None
    return Jobspec((Resource("node", Count(1, 1), children=(slot,)),), 60, "", there)


def chosen(graph: Graph, asked: Jobspec, id_: int) -> int | None:
    """The number of the node that a job gets."""
    got = graph.match(asked, Op.allocate, id_).job
    if got is None:
        return None
    (node,) = [v for v in got.held if graph.tree.type[v] == "node"]
    return int(graph.tree.id[node])


@pytest.mark.parametrize(("policy", "node"), [("pack", 1), ("spread", 2), ("bestfit", 1), ("low", 0)])
def test_the_fullest_the_emptiest_the_tightest(policy: str, node: int) -> None:
    graph = Graph(cluster([(4, 0), (4, 0), (4, 0)]), match_policy(policy))
    assert chosen(graph, job(1, node="node0"), 1) == 0
    assert chosen(graph, job(2, node="node1"), 2) == 1
    assert chosen(graph, job(1), 3) == node


def test_best_fit_looks_at_what_is_asked_for_and_pack_at_all_there_is() -> None:
    nodes = [(8, 0), (2, 4), (4, 0)]
    assert chosen(Graph(cluster(nodes), match_policy("bestfit")), job(2), 1) == 1
    packed = Graph(cluster(nodes), match_policy("pack"))
    assert chosen(packed, job(3, node="node0"), 1) == 0
    assert chosen(packed, job(2), 2) == 0, "the others are empty"


def expected(
    policy: str, free: list[tuple[int, int]], whole: list[tuple[int, int]], asked: tuple[int, int]
) -> int | None:
    """The node by exact fractions; the lowest of equals."""
    best: tuple[Fraction, int] | None = None
    for at, (left, all_) in enumerate(zip(free, whole, strict=True)):
        if left[0] < asked[0] or left[1] < asked[1]:
            continue
        kinds = [k for k in (0, 1) if all_[k]]
        share = sum((Fraction(left[k], all_[k]) for k in kinds), Fraction(0)) / len(kinds)
        wanted = [k for k in (0, 1) if asked[k]]
        key = {
            "pack": share,
            "spread": 1 - share,
            "bestfit": sum((Fraction(left[k], asked[k]) for k in wanted), Fraction(0)),
        }[policy]
        if best is None or key < best[0]:
            best = key, at
    return None if best is None else best[1]


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([0, 1, 2, 4])), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([0, 1, 2])), min_size=1, max_size=8),
    st.sampled_from(["pack", "spread", "bestfit"]),
)
@settings(max_examples=150)
def test_each_choice_is_the_one_that_fractions_give(
    nodes: list[tuple[int, int]], asked: list[tuple[int, int]], policy: str
) -> None:
    graph = Graph(cluster(nodes), match_policy(policy))
    free = list(nodes)
    for id_, (cores, gpus) in enumerate(asked, 1):
        wanted = expected(policy, free, nodes, (cores, gpus))
        assert chosen(graph, job(cores, gpus), id_) == wanted
        if wanted is not None:
            free[wanted] = free[wanted][0] - cores, free[wanted][1] - gpus


def racks() -> Tree:
    """Two racks of two nodes with four cores each."""
    pools = [Pool("c", None, "cluster", "c", "c0", 0, 0)]
    for rack in range(2):
        pools.append(Pool(f"r{rack}", "c", "rack", "rack", f"rack{rack}", rack, len(pools)))
        for at in (2 * rack, 2 * rack + 1):
            pools.append(Pool(f"n{at}", f"r{rack}", "node", "node", f"node{at}", at, len(pools), rank=at))
            for each in range(4):
                pools.append(Pool(f"{at}.{each}", f"n{at}", "core", "core", f"core{each}", each, len(pools)))
    return Tree(pools)


@pytest.mark.parametrize(
    ("policy", "rack"), [("bestfit", 1), ("pack", 1), ("spread", 0), ("low", 0), ("high", 1)]
)
@pytest.mark.parametrize("levels", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_whole_nodes_count_as_full_where_racks_are_chosen(
    policy: str, rack: int, levels: bool, named: bool
) -> None:
    graph = Graph(racks(), match_policy(policy), levels=levels)
    core = (Resource("slot", Count(1, 1), label="s", children=(Resource("core", Count(1, 1)),)),)
    node = Resource("node", Count(1, 1), exclusive=True, children=core)
    if not named:  # then the job holds the node only, not what is in it
        node = Resource("slot", Count(1, 1), label="s", children=(Resource("node", Count(1, 1)),))
    here = Constraint("hostlist", (), ("node3",))
    assert chosen(graph, job(1, node="node0"), 1) == 0
    assert chosen(graph, Jobspec((node,), 60, "", here), 2) == 3
    inner = Resource("node", Count(1, 1), children=core)
    got = graph.match(Jobspec((Resource("rack", Count(1, 1), children=(inner,)),), 60), Op.allocate, 3).job
    assert got is not None
    assert [int(graph.tree.id[v]) for v in got.held if graph.tree.type[v] == "rack"] == [rack]


@pytest.mark.parametrize(("policy", "inside"), [("bestfit", 1 + 4), ("pack", 1 + 4), ("low", 1)])
def test_only_policies_that_rank_by_load_count_what_is_inside_of_whole_nodes(
    policy: str, inside: int
) -> None:
    graph = Graph(racks(), match_policy(policy))
    core = (Resource("slot", Count(1, 1), label="s", children=(Resource("core", Count(1, 1)),)),)
    node = Resource("node", Count(1, 1), exclusive=True, children=core)
    got = graph.match(Jobspec((node,), 60), Op.allocate, 1).job
    assert got is not None and len(got.held) == 1 + 4 + 2, "with all it has, the rack and the cluster"
    levels = Levels(graph.tree, graph.policy)
    delta = levels.delta(got)
    types = sorted(graph.tree.type[v] for v in levels.vertices[delta.exclusive])
    assert types == ["core"] * (inside - 1) + ["node"]
    assert len(delta.any) == inside + 2
    assert len(set(delta.any.tolist())) == len(delta.any)
    levels.follow({1: got}, [1])
    free = levels.at(False, True, (0, 60)).leaves["core"].tolist()
    assert free == [4 - (inside - 1), 4, 4, 4]


def test_no_place_stands_twice_where_something_shared_is_inside_of_a_whole_vertex() -> None:
    graph = Graph(racks(), match_policy("pack"))
    rack, core = graph.vertex("/c0/rack1"), graph.vertex("/c0/rack1/node2/core1")
    job = graph.reinstate(1, graph.closure([rack, core]), 0, 60, False)
    assert not job.held[graph.vertex("/c0/rack1/node2")].exclusive
    delta = Levels(graph.tree, graph.policy).delta(job)
    assert len(delta.any) == len(set(delta.any.tolist())) == 1 + 1 + 2 + 8


def test_policies_by_options() -> None:
    assert match_policy("policy=pack node_exclusive=true").load == "pack"
    assert match_policy("policy=low") == POLICIES["low"]
    with pytest.raises(TreeError, match="cannot rank by load"):
        match_policy("policy=spread stop_on_1_matches=true")
