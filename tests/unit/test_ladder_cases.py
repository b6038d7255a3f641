"""Members and nodes that go at any moment of a start: nothing is lost, nothing half started (F26, F27, B12).

The moments are the milliseconds from the submission on: while the plan is made, while the store writes, while
binds are on their way, when some and when all are bound. The simulated world checks its invariants after each
batch.
"""

from pathlib import Path

import msgspec
import pytest
from asking_support import MINUTE, START, amounts, gang, node

from fairlead.control.spare import spare
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape
from fairlead.sim import scenario
from fairlead.sim.world import Faults, World
from fairlead.wire import objects
from fairlead.wire.structs import WireOwner

FOLDER = Path(__file__).resolve().parent.parent / "data" / "scenarios"
MOMENTS = range(12)


class Slow(Faults):
    """Everything takes its time, and the members are not bound all at once."""

    def plan_delay(self) -> int:
        return 3

    def watch_delay(self, _: ev.Event) -> int:
        if isinstance(_, ev.PodSeen) and _.pod.node:
            return int(_.pod.name[-1])
        return 0


def play(name: str) -> scenario.Report:
    return scenario.run(scenario.read(FOLDER / f"{name}.scn"))


def world(nodes: int) -> World:
    made = World(faults=Slow())
    made.now = START
    made.run(1)
    for i in range(nodes):
        made.node(node(f"n{i}", cpu=4))
    made.run(10)
    return made


def free(w: World) -> dict[str, int]:
    """Node -> free cores, as the engine sees it."""
    inventory = w.engine.state.inventory
    cpu = inventory.resources["cpu"]
    return {n.name: int(inventory.free[cpu, inventory.rows[n.name]]) // 1000 for n in w.nodes.values()}


def job(w: World, size: int, retries: int | None = None) -> Owner:
    owner = Owner("uid-j", "Job", "team-a", "j", 0, size, retries=retries)
    w.owner(owner)
    for i in range(size):
        w.pod(of_job(i))
    return owner


def of_job(number: int) -> Pod:
    ref = OwnerRef("Job", "j", "uid-j")
    return Pod(f"j-{number}", "team-a", f"j-{number}", 0, Shape(amounts(cpu=4)), "fairlead", owner=ref)


def test_F26_a_queued_group_without_a_member_assembles_again():
    play("member_deleted_queued")


@pytest.mark.parametrize("moment", MOMENTS)
def test_F26_F27_a_member_that_is_deleted_at_any_moment_of_the_start(moment: int):
    """Its Job brings another, and the gang is whole in the end; what it held is given back once."""
    w = world(3)
    job(w, 3)
    w.run(moment)
    w.pod_gone("j-1")
    w.run(500)
    used = sum(bool(pod.node) for pod in w.pods.values())
    assert sum(free(w).values()) == 12 - 4 * used
    w.pod(of_job(3))
    w.run(MINUTE)
    (group,) = w.engine.state.groups.values()
    assert group.phase is Phase.RUNNING and not group.broken
    assert sorted(pod.node for pod in w.pods.values()) == ["n0", "n1", "n2"]
    assert not w.grants and not w.engine.state.intents
    assert not [c for _, c in w.log if isinstance(c, cmd.Evict)]


@pytest.mark.parametrize("moment", MOMENTS)
def test_F27_B12_a_bare_member_that_is_deleted_leaves_no_silent_half(moment: int):
    """The others wait whole, or stay where they are and are called broken; a new pod heals that."""
    w = world(3)
    gang(w, "g", 3, cpu=4)
    w.run(moment)
    w.pod_gone("g-1")
    w.run(MINUTE)
    (group,) = w.engine.state.groups.values()
    bound = [pod for pod in w.pods.values() if pod.node]
    if bound:
        assert group.phase is Phase.RUNNING and len(bound) == 2
        assert group.broken or group.bound_at  # it was whole before, or people are told
    else:
        assert group.phase is Phase.HELD and sum(free(w).values()) == 12
    assert len(w.pods) == 2  # no bare pod is ever evicted
    template = w.pods["g-0"]
    w.pod(msgspec.structs.replace(template, uid="g-3", name="g-3", node="", phase=PodPhase.PENDING))
    w.run(MINUTE)
    assert group.phase is Phase.RUNNING and not group.broken
    assert sum(free(w).values()) == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_B12_a_node_that_goes_at_any_moment_of_the_start(moment: int):
    """What was to go there goes elsewhere; what was there is gone with it and comes anew."""
    w = world(4)
    job(w, 3)
    w.run(moment)
    w.node_gone("n1")
    w.run(500)
    number = 3
    for uid in [pod.uid for pod in w.pods.values() if pod.node == "n1"]:  # as the pod collector does
        w.pod_gone(uid)
        w.pod(of_job(number))
        number += 1
    w.run(MINUTE)
    (group,) = w.engine.state.groups.values()
    assert group.phase is Phase.RUNNING and not group.broken
    assert sorted(pod.node for pod in w.pods.values()) == ["n0", "n2", "n3"]
    assert sum(free(w).values()) == 0 and not w.grants


@pytest.mark.parametrize("moment", MOMENTS)
def test_B8_a_job_that_is_deleted_at_any_moment_gives_everything_back(moment: int):
    w = world(3)
    job(w, 3)
    w.run(moment)
    w.owner_gone("uid-j")
    for i in range(3):
        w.pod_gone(f"j-{i}")
    w.run(MINUTE)
    assert free(w) == {"n0": 4, "n1": 4, "n2": 4}
    assert not w.engine.state.groups and not w.grants and not w.engine.state.intents


def test_I1_what_the_kubelet_refuses_is_given_back_once_and_comes_again():
    play("kubelet_refuses")


@pytest.mark.parametrize("name", ["ladder_3_evicts", "ladder_3_backoff_limit"])
def test_B12_step_three_evicts_only_what_comes_back(name: str):
    play(name)


def test_B12_evictions_are_marked_and_few():
    """Each is one that kube.evict marks DisruptionTarget first; a start that fails for ever is given up."""
    w = world(3)
    refusing = w.faults
    refusing.bind = lambda bind: ev.BindError.REFUSED if bind.name == "j-0" else None  # type: ignore[method-assign]
    job(w, 3)
    for _ in range(12):
        w.run(20_000)
    evicted = [c for _, c in w.log if isinstance(c, cmd.Evict)]
    assert 0 < len(evicted) <= 3 * 2
    assert all(c.pod.uid and c.text for c in evicted)


# -- how much a Job can bear -------------------------------------------------------------------------


def retries(spec: dict[str, object], failed: int = 0) -> int | None:
    meta = {"uid": "u", "name": "j", "namespace": "a", "resourceVersion": "1"}
    text = msgspec.json.encode({"metadata": meta, "spec": spec, "status": {"failed": failed}})
    return objects.owner("Job", msgspec.json.decode(text, type=WireOwner)).retries


DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]
CODES = {"operator": "NotIn", "values": [0]}


