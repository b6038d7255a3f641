"""Slots side by side, through resource-query: exact nodes, all formats, what a manifest becomes, errors."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from tests.property.test_tree_restored import dump
from typer.testing import CliRunner

from fairlead.cli import main
from fairlead.cli.query_session import Session
from fairlead.core.containment import pools, split
from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.graph import Graph, Op, Verdict
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.model.jobspec import Count, Jobspec, Resource
from fairlead.model.node import Node
from fairlead.wire import jgf

ROOT = Path(__file__).parents[2]
RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
GIB = 1 << 30


def cluster(cpus: list[int], **labels: list[str]) -> str:
    """What `fairlead graph -o jgf` writes of nodes n0, n1 … with so many cores, two to a rack."""
    nodes = [
        Node(
            f"u{i}",
            f"n{i}",
            i,
            (("cpu", 1000 * cpu), ("memory", 8 * GIB), ("pods", 110)),
            {RACK: f"r{i // 2}", "kubernetes.io/hostname": f"n{i}"}
            | {key: values[i] for key, values in labels.items()},
        )
        for i, cpu in enumerate(cpus)
    ]
    return jgf.whole(Tree(split(pools(nodes, (ZONE, RACK)))))


def slot(number: int, cores: int, label: str = "x") -> Resource:
    part = Resource("core", Count(cores, cores))
    return Resource("slot", Count(number, number), label=label, children=(part,))


def graph_of(cpus: list[int], policy: str = "lonode", *, levels: bool = True) -> Graph:
    return Graph(Tree(jgf.read(cluster(cpus))), match_policy(policy), levels=levels)


def cores_of(graph: Graph, id_: int) -> dict[str, int]:
    """Node -> how many of its cores a job holds."""
    tree, found = graph.tree, dict[str, int]()
    for v, held in graph.bookings.jobs[id_].held.items():
        if tree.type[v] == "core" and held.exclusive:
            name = tree.name(int(tree.parent[v]))
            found[name] = found.get(name, 0) + 1
    return found


LEADER = (slot(1, 4, "leader"), slot(4, 2, "worker"))


@pytest.mark.parametrize("levels", [True, False])
def test_a_leader_and_its_workers_lie_on_exactly_these_nodes(levels: bool) -> None:
    graph = graph_of([5, 3, 4, 4], levels=levels)
    before = dump(graph)
    assert graph.match(Jobspec(LEADER, 10), Op.allocate, 1).verdict is Verdict.granted
    assert cores_of(graph, 1) == {"n0": 4, "n1": 2, "n2": 4, "n3": 2}
    assert graph.match(Jobspec(LEADER, 10), Op.allocate, 2).verdict is Verdict.busy
    later = graph.match(Jobspec(LEADER, 10), Op.allocate_orelse_reserve, 2).job
    assert later is not None and (later.start, later.reserved) == (10, True)
    for id_ in (2, 1):
        graph.cancel(id_)
    assert dump(graph) == before


def test_the_harder_slot_comes_first_wherever_it_stands() -> None:
    graph = graph_of([4, 2])
    for number, wants in enumerate([(slot(1, 2), slot(1, 4)), (slot(1, 4), slot(1, 2))], 1):
        assert graph.match(Jobspec(wants), Op.allocate, number).verdict is Verdict.granted
        assert cores_of(graph, number) == {"n0": 4, "n1": 2}
        graph.cancel(number)


def test_all_of_it_lies_in_the_first_rack_that_has_room_for_all_of_it() -> None:
    graph = graph_of([4, 2, 4, 4])
    wants = (Resource("rack", Count(1, 1), children=(slot(1, 4), slot(2, 2))),)
    assert graph.match(Jobspec(wants), Op.allocate, 1).verdict is Verdict.granted
    assert cores_of(graph, 1) == {"n2": 4, "n3": 4}
    assert graph.match(Jobspec(wants), Op.allocate_with_satisfiability, 2).verdict is Verdict.busy
    two = (Resource("rack", Count(2, 2), children=(slot(1, 4), slot(2, 2))),)
    assert graph.match(Jobspec(two), Op.allocate_with_satisfiability, 2).verdict is Verdict.never


def test_whole_racks_are_given_whole() -> None:
    graph = graph_of([4, 4, 4, 4])
    graph.match(Jobspec((slot(1, 1),)), Op.allocate, 1)
    wants = (Resource("rack", Count(1, 1), exclusive=True, children=(slot(1, 2), slot(1, 1))),)
    assert graph.match(Jobspec(wants), Op.allocate, 2).verdict is Verdict.granted
    assert cores_of(graph, 2) == {"n2": 4, "n3": 4}
    assert graph.bookings.check() == []


@pytest.mark.parametrize(
    ("wants", "verdict"),
    [
        ((slot(1, 5), slot(1, 1)), Verdict.never),  # no node has 5 cores
        ((slot(2, 4), slot(3, 3)), Verdict.never),  # 17 cores of 16
        ((slot(1, 4), slot(4, 3)), Verdict.never),  # five slots of at least 3 cores on four nodes
        ((slot(2, 4), slot(2, 3)), Verdict.busy),
    ],
)
def test_never_is_what_no_choice_could_meet(wants: tuple[Resource, ...], verdict: Verdict) -> None:
    graph = graph_of([4, 4, 4, 4])
    graph.match(Jobspec((slot(1, 4),)), Op.allocate, 1)
    assert graph.match(Jobspec(wants), Op.allocate_with_satisfiability, 2).verdict is verdict


def test_nothing_is_promised_for_the_end_of_time() -> None:
    graph = graph_of([4, 4])
    graph.match(Jobspec((slot(2, 4),)), Op.allocate, 1)
    assert graph.match(Jobspec((*LEADER[:1], slot(2, 2))), Op.allocate_orelse_reserve, 2).job is None


def test_slots_side_by_side_within_a_slot_are_refused() -> None:
    graph = graph_of([4, 4])
    inner = Resource("node", Count(1, 1), children=(slot(1, 1), slot(1, 2)))
    job = Jobspec((Resource("slot", Count(1, 1), label="x", children=(inner,)),))
    with pytest.raises(TreeError, match="side by side within a slot"):
        graph.match(job, Op.allocate, 1)
    assert graph.bookings.jobs == {}


# -- from a manifest to the nodes --------------------------------------------------------------------


def jobspecs(file: Path, tmp_path: Path) -> list[Path]:
    """The files that `fairlead jobspec` makes of a manifest."""
    told = CliRunner().invoke(main.app, ["jobspec", "-f", str(file)])
    assert told.exit_code == 0, told.output
    made: list[Path] = []
    for number, document in enumerate(yaml.safe_load_all(told.stdout)):
        made.append(tmp_path / f"job{number}.json")
        made[-1].write_text(json.dumps(document))
    return made


def asked(graph: Path, lines: list[str], *more: str) -> str:
    words = ["resource-query", "-L", str(graph), "-f", "jgf", "-P", "lonode", "-d", *more]
    told = CliRunner().invoke(main.app, words, input="\n".join(lines) + "\n")
    assert told.exit_code == 0, told.output
    return told.stdout


def test_the_example_of_a_leader_and_workers_matches_on_an_exported_graph(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(cluster([2, 5, 6, 1]))
    (job,) = jobspecs(ROOT / "examples" / "leader-workers.yaml", tmp_path)
    told = asked(file, [f"match allocate {job}", f"match allocate {job}"], "-F", "rv1_nosched")
    first, second = told.split("JOBID=1")
    execution = json.loads(first.splitlines()[0])["execution"]
    assert execution["nodelist"] == ["n[0-2]"]
    got = {each["rank"]: each["children"] for each in execution["R_lite"]}
    assert {rank: each["core"] for rank, each in got.items()} == {"0": "0-1", "1": "0-3", "2": "0-5"}
    assert "No matching resources found" in second


@pytest.mark.parametrize(
    ("selector", "nodes"),
    [
        ("disk: ssd", {"n1", "n3"}),
        ('disk: ""', {"n2"}),
        ("kubernetes.io/hostname: n2", {"n2"}),
        ("topology.kubernetes.io/rack: r1", {"n2", "n3"}),
        ("disk: tape", set[str]()),
    ],
)
def test_a_node_selector_finds_its_labels_in_an_exported_graph(
    selector: str, nodes: set[str], tmp_path: Path
) -> None:
    """Each match takes a whole node, so as many match as there are nodes with the label."""
    file, manifest = tmp_path / "cluster.json", tmp_path / "pod.yaml"
    file.write_text(cluster([2, 2, 2, 2], disk=["hdd", "ssd", "", "ssd"]))
    manifest.write_text(
        "kind: Pod\nmetadata: {name: a}\n"
        f"spec: {{nodeSelector: {{{selector}}}, "
        "containers: [{name: c, resources: {requests: {cpu: 2}}}]}"
    )
    (job,) = jobspecs(manifest, tmp_path)
    told = asked(file, [f"match allocate {job}"] * 4)
    assert {name for name in ("n0", "n1", "n2", "n3") if f"{name}[1:" in told} == nodes
    assert told.count("RESOURCES=ALLOCATED") == len(nodes)


def test_all_formats_tell_it_and_update_takes_it_over(tmp_path: Path) -> None:
    text = cluster([4, 4, 4, 4])
    graph = Graph(Tree(jgf.read(text)), match_policy("lonode"))
    file = tmp_path / "job.yaml"
    file.write_text(
        "version: 1\nresources: [{type: slot, count: 1, label: a, with: [{type: core, count: 4}]},"
        " {type: slot, count: 2, label: b, with: [{type: core, count: 3}]}]\n"
        "tasks: [{command: [x], slot: a, count: {per_slot: 1}}]\nattributes: {system: {duration: 10}}"
    )

    def told(format_: str, *lines: str) -> str:
        out, errors = io.StringIO(), io.StringIO()
        session = Session(graph, out, format_, False)
        with redirect_stderr(errors), redirect_stdout(io.StringIO()):
            for line in lines:
                session.line(line)
        assert errors.getvalue() == ""
        return out.getvalue()

    before = dump(graph)
    for format_, word in (
        ("pretty_simple", "core0[1:exclusive]"),
        ("rlite", '"core":"0-3"'),
        ("rv1", '"n[0-2]"'),
    ):
        assert word in told(format_, f"match allocate {file}", "cancel 1"), format_
    written = told("jgf", f"match allocate {file}").splitlines()[0]
    held = sorted(graph.bookings.jobs[1].held)
    assert sorted(graph.vertex(path) for path, _ in jgf.paths(written)) == held
    graph.cancel(1)
    (tmp_path / "one.json").write_text(written)
    told("simple", f"update allocate jgf {tmp_path / 'one.json'} 7 0 10")
    assert sorted(graph.bookings.jobs[7].held) == held
    graph.cancel(7)
    assert dump(graph) == before
