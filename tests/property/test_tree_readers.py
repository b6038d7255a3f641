"""Malformed graphs, jobspecs and command lines: an error in one line, never a traceback and never a hang.

Good files of every format are broken at random: values of other types, keys gone or doubled, lists cut, texts
cut and spliced. What is read all the same must be a tree that can be matched and written.
"""

import copy
import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.cli.query_session import Session
from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.graph import Graph
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.wire import grug, jgf, rv1
from fairlead.wire.jobspec import JobspecError
from fairlead.wire.jobspec import read as read_jobspec

FOLDER = Path(__file__).parent.parent / "data" / "tree"
JGF = json.loads((FOLDER / "one-rack.json").read_text())
R = json.loads((FOLDER / "cluster.rv1.json").read_text())
GRUG = (FOLDER / "two-racks.graphml").read_text()
JOBSPECS = [yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))]
READERS: dict[str, Callable[[str], Any]] = {"jgf": jgf.read, "grug": grug.read, "rv1exec": rv1.read}

numbers = st.sampled_from([0, 1, -1, 2, 7, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**30, -(1 << 70)])
words = st.sampled_from(
    [
        "",
        "0",
        "-1",
        "node",
        "core",
        "slot",
        "/",
        "/a",
        "0-3",
        "[0-2]",
        "9" * 40,
        "up",
        "\x00",
        "é",
        "^",
        "a=b",
    ]
)
scalars = st.one_of(st.none(), st.booleans(), numbers, words, st.sampled_from([0.5, -0.0, 1e300]))
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
MATCH = ["match allocate PATH", "match allocate_orelse_reserve PATH", "match satisfiability PATH"]
LINES = r"""
find status=up
find names=node0 or (sched-now=free and not property=fast)
list
stat
info 1
info x
cancel 1
cancel 99
cancel x
partial-cancel 1 jgf PATH
partial-cancel 1 rv1exec PATH
update allocate jgf PATH 9 0 60
update allocate rv1exec PATH 9 x 60
update reserve jgf PATH 9 5 60
attach PATH
remove /a true
remove 0 false
remove 0-99999999 false
set-status /mini0 down
get-status /mini0/node0
set-property /mini0 a=b
get-property /mini0
remove-property /mini0 a
find (
find status=
find names=[
match
match x PATH
help
"
match allocate /nowhere
find jobid-alloc=99999999999999999999999999
""".strip().splitlines()
LINES += [
    "info \u00b2",
    "cancel \u00b2",
    "find jobid-alloc=\u00b2",
    "match allocate \x00",
    "cancel " + "9" * 5000,
]


@st.composite
def broken(draw: st.DrawFn, whole: Any) -> Any:
    """A copy of a value with one to three places changed."""
    found = copy.deepcopy(whole)
    for _ in range(draw(st.integers(1, 3))):
        at: Any = found
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            deeper = isinstance(at[key], dict | list) and bool(at[key])
            if deeper and draw(st.integers(0, 5)):
                at = at[key]
                continue
            action = draw(st.sampled_from(["set", "set", "gone", "again", "other"]))
            if action == "set":
                at[key] = draw(values)
            elif action == "gone":
                del at[key]
            elif isinstance(at, list):
                at.insert(0, copy.deepcopy(at[key]))
            else:
                at[draw(words)] = copy.deepcopy(at[key])
            break
    return found


@st.composite
def spliced(draw: st.DrawFn, text: str) -> str:
    """A text with a piece cut out, or put in at another place."""
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    put = draw(
        st.sampled_from(["", text[first:last], "\x00", "<", "}", "&lt;", "99999999999999999999", "-1", "é"])
    )
    at = draw(st.integers(0, len(text)))
    return text[:at] + put + text[at:] if draw(st.booleans()) else text[:first] + put + text[last:]


def texts(kind: str) -> st.SearchStrategy[str]:
    """Broken files of one format."""
    if kind == "grug":
        swaps = st.tuples(st.sampled_from(NUMBERS), st.one_of(numbers.map(str), words))
        swapped = swaps.map(lambda swap: GRUG.replace(f">{swap[0]}<", f">{escaped(swap[1])}<", 1))
        return st.one_of(spliced(GRUG), swapped)
    whole = JGF if kind == "jgf" else R
    return st.one_of(broken(whole).map(json.dumps), broken(whole).map(json.dumps), spliced(json.dumps(whole)))


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


NUMBERS = sorted({piece.partition("<")[0] for piece in GRUG.split(">") if piece.partition("<")[0].strip()})


def one_line(error: Exception) -> None:
    text = str(error)
    assert text and "\n" not in text and len(text) < 500, text


def graph_of(kind: str, text: str) -> Graph | None:
    """The graph, or None for an error in one line."""
    try:
        return Graph(Tree(READERS[kind](text)), match_policy("low"))
    except TreeError as error:
        one_line(error)
        return None


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_F28_a_broken_graph_is_an_error_in_one_line_or_a_tree(kind: str, data: st.DataObject) -> None:
    graph = graph_of(kind, data.draw(texts(kind)))
    if graph is None:
        return
    again = jgf.whole(graph.tree)
    assert jgf.whole(Tree(jgf.read(again))) == again
    lines = [f"match allocate {FOLDER / 'pod.yaml'}", "find status=up", "cancel 1"]
    session(graph, io.StringIO(), lines)


@given(st.sampled_from(JOBSPECS).flatmap(broken), st.booleans())
@settings(max_examples=600, deadline=None)
def test_F28_a_broken_jobspec_is_an_error_that_names_its_place(job: Any, known: bool) -> None:
    try:
        read_jobspec(json.dumps(job), ["node", "core", "memory"] if known else None)
    except JobspecError as error:
        one_line(error)
        assert ": " in str(error)


@given(st.sampled_from(sorted(FOLDER.glob("*.yaml"))).flatmap(lambda path: spliced(path.read_text())))
@settings(max_examples=300, deadline=None)
def test_F28_a_garbled_jobspec_is_an_error_in_one_line(text: str) -> None:
    try:
        read_jobspec(text)
    except JobspecError as error:
        one_line(error)


def session(graph: Graph, out: io.StringIO, lines: list[str]) -> str:
    """What is said on stderr while these lines are done; the session outlives all of them."""
    errors = io.StringIO()
    running = Session(graph, out, "rv1", False)
    with redirect_stderr(errors), redirect_stdout(io.StringIO()):
        for line in lines:
            assert running.line(line), line
    return errors.getvalue()


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_F28_no_line_and_no_file_ends_a_session(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "broken"
    graph = graph_of("jgf", json.dumps(JGF))
    assert graph is not None
    lines: list[str] = []
    out = io.StringIO()
    for _ in range(data.draw(st.integers(1, 6))):
        line = data.draw(st.sampled_from([*MATCH, *MATCH, *LINES]))
        content = st.one_of(
            texts("jgf"), texts("rv1exec"), st.sampled_from(JOBSPECS).flatmap(broken).map(json.dumps)
        )
        good = st.sampled_from([json.dumps(JGF), json.dumps(R), *map(json.dumps, JOBSPECS)])
        path.write_text(data.draw(good | content), encoding="utf-8", errors="surrogatepass")
        errors = session(graph, out, [line.replace("PATH", str(path))])
        lines.append(line)
        assert errors.count("\n") <= 1, (line, errors)
        assert "Traceback" not in errors
        assert graph.bookings.check() == []