@pytest.mark.parametrize(
    ("spec", "failed", "left"),
    [
        ({}, 0, 6),
        ({"backoffLimit": 0}, 0, 0),
        ({"backoffLimit": 3}, 2, 1),
        ({"backoffLimit": 3}, 5, 0),
        ({"backoffLimitPerIndex": 1, "backoffLimit": 2147483647}, 0, 1),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": DISRUPTED}]}}, 9, None),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": DISRUPTED}]}}, 0, 0),
        ({"podFailurePolicy": {"rules": [{"action": "Count", "onPodConditions": DISRUPTED}]}}, 1, 5),
        (
            {"podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": CODES},
                {"action": "Ignore", "onPodConditions": DISRUPTED},
            ]}},
            0,
            0,
        ),
    ],
)  # fmt: skip
def test_B12_how_many_evictions_a_job_bears(spec: dict[str, object], failed: int, left: int | None):
    assert retries(spec, failed) == left


def test_B12_those_on_their_way_out_count_against_the_backoff_limit():
    w = world(3)
    job(w, 3, retries=2)
    w.run(1_000)
    state = w.engine.state
    pods = [state.pods[f"j-{i}"] for i in range(3)]
    assert [pod.uid for pod in spare(state, pods[:2])] == ["j-0", "j-1"]
    assert spare(state, pods) == []
    w.change("j-0", deleting=True)
    w.run(100)
    pods = [state.pods[f"j-{i}"] for i in range(3)]
    assert [pod.uid for pod in spare(state, pods[1:2])] == ["j-1"]
    assert spare(state, pods[1:]) == []
