"""The simulated world of external schedulers itself: objects, operators, run times, failures, restarts."""

import json
from typing import Any

import pytest

from fairlead.control.esi import apps
from fairlead.core.esi.table import Slot
from fairlead.model import command as cmd
from fairlead.model.application import APP_KINDS, AppState
from fairlead.model.batchjob import AppKind
from fairlead.model.esi import SCHEDULER, SLOTS, TESTBED_LABEL, Ref
from fairlead.model.event import ObjectFailed
from fairlead.model.pod import PodPhase
from fairlead.runtime.errors import ClusterError, ConfigError
from fairlead.sim import esi_layout, esi_pods
from fairlead.sim.esi_cluster import SimulatedCluster
from fairlead.sim.esi_layout import EVALUATION, JobLayout, Layout, NodesLayout, TestbedLayout
from fairlead.sim.esi_objects import Manifest, Refused, merge
from fairlead.sim.esi_operators import RunTimes
from fairlead.sim.esi_world import EsiWorld

BED: Manifest = {
    "kind": "Testbed",
    "metadata": {"name": "tb"},
    "spec": {"nodeLabel": "slots", "slotsPerNode": 2, "resourcesPerSlot": {"cpu": "600m", "memory": "1Gi"}},
}


def ref(name: str) -> dict[str, str]:
    return {"namespace": "default", "name": name}


def plan(name: str, *jobs: str, **options: Any) -> Manifest:
    spec = {"testbed": ref("tb"), "queueBased": [ref(job) for job in jobs], "fairlead": options}
    return {"kind": "Scheduling", "metadata": {"name": name}, "spec": spec}


def small(*jobs: JobLayout, nodes: int = 1) -> EsiWorld:
    """A Testbed `tb` of so many nodes with two slots each, and these jobs."""
    given = jobs or (JobLayout("j1", "10s", {"j2": "20s"}), JobLayout("j2", "10s"))
    return esi_layout.world(Layout(NodesLayout(nodes), [TestbedLayout("tb", nodes)], list(given)))


def seconds(world: EsiWorld, job: str) -> list[tuple[str, str, bool]]:
    return [(each.start, each.stop, each.successful) for each in world.job(job).scheduled_events]


# -- applications ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(AppKind))
def test_every_kind_of_application_runs_in_its_slots_and_completes(kind: AppKind) -> None:
    world = small(JobLayout("j1", "10s", {}, kind.value))
    world.run(1_000)
    world.put(plan("s", "j1", "j1"))
    world.run(5_000)
    pods = world.pods_of("j1")
    assert [(pod.node, pod.phase, pod.scheduler) for pod in pods] == [
        ("node-0", PodPhase.RUNNING, SCHEDULER)
    ] * 2
    assert {pod.annotations["fairlead.dev/slot"] for pod in pods} == {"node-0/0", "node-0/1"}
    assert world.job("j1").state == "RunningState"
    assert [slot.state for slot in world.testbed("tb").slots] == ["OCCUPIED"] * 2
    world.run(15_000)
    assert world.scheduling("s").state == "CompletedState" and world.job("j1").state == "CompletedState"
    world.delete("Scheduling", "s")
    world.run(5_000)
    assert world.job("j1").state == "ReadyState" and world.app_of("j1") is None and not world.pods
    assert [slot.state for slot in world.testbed("tb").slots] == ["FREE"] * 2


@pytest.mark.parametrize("kind", list(AppKind))
def test_pods_have_what_the_manifest_of_their_application_says(kind: AppKind) -> None:
    world = small(JobLayout("j1", "10s", {}, kind.value))
    manifest = apps.build(world.thing("BatchJob", "j1"), world.thing("Testbed", "tb"), [Slot("node-0", 1, 0)])
    manifest["metadata"] |= {"uid": "a", "namespace": "default"}
    (pod,) = esi_pods.pods(manifest)
    assert pod.labels[TESTBED_LABEL] == "tb" and pod.annotations[SLOTS] == "node-0/1"
    assert (pod.scheduler, pod.priority) == (SCHEDULER, 1000)
    amounts = dict(pod.shape.requests)
    assert amounts["cpu"] == 600 and 0.97 < amounts["memory"] / (1.75 * 2**30) < 1.03
    assert pod.shape.affinity


