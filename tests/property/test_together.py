"""Slots side by side on random tiny trees, held against a search that tries everything.

What is granted is a true match and nobody else's; where there is none nothing is granted; "never" is said
only where even the empty tree has none; whole levels choose what the walk chooses; a cancel leaves no trace.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.test_tree import ONE, do, told, usual

from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Pool, Tree
from fairlead.core.tree.graph import Graph, Op, Verdict
from fairlead.core.tree.matchpolicy import POLICIES, match_policy
from fairlead.model.jobspec import Constraint, Count, Jobspec, Resource

SIZES = {"core": 1, "gpu": 1, "memory": 8}
FAST = Constraint("properties", (), ("fast",))


class Free(NamedTuple):
    """What is left of a node; `idle` if nobody has any of it, `whole` if nobody had before this request."""

    rack: int
    node: int
    idle: bool
    whole: bool
    leaves: tuple[int, ...]
    """In the order of SIZES."""


@st.composite
def trees(draw: st.DrawFn) -> list[Pool]:
    """cluster - rack - node - core, gpu, memory; even or not, some of it down, some nodes fast."""
    even = draw(st.integers(0, 3)) < 3
    most = {"rack": 2, "node": 3, "core": 4, "gpu": 2, "memory": 2}
    fixed = {type_: limit - draw(st.integers(0, limit - 1)) for type_, limit in most.items()}
    pools = [Pool("0", None, "cluster", "c", "c0", 0, 0)]

    def below(parent: Pool, type_: str, total: list[int]) -> list[Pool]:
        made: list[Pool] = []
        for at in range(fixed[type_] if even else draw(st.integers(0, most[type_]))):
            id_ = total[0] if type_ in ("rack", "node") else at
            total[0] += 1
            pool = Pool(str(len(pools)), parent.key, type_, type_, f"{type_}{id_}", id_, len(pools))
            pool.size = SIZES.get(type_, 1)
            pool.up = draw(st.integers(0, 24)) < 24
            if type_ == "node":
                pool.rank = id_
                pool.properties.update({"fast": ""} if draw(st.booleans()) else {})
            pools.append(pool)
            made.append(pool)
        return made

    racks, nodes = below(pools[0], "rack", [0]), [0]
    for node in [node for rack in racks for node in below(rack, "node", nodes)]:
        for type_ in SIZES:
            below(node, type_, [0])
    return pools


def exactly(number: int) -> Count:
    return Count(number, number)


numbers = st.integers(1, 2).map(exactly)
cores = st.sampled_from([1, 1, 2, 2, 3]).map(lambda n: (Resource("core", exactly(n)),))
devices = st.sampled_from([(), (), (Resource("gpu", ONE),)])
memory = st.sampled_from([(), (), (Resource("memory", exactly(8)),), (Resource("memory", exactly(9)),)])
of_leaves = st.builds(
    lambda count, a, b, c: Resource("slot", count, label="x", children=(*a, *b, *c)),
    numbers, cores, devices, memory,
)  # fmt: skip
of_nodes = st.builds(
    lambda count, nodes, flag, inner: Resource(
        "slot", count, label="y", children=(Resource("node", nodes, exclusive=flag, children=inner),)
    ),
    numbers, numbers, st.sampled_from([None, True]), cores,
)  # fmt: skip
flags = st.sampled_from([None, None, True])


@st.composite
def requests(draw: st.DrawFn) -> tuple[Resource, ...]:
    """Two or three slots side by side: anywhere, in racks, in nodes, in nodes of racks."""
    levels = draw(st.sampled_from([[], [], ["rack"], ["node"], ["node", "rack"]]))
    one = st.one_of(of_leaves, of_leaves, of_leaves, of_nodes) if "node" not in levels else of_leaves
    found = tuple(draw(st.lists(one, min_size=2, max_size=3)))
    for type_ in levels:
        found = (Resource(type_, draw(numbers), exclusive=draw(flags), children=found),)
    return found


jobspecs = st.builds(Jobspec, requests(), st.just(10), st.just(""), st.sampled_from([None, None, FAST]))
others = st.builds(Jobspec, usual(), st.just(10))
histories = st.lists(
    st.one_of(
        st.tuples(st.just(Op.allocate), others),
        st.tuples(st.just(Op.allocate), jobspecs),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
    ),
    max_size=4,
)
policies = st.sampled_from(list(POLICIES))


# -- the search that tries everything ----------------------------------------------------------------


def left(graph: Graph, ever: bool, only: Job | None = None) -> tuple[list[Free], dict[int, bool]]:
    """The nodes that can be used and what is free of them; and rack -> whether nobody has any of it.

    `ever`: as if everything was free and up. `only`: nothing but what a job holds.
    """
    tree, bookings = graph.tree, graph.bookings

    def ours(v: int) -> bool:
        return only is None or v in only.held

    def usable(v: int) -> bool:
        path = [v, *tree.ancestors(v)]
        if only is not None or ever:
            return ours(v)
        return all(tree.up[w] and w not in bookings.exclusive for w in path)

    def untouched(v: int) -> bool:
        if only is not None:
            return v in only.held and only.held[v].exclusive
        return usable(v) and (ever or v not in bookings.any)

    nodes: list[Free] = []
    for v in tree.of_type("node").tolist():
        if usable(v):
            free = [sum(tree.type[w] == type_ and untouched(w) for w in tree.children[v]) for type_ in SIZES]
            rack = int(tree.parent[v])
            nodes.append(Free(rack, v, untouched(v), untouched(v), tuple(free)))
    return nodes, {v: untouched(v) for v in tree.of_type("rack").tolist() if usable(v)}


def asked(children: tuple[Resource, ...]) -> tuple[int, ...]:
    """How many leaves of each type: vertices are never split."""
    amounts = {each.type: each.count.min for each in children}
    return tuple(-(-amounts.get(type_, 0) // size) for type_, size in SIZES.items())


@lru_cache(maxsize=1 << 14)
def fit(nodes: tuple[Free, ...], slots: tuple[Resource, ...]) -> bool:
    """Whether there is any way to place single slots."""
    if not slots:
        return True
    first, rest = slots[0].children, slots[1:]
    if first[0].type == "node":
        return any(fit(after, rest) for after in without_nodes(nodes, first[0], first[0].count.min))
    need = asked(first)
    for at, node in enumerate(nodes):
        less = tuple(have - want for have, want in zip(node.leaves, need, strict=True))
        if min(less) >= 0:
            after = node._replace(idle=False, leaves=less)
            if fit((*nodes[:at], after, *nodes[at + 1 :]), rest):
                return True
    return False


def without_nodes(nodes: tuple[Free, ...], wanted: Resource, number: int, rack: int = -1) -> Any:
    """What is left after each way to take so many whole nodes of one rack."""
    if number == 0:
        yield nodes
        return
    need = asked(wanted.children)
    for at, node in enumerate(nodes):
        if not node.idle or rack not in (-1, node.rack):
            continue
        if all(have >= want for have, want in zip(node.leaves, need, strict=True)):
            yield from without_nodes((*nodes[:at], *nodes[at + 1 :]), wanted, number - 1, node.rack)


def possible(wants: tuple[Resource, ...], nodes: list[Free], racks: dict[int, bool]) -> bool:
    """Whether there is any way to meet the request."""
    first = wants[0]
    if first.type == "slot":
        singles = [each for each in wants for _ in range(each.count.min)]
        return fit(tuple(nodes), tuple(singles))
    if first.type == "node":
        able = [node for node in nodes if node.idle or not first.exclusive]
        return sum(possible(first.children, [node], racks) for node in able) >= first.count.min
    inside = {rack: [node for node in nodes if node.rack == rack] for rack in racks}
    able = [rack for rack, idle in racks.items() if idle or not first.exclusive]
    return sum(possible(first.children, inside[rack], racks) for rack in able) >= first.count.min


def there_is(graph: Graph, job: Jobspec, ever: bool = False, only: Job | None = None) -> bool:
    nodes, racks = left(graph, ever, only)
    fast = job.constraint is not None
    nodes = [node for node in nodes if not fast or "fast" in graph.tree.pools[node.node].properties]
    if graph.policy.node_exclusive and only is None:
        nodes = [node for node in nodes if node.whole]
    return possible(job.resources, nodes, racks)


# -- properties --------------------------------------------------------------------------------------


def lived(pools: list[Pool], policy: str, history: Any, levels: bool = True) -> Graph:
    graph = Graph(Tree(pools), match_policy(policy), levels=levels)
    for number, step in enumerate(history, 1):
        do(graph, number, step)
    return graph


def kept(graph: Graph) -> object:
    bookings = graph.bookings
    return sorted(bookings.any.items()), sorted(bookings.exclusive.items()), sorted(bookings.jobs)


@given(trees(), policies, histories, jobspecs)
@settings(max_examples=800, deadline=None)
def test_what_is_granted_is_a_match_and_never_is_never(
    pools: list[Pool], policy: str, history: Any, job: Jobspec
) -> None:
    graph = lived(pools, policy, history)
    before, could = kept(graph), there_is(graph, job)
    outcome = graph.match(job, Op.allocate, 1000)
    if outcome.job is not None:
        assert could, "granted where there is nothing"
        assert graph.bookings.check() == []
        assert there_is(graph, job, only=outcome.job), "what is held does not hold what was asked"
        graph.cancel(1000)
    assert kept(graph) == before
    if there_is(graph, job, ever=True):
        assert graph.match(job, Op.satisfiability, 1000).verdict is Verdict.granted, "said to be impossible"


@given(trees(), policies, jobspecs)
@settings(max_examples=200, deadline=None)
def test_no_more_is_held_than_was_asked(pools: list[Pool], policy: str, job: Jobspec) -> None:
    graph = Graph(Tree(pools), match_policy(policy))
    outcome = graph.match(job, Op.allocate, 1)
    if outcome.job is None or graph.policy.node_exclusive:
        return
    wants, times = job.resources, 1
    while wants[0].type != "slot":
        if wants[0].exclusive:
            return
        wants, times = wants[0].children, times * wants[0].count.min
    slots = [each for each in wants for _ in range(each.count.min * times)]
    if any(each.children[0].type == "node" for each in slots):
        return
    held = [graph.tree.type[v] for v, each in outcome.job.held.items() if each.exclusive]
    need = [sum(amounts) for amounts in zip(*(asked(each.children) for each in slots), strict=True)]
    assert [held.count(type_) for type_ in SIZES] == need
    assert len(held) == sum(need)


@given(trees(), policies, histories, jobspecs, st.sampled_from(list(Op)))
@settings(max_examples=200, deadline=None)
def test_whole_levels_choose_what_the_walk_chooses(
    pools: list[Pool], policy: str, history: Any, job: Jobspec, op: Op
) -> None:
    fast, plain = (lived(pools, policy, history, levels) for levels in (True, False))
    assert told(fast.match(job, op, 1000)) == told(plain.match(job, op, 1000))
    assert kept(fast) == kept(plain)
    assert fast.bookings.check() == []


@given(trees(), policies, histories, st.lists(jobspecs, min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_reservations_stand_in_nobodys_way(
    pools: list[Pool], policy: str, history: Any, jobs: list[Jobspec]
) -> None:
    graph = lived(pools, policy, history)
    before = kept(graph)
    granted = [
        id_
        for id_, job in enumerate(jobs, 1000)
        if graph.match(job, Op.allocate_orelse_reserve, id_).job is not None
    ]
    assert graph.bookings.check() == []
    assert all(id_ > 0 for id_ in graph.bookings.jobs), "nothing on trial is left behind"
    for id_ in granted:
        graph.cancel(id_)
    assert kept(graph) == before
