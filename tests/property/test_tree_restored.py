"""Whole sessions on random trees: what is given back is as if it had never been taken.

The dump of a state is all that anybody can ask of it: the graph, every job with what it holds, what `find`
says of each vertex with its filters, and how matches would end now.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.property.test_tree import do, jobspecs, steps, told, trees, usual

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Pool, Tree, TreeError
from fairlead.core.tree.find import Found
from fairlead.core.tree.graph import Graph, Op
from fairlead.core.tree.matchpolicy import POLICIES, match_policy
from fairlead.core.tree.near import Near
from fairlead.model.jobspec import Count, Jobspec, Resource
from fairlead.wire import jgf

ranked = st.sampled_from([name for name, policy in POLICIES.items() if not policy.first])
anything = st.sampled_from(list(POLICIES))
ONE = Count(1, 1)
CORE = Resource("slot", ONE, label="task", children=(Resource("core", ONE),))
PROBES = [
    Jobspec((CORE,), 10),
    Jobspec((Resource("node", ONE, exclusive=True),), 25),
    Jobspec((Resource("rack", ONE, children=(Resource("node", Count(2, 2), children=(CORE,)),)),), 10),
]
QUESTIONS = ["status=down", "sched-now=allocated", "sched-future=reserved", "sched-now=free", "property=fast"]


def dump(graph: Graph) -> list[object]:
    """All that can be asked of a graph; asking changes nothing."""
    found: list[object] = [jgf.whole(graph.tree), [jotted(graph, id_) for id_ in sorted(graph.bookings.jobs)]]
    found += [Found(graph, question).vertices for question in QUESTIONS]
    counts = Found(graph, "status=up and agfilter=true")
    found += [(v, counts.shown_filters(v, 0)) for v in counts.vertices]
    if not graph.policy.first:  # which child is tried first depends on who passed, by design
        found += [told(graph.match(probe, Op.without_allocating, 10_000)) for probe in PROBES]
    found += [graph.match(probe, Op.satisfiability, 10_000).verdict for probe in PROBES]
    return found


def jotted(graph: Graph, id_: int) -> object:
    job = graph.bookings.jobs[id_]
    held = sorted((graph.tree.paths[v], each.needs, each.exclusive) for v, each in job.held.items())
    return job.id, job.start, job.end, job.reserved, held


def lived(pools: list[Pool], policy: str, history: Any) -> Graph:
    graph = Graph(Tree(pools), match_policy(policy), filters="ALL:core,ALL:node,rack:gpu")
    for number, step in enumerate(history, 1):
        do(graph, number, step)
    return graph


askings = st.builds(Jobspec, usual(), st.sampled_from([0, 10, 25]))
"""Requests that often fit: what does not shows nothing here."""


@given(trees(), anything, steps, askings)
@settings(max_examples=60, deadline=None)
def test_after_cancel_the_whole_dump_is_what_it_was(
    pools: list[Pool], policy: str, history: Any, asked: Jobspec
) -> None:
    graph = lived(pools, policy, history)
    before = dump(graph)
    if graph.match(asked, Op.allocate_orelse_reserve, 1000).job is None:
        return
    assert dump(graph) != before
    graph.cancel(1000)
    assert dump(graph) == before


@given(
    trees(), anything, steps, st.lists(jobspecs, min_size=2, max_size=5), st.randoms(use_true_random=False)
)
@settings(max_examples=40, deadline=None)
def test_cancels_in_any_order_restore_the_dump(
    pools: list[Pool], policy: str, history: Any, asked: list[Jobspec], chance: Any
) -> None:
    graph = lived(pools, policy, history)
    before = dump(graph)
    ids = list(range(1000, 1000 + len(asked)))
    there = [id_ for id_, each in zip(ids, asked, strict=True) if graph.match(each, Op.allocate, id_).job]
    chance.shuffle(there)
    for id_ in there:
        graph.cancel(id_)
    assert dump(graph) == before


@given(trees(), anything, steps, jobspecs, st.sampled_from(list(Op)))
@settings(max_examples=60, deadline=None)
def test_what_is_not_granted_changes_nothing(
    pools: list[Pool], policy: str, history: Any, asked: Jobspec, op: Op
) -> None:
    graph = lived(pools, policy, history)
    before = dump(graph)
    graph.match(asked, op, 1000)
    if 1000 not in graph.bookings.jobs:
        assert dump(graph) == before
    else:
        assert op not in (Op.satisfiability, Op.without_allocating)


@given(trees(), anything, steps, askings, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_parts_given_back_one_rank_after_the_other_are_a_cancel(
    pools: list[Pool], policy: str, history: Any, asked: Jobspec, chance: Any
) -> None:
    graph = lived(pools, policy, history)
    before = dump(graph)
    job = graph.match(asked, Op.allocate, 1000).job
    if job is None:
        return
    others = [jotted(graph, id_) for id_ in sorted(graph.bookings.jobs) if id_ != 1000]
    ranks = sorted({int(graph.tree.rank[v]) for v in job.held} - {-1})
    chance.shuffle(ranks)
    for rank in ranks:
        left = {v for v in job.held if int(graph.tree.rank[v]) != rank}
        lost = below(graph, job, rank)
        whole = graph.release_ranks(1000, [rank])
        if whole:
            break
        kept = graph.bookings.jobs[1000].held
        assert set(kept) <= left, "nothing of that rank stays, and nothing new comes"
        assert {v for v in left if graph.tree.type[v] == "core"} - lost <= set(kept)
        assert [jotted(graph, id_) for id_ in sorted(graph.bookings.jobs) if id_ != 1000] == others
        assert graph.bookings.check() == []
        job = graph.bookings.jobs[1000]
    if 1000 in graph.bookings.jobs:
        graph.cancel(1000)
    assert dump(graph) == before


def below(graph: Graph, job: Job, rank: int) -> set[int]:
    """What lies below the vertices of a rank: given back with them."""
    tops = {v for v in job.held if int(graph.tree.rank[v]) == rank}
    return {v for v in range(len(graph.tree)) if not tops.isdisjoint(graph.tree.ancestors(v))} | tops


@given(trees(), anything, steps, askings)
@settings(max_examples=60, deadline=None)
def test_update_takes_over_what_was_written(
    pools: list[Pool], policy: str, history: Any, asked: Jobspec
) -> None:
    graph = lived(pools, policy, history)
    job = graph.match(asked, Op.allocate_orelse_reserve, 1000).job
    if job is None:
        return
    before = dump(graph)
    rows = [(v, held.needs, held.exclusive) for v, held in job.held.items()]
    text = json.dumps(jgf.written(graph.tree, rows))
    graph.cancel(1000)
    chosen = [graph.vertex(path) for path, metadata in jgf.paths(text) if metadata.get("exclusive")]
    again = graph.reinstate(1000, graph.closure(chosen), job.start, job.end - job.start, job.reserved)
    assert {v for v, held in again.held.items() if held.exclusive} == set(chosen)
    assert dump(graph) == before
    with pytest.raises(TreeError, match="held by another job"):
        graph.reinstate(1001, graph.closure(chosen), job.start, 1, job.reserved)
    graph.cancel(1000)


@given(trees(), steps, jobspecs, st.sampled_from([name for name in POLICIES if name != "locality"]))
@settings(max_examples=400, deadline=None)
def test_D9_no_policy_touches_fewer_vertices_than_locality(
    pools: list[Pool], history: Any, asked: Jobspec, policy: str
) -> None:
    other = lived(pools, policy, history)
    near = Graph(other.tree, replace(POLICIES["locality"], node_exclusive=other.policy.node_exclusive))
    near.bookings = other.bookings
    theirs, ours = (graph.match(asked, Op.without_allocating, 1000).job for graph in (other, near))
    if theirs is None or ours is None:
        assert other.policy.first or theirs is ours, "what fits under one policy fits under all"
        return
    span = Near(other.tree, other.order.leaf_types)
    assert sum(map(span.weight, ours.held)) <= sum(map(span.weight, theirs.held))
