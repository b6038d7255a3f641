"""Trees as columns on random parts: the same as plain lists say, also after parts come and go.

And the levels kept along with bookings are to the byte those that would be made anew.
"""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.property.test_tree import do, policies, steps, trees

from fairlead.core.tree.columns import Pool, Tree, TreeError
from fairlead.core.tree.graph import Graph
from fairlead.core.tree.levels import Levels, State
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.wire import grug, jgf


@st.composite
def forests(draw: st.DrawFn) -> list[Pool]:
    """A tree of any shape, its parts in any order, some with names and paths of their own."""
    count = draw(st.integers(1, 25))
    pools: list[Pool] = []
    for v in range(count):
        above = draw(st.integers(0, v - 1)) if v else None
        type_ = draw(st.sampled_from(["rack", "node", "core"])) if v else "cluster"
        name = draw(st.sampled_from(["", "", "", "host", "a/b"])) or f"{type_}{v % 4}"
        pool = Pool(str(v), None if above is None else str(above), type_, type_, name, v % 4, v)
        pool.rank, pool.size = draw(st.integers(-1, 3)), draw(st.integers(1, 3))
        pool.path = draw(st.sampled_from(["", "", "", "/else/where", f"/{name}"]))
        pool.up, pool.properties = draw(st.booleans()), draw(st.sampled_from([{}, {"fast": "yes"}]))
        pools.append(pool)
    return draw(st.permutations(pools))


def walked(pools: list[Pool]) -> list[tuple[Pool, str, int]]:
    """Each pool depth first, with its path and its parent's place."""
    found: list[tuple[Pool, str, int]] = []

    def visit(pool: Pool, path: str, above: int) -> None:
        own = pool.path or f"{path}/{pool.name}"
        here = len(found)
        found.append((pool, own, above))
        for child in pools:
            if child.parent == pool.key:
                visit(child, own, here)

    visit(next(pool for pool in pools if pool.parent is None), "", -1)
    return found


def same(tree: Tree, expected: list[tuple[Pool, str, int]]) -> None:
    assert len(tree) == len(tree.pools) == len(expected)
    for v, (pool, path, above) in enumerate(expected):
        given = tree.pools[v]
        assert replace(given, key="", parent="", path="") == replace(pool, key="", parent="", path="")
        assert (tree.paths[v], int(tree.parent[v]), tree.parents[v]) == (path, above, above)
        assert (tree.name(v), tree.type[v], tree.sizes[v]) == (pool.name, pool.type, pool.size)
        assert list(tree.children[v]) == [w for w, each in enumerate(expected) if each[2] == v]
        assert tree.by_path.get(path) == max(w for w, each in enumerate(expected) if each[1] == path)
        assert tree.types[tree.kind[v]] == pool.type
        inside = [w for w in range(len(expected)) if w == v or v in tree.ancestors(w)]
        assert inside == list(range(v, int(tree.end[v])))
    assert tree.by_path.get("/no/such") is None
    assert tree.nodes_up() == sum(
        all(tree.up[w] for w in (v, *tree.ancestors(v))) for v in tree.of_type("node").tolist()
    )


@given(forests())
def test_columns_hold_what_the_parts_say(pools: list[Pool]) -> None:
    expected = walked(pools)
    same(Tree(pools), expected)
    same(Tree(Tree(pools).pools), expected)


@given(forests(), st.randoms(use_true_random=False))
def test_I10_a_graph_file_holds_what_the_parts_say(pools: list[Pool], chance: random.Random) -> None:
    expected, text = walked(pools), jgf.whole(Tree(pools))
    same(Tree(jgf.read(text)), expected)
    graph = json.loads(text)
    chance.shuffle(graph["graph"]["nodes"])  # the edges have the order of children
    same(Tree(jgf.read(json.dumps(graph))), expected)


@given(trees(), st.integers(1, 40), st.randoms(use_true_random=False))
def test_what_is_attached_from_a_file_is_as_it_was(
    pools: list[Pool], gone: int, chance: random.Random
) -> None:
    tree = Tree(pools)
    gone = min(gone, len(tree) - 1)
    if gone == 0:
        return
    graph = json.loads(jgf.whole(tree))
    chance.shuffle(graph["graph"]["nodes"])
    less, _ = tree.without([gone])
    again, where = less.joined(jgf.read(json.dumps(graph), less))
    assert [again.paths[new] for new in where.values()] == list(less.paths)
    new = [path for path in again.paths if path not in less.by_path]
    assert new == [path for path in tree.paths if path not in less.by_path], "in the same order"
    for v, path in enumerate(again.paths):
        old = tree.by_path.get(path)
        assert old is not None
        assert replace(again.pools[v], key="", parent="") == replace(tree.pools[old], key="", parent="")
        assert v == 0 or again.paths[again.parents[v]] == tree.paths[tree.parents[old]]


@given(forests(), st.integers(1, 24), st.data())
def test_parts_come_and_go(pools: list[Pool], gone: int, data: st.DataObject) -> None:
    tree = Tree(pools)
    if gone < len(tree):
        less, where = tree.without([gone])
        drop = set(range(gone, int(tree.end[gone])))
        assert list(where) == [v for v in range(len(tree)) if v not in drop]
        kept = [replace(tree.pools[v], path=tree.paths[v]) for v in where]
        same(less, walked(kept))
    above = data.draw(st.integers(0, len(tree) - 1))
    new = Pool("new", tree.key(above), "gpu", "gpu", "gpu7", 7, 99)
    more, where = tree.joined([new, Pool("newer", "new", "core", "core", "core1", 1, 100)])
    grown = [replace(pool, path=tree.paths[v]) for v, pool in enumerate(tree.pools)]
    same(more, walked([*grown, new, Pool("newer", "new", "core", "core", "core1", 1, 100)]))
    assert all(more.paths[new] == tree.paths[old] for old, new in where.items())


