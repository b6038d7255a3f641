"""EASY in a simulated world: what is promised, who overtakes, what the store is told, what explains it."""

import pytest

from fairlead.core import backfill
from fairlead.core.live import Group
from fairlead.core.running import expected_end
from fairlead.model import command as cmd
from fairlead.model.group import Outcome, Phase, Why
from fairlead.model.node import Node
from fairlead.model.plan import Reserve
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings, single
from fairlead.sim.world import Faults, World

MINUTE = 60_000


class Shift:
    """A world of whole minutes: groups of pods with a walltime that they use up."""

    def __init__(self, nodes: int = 4, policy: str = "easy") -> None:
        self.world = World(Settings(queues=single(policy), pace=0))
        self.begin = self.world.now
        for i in range(nodes):
            amounts = (("cpu", 32), ("gpu", 4), ("pods", 110))
            self.world.node(Node(uid=f"u{i}", name=f"n{i}", version=0, allocatable=amounts))

    def submit(self, name: str, members: int, minutes: int = 0, runs: int = 0, **amounts: int) -> None:
        requests = tuple(sorted({**amounts, "pods": 1}.items()))
        for i in range(members):
            pod = Pod(
                uid=f"{name}-{i}",
                namespace="d",
                name=f"{name}-{i}",
                version=0,
                shape=Shape(requests),
                scheduler="fairlead",
                labels={"fairlead.dev/group": name, "fairlead.dev/group-size": str(members)},
                walltime=minutes * MINUTE,  # the kubelets', so that one may overrun
            )
            self.world.pod(pod, run_time=(runs or minutes) * MINUTE)
        self.world.run(MINUTE)

    def cancel(self, name: str) -> None:
        for uid in [uid for uid in self.world.pods if uid.startswith(f"{name}-")]:
            self.world.pod_gone(uid)
        self.world.run(MINUTE)

    def group(self, name: str) -> Group:
        return next(g for g in self.world.engine.state.groups.values() if g.name == name)

    def minute(self, at: int) -> int:
        return (at - self.begin) // MINUTE

    def promised(self, name: str) -> int:
        """The minute of the promised start; -1 if there is none."""
        at = self.group(name).estimate
        return self.minute(at) if at else -1

    def stored(self) -> tuple[Reserve, ...]:
        """The promises that the store holds."""
        records = [c for _, c in self.world.log if isinstance(c, cmd.RecordAllocations)]
        return records[-1].reservations


def test_the_scenario_of_the_design_up_to_its_reservation():
    shift = Shift()
    shift.submit("big", 4, 60, gpu=4)
    shift.submit("wide", 4, 30, gpu=4)
    shift.submit("huge", 5, 10, gpu=4)
    assert shift.group("big").nodes == ("n0", "n1", "n2", "n3")
    assert shift.promised("wide") == 60
    assert "short of gpu" in shift.group("wide").reason.text
    assert shift.group("huge").outcome is Outcome.REJECTED
    shift.world.run(100 * MINUTE)
    assert shift.minute(shift.group("wide").granted_at) == 60


def test_B2_a_short_narrow_job_overtakes_and_a_long_one_does_not():
    shift = Shift(nodes=2)
    shift.submit("running", 1, 60, cpu=32)
    shift.submit("head", 2, 10, cpu=32)
    shift.submit("long", 1, 60, cpu=1)
    shift.submit("short", 1, 30, cpu=32)
    assert shift.promised("head") == 60
    assert shift.group("short").phase is Phase.RUNNING
    assert shift.group("long").phase is Phase.QUEUED
    assert shift.group("long").reason.why is Why.QUEUED
    shift.world.run(100 * MINUTE)
    assert shift.minute(shift.group("head").granted_at) == 60


def test_what_cpu_would_allow_the_promise_on_gpu_forbids():
    shift = Shift(nodes=1)
    shift.submit("running", 1, 60, cpu=1, gpu=3)
    shift.submit("head", 1, 10, cpu=1, gpu=4)
    shift.submit("gpu", 1, 120, cpu=1, gpu=1)
    shift.submit("cpu", 1, 120, cpu=30)
    assert shift.promised("head") == 60
    assert shift.group("gpu").phase is Phase.QUEUED
    assert shift.group("cpu").phase is Phase.RUNNING


def test_an_unlimited_job_does_not_overtake_on_promised_nodes():
    shift = Shift(nodes=2)
    shift.submit("running", 1, 60, cpu=32)
    shift.submit("head", 1, 10, runs=10, cpu=32, gpu=4)
    assert shift.group("head").phase is Phase.RUNNING
    shift.submit("second", 2, 10, cpu=32)
    shift.submit("forever", 1, cpu=1)
    assert shift.promised("second") == 60
    assert shift.group("forever").phase is Phase.QUEUED


