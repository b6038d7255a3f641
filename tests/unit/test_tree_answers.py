"""What a graph remembers between matches: it forgets an answer as soon as something could change it."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from test_tree_policies import cluster, job

from fairlead.core.tree.answers import Answers
from fairlead.core.tree.graph import Graph, Op, Verdict
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.model.jobspec import Constraint, Count, Jobspec, Resource

ONE = Count(1, 1)
UNEVEN = Count(2, 6, "+", 4)
"""Two or six."""


def asked(*parts: Resource) -> Jobspec:
    return Jobspec((Resource("node", ONE, children=parts),), 60)


def slot(count: Count, *parts: Resource) -> Resource:
    return Resource("slot", count, label="s", children=parts)


def free(graph: Graph, id_: int) -> None:
    graph.cancel(id_)


def give_back(graph: Graph, id_: int) -> None:
    assert not graph.release_ranks(id_, [1])


def come_up(graph: Graph, _: int) -> None:
    graph.set_up(graph.vertex("/c0/node2"), True)


def another(graph: Graph, _: int) -> None:
    tree = graph.tree
    node = tree.pools[graph.vertex("/c0/node0")]
    core = tree.pools[graph.vertex("/c0/node0/core0")]
    new = replace(node, key="n", name="node9", id=9, uniq_id=90)
    graph.attach([new, replace(core, key="nc", parent="n", uniq_id=91)])


@pytest.mark.parametrize("change", [free, give_back, come_up, another])
@pytest.mark.parametrize("op", [Op.allocate, Op.without_allocating, Op.allocate_with_satisfiability])
def test_what_was_busy_is_tried_again_once_something_is_free(
    change: Callable[[Graph, int], None], op: Op
) -> None:
    graph = Graph(cluster([(1, 0), (1, 0), (1, 0)]), match_policy("low"))
    graph.set_up(graph.vertex("/c0/node2"), False)
    wide = Jobspec((Resource("node", Count(2, 2), children=(slot(ONE, Resource("core", ONE)),)),), 60)
    assert graph.match(wide, Op.allocate, 1).verdict is Verdict.granted
    for id_ in (2, 3):
        tries = graph.tries
        assert graph.match(job(1), op, id_).verdict is Verdict.busy
    assert graph.tries == tries, "the second time is answered from memory"
    change(graph, 1)
    assert graph.match(job(1), op, 4).verdict is Verdict.granted


def test_what_was_busy_is_tried_again_with_another_property() -> None:
    graph = Graph(cluster([(1, 0), (1, 0)]), match_policy("low"))
    fast = replace(job(1), constraint=Constraint("properties", (), ("fast",)))
    assert graph.match(fast, Op.satisfiability, 1).verdict is Verdict.never
    assert graph.match(fast, Op.allocate, 1).verdict is Verdict.busy
    graph.set_property(graph.vertex("/c0/node1"), "fast", "")
    assert graph.match(fast, Op.satisfiability, 2).verdict is Verdict.granted
    assert graph.match(fast, Op.allocate, 2).verdict is Verdict.granted
    graph.set_property(graph.vertex("/c0/node1"), "fast", None)
    assert graph.match(fast, Op.satisfiability, 3).verdict is Verdict.never


def test_what_could_never_fit_is_asked_again_of_another_tree() -> None:
    graph = Graph(cluster([(1, 0)]), match_policy("low"))
    wide = Jobspec((Resource("node", Count(2, 2), children=(slot(ONE, Resource("core", ONE)),)),), 60)
    assert graph.match(wide, Op.satisfiability, 1).verdict is Verdict.never
    another(graph, 0)
    assert graph.match(wide, Op.satisfiability, 1).verdict is Verdict.granted
    graph.remove([graph.vertex("/c0/node0")])
    assert graph.match(wide, Op.satisfiability, 1).verdict is Verdict.never


def test_an_instant_is_not_another() -> None:
    answers = Answers()
    answers.was_busy(job(1), 5)
    assert answers.busy(job(1), 5)
    assert not answers.busy(job(1), 6)
    assert not answers.busy(job(2), 5)


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ((Resource("core", UNEVEN),), True),
        ((slot(Count(1, 3), Resource("core", Count(2, 2))),), True),
        ((slot(ONE, Resource("core", UNEVEN)),), False),
        ((slot(ONE, Resource("core", ONE), Resource("gpu", Count(1, 2))),), False),
        ((slot(ONE, Resource("socket", ONE, children=(Resource("core", UNEVEN),))),), False),
    ],
)
def test_that_slots_of_many_sizes_were_busy_is_not_remembered(
    parts: tuple[Resource, ...], kept: bool
) -> None:
    answers = Answers()
    answers.was_busy(asked(*parts), 0)
    assert answers.busy(asked(*parts), 0) is kept


def test_slots_that_take_as_much_as_there_is_can_fit_when_less_is_free() -> None:
    graph = Graph(cluster([(7, 0)]), match_policy("low"))
    two = asked(slot(Count(2, 2), Resource("core", UNEVEN)))
    assert graph.match(two, Op.allocate, 1).verdict is Verdict.busy, "six for the first, one is left"
    assert graph.match(job(3), Op.allocate, 2).verdict is Verdict.granted
    assert graph.match(two, Op.allocate, 3).verdict is Verdict.granted, "two for each"
