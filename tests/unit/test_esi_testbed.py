"""The Testbed's status, its slots as ESI's tests want them, and ghost pods."""

import json

import pytest
from msgspec import structs

from esi_yard import LABEL, bed, comes, free, invariants, queue, settled, spark, state_of, until, yard
from fairlead.model import command as cmd
from fairlead.model.esi import (
    GHOST_LABEL,
    GHOST_PRIORITY,
    ID_LABEL,
    NODE_LABEL,
    SLOT,
    SLOTS,
    TESTBED_LABEL,
    SlotState,
)
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.sim.esi_world import EsiWorld


def slots(world: EsiWorld) -> list[tuple[int, str, int, str]]:
    """(Number, node, index on it, state), as users see them."""
    return [
        (each.position, each.node_name, each.slot_position_on_node, str(each.state))
        for each in world.testbed("tb").slots
    ]


def foreign(name: str, node: str, cpu: int, **labels: str) -> Pod:
    """A pod of another scheduler's on a node."""
    shape = Shape((("cpu", cpu), ("memory", 1 << 30), ("pods", 1)))
    return Pod(name, "default", name, 0, shape, node=node, phase=PodPhase.RUNNING, labels=labels)


def live(world: EsiWorld) -> list[Pod]:
    return [pod for pod in world.ghosts() if not (pod.deleting or pod.ended)]


def created(world: EsiWorld, kind: str) -> list[cmd.CreateObject]:
    return [each for _, each in world.log if isinstance(each, cmd.CreateObject) and each.kind == kind]


# -- slots ---------------------------------------------------------------------------------------------


def test_TestbedReconciler_scaling():
    """A8: no node is SUCCESS; 1, 2, 4 nodes give 2, 4, 8 slots; two fewer give 4."""
    world = yard(nodes=0)
    assert (world.testbed("tb").state, slots(world)) == ("SUCCESS", [])
    for number, expected in ((0, 2), (1, 4), (2, 6), (3, 8)):
        world.node(f"n{number}", {LABEL: str(number)})
        world.run(500)
        assert len(slots(world)) == expected
        assert world.testbed("tb").state == "SUCCESS"
    for number in (1, 3):
        world.label_node(f"n{number}", {LABEL: None})
    world.run(500)
    assert slots(world) == [
        (0, "n0", 0, "FREE"), (1, "n2", 0, "FREE"), (2, "n0", 1, "FREE"), (3, "n2", 1, "FREE"),
    ]  # fmt: skip


def test_RA8_numbers_go_round_robin_and_keys_stay():
    world = yard(nodes=0)
    for name, number in (("b", "1"), ("a", "10"), ("c", "x"), ("d", "2")):
        world.node(name, {LABEL: number})
    world.run(500)
    assert [node for _, node, _, _ in slots(world)] == ["b", "d", "a", "c"] * 2
    assert [index for _, _, index, _ in slots(world)] == [0] * 4 + [1] * 4


def test_RA8_jobs_run_on_nodes_with_any_name_and_number():
    world = yard(nodes=0, j1=3)
    name = "ip-10-0-0-1.eu-central-1.compute.internal"
    world.node(name, {LABEL: "not a number"})
    queue(world, "s", "j1 j1")
    comes(world, "Scheduling", "s", "CompletedState")
    assert world.job("j1").places == [f"{name}/0", f"{name}/1"]


def test_RA8_a_job_spans_more_slots_than_a_label_can_name():
    world = yard(nodes=20, slots=2, j1=3)
    queue(world, "s", " ".join(["j1"] * 40))
    comes(world, "BatchJob", "j1", "RunningState")
    pods = world.pods_of("j1")
    assert len(pods) == 40 and len({pod.annotations[SLOT] for pod in pods}) == 40
    assert not any("batchjob.tuberlin.de/slots-ids" in pod.labels for pod in pods)


def test_states_of_a_testbed():
    world = yard(j1=5)
    assert world.testbed("tb").state == "SUCCESS"
    queue(world, "s", "j1", release=True)
    until(world, lambda: world.testbed("tb").state == "IN_PROGRESS", step=1)
    reserved = [each for each in world.testbed("tb").slots if each.state is SlotState.RESERVED]
    assert [each.reserved_for.startswith("j1-exec") for each in reserved] == [True]
    until(world, lambda: world.testbed("tb").state == "RUNNING", step=1)
    (occupied,) = [each for each in world.testbed("tb").slots if each.state is SlotState.OCCUPIED]
    assert occupied.pod_name == occupied.pod_u_id == world.pods_of("j1")[0].name
    comes(world, "Scheduling", "s", "FinishedState")
    world.run(1_000)
    assert world.testbed("tb").state == "SUCCESS"
    settled(world)


