"""What `fairlead simulate` reads: each rule by which a log becomes jobs, and what is said of bad files."""

import csv
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.model.selector import Expression, Operator
from fairlead.sim.inputs import load, load_scenario
from fairlead.sim.workload import Workload
from fairlead.wire.files import FileError

ROOT = Path(__file__).parent.parent
DATA = ROOT / "data" / "sim"
MACHINES = ROOT / "data" / "machines.csv"
EXAMPLES = ROOT.parent / "examples"


def rows(workload: Workload) -> list[tuple[str, int, int, int, int]]:
    found = workload.arrivals
    return [(a.name, a.at // 1000, a.run // 1000, a.procs, a.estimate // 1000) for a in found]


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_log_is_cleaned_by_every_rule() -> None:
    found = load(DATA / "small.swf")
    expected = [("2", 50, 30, 4, 30), ("1", 100, 11, 2, 60), ("3", 100, 60, 1, 60), ("10", 200, 10, 8, 60)]
    assert rows(found) == expected
    assert [(fault.line, fault.kind) for fault in found.faults] == [
        (7, "killed"), (8, "bad"), (9, "bad"), (10, "bad"), (11, "toobig"), (12, "unreadable"),
        (13, "unreadable"),
    ]  # fmt: skip
    assert found.capacity == 8 and found.name == "small"


def test_the_cleaned_csv_gives_the_same_jobs() -> None:
    log, table = load(DATA / "small.swf"), load(DATA / "small.csv", procs=8)
    assert rows(log) == rows(table)
    assert [a.pods[0].shape for a in log.arrivals] == [a.pods[0].shape for a in table.arrivals]


def test_limit_counts_after_cleaning_and_sorting() -> None:
    assert [a.name for a in load(DATA / "small.swf", limit=2).arrivals] == ["2", "1"]


def test_the_machine_asked_for_goes_before_the_header() -> None:
    assert [a.name for a in load(DATA / "small.swf", procs=3).arrivals] == ["1", "3"]


def test_one_node_has_each_job_as_one_pod_of_its_width() -> None:
    found = load(DATA / "small.csv", procs=8)
    assert [(n.name, dict(n.allocatable)["cpu"]) for n in found.nodes] == [("n0", 8000)]
    pod = found.arrivals[0].pods[0]
    assert pod.shape.requests == (("cpu", 4000), ("pods", 1))
    assert (pod.name, pod.scheduler, pod.walltime, pod.labels) == ("2", "fairlead", 30_000, {})


def test_nodes_of_one_have_each_job_as_a_group_of_pods() -> None:
    found = load(DATA / "small.csv", nodes=8)
    assert [dict(n.allocatable)["cpu"] for n in found.nodes] == [1000] * 8
    first = found.arrivals[0]
    assert [pod.name for pod in first.pods] == ["2-0", "2-1", "2-2", "2-3"]
    assert first.pods[0].labels == {"fairlead.dev/group": "2", "fairlead.dev/group-size": "4"}
    # The engine tells shapes by identity: equal ones of different jobs must be one object.
    assert len({id(pod.shape) for arrival in found.arrivals for pod in arrival.pods}) == 1
    uids = [pod.uid for arrival in found.arrivals for pod in arrival.pods]
    assert len(set(uids)) == len(uids)


def test_a_number_that_occurs_twice_is_two_jobs(tmp_path: Path) -> None:
    path = written(tmp_path, "w.csv", "job_id,submit,run,procs,estimate\n1,0,5,2,5\n1,0,5,2,5\n")
    first, second = load(path, nodes=2).arrivals
    assert (first.name, second.name) == ("1", "1")
    assert first.pods[0].labels != second.pods[0].labels


def test_a_node_list_is_a_machine_for_logs_too() -> None:
    found = load(DATA / "small.csv", nodes_file=MACHINES)
    assert len(found.nodes) == 3 and found.capacity > 8
    assert all(dict(node.allocatable)["pods"] == 1 << 20 for node in found.nodes)


@pytest.mark.parametrize("pack", [gzip, lzma])
def test_packed_files_are_read_as_they_are(tmp_path: Path, pack: object) -> None:
    ending = "gz" if pack is gzip else "xz"
    path = tmp_path / f"small.swf.{ending}"
    path.write_bytes((gzip if pack is gzip else lzma).compress((DATA / "small.swf").read_bytes()))
    assert load(path) == load(DATA / "small.swf")


def test_openb_pods_keep_gpu_model_and_times() -> None:
    found = load(DATA / "pods.csv", nodes_file=MACHINES)
    early, late = found.arrivals
    assert (early.name, early.at, early.run) == ("early", 10_000, 1000)
    assert (late.at, late.run, late.estimate, late.procs) == (50_000, 30_000, 0, 2)
    shape = late.pods[0].shape
    assert shape.requests == (("cpu", 1500), ("memory", 1 << 30), ("nvidia.com/gpu", 1), ("pods", 1))
    assert shape.affinity == ((Expression("fairlead.dev/gpu-model", Operator.IN, ("P100", "V100")),),)
    assert [(fault.line, fault.kind) for fault in found.faults] == [(4, "unreadable")]


def test_strict_stops_at_the_first_line_that_loses_a_job() -> None:
    with pytest.raises(FileError, match=r"small\.swf:8: job 4: submitted at -1"):
        load(DATA / "small.swf", strict=True)


HEAD = "job_id,submit,run,procs,estimate\n"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("w.txt", "", "what is it?"),
        ("w", "", "what is it?"),
        ("w.csv", "a,b\n1,2\n", "w.csv:1: no column job_id"),
        ("w.csv", "", "w.csv: the file is empty"),
        ("w.swf", " \n", "w.swf: the file is empty"),
        ("w.csv", HEAD, "nothing to simulate"),
        ("w.csv", HEAD + "1,0,x,1,1\n", "the first is line 2: job 1: 'x' is not a number"),
        ("w.csv", HEAD + "1,0,nan,1,1\n", "'nan' is out of range"),
        ("w.csv", HEAD + "1,0,1_0,1,1\n", "'1_0' is not a number"),
        ("w.csv", HEAD + "1,0\n", "line 2: the line has not as many fields"),
        ("w.yaml", "a: [1\n", "not YAML or JSON"),
        ("w.yaml", "- 1\n", "document 1, item 1: not a manifest"),
        ("w.yaml", "kind: Pod\nmetadata: {name: a}\n", "pod a: no containers"),
        ("w.yaml", "kind: Pod\nspec: {containers: [{name: a}]}\n", "Pod without metadata.name"),
        ("w.scn", "", "plays by itself"),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    with pytest.raises(FileError) as caught:
        load(written(tmp_path, name, text), procs=4)
    assert complaint in str(caught.value)
    assert str(tmp_path / name) in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_opened_or_unpacked(tmp_path: Path) -> None:
    (tmp_path / "logs.swf").mkdir()
    with pytest.raises(FileError, match="is a folder: give one of the files in it"):
        load(tmp_path / "logs.swf")
    with pytest.raises(FileError, match="No such file"):
        load(tmp_path / "none.swf")
    for name in ("w.swf.xz", "w.swf.gz"):
        (tmp_path / name).write_bytes(b"not packed")
        with pytest.raises(FileError, match="not a whole"):
            load(tmp_path / name)
    (tmp_path / "w.swf").write_bytes(b"; a\n; \xff\n")
    with pytest.raises(FileError, match=r"w\.swf:2: not UTF-8"):
        load(tmp_path / "w.swf")


def test_the_machine_must_be_known_and_only_once() -> None:
    with pytest.raises(FileError, match="give --procs N or --nodes N"):
        load(DATA / "small.csv")
    with pytest.raises(FileError, match="one of --procs"):
        load(DATA / "small.csv", procs=1, nodes=1)
    with pytest.raises(FileError, match="give --nodes-file"):
        load(DATA / "pods.csv", procs=1)
    with pytest.raises(FileError, match="give --nodes-file, --procs N"):
        load(EXAMPLES / "job.yaml")


def test_scenarios_are_for_those_who_play_them(tmp_path: Path) -> None:
    path = written(tmp_path, "w.scn", "cluster 1 nodes cpu=1 policy fcfs\n00:00 later\n")
    assert len(load_scenario(path).steps) == 1
    with pytest.raises(FileError, match=r"w\.scn:1: a scenario begins"):
        load_scenario(written(tmp_path, "w.scn", "no\n"))


@pytest.mark.parametrize(
    ("name", "procs"), [("KTH-SP2-1996-2", 100), ("lublin_256", 256), ("CEA-Curie-sample30k", 93_312)]
)
def test_logs_are_cleaned_as_the_oracle_did(
    name: str, procs: int, oracle_data: Callable[[str], Path]
) -> None:
    path = oracle_data(f"swf/{name}.workload.csv.xz")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        expected = [tuple(row) for row in csv.reader(file)][1:]
    log = load(oracle_data(f"swf/{name}.swf.xz"), limit=len(expected))
    assert [tuple(map(str, row)) for row in rows(log)] == expected
    assert log.capacity == procs
    assert rows(load(path, procs=procs)) == rows(log)
