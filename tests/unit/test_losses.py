"""Members that a running group loses: who takes their places, and groups that fail as a whole (L12)."""

from pathlib import Path
from typing import TypeVar

import pytest
from asking_support import MINUTE, START, amounts, gang, node
from msgspec import structs

from fairlead.core.snapshot import FIRST
from fairlead.core.state import State
from fairlead.model import command as cmd
from fairlead.model.group import Outcome, Phase, Why
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape
from fairlead.sim import scenario
from fairlead.sim.world import World

FOLDER = Path(__file__).resolve().parent.parent / "data" / "scenarios"
FAIL_ALL = {"fairlead.dev/on-member-failure": "fail-all"}


def play(name: str) -> scenario.Report:
    return scenario.run(scenario.read(FOLDER / f"{name}.scn"))


W = TypeVar("W", bound=World)


def world(nodes: int = 3) -> World:
    return started(World(), nodes)


def started(made: W, nodes: int = 3) -> W:
    made.now = START
    made.run(1)
    for i in range(nodes):
        made.node(node(f"n{i}", cpu=4))
    made.run(1)
    return made


def owned(
    w: World, kind: str, name: str, size: int, notes: dict[str, str] | None = None, *, label: bool = False
) -> Owner:
    """An owner of that kind and its pods, each as large as a node."""
    owner = Owner(f"uid-{name}", kind, "team-a", name, 0, size, annotations=notes or {})
    w.owner(owner)
    for i in range(size):
        w.pod(member(owner, i, size if label else 0))
    w.run(1_000)
    return owner


def member(owner: Owner, number: int, size: int = 0) -> Pod:
    labels = {"fairlead.dev/group": owner.name, "fairlead.dev/group-size": str(size)} if size else {}
    name = f"{owner.name}-{number}"
    ref = OwnerRef(owner.kind, owner.name, owner.uid)
    return Pod(name, "team-a", name, 0, Shape(amounts(cpu=4)), "fairlead", labels=labels, owner=ref)


def state(w: World) -> State:
    return w.engine.state


def ends(w: World) -> list[cmd.End]:
    return [command for _, command in w.log if isinstance(command, cmd.End)]


# -- who takes the place -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["member_lost", "member_lost_easy", "member_lost_conservative"])
def test_L12_B19_who_comes_for_a_lost_member_is_first_in_line(name: str):
    play(name)


def test_L12_as_many_are_first_in_line_as_were_lost():
    w = world()
    job = owned(w, "Job", "j", 3)
    w.change("j-0", phase=PodPhase.FAILED)
    w.change("j-1", phase=PodPhase.SUCCEEDED)
    for name in ("n0", "n1", "n2"):
        w.node(structs.replace(w.nodes[name], unschedulable=True))
    for number in (3, 4):
        w.pod(member(job, number))
    w.run(1_000)
    group = state(w).by_key["job:uid-j"]
    assert [request.order[0] for request in group.requests] == [FIRST, 0]
    assert [request.tasks[0].uids for request in group.requests] == [("j-3",), ("j-4",)]


def test_L12_a_member_that_is_going_is_replaced_at_once_where_there_is_room():
    w = world(nodes=4)
    job = owned(w, "Job", "j", 3)
    gang(w, "later", 2, cpu=4, priority=50)
    w.run(1_000)
    w.change("j-2", deleting=True)  # its grace runs, and its Job has brought another
    w.pod(member(job, 3))
    w.run(1_000)
    assert w.pods["j-3"].node == "n3"
    assert state(w).by_key["label:team-a/later"].phase is Phase.QUEUED


# -- fail-all ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["member_fail_all", "member_fail_all_not", "member_fail_all_restart"])
def test_L12_a_group_fails_as_a_whole_where_it_asks_for_that(name: str):
    play(name)


