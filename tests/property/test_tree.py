"""The containment tree on random small trees: whole levels at once choose what the plain walk chooses.

And, after every step of random histories: nobody holds what somebody holds exclusively, no vertex twice, and
what is given back is as if it had never been taken.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairlead.core.tree.bookings import Bookings
from fairlead.core.tree.columns import Pool, Tree
from fairlead.core.tree.graph import Graph, Op, Outcome, Verdict
from fairlead.core.tree.matchpolicy import POLICIES, match_policy
from fairlead.model.jobspec import Constraint, Count, Jobspec, Resource
from fairlead.wire import jgf


@st.composite
def trees(draw: st.DrawFn) -> list[Pool]:
    """cluster - rack - node (- socket) - core, gpu, memory; uneven or even, ids own or shared."""
    even, sockets, own_ids = draw(st.integers(0, 4)) > 0, draw(st.booleans()), draw(st.booleans())
    inner = ["rack", "node", "socket"] if sockets else ["rack", "node"]
    most = {"rack": 3, "node": 3, "socket": 2, "core": 4, "gpu": 2, "memory": 2}
    if draw(st.integers(0, 3)) == 0:
        most["node"] = 12  # more than sixteen candidates with equal scores are sorted otherwise
    fixed = {type_: draw(st.integers(1, limit)) for type_, limit in most.items()}
    pools = [Pool("0", None, "cluster", "c", "c0", 0, 0)]
    level = [pools[0]]
    numbers: dict[str, int] = {}

    def below(parent: Pool, type_: str, size: int = 1) -> list[Pool]:
        made: list[Pool] = []
        for at in range(fixed[type_] if even else draw(st.integers(0, most[type_]))):
            id_ = numbers.get(type_, 0) if own_ids else at
            numbers[type_] = numbers.get(type_, 0) + 1
            number = len(pools)
            pools.append(Pool(str(number), parent.key, type_, type_, f"{type_}{id_}", id_, number, size=size))
            if type_ == "node":
                pools[-1].rank = numbers[type_] - 1
                if draw(st.integers(0, 4)) == 0:
                    pools[-1].properties["fast"] = ""
            if draw(st.integers(0, 29)) == 0:
                pools[-1].up = False
            made.append(pools[-1])
        return made

    for type_ in inner:
        level = [pool for parent in level for pool in below(parent, type_)]
    for parent in level:
        below(parent, "core")
        below(parent, "gpu")
        below(parent, "memory", 8)
    return pools


ONE = Count(1, 1)
counts = st.one_of(
    st.just(Count(1, 1)),
    st.integers(1, 3).map(lambda n: Count(n, n)),
    st.builds(lambda n, more: Count(n, n + more), st.integers(1, 2), st.integers(0, 3)),
    st.just(Count(1, 4, "*", 2)),
)
amounts = st.integers(1, 3).map(lambda n: Count(n, n))
leaves = st.lists(
    st.builds(
        Resource,
        st.sampled_from(["core", "core", "gpu", "memory"]),
        st.one_of(amounts, amounts, st.just(Count(9, 9)), counts),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda resource: resource.type,
)
flags = st.sampled_from([None, None, None, None, True, False])


@st.composite
def requests(draw: st.DrawFn) -> tuple[Resource, ...]:
    """A chain of levels with a slot somewhere in it, or none, or two siblings."""
    levels = draw(st.sampled_from([["cluster", "rack", "node"], ["cluster", "rack", "node", "socket"]]))
    chain = levels[draw(st.integers(0, len(levels))) :]
    if draw(st.integers(0, 9)) == 0:  # a level left out in the middle can never match
        chain = [type_ for type_ in chain if type_ != "rack"]
    place = draw(st.integers(0, len(chain) + 1))
    children: tuple[Resource, ...] = tuple(draw(leaves)) if draw(st.integers(0, 4)) or not chain else ()
    for depth in range(len(chain), -1, -1):
        if depth == place and children:
            children = (Resource("slot", draw(counts), label="task", children=children),)
        if depth > 0:
            children = (Resource(chain[depth - 1], draw(counts), exclusive=draw(flags), children=children),)
    if draw(st.integers(0, 9)) == 0:
        children = (*children, Resource("gpu", Count(1, 1)))
    return children


@st.composite
def usual(draw: st.DrawFn) -> tuple[Resource, ...]:
    """What people ask for: so many nodes (of a rack), with a slot of cores and devices, whole or not."""
    small = st.integers(1, 2).map(lambda n: Count(n, n))
    parts = (Resource("core", draw(amounts)),)
    if draw(st.booleans()):
        parts = (*parts, Resource("memory", Count(8, 8)))
    inner: tuple[Resource, ...] = (Resource("slot", draw(small), label="task", children=parts),)
    if draw(st.integers(0, 3)) == 0:
        inner = (Resource("socket", draw(small), children=inner),)
    if draw(st.integers(0, 4)) == 0:
        inner = (Resource("slot", draw(counts), label="task", children=(Resource("node", Count(1, 1)),)),)
    else:
        inner = (Resource("node", draw(counts), exclusive=draw(flags), children=inner),)
    if draw(st.booleans()):
        inner = (Resource("rack", draw(small), children=inner),)
    return inner


constraints = st.sampled_from(
    [
        None,
        None,
        Constraint("properties", (), ("fast",)),
        Constraint("properties", (), ("^fast",)),
        Constraint("not", (Constraint("ranks", (), ("0-1",)),)),
        Constraint("or", (Constraint("hostlist", (), ("node[0-2]",)), Constraint("ranks", (), ("4",)))),
    ]
)
jobspecs = st.builds(
    Jobspec,
    st.one_of(usual(), usual(), requests()),
    st.sampled_from([0, 10, 10, 25]),
    st.just(""),
    constraints,
)
plain = st.builds(
    lambda parts, exclusive: Jobspec((Resource("node", ONE, exclusive=exclusive, children=parts),), 10),
    st.sampled_from([(), (Resource("slot", ONE, label="task", children=(Resource("core", ONE),)),)]),
    st.sampled_from([None, True]),
)


_KINDS = ["match"] * 12 + ["cancel"] * 3 + ["status", "release", "property", "attach", "remove"]
_OPS = [*Op, *[Op.allocate] * 5, *[Op.allocate_orelse_reserve] * 3]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Any, Any]]:
    """Requests, of which some come again and again, and other steps between them."""
    few = [*draw(st.lists(st.one_of(plain, plain, jobspecs), min_size=1, max_size=2)), draw(jobspecs)]
    made: list[tuple[Any, Any]] = []
    for kind in draw(st.lists(st.sampled_from(_KINDS), min_size=6, max_size=25)):
        if kind == "match":
            made.append((draw(st.sampled_from(_OPS)), draw(st.sampled_from(few))))
        else:
            made.append((kind, draw(st.integers(0, 60))))
    return made


steps = histories()
policies = st.sampled_from(list(POLICIES))


def told(outcome: Outcome) -> object:
    if outcome.job is None:
        return outcome.verdict
    job = outcome.job
    held = [(v, each.needs, each.exclusive) for v, each in job.held.items()]
    return outcome.verdict, job.start, job.end, job.reserved, held


def attach(graph: Graph, number: int, what: int) -> None:
    """One vertex like another one beside it; of a node, with all it has."""
    tree = graph.tree
    like = what % (len(tree) - 1) + 1 if len(tree) > 1 else 0
    made: list[Pool] = []
    for v in range(like, int(tree.end[like])):
        pool = tree.pools[v]
        parent = pool.parent if v == like else f"new {tree.parents[v]}"
        made.append(replace(pool, key=f"new {v}", parent=parent, uniq_id=1000 * number + v))
        if v == like:
            made[-1].name = f"{pool.type}-{number}"
    if like:
        graph.attach(made)


def do(graph: Graph, number: int, step: tuple[Any, Any]) -> object:
    kind, what = step
    jobs = sorted(graph.bookings.jobs)
    if isinstance(kind, Op):
        return told(graph.match(what, kind, number))
    if kind == "status":
        v = what % len(graph.tree)
        graph.set_up(v, not graph.tree.up[v])
    elif kind == "property":
        v = what % len(graph.tree)
        graph.set_property(v, "fast", None if "fast" in graph.tree.properties(v) else "yes")
    elif kind == "remove" and what % len(graph.tree) > 0:
        graph.remove([what % len(graph.tree)])
    elif kind == "attach":
        attach(graph, number, what)
    elif jobs and kind == "cancel":
        graph.cancel(jobs[what % len(jobs)])
    elif jobs and kind == "release" and not graph.bookings.jobs[jobs[0]].reserved and what in graph.tree.rank:
        return graph.release_ranks(jobs[0], [what])
    return sorted(graph.bookings.jobs)


@given(trees(), policies, steps)
@settings(max_examples=400)
def test_whole_levels_choose_what_the_walk_chooses(pools: list[Pool], policy: str, history: Any) -> None:
    fast = Graph(Tree(pools), match_policy(policy))
    plain = Graph(Tree([*pools]), match_policy(policy), levels=False)
    for number, step in enumerate(history, 1):
        assert do(fast, number, step) == do(plain, number, step), (number, step)
        assert fast.bookings.check() == []


@given(trees(), policies, steps)
@settings(max_examples=150)
def test_never_more_than_there_is(pools: list[Pool], policy: str, history: Any) -> None:
    graph = Graph(Tree(pools), match_policy(policy))
    for number, step in enumerate(history, 1):
        do(graph, number, step)
        assert graph.bookings.check() == []
        tree = graph.tree
        for job in graph.bookings.jobs.values():
            for v, held in job.held.items():
                assert 0 < held.needs <= tree.sizes[v]
                assert v == 0 or int(tree.parent[v]) in job.held, "what is held hangs together"


@given(trees(), policies, steps, jobspecs)
@settings(max_examples=150)
def test_cancel_restores_what_was(pools: list[Pool], policy: str, history: Any, job: Jobspec) -> None:
    graph = Graph(Tree(pools), match_policy(policy))
    for number, step in enumerate(history, 1):
        do(graph, number, step)

    def held(bookings: Bookings) -> object:
        return sorted(bookings.any.items()), sorted(bookings.exclusive.items()), sorted(bookings.jobs)

    before = held(graph.bookings)
    first = graph.match(job, Op.allocate_orelse_reserve, 1000)
    if first.verdict is Verdict.granted:
        graph.cancel(1000)
        assert held(graph.bookings) == before
        if not graph.policy.first:  # which child is tried first depends on who passed
            assert told(graph.match(job, Op.allocate_orelse_reserve, 1000)) == told(first)
    else:
        assert held(graph.bookings) == before


@given(trees())
def test_a_written_graph_reads_as_the_same(pools: list[Pool]) -> None:
    tree = Tree(pools)
    text = jgf.whole(tree)
    again = Tree(jgf.read(text))
    assert jgf.whole(again) == text
    assert list(again.paths) == list(tree.paths)
    assert again.up.tolist() == tree.up.tolist()
    assert again.end.tolist() == tree.end.tolist()
    assert [sum(tree.sizes[v : tree.end[v]]) for v in range(len(tree))] == tree.totals(tree.size).tolist()
