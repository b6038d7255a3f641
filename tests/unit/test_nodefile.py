"""Node files of a local cluster: what they may hold, and what is said of a bad one."""

import gzip
import lzma
from pathlib import Path

import pytest

from fairlead.localcluster import ClusterError, NodeShape, nodefile

DATA = Path(__file__).parent.parent / "data"
HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_gives_capacity_labels_and_annotation() -> None:
    first, second, third = nodefile.read(DATA / "machines.csv")
    expected = {"cpu": "64000m", "memory": "262144Mi", "pods": "110", "nvidia.com/gpu": "2"}
    assert first["status"] == {"capacity": expected, "allocatable": expected}
    assert first["metadata"]["labels"]["fairlead.dev/gpu-model"] == "P100"
    assert first["metadata"]["labels"]["kubernetes.io/hostname"] == "rack1-a"
    assert first["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert second["status"]["capacity"]["nvidia.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in third["status"]["capacity"]
    assert "fairlead.dev/gpu-model" not in third["metadata"]["labels"]


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    plain = DATA / "machines.csv"
    (tmp_path / "m.csv.xz").write_bytes(lzma.compress(plain.read_bytes()))
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert nodefile.read(tmp_path / "m.csv.xz") == nodefile.read(plain)
    assert nodefile.read(tmp_path / "m.csv.gz") == nodefile.read(plain)


def test_manifests_keep_what_they_say(tmp_path: Path) -> None:
    text = """
kind: Node
metadata: {name: a, uid: old, resourceVersion: "7", labels: {rack: r1, kubernetes.io/hostname: other}}
spec: {unschedulable: true, taints: [{key: k, effect: NoSchedule}]}
status:
  capacity: {cpu: 8, memory: 1Gi, pods: 20}
  allocatable: {cpu: 7, memory: 1Gi, pods: 20}
  conditions: [{type: Ready, status: "False"}]
---
kind: List
items:
- {kind: Node, metadata: {name: b}, status: {capacity: {cpu: 1}}}
"""
    first, second = nodefile.read(written(tmp_path, "n.yaml", text))
    assert first["metadata"]["labels"]["rack"] == "r1"
    assert first["metadata"]["labels"]["kubernetes.io/hostname"] == "other"
    assert not {"uid", "resourceVersion"} & set(first["metadata"])
    assert first["spec"]["unschedulable"] is True
    assert first["status"]["allocatable"] == {"cpu": "7", "memory": "1Gi", "pods": "20"}
    # Its health is reported by the fake kubelet, not by the file.
    assert "conditions" not in first["status"]
    assert second["status"]["capacity"] == {"pods": "110", "cpu": "1"}


def test_json_is_read_too(tmp_path: Path) -> None:
    text = '{"kind": "NodeList", "items": [{"metadata": {"name": "a"}}]}'
    assert [node["metadata"]["name"] for node in nodefile.read(written(tmp_path, "n.json", text))] == ["a"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("n.csv", "sn,cpu_milli\na,1\n", "line 1: no column memory_mib, gpu, model"),
        ("n.csv", HEAD + "a,1,2,0,\nb,many,2,0,\n", "line 3: cpu_milli is 'many'"),
        ("n.csv", HEAD + "a,-1,2,0,\n", "line 2: cpu_milli is '-1'"),
        ("n.csv", HEAD + "a,1\n", "line 2: needs as many fields"),
        ("n.csv", HEAD + "a,1,2,0,,x\n", "line 2: needs as many fields"),
        ("n.csv", HEAD + "a,1,2,1,no label\n", "line 2: model 'no label' cannot be"),
        ("n.csv", HEAD + "a,1,2,0,\na,1,2,0,\n", "node 2: name 'a' occurs twice"),
        ("n.csv", HEAD + "Node_1,1,2,0,\n", "node 1: name 'Node_1'"),
        ("n.csv", HEAD, "no node in it"),
        ("n.txt", "a", "give a .csv, .yaml or .json file"),
        ("n.yaml", "kind: Pod\nmetadata: {name: a}\n", "document 1: kind is 'Pod'"),
        ("n.yaml", "kind: Node\n", "document 1: no metadata.name"),
        ("n.yaml", "[1]\n", "document 1, item 1: not a manifest but 1"),
        ("n.yaml", "kind: Node\nmetadata: {name: a, labels: [x]}\n", "metadata.labels is no map"),
        ("n.yaml", "kind: Node\nmetadata: {name: a}\nstatus: {capacity: 3}\n", "status.capacity is no map"),
        ("n.yaml", "a: [1\n", "not YAML or JSON"),
    ],
)
def test_bad_files_are_named_with_the_place(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    with pytest.raises(ClusterError) as caught:
        nodefile.read(written(tmp_path, name, text))
    assert complaint in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="No such file"):
        nodefile.read(tmp_path / "none.csv")
    (tmp_path / "n.csv.xz").write_bytes(b"not compressed")
    with pytest.raises(ClusterError, match=r"not a whole \.xz file"):
        nodefile.read(tmp_path / "n.csv.xz")


def test_generated_nodes_are_padded_and_spread() -> None:
    nodes = nodefile.generate(5, NodeShape(cpu="4", memory="8Gi", pods=9, zones=2))
    assert [node["metadata"]["name"] for node in nodes][:2] == ["node-0000", "node-0001"]
    zones = [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes]
    assert zones == ["zone-0", "zone-1", "zone-0", "zone-1", "zone-0"]
    assert nodes[0]["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "9"}
    assert nodefile.generate(10_001, NodeShape())[-1]["metadata"]["name"] == "node-10000"
