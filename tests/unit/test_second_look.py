"""What a second reading of the scheduling core has found: small worlds in which it went wrong."""

import pytest
from msgspec import structs
from test_easy_world import MINUTE, Shift

from fairlead.model.event import PlanProposed
from fairlead.model.group import Phase
from fairlead.model.node import Node
from fairlead.model.plan import Placement, Plan, Start
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import QueueSettings, Settings, single
from fairlead.sim.world import World


def _shift(*queues: QueueSettings, nodes: int = 2, down: int = 0) -> Shift:
    """A shift under these queues; the last `down` of its nodes are not ready."""
    shift = Shift(nodes=0)
    shift.world = World(Settings(queues=queues, pace=0))
    shift.begin = shift.world.now
    for i in range(nodes):
        amounts = (("cpu", 32), ("pods", 110))
        shift.world.node(Node(f"u{i}", f"n{i}", 0, amounts, ready=i < nodes - down))
    shift.world.run(0)
    return shift


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid", "conservative"])
def test_who_waits_for_missing_nodes_does_not_eat_the_queue_depth_of_those_that_come_later(policy: str):
    shift = _shift(*single(policy, looks=2), down=1)
    for name in ("w1", "w2", "w3"):
        shift.submit(name, 2, 10, cpu=32)
    shift.submit("fits", 1, 10, cpu=8)
    assert shift.group("fits").phase is Phase.RUNNING


def test_the_queue_depth_holds_also_for_those_that_come_later():
    shift = _shift(*single("hybrid", looks=2))
    shift.submit("running", 1, 60, cpu=32)
    for name in ("first", "second"):
        shift.submit(name, 2, 60, cpu=32)
    shift.submit("third", 1, 10, cpu=8)
    assert shift.group("third").phase is Phase.QUEUED


def test_a_plan_from_outside_does_not_open_a_queue_whose_head_waits():
    shift = _shift(*single("fcfs"))
    shift.submit("running", 1, 60, cpu=16)
    shift.submit("head", 2, 10, cpu=32)
    shift.submit("chosen", 1, 10, cpu=8)
    state = shift.world.engine.state
    start = Start(shift.group("chosen").id, (Placement("chosen-0", "n1"),))
    shift.world.tell(PlanProposed(Plan("outside-1", state.version, shift.world.now, "outside", (start,))))
    shift.world.run(MINUTE)
    shift.submit("late", 1, 10, cpu=8)
    assert shift.group("chosen").phase is Phase.RUNNING
    assert shift.group("late").phase is Phase.QUEUED


def _replace(shift: Shift, name: str, *numbers: int) -> None:
    """These members go, foreign pods take their nodes, and replacements come: -11 for -1."""
    world = shift.world
    for i in numbers:
        old = world.pods[f"{name}-{i}"]
        world.pod_gone(old.uid)
        world.pod(structs.replace(old, uid=f"foreign-{i}", name="foreign", scheduler="other", labels={}))
        old = structs.replace(old, node="", phase=PodPhase.PENDING, started=False)
        world.pod(structs.replace(old, uid=f"{name}-1{i}", name=f"{name}-1{i}"))
    world.run(MINUTE)


@pytest.mark.parametrize("policy", ["easy", "hybrid", "replan", "conservative"])
def test_what_was_promised_to_a_replacement_is_gone_once_it_has_started(policy: str):
    shift = _shift(*single(policy), nodes=3)
    shift.submit("gang", 2, 100, cpu=32)
    shift.submit("other", 1, 30, cpu=32)
    _replace(shift, "gang", 1)
    shift.submit("late", 1, 10, cpu=32)
    state = shift.world.engine.state
    assert shift.minute(state.promises[shift.group("gang").id].start) == 31
    shift.world.run(30 * MINUTE)
    assert shift.world.pods["gang-11"].node == "n2"
    assert list(state.promises) == [shift.group("late").id]
    shift.world.run(100 * MINUTE)
    assert not state.promises


@pytest.mark.parametrize("policy", ["hybrid", "replan", "conservative"])
def test_nobody_is_promised_the_place_of_the_first_of_two_replacements(policy: str):
    shift = _shift(*single(policy), nodes=4)
    shift.submit("gang", 3, 100, cpu=32)
    shift.submit("other", 1, 30, cpu=32)
    _replace(shift, "gang", 1, 2)
    shift.submit("late", 1, 10, cpu=32)
    assert shift.minute(shift.world.engine.state.promises[shift.group("gang").id].start) == 31
    assert shift.promised("late") == 100


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("policy", ["easy", "hybrid", "replan"])
def test_a_kept_promise_moves_not_past_the_head_of_another_queue(policy: str, nodes: int):
    queues = (QueueSettings(policy=policy), QueueSettings(name="kept", policy="conservative"))
    shift = _shift(*queues, nodes=nodes)

    def submit(name: str, queue: str, runs: int) -> None:
        for i in range(nodes):
            pod = Pod(
                f"{name}-{i}", "d", f"{name}-{i}", 0, Shape((("cpu", 32), ("pods", 1))), scheduler="fairlead",
                labels={"fairlead.dev/group": name, "fairlead.dev/group-size": str(nodes)},
                annotations={"fairlead.dev/queue": queue}, walltime=60 * MINUTE,
            )  # fmt: skip
            shift.world.pod(pod, run_time=runs * MINUTE)
        shift.world.run(MINUTE)

    submit("running", "default", 30)
    submit("head", "default", 60)
    submit("behind", "kept", 60)
    assert (shift.promised("head"), shift.promised("behind")) == (60, 120)
    shift.world.run(30 * MINUTE)
    assert shift.group("head").phase is Phase.RUNNING
    shift.world.run(90 * MINUTE)
    assert shift.minute(shift.group("behind").granted_at) == 90


@pytest.mark.parametrize("tebibytes", [4, 24])
@pytest.mark.parametrize(("match", "node"), [("pack", "n0"), ("spread", "n1")])
def test_the_load_of_nodes_with_very_much_memory_is_counted_right(tebibytes: int, match: str, node: str):
    memory = tebibytes << 40
    world = World(Settings(match=match, pace=0))
    for i in range(2):
        amounts = (("cpu", 64_000), ("memory", memory), ("pods", 110))
        world.node(Node(f"u{i}", f"n{i}", 0, amounts))
    for name, cpu, share in (("large", 1_000, 60), ("small", 2_000, 1)):
        shape = Shape((("cpu", cpu), ("memory", memory * share // 100), ("pods", 1)))
        world.pod(Pod(name, "d", name, 0, shape, scheduler="fairlead"))
        world.run(MINUTE)
    assert (world.pods["large"].node, world.pods["small"].node) == ("n0", node)


def test_who_shortens_its_walltime_keeps_its_place():
    shift = Shift(nodes=2, policy="conservative")
    shift.submit("running", 2, 60, cpu=32)
    for name, minutes in (("first", 60), ("second", 50), ("third", 40)):
        shift.submit(name, 2, minutes, cpu=32)
    assert [shift.promised(name) for name in ("first", "second", "third")] == [60, 120, 170]
    for uid in ("first-0", "first-1"):
        shift.world.change(uid, walltime=50 * MINUTE)
    shift.world.run(MINUTE)
    assert [shift.promised(name) for name in ("first", "second", "third")] == [60, 110, 160]