def test_L12_the_job_is_failed_by_its_uid_and_told_why():
    w = world()
    owned(w, "Job", "j", 3, FAIL_ALL)
    w.change("j-1", phase=PodPhase.FAILED)
    w.run(10)
    (end,) = ends(w)
    assert [ref.uid for ref in end.fail] == ["uid-j"] and not end.delete and not end.pods
    assert end.why is Why.FAILED and end.text.startswith("member j-1 failed on n1")
    w.run(MINUTE)
    (record,) = w.groups.values()
    assert (record.outcome, record.reason.why) == (Outcome.FAILED, Why.FAILED)
    assert "j-1" in record.reason.text
    notes = [c for _, c in w.log if isinstance(c, cmd.Announce) and c.reason == Why.FAILED]
    assert notes and all(note.warning and note.regarding.uid == "uid-j" for note in notes)


def test_L12_of_bare_pods_and_of_services_that_ask_only_the_pods_are_deleted():
    w = world(nodes=4)
    gang(w, "bare", 2, cpu=4, annotations=FAIL_ALL)
    owned(w, "ReplicaSet", "web", 2, notes=FAIL_ALL, label=True)
    w.change("bare-0", phase=PodPhase.FAILED)
    w.change("web-0", phase=PodPhase.FAILED)
    w.run(10)
    found = {end.group.split("#")[0]: end for end in ends(w)}
    assert [ref.uid for ref in found["label:team-a/bare"].pods] == ["bare-1"]
    assert [ref.uid for ref in found["label:team-a/web"].pods] == ["web-1"]
    assert all(not (end.fail or end.delete) for end in found.values())
    assert w.owners["uid-web"].ended == ""
    w.run(1_000)
    w.pod(member(w.owners["uid-web"], 2, 2))  # the set brings new ones: they start as a whole
    w.run(1_000)
    again = state(w).by_key["label:team-a/web"]
    assert again.incarnation == 1 and again.phase is Phase.HELD


def test_L12_services_that_do_not_ask_are_left_alone():
    w = world()
    owned(w, "StatefulSet", "db", 3, label=True)
    w.change("db-0", phase=PodPhase.FAILED)
    w.pod_gone("db-1")
    w.run(MINUTE)
    assert ends(w) == [] and w.pods["db-2"].node


def test_L12_a_replacement_does_not_hide_the_loss():
    """The Job controller brings a new pod as soon as one is told to go, before that one is gone."""
    w = world(nodes=4)
    job = owned(w, "Job", "j", 3, FAIL_ALL)
    w.change("j-2", deleting=True)
    w.pod(member(job, 3))
    w.run(500)
    assert not w.pods["j-3"].node
    w.pod_gone("j-2")
    w.run(2_000)
    (end,) = ends(w)
    assert "member j-2" in end.text and [ref.uid for ref in end.fail] == ["uid-j"]


def test_L12_a_whole_job_that_is_deleted_is_cancelled_not_failed():
    w = world()
    owned(w, "Job", "j", 3, FAIL_ALL)
    w.owner_gone("uid-j")
    for i in range(3):
        w.run(1_000)
        w.pod_gone(f"j-{i}")
    w.run(MINUTE)
    (record,) = w.groups.values()
    assert record.outcome is Outcome.CANCELLED and ends(w) == []


def test_L12_the_wish_may_be_changed_while_it_runs():
    w = world()
    gang(w, "g", 3, cpu=4)
    w.run(1_000)
    w.change("g-0", phase=PodPhase.FAILED)
    w.run(MINUTE)
    assert ends(w) == []
    w.change("g-1", annotations=FAIL_ALL)
    w.run(10)
    (end,) = ends(w)
    assert end.text.startswith("member g-0 failed on n0")


class Cut(World):
    """Requests to end something get lost while it is cut off."""

    cut = True

    def _end(self, end: cmd.End) -> None:
        if not self.cut:
            super()._end(end)


def test_L12_an_end_that_got_lost_with_its_process_is_asked_for_by_the_next():
    w = started(Cut())
    owned(w, "Job", "j", 3, FAIL_ALL)
    w.change("j-1", phase=PodPhase.FAILED)
    w.run(5)  # decided, and written down
    w.crash()
    (first,) = ends(w)
    w.run(10)
    w.cut = False
    w.start()
    w.run(MINUTE)
    _, again = ends(w)
    assert (again.text, again.why) == (first.text, first.why)
    assert [ref.uid for ref in again.fail] == ["uid-j"]
    (record,) = w.groups.values()
    assert record.outcome is Outcome.FAILED and record.reason.text == first.text
