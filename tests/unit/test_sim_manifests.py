"""Manifests as workloads: what is created of them, by group, with which length and when."""

from pathlib import Path

import pytest

from fairlead.sim.inputs import load
from fairlead.sim.workload import Arrival
from fairlead.wire.files import FileError

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
# Those of external schedulers are no workload: a BatchJob says nothing of when it is to run, or for how long.
WORKLOADS = [path for path in EXAMPLES.rglob("*.yaml") if path.relative_to(EXAMPLES).parts[0] != "esi"]
SPEC = "spec: {containers: [{name: m, resources: {limits: {cpu: 0.5, memory: 1Gi}}}]}"


def arrivals(folder: Path, text: str, **options: bool) -> tuple[Arrival, ...]:
    (folder / "w.yaml").write_text(text, encoding="utf-8")
    return load(folder / "w.yaml", procs=8, **options).arrivals


@pytest.mark.parametrize("path", sorted(WORKLOADS), ids=lambda p: str(p.relative_to(EXAMPLES)))
def test_every_example_loads(path: Path) -> None:
    if "PriorityClass" in path.read_text(encoding="utf-8"):
        with pytest.raises(FileError, match="nothing to simulate"):
            load(path, procs=64)
    else:
        assert load(path, procs=64).arrivals


def test_a_job_is_one_group_with_its_owner() -> None:
    (found,) = load(EXAMPLES / "job.yaml", procs=4).arrivals
    assert (found.name, found.run, found.estimate) == ("hello-job", 3000, 60_000)
    assert found.owner is not None and found.pods[0].owner is not None
    assert found.owner.uid == found.pods[0].owner.uid


def test_a_label_joins_the_pods_of_two_jobs() -> None:
    (found,) = load(EXAMPLES / "leader-workers.yaml", procs=64).arrivals
    assert (found.name, len(found.pods), found.procs, found.owner) == ("solver", 5, 12, None)
    assert not any(pod.owner for pod in found.pods)


def test_pods_of_a_deployment_are_single() -> None:
    found = load(EXAMPLES / "services" / "deployment.yaml", procs=4).arrivals
    assert [(a.name, len(a.pods), a.run) for a in found] == [
        ("web-0", 1, 0),
        ("web-1", 1, 0),
        ("web-2", 1, 0),
    ]


def test_completions_bound_the_width_of_a_job(tmp_path: Path) -> None:
    text = (
        f"kind: Job\nmetadata: {{name: a}}\nspec: {{parallelism: 4, completions: 3, template: {{{SPEC}}}}}\n"
    )
    (found,) = arrivals(tmp_path, text)
    assert len(found.pods) == 3 and found.run == 1000


def test_limits_are_requests_where_none_are_stated(tmp_path: Path) -> None:
    (found,) = arrivals(tmp_path, f"kind: Pod\nmetadata: {{name: a}}\n{SPEC}\n")
    assert found.pods[0].shape.requests == (("cpu", 500), ("memory", 1 << 30), ("pods", 1))
    assert found.pods[0].scheduler == "fairlead" and found.run == 0


def test_times_of_submission_order_the_pods(tmp_path: Path) -> None:
    def pod(name: str, meta: str) -> str:
        return f"kind: Pod\nmetadata: {{name: {name}{meta}}}\n{SPEC}\n---\n"

    text = pod("b", ", creationTimestamp: 1970-01-01T00:00:09Z") + pod("c", "")
    text += pod("a", ', annotations: {fairlead.dev/submit-time: "1970-01-01T00:00:05Z"}')
    assert [(a.name, a.at) for a in arrivals(tmp_path, text)] == [("c", 5000), ("a", 5000), ("b", 9000)]


def test_priority_comes_from_a_class_in_the_file(tmp_path: Path) -> None:
    text = "kind: PriorityClass\nmetadata: {name: high}\nvalue: 7\n---\nkind: Pod\nmetadata: {name: a}\n"
    (found,) = arrivals(tmp_path, text + SPEC.replace("{con", "{priorityClassName: high, con", 1) + "\n")
    assert found.pods[0].priority == 7


def test_nodes_in_the_file_are_the_machine(tmp_path: Path) -> None:
    text = "kind: Node\nmetadata: {name: x}\nstatus: {capacity: {cpu: 2.5}}\n---\n"
    path = tmp_path / "w.yaml"
    path.write_text(f"{text}kind: Pod\nmetadata: {{name: a}}\n{SPEC}\n", encoding="utf-8")
    found = load(path)
    assert [(n.name, dict(n.allocatable)["cpu"]) for n in found.nodes] == [("x", 2500)]
    assert found.capacity == 2


@pytest.mark.parametrize(
    ("notes", "complaint"),
    [
        ("fairlead.dev/run-time: soon", "run-time is 'soon'"),
        ("fairlead.dev/submit-time: soon", "'soon' is no time"),
        ("fairlead.dev/duration: 60", "Expected `str`, got `int`"),
    ],
)
def test_annotations_that_nobody_can_read(tmp_path: Path, notes: str, complaint: str) -> None:
    with pytest.raises(FileError, match=complaint):
        arrivals(tmp_path, f"kind: Pod\nmetadata: {{name: a, annotations: {{{notes}}}}}\n{SPEC}\n")


def test_an_unknown_priority_class_changes_a_pod_and_loses_none(tmp_path: Path) -> None:
    text = "kind: Pod\nmetadata: {name: a}\n" + SPEC.replace("{con", "{priorityClassName: high, con", 1)
    (tmp_path / "w.yaml").write_text(text, encoding="utf-8")
    found = load(tmp_path / "w.yaml", procs=8)
    assert [fault.kind for fault in found.faults] == ["changed"] and len(found.arrivals) == 1


def test_what_creates_no_pods_is_told_and_stops_a_strict_reader(tmp_path: Path) -> None:
    text = f"kind: Pod\nmetadata: {{name: a}}\n{SPEC}\n---\nkind: CronJob\nmetadata: {{name: c}}\n"
    text += "spec: {jobTemplate: {}}\n"
    assert len(arrivals(tmp_path, text)) == 1
    with pytest.raises(FileError, match="CronJob c: it is not known which pods this kind creates"):
        arrivals(tmp_path, text, strict=True)


def test_volumes_are_left_out_and_that_is_told(tmp_path: Path) -> None:
    claim = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"
    text = f"kind: Pod\nmetadata: {{name: a}}\n{SPEC[:-1]}, {claim}}}\n"
    (found,) = arrivals(tmp_path, text)
    assert found.pods[0].shape.rules.volumes == ()
    (fault,) = load(tmp_path / "w.yaml", procs=8).faults
    assert (fault.kind, fault.text) == ("changed", "a: played without its volumes")
    with pytest.raises(FileError, match="played without its volumes"):
        load(tmp_path / "w.yaml", procs=8, strict=True)