def test_company_on_a_node_makes_work_take_longer_as_long_as_it_is_there() -> None:
    """10 s of work alone, 20 s beside j2: beside it for its 10 s, half the work is done; then 5 s alone."""
    times = RunTimes({"j1": 10_000, "j2": 10_000}, {("j1", "j2"): 20_000})
    assert times.of("j1", [["j2"]]) == 20_000 and times.of("j2", [["j1"]]) == 10_000
    assert times.of("j1", [[], ["j2"]]) == 20_000 and times.of("j1", []) == 10_000
    world = small()
    world.now = 1_000_000
    world.run(1_000)
    world.put(plan("s", "j1", "j2"))
    world.run(30_000)
    (one,), (other,) = seconds(world, "j1"), seconds(world, "j2")
    assert one[0] == other[0] == "1970-01-01T00:16:41Z"
    assert (other[1], one[1]) == ("1970-01-01T00:16:51Z", "1970-01-01T00:16:56Z")


def test_an_executor_that_is_lost_is_replaced() -> None:
    world = small()
    world.run(1_000)
    world.put(plan("s", "j1"))
    world.run(5_000)
    (pod,) = world.pods_of("j1")
    world.pod_gone(pod.uid)
    world.run(3_000)
    (fresh,) = world.pods_of("j1")
    assert fresh.uid != pod.uid and fresh.node == "node-0" and fresh.phase is PodPhase.RUNNING


# -- what goes wrong ---------------------------------------------------------------------------------


def test_an_application_fails_as_often_as_it_is_told_to() -> None:
    world = small()
    world.fail("j1", 3_000, -1)
    world.run(1_000)
    world.put(plan("s", "j1", failurePolicy={"onFailure": "Retry", "retries": 2, "backoff": "1s"}))
    world.run(60_000)
    assert world.scheduling("s").state == "CompletedState", world.scheduling("s")
    ends = [success for _, _, success in seconds(world, "j1")]
    assert ends == [False, True]  # the second one never ran


def test_first_runs_fail_as_the_layout_says() -> None:
    world = small(JobLayout("j1", "10s", fails=["4s"]))
    world.run(1_000)
    world.put(plan("s", "j1", failurePolicy={"onFailure": "Retry", "retries": 1, "backoff": "1s"}))
    world.run(60_000)
    assert [success for _, _, success in seconds(world, "j1")] == [False, True]


def test_capacity_is_held_by_ghosts_that_make_way_for_application_pods() -> None:
    world = small()
    world.edit("Testbed", "tb", {"spec": {"fairlead": {"holdCapacity": "pods"}}})
    world.run(3_000)
    assert [(ghost.node, ghost.phase) for ghost in world.ghosts()] == [("node-0", PodPhase.RUNNING)] * 2
    world.put(plan("s", "j1"))
    world.run(5_000)
    assert len(world.ghosts()) == 1 and len(world.pods_of("j1")) == 1
    world.run(20_000)
    world.delete("Scheduling", "s")
    world.run(5_000)
    assert len(world.ghosts()) == 2


def test_a_stuck_application_gets_no_pods_until_it_is_let_go() -> None:
    world = small()
    world.stall("j1")
    world.run(1_000)
    world.put(plan("s", "j1", maxWait="30s"))
    world.run(10_000)
    assert world.job("j1").state == "SubmittedState" and not world.pods_of("j1")
    world.run(60_000)
    assert world.scheduling("s").state == "FailedState" and "for 30s" in world.scheduling("s").reason


def test_an_application_that_vanishes_takes_its_pods_with_it() -> None:
    world = small()
    world.run(1_000)
    world.put(plan("s", "j1"))
    world.run(5_000)
    assert world.pods_of("j1")
    world.vanish("j1")
    world.run(5_000)
    assert not world.pods and [slot.state for slot in world.testbed("tb").slots] == ["FREE"] * 2


