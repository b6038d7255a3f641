"""`fairlead jobspec`: what manifests become (golden files), remarks, and errors in one line.

FAIRLEAD_UPDATE_GOLDEN=1 writes the golden files anew; look at the difference before you commit it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from fairlead.cli import main
from fairlead.wire.jobspec import read

DATA = Path(__file__).parent.parent / "data"
SPEC = "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}"

LEVEL = "fairlead.dev/required-topology"


def run(*words: str) -> Any:
    return CliRunner().invoke(main.app, ["jobspec", *words])


def fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr("sys.argv", ["fairlead", "jobspec", *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    return told.err


def test_the_example_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "jobspec")
    result = run("-f", "training.yaml")
    assert result.exit_code == 0
    for name, text in (("jobspec.yaml", result.stdout), ("jobspec-remarks.txt", result.stderr)):
        golden = DATA / "golden" / name
        if os.environ.get("FAIRLEAD_UPDATE_GOLDEN") == "1":
            golden.write_text(text, encoding="utf-8")
        assert text == golden.read_text(encoding="utf-8")
    for document in yaml.safe_load_all(result.stdout):
        read(json.dumps(document))


def test_json_is_one_jobspec_a_line_and_a_group_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "jobspec")
    found = [json.loads(line) for line in run("-f", "training.yaml", "-o", "json").stdout.splitlines()]
    assert found == list(yaml.safe_load_all(run("-f", "training.yaml").stdout))
    (one,) = run("-f", "training.yaml", "-o", "json", "--group", "sweep").stdout.splitlines()
    assert json.loads(one) == found[1]
    gb = json.loads(run("-f", "training.yaml", "-o", "json", "--memory-unit", "GB").stdout.splitlines()[0])
    leader, worker = gb["resources"][0]["with"]
    assert leader["with"][1] == {"type": "memory", "count": 2, "unit": "GB"}
    assert worker["with"][2] == {"type": "memory", "count": 1, "unit": "GB"}


def test_a_jobset_is_its_jobs_and_one_group_where_their_pods_say_so(tmp_path: Path) -> None:
    file = tmp_path / "set.yaml"
    labels = "labels: {fairlead.dev/group: g}"
    text = "kind: JobSet\nmetadata: {name: js}\nspec:\n  replicatedJobs:\n"
    for name, times in (("head", 1), ("node", 2)):
        cores = 1 if name == "head" else 2
        text += (
            f"  - name: {name}\n    replicas: {times}\n    template: {{spec: {{parallelism: 2, template: "
            f"{{metadata: {{LABELS}}, {SPEC.replace('cpu: 1', f'cpu: {cores}')}}}}}}}\n"
        )
    file.write_text(text.replace("LABELS", ""), encoding="utf-8")
    apart = list(yaml.safe_load_all(run("-f", str(file)).stdout))
    names = [each["attributes"]["system"]["job"]["name"] for each in apart]
    assert names == ["js-head-0", "js-node-0", "js-node-1"]
    file.write_text(text.replace("LABELS", labels), encoding="utf-8")
    (whole,) = yaml.safe_load_all(run("-f", str(file)).stdout)
    assert [(slot["count"], slot["with"][0]["count"]) for slot in whole["resources"]] == [(2, 1), (4, 2)]


def test_members_that_are_not_in_the_file_are_like_the_last(tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    pod = f"kind: Pod\nmetadata: {{name: a, labels: {{scheduling.x-k8s.io/pod-group: pg}}}}\n{SPEC}\n"
    file.write_text(f"kind: PodGroup\nmetadata: {{name: pg}}\nspec: {{minMember: 3}}\n---\n{pod}")
    result = run("-f", str(file))
    (job,) = yaml.safe_load_all(result.stdout)
    assert job["resources"][0]["count"] == 3
    assert "2 of 3 members are not in the file" in result.stderr


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("rack", "rack"),
        ("topology.kubernetes.io/zone", "zone"),
        ("example.com/switch", "switch"),
        ("x/node", "x.node"),  # as the exported graph calls it, for nodes are called so already
        ("kubernetes.io/hostname", "node"),
    ],
)
def test_the_level_that_holds_all_is_called_as_in_the_graph(name: str, type_: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(f"kind: Pod\nmetadata: {{name: a, annotations: {{{LEVEL}: {name}}}}}\n{SPEC}")
    (job,) = yaml.safe_load_all(run("-f", str(file)).stdout)
    (level,) = job["resources"]
    assert (level["type"], level["count"], [each["type"] for each in level["with"]]) == (type_, 1, ["slot"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("kind: Pod\nmetadata: [}", "pods.yaml:2: not YAML or JSON"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", "no pods in it, only ConfigMap"),
        ("{}", "document 1: no metadata.name"),
        ("kind: MPIJob\nmetadata: {name: x}\nspec: {template: {}}\n", "MPIJob x: it is not known which pods"),
        ("hello", "document 1: not a manifest but 'hello'"),
        (f"kind: Pod\nmetadata: {{}}\n{SPEC}", "Pod without metadata.name"),
        ("kind: Pod\nmetadata: {name: a}\nspec: {containers: 3}", "containers is no list"),
        (
            f"kind: Pod\nmetadata: {{name: a}}\n{SPEC}".replace("cpu: 1", "cpu: many"),
            "'many' is not a quantity",
        ),
        (
            f'kind: Pod\nmetadata: {{name: a, annotations: {{fairlead.dev/duration: "soon"}}}}\n{SPEC}',
            "group a: annotation fairlead.dev/duration is 'soon'",
        ),
        (
            f"kind: Pod\nmetadata: {{name: a, annotations: {{fairlead.dev/exclusive: maybe}}}}\n{SPEC}",
            "group a: annotation fairlead.dev/exclusive is 'maybe', neither true nor false",
        ),
        (
            f"kind: Job\nmetadata: {{name: a, annotations: {{{LEVEL}: host, "
            'fairlead.dev/exclusive: "true"}}\n'
            f"spec: {{parallelism: 2, template: {{{SPEC}}}}}",
            "wants one node for all members and fairlead.dev/exclusive one for each: leave one of them out",
        ),
        ("kind: JobSet\nmetadata: {name: a}\nspec: {replicatedJobs: 7}", "needs a name and replicas"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    text: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(text, encoding="utf-8")
    assert told in fails(capsys, monkeypatch, "-f", str(file))


def test_wrong_options_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(DATA / "jobspec" / "training.yaml")
    assert "give one of MB, GB" in fails(capsys, monkeypatch, "-f", file, "--memory-unit", "TB")
    assert "its groups are training, sweep" in fails(capsys, monkeypatch, "-f", file, "--group", "x")
    assert "No such file" in fails(capsys, monkeypatch, "-f", "nowhere.yaml")