def test_RA10_a_node_without_room_is_a_problem_and_nobody_is_evicted_for_it():
    world = yard(nodes=2, j1=60)
    queue(world, "s", "j1")
    comes(world, "BatchJob", "j1", "RunningState")
    world.pod(foreign("big", "n0", 1_600))
    world.pod(foreign("big1", "n1", 1_600))
    world.run(1_000)
    status = world.testbed("tb")
    assert status.state == "RUNNING" and set(status.node_problems) == {"n0", "n1"}
    (problem,) = status.node_problems["n1"]
    assert problem == "Requires 1 of cpu resources. Available: 0.4"
    assert {each.state for each in status.slots} == {SlotState.OCCUPIED, SlotState.ERROR}
    assert state_of(world, "BatchJob", "j1") == "RunningState"
    assert not [each for _, each in world.log if isinstance(each, cmd.Evict | cmd.DeleteObject)]
    world.pod_gone("big")
    world.pod_gone("big1")
    world.run(1_000)
    assert world.testbed("tb").node_problems == {} and len(free(world)) == 3


def test_only_problems_make_a_testbed_an_error():
    world = yard(nodes=1)
    world.pod(foreign("big", "n0", 1_600))
    world.run(500)
    assert world.testbed("tb").state == "ERROR"
    world.put(bed(slots=0))
    world.pod_gone("big")
    world.run(500)
    assert world.testbed("tb").state == "ERROR"
    assert "slotsPerNode" in world.testbed("tb").problems[0]
    world.put(bed(slots=3))
    world.run(500)
    assert world.testbed("tb").state == "SUCCESS" and len(free(world)) == 3
    assert world.testbed("tb").observed_generation == 3


def test_RA10_a_node_that_leaves_keeps_its_running_pods():
    world = yard(nodes=2, j1=10)
    queue(world, "s", "j1 j1", release=True)
    comes(world, "BatchJob", "j1", "RunningState")
    world.label_node("n0", {LABEL: None})
    world.run(1_000)
    assert (-1, "n0", 0, "OCCUPIED") in slots(world)
    assert state_of(world, "BatchJob", "j1") == "RunningState"
    comes(world, "Scheduling", "s", "FinishedState")
    world.run(1_000)
    assert [node for _, node, _, _ in slots(world)] == ["n1", "n1"]


def test_RA10_other_sizes_of_slots_evict_nobody():
    world = yard(nodes=2, j1=10)
    queue(world, "s", "j1 j1", release=True)
    comes(world, "BatchJob", "j1", "RunningState")
    world.put(bed(slots=1, cpu="1"))
    world.run(2_000)
    assert state_of(world, "BatchJob", "j1") == "RunningState"
    comes(world, "Scheduling", "s", "FinishedState")
    assert world.job("j1").scheduled_events[0].successful


# -- ghost pods ------------------------------------------------------------------------------------------


def test_RA11_ghost_pods_only_where_asked_for():
    world = yard(hold="none")
    world.run(5_000)
    assert not world.ghosts() and len(free(world)) == 4


def test_RA11_ghost_pods_as_ESI_has_them():
    world = yard(hold="pods")
    until(world, lambda: len(live(world)) == 4)
    world.run(1_000)
    assert sorted(pod.name for pod in live(world)) == [
        "ghostpod-tb-on-n0-0", "ghostpod-tb-on-n0-1", "ghostpod-tb-on-n1-0", "ghostpod-tb-on-n1-1",
    ]  # fmt: skip
    (made,) = [json.loads(each.body) for each in created(world, "Pod") if each.name.endswith("n1-0")]
    assert made["metadata"]["labels"] == {
        TESTBED_LABEL: "tb", GHOST_LABEL: "true", ID_LABEL: "0", NODE_LABEL: "n1",
    }  # fmt: skip
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Testbed", world.uid("Testbed", "tb"))
    spec = made["spec"]
    assert (spec["nodeName"], spec["priorityClassName"]) == ("n1", GHOST_PRIORITY)
    (container,) = spec["containers"]
    assert container["image"].startswith("registry.k8s.io/pause")
    assert container["resources"] == {"requests": {"cpu": "0.5", "memory": "1Gi"}}
    assert free(world) == [0, 1, 2, 3], "a slot with its ghost is free"
    assert {each.pod_name for each in world.testbed("tb").slots} == {pod.name for pod in live(world)}
    invariants(world)


