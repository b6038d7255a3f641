"""Graph files of another version or form than the known one: refused in one line, never guessed at."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.core.tree.columns import Tree, TreeError
from fairlead.wire import grug, jgf, rv1

FOLDER = Path(__file__).parent.parent / "data" / "tree"
JGF: Any = json.loads((FOLDER / "one-rack.json").read_text())
R: Any = json.loads((FOLDER / "cluster.rv1.json").read_text())
GRUG = (FOLDER / "two-racks.graphml").read_text()
GONE = object()


def changed(whole: Any, path: str, value: Any) -> str:
    """The file with another value at a path such as graph.nodes.0.id, or without that key."""
    found = copy.deepcopy(whole)
    at: Any = found
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in steps:
        at = at[step]
    if value is GONE:
        del at[last]
    else:
        at[last] = value
    return json.dumps(found)


def refused(read: Callable[[str], Any], text: str) -> str:
    with pytest.raises(TreeError) as caught:
        Tree(read(text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("version", 2, "JGF: version is 2, but only 1 is known"),
        ("graph.version", "2.0", "JGF: version is '2.0', but only 1 is known"),
        ("graphs", [], "JGF: it holds several graphs"),
        ("graph", GONE, "JGF: the key 'graph' is missing"),
        ("graph", [], "JGF: the key 'graph' is missing"),
        ("graph.nodes", GONE, "JGF: graph.nodes must be a list of objects"),
        ("graph.nodes", {"0": {}}, "JGF: graph.nodes must be a list of objects"),
        ("graph.nodes.1.id", GONE, "JGF: graph.nodes[1]: the key 'id' is missing"),
        ("graph.nodes.1.id", [], "JGF: graph.nodes[1].id: is []"),
        ("graph.nodes.1.id", "0", "JGF: node '0' stands twice"),
        ("graph.nodes.1.metadata", GONE, "JGF: graph.nodes[1]: the key 'metadata' is missing"),
        ("graph.nodes.1.metadata.type", GONE, "JGF: graph.nodes[1].metadata: the key 'type' is missing"),
        ("graph.nodes.1.metadata.type", 7, "JGF: graph.nodes[1].metadata.type: is 7"),
        ("graph.nodes.1.metadata.paths", GONE, "JGF: graph.nodes[1].metadata: the key 'paths' is missing"),
        ("graph.nodes.1.metadata.paths", ["/a"], "JGF: graph.nodes[1].metadata: the key 'paths' is missing"),
        ("graph.nodes.1.metadata.paths.containment", "a", "metadata.paths.containment: is 'a'"),
        ("graph.nodes.1.metadata.rank", "0", "JGF: graph.nodes[1].metadata.rank: is '0'"),
        ("graph.nodes.1.metadata.size", 0, "JGF: graph.nodes[1].metadata.size: is 0"),
        ("graph.nodes.1.metadata.size", 1.5, "JGF: graph.nodes[1].metadata.size: is 1.5"),
        ("graph.nodes.1.metadata.id", True, "JGF: graph.nodes[1].metadata.id: is True"),
        ("graph.nodes.1.metadata.uniq_id", "x", "JGF: graph.nodes[1].metadata.uniq_id: is 'x'"),
        ("graph.nodes.1.metadata.id", 1 << 63, "JGF: graph.nodes[1].metadata.id: is 9223372036854775808"),
        ("graph.nodes.1.metadata.uniq_id", "9" * 20, "metadata.uniq_id: is '99999999999999999999'"),
        ("graph.nodes.1.metadata.rank", -(1 << 64), "JGF: graph.nodes[1].metadata.rank: is -18446744073"),
        ("graph.nodes.1.metadata.size", 1 << 63, "JGF: graph.nodes[1].metadata.size: is 9223372036854775808"),
        ("graph.nodes.1.metadata.unit", {}, "JGF: graph.nodes[1].metadata.unit: is {}"),
        ("graph.nodes.1.metadata.status", "lost", "JGF: graph.nodes[1].metadata.status: is 'lost'"),
        ("graph.nodes.2.metadata.properties", "fast", "JGF: graph.nodes[2].metadata.properties: must be"),
        ("graph.edges", {}, "JGF: graph.edges must be a list of objects"),
        ("graph.edges.0.target", "77", "JGF: graph.edges[0]: there is no node '77'"),
        ("graph.nodes.1", 7, "JGF: graph.nodes must be a list of objects"),
        ("graph.edges.1", [], "JGF: graph.edges must be a list of objects"),
        ("graph.edges.3.target", "1", "JGF: graph.edges[3]: node '1' is contained twice"),
        ("graph.edges.0.metadata", [1], "JGF: graph.edges[0].metadata: must be keys with values"),
        ("graph.edges.2.metadata", {"subsystem": "contains"}, "one root in the containment subsystem"),
    ],
)
def test_I12_another_jgf_is_refused_with_its_place(path: str, value: Any, told: str) -> None:
    assert told in refused(jgf.read, changed(JGF, path, value))


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("version", 2, "R: the key 'version' must be 1; it is 2"),
        ("version", True, "R: the key 'version' must be 1; it is True"),
        ("version", GONE, "R: the key 'version' must be 1; it is 'missing'"),
        ("execution", GONE, "R: execution must be keys with values"),
        ("execution.R_lite", GONE, "R: execution.R_lite must be a list"),
        ("execution.R_lite.0", 7, "R: execution.R_lite[0] must be keys with values"),
        ("execution.R_lite.0.children", [], "R: execution.R_lite[0].children must be keys with values"),
        ("execution.R_lite.0.children.core", "0-x", "R: '0-x' is not a set of numbers"),
        ("execution.R_lite.0.children.core", "9" * 20, "R: '99999999999999999999' is not a set of numbers"),
        ("execution.R_lite.0.rank", {"from": 0}, "is not a set of numbers"),
        ("execution.R_lite.0.rank", "0-9", "R: nodelist has"),
        ("execution.nodelist", "node0", "R: execution.nodelist must be a list"),
        ("execution.nodelist", [], "R: nodelist has 0 hosts for"),
        ("execution.properties", [], "R: execution.properties must be keys with values"),
    ],
)
def test_I12_another_r_is_refused_with_its_place(path: str, value: Any, told: str) -> None:
    assert told in refused(rv1.read, changed(R, path, value))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("<graphml", "<graph", "GRUG: not XML"),
        ('id="rack"', 'id="shelf"', "there is no node 'rack' in the containment subsystem"),
        (">2<", ">two<", "is 'two', but must be a whole number"),
        (">2<", ">-2<", "is '-2', but must be a whole number, at least 0"),
        (">2<", ">2000000000<", "more than 16777216 vertices in all"),
    ],
)
def test_I12_another_recipe_is_refused_with_its_place(old: str, new: str, told: str) -> None:
    assert old in GRUG
    assert told in refused(grug.read, GRUG.replace(old, new, 1))


def test_I12_the_unchanged_files_are_read() -> None:
    for read, text in ((jgf.read, json.dumps(JGF)), (rv1.read, json.dumps(R)), (grug.read, GRUG)):
        assert len(Tree(read(text))) > 5
    assert len(Tree(jgf.read(changed(JGF, "version", 1)))) == len(Tree(jgf.read(json.dumps(JGF))))
