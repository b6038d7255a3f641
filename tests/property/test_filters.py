"""Verdicts for all nodes at once against one look at each node and each pod, on random clusters."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.filters.cluster import Cluster, cluster_of
from fairlead.core.filters.pods import PodIndex
from fairlead.core.filters.run import Domains, feasible, verdicts
from fairlead.core.filters.verdict import Code
from fairlead.core.inventory import Inventory
from fairlead.model.node import Node, Taint
from fairlead.model.pod import Pod, PodPhase, Shape, Toleration
from fairlead.model.rules import PodTerm, Rules, Spread
from fairlead.model.selector import Expression, Operator, Selector

KEYS, NAMESPACES = ("zone", "rack"), ("a", "b", "unlisted")
words = st.sampled_from(["x", "y"])
labels = st.dictionaries(st.sampled_from(["app", "tier"]), words, max_size=2)
expressions = st.one_of(
    st.builds(
        lambda key, operator, values: Expression(key, operator, tuple(values)),
        st.sampled_from(["app", "tier"]),
        st.sampled_from([Operator.IN, Operator.NOT_IN]),
        st.lists(words, min_size=1, max_size=2),
    ),
    st.builds(
        Expression,
        st.sampled_from(["app", "tier"]),
        st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]),
    ),
)
selectors = st.one_of(st.none(), st.lists(expressions, max_size=2).map(tuple))
terms = st.builds(
    PodTerm,
    st.sampled_from(KEYS),
    selectors,
    st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True).map(tuple),
    st.one_of(st.none(), st.lists(expressions, max_size=1).map(tuple)),
)
spreads = st.builds(
    Spread,
    st.sampled_from(KEYS),
    selectors,
    st.integers(1, 2),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
tolerations = st.builds(Toleration, st.sampled_from(["", "k"]), st.just("Exists"), st.just(""), st.just(""))
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(1, 4), max_size=3)


class World(NamedTuple):
    nodes: list[Node]
    pods: list[Pod]
    namespaces: dict[str, dict[str, str]]
    lost: list[Node]
    """Nodes that were there once; pods may still be bound to them."""


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        Node(
            f"u{i}",
            f"n{i}",
            i,
            tuple(sorted({**draw(AMOUNTS), "pods": draw(st.integers(1, 4))}.items())),
            draw(st.dictionaries(st.sampled_from(KEYS), words, max_size=2)),
            draw(st.lists(st.builds(Taint, st.sampled_from(["k", "l"])), max_size=1).map(tuple)),
        )
        for i in range(draw(st.integers(1, 5)))
    ]


@st.composite
def pods(draw: st.DrawFn, name: str, node: str = "") -> Pod:
    rules = Rules(
        affinity=tuple(draw(st.lists(terms, max_size=2))),
        anti_affinity=tuple(draw(st.lists(terms, max_size=2))),
        spread=tuple(draw(st.lists(spreads, max_size=2))) if not node else (),
    )
    requests = tuple(sorted({**draw(AMOUNTS), "pods": 1}.items()))
    shape = Shape(requests, tolerations=tuple(draw(st.lists(tolerations, max_size=1))), rules=rules)
    return Pod(
        uid=f"u-{name}",
        namespace=draw(st.sampled_from(NAMESPACES)),
        name=name,
        version=1,
        shape=shape,
        node=node,
        phase=draw(st.sampled_from([PodPhase.RUNNING] * 5 + [PodPhase.SUCCEEDED]))
        if node
        else PodPhase.PENDING,
        deleting=bool(node) and draw(st.booleans()),
        labels=draw(labels),
    )


@st.composite
def worlds(draw: st.DrawFn) -> World:
    made = draw(nodes())
    lost = [Node("u-lost", "lost", 1, made[0].allocatable, made[0].labels)] if draw(st.booleans()) else []
    names = [*(node.name for node in made), "lost", "gone"]
    count = draw(st.integers(0, 6))
    return World(
        made,
        [draw(pods(f"p{i}", draw(st.sampled_from(names)))) for i in range(count)],
        {"a": draw(labels), "b": draw(labels)},
        lost,
    )


def cluster(world: World) -> Cluster:
    inventory = Inventory()
    for node in [*world.nodes, *world.lost]:
        inventory.put(node)
    for node in world.lost:
        inventory.remove(node.name, 1)
    return cluster_of(inventory, world.pods, world.namespaces)


# -- one look at each ----------------------------------------------------------------------------------


def holds(e: Expression, labels: dict[str, str]) -> bool:
    match e.operator:
        case Operator.IN:
            return e.key in labels and labels[e.key] in e.values
        case Operator.NOT_IN:
            return e.key not in labels or labels[e.key] not in e.values
        case Operator.EXISTS:
            return e.key in labels
        case _:
            return e.key not in labels


def selects(selector: Selector, labels: dict[str, str]) -> bool:
    return selector is not None and all(holds(e, labels) for e in selector)


def on(world: World, node: Node) -> list[Pod]:
    return [pod for pod in world.pods if pod.node == node.name and not pod.ended]


def tolerated(pod: Pod, node: Node) -> bool:
    return all(any(t.key in ("", taint.key) for t in pod.shape.tolerations) for taint in node.taints)


def short_of(world: World, pod: Pod, node: Node) -> set[tuple[str, bool]]:
    """(Resource, whether also the empty node has too little)."""
    whole, found = dict(node.allocatable), set[tuple[str, bool]]()
    for name, amount in pod.shape.requests:
        used = sum(dict(other.shape.requests).get(name, 0) for other in on(world, node))
        if amount + used > whole.get(name, 0):
            found.add((name, name != "pods" and amount > whole.get(name, 0)))
    return found


def term_means(world: World, term: PodTerm, owner: Pod, other: Pod, owner_is_new: bool) -> bool:
    """Whether a term of `owner` matches `other`."""
    chooser = term.namespace_selector
    if chooser is None:
        near = other.namespace in (term.namespaces or (owner.namespace,))
    elif (
        owner_is_new
    ):  # a new pod's selector is resolved to those listed, and then asked about no labels at all
        listed = [name for name, its in world.namespaces.items() if selects(chooser, its)]
        near = other.namespace in (*term.namespaces, *listed) or selects(chooser, {})
    else:
        near = other.namespace in term.namespaces
        near = near or selects(chooser, world.namespaces.get(other.namespace, {}))
    return near and selects(term.selector, other.labels)


def together(a: Node, b: Node, key: str) -> bool:
    return key in a.labels and a.labels[key] == b.labels.get(key)


def affinity_code(world: World, pod: Pod, node: Node) -> Code:
    rules = pod.shape.rules
    placed = [(other, home) for home in world.nodes for other in on(world, home)]
    wanted = [
        home
        for other, home in placed
        if rules.affinity and all(term_means(world, t, pod, other, True) for t in rules.affinity)
    ]
    for_itself = all(term_means(world, t, pod, pod, True) for t in rules.affinity) and not any(
        t.topology in home.labels for home in wanted for t in rules.affinity
    )
    for term in rules.affinity:
        if term.topology not in node.labels:
            return Code.UNRESOLVABLE
        if not for_itself and not any(together(node, home, term.topology) for home in wanted):
            return Code.UNRESOLVABLE
    for other, home in placed:
        if any(
            together(node, home, t.topology) and term_means(world, t, pod, other, True)
            for t in rules.anti_affinity
        ) or any(
            together(node, home, t.topology) and term_means(world, t, other, pod, False)
            for t in other.shape.rules.anti_affinity
        ):
            return Code.UNSCHEDULABLE
    return Code.SUCCESS


def spread_code(world: World, pod: Pod, node: Node) -> Code:
    constraints = pod.shape.rules.spread
    for each in constraints:
        if each.topology not in node.labels:
            return Code.UNRESOLVABLE
        counts: dict[str, int] = {}
        for home in world.nodes:
            if all(c.topology in home.labels for c in constraints) and (
                not each.honor_taints or tolerated(pod, home)
            ):
                here = [
                    other
                    for other in on(world, home)
                    if each.selector
                    and not other.deleting
                    and other.namespace == pod.namespace
                    and selects(each.selector, other.labels)
                ]
                domain = home.labels[each.topology]
                counts[domain] = counts.get(domain, 0) + len(here)
        least = min(counts.values()) if len(counts) >= each.domains else 0
        own = 1 if selects(each.selector, pod.labels) else 0
        if counts.get(node.labels[each.topology], 0) + own - least > each.skew:
            return Code.UNSCHEDULABLE
    return Code.SUCCESS


# -- the same ------------------------------------------------------------------------------------------


@settings(max_examples=400)
@given(worlds(), pods("new"))
def test_all_nodes_at_once_equal_one_look_at_each(world: World, pod: Pod):
    seen = cluster(world)
    found = verdicts(seen, pod)
    allowed = feasible(seen, found)
    for row, node in enumerate(world.nodes):
        assert found["InterPodAffinity"].code(row) == affinity_code(world, pod, node)
        assert found["PodTopologySpread"].code(row) == spread_code(world, pod, node)
        assert (found["TaintToleration"].code(row) == Code.SUCCESS) == tolerated(pod, node)
        short = short_of(world, pod, node)
        reasons = {"Too many pods" if name == "pods" else f"Insufficient {name}" for name, _ in short}
        assert set(found["NodeResourcesFit"].reasons(row)) == reasons
        assert (found["NodeResourcesFit"].code(row) == Code.UNRESOLVABLE) == any(never for _, never in short)
        assert allowed[row] == all(verdict.code(row) == Code.SUCCESS for verdict in found.values())


@settings(max_examples=100)
@given(worlds(), pods("new"), st.data())
def test_pods_that_came_and_went_leave_no_trace(world: World, pod: Pod, data: st.DataObject):
    """An index that has seen more says the same as one made anew."""
    names = [node.name for node in [*world.nodes, *world.lost]]
    rows = {name: row for row, name in enumerate(names)}
    lived = PodIndex(rows)
    for i in range(data.draw(st.integers(0, 4))):
        lived.add(data.draw(pods(f"q{i}", names[0])))
    for other in world.pods:
        lived.add(data.draw(pods(other.name, names[-1])))  # seen elsewhere and with other labels before
        lived.add(other)
    for i in range(4):
        lived.remove(f"u-q{i}")
    fresh = cluster(world)
    again = Cluster(fresh.inventory, lived, fresh.namespaces, fresh.storage)
    assert len(lived) == len(fresh.pods)
    for name, verdict in verdicts(fresh, pod).items():
        assert verdict.codes.tolist() == verdicts(again, pod)[name].codes.tolist()


@settings(max_examples=200)
@given(worlds(), pods("new"), st.data())
def test_counters_that_follow_say_what_a_fresh_look_does(world: World, pod: Pod, data: st.DataObject):
    """Pods are placed one by one, some taken back: as if they had been there from the beginning."""
    empty = cluster(world._replace(pods=[]))
    domains = Domains(empty, pod)
    rows = {node.name: row for row, node in enumerate(world.nodes)}
    for other in [each for each in world.pods if each.node in rows and not each.ended]:
        for _ in range(data.draw(st.integers(0, 1))):
            domains.place(pod, rows[other.node])
            domains.place(pod, rows[other.node], -1)
        domains.place(other, rows[other.node])
        fresh = cluster(world._replace(pods=world.pods[: world.pods.index(other) + 1]))
        found = verdicts(fresh, pod)
        accepted = (found["InterPodAffinity"].codes == 0) & (found["PodTopologySpread"].codes == 0)
        assert domains.allowed().tolist() == (accepted & fresh.classes.present).tolist()