def test_TestbedReconciler_testPreemption():
    """A8: a foreign pod that is labelled with a slot replaces its ghost."""
    world = yard(hold="pods")
    until(world, lambda: len(live(world)) == 4)
    labels = {TESTBED_LABEL: "tb", GHOST_LABEL: "false", ID_LABEL: "0", NODE_LABEL: "n1"}
    world.pod(foreign("taker", "n1", 500, **labels))
    until(world, lambda: len(live(world)) == 3, most=20_000)
    world.run(1_000)
    assert sorted(pod.name for pod in live(world)) == [
        "ghostpod-tb-on-n0-0", "ghostpod-tb-on-n0-1", "ghostpod-tb-on-n1-1",
    ]  # fmt: skip
    (occupied,) = [each for each in world.testbed("tb").slots if each.state is SlotState.OCCUPIED]
    assert (occupied.node_name, occupied.slot_position_on_node, occupied.pod_name) == ("n1", 0, "taker")


def test_RA11_jobs_run_in_slots_with_ghosts_and_ghosts_come_back():
    world = yard(hold="pods", j1=5)
    until(world, lambda: len(live(world)) == 4)
    queue(world, "s", "j1 j1 j1", release=True)
    comes(world, "BatchJob", "j1", "RunningState")
    world.run(1_000)
    assert len(live(world)) == 1
    comes(world, "Scheduling", "s", "FinishedState")
    until(world, lambda: len(live(world)) == 4)
    invariants(world)
    settled(world)


def test_RA11_ghosts_follow_the_option_and_the_size():
    world = yard(hold="pods")
    until(world, lambda: len(live(world)) == 4)
    world.put(bed(slots=1, cpu="1", hold="pods"))
    until(world, lambda: sorted(dict(pod.shape.requests)["cpu"] for pod in live(world)) == [1000, 1000])
    world.put(bed(slots=1, cpu="1", hold="none"))
    until(world, lambda: not live(world))
    world.run(1_000)
    assert free(world) == [0, 1]


def test_RA11_a_ghost_that_is_deleted_or_ends_comes_back():
    world = yard(hold="pods")
    until(world, lambda: len(live(world)) == 4)
    first, second = live(world)[:2]
    world.pod_gone(first.uid)
    world.change(second.uid, phase=PodPhase.FAILED)
    until(world, lambda: len(live(world)) == 4)
    assert not {first.uid, second.uid} & {pod.uid for pod in live(world)}


def test_ghosts_that_the_cluster_refuses_are_a_problem_that_says_why():
    world = yard(nodes=1, hold="none")
    world.refusing["create", "Pod"] = (403, "no PriorityClass with name testbed-preemptee was found")
    world.put(bed(hold="pods"))
    world.run(60_000)
    (problem,) = world.testbed("tb").problems
    assert problem == (
        "ghost pod ghostpod-tb-on-n0-0 (and 1 more) cannot be created:"
        " no PriorityClass with name testbed-preemptee was found"
    )
    assert world.testbed("tb").state == "ERROR"
    assert len(created(world, "Pod")) == 2, "not again with each event"
    del world.refusing["create", "Pod"]
    world.put(bed(slots=1, hold="pods"))
    until(world, lambda: len(live(world)) == 1)
    world.run(1_000)
    assert world.testbed("tb").problems == []


def test_a_missing_priority_class_of_ghosts_is_named_and_nothing_is_tried_until_it_is_there():
    world = yard(nodes=1, hold="none")
    world.refusing["create", "Pod"] = (403, "no PriorityClass with name testbed-preemptee was found")
    world.put(bed(hold="pods"))
    world.run(1_000)
    assert "cannot be created" in world.testbed("tb").problems[0]
    asked = len(created(world, "Pod"))
    world.priority_class("system-node-critical")
    world.run(60_000)
    assert world.testbed("tb").problems == [
        "priority class testbed-preemptee does not exist, and pods that name it are refused: apply"
        " deploy/esi.yaml, or kubectl create priorityclass testbed-preemptee --value=100"
    ]
    assert world.testbed("tb").state == "ERROR" and len(created(world, "Pod")) == asked
    del world.refusing["create", "Pod"]
    world.priority_class("testbed-preemptee")
    until(world, lambda: len(live(world)) == 2)
    world.run(1_000)
    assert world.testbed("tb").problems == []