def test_behind_unlimited_work_nothing_is_promised_and_only_what_ends_overtakes():
    shift = Shift(nodes=2)
    shift.submit("forever", 1, cpu=32)
    shift.submit("head", 2, 10, cpu=32)
    shift.submit("another", 1, cpu=1)
    shift.submit("bounded", 1, 10, cpu=1)
    assert shift.promised("head") == -1
    assert shift.group("head").reason.why is Why.RESOURCES
    assert shift.group("another").phase is Phase.QUEUED
    assert shift.group("bounded").phase is Phase.RUNNING


def test_a_promise_is_stored_and_goes_with_its_group():
    shift = Shift(nodes=1)
    shift.submit("running", 1, 60, cpu=32)
    assert shift.stored() == ()
    shift.submit("head", 1, 10, cpu=32)
    assert [(r.group, shift.minute(r.start), r.nodes) for r in shift.stored()] == [
        (shift.group("head").id, 60, ("n0",))
    ]
    shift.submit("next", 1, 10, cpu=32)
    shift.cancel("head")
    assert [r.group for r in shift.stored()] == [shift.group("next").id]
    assert shift.promised("next") == 60
    shift.cancel("next")
    assert shift.stored() == ()
    assert not shift.world.engine.state.promises


def test_a_start_ends_the_promise():
    shift = Shift(nodes=1)
    shift.submit("running", 1, 60, cpu=32)
    shift.submit("head", 1, 10, cpu=32)
    shift.world.run(60 * MINUTE)
    assert shift.group("head").phase is Phase.RUNNING
    assert shift.promised("head") == -1
    assert shift.stored() == ()


def test_an_early_end_moves_the_promise_earlier():
    shift = Shift(nodes=2)
    shift.submit("a", 1, 60, runs=20, cpu=32)
    shift.submit("b", 1, 40, cpu=32)
    shift.submit("head", 2, 10, cpu=32)
    assert shift.promised("head") == 60
    shift.world.run(20 * MINUTE)
    assert shift.promised("head") == 41


def test_an_overrun_moves_the_promise_without_any_other_event():
    shift = Shift(nodes=1)
    shift.submit("running", 1, 60, runs=90, cpu=32)
    shift.submit("head", 1, 10, cpu=32)
    assert shift.promised("head") == 60
    shift.world.run(59 * MINUTE)
    assert shift.promised("head") == 66  # a tenth of its walltime more
    shift.world.run(7 * MINUTE)
    assert shift.promised("head") == 78  # and twice that
    shift.world.run(30 * MINUTE)
    assert shift.minute(shift.group("head").granted_at) == 90


def test_a_lost_node_moves_the_promise():
    shift = Shift(nodes=3)
    shift.submit("long", 1, 60, cpu=32)
    shift.submit("short", 1, 20, cpu=32)
    shift.submit("head", 2, 10, cpu=32)
    assert shift.group("head").phase is Phase.QUEUED
    assert shift.promised("head") == 21
    shift.world.node_gone("n2")
    shift.world.run(MINUTE)
    assert shift.promised("head") == 60


class SlowPlanner(Faults):
    def plan_delay(self) -> int:
        return 100


def test_nobody_overtakes_by_leave_of_a_promise_that_is_void():
    shift = Shift(nodes=1)
    shift.submit("running", 1, 60, cpu=16)
    shift.submit("head", 1, 10, cpu=32)
    shift.world.faults = SlowPlanner()
    world, begin = shift.world, shift.world.now
    stale: list[str] = []
    world.at(50, lambda: world.pod_gone("head-0"))
    world.at(110, lambda: stale.append(world.engine.last_stale))
    shift.submit("short", 1, 10, cpu=16)
    assert stale == ["label:d/head#0 waits no more"]
    assert shift.group("short").granted_at > begin + 110  # by the next plan


def test_the_end_of_work_past_its_estimate():
    assert expected_end(0, 600_000, 5) == 600_000
    assert expected_end(0, 600_000, 599_999) == 600_000
    assert expected_end(0, 600_000, 600_000) == 600_001  # its end may be told in this very instant
    assert expected_end(0, 600_000, 600_001) == 605_000  # not seen to end yet, at any moment
    assert expected_end(0, 600_000, 605_000) == 610_000
    assert expected_end(0, 600_000, 629_999) == 630_000
    assert expected_end(0, 600_000, 630_000) == 660_000  # it overruns
    assert expected_end(0, 600_000, 660_000) == 660_001
    assert expected_end(0, 600_000, 660_001) == 780_000
    assert expected_end(0, 6_000_000, 6_030_001) == 6_600_000


def test_fcfs_never_looks_ahead(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("fcfs made a profile")

    monkeypatch.setattr(backfill.Profile, "__init__", refuse)
    shift = Shift(nodes=1, policy="fcfs")
    shift.submit("running", 1, 60, cpu=31)
    shift.submit("head", 1, 10, cpu=32)
    shift.submit("short", 1, 10, cpu=1)
    assert shift.group("head").phase is Phase.QUEUED
    assert shift.group("short").phase is Phase.QUEUED
    assert shift.promised("head") == -1