def test_refused_writes_are_told_to_the_engine() -> None:
    world = small()
    world.refusing["create", AppKind.SPARK.value] = (403, "no right")
    world.run(1_000)
    heard: list[ObjectFailed] = []
    world.watchers.append(lambda: heard.extend(e for e in world.batches[-1] if isinstance(e, ObjectFailed)))
    world.put(plan("s", "j1"))
    world.run(2_000)
    assert heard[0] == ObjectFailed("create", AppKind.SPARK.value, "default", "j1", 403, "no right")


# -- objects -----------------------------------------------------------------------------------------


def test_merge_patches_are_those_of_the_rfc() -> None:
    assert merge({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": None, "e": {"f": None}}}) == {
        "b": {"d": 2, "e": {}}
    }
    assert merge({"a": [1]}, {"a": [2], "b": 1}) == {"a": [2], "b": 1}


def test_status_and_spec_are_written_apart_and_only_spec_counts_generations() -> None:
    world = EsiWorld()
    uid = world.put({**BED, "status": {"state": "ERROR"}})
    assert world.thing("Testbed", "tb").status.state == "ERROR"
    world.objects.patch(uid, {"spec": {"slotsPerNode": 3}, "status": {"state": "RUNNING"}})
    found = world.objects.get("Testbed", Ref("default", "tb"))
    assert found["spec"]["slotsPerNode"] == 3 and found["status"]["state"] == "ERROR"
    assert found["metadata"]["generation"] == 2
    same = world.objects.patch(uid, {"status": {"state": "ERROR"}}, "status")
    assert same["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    with pytest.raises(Refused, match="modified"):
        world.objects.patch(uid, {"spec": {"slotsPerNode": 4}}, version="1")
    with pytest.raises(Refused, match="already exists"):
        world.objects.create(BED)


def test_what_is_owned_goes_with_its_owner() -> None:
    world = small()
    world.run(1_000)
    world.put(plan("s", "j1"))
    world.run(5_000)
    world.delete("BatchJob", "j1")
    world.run(2_000)
    assert world.app_of("j1") is None and not [p for p in world.pods.values() if p.name.startswith("j1")]


def test_a_request_for_an_earlier_object_of_the_name_does_nothing() -> None:
    world = EsiWorld()
    world.put(BED)
    old = world.uid("Testbed", "tb")
    world.delete("Testbed", "tb")
    world.put(BED)
    target = cmd.ObjectRef("Testbed", "default", "tb", old)
    world.perform(
        [cmd.DeleteObject(target), cmd.PatchObject(target, json.dumps({"spec": {"nodeLabel": "x"}}))]
    )
    world.run(100)
    assert world.thing("Testbed", "tb").spec.node_label == "slots"


def test_ghosts_are_pods_that_name_their_node_and_go_with_their_testbed() -> None:
    world = EsiWorld()
    world.node("n0", {"slots": "0"})
    owner = {"controller": True, "kind": "Testbed", "name": "tb", "uid": world.put(BED)}
    body = {"metadata": {"name": "g", "labels": {"a": "b"}, "ownerReferences": [owner]}}
    body["spec"] = {"nodeName": "n0", "priorityClassName": "testbed-preemptee", "containers": [{"name": "c"}]}
    make = cmd.CreateObject("Pod", "default", "g", json.dumps(body))
    world.perform([make, make])
    world.run(1)  # the engine itself wants no ghosts here and may take it away again
    (ghost,) = world.ghosts()
    assert (ghost.node, ghost.priority, ghost.labels) == ("n0", 100, {"a": "b"})
    world.delete("Testbed", "tb")
    world.run(100)
    assert not world.ghosts()


def test_every_object_is_told_again_to_a_process_that_starts_anew() -> None:
    world = small()
    world.run(1_000)
    world.put(plan("s", "j1", "j2"))
    world.run(4_000)
    before = [status_of(world, name) for name in ("j1", "j2")]
    assert before == ["RunningState"] * 2
    world.crash()
    world.start()
    world.run(500)
    esi = world.engine.state.esi
    assert len(esi.testbeds) == 1 and len(esi.jobs) == 2 and len(esi.schedulings) == 1
    assert [app.state for app in esi.apps.values()] == [AppState.RUNNING] * 2
    assert [status_of(world, name) for name in ("j1", "j2")] == before
    world.run(60_000)
    assert world.scheduling("s").state == "CompletedState"


def status_of(world: EsiWorld, job: str) -> str:
    return str(world.job(job).state)


def test_the_same_story_twice_is_the_same_to_the_last_command() -> None:
    def story() -> list[tuple[int, cmd.Command]]:
        world = small(nodes=2)
        world.run(1_000)
        world.fail("j2", 2_000)
        world.put(plan("s", "j1", "j2", "j1"))
        world.run(9_000)
        world.crash()
        world.start()
        world.run(60_000)
        return world.log

    assert story() == story()


def test_all_kinds_of_applications_are_known_to_the_operators() -> None:
    assert set(APP_KINDS.values()) == set(AppKind)


# -- the doors' view ---------------------------------------------------------------------------------


async def test_the_cluster_answers_as_an_api_server_does() -> None:
    world = small()
    cluster = SimulatedCluster(world)
    bed = Ref("default", "tb")
    found = await cluster.get("Testbed", bed)
    with pytest.raises(ClusterError) as wrong:
        await cluster.replace("Testbed", bed, {**found, "spec": {**found["spec"], "slotsPerNode": 0}})
    assert wrong.value.status == 422 and "slotsPerNode" in str(wrong.value)
    await cluster.patch("Testbed", bed, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(ClusterError) as wrong:
        await cluster.replace("Testbed", bed, found)
    assert wrong.value.status == 409
    with pytest.raises(ClusterError) as wrong:
        await cluster.delete("Testbed", bed, "1")
    assert wrong.value.status == 409
    await cluster.delete("Testbed", bed)
    for call in (cluster.get("Testbed", bed), cluster.label_node("nowhere", {"a": None})):
        with pytest.raises(ClusterError) as wrong:
            await call
        assert wrong.value.status == 404
    await cluster.label_node("node-0", {"a": "1", "kubernetes.io/hostname": None})
    assert world.nodes["node-0"].labels == {"tuberlin.de/tb": "0", "a": "1"}
    assert await cluster.token_review("whoever") is None


# -- layouts -----------------------------------------------------------------------------------------

WRONG = {
    "jobs: [{name: a, alone: 9s}]": "the key 'testbeds' is missing",
    "testbeds: [{name: t, nodes: 1}]": "the key 'jobs' is missing",
    "testbeds: [{name: t, nodes: 9}]\njobs: [{name: a, alone: 9s}]": "testbeds[0].nodes: is 9; there are 4",
    "testbeds: [{name: t, nodes: 1}]\njobs: [{name: a, alone: soon}]": "jobs[0].alone: is 'soon'",
    "testbeds: [{name: t, nodes: 1}]\njobs: [{name: a, alone: 9s, beside: {b: 1s}}]": "there is no job 'b'",
    "testbeds: [{name: t, nodes: 1}]\njobs: [{name: a, alone: 9s, kind: Ray}]": "kind: is 'Ray'; give one of",
    "testbeds: [{name: t, nodes: 1, size: 1}]": "unknown key 'size'; known here: name, nodes",
    "testbeds: [{name: t, nodes: 1}]\njobs: [{name: a, alone: 9s, fails: [often]}]": "fails[0]: is 'often'",
    "nodes: {cpu: many}": "nodes.cpu: ",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_layout_that_is_wrong_is_told_by_file_and_line(text: str, tmp_path: Any) -> None:
    file = tmp_path / "layout.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as wrong:
        esi_layout.read(file)
    assert str(wrong.value).startswith(f"{file}:") and WRONG[text] in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_the_evaluation_of_esi_is_what_is_simulated_without_a_file() -> None:
    world = esi_layout.world(EVALUATION)
    world.run(2_000)
    beds = [world.testbed(name) for name in ("scheduler-slots", "profiler-slots")]
    assert [(len(bed.slots), bed.state) for bed in beds] == [(6, "SUCCESS"), (2, "SUCCESS")]
    slots = world.testbed("scheduler-slots").slots
    assert [(slot.position, slot.node_name, slot.slot_position_on_node) for slot in slots] == [
        (0, "node-0", 0), (1, "node-1", 0), (2, "node-2", 0),
        (3, "node-0", 1), (4, "node-1", 1), (5, "node-2", 1),
    ]  # fmt: skip