def test_RA8_nodes_with_the_longest_names_have_ghosts_and_jobs():
    """No number in the member label, and no name that a label could hold."""
    world = EsiWorld()
    names = ["a" * 253, "a" * 252 + "b", "c" * 64]
    for name in names:
        world.node(name, {LABEL: f"rack-{name[-1]}", "kubernetes.io/hostname": name[:63]})
    world.account("spark")
    world.put(bed(1, hold="pods"))
    until(world, lambda: len(live(world)) == 3)
    ghosts = [pod.name for pod in live(world)]
    assert len({*ghosts}) == 3 and max(map(len, ghosts)) == 253
    assert f"ghostpod-tb-on-{names[2]}-0" in ghosts, "as it is, where it is short enough"
    world.put(spark("j1"))
    world.put(spark("j2"))
    queue(world, "s", "j1 j2 j1")
    comes(world, "BatchJob", "j1", "RunningState")
    placed = [pod for pod in world.pods.values() if SLOTS in pod.annotations and pod.node]
    assert {pod.node for pod in placed} == {*names}


# -- deletion, restart -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hold", ["none", "pods"])
def test_RA10_deletion_of_a_testbed_in_use(hold: str):
    world = yard(hold=hold, j1=10, j2=10)
    world.run(2_000)
    queue(world, "s", "j1 j1 j1 j2 j2")
    comes(world, "BatchJob", "j1", "RunningState")
    world.delete("Testbed", "tb")
    world.run(3_000)
    assert state_of(world, "BatchJob", "j1") == "RunningState", "what runs goes on"
    assert not live(world)
    assert (
        world.scheduling("s").reason == "waits for Testbed default/tb, which does not exist or has no slots"
    )
    comes(world, "BatchJob", "j1", "CompletedState")
    world.put(bed(hold=hold))
    comes(world, "Scheduling", "s", "CompletedState")
    world.delete("Scheduling", "s")
    world.run(3_000)
    invariants(world)
    settled(world)


@pytest.mark.parametrize("state", ["SUCCESS", "IN_PROGRESS", "RUNNING"])
def test_deletion_of_a_testbed_in_any_state(state: str):
    world = yard(hold="pods", j1=5)
    until(world, lambda: len(live(world)) == 4)
    queue(world, "s", "j1", release=True)
    until(world, lambda: world.testbed("tb").state == state, step=1)
    world.delete("Testbed", "tb")
    world.run(20_000)
    assert not live(world)
    world.put(bed())
    comes(world, "Scheduling", "s", "FinishedState")
    world.run(1_000)
    invariants(world)
    settled(world)


def test_a_restart_makes_no_ghost_twice():
    world = yard(hold="pods")
    until(world, lambda: len(live(world)) >= 2, step=1)
    world.crash()
    world.run(1_000)
    world.start()
    until(world, lambda: len(live(world)) == 4)
    world.run(20_000)
    assert len(live(world)) == 4


def test_extender_two_testbeds():
    """A8: two Testbeds on disjoint nodes: their pods land right, foreign pods are left alone."""
    world = yard(nodes=3, slots=3, jobs="j1 j2 j3", hold="pods", j1=60, j2=60, j3=60)
    world.node("p0", {"profiler": "0"})
    spec = structs.replace(world.thing("Testbed", "tb").spec, node_label="profiler", slots_per_node=2)
    world.put(structs.replace(bed(name="profiler"), spec=spec))
    world.pod(foreign("other", "n1", 300))
    until(world, lambda: len(live(world)) == 11)
    queue(world, "s", "j1")
    queue(world, "p", "j2 j3", tb="profiler")
    comes(world, "BatchJob", "j1", "RunningState")
    comes(world, "BatchJob", "j3", "RunningState")
    world.run(2_000)
    assert world.pods_of("j1")[0].node == "n0"
    assert {pod.node for name in ("j2", "j3") for pod in world.pods_of(name)} == {"p0"}
    names = [pod.name for pod in live(world)]
    assert len([name for name in names if "-tb-" in name]) == 8
    assert not [name for name in names if "-profiler-" in name]
    assert world.pods["other"].phase is PodPhase.RUNNING and not world.pods["other"].deleting