def test_what_is_not_a_tree_is_refused() -> None:
    root = Pool("0", None, "cluster", "c", "c0", 0, 0)
    around = [Pool("1", "2", "rack", "r", "r0", 0, 1), Pool("2", "1", "rack", "r", "r1", 1, 2)]
    for pools, word in (
        ([], "none"),
        ([root, replace(root, key="1")], "this one has 2: c0, c0"),
        ([root, root], "'0' stands twice"),
        ([root, replace(root, key="1", parent="x")], "contained in 'x'"),
        ([root, *around], "2 vertices contain each other"),
        ([replace(root, id=1 << 63)], f"vertex c{1 << 63}: id {1 << 63}, .*: each must fit into 64 bits"),
        ([replace(root, uniq_id=-(1 << 70))], "uniq_id -1180591620717411303424, rank -1: each must fit"),
        ([replace(root, rank=10**30)], "each must fit into 64 bits"),
        ([replace(root, size=1 << 64)], "vertex c0: its size is 18446744073709551616, but must fit"),
    ):
        with pytest.raises(TreeError, match=word):
            Tree(pools)


def columns(state: State) -> list[bytes]:
    return [array.tobytes() for views in (state.open, state.idle, state.leaves) for array in views.values()]


@given(
    trees(),
    policies,
    steps,
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=2, max_size=3),
)
@settings(max_examples=200)
def test_levels_follow_bookings_to_the_byte(pools: list[Pool], policy: str, history: Any, spans: Any) -> None:
    graph = Graph(Tree(pools), match_policy(policy), levels=False)
    tree, kept, known = graph.tree, Levels(graph.tree, graph.policy), dict[int, Any]()
    for number, step in enumerate(history, 1):
        do(graph, number, step)
        jobs = graph.bookings.jobs
        if tree is not graph.tree:
            tree, kept, known = graph.tree, Levels(graph.tree, graph.policy), {}
        if step[0] == "status":
            kept.set_up(step[1] % len(tree), bool(tree.up[step[1] % len(tree)]))
        told = {id_: dict(job.held) for id_, job in jobs.items()}
        kept.follow(jobs, [id_ for id_ in {**known, **told} if known.get(id_) != told.get(id_)])
        known = told
        fresh = Levels(tree, graph.policy)
        fresh.follow(jobs, jobs)
        for start, length in [(0, 10), *spans]:
            for now in (False, True):
                span = (start, start + length)
                assert columns(kept.at(False, now, span)) == columns(fresh.at(False, now, span))
    before = columns(kept.at(False, False, (0, 10)))
    nobody = Levels(tree, graph.policy).at(False, False, (0, 10))
    kept.follow({}, list(known))
    assert columns(kept.at(False, False, (0, 10))) == columns(nobody)
    kept.follow(graph.bookings.jobs, list(known))
    assert columns(kept.at(False, False, (0, 10))) == before


@st.composite
def recipes(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, int, int, int, int]]]:
    """A recipe as text, and its edges: source, target, scale, scope, start, stride."""
    names = ["cluster", "rack", "node", "socket", "core", "gpu"]
    edges: list[tuple[str, str, int, int, int, int]] = []
    for at in range(1, draw(st.integers(2, len(names)))):
        source = names[draw(st.integers(max(at - 2, 0), at - 1))]
        numbers = (draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 2)))
        edges.append((source, names[at], *numbers, draw(st.integers(1, 2))))
    keys = ("multi_scale", "id_scope", "id_start", "id_stride")
    nodes = "".join(
        f'<node id="{name}"><data key="type">{name}</data><data key="root">{int(at == 0)}</data></node>'
        for at, name in enumerate(names)
    )
    lines = "".join(
        f'<edge source="{edge[0]}" target="{edge[1]}">'
        + "".join(f'<data key="{key}">{value}</data>' for key, value in zip(keys, edge[2:], strict=True))
        + "</edge>"
        for edge in edges
    )
    return f"<graphml><graph>{nodes}{lines}</graph></graphml>", edges


def generated(edges: list[tuple[str, str, int, int, int, int]]) -> list[Pool]:
    """The vertices of a recipe, one by one."""
    pools = [Pool("0", None, "cluster", "cluster", "cluster0", 0, 0)]
    parents: dict[str, Pool] = {}

    def visit(name: str, sources: list[Pool]) -> None:
        for source_name, target, scale, scope, start, stride in edges:
            if source_name != name:
                continue
            made: list[Pool] = []
            numbers: dict[str, int] = {}
            for source in sources:
                within = source
                for _ in range(scope):
                    within = parents.get(within.key, within)
                for _ in range(scale):
                    at = numbers[within.key] = numbers.get(within.key, -1) + 1
                    id_, key = start + at * stride, len(pools)
                    pools.append(Pool(str(key), source.key, target, target, f"{target}{id_}", id_, key))
                    made.append(pools[-1])
                    parents[pools[-1].key] = source
            visit(target, made)

    visit("cluster", [pools[0]])
    return pools


@given(recipes())
def test_a_recipe_makes_what_going_through_it_makes(recipe: Any) -> None:
    text, edges = recipe
    expected = generated(edges)
    same(Tree(grug.read(text)), walked(expected))
